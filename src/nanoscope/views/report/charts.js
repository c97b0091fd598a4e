"use strict";
/* Numbers of a payload, and charts of them. Charts run from left to right in every language. */

const CHART_HEIGHT_PX = 240;
const drawnCharts = new Set();
const WHOLE = Array.from({ length: 16 }, (_, e) => [1, 2, 5].map((n) => n * 10 ** e)).flat(); // there is no step 2.5
const MOST_MARKS = 400; // slow steps that can be reached by pointer and keyboard, the costliest

/** An array of numbers from base64; what is not a number becomes null, a gap in a chart. */
function decode(base64, Numbers) {
  const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  return Array.from(new Numbers(bytes.buffer), (v) => (Number.isFinite(v) ? v : null));
}

/** Steps: first, distance and count, or each of them. */
function readSteps(steps) {
  if (steps.each !== undefined) return decode(steps.each, Float64Array);
  return Array.from({ length: steps.count }, (_, i) => steps.first + i * steps.every);
}

/** One column of a run as {x, y}, or null. */
function readSeries(run, name) {
  const series = run.series[name];
  if (!series) return null;
  return { x: readSteps(series.x || run.steps), y: decode(series.y, Float32Array) };
}

/** The points of rows [x, y, …], without those that have no y. */
function pointsOf(rows, column = 1) {
  const kept = rows.filter((row) => row[column] !== null && row[column] !== undefined);
  return { x: kept.map((row) => row[0]), y: kept.map((row) => row[column]) };
}

/** y at x, between the points around it. */
function interpolate(points, x) {
  const after = points.findIndex(([px]) => px >= x);
  const [x1, y1] = points[after < 1 ? (after < 0 ? points.length - 1 : 1) : after];
  const [x0, y0] = points[after < 1 ? (after < 0 ? points.length - 2 : 0) : after - 1];
  return x1 === x0 ? y1 : y0 + ((y1 - y0) * (x - x0)) / (x1 - x0);
}

function shortNumber(value) {
  if (value === null || value === undefined) return "—";
  for (const [size, letter] of [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e4, "k"]]) {
    const shown = letter === "k" ? value / 1e3 : value / size;
    if (Math.abs(value) >= size) return Number(shown.toPrecision(3)) + letter;
  }
  return String(Number(value.toPrecision(4)));
}

/** '{n} min' in the language of the page, by unit. */
const unitPatterns = { d: "{n} d", h: "{n} h", min: "{n} min", s: "{n} s", ms: "{n} ms" };

function shortTime(seconds) {
  if (seconds === null || seconds === undefined) return "—";
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"], [1e-3, "ms"]];
  const [size, unit] = units.find(([size]) => Math.abs(seconds) >= size * (size > 1 ? 2 : 1)) || units[4];
  return unitPatterns[unit].replace("{n}", Number((seconds / size).toPrecision(3)));
}

/** Distances between ticks: those of a clock for times, uPlot's own for other numbers. */
function steady(format) {
  if (format !== shortTime) return undefined;
  const parts = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1].flatMap((size) => [size, 2 * size, 5 * size]);
  return [...parts, ...[60, 3600, 86400].flatMap((size) => [size / 6, size / 2, size, 2 * size, 5 * size]), ...[1, 2, 5].map((n) => n * 864000)];
}

/** The numbers of a chart as uPlot takes them. */
function chartData(spec) {
  const tables = spec.series.map((s) => [s.x, s.y]);
  return tables.length > 1 ? uPlot.join(tables) : tables[0];
}

const inSight = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    target.inSight = isIntersecting;
    if (isIntersecting && target.late) target.late();
  }
});

/** Give a chart new numbers, once it is in sight; where somebody has zoomed in, it stays. */
function updateChart(chart, spec) {
  chart.root.late = null;
  if (!chart.root.inSight) { chart.root.late = () => updateChart(chart, spec); return; }
  const before = chart.data[0];
  const { min, max } = chart.scales.x;
  const zoomed = min > before[0] || max < before[before.length - 1];
  chart.setData(chartData(spec), !zoomed);
  if (zoomed) chart.redraw();
}

/** Times begin at nought, so that a little noise looks like little. */
function yScale(spec) {
  if (spec.logarithmic) return { distr: 3 };
  return spec.format === shortTime ? { range: (_, low, high) => [0, (high || 1) * 1.05] } : {};
}

/**
 * Draw lines and points into `holder`.
 * spec: series [{x, y, label, colour, dots?, errors?}], lines [{x, label, colour}] across the chart, logarithmic,
 * format and formatX of values, readout: the element that shows the values under the pointer.
 */
function drawChart(holder, spec) {
  const axis = { stroke: colour("soft"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line") } };
  const options = {
    width: Math.max(holder.clientWidth, 200),
    height: CHART_HEIGHT_PX,
    legend: { show: false },
    scales: { x: { time: false }, y: yScale(spec) },
    axes: [
      { ...axis, size: 36, incrs: steady(spec.formatX) || WHOLE, values: (_, splits) => splits.map(spec.formatX || shortNumber) },
      { ...axis, size: (_, values) => Math.max(66, ...(values || []).map((text) => 16 + 7 * text.length)), incrs: spec.logarithmic ? undefined : steady(spec.format), values: (_, splits) => splits.map((v) => (v === null ? "" : spec.format(v))) },
    ],
    series: [{}, ...spec.series.map((s) => ({
      label: s.label,
      stroke: colour(s.colour),
      fill: s.dots ? colour(s.colour) : undefined,
      width: s.width || 1.5,
      dash: s.dash,
      spanGaps: true,
      paths: s.dots ? () => null : undefined,
      points: { show: Boolean(s.dots), size: 7, fill: colour(s.colour), width: 0, space: 0 },
    }))],
    hooks: {
      draw: [(chart) => drawExtras(chart, spec), (chart) => chart.placeMarks && chart.placeMarks()],
      setCursor: [(chart) => spec.readout && tellValues(chart, spec)],
    },
  };
  const chart = new uPlot(options, chartData(spec), holder);
  drawnCharts.add(chart);
  inSight.observe(chart.root);
  let width = options.width;
  new ResizeObserver(() => {
    if (holder.clientWidth && holder.clientWidth !== width) {
      width = holder.clientWidth;
      chart.setSize({ width, height: CHART_HEIGHT_PX });
    }
  }).observe(holder);
  return chart;
}

/** Let go of charts that are no longer in the page: each listens to the window. */
function dropDetachedCharts() {
  for (const chart of drawnCharts) {
    if (chart.root.isConnected) continue;
    inSight.unobserve(chart.root);
    chart.destroy();
    drawnCharts.delete(chart);
  }
}

/** Error bars, and lines across the chart. */
function drawExtras(chart, spec) {
  const { ctx, bbox } = chart;
  const at = (x, y) => [chart.valToPos(x, "x", true), chart.valToPos(y, "y", true)];
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.lineWidth = 1.5 * devicePixelRatio;
  for (const series of spec.series) {
    ctx.strokeStyle = colour(series.colour);
    (series.errors || []).forEach((error, i) => {
      if (!error) return;
      const [x, high] = at(series.x[i], series.y[i] + error);
      const low = at(series.x[i], series.y[i] - error)[1];
      const cap = 3 * devicePixelRatio;
      ctx.beginPath();
      ctx.moveTo(x, high); ctx.lineTo(x, low);
      ctx.moveTo(x - cap, high); ctx.lineTo(x + cap, high);
      ctx.moveTo(x - cap, low); ctx.lineTo(x + cap, low);
      ctx.stroke();
    });
  }
  ctx.setLineDash([5 * devicePixelRatio, 4 * devicePixelRatio]);
  for (const line of spec.lines || []) {
    const x = chart.valToPos(line.x, "x", true);
    ctx.strokeStyle = colour(line.colour);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top); ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

function tellValues(chart, spec) {
  const index = chart.cursor.idx;
  if (index === null || index === undefined) { spec.readout.textContent = ""; return; }
  const values = spec.series.map((s, i) => [s.label, chart.data[i + 1][index]]).filter(([, v]) => v !== null && v !== undefined);
  const x = (spec.formatX || String)(chart.data[0][index]);
  spec.readout.textContent = [`${spec.labelX} ${x}`, ...values.map(([label, v]) => `${label} ${spec.format(v)}`)].join(" · ");
}

/**
 * Buttons over the points of a chart: one tab stop, arrow keys move, focus and hover show the text.
 * marks: [{x, y, text}]; `tip` is where the text appears. Takes the place of marks that were there.
 */
function addMarks(holder, chart, marks, tip, label) {
  const old = holder.querySelector(".marks");
  const focused = old ? [...old.children].indexOf(document.activeElement) : -1;
  if (old) old.remove();
  const layer = document.createElement("div");
  layer.className = "marks";
  layer.setAttribute("role", "group");
  layer.setAttribute("aria-label", label);
  const ordered = marks.slice(0, MOST_MARKS).sort((a, b) => a.x - b.x);
  const buttons = ordered.map((mark, i) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "mark";
    button.tabIndex = i ? -1 : 0;
    button.setAttribute("aria-label", mark.text);
    for (const event of ["mouseenter", "focus"]) button.addEventListener(event, () => { tip.textContent = mark.text; });
    button.addEventListener("keydown", (event) => {
      const way = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      const next = event.key === "Home" ? 0 : event.key === "End" ? buttons.length - 1 : way ? i + way : -1;
      if (!buttons[next]) return;
      event.preventDefault();
      button.tabIndex = -1;
      buttons[next].tabIndex = 0;
      buttons[next].focus();
    });
    return button;
  });
  layer.append(...buttons);
  holder.append(layer);
  const place = () => {
    const { offsetLeft, offsetTop, clientWidth } = chart.over;
    ordered.forEach((mark, i) => {
      const x = chart.valToPos(mark.x, "x");
      buttons[i].style.left = `${x + offsetLeft}px`;
      buttons[i].style.top = `${chart.valToPos(mark.y, "y") + offsetTop}px`;
      buttons[i].hidden = x < 0 || x > clientWidth; // after zooming in
    });
  };
  chart.placeMarks = place;
  place();
  if (buttons[focused]) buttons[focused].focus();
}
