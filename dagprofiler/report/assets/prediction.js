// What was predicted: the makespan over the number of workers, and a prediction beside a real run.

addSection("prediction", "Prediction", null, (root) => {
  const { comparison } = report;
  const { prediction } = profile;
  const real = comparison && comparison.prediction;
  const curve = prediction.curve || [];
  const start = [];
  const parts = element("div", { class: "stack" });
  if (real) {
    parts.append(...errorInWords(real));
    start.push(ganttsOf(parts, real.sides));
  }
  if (curve.length > 1) {
    const place = element("div");
    const draw = () => place.replaceChildren(curveOf(curve, Math.min(720, place.clientWidth)));
    parts.append(element("h3", {}, "Makespan over the number of workers"), place,
      curve.some((point) => point.interval_ms) ? element("p", { class: "note" }, "The band is the 95 % interval of one run.") : "");
    whenLookChanges(draw);
    start.push(draw);
  }
  const gains = gainsOf(prediction);
  if (gains.length) {
    const rows = gains.map(([kind, gain]) => [kind, `${percent(Math.abs(gain))} ${gain < 0 ? "longer" : "shorter"}`]);
    parts.append(element("h3", {}, "If it were twice as fast"), plainTable("If it were twice as fast", ["tasks", "the whole"], rows, [1]));
  }
  if (parts.hasChildNodes()) root.append(parts);
  return () => start.forEach((act) => act());
});

/** Return the classes of tasks, the one that gains most first. */
function gainsOf(prediction) {
  return Object.entries(prediction.gains || {}).sort((a, b) => b[1] - a[1]);
}

/** Return how far the prediction was off, and which parts of the makespan it missed. */
function errorInWords({ predicted_ms: predicted, real_ms: real, error, parts }) {
  const off = Math.abs(error) < 0.0005 ? "" : `, ${percent(Math.abs(error))} too ${error > 0 ? "long" : "short"}`;
  const rows = parts.map((part) => [part.words, time(part.predicted_ms), time(part.real_ms), inPercent(1 + part.error)]);
  return [
    element("p", {}, `The predicted makespan is ${time(predicted)}, the real one ${time(real)}${off}.`),
    element("h3", {}, "Where the error comes from"),
    element("div", { class: "pair" }, element("div", {}, plainTable("Parts of the makespan", ["part", "predicted", "real", "error"],
      [...rows, ["makespan", time(predicted), time(real), inPercent(1 + error)]], [1, 2, 3])))];
}

/** Append the predicted and the real timeline under each other, on one axis; return what paints. */
function ganttsOf(root, sides) {
  const canvas = element("canvas", { role: "img", "aria-label": "The predicted and the real timeline, a row for each worker. The table above has the sums of their parts." });
  const spacer = element("div");
  const rows = element("div", { class: "rows", tabindex: "0", role: "region", "aria-label": "Predicted and real timeline" }, canvas, spacer);
  const view = { lanes: "workers", colour: hasKinds ? "kind" : "phase", start: 0, from: 0, until: 0, spans: new Map(), rows: [] };
  let height = 0;
  for (const [side, found] of sides) {
    const bars = barsOf(found, { round: found.first, spans: view.spans });
    const [begin, end] = boundsOf(bars);
    view.until = Math.max(view.until, end - begin);
    for (const bar of bars) {
      for (const key of ["ready", "begin", "done"]) bar[key] -= begin;
      bar.phases = bar.phases.map(([phase, from, to]) => [phase, from - begin, to - begin]);
    }
    const workers = found.workers.map((worker) => `${side}: ${worker.split(", pid")[0]}`);
    for (const row of rowsOf({ workers }, view, bars)) {
      row.top = height;
      height += row.height;
      view.rows.push(row);
    }
    height += LANE / 2;
  }
  const barAt = (event) => {
    const box = canvas.getBoundingClientRect();
    const gutter = gutterOf(box.width);
    const y = event.clientY - box.top - AXIS + rows.scrollTop;
    const moment = ((event.clientX - box.left - gutter) / (box.width - gutter - 12)) * view.until;
    const row = view.rows.find(({ top, height }) => y >= top && y < top + height);
    return row && row.bars.find(({ begin, done }) => begin <= moment && moment <= done);
  };
  const paint = () => {
    const shown = Math.min(height + AXIS, TALLEST);
    spacer.style.height = `${height + AXIS - shown}px`;
    paintTimeline(view, canvas, rows, shown);
  };
  canvas.addEventListener("pointermove", (event) => {
    const bar = barAt(event);
    showTip(bar ? barInWords(bar, view) : "", event);
  });
  canvas.addEventListener("pointerleave", (event) => showTip("", event));
  canvas.addEventListener("click", (event) => {
    const bar = barAt(event);
    if (bar) choose(bar.task);
  });
  rows.addEventListener("scroll", paint);
  whenChosen(paint);
  whenSearched(paint);
  whenLookChanges(paint);
  root.append(
    element("h3", {}, "The predicted and the real run"),
    element("div", { class: "gantt" }, rows),
    element("ul", { class: "legend" }, view.colour === "kind" ? kindLegend() : phasesOf(sides[0][1]).map(([phase]) => element("li", {}, element("i", { class: phase }), { deserialize: "deserializing", compute: "in compute()", serialize: "serializing" }[phase])),
      onPath.size ? element("li", {}, element("i", { class: "route" }), "critical path") : null));
  return paint;
}

/** Return a chart of the makespan over the number of workers, with its interval as a band. */
function curveOf(curve, width) {
  const [height, left, bottom] = [260, 64, 34];
  const highest = largestOf(curve.map(({ makespan_ms: ms, interval_ms: ends }) => (ends ? ends[1] : ms)));
  const [fewest, most] = [curve[0].workers, curve[curve.length - 1].workers].sort((a, b) => a - b);
  const x = (workers) => left + 14 + ((width - left - 30) * (workers - fewest)) / Math.max(1, most - fewest);
  const y = (ms) => height - bottom - ((height - bottom - 12) * ms) / (highest || 1);
  const words = ({ workers, makespan_ms: ms, interval_ms: ends }) => `${count(workers, "worker")}: ${time(ms)}${ends ? `, 95 % from ${time(ends[0])} to ${time(ends[1])}` : ""}`;
  const chart = drawn("svg", { class: "chart", width, height, role: "img", "aria-label": curve.map(words).join("; ") });
  const step = niceStep(highest / 4 || 1);
  for (let ms = 0; ms <= highest; ms += step) {
    chart.append(
      drawn("line", { class: "axis", x1: left, x2: width, y1: y(ms), y2: y(ms) }),
      drawn("text", { x: left - 8, y: y(ms) + 4, "text-anchor": "end" }, time(ms)));
  }
  const every = Math.ceil(curve.length / (width / 40));
  curve.forEach(({ workers }, i) => {
    if (i % every === 0) chart.append(drawn("text", { x: x(workers), y: height - bottom + 18, "text-anchor": "middle" }, whole.format(workers)));
  });
  chart.append(drawn("text", { x: left, y: height - 2 }, "workers"));
  const sampled = curve.filter(({ interval_ms: ends }) => ends);
  const ends = [...sampled.map((point) => [point.workers, point.interval_ms[1]]), ...sampled.map((point) => [point.workers, point.interval_ms[0]]).reverse()];
  if (ends.length) chart.append(drawn("polygon", { class: "band", points: ends.map(([workers, ms]) => `${x(workers)},${y(ms)}`).join(" ") }));
  chart.append(drawn("polyline", { class: "line", points: curve.map((point) => `${x(point.workers)},${y(point.makespan_ms)}`).join(" ") }));
  for (const point of curve) chart.append(drawn("circle", { class: "sample", cx: x(point.workers), cy: y(point.makespan_ms), r: 4 }, drawn("title", {}, words(point))));
  return chart;
}
