// The DAG, from left to right; on a narrow screen from top to bottom.

const BOX = { slot: 60, least: 36, most: 54 };

/** Widths of boxes and of the gaps between layers, of which the least leaves an edge in sight. */
const WIDE = { width: 160, gap: 64, tight: 30, letters: 20 };
const NARROW = { width: 104, gap: 34, between: 126, letters: 13 };

/** The scale below which texts are hard to read: what is larger is wrapped, or shown in part. */
const READABLE = 0.72;

addSection("graph", "DAG", "pictures", (root, pictures) => {
  if (!names.length) {
    root.append(element("p", { class: "note" }, "The DAG has no tasks."));
    return;
  }
  const measures = report.tasks.figures.filter((figure) => figure.values.some((value) => value > 0));
  const colours = [
    measures.length ? ["measure", "size"] : null,
    hasKinds ? ["kind", "kind of task"] : null,
    report.comparison ? ["change", "change against the base"] : null,
  ].filter(Boolean);
  const first = colours.length ? colours[colours.length - 1][0] : "";
  const view = {
    picture: pictures[0], measure: measures[0], nodes: [], wires: [], place: null,
    colour: first === "kind" && pictures[0].kind === "tasks" && measures.length ? "measure" : first,
  };
  const layer = drawn("g");
  const svg = drawn("svg", { role: "group", "aria-label": "The DAG. Arrow keys follow its edges, Enter selects a task." }, layer);
  const camera = cameraOf(svg, layer);
  const measure = element("select", { id: "measure" }, measures.map((one, i) => element("option", { value: i }, one.label)));
  const colour = element("select", { id: "colour" }, colours.map(([value, label]) => element("option", { value }, label)));
  const choice = element("select", { id: "picture" }, pictures.map((one, i) => element("option", { value: i },
    one.kind === "tasks" ? `all ${whole.format(names.length)} tasks` : `${whole.format(one.labels.length)} groups`)));
  const legend = element("ul", { class: "legend" });
  const hint = element("p", { class: "note hint" });
  colour.value = view.colour;

  const growth = report.growth;
  const last = growth ? growth.steps.length : 0;
  // The last of several rounds may not have all tasks.
  const end = growth && growth.step_of_task.some((came) => came > last) ? last + 1 : last;
  const step = element("input", { type: "range", id: "step", min: 0, max: end, value: end, "aria-label": "Growth of the DAG" });
  const moment = element("span", { class: "count", role: "status" });

  /** Show what was there after a number of rules had fired. */
  function grow() {
    if (!growth) return;
    const at = Number(step.value);
    const later = (node) => node.tasks.every((task) => growth.step_of_task[task] > at);
    view.nodes.forEach((node) => node.shape.classList.toggle("later", later(node)));
    view.wires.forEach((wire) => wire.shape.classList.toggle("later", later(wire.source) || later(wire.target)));
    moment.textContent = at > last ? "all rounds" : at ? `${time(growth.steps[at - 1].at_ms)}: ${growth.steps[at - 1].rule}` : "at first";
  }

  function show() {
    const place = placesOf(view.picture, svg.clientWidth);
    view.place = place;
    draw(view, layer, place);
    repaint();
    grow();
    const height = place.height * Math.min(1.15, Math.max(READABLE, (svg.clientWidth - MARGIN) / place.width));
    stage.parentElement.style.setProperty("--drawn", `${Math.max(190, Math.min(place.down ? 1600 : 680, height + 60))}px`);
    hint.textContent = place.down ? "Edges lead from top to bottom." : `Drag to move, Ctrl and wheel to zoom. Edges lead from left to right${place.wrapped
      ? "; the picture goes on in the next row, as lines of a text do: its edges lead from the right end of a row to the left end of the next" : ""}.`;
    camera.fit(READABLE);
    find();
    mark(chosen, true);
  }

  function repaint() {
    paint(view);
    legend.replaceChildren(...legendOf(view));
  }

  function find() {
    view.nodes.forEach((node) => node.shape.classList.toggle("found", hits !== null && node.tasks.some((task) => hits.has(task))));
    svg.classList.toggle("searching", hits !== null && hits.size > 0);
  }

  function mark(task, quietly) {
    let marked = null;
    view.nodes.forEach((node) => {
      const own = task !== null && node.tasks.includes(task);
      node.shape.classList.toggle("chosen", own);
      node.shape.setAttribute("aria-pressed", own);
      if (own) marked = node;
    });
    view.wires.forEach((wire) => wire.shape.classList.toggle("near", marked !== null && (wire.source === marked || wire.target === marked)));
    if (!marked) return;
    showGroup(marked.tasks.length > 1 ? marked : null);
    if (!quietly) camera.reveal(marked, hits !== null && hits.has(task));
  }

  measure.addEventListener("change", () => {
    view.measure = measures[measure.value];
    repaint();
  });
  colour.addEventListener("change", () => {
    view.colour = colour.value;
    repaint();
  });
  step.addEventListener("input", grow);
  choice.addEventListener("change", () => {
    view.picture = pictures[choice.value];
    show();
  });
  layer.addEventListener("click", (event) => {
    const shape = event.target.closest(".node");
    if (shape && !camera.moved()) pick(view.nodes[shape.dataset.node]);
  });
  layer.addEventListener("pointermove", (event) => {
    const shape = event.target.closest(".node, .wire");
    showTip(shape ? tipOf(view, shape) : "", event);
  });
  layer.addEventListener("pointerleave", (event) => showTip("", event));
  svg.addEventListener("keydown", (event) => walk(event, view, camera));
  whenChosen(mark);
  whenSearched(find);
  whenLookChanges(() => {
    if (view.nodes.length && placesOf(view.picture, svg.clientWidth).key !== view.place.key) show();
    if (paper.matches) camera.fit();
  });

  const button = (label, text, act) => element("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
  const stage = element("div", { class: "canvas" }, svg);
  root.append(
    element("div", { class: "tools" },
      measures.length ? element("label", {}, "size", measure) : null,
      colours.length > 1 ? element("label", {}, "colour", colour) : null,
      pictures.length > 1 ? element("label", {}, "show", choice) : null,
      growth ? element("label", {}, "growth", step, moment) : null,
      element("span", { class: "end" },
        button("Zoom in", "+", () => camera.zoom(1.3)),
        button("Zoom out", "−", () => camera.zoom(1 / 1.3)),
        button("Fit all", "Fit", () => camera.fit()))),
    element("div", { class: "stage" }, stage, panel()), legend,
    hint);
  // Its size is known once it is in the page.
  return show;
});

function legendOf(view) {
  const { measure, colour } = view;
  const states = new Set(names.map((_, task) => stateOf(task)).filter((state) => state in STATES));
  const edges = figureOf(report.edges, "size_bytes").values;
  return [
    measure ? element("li", {}, colour === "measure" ? element("i", { class: "scale" }) : null, `larger: more ${measure.label}`) : null,
    ...(colour === "kind" ? kindLegend() : []),
    ...(colour === "change" ? [
      element("li", {}, element("i", { style: { background: changeColour(1 / 3) } }), "3 × faster or more"),
      element("li", {}, element("i", { style: { background: changeColour(1 / 1.3) } }), "faster"),
      element("li", {}, element("i", { style: { background: changeColour(1.3) } }), "slower"),
      element("li", {}, element("i", { style: { background: changeColour(3) } }), "3 × slower or more")] : []),
    onPath.size ? element("li", {}, element("i", { class: "route" }), "critical path") : null,
    edges.some((value) => value > 0) ? element("li", {}, "wider edges: more bytes") : null,
    edges.some((value) => value === 0) ? element("li", {}, element("i", { class: "dashed" }), "no data, order only") : null,
    ...[...states].map((state) => element("li", {}, element("i", { class: state }), STATES[state])),
  ].filter(Boolean);
}

/** Choose a node: its task, of a group the first that is searched for, or its most expensive. */
function pick(node) {
  const found = hits ? node.tasks.filter((task) => hits.has(task)) : [];
  const fitting = found.length ? found : node.tasks;
  const cost = report.tasks.cost || [];
  choose(fitting.reduce((best, task) => ((cost[task] || 0) > (cost[best] || 0) ? task : best), fitting[0]));
}

/** Room that a picture leaves to the sides of its canvas, together. */
const MARGIN = 48;

/**
 * Return where nodes and bends are: `at(layer, place)`, and the size of it all.
 *
 * Layers come closer, and all is scaled, until they fit the width. A picture of more layers that is
 * low is wrapped like text, into rows of as many as fit.
 */
function placesOf({ layout, edges }, width) {
  const depth = 1 + largestOf(layout.layers);
  const extent = (from, until) => {
    let [low, high] = [Infinity, -Infinity];
    const add = (layer, place) => {
      if (layer < from || layer >= until) return;
      low = Math.min(low, place);
      high = Math.max(high, place);
    };
    layout.places.forEach((place, i) => add(layout.layers[i], place));
    layout.bends.forEach((bends, k) => bends.forEach((place, i) => add(layout.layers[edges[k][0]] + 1 + i, place)));
    return [low, high];
  };
  const [low, high] = extent(0, depth);
  if (width < 600) {
    const step = BOX.slot + NARROW.gap;
    return {
      ...NARROW, down: true, key: "down", width: (high - low) * NARROW.between + NARROW.width, box: NARROW.width, height: depth * step,
      at: (layer, place) => [(place - low) * NARROW.between, layer * step],
    };
  }
  const room = (width - MARGIN) / READABLE;
  const spare = ((width - MARGIN) / 0.9 - depth * WIDE.width) / Math.max(1, depth - 1);
  const gap = Math.max(WIDE.tight, Math.min(WIDE.gap, 4 * Math.floor(spare / 4)));
  const step = WIDE.width + gap;
  const per = Math.max(2, Math.floor((room + gap) / step));
  const rows = [];
  let below = 0;
  for (let from = 0; from < depth; from += per) {
    const [top, bottom] = extent(from, from + per);
    rows.push({ low: top, top: below });
    below += (bottom - top + 1) * BOX.slot + 40;
  }
  const wrapped = depth > per && below * READABLE < 900;
  const row = (layer) => rows[Math.floor(layer / per)];
  const both = { ...WIDE, gap, box: WIDE.width, wrapped, key: `${wrapped} ${per} ${gap}` };
  if (!wrapped) return { ...both, width: depth * step - gap, height: (high - low + 1) * BOX.slot, at: (layer, place) => [layer * step, place * BOX.slot] };
  return {
    ...both, width: per * step, height: below,
    at: (layer, place) => [(layer % per) * step, (place - row(layer).low) * BOX.slot + row(layer).top],
    // Above the boxes of a row, for the edges that come from the row before it.
    above: (layer) => row(layer).top - BOX.slot / 2 - 14,
  };
}

function draw(view, layer, place) {
  const { picture } = view;
  const { layers, places, bends } = picture.layout;
  view.nodes = places.map((row, i) => {
    const [x, y] = place.at(layers[i], row);
    const tasks = picture.tasks[i];
    const label = tasks.length > 1 ? `${picture.labels[i]} × ${whole.format(tasks.length)}` : names[tasks[0]];
    const states = tasks.map(stateOf).filter((state) => state in STATES);
    const state = ["failed", "cancelled", "skipped"].find((one) => states.includes(one)) || "";
    const path = tasks.some((task) => onPath.has(task));
    const kind = tasks.every((task) => kinds.of[task] === kinds.of[tasks[0]]) ? kinds.of[tasks[0]] : COLOURED;
    const box = drawn("rect", { x: 0, width: place.box, rx: 5 });
    const title = drawn("text", { x: 10 }, shortened(shownName(label), place.letters));
    const figure = drawn("text", { x: 10 });
    const shape = drawn("g", {
      class: `node${path ? " path" : ""} ${state}`, role: "button", tabindex: i ? -1 : 0,
      transform: `translate(${x} ${y})`, "data-node": i,
    }, box, title, " ", figure);
    return { shape, box, title, figure, tasks, label, x, y, kind, state, lost: states.length, after: [], before: [], layer: layers[i], path };
  });
  const bytes = figureOf(report.edges, "size_bytes").values;
  const carried = picture.of.map((edges) => edges.reduce((sum, edge) => sum + (bytes[edge] || 0), 0));
  const most = largestOf(carried);
  const steps = new Set((report.tasks.path || []).slice(1).map((task, i) => `${report.tasks.path[i]} ${task}`));
  const critical = (edge) => steps.has(`${report.edges.source[edge]} ${report.edges.target[edge]}`);
  view.wires = picture.edges.map(([source, target], k) => {
    const [from, to] = [view.nodes[source], view.nodes[target]];
    const edges = picture.of[k];
    const order = edges.every((edge) => bytes[edge] === 0);
    const shape = drawn("path", {
      class: `wire${edges.some(critical) ? " path" : ""}${order ? " order" : ""}`, "data-wire": k,
      d: route(from, to, bends[k], place), "stroke-width": (1.2 + 6 * Math.sqrt(share(carried[k], most))).toFixed(2),
    });
    from.after.push(to);
    to.before.push(from);
    return { shape, source: from, target: to, edges, bytes: carried[k] };
  });
  const isPath = (wire) => wire.shape.classList.contains("path");
  layer.replaceChildren(
    drawn("g", {}, view.wires.filter((wire) => !isPath(wire)).map((wire) => wire.shape), view.wires.filter(isPath).map((wire) => wire.shape)),
    drawn("g", {}, view.nodes.map((node) => node.shape)));
}

/** Return a line from the end of a node to the beginning of another, through its bends. */
function route(from, to, bends, place) {
  const half = BOX.most / 2;
  // The end of a layer, and its beginning, at a node or a bend.
  const leave = ([x, y]) => (place.down ? [x + place.box / 2, y + half] : [x + place.box, y]);
  const enter = ([x, y]) => (place.down ? [x + place.box / 2, y - half] : [x, y]);
  let [x, y] = leave([from.x, from.y]);
  // Behind the boxes, whose heights differ.
  let path = place.down ? `M${x} ${from.y}V${y}` : `M${x} ${y}`;
  const curve = ([nextX, nextY], layer) => {
    if (place.down) {
      const middle = (y + nextY) / 2;
      path += nextX === x ? `V${nextY}` : `C${x} ${middle} ${nextX} ${middle} ${nextX} ${nextY}`;
    } else if (nextX < x) {
      // Into the next row: past the last box, back above the row, and down before its first box.
      const [turn, above] = [place.gap / 2, place.above(layer)];
      path += `C${x + turn} ${y} ${x + turn} ${above} ${x} ${above}H${nextX}C${nextX - turn} ${above} ${nextX - turn} ${nextY} ${nextX} ${nextY}`;
    } else {
      const middle = (x + nextX) / 2;
      path += nextY === y ? `H${nextX}` : `C${middle} ${y} ${middle} ${nextY} ${nextX} ${nextY}`;
    }
    [x, y] = [nextX, nextY];
  };
  bends.forEach((bend, i) => {
    const at = place.at(from.layer + i + 1, bend);
    curve(enter(at), from.layer + i + 1);
    curve(leave(at), from.layer + i + 1);
  });
  curve(enter([to.x, to.y]), to.layer);
  return place.down ? `${path}V${to.y}` : path;
}

/** Give the nodes the size and colour of what is measured. */
function paint(view) {
  const { measure, colour } = view;
  const of = view.nodes.map((node) => measure && node.tasks.reduce((sum, task) => {
    const value = measure.values[task];
    return value === null ? sum : (sum || 0) + value;
  }, null));
  const most = largestOf(of);
  view.nodes.forEach((node, i) => {
    const part = share(of[i], most);
    const height = BOX.least + (BOX.most - BOX.least) * Math.sqrt(part);
    const ratio = report.comparison ? ratioOf(node.tasks) : null;
    const value = [
      node.state && node.tasks.length === 1 ? stateSign(node.state) : measure ? amount(of[i], measure.unit) : "",
      colour === "change" && ratio !== null ? inPercent(ratio) : "",
    ].filter(Boolean).join(", ");
    node.value = [measure ? `${measure.label}: ${amount(of[i], measure.unit)}` : "", ratio === null ? "" : `against the base: ${inPercent(ratio)}`].filter(Boolean).join("\n");
    node.box.setAttribute("y", -height / 2);
    node.box.setAttribute("height", height);
    node.box.style.fill = {
      measure: `color-mix(in oklab, var(--high) ${(100 * part).toFixed(1)}%, var(--low))`,
      kind: `color-mix(in oklab, var(--${kindColour(node.kind)}) 45%, var(--raised))`,
      change: changeColour(ratio),
    }[colour] || "";
    node.title.setAttribute("y", value ? -2 : 4);
    node.figure.setAttribute("y", 13);
    node.figure.textContent = value;
    node.shape.setAttribute("aria-label", [`${node.title.textContent} ${value}`.trim(), ...(node.title.textContent === node.label ? [] : [node.label]), measure && measure.label, node.path && "on the critical path", statesIn(node)].filter(Boolean).join(", "));
  });
}

function statesIn(node) {
  if (!node.lost) return "";
  return node.tasks.length > 1 ? `${count(node.lost, "task")} not finished` : node.state;
}

function tipOf(view, shape) {
  if ("node" in shape.dataset) {
    const node = view.nodes[shape.dataset.node];
    return [node.label, node.value, node.path ? "on the critical path" : "", statesIn(node)].filter(Boolean).join("\n");
  }
  const wire = view.wires[shape.dataset.wire];
  const fields = wire.edges.length === 1 ? report.edges.fields[wire.edges[0]] : count(wire.edges.length, "edge");
  return [`${wire.source.label} → ${wire.target.label}`, amount(wire.bytes, "bytes"), fields].filter(Boolean).join("\n");
}

/** Follow edges by the arrow keys. */
function walk(event, view, camera) {
  const shape = event.target.closest(".node");
  const zooms = { "+": () => camera.zoom(1.3), "-": () => camera.zoom(1 / 1.3), 0: () => camera.fit() };
  if (zooms[event.key] && !event.ctrlKey && !event.metaKey) {
    zooms[event.key]();
    event.preventDefault();
  }
  if (!shape) return;
  const node = view.nodes[shape.dataset.node];
  const neighbour = (by) => {
    const across = view.place.down ? "x" : "y";
    const column = view.nodes.filter((one) => one.layer === node.layer).sort((a, b) => a[across] - b[across]);
    return column[column.indexOf(node) + by];
  };
  const moves = [() => node.after[0], () => node.before[0], () => neighbour(1), () => neighbour(-1)];
  const keys = ["ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp"];
  if (view.place.down) keys.push(...keys.splice(0, 2));
  const next = moves[keys.indexOf(event.key)];
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    pick(node);
  } else if (next) {
    event.preventDefault();
    const other = next();
    if (!other) return;
    shape.setAttribute("tabindex", -1);
    other.shape.setAttribute("tabindex", 0);
    camera.reveal(other);
    other.shape.focus({ preventScroll: true });
  }
}

/** Return what moves and scales a layer of an SVG element. */
function cameraOf(svg, layer) {
  const at = { x: 0, y: 0, scale: 1 };
  let held = null;
  let travelled = 0;

  function place() {
    layer.setAttribute("transform", `translate(${at.x} ${at.y}) scale(${at.scale})`);
    svg.classList.toggle("far", at.scale < 0.42);
  }

  function zoom(by, x = svg.clientWidth / 2, y = svg.clientHeight / 2) {
    const scale = Math.max(0.004, Math.min(4, at.scale * by));
    at.x = x - (x - at.x) * (scale / at.scale);
    at.y = y - (y - at.y) * (scale / at.scale);
    at.scale = scale;
    place();
  }

  /** Show all, or the beginning of what would be smaller than `least`. */
  function fit(least = 0) {
    const box = layer.getBBox();
    const { clientWidth: width, clientHeight: height } = svg;
    if (!box.width || !width) return;
    at.scale = Math.max(least, Math.min(1.15, (width - MARGIN) / box.width, (height - MARGIN) / Math.max(box.height, 1)));
    at.x = Math.max(MARGIN / 2, (width - box.width * at.scale) / 2) - box.x * at.scale;
    at.y = (height - box.height * at.scale) / 2 - box.y * at.scale;
    place();
  }

  /** Move a node into sight; `near` also makes it large enough to read. */
  function reveal(node, near = false) {
    const { clientWidth: width, clientHeight: height } = svg;
    if (near && at.scale < 0.8) zoom(0.8 / at.scale);
    const x = at.x + (node.x + node.box.width.baseVal.value / 2) * at.scale;
    const y = at.y + node.y * at.scale;
    if (near || x < 60 || x > width - 60 || y < 30 || y > height - 30) {
      at.x += width / 2 - x;
      at.y += height / 2 - y;
      place();
    }
  }

  svg.addEventListener("wheel", (event) => {
    const across = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!event.ctrlKey && !event.metaKey && !across) return;
    event.preventDefault();
    if (across) {
      at.x -= event.deltaX || event.deltaY;
      place();
      return;
    }
    const box = svg.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY / 400), event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });
  svg.addEventListener("pointerdown", (event) => {
    held = { x: event.clientX, y: event.clientY };
    travelled = 0;
  });
  svg.addEventListener("pointermove", (event) => {
    if (!held || !event.buttons) return;
    travelled += Math.abs(event.clientX - held.x) + Math.abs(event.clientY - held.y);
    if (travelled < 4) return;
    // Not before it moves: a captured pointer's click goes to what has captured it.
    if (!svg.hasPointerCapture(event.pointerId)) svg.setPointerCapture(event.pointerId);
    svg.classList.add("moving");
    at.x += event.clientX - held.x;
    at.y += event.clientY - held.y;
    held = { x: event.clientX, y: event.clientY };
    place();
  });
  for (const name of ["pointerup", "pointercancel"]) {
    svg.addEventListener(name, () => {
      held = null;
      svg.classList.remove("moving");
    });
  }
  return { zoom, fit, reveal, moved: () => travelled >= 4 };
}
