// The overview: what was measured, what to do first, where the time went.

addSection("overview", "Overview", null, (root) => {
  const { summary } = report;
  const { metadata, environment, run } = profile;
  const base = report.comparison ? report.comparison.base.summary : null;
  const took = outcome(summary);
  root.append(
    element("h1", {}, metadata.name ? `${metadata.name}: ${took}` : took),
    element("p", { class: "lead" }, [
      metadata.host, moment(metadata.taken), commitOf(environment), metadata.seed === null ? null : `seed ${metadata.seed}`, roundsInWords(run, summary),
    ].filter(Boolean).join(" · ")));
  if (profile.prediction.reasons) {
    const reasons = profile.prediction.reasons.map((reason) => element("li", {}, reason));
    root.append(element("div", { class: "warning" }, element("strong", {}, "Predicted, not measured. "), reasons.length ? element("ul", {}, reasons) : ""));
  }
  if (run.state === "partial") root.append(failureInWords(run));
  if (base) root.append(...verdictInWords(report.comparison));
  root.append(warningsInWords(), element("dl", { class: "figures" }, headline(summary, base)));
  const ofRun = report.makespan ? report.makespan.advice : [];
  const items = (ofRun.length ? ofRun : adviceWithoutTimes(summary)).map(adviceInWords);
  if (items.length) {
    root.append(element("h2", { class: "minor first" }, "What to do first"),
      element(items.length > 1 ? "ol" : "div", { class: "advice" }, items.map((words) => element(items.length > 1 ? "li" : "p", {}, words))));
  }
  if (report.makespan) root.append(makespanInParts(report.makespan));
  root.append(element("div", { class: "columns" }, mostExpensive(summary), speedLimits(summary)));
});

/** Return how many tasks ran, of how many, and in which time; a failed one by its name. */
function outcome({ total_ms: total }) {
  const tasks = names.length;
  const lost = Object.entries(states);
  const failed = lost.filter(([, entry]) => entry.state === "failed").map(([task]) => names[task]);
  const ran = lost.length ? `${whole.format(tasks - lost.length)} of ${count(tasks, "task")}` : count(tasks, "task");
  const more = failed.length > 1 ? ` and ${whole.format(failed.length - 1)} more` : "";
  return [
    total === null ? ran : `${ran} in ${time(total)}`,
    failed.length ? `; ${shortened(shownName(failed[0]), 40)}${more} failed` : profile.run.state === "partial" ? "; stopped" : "",
  ].join("");
}

function roundsInWords({ rounds }, { total }) {
  if (!rounds) return null;
  return rounds === 1 ? "one round" : `medians of ${total ? total.n : rounds} rounds`;
}

/** Return what failed, where, and what did not run because of it. */
function failureInWords({ reason }) {
  const lost = Object.entries(states);
  const failed = lost.filter(([, entry]) => entry.state === "failed").map(([task]) => Number(task));
  const others = ["skipped", "cancelled"].map((state) => [state, lost.filter(([, entry]) => entry.state === state).length]).filter(([, number]) => number);
  return element("div", { class: "warning" },
    element("p", {}, element("strong", {}, "The run did not finish. "), reason || ""),
    failed.slice(0, 3).map((task) => element("div", {}, element("p", {}, stateSign("failed"), ": ", nameButton(task, false)), traceback(task))),
    others.length ? element("p", { class: "note" }, `Because of it: ${others.map(([state, number]) => `${count(number, "task")} ${state}`).join(", ")}.`) : null);
}

/** Return where a task's error was raised: its frames, the last of them at the end. */
function traceback(task, called = names[task]) {
  const { error, traceback: frames } = states[task] || {};
  if (!frames || !frames.length) return error ? element("p", { class: "error" }, error) : null;
  return element("div", { class: "scroll traceback", tabindex: "0", role: "region", "aria-label": `Traceback of ${called}` },
    element("pre", {}, frames.map(({ file, line, function: name, text }) => [
      element("span", { class: "note" }, `${file}:${line}, in ${name}\n`), text ? `    ${text}\n` : ""]),
    element("strong", {}, error || "")));
}

/** Return the verdict on the whole, and what was compared. */
function verdictInWords({ names: sides, headline, total, base, reasons }) {
  const times = [base.profile, profile].map(({ metadata }) => moment(metadata.taken));
  return [
    element("p", { class: "finding" }, element("strong", { class: total.verdict in SIGNS ? total.verdict : null }, sentence(headline.replaceAll("->", "→")))),
    element("p", { class: "lead" }, sides.map((side, i) => [side, times[i]].filter(Boolean).join(", ")).join(" → "), ".",
      total.reason === null ? "" : ` ${sentence(reasons[total.reason])}.`),
  ];
}

/** Return what makes the figures doubtful, next to them. */
function warningsInWords() {
  const doubts = flags.filter(({ flag }) => ["contended", "wide_interval", "drifting", "outliers"].includes(flag));
  const words = { contended: "waited for a core", wide_interval: "measured in too few rounds, or too noisily", drifting: "drifted during the run", outliers: "with outliers" };
  if (!doubts.length) return "";
  return element("p", { class: "doubt" }, element("strong", {}, "⚠ Read these times with care: "),
    doubts.map(({ flag, tasks, meaning }, i) => [i ? "; " : "", element("span", { title: meaning }, `${count(tasks.length, "task")} ${words[flag]}`)]), ". ",
    element("a", { href: "#mind" }, "Which, and why"));
}

/** Return what the critical path says to do where no times of a run say more. */
function adviceWithoutTimes({ bottlenecks, span, unit, filled }) {
  const first = (bottlenecks || []).find((one) => one.gain > 0);
  if (!first || filled) return [];
  const why = `without it the critical path would be ${amount(first.gain, unit)} (${percent(first.gain / span)}) shorter, which is the gain with enough workers`;
  return [first.kind === "edge" ? { what: `move less data on ${first.name}`, why } : { what: "make {} cheaper", name: first.name, why }];
}

/** Return an advice; the name of a task, or of a kind of them, is a button. */
function adviceInWords({ what, name, why }) {
  const [before, after] = sentence(what).split("{}");
  const task = names.indexOf(name);
  const kind = kinds.labels.indexOf(name);
  const called = task >= 0 ? nameButton(task, false) : kind >= 0 ? kindButton(kind) : name;
  return [element("strong", {}, before, after === undefined ? "" : [called, after], ": "), `${why.replaceAll("->", "→").replace(/(\d)%/g, "$1 %")}.`];
}

/** Return the makespan as a bar, in parts that add up to it. */
function makespanInParts({ workers, round, makespan_ms: total, parts, labels }) {
  const shown = Object.entries(parts).filter(([, ms]) => ms > 0);
  const of = round === null ? "" : ", in the round nearest the median";
  return element("div", { class: "makespan" },
    element("h2", { class: "minor" }, `Where ${time(total)} went on ${count(workers, "worker")}${of}`),
    element("div", { class: "parts", "aria-hidden": "true" }, shown.map(([part, ms]) => element("i", { class: part, style: { flexGrow: ms / total } }))),
    element("ul", { class: "legend" }, shown.map(([part, ms]) => element("li", {},
      element("i", { class: part }), `${labels[part]} `, element("strong", {}, time(ms)), ` ${percent(ms / total)}`))));
}

/** Return the interval of a predicted makespan, if it has one: that of the last number of workers. */
function predictedInterval() {
  const curve = profile.prediction.curve || [];
  const ends = curve.length && curve[curve.length - 1].interval_ms;
  return ends ? `${time(ends[0])} to ${time(ends[1])} (95 %)` : null;
}

function headline(summary, base) {
  const { unit, total } = summary;
  const interval = total && total.low !== undefined && total.n > 1
    ? `${time(total.low)} to ${time(total.high)} (${percent(total.coverage)})` : predictedInterval();
  const unknown = profile.prediction.reasons ? "depends on the workers: simulate it" : "not recorded";
  const figures = [["Makespan", "total_ms", "ms", interval || (summary.total_ms === null ? unknown : "from the first task to the last")]];
  if (unit !== undefined) {
    const path = count((report.tasks.path || []).length, "task");
    figures.push(
      ["Work", "work", unit, summary.filled ? `${count(summary.filled, "task")} without a time` : `${unit === "ms" ? "time in" : `${unit} of`} all tasks`],
      ["Critical path", "span", unit, summary.with_communication ? `tasks alone; with edges ${amount(summary.with_edges, unit)}` : path],
      ["Parallelism", "parallelism", "", "largest speed-up on any number of workers"]);
  }
  figures.push(["Data on edges", "bytes", "bytes", `on ${count(report.edges.source.length, "edge")}`]);
  const text = (of, key, unit) => (key === "parallelism" && of[key] ? times(of[key]) : amount(of[key], unit));
  return figures.map(([label, key, unit, note]) => element("div", {},
    element("dt", {}, label),
    element("dd", { class: "value" }, text(summary, key, unit)),
    element("dd", {}, base && base[key] ? `base: ${text(base, key, unit)}${summary[key] ? ` (${inPercent(summary[key] / base[key])}${key === "total_ms" ? ", waits for a core included" : ""})` : ""}` : note)));
}

function mostExpensive(summary) {
  const cost = report.tasks.cost || figureOf(report.tasks, "time_ms").values;
  const unit = report.tasks.cost ? summary.unit : "ms";
  if (!cost.length) return element("div", {}, element("h2", { class: "minor" }, "The costs of tasks are unknown"), element("p", { class: "note" }, summary.why_not));
  const known = (task) => cost[task] !== null && cost[task] !== undefined;
  const all = membersOf.map((tasks, kind) => [kind, tasks.filter(known)]).filter(([, tasks]) => tasks.length)
    .map(([kind, tasks]) => ({ kind, tasks, total: tasks.reduce((sum, task) => sum + cost[task], 0) }));
  const work = all.reduce((sum, one) => sum + one.total, 0);
  const order = all.sort((a, b) => b.total - a.total).slice(0, 8);
  const bars = order.map((one) => element("li", {},
    kindButton(one.kind),
    element("span", { class: "track", "aria-hidden": "true" }, element("i", { class: "compute", style: { width: `${100 * share(one.total, order[0].total)}%` } })),
    element("span", { class: "amount" }, amount(one.total, unit)),
    element("span", { class: "share", title: "share of the work: of the costs of all tasks together" }, percent(one.total / work))));
  const without = names.filter((_, task) => !known(task)).length;
  const rest = names.length - without - order.reduce((sum, { tasks }) => sum + tasks.length, 0);
  return element("div", {},
    element("h2", { class: "minor" }, unit === "ms" ? "What tasks cost: time in compute(), share of the work" : `What tasks cost: ${unit}, share of the work`),
    element("ul", { class: "bars" }, bars),
    element("ul", { class: "legend" },
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
  made.append(
    element("h2", { class: "minor" }, "Gain if free: how much shorter the run would be"),
    gainTable(summary),
    element("h2", { class: "minor" }, "Speed-up with more workers"),
    bounds.length < 2 ? element("p", { class: "note" }, "None: each task waits for the one before it.") : plainTable("Bounds", ["workers", "makespan at least", "at most, if greedy", "speed-up at most"],
      bounds.map(([workers, least, most, speedup]) => [whole.format(workers), amount(least, unit), amount(most, unit), times(speedup)]), [0, 1, 2, 3]),
    element("details", {}, element("summary", {}, "How these figures are computed"),
      element("p", { class: "note" }, `Tasks: ${summary.provenance}. Edges: ${summary.communication}. `
        + `The critical path counts ${summary.with_communication ? "tasks and edges" : "only tasks"}; bounds assume equal workers and free communication.`)));
  return made;
}

/** Return what the run would gain if a task or an edge cost nothing: on its workers, and with enough. */
function gainTable({ bottlenecks, unit }) {
  const run = report.makespan;
  const of = (kind) => bottlenecks.filter((one) => one.kind === kind && one.gain > 0);
  const edges = of("edge").map((one) => [`${one.name.replace("->", " → ")} (edge)`, amount(one.cost, unit), amount(one.gain, unit)]);
  if (!run || !run.gains.length) {
    const rows = [...of("task").map((one) => [one.name, amount(one.cost, unit), amount(one.gain, unit)]), ...edges];
    return plainTable("Gains", ["task or edge", "cost", "with enough workers"], rows.slice(0, 5), [1, 2]);
  }
  const here = (ms) => element("span", { class: "pairs" }, element("span", {}, time(ms), ","), " ", element("span", {}, percent(ms / run.makespan_ms)));
  const called = ({ name, tasks }) => (tasks > 1 ? `${name} × ${whole.format(tasks)}` : name);
  const rows = run.gains.slice(0, 6).map((row) => [called(row), time(row.cost_ms), here(row.gain_ms), time(row.gain_enough_ms)]);
  return plainTable("Gains", ["task or edge", "cost", `on ${count(run.workers, "worker")}`, "with enough workers"],
    [...rows, ...edges.slice(0, 2).map(([name, cost, gain]) => [name, cost, "–", gain])], [1, 2, 3]);
}
