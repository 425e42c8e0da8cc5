// The profile compared with its base: verdicts and differences, the base always first.

const SIGNS = { slower: "▲ slower", faster: "▼ faster" };

addSection("comparison", "Comparison", "comparison", (root, found) => {
  root.append(element("p", { class: "note" }, `${found.names.join(" → ")}: `,
    ["slower", "faster", "no significant difference", "inconclusive"]
      .map((verdict) => [verdict, found.tasks.filter((row) => row.verdict === verdict).length])
      .filter(([, tasks]) => tasks)
      .map(([verdict, tasks]) => `${verdict}: ${count(tasks, "task")}`).join("; "), "."));
  const limit = widestRatio(found.tasks);
  const gain = (row) => (row.ratio === null || row.base_ms === null ? null : row.base_ms * (row.ratio - 1));
  const columns = [
    { label: "task", value: (row) => names[row.task], cell: (row) => nameButton(row.task) },
    { label: "base", unit: "ms", number: true, value: (row) => row.base_ms, text: (row) => amount(row.base_ms, "ms") },
    { label: "new", unit: "ms", number: true, value: (row) => row.new_ms, text: (row) => amount(row.new_ms, "ms") },
    { label: "change", unit: "ms", number: true, key: true, size: (row) => Math.abs(gain(row)), value: gain, cell: (row) => element("span", { class: "change", style: { background: changeColour(row.ratio, "clear") } }, signedTime(gain(row))) },
    { label: "new ÷ base", number: true, key: true, value: (row) => row.ratio, text: (row) => inPercent(row.ratio) },
    { label: `interval, ÷ ${three.format(limit)} to × ${three.format(limit)}`, key: true, value: (row) => row.ratio, cell: (row) => forest(row, limit) },
    { label: "verdict", key: true, value: (row) => row.verdict, cell: (row) => verdictCell(row, found.reasons) },
  ];
  if (found.tasks.length) {
    root.append(sortable("Times of tasks compared", columns, found.tasks,
      { words: (row) => `${names[row.task]} ${row.verdict}`, sort: 3, task: (row) => row.task }),
    element("p", { class: "note" }, `${sentence(found.meaning)}.`));
  }
  if (found.reasons.length) {
    root.append(element("ol", { class: "note" }, found.reasons.map((reason) => element("li", {}, reason))));
  }
  root.append(differences(found));
});

function signedTime(ms) {
  if (ms === null) return "–";
  return `${ms > 0 ? "+" : ms < 0 ? "−" : "±"}${time(Math.abs(ms))}`;
}

function verdictCell(row, reasons) {
  const mark = SIGNS[row.verdict] || row.verdict;
  return element("span", { class: row.verdict in SIGNS ? row.verdict : null },
    mark, row.reason === null ? "" : element("sup", { title: reasons[row.reason] }, ` ${row.reason + 1}`));
}

/** Return how far the axis of ratios reaches: to the outermost end of an interval, at most 10. */
function widestRatio(rows) {
  let widest = 1.1;
  for (const row of rows) {
    for (const ratio of [row.low, row.high, row.ratio]) {
      if (ratio > 0) widest = Math.max(widest, ratio, 1 / ratio);
    }
  }
  return Math.min(10, widest);
}

/** Return a line from the low to the high end of a ratio's interval, on a logarithmic axis. */
function forest(row, limit) {
  const width = 190;
  const at = (ratio) => {
    const part = Math.log(ratio) / Math.log(limit);
    return width / 2 + (width / 2 - 4) * Math.max(-1, Math.min(1, part));
  };
  const chart = drawn("svg", { class: "chart", width, height: 16, "aria-hidden": "true" },
    drawn("line", { class: "middle", x1: width / 2, x2: width / 2, y1: 0, y2: 16 }));
  if (row.low > 0 && row.high > 0) {
    chart.append(drawn("rect", { class: "band", x: at(row.low), width: Math.max(1, at(row.high) - at(row.low)), y: 4, height: 8 }));
  }
  if (row.ratio > 0) chart.append(drawn("circle", { class: "sample", cx: at(row.ratio), cy: 8, r: 3 }));
  return chart;
}

/** Return the rows whose texts differ: name, text here, text in the base; `both`: of names that both sides have. */
function differing(here, base, both) {
  const [mine, theirs] = [new Map(here), new Map(base)];
  return [...new Map([...here, ...base]).keys()]
    .filter((name) => mine.get(name) !== theirs.get(name) && (!both || (mine.has(name) && theirs.has(name))))
    .map((name) => [name, mine.get(name), theirs.get(name)]);
}

function differences(found) {
  const pairs = element("div", { class: "pair" });
  const add = (title, heads, rows, numbers) => {
    if (!rows.length) return;
    const more = rows.length > 20 ? element("p", { class: "note" }, `and ${whole.format(rows.length - 20)} more`) : null;
    pairs.append(element("div", {}, element("h3", {}, title), plainTable(title, heads, rows.slice(0, 20), numbers), more));
  };
  // What only one side knows of its machine is no difference: a package that was not imported yet.
  const text = (value) => (value === undefined ? "–" : value);
  const withArrow = (name) => name.replace("->", " → ");
  const figures = (unit) => ([name, mine, base]) => [withArrow(name), amount(base, unit), amount(mine, unit)];
  add("Configuration that differs", ["parameter", "base", "new"], differing(rowsOfTexts(profile.configuration), rowsOfTexts(found.base.profile.configuration)).map(([name, mine, base]) => [name, text(base), text(mine)]));
  add("Environment that differs", ["part", "base", "new"], differing(rowsOfMachine(profile), rowsOfMachine(found.base.profile), true).map(([name, mine, base]) => [name, text(base), text(mine)]));
  add("Bytes of edges that differ", ["edge", "base", "new"], found.bits.map(([name, mine, base]) => figures("bytes")([name, mine / 8, base / 8])), [1, 2]);
  add("Instructions that differ", ["task", "base", "new"], found.instructions.map(figures("")), [1, 2]);
  add("Times of edges", ["edge", "new ÷ base", "verdict"], found.edges.map((row) => [withArrow(row.name), inPercent(row.ratio), verdictCell(row, found.reasons)]), [1]);
  add("Tasks that the base lacks", null, found.added.map((name) => [name]));
  add("Tasks that only the base has", null, found.removed.map((name) => [name]));
  return pairs;
}
