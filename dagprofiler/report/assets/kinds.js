// Tasks by kind: how many there are, what they cost, and how their costs are distributed.

addSection("kinds", "Kinds of tasks", null, (root) => {
  if (!hasKinds) return;
  const cost = report.tasks.cost || figureOf(report.tasks, "time_ms").values;
  const unit = report.tasks.cost ? report.summary.unit : "ms";
  const rows = kindRows(cost);
  const total = rows.reduce((sum, row) => sum + row.total, 0);
  const [least, most] = rows.reduce(([low, high], { sorted }) => [
    Math.min(low, sorted.find((value) => value > 0) || Infinity), Math.max(high, sorted[sorted.length - 1] || 0)], [Infinity, 0]);
  const figure = (label, key, title) => ({ label, unit, title, key: key === "total", number: true, value: (row) => row[key], text: (row) => amount(row[key], unit) });
  const columns = [
    { label: "kind", value: (row) => kinds.labels[row.kind], cell: (row) => element("span", { class: "kind" }, kindKey(row.kind), kindButton(row.kind)) },
    { label: "tasks", number: true, key: true, value: (row) => membersOf[row.kind].length, text: (row) => whole.format(membersOf[row.kind].length) },
    figure("total", "total"),
    { label: "share of work", number: true, key: true, value: (row) => row.total / total, cell: (row) => withMeter(percent(row.total / total), share(row.total, total)) },
    figure("median", "median"),
    figure("95th percentile", "p95", "95 % of the tasks of this kind cost at most this"),
    { label: `distribution, ${amount(least, unit)} to ${amount(most, unit)}, logarithmic`, key: true, value: (row) => row.median, cell: (row) => histogram(row, least, most) },
  ];
  if (report.comparison) {
    columns.splice(4, 0, { label: "against the base", number: true, value: (row) => ratioOf(membersOf[row.kind]), cell: (row) => changeCell(ratioOf(membersOf[row.kind])) });
  }
  root.append(
    element("p", { class: "note" }, `Tasks are of one kind if ${report.growth ? "one rule added them, or " : ""}their names differ only in numbers. A click on a kind finds its tasks in all parts of the page.`),
    sortable("Kinds of tasks", columns, rows, { sort: 2, words: (row) => kinds.labels[row.kind] }));
});

function kindRows(cost) {
  return membersOf.map((tasks, kind) => {
    const sorted = tasks.map((task) => cost[task]).filter((value) => value !== null && value !== undefined).sort((a, b) => a - b);
    return {
      kind, sorted, total: sorted.reduce((sum, value) => sum + value, 0),
      median: sorted.length ? middleOf(sorted) : null,
      p95: sorted.length ? sorted[Math.ceil(0.95 * sorted.length) - 1] : null,
    };
  });
}

/** Return how many tasks of a kind have which cost, on an axis that all kinds share. */
function histogram({ kind, sorted }, least, most) {
  const [width, height, bins] = [190, 26, 38];
  const at = (value) => Math.max(0, Math.min(bins - 1, Math.floor((bins * Math.log(value / least)) / (Math.log(most / least) || 1))));
  const counts = Array(bins).fill(0);
  for (const value of sorted) counts[value > 0 ? at(value) : 0] += 1;
  const highest = largestOf(counts);
  return drawn("svg", { class: "chart", width, height, "aria-hidden": "true" },
    drawn("line", { class: "axis", x1: 0, x2: width, y1: height - 0.5, y2: height - 0.5 }),
    counts.map((number, i) => (number ? drawn("rect", {
      x: (i * width) / bins, width: width / bins - 0.5, y: height - 1 - (height - 2) * (number / highest), height: (height - 2) * (number / highest),
      style: { fill: `var(--${kindColour(kind)})` },
    }, drawn("title", {}, count(number, "task"))) : null)));
}

function changeCell(ratio) {
  return element("span", { class: "change", style: { background: changeColour(ratio, "clear") } }, inPercent(ratio));
}
