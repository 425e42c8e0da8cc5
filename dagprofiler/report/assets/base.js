// Shared by all parts of the page: the data, elements, formatted numbers, the selected task.

const report = JSON.parse(document.getElementById("data").textContent);
const { names, profile } = report;
const numbers = new Map(names.map((name, task) => [name, task]));
const onPath = new Set(report.tasks.path || []);

/** Return an element; texts among its children become text nodes, so that none is ever markup. */
function element(tag, properties, ...children) {
  const made = document.createElement(tag);
  return filled(made, properties, children);
}

function drawn(tag, properties, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  return filled(made, properties, children);
}

function filled(made, properties, children) {
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(made.style, value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return made;
}

// Numbers

const four = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const three = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const PREFIXES = ["", "k", "M", "G", "T", "P", "E"];

function scaled(value, units, step = 1000) {
  let at = 0;
  while (Math.abs(value) >= step * 0.9995 && at < units.length - 1) {
    value /= step;
    at += 1;
  }
  return `${Math.abs(value) >= 1000 ? whole.format(value) : three.format(value)} ${units[at]}`.trim();
}

function time(ms) {
  const size = Math.abs(ms);
  if (size === 0) return "0 ms";
  if (size < 0.001) return `${three.format(ms * 1e6)} ns`;
  if (size < 0.9995) return `${three.format(ms * 1e3)} µs`;
  if (size < 999.5) return `${three.format(ms)} ms`;
  if (size < 599950) return `${three.format(ms / 1e3)} s`;
  return size < 36e5 ? `${three.format(ms / 6e4)} min` : `${three.format(ms / 36e5)} h`;
}

/** Return a figure with its unit; a dash for one that is not known. */
function amount(value, unit) {
  if (value === null || value === undefined) return "–";
  if (unit === "ms") return time(value);
  if (unit === "reference ms") return `${time(value)} (ref.)`;
  if (unit === "bytes") return scaled(value, ["B", "kB", "MB", "GB", "TB", "PB", "EB"]);
  return scaled(value, PREFIXES);
}

/** Return a ratio with three digits, also where the last are 0. */
function times(ratio) {
  if (ratio === null || ratio === undefined) return "–";
  return `${ratio < 999.5 ? ratio.toPrecision(3) : whole.format(ratio)} ×`;
}

function percent(part) {
  if (!Number.isFinite(part)) return "–";
  return `${part > 0 && part < 0.001 ? "<0.1" : three.format(Math.round(part * 1000) / 10)} %`;
}

function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function count(number, what) {
  return `${whole.format(number)} ${what}${number === 1 ? "" : "s"}`;
}

/** Return the figure with a key of all tasks, or edges; without any values if there is none. */
function figureOf(part, key) {
  return part.figures.find((figure) => figure.key === key) || { values: [] };
}

/** Return what part of the largest value a value is, from 0 to 1. */
function share(value, largest) {
  return largest > 0 && value > 0 ? Math.min(1, value / largest) : 0;
}

function largestOf(values) {
  let largest = 0;
  for (const value of values) if (value > largest) largest = value;
  return largest;
}

function shortened(text, length) {
  const letters = Array.from(text);
  if (letters.length <= length) return text;
  const tail = Math.floor(length / 3);
  return `${letters.slice(0, length - tail - 1).join("")}…${letters.slice(-tail).join("")}`;
}

// The run, its machine and its parameters, in words

/** Words for the keys of metadata, a run and an environment that do not read as words. */
const WORDS = {
  dagprofiler_version: "dagprofiler", schema_version: "version of the file's schema",
  rounds: "complete rounds", elapsed_ms: "elapsed time", ended_by: "what ended the rounds", resumed: "times resumed",
  n: "measured rounds asked for", warmup: "warm-up rounds", max_rounds: "rounds, at most", max_time_s: "time of all rounds, at most",
  precision: "precision asked for, as a share of the median", collect_garbage: "garbage collected before",
  fresh_process: "each round in a new process", busy_cores: "other cores kept busy", check_outputs: "outputs compared between rounds",
  prepare_ms: "overhead: preparing the run", loop_ms: "overhead: run loop, outside of tasks", hooks_ms: "overhead: hooks",
  meters_ms: "overhead: meters", garbage_ms: "overhead: collecting garbage", between_rounds_ms: "overhead: between rounds",
  cpu: "processor", cpu_mhz: "clock, at most, in MHz", cores: "logical processors", cores_usable: "of them usable",
  cores_quota: "granted by control groups, in cores", memory_bytes: "memory", machine: "architecture", os: "operating system",
  python: "Python", blas_threads: "threads of BLAS",
};

/** Most characters of a value that are shown. */
const LONGEST = 10000;

/** Return any value of JSON as text. */
function textOf(value) {
  if (typeof value === "number") return Number.isInteger(value) ? whole.format(value) : four.format(value);
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > LONGEST ? `${text.slice(0, LONGEST)} … and ${whole.format(text.length - LONGEST)} more characters` : text;
}

/** Return a single value of a section, with the unit that its key ends in. */
function valueOf(key, value) {
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.length;
  if (key === "ended_by") return WORDS[value] || value;
  if (typeof value !== "number") return value;
  const unit = key.slice(key.lastIndexOf("_") + 1);
  if (unit === "s") return time(1000 * value);
  return unit === "ms" || unit === "bytes" ? amount(value, unit) : value;
}

/** Return rows of names and values, as text, without the empty ones. */
function rowsOfTexts(section) {
  return Object.entries(section || {}).filter(([, value]) => value !== null).map(([name, value]) => [name, textOf(value)]);
}

/** Return the single values of a section as rows of text. */
function rowsOfFacts(section) {
  const single = Object.entries(section || {}).filter(([, value]) => value !== null && (typeof value !== "object" || Array.isArray(value)));
  return single.map(([key, value]) => [WORDS[key] || key.replaceAll("_", " "), textOf(valueOf(key, value))]);
}

function rowsOfRun({ metadata, run }) {
  return [metadata, run, run.conditions, run.overhead].flatMap(rowsOfFacts);
}

function rowsOfMachine({ environment }) {
  return [...rowsOfFacts(environment), ...rowsOfTexts(environment.versions), ...rowsOfTexts(environment.thread_settings)];
}

/** Return the measured speeds of a machine, which differ from run to run. */
function rowsOfSpeed({ environment }) {
  const { score, parts } = environment.calibration || { score: null };
  return rowsOfTexts({ all: score, ...parts }).map(([kind, speed]) => [`speed, reference machine = 1: ${kind}`, speed]);
}

/** Return a time to the second, in UTC if its zone is known. */
function moment(timestamp) {
  const parts = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:?\d\d)?$/.exec(timestamp || "");
  if (!parts) return timestamp;
  if (!parts[4]) return `${parts[1]} ${parts[2]}`;
  const date = new Date(timestamp);
  // Other programs may write a day that there is not.
  return Number.isNaN(date.getTime()) ? timestamp : `${date.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** Return the commit of a run in words; null if it is unknown. */
function commitOf({ git }) {
  return git && git.commit ? `commit ${git.commit.slice(0, 10)}${git.clean === false ? " with changes" : ""}` : null;
}

// Kinds of tasks, the most expensive first

const { kinds } = report;
const membersOf = kinds.labels.map(() => []);
kinds.of.forEach((kind, task) => membersOf[kind].push(task));

/** Whether there are fewer kinds than tasks, so that they are worth showing. */
const hasKinds = kinds.labels.length > 1 && kinds.labels.length < names.length;

/** Kinds that have a colour of their own; the others share one. */
const COLOURED = 16;

function kindColour(kind) {
  return `kind-${kind < COLOURED ? kind : "rest"}`;
}

function kindKey(kind) {
  return element("i", { style: { background: `var(--${kindColour(kind)})` } });
}

/** Return the items of a legend for the kinds of some tasks. */
function kindLegend() {
  const rest = kinds.labels.length - COLOURED;
  return [
    ...kinds.labels.slice(0, COLOURED).map((label, kind) => element("li", {}, kindKey(kind), shortened(shownName(label), 28))),
    rest > 0 ? element("li", {}, kindKey(COLOURED), `${whole.format(rest)} other kinds`) : null,
  ].filter(Boolean);
}

// States of tasks: in words and with a sign, so that no colour is needed to tell them apart

const STATES = { failed: "✕ failed", skipped: "⊘ skipped", cancelled: "○ cancelled" };

/** What is known of the tasks that did not succeed, by number. */
const states = {};
for (const [name, entry] of Object.entries(profile.run.tasks || {})) states[numbers.get(name)] = entry;

function stateOf(task) {
  const entry = states[task];
  return entry ? entry.state : profile.run.state ? "succeeded" : "";
}

function stateSign(state) {
  return STATES[state] || state;
}

// Flags, in the order of their meanings; those of a newer version, without a meaning, come last

const flags = (report.flags || []).map((raised) => ({ ...raised, tasks: raised.tasks.map((name) => numbers.get(name)) }));

// The change of each task's time against the base, as a ratio; null where it is unknown

const changes = names.map(() => null);
if (report.comparison) for (const row of report.comparison.tasks) changes[row.task] = row;

/** Return the ratio of the times of some tasks to those of the base. */
function ratioOf(tasks) {
  let [mine, base] = [0, 0];
  for (const row of tasks.map((task) => changes[task])) {
    if (!row || row.ratio === null || row.base_ms === null) continue;
    mine += row.base_ms * row.ratio;
    base += row.base_ms;
  }
  return base > 0 ? mine / base : null;
}

/** Return a change as a percentage with its sign. */
function inPercent(ratio) {
  if (ratio === null || ratio === undefined) return "–";
  if (ratio >= 10) return times(ratio);
  const by = Math.round((ratio - 1) * 1000) / 10;
  return `${by > 0 ? "+" : by < 0 ? "−" : "±"}${three.format(Math.abs(by))} %`;
}

/** Return a colour for a ratio: none at 1, full at a third or at three times. */
function changeColour(ratio, surface = "raised") {
  if (ratio === null) return `var(--${surface})`;
  const part = Math.min(1, Math.abs(Math.log(ratio)) / Math.log(3)) || 0;
  return `color-mix(in oklab, var(--${ratio > 1 ? "worse" : "better"}) ${(100 * part).toFixed(0)}%, var(--${surface}))`;
}

// The selected task

const listeners = [];
let chosen = null;

/** Choose a task, wherever it was clicked; every part of the page follows. */
function choose(task, quietly = false) {
  chosen = task;
  for (const listener of listeners) listener(task, quietly);
  if (!quietly && task !== null) say(`${names[task]}: its figures are next to the DAG`);
}

function whenChosen(listener) {
  listeners.push(listener);
}

// The search, which every part of the page follows

const finders = [];

/** The tasks that are searched for; null if nothing is. */
let hits = null;

/** Search for tasks whose name or kind contains a text. */
function search(text) {
  const wanted = text.trim().toLowerCase();
  hits = null;
  if (wanted) {
    hits = new Set();
    const found = kinds.labels.map((label) => label.toLowerCase().includes(wanted));
    names.forEach((name, task) => {
      if (found[kinds.of[task]] || name.toLowerCase().includes(wanted)) hits.add(task);
    });
  }
  for (const finder of finders) finder();
}

function whenSearched(finder) {
  finders.push(finder);
}

/** Put a text into the search field, and search for it. */
function searchFor(text) {
  const field = document.getElementById("search");
  field.value = text;
  field.dispatchEvent(new Event("input"));
}

function nameButton(task, onPathToo = true) {
  const button = element("button", { type: "button", class: "name", title: names[task] }, shownName(names[task]));
  button.addEventListener("click", () => choose(task));
  if (onPathToo && onPath.has(task)) {
    return element("span", {}, button, " ", pathMark());
  }
  return button;
}

/** Return a button for a kind of tasks: it searches for them. */
function kindButton(kind) {
  const tasks = membersOf[kind];
  if (tasks.length === 1) return nameButton(tasks[0]);
  const label = kinds.labels[kind];
  return element("span", {},
    element("button", { type: "button", class: "name", title: `${label}: search for its ${count(tasks.length, "task")}`, onclick: () => searchFor(label) }, shownName(label)),
    element("span", { class: "note" }, ` × ${whole.format(tasks.length)}`),
    tasks.some((task) => onPath.has(task)) ? [" ", pathMark()] : null);
}

function pathMark() {
  return element("span", { class: "dot", role: "img", "aria-label": "on the critical path", title: "on the critical path" }, "●");
}

/** Return a name that can be seen and clicked, be it blank. */
function shownName(name) {
  return name.trim() === "" ? JSON.stringify(name) : name;
}

function say(text) {
  document.getElementById("said").textContent = text;
}

// Sections, which the files below add in the order of the page

const sections = [];

function addSection(id, title, part, make) {
  sections.push({ id, title, part, make });
}

// The tooltip that follows the pointer

const tip = document.getElementById("tip");

function showTip(text, event) {
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const { innerWidth, innerHeight } = window;
  tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
  tip.style.top = `${Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)}px`;
}

/** Return a colour of the style sheet as a canvas takes it, in the present theme. */
function colour(name) {
  const probe = document.getElementById("said");
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}
