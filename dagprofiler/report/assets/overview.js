// The overview: makespan, where the time went, bottlenecks.

addSection("overview", "Overview", null, (root) => {
  const { about, summary } = report;
  const base = report.comparison ? report.comparison.base.summary : null;
  const tasks = count(summary.tasks, "task");
  root.append(
    element("h1", {}, summary.total_ms === null ? tasks : `${tasks} in ${time(summary.total_ms)}`),
    element("p", { class: "lead" }, [
      about.host, about.time, about.seed === null ? null : `seed ${about.seed}`,
      roundsInWords(about, summary), `dagprofiler ${about.version}`,
    ].filter(Boolean).join(" · ")));
  if (about.state === "partial") root.append(element("p", { class: "warning" }, element("strong", {}, "Partial run. "), about.reason || ""));
  const finding = findingInWords(summary);
  if (finding) root.append(element("p", { class: "finding" }, finding));
  root.append(element("dl", { class: "figures" }, headline(summary, base)));
  root.append(element("div", { class: "columns" }, mostExpensive(summary), speedLimits(summary)));
});

function roundsInWords(about, summary) {
  if (!about.rounds) return null;
  return about.rounds === 1 ? "one round" : `medians of ${summary.total ? summary.total.n : about.rounds} rounds`;
}

function findingInWords({ bottlenecks, path_length: span, unit }) {
  const first = (bottlenecks || []).find((one) => one.gain > 0);
  if (!first || !span) return null;
  const what = first.kind === "edge" ? `The edge ${first.name}` : first.name;
  const free = unit.endsWith("ms") ? "took no time" : `took no ${unit}`;
  return [
    element("strong", {}, what), ` is ${percent(first.cost / span)} of the critical path: if it ${free}, `,
    `the path would shorten from ${amount(span, unit)} to ${amount(span - first.gain, unit)}.`,
  ];
}

function headline(summary, base) {
  const { unit, total } = summary;
  const interval = total && total.low !== undefined && total.n > 1
    ? `${time(total.low)} to ${time(total.high)} (${percent(total.coverage)})` : null;
  const figures = [["Makespan", "total_ms", "ms", interval || (summary.total_ms === null ? "not recorded" : "from the first task to the last")]];
  if (unit !== undefined) {
    const path = count((report.tasks.path || []).length, "task");
    figures.push(
      ["Work", "work", unit, summary.filled ? `${count(summary.filled, "task")} without a time` : `${unit === "ms" ? "time in" : `${unit} of`} all tasks`],
      ["Critical path", "path_length", unit, summary.with_communication ? `${path} and their edges` : `${path}, edges not counted`],
      ["Parallelism", "parallelism", "", "largest speed-up on any number of workers"]);
  }
  figures.push(["Data on edges", "bytes", "bytes", `on ${count(summary.edges, "edge")}`]);
  return figures.map(([label, key, unit, note]) => element("div", {},
    element("dt", {}, label),
    element("dd", { class: "value" }, key === "parallelism" && summary[key] ? times(summary[key]) : amount(summary[key], unit)),
    element("dd", {}, base && base[key] ? `was ${key === "parallelism" ? times(base[key]) : amount(base[key], unit)}${change(summary[key], base[key])}` : note)));
}

function change(now, before) {
  if (!now || !before) return "";
  const by = now / before - 1;
  if (Math.abs(by) < 0.0005) return ", as now";
  return `, now ${by < 0 ? "−" : "+"}${percent(Math.abs(by))}`;
}

function mostExpensive(summary) {
  const cost = report.tasks.cost || figureOf(report.tasks, "compute_time_ms").values;
  const unit = report.tasks.cost ? summary.unit : "ms";
  if (!cost.length) return element("div", {}, element("h2", { class: "minor" }, "The costs of tasks are unknown"), element("p", { class: "note" }, summary.why_not));
  const phases = unit === "ms"
    ? [["deserialize", figureOf(report.tasks, "deserialize_time_ms")], ["compute", { values: cost }], ["serialize", figureOf(report.tasks, "serialize_time_ms")]]
    : [["compute", { values: cost }]];
  const shownPhases = phases.filter(([, figure]) => figure.values.length);
  const all = alike().map((tasks) => {
    const parts = shownPhases.map(([, { values }]) => tasks.reduce((sum, task) => sum + (values[task] || 0), 0));
    return { tasks, parts, whole: parts.reduce((a, b) => a + b, 0) };
  });
  const total = all.reduce((sum, one) => sum + one.whole, 0);
  const order = all.sort((a, b) => b.whole - a.whole).slice(0, 8);
  const bars = order.map((one) => element("li", {},
    stemButton(one.tasks, cost),
    element("span", { class: "track", "aria-hidden": "true" }, one.parts.map((value, i) => element("i", { class: shownPhases[i][0], style: { width: `${100 * share(value, order[0].whole)}%` } }))),
    element("span", { class: "amount" }, amount(one.whole, unit)),
    element("span", { class: "share", title: "of all tasks together" }, percent(one.whole / total))));
  const rest = cost.length - order.reduce((sum, { tasks }) => sum + tasks.length, 0);
  return element("div", {},
    element("h2", { class: "minor" }, unit === "ms" ? "Where the time went" : `Where the ${unit} went`),
    element("ul", { class: "bars" }, bars),
    element("ul", { class: "legend" },
      shownPhases.length > 1 ? shownPhases.map(([phase]) => element("li", {}, element("i", { class: phase }), phase)) : null,
      element("li", {}, element("span", { class: "dot", "aria-hidden": "true" }, "●"), "on the critical path"),
      rest > 0 ? element("li", {}, `and ${count(rest, "task")} more`) : null));
}

/** Return the tasks by themselves, or, where many are alike but for numbers in their names, together. */
function alike() {
  const stems = new Map();
  names.forEach((name, task) => {
    const stem = stemOf(name);
    if (!stems.has(stem)) stems.set(stem, []);
    stems.get(stem).push(task);
  });
  return names.length > 20 && stems.size > 1 && stems.size < names.length / 2 ? [...stems.values()] : names.map((_, task) => [task]);
}

function stemOf(name) {
  return name.replace(/\d+/g, "*");
}

function stemButton(tasks, cost) {
  const first = tasks.reduce((best, task) => (cost[task] > cost[best] ? task : best), tasks[0]);
  if (tasks.length === 1) return nameButton(first);
  const path = tasks.some((task) => onPath.has(task));
  const button = element("button", { type: "button", class: "name", title: `${stemOf(names[first])}, ${count(tasks.length, "task")}`, onclick: () => choose(first) }, stemOf(names[first]));
  return element("span", {}, button, element("span", { class: "note" }, `× ${whole.format(tasks.length)}`), path ? pathMark() : null);
}

function speedLimits(summary) {
  const { unit, bottlenecks, bounds } = summary;
  const made = element("div", { class: "stack" });
  if (!bounds) {
    made.append(element("h2", { class: "minor" }, "The critical path is unknown"), element("p", { class: "note" }, summary.why_not));
  }
  if (!bounds || !bounds.length) return made;
  const gains = bottlenecks.slice(0, 5).map((one) => [
    one.kind === "edge" ? `${one.name} (edge)` : one.name, amount(one.cost, unit), amount(one.gain, unit)]);
  made.append(
    element("h2", { class: "minor" }, "Bottlenecks of the critical path"),
    plainTable("Bottlenecks", ["task or edge", "cost", "gain if free"], gains, [1, 2]),
    element("h2", { class: "minor" }, "Speed-up with more workers"),
    bounds.length < 2 ? element("p", { class: "note" }, "None: each task waits for the one before it.") : plainTable("Bounds", ["workers", "makespan at least", "at most, if greedy", "speed-up at most"],
      bounds.map(([workers, least, speedup, most]) => [whole.format(workers), amount(least, unit), amount(most, unit), times(speedup)]), [0, 1, 2, 3]),
    element("details", {}, element("summary", {}, "How these figures are computed"),
      element("p", { class: "note" }, `Tasks: ${summary.provenance}. Edges: ${summary.communication}. `
        + `The critical path counts ${summary.with_communication ? "tasks and edges" : "only tasks"}; bounds assume equal workers and free communication.`)));
  return made;
}
