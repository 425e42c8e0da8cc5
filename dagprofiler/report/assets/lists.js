// Tables of tasks and edges; flags; the run, the machine, the configuration.

/** Figures that the table of tasks shows from the beginning. */
const SHOWN = ["time_ms", "deserialize_time_ms", "serialize_time_ms", "bytes_in", "bytes_out", "cpu_time_ms", "counted_instructions", "peak_memory_bytes"];

/** Return a part of a whole; null if it is not known. */
function shareOf(part, whole) {
  return part === null || !whole ? null : part / whole;
}

addSection("tasks", "Tasks", "tasks", (root, { figures, cost, levels, slack }) => {
  const { unit, work } = report.summary;
  const source = (report.summary.source || "").replaceAll("_", " ");
  const tasks = names.map((_, task) => task);
  const columns = [{ label: "task", value: (task) => names[task], cell: (task) => nameButton(task) }];
  if (Object.keys(states).length) columns.push({ label: "state", key: true, value: stateOf, cell: (task) => element("span", { class: stateOf(task) in STATES ? "slower" : null }, stateSign(stateOf(task))) });
  if (hasKinds) columns.push({ label: "kind", value: (task) => kinds.labels[kinds.of[task]], cell: (task) => element("span", { class: "kind" }, kindKey(kinds.of[task]), kinds.labels[kinds.of[task]]) });
  if (cost) {
    const most = largestOf(cost);
    columns.push(
      { label: unit.endsWith("ms") ? source : unit, unit: unit === "ms" ? unit : "", title: report.summary.provenance, number: true, key: true, value: (task) => cost[task], cell: (task) => withMeter(amount(cost[task], unit), share(cost[task], most)) },
      { label: "share of work", number: true, key: true, title: "of the costs of all tasks together", value: (task) => shareOf(cost[task], work), text: (task) => percent(shareOf(cost[task], work)) },
      { label: "slack", unit, number: true, title: "possible delay without a longer critical path", value: (task) => slack[task], text: (task) => amount(slack[task], unit) });
  }
  if (report.comparison) columns.push({ label: "against the base", number: true, key: true, value: (task) => changes[task] && changes[task].ratio, cell: (task) => changeCell(changes[task] ? changes[task].ratio : null) });
  const flagged = names.map(() => []);
  for (const { flag, tasks } of flags) for (const task of tasks) flagged[task].push(flag.replaceAll("_", " "));
  if (flags.length) columns.push({ label: "flags", key: true, value: (task) => flagged[task].join(", "), text: (task) => flagged[task].join(", "), long: true });
  const always = !cost || figures.length < 7;
  for (const figure of figures.filter(({ key }) => source !== "time" || key !== "time_ms")) {
    columns.push({ label: figure.label, unit: figure.unit, number: true, extra: !always && !SHOWN.includes(figure.key), value: (task) => figure.values[task], text: (task) => amount(figure.values[task], figure.unit) });
  }
  if (cost) columns.push({ label: "level", number: true, extra: true, value: (task) => levels[task], text: (task) => whole.format(levels[task]) });
  root.append(sortable("Tasks", columns, tasks, { sort: cost ? columns.findIndex((column) => column.label === "share of work") : null, words: (task) => `${names[task]} ${stateOf(task)}`, task: (task) => task }));
});

addSection("edges", "Edges", "edges", (root, { source, target, fields, figures }) => {
  const edges = source.map((_, edge) => edge);
  if (!edges.length) {
    root.append(element("p", { class: "note" }, "The DAG has no edges."));
    return;
  }
  const columns = [
    { label: "from", value: (edge) => names[source[edge]], cell: (edge) => nameButton(source[edge], false) },
    { label: "to", key: true, value: (edge) => names[target[edge]], cell: (edge) => nameButton(target[edge], false) },
    { label: "fields", key: true, value: (edge) => fields[edge], text: (edge) => fields[edge], long: true },
  ];
  for (const figure of figures) {
    const most = largestOf(figure.values);
    const text = (edge) => amount(figure.values[edge], figure.unit);
    columns.push({
      label: figure.label, unit: figure.unit, number: true, key: figure.key === "size_bytes", value: (edge) => figure.values[edge], text,
      cell: figure.key === "size_bytes" ? (edge) => withMeter(text(edge), share(figure.values[edge], most)) : null,
    });
  }
  root.append(sortable("Edges", columns, edges, {
    sort: figures.length ? 3 : null,
    words: (edge) => `${names[source[edge]]} ${names[target[edge]]} ${fields[edge]}`,
  }));
});

addSection("mind", "Flags", "flags", (root) => {
  root.append(element("ul", { class: "minds" }, flags.map(({ flag, meaning, tasks }) => element("li", {},
    element("strong", {}, flag.replaceAll("_", " ")), ` · ${count(tasks.length, "task")}. `, meaning,
    element("div", { class: "chips" }, tasks.slice(0, 12).map((task) => element("span", { class: "chip" }, nameButton(task, false))),
      tasks.length > 12 ? element("span", { class: "note" }, `and ${whole.format(tasks.length - 12)} more`) : null)))));
});

addSection("about", "Run and machine", null, (root) => {
  const table = (title, rows) => (rows.length ? [element("h3", {}, title), plainTable(title, null, rows)] : null);
  root.append(element("div", { class: "pair" },
    element("div", { class: "stack" }, table("Configuration", rowsOfTexts(profile.configuration)), table("Run", rowsOfRun(profile))),
    element("div", { class: "stack" }, table("Machine", [...rowsOfMachine(profile), ...rowsOfSpeed(profile)]), table("Not measured", rowsOfTexts(profile.not_measured)))));
});
