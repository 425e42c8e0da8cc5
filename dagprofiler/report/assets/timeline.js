// When what ran where: on a canvas, since there may be ten thousands of spans.

const LANE = 22;
const AXIS = 26;
const GUTTER = 170;
const TALLEST = 460;

/** More rows than these are shown without names, all at once; zooming in leaves fewer. */
const NAMED = 150;

addSection("timeline", "Timeline", "timeline", (root, found) => {
  const view = { round: found.first, by: "tasks", start: 0, end: 1, from: 0, until: 1, spans: [], rows: [], visible: [] };
  const canvas = element("canvas", { role: "img", "aria-label": "When each task ran. The table of tasks has the same times as numbers." });
  const spacer = element("div");
  const rows = element("div", { class: "rows", tabindex: "0", role: "region", "aria-label": "Timeline; plus and minus zoom, arrow keys move" }, canvas, spacer);
  const memory = element("canvas", { class: "memory", role: "img", "aria-label": "Memory over time" });
  const rounds = element("select", { id: "round" }, found.rounds.map(([n, kind]) => element("option", { value: n }, `${n}${kind ? ` (${kind.replaceAll("_", " ")})` : ""}`)));
  const by = element("select", { id: "lanes" }, ["tasks", "workers"].map((one) => element("option", { value: one }, one)));
  const measured = memoryColumns();
  const legend = element("ul", { class: "legend" },
    element("li", {}, element("i", { class: "before" }), "memory that was resident when the task began"),
    element("li", {}, element("i", { class: "peak" }), "what it took at its peak, beyond that"));
  rounds.value = view.round;
  if (names.length > 60 && found.workers.length > 1) view.by = "workers";
  by.value = view.by;

  function load() {
    view.spans = spansOf(found, view.round);
    view.rows = rowsOf(found, view);
    [view.start, view.end] = boundsOf(view.spans);
    view.from = view.start;
    view.until = view.end;
    const has = measured.length > 0 && view.spans.some((span) => memoryOf(measured, span.task, view.round));
    memory.hidden = !has;
    legend.hidden = !has;
    paintAll();
  }

  function paintAll() {
    const within = ({ ready, done }) => done >= view.from && ready <= view.until;
    view.visible = view.by === "tasks" ? view.rows.filter((row) => within(row.spans[0])) : view.rows;
    view.lane = view.visible.length > NAMED ? (TALLEST - AXIS) / view.visible.length : LANE;
    const height = view.visible.length * view.lane + AXIS;
    const shown = Math.min(height, TALLEST);
    spacer.style.height = `${height - shown}px`;
    paintTimeline(view, canvas, rows, shown);
    if (!memory.hidden) paintMemory(view, memory, measured);
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

  const momentAt = (event) => {
    const box = canvas.getBoundingClientRect();
    return view.from + ((event.clientX - box.left - GUTTER) / (box.width - GUTTER)) * (view.until - view.from);
  };
  const spanAt = (event) => {
    const box = canvas.getBoundingClientRect();
    const row = view.visible[Math.floor((event.clientY - box.top - AXIS + rows.scrollTop) / view.lane)];
    if (!row || event.clientY - box.top < AXIS) return null;
    const moment = momentAt(event);
    const slack = 2 * (view.until - view.from) / box.width;
    if (view.by === "tasks") return row.spans[0];
    return row.spans.find((span) => span.begin - slack <= moment && moment <= span.done + slack) || null;
  };
  let held = null;
  canvas.addEventListener("pointerdown", (event) => {
    held = { x: event.clientX, moved: 0 };
  });
  canvas.addEventListener("pointermove", (event) => {
    if (held && event.buttons) {
      const by = event.clientX - held.x;
      held = { x: event.clientX, moved: held.moved + Math.abs(by) };
      move((-by / (canvas.clientWidth - GUTTER)) * (view.until - view.from));
      showTip("", event);
      return;
    }
    const span = spanAt(event);
    showTip(span ? spanInWords(span, view) : "", event);
  });
  canvas.addEventListener("pointerleave", (event) => showTip("", event));
  canvas.addEventListener("click", (event) => {
    const span = held && held.moved < 4 ? spanAt(event) : null;
    held = null;
    if (span) choose(span.task);
  });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(Math.exp(event.deltaY / 300), momentAt(event));
  }, { passive: false });
  rows.addEventListener("keydown", (event) => {
    const step = (view.until - view.from) / 10;
    const act = { "+": () => zoom(0.7), "-": () => zoom(1 / 0.7), ArrowLeft: () => move(-step), ArrowRight: () => move(step) }[event.key];
    if (!act) return;
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
    load();
  });
  whenChosen((task) => {
    const row = view.by === "tasks" ? view.visible.findIndex(({ spans }) => spans[0].task === task) : -1;
    const top = row * view.lane;
    if (row >= 0 && (top < rows.scrollTop || top > rows.scrollTop + rows.clientHeight - 2 * LANE - AXIS)) rows.scrollTop = top - 120;
    paintAll();
  });
  whenLookChanges(paintAll);

  const button = (label, text, act) => element("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
  root.append(
    element("div", { class: "tools" },
      found.rounds.length > 1 ? element("label", {}, "round", rounds) : null,
      element("label", {}, "a row for each of the", by),
      element("span", { class: "end" },
        button("Zoom in on time", "+", () => zoom(0.7)), button("Zoom out of time", "−", () => zoom(1 / 0.7)),
        button("Fit the whole round", "Fit", load))),
    element("div", { class: "gantt" }, rows, memory),
    element("ul", { class: "legend" },
      element("li", {}, element("i", { class: "wait" }), "ready, waiting"),
      found.phases.map(([phase]) => element("li", {}, element("i", { class: phase }), phase)),
      onPath.size ? element("li", {}, element("i", { class: "route" }), "critical path") : null),
    legend,
    found.left_out ? element("p", { class: "note" }, `${count(found.left_out, "round")} left out: too many for a page.`) : "");
  return load;
});

function spansOf(found, round) {
  const spans = [];
  found.round.forEach((of, i) => {
    if (of !== round) return;
    const phases = found.phases
      .map(([phase, starts, ends]) => [phase, starts[i], ends[i] === null ? starts[i] : ends[i]])
      .filter(([, start]) => start !== null);
    const begin = Math.min(...phases.map(([, start]) => start));
    const done = Math.max(...phases.map(([, , end]) => end));
    const ready = found.ready[i] === null ? begin : Math.min(begin, found.ready[i]);
    spans.push({ task: found.task[i], worker: found.worker[i], ready, begin, done, phases });
  });
  return spans.sort((a, b) => a.begin - b.begin || a.task - b.task);
}

function rowsOf(found, view) {
  if (view.by === "tasks") return view.spans.map((span) => ({ label: names[span.task], spans: [span] }));
  const rows = new Map();
  for (const span of view.spans) {
    if (!rows.has(span.worker)) rows.set(span.worker, { label: span.worker === null ? "unknown worker" : found.workers[span.worker], spans: [] });
    rows.get(span.worker).spans.push(span);
  }
  return [...rows.values()].sort((a, b) => (a.spans[0].worker ?? Infinity) - (b.spans[0].worker ?? Infinity) || 0);
}

function boundsOf(spans) {
  let start = Infinity;
  let end = -Infinity;
  for (const span of spans) {
    start = Math.min(start, span.ready);
    end = Math.max(end, span.done);
  }
  return end > start ? [start, end] : [start, start + 1];
}

function spanInWords(span, view) {
  return [
    names[span.task], `begins after ${time(span.begin - view.start)}, takes ${time(span.done - span.begin)}`,
    span.begin > span.ready ? `waited ${time(span.begin - span.ready)} since it was ready` : "",
    ...span.phases.map(([phase, start, end]) => `${phase}: ${time(end - start)}`),
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

function paintTimeline(view, canvas, scroller, height) {
  const [context, width] = contextOf(canvas, height);
  if (!width) return;
  const paints = Object.fromEntries(["text", "muted", "line", "strong-line", "critical", "compute", "on-compute", "serialize", "deserialize", "sunken", "link"].map((name) => [name, colour(name)]));
  const x = (moment) => GUTTER + ((moment - view.from) / (view.until - view.from)) * (width - GUTTER - 12);
  const bar = (paint, left, right, y, size) => {
    const start = Math.max(left, GUTTER);
    if (right < GUTTER || left > width) return;
    context.fillStyle = paint;
    context.fillRect(start, y, Math.max(right - start, 0.6), size);
  };
  paintAxis(view, context, x, width, height, paints);
  const { lane } = view;
  const named = lane === LANE;
  const inset = named ? 4 : 0;
  const first = Math.floor(scroller.scrollTop / lane);
  const last = Math.min(view.visible.length, Math.ceil((scroller.scrollTop + height - AXIS) / lane));
  context.save();
  context.beginPath();
  context.rect(0, AXIS, width, height - AXIS);
  context.clip();
  for (let i = first; i < last; i += 1) {
    const row = view.visible[i];
    const top = AXIS + i * lane - scroller.scrollTop;
    for (const span of row.spans) {
      if (span.done < view.from || span.ready > view.until) continue;
      if (span.task === chosen) {
        if (view.by === "tasks") bar(paints.sunken, GUTTER, width, top, lane);
        bar(paints.link, x(span.begin) - 2, Math.max(x(span.done) + 2, x(span.begin) + 3), top + inset / 2, Math.max(3, lane - inset));
      }
      if (view.by === "tasks" && named && span.begin > span.ready) bar(paints["strong-line"], x(span.ready), x(span.begin), top + lane / 2 - 1, Math.min(2, lane));
      for (const [phase, start, end] of span.phases) bar(paints[phase], x(start), x(end), top + inset, Math.max(1, lane - 2 * inset));
      if (onPath.has(span.task)) bar(paints.critical, x(span.begin), x(span.done), named ? top + LANE - 5 : top, named ? 3 : Math.max(1, lane));
      const computing = span.phases.find(([phase]) => phase === "compute");
      if (view.by === "workers" && computing) {
        const left = Math.max(x(computing[1]), GUTTER) + 5;
        const room = x(computing[2]) - left - 5;
        if (room > 36) label(context, names[span.task], left, top + LANE / 2 - 1, room, paints["on-compute"]);
      }
    }
    const marked = view.by === "tasks" && row.spans[0].task === chosen;
    if (named) label(context, row.label, 12, top + LANE / 2, GUTTER - 22, marked ? paints.link : paints.text);
  }
  context.restore();
  if (!named) label(context, count(view.visible.length, "task"), 12, AXIS + 14, GUTTER - 22, paints.muted);
}

function paintAxis(view, context, x, width, height, paints) {
  const step = niceStep((view.until - view.from) / Math.max(2, (width - GUTTER) / 110));
  context.fillStyle = paints.muted;
  const origin = view.start;
  for (let k = Math.ceil((view.from - origin) / step); origin + k * step <= view.until; k += 1) {
    const at = x(origin + k * step);
    context.fillStyle = paints.line;
    context.fillRect(at, AXIS - 4, 1, height);
    context.fillStyle = paints.muted;
    context.fillText(time(k * step), at + 4, AXIS / 2);
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
  const known = view.spans.map((span) => [span, memoryOf(columns, span.task, view.round)]).filter(([, read]) => read);
  const most = largestOf(known.map(([, [before, more]]) => before + more)) || 1;
  const x = (moment) => GUTTER + ((moment - view.from) / (view.until - view.from)) * (width - GUTTER - 12);
  const y = (bytes) => height - 10 - (height - 26) * (bytes / most);
  context.fillStyle = colour("text");
  context.fillText("memory", 12, 18);
  context.fillStyle = colour("muted");
  context.fillText(`${amount(most, "bytes")} at most`, 12, 36);
  context.fillStyle = colour("line");
  context.fillRect(GUTTER, y(0), width, 1);
  const [before, more] = [colour("edge"), colour("peak")];
  for (const [span, [base, peak]] of known) {
    const left = Math.max(GUTTER, x(span.begin));
    const right = Math.min(width, x(span.done));
    if (right < GUTTER || left > width) continue;
    const size = Math.max(1, right - left);
    context.fillStyle = before;
    context.fillRect(left, y(base), size, y(0) - y(base));
    context.fillStyle = more;
    context.fillRect(left, y(base + peak), size, y(base) - y(base + peak));
  }
}
