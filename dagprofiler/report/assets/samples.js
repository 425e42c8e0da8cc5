// The distribution of each task's samples.

addSection("samples", "Samples", "samples", (root, found) => {
  const [column] = found.columns;
  const { statistics } = found;
  const tasks = names.map((_, task) => task).filter((task) => measuredOf(found, column, task).length);
  const n = found.rounds.filter((kind) => kind === "measured").length;
  const reach = reachOf(found, column, tasks);
  const of = (what) => ({ number: true, value: (task) => statistics[task][what], text: (task) => amount(statistics[task][what], column.unit) });
  root.append(element("p", { class: "note" }, n > 1
    ? `${sentence(column.label)}, ${whole.format(n)} measured rounds. The middle of a strip is the task's median, its ends are ${percent(reach)} away; the band is the median's interval, and what lies farther stands at an end.`
    : `${sentence(column.label)}, one measured round.`));
  const columns = [{ label: "task", value: (task) => names[task], cell: (task) => nameButton(task) }];
  if (n > 1) {
    columns.push(
      { label: "samples", key: true, value: (task) => spread(found, column, task), cell: (task) => strip(found, column, task, reach) },
      { label: "median", key: true, ...of("median") },
      { label: "interval", value: (task) => statistics[task].high - statistics[task].low, number: true, text: (task) => (known(statistics[task].low) ? `${amount(statistics[task].low, column.unit)} to ${amount(statistics[task].high, column.unit)}` : "–") },
      { label: "MAD", title: "median absolute deviation", ...of("mad") },
      { label: "smallest", ...of("min") });
  }
  for (const other of n > 1 ? [] : found.columns) {
    columns.push({ label: other.label, number: true, value: (task) => firstOf(other, task), text: (task) => amount(firstOf(other, task), other.unit) });
  }
  root.append(sortable("Samples by task", columns, tasks, { task: (task) => task, words: (task) => names[task] }));
  if (found.left_out.length) root.append(element("p", { class: "note" }, `Left out, since too many for a page: ${found.left_out.join(", ")}.`));
});

function known(value) {
  return value !== null && value !== undefined;
}

function firstOf(column, task) {
  const known = (column.rows[task] || []).filter((value) => value !== null);
  return known.length ? known[0] : null;
}

function measuredOf(found, column, task) {
  return (column.rows[task] || []).filter((value, round) => value !== null && found.rounds[round] === "measured");
}

function middleOf(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

/** Return how far a task's samples are from their median, as a share of it: 90 % of them. */
function spread(found, column, task) {
  const values = measuredOf(found, column, task);
  const middle = middleOf(values);
  const away = values.map((value) => Math.abs(value - middle) / (middle || 1)).sort((a, b) => a - b);
  return away[Math.floor(0.9 * (away.length - 1))];
}

/** Return how far the strips reach: as far as most tasks need it. */
function reachOf(found, column, tasks) {
  const spreads = tasks.map((task) => spread(found, column, task)).sort((a, b) => a - b);
  const wanted = 1.2 * (spreads[Math.floor(0.8 * (spreads.length - 1))] || 0);
  return [0.01, 0.02, 0.05, 0.1, 0.2, 0.5].find((one) => one >= wanted) || 1;
}

function strip(found, column, task, reach) {
  const width = 240;
  const values = measuredOf(found, column, task);
  const middle = middleOf(values);
  const at = (value) => {
    const away = (value - middle) / ((middle || 1) * reach);
    return width / 2 + (width / 2 - 5) * Math.max(-1, Math.min(1, away));
  };
  const chart = drawn("svg", { class: "chart", width, height: 20, "aria-hidden": "true" },
    drawn("line", { class: "middle", x1: width / 2, x2: width / 2, y1: 0, y2: 20 }));
  const { low, high } = found.statistics[task];
  if (known(low) && known(high)) chart.append(drawn("rect", { class: "band", x: at(low), width: Math.max(1, at(high) - at(low)), y: 5, height: 10 }));
  values.forEach((value, i) => {
    const beyond = Math.abs(value - middle) > (middle || 1) * reach;
    chart.append(drawn("circle", { class: beyond ? "beyond" : "sample", cx: at(value), cy: 6 + (i % 5) * 2, r: 2 }));
  });
  return chart;
}

/** Return a chart of the chosen task's samples, round by round. */
function samplesOf(task) {
  const found = report.samples;
  const columns = found ? found.columns.filter((column) => column.rows[task] && column.rows[task].some((value) => value !== null)) : [];
  if (!columns.length || found.rounds.length < 2) return null;
  const choice = element("select", { "aria-label": "Which samples" }, columns.map((column, i) => element("option", { value: i }, column.label)));
  const place = element("div");
  const show = () => place.replaceChildren(byRound(found, columns[choice.value], task));
  choice.addEventListener("change", show);
  show();
  return [element("h4", {}, "Samples, round by round"), choice, place];
}

function byRound(found, column, task) {
  const [width, height, left] = [305, 120, 58];
  const values = column.rows[task];
  const known = values.filter((value) => value !== null);
  const [least, most] = [known.reduce((a, b) => Math.min(a, b)), known.reduce((a, b) => Math.max(a, b))];
  const margin = Math.max(0.1 * (most - least), 0.01 * Math.abs(most)) || 1;
  const [bottom, top] = [least - margin, most + margin];
  const x = (round) => left + 8 + ((width - left - 16) * (round + 0.5)) / values.length;
  const y = (value) => height - 18 - ((height - 28) * (value - bottom)) / (top - bottom);
  const chart = drawn("svg", { class: "chart", width, height, role: "img", "aria-label": `${column.label} by round: ${known.map((value) => amount(value, column.unit)).slice(0, 40).join(", ")}` });
  for (const value of new Set([least, most])) {
    chart.append(
      drawn("line", { class: "axis", x1: left, x2: width, y1: y(value), y2: y(value) }),
      drawn("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, amount(value, column.unit)));
  }
  const measured = measuredOf(found, column, task);
  if (measured.length > 1) {
    const middle = middleOf(measured);
    chart.append(drawn("line", { class: "middle", x1: left, x2: width, y1: y(middle), y2: y(middle) }));
  }
  values.forEach((value, round) => {
    if (value === null) return;
    const kind = found.rounds[round];
    chart.append(drawn("circle", { class: kind === "measured" ? "sample" : "aside", cx: x(round), cy: y(value), r: 3 },
      drawn("title", {}, `round ${round} (${kind}): ${amount(value, column.unit)}`)));
  });
  chart.append(drawn("text", { x: left, y: height - 3 }, found.rounds.every((kind) => kind === "measured") ? "rounds" : "rounds; hollow ones are not measured"));
  return chart;
}
