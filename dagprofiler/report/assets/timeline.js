// When what ran where: on a canvas, since there may be ten thousands of bars.

const LANE = 22;
const AXIS = 26;
const TALLEST = 460;

/** Heights of the row of a kind, and of a level of spans inside a task; most levels shown. */
const KIND_LANE = 40;
const SPAN_LANE = 11;
const LEVELS = 4;

/** More tasks in sight than these are shown in a row for each kind; zooming in leaves fewer. */
const NAMED = 150;

/** A row with more bars than this for each pixel is drawn as how busy it was. */
const DENSE = 0.3;

function gutterOf(width) {
  return Math.min(170, Math.round(width * 0.27));
}

addSection("timeline", "Timeline", "timeline", (root, found) => {
  const view = { round: found.first, by: "tasks", colour: "phase", start: 0, end: 1, from: 0, until: 1, bars: [], rows: [], spans: spansInside() };
  const canvas = element("canvas", { role: "img", "aria-label": "When each task ran. The table of tasks has the same times as numbers." });
  const spacer = element("div");
  const rows = element("div", { class: "rows", tabindex: "0", role: "region", "aria-label": "Timeline; plus and minus zoom, arrow keys move, 0 shows all" }, canvas, spacer);
  const memory = element("canvas", { class: "memory", role: "img", "aria-label": "Memory over time" });
  const rounds = element("select", { id: "round" }, found.rounds.map(([n, kind]) => element("option", { value: n }, `${n}${kind ? ` (${kind.replaceAll("_", " ")})` : ""}`)));
  const lanes = ["tasks", "workers", ...(hasKinds ? ["kinds"] : [])];
  const by = element("select", { id: "lanes" }, lanes.map((one) => element("option", { value: one }, one.slice(0, -1))));
  const colours = element("select", { id: "bars" }, element("option", { value: "phase" }, "phase"), element("option", { value: "kind" }, "kind of task"));
  const note = element("p", { class: "note hint", role: "status" });
  const legend = element("ul", { class: "legend" });
  const measured = memoryColumns();
  rounds.value = view.round;
  if (names.length > 60 && found.workers.length > 1) view.by = "workers";
  if (names.length > 60 && hasKinds) view.colour = "kind";
  by.value = view.by;
  colours.value = view.colour;

  function load() {
    view.bars = barsOf(found, view);
    [view.start, view.end] = boundsOf(view.bars);
    view.from = view.start;
    view.until = view.end;
    memory.hidden = !measured.length || !view.bars.some((bar) => memoryOf(measured, bar.task, view.round));
    paintAll();
  }

  function paintAll() {
    const inSight = view.bars.filter(({ ready, done }) => done >= view.from && ready <= view.until);
    // More rows than anyone can read: one for each kind.
    view.lanes = view.by === "tasks" && inSight.length > NAMED ? "kinds" : view.by;
    view.rows = rowsOf(found, view, inSight);
    const last = view.rows[view.rows.length - 1];
    const height = (last ? last.top + last.height : 0) + AXIS;
    const shown = Math.min(height, TALLEST);
    spacer.style.height = `${height - shown}px`;
    paintTimeline(view, canvas, rows, shown);
    if (!memory.hidden) paintMemory(view, memory, measured);
    legend.replaceChildren(...legendOfTimeline(found, view, !memory.hidden));
    note.textContent = (view.lanes === view.by ? "" : `${count(inSight.length, "task")} in sight, too many for a row each: a row for each kind, as high as tasks ran at once. Zoom in for more. `)
      + "Drag to move, Ctrl and wheel to zoom, Shift and wheel to move.";
  }

  function zoom(factor, middle = (view.from + view.until) / 2) {
    const least = (view.end - view.start) / 1e6;
    const length = Math.max(least, (view.until - view.from) * factor);
    const part = (middle - view.from) / (view.until - view.from);
    view.from = Math.max(view.start, middle - length * part);
    view.until = Math.min(view.end, view.from + length);
    paintAll();
  }

  function move(by) {
    const length = view.until - view.from;
    view.from = Math.max(view.start, Math.min(view.end - length, view.from + by));
    view.until = view.from + length;
    paintAll();
  }

  /** Zoom to the selected task. */
  function approach() {
    const bar = view.bars.find(({ task }) => task === chosen);
    if (!bar) return;
    const margin = Math.max(bar.done - bar.begin, (view.end - view.start) / 1e5);
    view.from = Math.max(view.start, bar.begin - margin);
    view.until = Math.min(view.end, bar.done + margin);
    paintAll();
    show(chosen);
  }

  function show(task) {
    const row = view.lanes === "tasks" ? view.rows.find(({ bars }) => bars[0].task === task) : null;
    if (!row) return;
    if (row.top < rows.scrollTop || row.top + row.height > rows.scrollTop + rows.clientHeight - AXIS) rows.scrollTop = row.top - 120;
  }

  const momentAt = (event) => {
    const box = canvas.getBoundingClientRect();
    const gutter = gutterOf(box.width);
    return view.from + ((event.clientX - box.left - gutter) / (box.width - gutter - 12)) * (view.until - view.from);
  };
  const barsAt = (event) => {
    const box = canvas.getBoundingClientRect();
    const y = event.clientY - box.top - AXIS + rows.scrollTop;
    const row = event.clientY - box.top < AXIS ? null : view.rows.find(({ top, height }) => y >= top && y < top + height);
    if (!row) return [null, []];
    if (view.lanes === "tasks") return [row, row.bars];
    const moment = momentAt(event);
    const slack = 2 * (view.until - view.from) / box.width;
    return [row, row.bars.filter((bar) => bar.begin - slack <= moment && moment <= bar.done + slack).sort((a, b) => (b.done - b.begin) - (a.done - a.begin))];
  };
  let held = null;
  canvas.addEventListener("pointerdown", (event) => {
    held = { x: event.clientX, moved: 0 };
  });
  canvas.addEventListener("pointermove", (event) => {
    if (held && event.buttons) {
      const by = event.clientX - held.x;
      held = { x: event.clientX, moved: held.moved + Math.abs(by) };
      move((-by / (canvas.clientWidth - gutterOf(canvas.clientWidth))) * (view.until - view.from));
      showTip("", event);
      return;
    }
    const [row, bars] = barsAt(event);
    const head = row && view.lanes === "kinds" ? `${row.label}: ${count(bars.length, "task")} at once` : "";
    showTip([head, bars.length ? barInWords(bars[0], view) : ""].filter(Boolean).join("\n"), event);
  });
  canvas.addEventListener("pointerleave", (event) => showTip("", event));
  canvas.addEventListener("click", (event) => {
    const [, bars] = held && held.moved < 4 ? barsAt(event) : [null, []];
    held = null;
    if (bars.length) choose(bars[0].task);
  });
  canvas.addEventListener("dblclick", approach);
  canvas.addEventListener("wheel", (event) => {
    const across = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!event.ctrlKey && !event.metaKey && !across) return;
    event.preventDefault();
    if (across) move(((event.deltaX || event.deltaY) / canvas.clientWidth) * (view.until - view.from));
    else zoom(Math.exp(event.deltaY / 300), momentAt(event));
  }, { passive: false });
  rows.addEventListener("keydown", (event) => {
    const step = (view.until - view.from) / 10;
    const act = { "+": () => zoom(0.7), "-": () => zoom(1 / 0.7), 0: load, ArrowLeft: () => move(-step), ArrowRight: () => move(step) }[event.key];
    if (!act || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    act();
  });
  rows.addEventListener("scroll", paintAll);
  rounds.addEventListener("change", () => {
    view.round = Number(rounds.value);
    load();
  });
  by.addEventListener("change", () => {
    view.by = by.value;
    paintAll();
  });
  colours.addEventListener("change", () => {
    view.colour = colours.value;
    paintAll();
  });
  whenChosen((task) => {
    show(task);
    paintAll();
  });
  whenSearched(paintAll);
  whenLookChanges(paintAll);

  const button = (label, text, act) => element("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
  root.append(
    element("div", { class: "tools" },
      found.rounds.length > 1 ? element("label", {}, "round", rounds) : null,
      element("label", {}, "a row for each", by),
      hasKinds ? element("label", {}, "colour", colours) : null,
      element("span", { class: "end" },
        button("Zoom in on time", "+", () => zoom(0.7)), button("Zoom out of time", "−", () => zoom(1 / 0.7)),
        button("Zoom to the selected task", "Selected", approach), button("Fit the whole round", "Fit", load))),
    element("div", { class: "gantt" }, rows, memory), legend, note,
    found.left_out ? element("p", { class: "note" }, `${count(found.left_out, "round")} left out: too many for a page.`) : "");
  return load;
});

function legendOfTimeline(found, view, withMemory) {
  const item = (key, text) => element("li", {}, element("i", { class: key }), text);
  return [
    item("wait", "ready, waiting"),
    ...(view.colour === "kind" || view.lanes === "kinds"
      ? [...kindLegend(), element("li", {}, "paler: (de)serializing")]
      : phasesOf(found).map(([phase]) => item(phase, { deserialize: "deserializing", compute: "in compute()", serialize: "serializing" }[phase]))),
    onPath.size ? item("route", "critical path") : null,
    view.spans.size ? element("li", {}, element("i", { class: "span" }), "spans inside tasks") : null,
    Object.keys(states).length ? item("stopped", "did not finish") : null,
    ...(withMemory ? [item("before", "memory that was resident when the task began"), item("peak", "what it took at its peak, beyond that")] : []),
  ].filter(Boolean);
}

/** Return the phases that are known, each with its starts and its ends. */
function phasesOf({ columns }) {
  return ["deserialize", "compute", "serialize"]
    .map((phase) => [phase, columns[`${phase}_start_ms`], columns[`${phase}_end_ms`]])
    .filter(([, starts]) => starts.some((start) => start !== null));
}

/** Return the bars of a round: when each task was ready, began and was done. */
function barsOf(found, view) {
  const bars = [];
  const { columns } = found;
  const known = phasesOf(found);
  columns.round.forEach((of, i) => {
    if (of !== view.round) return;
    const phases = known
      .map(([phase, starts, ends]) => [phase, starts[i], ends[i] === null ? starts[i] : ends[i]])
      .filter(([, start]) => start !== null);
    const begin = Math.min(...phases.map(([, start]) => start));
    const done = Math.max(...phases.map(([, , end]) => end));
    const ready = columns.ready_ms[i] === null ? begin : Math.min(begin, columns.ready_ms[i]);
    const task = columns.task[i];
    const spans = view.spans.get(`${task} ${view.round}`) || [];
    bars.push({ task, worker: columns.worker[i], ready, begin, done, phases, spans, levels: Math.min(LEVELS, 1 + spans.reduce((most, { level }) => Math.max(most, level), -1)) });
  });
  return bars.sort((a, b) => a.begin - b.begin || a.task - b.task);
}

/** Return the rows of the bars in sight, each with its top and its height. */
function rowsOf(found, view, bars) {
  let rows;
  if (view.lanes === "tasks") {
    rows = bars.map((bar) => ({ label: names[bar.task], sign: bar.task in states, bars: [bar] }));
  } else {
    const key = view.lanes === "kinds" ? (bar) => kinds.of[bar.task] : (bar) => bar.worker;
    const label = view.lanes === "kinds" ? (kind) => kinds.labels[kind] : (worker) => (worker === null ? "unknown worker" : found.workers[worker]);
    const groups = new Map();
    for (const bar of bars) {
      if (!groups.has(key(bar))) groups.set(key(bar), []);
      groups.get(key(bar)).push(bar);
    }
    rows = [...groups].sort(([a], [b]) => (a ?? Infinity) - (b ?? Infinity) || 0).map(([of, bars]) => ({ label: label(of), kind: of, bars }));
  }
  let top = 0;
  for (const row of rows) {
    row.levels = view.lanes === "kinds" ? 0 : row.bars.reduce((most, { levels }) => Math.max(most, levels), 0);
    row.top = top;
    row.height = view.lanes === "kinds" ? KIND_LANE : LANE + row.levels * SPAN_LANE;
    top += row.height;
  }
  return rows;
}

function boundsOf(bars) {
  let start = Infinity;
  let end = -Infinity;
  for (const bar of bars) {
    start = Math.min(start, bar.ready);
    end = Math.max(end, bar.done);
  }
  return end > start ? [start, end] : [start, start + 1];
}

function barInWords(bar, view) {
  const state = states[bar.task];
  return [
    names[bar.task], state ? stateSign(state.state) : "",
    `begins after ${time(bar.begin - view.start)}, takes ${time(bar.done - bar.begin)}`,
    bar.begin > bar.ready ? `waited ${time(bar.begin - bar.ready)} since it was ready` : "",
    ...bar.phases.map(([phase, start, end]) => `${phase}: ${time(end - start)}`),
  ].filter(Boolean).join("\n");
}

/** Return a context in which lengths are those of the page, on a screen of any density. */
function contextOf(canvas, height) {
  const density = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * density);
  canvas.height = Math.round(height * density);
  const context = canvas.getContext("2d");
  context.scale(density, density);
  context.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  context.textBaseline = "middle";
  return [context, width];
}

const PAINTS = ["text", "muted", "line", "strong-line", "critical", "compute", "on-compute", "serialize", "deserialize", "sunken", "link", "slower", "raised", "span"];

function paintTimeline(view, canvas, scroller, height) {
  const [context, width] = contextOf(canvas, height);
  if (!width) return;
  const paints = Object.fromEntries(PAINTS.map((name) => [name, colour(name)]));
  const fills = [...Array(COLOURED).keys(), "rest"].map((kind) => colour(`kind-${kind}`));
  const fill = (task) => fills[Math.min(kinds.of[task], COLOURED)];
  const gutter = gutterOf(width);
  const x = (moment) => gutter + ((moment - view.from) / (view.until - view.from)) * (width - gutter - 12);
  const rect = (paint, left, right, y, size, alpha = 1) => {
    if (right < gutter || left > width) return;
    const start = Math.max(left, gutter);
    context.globalAlpha = alpha;
    context.fillStyle = paint;
    context.fillRect(start, y, Math.max(right - start, 0.6), size);
    context.globalAlpha = 1;
  };
  const drawing = { view, context, width, gutter, x, rect, paints, fills, fill };
  paintAxis(view, context, x, width, height, paints, gutter);
  context.save();
  context.beginPath();
  context.rect(0, AXIS, width, height - AXIS);
  context.clip();
  for (const row of view.rows) {
    const top = AXIS + row.top - scroller.scrollTop;
    if (top + row.height < AXIS || top > height) continue;
    const marked = view.lanes === "tasks" && row.bars[0].task === chosen;
    if (marked) rect(paints.sunken, gutter, width, top, row.height);
    if (view.lanes === "kinds") paintBusy(drawing, row, top + 5, KIND_LANE - 9, true);
    else if (row.bars.length > DENSE * (width - gutter)) paintBusy(drawing, row, top + 4, LANE - 8, false);
    else for (const bar of row.bars) paintBar(drawing, row, bar, top);
    const own = row.bars.find(({ task }) => task === chosen);
    if (own && view.lanes !== "tasks") outline(drawing, own, top + 2, row.height - 4);
    label(context, row.label, 12, top + (view.lanes === "kinds" ? 14 : LANE / 2), gutter - 22, marked ? paints.link : row.sign ? paints.slower : paints.text);
    if (view.lanes === "kinds") label(context, `${whole.format(row.most)} at once`, 12, top + 29, gutter - 22, paints.muted);
  }
  context.restore();
}

function outline({ context, x, paints, gutter }, bar, top, height) {
  if (x(bar.done) < gutter) return;
  context.strokeStyle = paints.link;
  context.lineWidth = 2;
  const left = Math.max(gutter, x(bar.begin) - 2);
  context.strokeRect(left, top, Math.max(4, x(bar.done) + 2 - left), height);
}

/** Draw a task: waiting, its phases, the critical path below, and its spans. */
function paintBar({ view, context, x, rect, paints, fill, gutter }, row, bar, top) {
  if (bar.done < view.from || bar.ready > view.until) return;
  const alone = view.lanes === "tasks";
  const faint = hits !== null && !hits.has(bar.task) ? 0.18 : 1;
  if (bar.task === chosen && alone) outline({ context, x, paints, gutter }, bar, top + 2, LANE - 4);
  if (alone && bar.begin > bar.ready) rect(paints["strong-line"], x(bar.ready), x(bar.begin), top + LANE / 2 - 1, 2, faint);
  for (const [phase, start, end] of bar.phases) {
    const byKind = view.colour === "kind";
    rect(byKind ? fill(bar.task) : paints[phase], x(start), x(end), top + 4, LANE - 8, faint * (byKind && phase !== "compute" ? 0.45 : 1));
  }
  if (onPath.has(bar.task)) rect(paints.critical, x(bar.begin), x(bar.done), top + LANE - 5, 3, faint);
  if (bar.task in states) {
    rect(paints.slower, x(bar.done) - 2, x(bar.done) + 2, top + 1, LANE - 2);
    label(context, "✕", Math.max(gutter, x(bar.done) + 6), top + LANE / 2, 20, paints.slower);
  }
  for (const { start, end, level, name } of bar.spans) {
    if (level >= LEVELS || end < view.from || start > view.until) continue;
    const y = top + LANE - 1 + level * SPAN_LANE;
    rect(paints.span, x(start), x(end) - 0.5, y, SPAN_LANE - 1, faint * (level % 2 ? 0.7 : 1));
    inside(context, name, Math.max(x(start), gutter), x(end), y + SPAN_LANE / 2, paints.text, 9);
  }
  const computing = bar.phases.find(([phase]) => phase === "compute");
  if (!alone && computing) inside(context, names[bar.task], Math.max(x(computing[1]), gutter), x(computing[2]), top + LANE / 2 - 1, view.colour === "kind" ? paints.text : paints["on-compute"]);
}

/** Write into a bar, if it has room. */
function inside(context, text, left, right, y, paint, size = 12) {
  if (right - left < 46) return;
  const font = context.font;
  context.font = font.replace(/\d+px/, `${size}px`);
  label(context, text, left + 5, y, right - left - 10, paint);
  context.font = font;
}

/** Draw how many tasks of a row ran at each pixel, by kind; `row.most` at once, or one per worker. */
function paintBusy({ view, context, width, gutter, fills }, row, top, height, several) {
  const pixels = width - gutter - 12;
  const busy = [...fills, null].map(() => null);
  const scale = pixels / (view.until - view.from);
  const clipped = (at) => Math.max(0, Math.min(pixels, (at - view.from) * scale));
  for (const bar of row.bars) {
    const [left, right] = [clipped(bar.begin), clipped(bar.done)];
    const of = hits !== null && !hits.has(bar.task) ? fills.length : Math.min(kinds.of[bar.task], COLOURED);
    const into = busy[of] || (busy[of] = new Float32Array(pixels + 1));
    for (let pixel = Math.floor(left); pixel < right; pixel += 1) into[pixel] += Math.min(right, pixel + 1) - Math.max(left, pixel);
  }
  const layers = busy.map((into, of) => [into, fills[of]]).filter(([into]) => into);
  let most = 1;
  if (several) {
    for (let pixel = 0; pixel < pixels; pixel += 1) most = Math.max(most, layers.reduce((sum, [into]) => sum + into[pixel], 0));
  }
  row.most = Math.round(most);
  for (let pixel = 0; pixel < pixels; pixel += 1) {
    let y = top + height;
    for (const [into, paint] of layers) {
      const size = (height * Math.min(most, into[pixel])) / most;
      if (!size) continue;
      context.globalAlpha = paint ? 1 : 0.2;
      context.fillStyle = paint || fills[COLOURED];
      context.fillRect(gutter + pixel, y - size, 1, size);
      y -= size;
    }
  }
  context.globalAlpha = 1;
}

function paintAxis(view, context, x, width, height, paints, gutter) {
  const step = niceStep((view.until - view.from) / Math.max(2, (width - gutter) / 110));
  context.fillStyle = paints.muted;
  const origin = view.start;
  for (let k = Math.ceil((view.from - origin) / step); origin + k * step <= view.until; k += 1) {
    const at = x(origin + k * step);
    context.fillStyle = paints.line;
    context.fillRect(at, AXIS - 4, 1, height);
    context.fillStyle = paints.muted;
    if (at < width - 44) context.fillText(time(k * step), at + 4, AXIS / 2);
  }
}

/** Return the next larger of 1, 2 or 5 times a power of ten. */
function niceStep(atLeast) {
  const power = 10 ** Math.floor(Math.log10(atLeast));
  return power * [1, 2, 5, 10].find((one) => one * power >= atLeast);
}

function label(context, text, x, y, room, paint) {
  context.fillStyle = paint;
  let shown = shownName(text);
  const full = shown;
  for (let length = Math.min(60, Array.from(full).length); length > 3 && context.measureText(shown).width > room; length -= 1) shown = shortened(full, length);
  context.fillText(shown, x, y);
}

// Memory

function memoryColumns() {
  const columns = (report.samples || { columns: [] }).columns;
  return ["resident_before_bytes", "peak_memory_bytes"].map((key) => columns.find((column) => column.key === key)).filter(Boolean);
}

/** Return what was resident before a task and how much more it took at its peak; null if unknown. */
function memoryOf(columns, task, round) {
  const read = (key) => {
    const column = columns.find((one) => one.key === key);
    const row = column && column.rows[task];
    return row ? row[round] : null;
  };
  const before = read("resident_before_bytes");
  const more = read("peak_memory_bytes");
  return before === null && more === null ? null : [before || 0, more || 0];
}

function paintMemory(view, canvas, columns) {
  const height = 120;
  const [context, width] = contextOf(canvas, height);
  const known = view.bars.map((bar) => [bar, memoryOf(columns, bar.task, view.round)]).filter(([, read]) => read);
  const most = largestOf(known.map(([, [before, more]]) => before + more)) || 1;
  const gutter = gutterOf(width);
  const x = (moment) => gutter + ((moment - view.from) / (view.until - view.from)) * (width - gutter - 12);
  const y = (bytes) => height - 10 - (height - 26) * (bytes / most);
  label(context, "memory", 12, 18, gutter - 22, colour("text"));
  label(context, `${amount(most, "bytes")} at most`, 12, 36, gutter - 22, colour("muted"));
  context.fillStyle = colour("line");
  context.fillRect(gutter, y(0), width, 1);
  const [before, more] = [colour("edge"), colour("peak")];
  for (const [bar, [base, peak]] of known) {
    const left = Math.max(gutter, x(bar.begin));
    const right = Math.min(width, x(bar.done));
    if (right < gutter || left > width) continue;
    const size = Math.max(1, right - left);
    context.fillStyle = before;
    context.fillRect(left, y(base), size, y(0) - y(base));
    context.fillStyle = more;
    context.fillRect(left, y(base + peak), size, y(base) - y(base + peak));
  }
}
