// All figures of the selected task.

let showGroup = () => {};

function panel() {
  const content = element("div", { class: "panel", tabindex: "0", role: "region", "aria-label": "The selected task" });
  const hint = element("p", { class: "note" }, "Select a task, here or in a table, to see its figures, samples, inputs and outputs.");
  let group = null;

  function show(task) {
    content.replaceChildren(...(task === null ? [hint] : about(task, group)));
    content.scrollTop = 0;
  }

  showGroup = (node) => {
    group = node;
    show(chosen);
  };
  whenChosen((task) => {
    if (group && !group.tasks.includes(task)) group = null;
    show(task);
  });
  show(null);
  return content;
}

function about(task, group) {
  const known = report.tasks.figures.filter((figure) => figure.values[task] !== null);
  const { cost, levels, slack } = report.tasks;
  const rows = known.map((figure) => [figure.label, amount(figure.values[task], figure.unit)]);
  if (cost) rows.push(["slack", amount(slack[task], report.summary.unit)], ["level", whole.format(levels[task])]);
  return [
    element("h3", {}, shownName(names[task])), chips(task), traceback(task, "the selected task"),
    element("dl", {}, rows.map(([label, value]) => [element("dt", {}, label), element("dd", {}, value)])),
    boundTo(task), againstBase(task), samplesOf(task),
    ends("Inputs", task, report.edges.target, report.edges.source),
    ends("Outputs", task, report.edges.source, report.edges.target),
    group ? members(group, task) : null,
  ].flat().filter(Boolean);
}

function chips(task) {
  const state = stateOf(task);
  const raised = flags.filter(({ tasks }) => tasks.includes(task));
  const made = [
    onPath.has(task) ? element("span", { class: "chip hot" }, "on the critical path") : null,
    state in STATES ? element("span", { class: "chip bad" }, stateSign(state)) : null,
    hasKinds ? element("span", { class: "chip kind" }, kindKey(kinds.of[task]), kinds.labels[kinds.of[task]]) : null,
    ...raised.map(({ flag, meaning }) => element("span", { class: "chip", title: meaning }, flag.replaceAll("_", " "))),
  ].filter(Boolean);
  return made.length ? element("div", { class: "chips" }, made) : null;
}

/** Return the values that the task's parameters were bound to. */
function boundTo(task) {
  const rows = rowsOfTexts((profile.run.bound || {})[names[task]]);
  if (!rows.length) return null;
  return [element("h4", {}, "Bound values"), element("dl", {}, rows.map(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]))];
}

function againstBase(task) {
  const row = changes[task];
  if (!row) return null;
  return [element("h4", {}, "Against the base"), element("dl", {},
    element("dt", {}, row.quantity || "time in compute()"), element("dd", {}, `${amount(row.base_ms, "ms")} → ${amount(row.new_ms, "ms")} (${inPercent(row.ratio)})`),
    element("dt", {}, "verdict"), element("dd", {}, verdictCell(row, report.comparison.reasons)))];
}

function ends(title, task, own, other) {
  const bytes = figureOf(report.edges, "size_bytes").values;
  const edges = [];
  own.forEach((end, edge) => {
    if (end === task) edges.push(edge);
  });
  if (!edges.length) return null;
  edges.sort((a, b) => (bytes[b] || 0) - (bytes[a] || 0));
  const rest = edges.length - 50;
  return [element("h4", {}, title), element("ul", {},
    edges.slice(0, 50).map((edge) => element("li", {},
      element("div", {}, nameButton(other[edge], false), element("div", { class: "note" }, report.edges.fields[edge])),
      element("span", {}, amount(bytes[edge], "bytes")))),
    rest > 0 ? element("li", {}, `and ${whole.format(rest)} more`) : null)];
}

function members(group, task) {
  const cost = report.tasks.cost || [];
  const order = [...group.tasks].sort((a, b) => (cost[b] || 0) - (cost[a] || 0));
  return [element("h4", {}, `In the group ${group.label}`), element("ul", {},
    order.slice(0, 50).map((one) => element("li", {}, one === task ? element("strong", {}, names[one]) : nameButton(one), element("span", {}, report.tasks.cost ? amount(cost[one], report.summary.unit) : ""))),
    order.length > 50 ? element("li", {}, `and ${whole.format(order.length - 50)} more; the table of tasks has all`) : null)];
}
