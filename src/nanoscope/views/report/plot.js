"use strict";
/*
 * One chart: scales, axes and lines by uPlot; error bars, bands, dots and labels by a pen, which an exported picture uses
 * too. Charts run from left to right in every language and have the same gutters.
 */

/**
 * @typedef {object} Spec
 * @property {string} key
 * @property {string} title
 * @property {string} quantity see format.js
 * @property {Line[]} lines
 * @property {boolean} [tall]
 * @property {boolean} [log] always logarithmic; a loss follows the toolbar
 * @property {boolean} [robust] single spikes do not set the scale
 * @property {boolean} [fromZero]
 * @property {number} [gutter] px at the right, for labels
 * @property {{y: number, label: string, colour: string}[]} [guides] lines across
 * @property {{x: number, y: number, value: string, label: string} | null} [best]
 * @property {{x: number, label: string} | null} [broken] from here on there is nothing
 * @property {boolean} [names] lines carry their names at their ends
 * @property {string} [focus] key of the highlighted line
 * @property {number[]} [stops] x that the arrow keys go to
 * @property {(at: {x: (v: number) => number, y: (v: number) => number, box: Box}, pen: Pen) => void} [paint] instead of lines
 * @property {[number, number]} [xRange] of a chart with an x of its own
 * @property {[number, number]} [yRange]
 * @property {number[]} [xTicks]
 * @property {string[]} [xLabels]
 * @property {boolean} [xLog]
 * @property {{x: number, y: number, key: string, text: string}[]} [points] of a chart that paints itself
 * @property {any} [run] whose steps x counts
 * @property {string[]} [runs] names, for the file that a picture is saved in
 */
/** @typedef {{left: number, top: number, width: number, height: number}} Box */
/**
 * @typedef {object} Pen
 * @property {(points: ArrayLike<number>, style: {colour: string, width: number, dash?: number[] | null, alpha?: number, clip?: boolean}) => void} line x, y, x, y, …
 * @property {(points: ArrayLike<number>, style: {colour: string, alpha: number}) => void} area
 * @property {(x: number, y: number, r: number, style: {fill?: string, stroke?: string, width?: number, clip?: boolean}) => void} dot
 * @property {(x: number, y: number, text: string, style: {colour: string, align?: string, bold?: boolean, halo?: boolean}) => void} text
 */

const LEFT_GUTTER = 44;
const PHONE = 768;
const FONT = '11px system-ui, -apple-system, "Segoe UI", "Noto Sans", "Noto Sans Arabic", "Noto Sans Devanagari", sans-serif';
const START_LEFT_OUT = 0.02; // of x
const START_IGNORED = 0.12; // of x, when the scale of y is chosen
const FEWEST_POINTS = 8; // that leaving out the start leaves of a line,
const FEWEST_EVALUATIONS = 3; // and of evaluations
const FEW_POINTS = 40; // each gets a dot
const DIVERGED_ABOVE = 10; // times the usual last loss: such a run does not set the scale

/** Charts in the page. @type {Set<Chart>} */
const charts = new Set();

/** Colours are asked for at every drawing; they change with the theme only. @type {Map<string, string>} */
const colours = new Map();

/** @param {string} token */
function ink(token) {
  let value = colours.get(token);
  if (value === undefined) colours.set(token, value = colour(/^c\d$/.test(token) && document.documentElement.classList.contains("stale") ? "ghost" : token));
  return value;
}

const inSight = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    const chart = /** @type {any} */ (target).chart;
    chart.inSight = isIntersecting;
    if (isIntersecting && chart.stale) chart.refresh();
  }
}, { rootMargin: "100px" });
const resized = new ResizeObserver((entries) => {
  for (const { target } of entries) /** @type {any} */ (target).chart.resize();
});

class Chart {
  /** @param {any} holder @param {Spec} spec @param {View} view @param {Record<string, string>} labels */
  constructor(holder, spec, view, labels) {
    this.holder = holder;
    this.spec = spec;
    this.view = view;
    this.labels = labels;
    /** @type {any} */
    this.plot = null;
    this.inSight = false;
    this.stale = true;
    /** the line that the pointer highlights in the legend */
    this.hovered = "";
    /** @type {[number, number]} */
    this.range = [0, 1];
    /** what one unit of the ticks of y is */
    this.factor = 1;
    /** @type {ArrayLike<number | null>[]} */
    this.data = [];
    this.shape = "";
    /** drawn lines with their means @type {{line: Line, mean: Float32Array | null, from: number, to: number}[]} */
    this.drawn = [];
    holder.chart = this;
    charts.add(this);
    inSight.observe(holder);
    resized.observe(holder);
  }

  destroy() {
    charts.delete(this);
    inSight.unobserve(this.holder);
    resized.unobserve(this.holder);
    if (this.plot) this.plot.destroy();
  }

  /** @param {Spec} spec */
  take(spec) {
    this.spec = spec;
    this.schedule();
  }

  /** Draw with the next frame, or once it is in sight. */
  schedule() {
    if (this.stale) return;
    this.stale = true;
    if (this.inSight) requestAnimationFrame(() => { if (this.stale) this.refresh(); });
  }

  get logarithmic() { return Boolean(this.spec.log || (this.spec.quantity === "loss" && this.view.state.log)); }

  /** The lines that the legend leaves. */
  lines() {
    const hidden = this.view.state.hidden;
    return this.spec.lines.filter((line) => !hidden.includes(line.key));
  }

  /** All of x that the lines have. @returns {[number, number]} */
  extent() {
    if (this.spec.xRange) return this.spec.xRange;
    let low = Infinity;
    let high = -Infinity;
    for (const { x } of this.spec.lines) {
      if (!x.length) continue;
      low = Math.min(low, x[0]);
      high = Math.max(high, x[x.length - 1]);
    }
    return low < high ? [low, high] : [low - 1, low + 1];
  }

  /** What is shown of x. @param {[number, number]} extent of all charts @returns {[number, number]} */
  shown(extent) {
    const { zoom, start } = this.view.state;
    if (this.spec.xRange) return this.spec.xRange;
    if (zoom) return zoom;
    return start ? [beginWithoutStart(this.holder, extent[0]), extent[1]] : extent;
  }

  refresh() {
    this.stale = false;
    if (!this.holder.clientWidth) { this.stale = true; return; }
    const { smoothing } = this.view.state;
    const extent = this.spec.xRange ? this.extent() : sharedExtent(this.holder);
    this.range = this.shown(extent);
    const [low, high] = this.range;
    this.drawn = this.lines().map((line) => {
      // One more point at each side, so that lines leave the chart at its edges.
      const from = Math.max(lowerBound(line.x, low) - (this.view.state.zoom || !this.view.state.start ? 1 : 0), 0);
      const to = Math.min(lowerBound(line.x, high * (1 + 1e-12)) + 1, line.x.length);
      const mean = line.smooth && smoothing > 0 ? exponentialMean(line.x, line.y, from, to, smoothing) : null;
      return { line, mean, from, to };
    });
    this.setUnit();
    this.data = this.columns();
    const shape = JSON.stringify([this.spec.tall, this.logarithmic, this.spec.gutter, this.spec.xLog, this.drawn.length, this.height(), this.labels.step]);
    if (this.plot && this.shape === shape) { this.setStyles(); this.plot.setData(this.data); }
    else this.build(shape);
    placeCursor(this);
  }

  setUnit() {
    const lines = this.spec.log ? this.drawn.slice(0, 1) : this.drawn;
    const sizes = lines.flatMap(({ line, from, to }) => (to > from ? [line.y[from], line.y[(from + to) >> 1], line.y[to - 1]] : [])).map(Math.abs).sort((a, b) => a - b);
    const { factor, unit } = unitOf(this.spec.quantity, sizes[sizes.length - 1] || 0, this.labels);
    this.factor = factor;
    const place = this.holder.closest("section").querySelector(".unit");
    if (place && this.spec.quantity !== "loss" && unit !== place.textContent) place.textContent = unit || place.dataset.unit || "";
  }

  /** The numbers as uPlot takes them: one x for all lines. */
  columns() {
    const parts = this.drawn.map(({ line, from, to }) => Array.prototype.slice.call(line.x, from, to));
    let all = parts[0] || [];
    if (parts.length > 1) {
      const every = Float64Array.from(parts.flat()).sort();
      all = [];
      for (const x of every) if (all[all.length - 1] !== x) all.push(x);
    }
    if (!all.length) all = [...this.range];
    const columns = this.drawn.map(({ line, mean, from, to }) => {
      if (line.kind === "dots" || this.spec.paint) return new Array(all.length).fill(null);
      const values = mean || Array.prototype.slice.call(line.y, from, to);
      if (to - from === all.length) return values;
      const column = new Array(all.length).fill(null);
      let at = 0;
      for (let i = from; i < to; i += 1) {
        while (all[at] < line.x[i]) at += 1;
        column[at] = values[i - from];
      }
      return column;
    });
    return [all, ...columns];
  }

  height() {
    return this.holder.clientHeight;
  }

  /** @returns {[number, number]} */
  yRange() {
    const { spec } = this;
    if (spec.yRange) return spec.yRange;
    const [x0, x1] = this.range;
    const leavesStart = spec.robust && this.view.state.start && !this.view.state.zoom;
    const ends = this.drawn.filter(({ from, to }) => to > from).map(({ line, to }) => line.y[to - 1]).sort((a, b) => a - b);
    const limit = spec.robust && spec.quantity === "loss" ? DIVERGED_ABOVE * Math.abs(ends[(ends.length - 1) >> 1]) || Infinity : Infinity;
    let low = Infinity;
    let high = -Infinity;
    const take = (/** @type {number} */ value) => {
      if (this.logarithmic && value <= 0) return;
      if (value < low) low = value;
      if (value > high) high = value;
    };
    for (const { line, mean, from, to } of this.drawn) {
      if (to > from && line.y[to - 1] > limit) continue;
      const ignored = leavesStart ? line.x[0] + (line.x[line.x.length - 1] - line.x[0]) * START_IGNORED : x0; // of each its own
      const inside = [];
      for (let i = from; i < to; i += 1) {
        if (line.x[i] < ignored && to - i > 2 && line.kind !== "dots") continue;
        if (line.x[i] > x1) continue;
        if (mean) take(mean[i - from]);
        if (mean && spec.robust) { inside.push(line.y[i]); continue; }
        const error = (line.errors && line.errors[i]) || 0;
        take(line.y[i] - error);
        take(line.y[i] + error);
        if (line.low && !spec.robust) take(line.low[i]);
        if (line.high && !spec.robust) take(line.high[i]);
      }
      if (inside.length) {
        inside.sort((a, b) => a - b);
        take(inside[Math.floor(inside.length * 0.01)]);
        take(inside[Math.ceil(inside.length * 0.99) - 1]);
      }
    }
    if (low > high) return this.logarithmic ? [1, 10] : [0, 1];
    if (this.logarithmic) { const margin = (high / low) ** 0.08 || 1.1; return [low / Math.max(margin, 1.02), high * Math.max(margin, 1.02)]; }
    if (spec.fromZero && low >= 0) return [0, high * 1.08 || 1];
    const margin = (high - low) * 0.06 || Math.abs(high) * 0.05 || 1;
    const bottom = low - margin;
    return [low >= 0 && bottom < 0 ? 0 : bottom, high + margin];
  }

  /** @param {number} low @param {number} high */
  yTicks(low, high) {
    const most = this.spec.tall ? 6 : 4;
    const ticks = this.logarithmic ? logTicks(low / this.factor, high / this.factor, most) : linearTicks(low / this.factor, high / this.factor, most);
    return { at: ticks.map((tick) => tick * this.factor), labels: tickLabels(ticks, this.logarithmic) };
  }

  /** The ticks of x, without those that the axis title would touch. @param {number} low @param {number} high @param {number} width */
  xTicks(low, high, width) {
    const { xTicks, xLabels, xLog } = this.spec;
    if (xTicks && xLabels) {
      const place = (/** @type {number} */ x) => width * (xLog ? Math.log(x / low) / Math.log(high / low) : (x - low) / (high - low));
      let free = -Infinity;
      const shown = xLabels.map((label, i) => {
        const [left, half] = [place(xTicks[i]), textWidth(label) / 2];
        if (left - half < free) return "";
        free = left + half + 6;
        return label;
      });
      return { at: xTicks, labels: shown, title: "" };
    }
    const way = this.view.state.x;
    const { factor, unit } = way === "time" ? unitOf("time", high, this.labels) : { factor: 1, unit: "" };
    const ticks = linearTicks(low / factor, high / factor, Math.max(2, Math.min(8, Math.floor(width / 84))), way === "step" || way === "tokens");
    const name = this.labels[way] || way;
    const title = unit ? `${name}, ${unit}` : name;
    const end = width - textWidth(title) - 8;
    const labels = tickLabels(ticks);
    return { at: ticks.map((tick) => tick * factor), labels: labels.map((label, i) => (((ticks[i] * factor - low) / (high - low)) * width + textWidth(label) / 2 > end ? "" : label)), title };
  }

  /** @param {string} shape */
  build(shape) {
    if (this.plot) this.plot.destroy();
    this.shape = shape;
    const { spec } = this;
    const axis = { stroke: () => ink("faint"), font: FONT, gap: 5, filter: (/** @type {any} */ _, /** @type {any} */ splits) => splits };
    const phone = innerWidth < PHONE;
    const options = {
      width: this.holder.clientWidth,
      height: this.height(),
      padding: [10, spec.gutter && !(phone && !spec.names) ? (phone ? Math.min(spec.gutter, 96) : spec.gutter) : 12, 0, 0],
      legend: { show: false },
      cursor: { show: false },
      scales: {
        x: { time: false, range: () => this.range, distr: spec.xLog ? 3 : 1 },
        y: { distr: this.logarithmic ? 3 : 1, range: () => this.yRange() },
      },
      axes: [
        { ...axis, size: spec.tall ? 24 : 20, gap: 3, grid: { show: false }, ticks: { stroke: () => ink("edge"), size: 4, width: 1 },
          splits: (/** @type {any} */ plot, _i, low, high) => this.xTicks(low, high, plot.bbox.width / devicePixelRatio).at,
          values: (/** @type {any} */ plot) => this.xTicks(plot.scales.x.min, plot.scales.x.max, plot.bbox.width / devicePixelRatio).labels },
        { ...axis, size: phone ? 40 : LEFT_GUTTER, gap: 8, grid: { stroke: () => ink("grid"), width: 1 }, ticks: { show: false },
          splits: (_p, _i, low, high) => this.yTicks(low, high).at,
          values: (/** @type {any} */ plot) => this.yTicks(plot.scales.y.min, plot.scales.y.max).labels },
      ],
      series: [{}, ...this.drawn.map((_, i) => ({
        stroke: () => ink(this.drawn[i].line.colour), width: 1, spanGaps: true, points: { show: false }, auto: false,
      }))],
      hooks: {
        drawAxes: [() => this.paint("behind")],
        draw: [() => this.paint("above")],
      },
    };
    this.plot = new uPlot(options, this.data, this.holder);
    this.setStyles();
    this.plot.redraw(true);
  }

  setStyles() {
    this.plot.series.slice(1).forEach((/** @type {any} */ series, /** @type {number} */ i) => {
      const { line } = this.drawn[i];
      Object.assign(series, { width: this.lineWidth(line), dash: (line.dash || []).map((part) => part * devicePixelRatio), alpha: this.alpha(line) });
    });
  }

  /** Highlight one line, as the pointer does in the legend. @param {string} key */
  hover(key) {
    if (this.hovered === key || !this.plot) return;
    this.hovered = key;
    this.setStyles();
    this.plot.redraw(false);
  }

  /** @param {Line} line */
  lineWidth(line) {
    return line.key === this.spec.focus ? 3 : line.width || (this.spec.tall ? 2 : 1.75);
  }

  /** @param {Line} line */
  alpha(line) {
    const chosen = this.hovered;
    return chosen && chosen !== line.key ? 0.2 : 1;
  }

  /** The places of values, in px of the holder. */
  places() {
    const plot = this.plot;
    const ratio = devicePixelRatio;
    const box = { left: plot.bbox.left / ratio, top: plot.bbox.top / ratio, width: plot.bbox.width / ratio, height: plot.bbox.height / ratio };
    return { x: (/** @type {number} */ v) => plot.valToPos(v, "x") + box.left, y: (/** @type {number} */ v) => plot.valToPos(v, "y") + box.top, box };
  }

  /** @param {"behind" | "above"} layer */
  paint(layer) {
    const { ctx } = this.plot;
    ctx.save();
    ctx.scale(devicePixelRatio, devicePixelRatio);
    const at = this.places();
    paintChart(this, at, canvasPen(ctx, at.box), layer);
    ctx.restore();
  }

  resize() {
    const width = this.holder.clientWidth;
    const height = this.height();
    if (!this.plot || !width || !height) { if (width && this.inSight) { this.stale = true; this.refresh(); } return; }
    if (width !== this.plot.width || height !== this.plot.height) { this.plot.setSize({ width, height }); placeCursor(this); }
  }

  /** The nearest point of a line to x, or what lies between two. @param {number} index into `drawn` @param {number} x */
  valueAt(index, x) {
    const { line, mean, from, to } = this.drawn[index];
    const count = to - from;
    if (count < 1) return null;
    const value = (/** @type {number} */ i) => (mean ? mean[i - from] : line.y[i]);
    const perPixel = (this.range[1] - this.range[0]) / Math.max(this.places().box.width, 1);
    let after = Math.min(Math.max(lowerBound(line.x, x), from), to - 1);
    const before = Math.max(after - 1, from);
    const nearest = Math.abs(line.x[after] - x) < Math.abs(line.x[before] - x) ? after : before;
    if (line.x[nearest] === x || Math.abs(line.x[nearest] - x) < 0.5 * perPixel) return { value: value(nearest), raw: mean ? line.y[nearest] : null, index: nearest, between: false };
    if (line.kind === "dots" || x < line.x[from] || x > line.x[to - 1]) {
      return Math.abs(line.x[nearest] - x) < 6 * perPixel ? { value: value(nearest), raw: null, index: nearest, between: false } : null;
    }
    if (line.x[after] - line.x[before] < 6 * perPixel) return { value: value(nearest), raw: mean ? line.y[nearest] : null, index: nearest, between: false };
    const share = (x - line.x[before]) / (line.x[after] - line.x[before]);
    return { value: value(before) + share * (value(after) - value(before)), raw: null, index: nearest, between: true };
  }
}

/** The charts that share their x with the one in this element. @param {Element} element */
function chartsBeside(element) {
  const root = element.closest("[data-charts]");
  return [...charts].filter((chart) => !chart.spec.xRange && chart.holder.closest("[data-charts]") === root);
}

/** Where charts begin that leave out the start: after the start of the shortest line; at its first step if too little would remain. @param {Element} element @param {number} first */
function beginWithoutStart(element, first) {
  const beside = chartsBeside(element).flatMap(({ spec }) => spec.lines.map((line) => ({ line, tall: spec.tall }))).filter(({ line }) => line.x.length && line.kind !== "dots");
  const main = beside.filter(({ line, tall }) => tall && line.x.length > 1);
  const begin = Math.min(...main.map(({ line: { x } }) => x[0] + START_LEFT_OUT * (x[x.length - 1] - x[0])));
  const remains = beside.every(({ line, tall }) => {
    const left = line.x.length - lowerBound(line.x, begin);
    return left === line.x.length || left >= (!tall ? 1 : line.kind === "both" ? FEWEST_EVALUATIONS : FEWEST_POINTS);
  });
  return main.length && remains ? Math.max(first, begin) : first;
}

/** Charts of one page have the same x. @param {Element} element @returns {[number, number]} */
function sharedExtent(element) {
  let low = Infinity;
  let high = -Infinity;
  for (const chart of chartsBeside(element)) {
    const extent = chart.extent();
    low = Math.min(low, extent[0]);
    high = Math.max(high, extent[1]);
  }
  return low < high ? [low, high] : [0, 1];
}

/** Draw charts that are new in `root`, and let go of those that have left the page. @param {any} root */
function drawAll(root) {
  for (const chart of [...charts]) if (!chart.holder.isConnected) chart.destroy();
  for (const element of root.querySelectorAll("section")) if (element.figure) element.figure.draw();
}

/** @type {CanvasRenderingContext2D | null} */
let measuring = null;

/** @param {string} text */
function textWidth(text) {
  measuring = measuring || document.createElement("canvas").getContext("2d");
  if (!measuring) return 6 * text.length;
  measuring.font = FONT;
  return measuring.measureText(text).width;
}

/** The beginning of a text that fits. @param {string} text @param {number} width */
function fitting(text, width) {
  if (textWidth(text) <= width) return text;
  let end = text.length;
  while (end > 1 && textWidth(`${text.slice(0, end)}…`) > width) end -= 1;
  return `${text.slice(0, end)}…`;
}
