// The overview: what was measured, what to do first, where the time went.

addSection("overview", "Overview", null, (root) => {
  const { about, summary } = report;
  const base = report.comparison ? report.comparison.base.summary : null;
  const tasks = count(summary.tasks, "task");
  const took = summary.total_ms === null ? tasks : `${tasks} in ${time(summary.total_ms)}`;
  root.append(
    element("h1", {}, about.name ? `${about.name}: ${took}` : took),
    element("p", { class: "lead" }, [
      about.host, about.time, about.commit, about.seed === null ? null : `seed ${about.seed}`, roundsInWords(about, summary),
    ].filter(Boolean).join(" · ")));
  if (about.predicted) {
    const reasons = about.predicted.map((reason) => element("li", {}, reason));
    root.append(element("div", { class: "warning" }, element("strong", {}, "Predicted, not measured. "), reasons.length ? element("ul", {}, reasons) : ""));
  }
  if (about.state === "partial") root.append(failureInWords(about));
  if (base) root.append(...verdictInWords(report.comparison));
  root.append(warningsInWords(), element("dl", { class: "figures" }, headline(summary, base)));
  const advice = adviceFor(summary);
  if (advice.length) {
    root.append(element("h2", { class: "minor first" }, "What to do first"),
      element(advice.length > 1 ? "ol" : "div", { class: "advice" }, advice.map((words) => element(advice.length > 1 ? "li" : "p", {}, words))));
  }
  root.append(element("div", { class: "columns" }, mostExpensive(summary), speedLimits(summary)));
});

function roundsInWords(about, summary) {
  if (!about.rounds) return null;
  return about.rounds === 1 ? "one round" : `medians of ${summary.total ? summary.total.n : about.rounds} rounds`;
}

/** Return what failed, where, and what did not run because of it. */
function failureInWords(about) {
  const states = Object.entries(report.tasks.states);
  const failed = states.filter(([, entry]) => entry.state === "failed").map(([task]) => Number(task));
  const others = ["skipped", "cancelled"].map((state) => [state, states.filter(([, entry]) => entry.state === state).length]).filter(([, number]) => number);
  return element("div", { class: "warning" },
    element("p", {}, element("strong", {}, "The run did not finish. "), about.reason || ""),
    failed.slice(0, 3).map((task) => element("div", {}, element("p", {}, stateSign("failed"), ": ", nameButton(task, false)), traceback(task))),
    others.length ? element("p", { class: "note" }, `Because of it: ${others.map(([state, number]) => `${count(number, "task")} ${state}`).join(", ")}.`) : null);
}

/** Return where a task's error was raised: its frames, the last of them at the end. */
function traceback(task, called = names[task]) {
  const { error, traceback: frames } = report.tasks.states[task] || {};
  if (!frames || !frames.length) return error ? element("p", { class: "error" }, error) : null;
  return element("div", { class: "scroll traceback", tabindex: "0", role: "region", "aria-label": `Traceback of ${called}` },
    element("pre", {}, frames.map(({ file, line, function: name, text }) => [
      element("span", { class: "note" }, `${file}:${line}, in ${name}\n`), text ? `    ${text}\n` : ""]),
    element("strong", {}, error || "")));
}

/** Return the verdict on the whole, and what was compared. */
function verdictInWords({ names: sides, headline, total, base, reasons }) {
  const times = [base.about.time, report.about.time];
  return [
    element("p", { class: "finding" }, element("strong", { class: total.verdict in SIGNS ? total.verdict : null }, sentence(headline.replaceAll("->", "→")))),
    element("p", { class: "lead" }, sides.map((side, i) => [side, times[i]].filter(Boolean).join(", ")).join(" → "), ".",
      total.reason === null ? "" : ` ${sentence(reasons[total.reason])}.`),
  ];
}

/** Return what makes the figures doubtful, next to them. */
function warningsInWords() {
  const flags = (report.flags || []).filter(({ flag }) => ["contended", "wide_interval", "drifting", "outliers"].includes(flag));
  const words = { contended: "waited for a core", wide_interval: "measured in too few rounds, or too noisily", drifting: "drifted during the run", outliers: "with outliers" };
  if (!flags.length) return "";
  return element("p", { class: "doubt" }, element("strong", {}, "⚠ Read these times with care: "),
    flags.map(({ flag, tasks, meaning }, i) => [i ? "; " : "", element("span", { title: meaning }, `${count(tasks.length, "task")} ${words[flag]}`)]), ". ",
    element("a", { href: "#mind" }, "Which, and why"));
}

/** Return up to three things to do, the one that promises the shortest makespan first. */
function adviceFor({ bottlenecks, with_edges: path, with_communication: edges, work, unit, total_ms: total, parallelism, filled }) {
  if (!path || filled) return [];
  const advice = [];
  const add = (gain, what, why) => advice.push({ gain, words: [element("strong", {}, what, ": "), why] });
  const workers = report.timeline ? report.timeline.workers.length : 1;
  const first = bottlenecks.find((one) => one.gain > 0);
  const [simulated] = gainsOf(report.prediction);
  if (simulated) {
    const [kind, gain] = simulated;
    if (gain > 0) add(gain * total, `Make ${kind} twice as fast`, `the whole would be ${percent(gain)} shorter, by simulation.`);
  } else if (hasKinds && membersOf[0].length > 1 && parallelism > 1.5 * workers) {
    const spent = membersOf[0].reduce((sum, task) => sum + (report.tasks.cost[task] || 0), 0);
    add(spent / workers, ["Make ", kindButton(0), " cheaper"], `${percent(spent / work)} of the work, ${amount(spent, unit)} of ${amount(work, unit)}.`);
  } else if (first) {
    add(first.gain, first.kind === "edge" ? `Move less data on ${first.name}` : ["Make ", nameButton(names.indexOf(first.name), false), " faster"],
      `it is ${percent(first.cost / path)} of the critical path${edges ? ", edges included" : ""}; if it ${unit.endsWith("ms") ? "took no time" : `took no ${unit}`}, the path would shorten from ${amount(path, unit)} to ${amount(path - first.gain, unit)}.`);
  }
  // With equal workers no list schedule takes longer than this (Graham, 1969).
  const greedy = work / workers + path * (1 - 1 / workers);
  const inTime = unit === "ms" && total;
  // A simulation has shown what more workers do.
  if (inTime && !report.prediction && parallelism > 1.3 * workers) {
    const more = Math.min(2 ** Math.ceil(Math.log2(parallelism)), workers * 4);
    const best = Math.max(work / more, path);
    add(greedy - best, `Use more than ${count(workers, "worker")}`, `on average ${three.format(parallelism)} tasks could run at once; ${count(more, "worker")} could take ${time(best)} instead of ${time(greedy)}, not counting what is outside of tasks.`);
  }
  // The makespan holds what tasks waited for a core, which their times may leave out.
  const sum = (key) => figureOf(report.tasks, key).values.reduce((whole, value) => whole + (value || 0), 0);
  const outside = total - greedy * Math.max(1, sum("compute_time_ms") / work);
  if (inTime && outside > 0.25 * total && outside > 1) {
    const moving = (sum("serialize_time_ms") + sum("deserialize_time_ms")) / workers;
    if (moving > outside / 2) add(moving, "Move less data between tasks", `serializing and deserializing take ${percent(moving / total)} of the makespan.`);
    else add(outside, work / names.length < 1 ? "Make tasks larger" : "Look outside of the tasks", `${percent(outside / total)} of the makespan is not spent in compute(), but on starting tasks, moving data, or waiting.`);
  }
  return advice.sort((a, b) => b.gain - a.gain).map(({ words }) => words);
}

/** Return the interval of a predicted makespan, if it has one: that of the last number of workers. */
function predictedInterval() {
  const curve = (report.prediction || {}).curve || [];
  const ends = curve.length && curve[curve.length - 1].interval_ms;
  return ends ? `${time(ends[0])} to ${time(ends[1])} (95 %)` : null;
}

function headline(summary, base) {
  const { unit, total } = summary;
  const interval = total && total.low !== undefined && total.n > 1
    ? `${time(total.low)} to ${time(total.high)} (${percent(total.coverage)})` : predictedInterval();
  const unknown = report.about.predicted ? "depends on the workers: simulate it" : "not recorded";
  const figures = [["Makespan", "total_ms", "ms", interval || (summary.total_ms === null ? unknown : "from the first task to the last")]];
  if (unit !== undefined) {
    const path = count((report.tasks.path || []).length, "task");
    figures.push(
      ["Work", "work", unit, summary.filled ? `${count(summary.filled, "task")} without a time` : `${unit === "ms" ? "time in" : `${unit} of`} all tasks`],
      ["Critical path", "span", unit, summary.with_communication ? `tasks alone; with edges ${amount(summary.with_edges, unit)}` : path],
      ["Parallelism", "parallelism", "", "largest speed-up on any number of workers"]);
  }
  figures.push(["Data on edges", "bytes", "bytes", `on ${count(summary.edges, "edge")}`]);
  const text = (of, key, unit) => (key === "parallelism" && of[key] ? times(of[key]) : amount(of[key], unit));
  return figures.map(([label, key, unit, note]) => element("div", {},
    element("dt", {}, label),
    element("dd", { class: "value" }, text(summary, key, unit)),
    element("dd", {}, base && base[key] ? `base: ${text(base, key, unit)}${summary[key] ? ` (${inPercent(summary[key] / base[key])})` : ""}` : note)));
}

function mostExpensive(summary) {
  const cost = report.tasks.cost || figureOf(report.tasks, "time_ms").values;
  const unit = report.tasks.cost ? summary.unit : "ms";
  if (!cost.length) return element("div", {}, element("h2", { class: "minor" }, "The costs of tasks are unknown"), element("p", { class: "note" }, summary.why_not));
  const phases = unit === "ms"
    ? [["deserialize", figureOf(report.tasks, "deserialize_time_ms")], ["compute", { values: cost }], ["serialize", figureOf(report.tasks, "serialize_time_ms")]]
    : [["compute", { values: cost }]];
  const shownPhases = phases.filter(([, figure]) => figure.values.length);
  const known = (task) => shownPhases.some(([, { values }]) => values[task] !== null && values[task] !== undefined);
  const all = membersOf.map((tasks) => tasks.filter(known)).map((tasks, kind) => {
    const parts = shownPhases.map(([, { values }]) => tasks.reduce((sum, task) => sum + (values[task] || 0), 0));
    return { kind, tasks, parts, whole: parts.reduce((a, b) => a + b, 0) };
  });
  const total = all.reduce((sum, one) => sum + one.whole, 0);
  const order = all.filter(({ tasks }) => tasks.length).sort((a, b) => b.whole - a.whole).slice(0, 8);
  const bars = order.map((one) => element("li", {},
    kindButton(one.kind),
    element("span", { class: "track", "aria-hidden": "true" }, one.parts.map((value, i) => element("i", { class: shownPhases[i][0], style: { width: `${100 * share(value, order[0].whole)}%` } }))),
    element("span", { class: "amount" }, amount(one.whole, unit)),
    element("span", { class: "share", title: "of all tasks together" }, percent(one.whole / total))));
  const without = names.filter((_, task) => !known(task)).length;
  const rest = names.length - without - order.reduce((sum, { tasks }) => sum + tasks.length, 0);
  const words = { deserialize: "deserializing", compute: unit === "ms" ? "in compute()" : unit, serialize: "serializing" };
  return element("div", {},
    element("h2", { class: "minor" }, unit === "ms" ? "Where the time went" : `Where the ${unit} went`),
    element("ul", { class: "bars" }, bars),
    element("ul", { class: "legend" },
      shownPhases.length > 1 ? shownPhases.map(([phase]) => element("li", {}, element("i", { class: phase }), words[phase])) : null,
      onPath.size ? element("li", {}, element("span", { class: "dot", "aria-hidden": "true" }, "●"), "on the critical path") : null,
      rest > 0 ? element("li", {}, `and ${count(rest, "task")} more`) : null,
      without ? element("li", {}, `${count(without, "task")} without a time`) : null));
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
