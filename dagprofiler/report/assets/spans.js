// Spans inside tasks: of the selected one as a flame, and those on the critical path in a table.

/** Return the spans of each task and round that its own thread recorded, with their levels. */
function spansInside() {
  const found = report.spans;
  const inside = new Map();
  if (!found) return inside;
  for (const [task, round, thread, label, start, end] of found.records) {
    const { kind, name } = found.labels[label];
    if (!["span", "async"].includes(kind) || !found.threads[thread].own) continue;
    const key = `${task} ${round}`;
    if (!inside.has(key)) inside.set(key, []);
    inside.get(key).push({ start, end, name });
  }
  for (const spans of inside.values()) nest(spans);
  return inside;
}

/** Give each span its level: 0 for those that begin while no other is open. */
function nest(spans) {
  spans.sort((a, b) => a.start - b.start || b.end - a.end);
  const around = [];
  for (const span of spans) {
    while (around.length && around[around.length - 1] <= span.start) around.pop();
    span.level = around.length;
    around.push(span.end);
  }
}

addSection("spans", "Spans", "spans", (root, found) => {
  const inside = spansInside();
  const round = report.timeline ? report.timeline.first : 0;
  const place = element("div", { class: "flame" });
  const heading = element("h3", {});
  const totals = new Map();
  for (const [task, , , , start, end] of found.records) totals.set(task, (totals.get(task) || 0) + end - start);
  const largest = [...totals.keys()].reduce((best, task) => (best === null || totals.get(task) > totals.get(best) ? task : best), null);

  function show() {
    const shown = inside.get(`${chosen} ${round}`) || [];
    heading.textContent = chosen === null ? "Inside a task" : `Inside ${shownName(names[chosen])}, round ${round}`;
    if (shown.length) {
      place.replaceChildren(flame(shown, place.clientWidth));
      return;
    }
    place.replaceChildren(element("p", { class: "note" }, "No spans were recorded in the selected task. ",
      largest === null ? null : ["The most are in ", nameButton(largest, false), "."]));
  }

  whenChosen(show);
  whenLookChanges(show);
  root.append(heading, place);
  if (found.critical) root.append(element("h3", {}, "On the critical path, by span"), criticalTable(found.critical));
  if (found.left_out) root.append(element("p", { class: "note" }, `${count(found.left_out, "span")} left out: too many for a page.`));
  return show;
});

/** Return a picture of nested spans over time, the outermost at the top. */
function flame(spans, width) {
  const [row, axis] = [24, 22];
  const from = spans[0].start;
  const until = spans.reduce((latest, { end }) => Math.max(latest, end), from);
  const levels = 1 + largestOf(spans.map(({ level }) => level));
  const x = (moment) => ((moment - from) / (until - from || 1)) * (width - 2);
  const named = [...new Set(spans.map(({ name }) => name))];
  const chart = drawn("svg", { class: "chart", width, height: axis + levels * row, role: "img", "aria-label": `${count(spans.length, "span")} over ${time(until - from)}: ${named.slice(0, 20).join(", ")}` });
  const step = niceStep((until - from) / Math.max(2, width / 110) || 1);
  for (let at = 0; at <= until - from; at += step) {
    chart.append(drawn("line", { class: "axis", x1: x(from + at), x2: x(from + at), y1: 0, y2: axis + levels * row }),
      drawn("text", { x: x(from + at) + 4, y: 13 }, time(at)));
  }
  for (const { start, end, level, name } of spans) {
    const size = Math.max(0.8, x(end) - x(start) - 1);
    const top = axis + level * row;
    const fitting = Math.floor((size - 8) / 6.6);
    chart.append(drawn("g", {},
      drawn("title", {}, `${name}: ${time(end - start)}, begins after ${time(start - from)}`),
      drawn("rect", { x: x(start), y: top, width: size, height: row - 2, rx: 2, style: { fill: `var(--${kindColour(named.indexOf(name))})`, fillOpacity: 0.5 } }),
      fitting > 2 ? drawn("text", { class: "strong", x: x(start) + 5, y: top + 15 }, shortened(name, fitting)) : null));
  }
  return chart;
}

function criticalTable({ spans, compute_ms: compute, uncovered_ms: uncovered, dropped }) {
  const columns = [
    { label: "span", value: (span) => span.name, text: (span) => span.name },
    { label: "in tasks", value: (span) => span.tasks.length, cell: (span) => element("span", {}, span.tasks.slice(0, 5).map((task, i) => [i ? ", " : "", nameButton(numbers.get(task), false)]), span.tasks.length > 5 ? ` and ${span.tasks.length - 5} more` : "") },
    { label: "calls per round", number: true, value: (span) => span.calls, text: (span) => three.format(span.calls) },
    { label: "time", unit: "ms", number: true, title: "while at least one was open, per round", value: (span) => span.total_ms, text: (span) => time(span.total_ms) },
    { label: "own time", key: true, unit: "ms", number: true, title: "without the spans inside it, per round", value: (span) => span.self_ms, text: (span) => amount(span.self_ms, "ms") },
    { label: "share of the path", key: true, number: true, value: (span) => span.self_ms, cell: (span) => withMeter(percent(span.self_ms / compute), share(span.self_ms, compute)) },
  ];
  return element("div", {},
    sortable("Spans on the critical path", columns, spans, { sort: 4, words: (span) => span.name }),
    element("p", { class: "note" }, `The tasks on the critical path compute for ${time(compute)} per round; ${time(uncovered)} of it are in no span.`,
      dropped ? ` ${count(dropped, "span")} were dropped for lack of room.` : ""));
}
