/*
 * One chart: scales, axes and lines by uPlot; error bars, bands, dots and labels by a pen, which an exported picture uses
 * too. Charts run from left to right in every language and have the same gutters.
 */

import { colour } from "./view.js";
import { PHONE } from "./dom.js";
import { exponentialMean, linearTicks, logTicks, lowerBound, tickLabels, unitOf } from "./numbers.js";

const LEFT_GUTTER = 44;
export const FONT =
  '11px system-ui, -apple-system, "Segoe UI", "Noto Sans", "Noto Sans Arabic", "Noto Sans Devanagari", sans-serif';
const START_LEFT_OUT = 0.02; // of x
const START_IGNORED = 0.12; // of x, when the scale of y is chosen
const FEWEST_POINTS = 8; // that leaving out the start leaves of a line,
const FEWEST_EVALUATIONS = 3; // and of evaluations
const FEW_POINTS = 40; // each gets a dot
const DIVERGED_ABOVE = 10; // times the usual last loss: such a run does not set the scale

/** Called with a chart that was drawn. @type {Set<(chart: Chart) => void>} */
export const drawnListeners = new Set();

/** Charts in the page. @type {Set<Chart>} */
export const charts = new Set();

/** Colours are asked for at every drawing; they change with the theme only. @type {Map<string, string>} */
export const colours = new Map();

/** @param {string} token */
export function ink(token) {
  let value = colours.get(token);
  if (value === undefined)
    colours.set(
      token,
      (value = colour(/^c\d$/.test(token) && document.documentElement.classList.contains("stale") ? "ghost" : token))
    );
  return value;
}

const inSight = new IntersectionObserver(
  entries => {
    for (const { target, isIntersecting } of entries) {
      const chart = /** @type {any} */ (target).chart;
      chart.inSight = isIntersecting;
      if (isIntersecting && chart.stale) chart.refresh();
    }
  },
  { rootMargin: "100px" }
);
const resized = new ResizeObserver(entries => {
  for (const { target } of entries) /** @type {any} */ (target).chart.resize();
});

export class Chart {
  /** @param {any} holder @param {Spec} spec @param {View} view @param {Labels} labels */
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
    if (this.inSight)
      requestAnimationFrame(() => {
        if (this.stale) this.refresh();
      });
  }

  get logarithmic() {
    return Boolean(this.spec.log || (this.spec.quantity === "loss" && this.view.state.log));
  }

  /** The lines that the legend leaves. */
  lines() {
    const hidden = this.view.state.hidden;
    return this.spec.lines.filter(line => !hidden.includes(line.key));
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
    if (!this.holder.clientWidth) {
      this.stale = true;
      return;
    }
    const { smoothing } = this.view.state;
    const extent = this.spec.xRange ? this.extent() : sharedExtent(this.holder);
    this.range = this.shown(extent);
    const [low, high] = this.range;
    this.drawn = this.lines().map(line => {
      // One more point at each side, so that lines leave the chart at its edges.
      const from = Math.max(lowerBound(line.x, low) - (this.view.state.zoom || !this.view.state.start ? 1 : 0), 0);
      const to = Math.min(lowerBound(line.x, high * (1 + 1e-12)) + 1, line.x.length);
      const mean = line.smooth && smoothing > 0 ? exponentialMean(line.x, line.y, from, to, smoothing) : null;
      return { line, mean, from, to };
    });
    this.setUnit();
    this.data = this.columns();
    const shape = JSON.stringify([
      this.spec.tall,
      this.logarithmic,
      this.spec.gutter,
      this.spec.xLog,
      this.drawn.length,
      this.height(),
      this.labels.step
    ]);
    if (this.plot && this.shape === shape) {
      this.setStyles();
      this.plot.setData(this.data);
    } else this.build(shape);
    for (const listener of drawnListeners) listener(this);
  }

  setUnit() {
    const lines = this.spec.log ? this.drawn.slice(0, 1) : this.drawn;
    const sizes = lines
      .flatMap(({ line, from, to }) => (to > from ? [line.y[from], line.y[(from + to) >> 1], line.y[to - 1]] : []))
      .map(Math.abs)
      .sort((a, b) => a - b);
    const { factor, unit } = unitOf(this.spec.quantity, sizes[sizes.length - 1] || 0, this.labels);
    this.factor = factor;
    const place = this.holder.closest("section").querySelector(".unit");
    if (place && this.spec.quantity !== "loss" && unit !== place.textContent)
      place.textContent = unit || place.dataset.unit || "";
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
    const ends = this.drawn
      .filter(({ from, to }) => to > from)
      .map(({ line, to }) => line.y[to - 1])
      .sort((a, b) => a - b);
    const limit =
      spec.robust && spec.quantity === "loss"
        ? DIVERGED_ABOVE * Math.abs(ends[(ends.length - 1) >> 1]) || Infinity
        : Infinity;
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
        if (mean && spec.robust) {
          inside.push(line.y[i]);
          continue;
        }
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
    if (this.logarithmic) {
      const margin = (high / low) ** 0.08 || 1.1;
      return [low / Math.max(margin, 1.02), high * Math.max(margin, 1.02)];
    }
    if (spec.fromZero && low >= 0) return [0, high * 1.08 || 1];
    const margin = (high - low) * 0.06 || Math.abs(high) * 0.05 || 1;
    const bottom = low - margin;
    return [low >= 0 && bottom < 0 ? 0 : bottom, high + margin];
  }

  /** @param {number} low @param {number} high */
  yTicks(low, high) {
    const most = this.spec.tall ? 6 : 4;
    const ticks = this.logarithmic
      ? logTicks(low / this.factor, high / this.factor, most)
      : linearTicks(low / this.factor, high / this.factor, most);
    return { at: ticks.map(tick => tick * this.factor), labels: tickLabels(ticks, this.logarithmic) };
  }

  /** The ticks of x, without those that the axis title would touch. @param {number} low @param {number} high @param {number} width */
  xTicks(low, high, width) {
    const { xTicks, xLabels, xLog } = this.spec;
    if (xTicks && xLabels) {
      const place = (/** @type {number} */ x) =>
        width * (xLog ? Math.log(x / low) / Math.log(high / low) : (x - low) / (high - low));
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
    const ticks = linearTicks(
      low / factor,
      high / factor,
      Math.max(2, Math.min(8, Math.floor(width / 84))),
      way === "step" || way === "tokens"
    );
    const name = this.labels[way] || way;
    const title = unit ? `${name}, ${unit}` : name;
    const end = width - textWidth(title) - 8;
    const labels = tickLabels(ticks);
    return {
      at: ticks.map(tick => tick * factor),
      labels: labels.map((label, i) =>
        ((ticks[i] * factor - low) / (high - low)) * width + textWidth(label) / 2 > end ? "" : label
      ),
      title
    };
  }

  /** @param {string} shape */
  build(shape) {
    if (this.plot) this.plot.destroy();
    this.shape = shape;
    const { spec } = this;
    const axis = {
      stroke: () => ink("faint"),
      font: FONT,
      gap: 5,
      filter: (/** @type {any} */ _, /** @type {any} */ splits) => splits
    };
    const phone = innerWidth < PHONE;
    const options = {
      width: this.holder.clientWidth,
      height: this.height(),
      padding: [
        10,
        spec.gutter && !(phone && !spec.names) ? (phone ? Math.min(spec.gutter, 96) : spec.gutter) : 12,
        0,
        0
      ],
      legend: { show: false },
      cursor: { show: false },
      scales: {
        x: { time: false, range: () => this.range, distr: spec.xLog ? 3 : 1 },
        y: { distr: this.logarithmic ? 3 : 1, range: () => this.yRange() }
      },
      axes: [
        {
          ...axis,
          size: spec.tall ? 24 : 20,
          gap: 3,
          grid: { show: false },
          ticks: { stroke: () => ink("edge"), size: 4, width: 1 },
          splits: (
            /** @type {any} */ plot,
            /** @type {number} */ _,
            /** @type {number} */ low,
            /** @type {number} */ high
          ) => this.xTicks(low, high, plot.bbox.width / devicePixelRatio).at,
          values: (/** @type {any} */ plot) =>
            this.xTicks(plot.scales.x.min, plot.scales.x.max, plot.bbox.width / devicePixelRatio).labels
        },
        {
          ...axis,
          size: phone ? 40 : LEFT_GUTTER,
          gap: 8,
          grid: { stroke: () => ink("grid"), width: 1 },
          ticks: { show: false },
          splits: (
            /** @type {any} */ _,
            /** @type {number} */ _i,
            /** @type {number} */ low,
            /** @type {number} */ high
          ) => this.yTicks(low, high).at,
          values: (/** @type {any} */ plot) => this.yTicks(plot.scales.y.min, plot.scales.y.max).labels
        }
      ],
      series: [
        {},
        ...this.drawn.map((_, i) => ({
          stroke: () => ink(this.drawn[i].line.colour),
          width: 1,
          spanGaps: true,
          points: { show: false },
          auto: false
        }))
      ],
      hooks: {
        drawAxes: [() => this.paint("behind")],
        draw: [() => this.paint("above")]
      }
    };
    this.plot = new uPlot(options, this.data, this.holder);
    this.setStyles();
    this.plot.redraw(true);
  }

  setStyles() {
    this.plot.series.slice(1).forEach((/** @type {any} */ series, /** @type {number} */ i) => {
      const { line } = this.drawn[i];
      Object.assign(series, {
        width: this.lineWidth(line),
        dash: (line.dash || []).map(part => part * devicePixelRatio),
        alpha: this.alpha(line)
      });
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
    const box = {
      left: plot.bbox.left / ratio,
      top: plot.bbox.top / ratio,
      width: plot.bbox.width / ratio,
      height: plot.bbox.height / ratio
    };
    return {
      x: (/** @type {number} */ v) => plot.valToPos(v, "x") + box.left,
      y: (/** @type {number} */ v) => plot.valToPos(v, "y") + box.top,
      box
    };
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
    if (!this.plot || !width || !height) {
      if (width && this.inSight) {
        this.stale = true;
        this.refresh();
      }
      return;
    }
    if (width !== this.plot.width || height !== this.plot.height) {
      this.plot.setSize({ width, height });
      for (const listener of drawnListeners) listener(this);
    }
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
    if (line.x[nearest] === x || Math.abs(line.x[nearest] - x) < 0.5 * perPixel)
      return { value: value(nearest), raw: mean ? line.y[nearest] : null, index: nearest, between: false };
    if (line.kind === "dots" || x < line.x[from] || x > line.x[to - 1]) {
      return Math.abs(line.x[nearest] - x) < 6 * perPixel
        ? { value: value(nearest), raw: null, index: nearest, between: false }
        : null;
    }
    if (line.x[after] - line.x[before] < 6 * perPixel)
      return { value: value(nearest), raw: mean ? line.y[nearest] : null, index: nearest, between: false };
    const share = (x - line.x[before]) / (line.x[after] - line.x[before]);
    return { value: value(before) + share * (value(after) - value(before)), raw: null, index: nearest, between: true };
  }
}

/** The charts that share their x with the one in this element. @param {Element} element */
function chartsBeside(element) {
  const root = element.closest("[data-charts]");
  return [...charts].filter(chart => !chart.spec.xRange && chart.holder.closest("[data-charts]") === root);
}

/** Where charts begin that leave out the start: after the start of the shortest line; at its first step if too little would remain. @param {Element} element @param {number} first */
function beginWithoutStart(element, first) {
  const beside = chartsBeside(element)
    .flatMap(({ spec }) => spec.lines.map(line => ({ line, tall: spec.tall })))
    .filter(({ line }) => line.x.length && line.kind !== "dots");
  const main = beside.filter(({ line, tall }) => tall && line.x.length > 1);
  const begin = Math.min(...main.map(({ line: { x } }) => x[0] + START_LEFT_OUT * (x[x.length - 1] - x[0])));
  const remains = beside.every(({ line, tall }) => {
    const left = line.x.length - lowerBound(line.x, begin);
    return left === line.x.length || left >= (!tall ? 1 : line.kind === "both" ? FEWEST_EVALUATIONS : FEWEST_POINTS);
  });
  return main.length && remains ? Math.max(first, begin) : first;
}

/** Charts of one page have the same x. @param {Element} element @returns {[number, number]} */
export function sharedExtent(element) {
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
export function drawAll(root) {
  for (const chart of [...charts]) if (!chart.holder.isConnected) chart.destroy();
  for (const element of root.querySelectorAll("section")) if (element.figure) element.figure.draw();
}

/** @type {CanvasRenderingContext2D | null} */
let measuring = null;

/** @param {string} text */
export function textWidth(text) {
  measuring = measuring || document.createElement("canvas").getContext("2d");
  if (!measuring) return 6 * text.length;
  measuring.font = FONT;
  return measuring.measureText(text).width;
}

/** The beginning of a text that fits. @param {string} text @param {number} width */
export function fitting(text, width) {
  if (textWidth(text) <= width) return text;
  let end = text.length;
  while (end > 1 && textWidth(`${text.slice(0, end)}…`) > width) end -= 1;
  return `${text.slice(0, end)}…`;
}

/* What charts have besides axes and lines: bands, dots, error bars, labels. Drawn with a pen: on a canvas, or as SVG. */

/** @param {CanvasRenderingContext2D} ctx @param {Box} box @returns {Pen} */
function canvasPen(ctx, box) {
  const clipped = (/** @type {boolean | undefined} */ clip, /** @type {() => void} */ draw) => {
    ctx.save();
    if (clip !== false) {
      ctx.beginPath();
      ctx.rect(box.left - 5, box.top - 5, box.width + 10, box.height + 5.5);
      ctx.clip();
    }
    draw();
    ctx.restore();
  };
  const trace = (/** @type {ArrayLike<number>} */ points) => {
    ctx.beginPath();
    for (let i = 0; i < points.length; i += 2) ctx.lineTo(points[i], points[i + 1]);
  };
  return {
    line: (points, { colour, width, dash, alpha = 1, clip }) =>
      clipped(clip, () => {
        trace(points);
        Object.assign(ctx, { strokeStyle: colour, lineWidth: width, globalAlpha: alpha, lineJoin: "round" });
        ctx.setLineDash(dash || []);
        ctx.stroke();
      }),
    area: (points, { colour, alpha }) =>
      clipped(true, () => {
        trace(points);
        Object.assign(ctx, { fillStyle: colour, globalAlpha: alpha });
        ctx.fill();
      }),
    dot: (x, y, r, { fill, stroke, width = 1, clip }) =>
      clipped(clip, () => {
        ctx.beginPath();
        ctx.arc(x, y, r, 0, 2 * Math.PI);
        if (fill) {
          ctx.fillStyle = fill;
          ctx.fill();
        }
        if (stroke) {
          Object.assign(ctx, { strokeStyle: stroke, lineWidth: width });
          ctx.stroke();
        }
      }),
    text: (x, y, text, { colour, align = "left", bold, halo }) => {
      Object.assign(ctx, {
        font: (bold ? "600 " : "") + FONT,
        textAlign: align,
        textBaseline: "middle",
        direction: "ltr"
      });
      if (halo) {
        Object.assign(ctx, { strokeStyle: ink("surface"), lineWidth: 3, lineJoin: "round" });
        ctx.strokeText(text, x, y);
      }
      ctx.fillStyle = colour;
      ctx.fillText(text, x, y);
    }
  };
}

/** @param {Chart} chart @param {{x: (v: number) => number, y: (v: number) => number, box: Box}} at @param {Pen} pen @param {"behind" | "above"} layer */
export function paintChart(chart, at, pen, layer) {
  const { spec } = chart;
  const { box } = at;
  const bottom = box.top + box.height;
  if (layer === "behind") {
    pen.line([box.left, bottom + 0.5, box.left + box.width, bottom + 0.5], {
      colour: ink("edge"),
      width: 1,
      clip: false
    });
    const title = chart.xTicks(chart.range[0], chart.range[1], box.width).title;
    if (title)
      pen.text(box.left + box.width, bottom + (spec.tall ? 14.5 : 13), title, { colour: ink("faint"), align: "right" });
    if (spec.broken) paintBroken(spec.broken, at, pen);
    let above = -Infinity;
    for (const guide of spec.guides || []) above = paintGuide(guide, at, pen, above);
    if (!chart.view.state.hidden.includes("raw"))
      for (const drawn of chart.drawn) if (drawn.mean) paintRaw(drawn, at, pen, chart);
    return;
  }
  if (spec.paint) {
    spec.paint(at, pen);
    return;
  }
  const focused = chart.drawn.find(({ line }) => line.key === spec.focus);
  if (focused) paintFocused(focused, at, pen);
  for (const { line, from, to } of chart.drawn) {
    const few = to - from <= FEW_POINTS;
    if (chart.alpha(line) < 1 || ((!line.kind || line.kind === "line") && !few)) continue;
    paintDots(line, from, to, at, pen, chart);
  }
  if (spec.best && !chart.view.state.hidden.includes("val")) paintBest(spec.best, at, pen);
  if (spec.names) paintNames(chart, at, pen);
}

/** The raw numbers behind their mean: a line, or a band where points stand closer than pixels. @param {{line: Line, from: number, to: number}} drawn @param {any} at @param {Pen} pen @param {Chart} chart */
function paintRaw({ line, from, to }, at, pen, chart) {
  const alpha = 0.4 * chart.alpha(line) * (chart.spec.names ? 0.5 : 1);
  if (chart.spec.names && chart.spec.lines.length > 4 && line.key !== chart.spec.focus && line.key !== chart.hovered)
    return;
  const tone = ink(line.colour);
  if (!line.low && to - from < at.box.width * 2) {
    const points = new Float32Array(2 * (to - from));
    for (let i = from; i < to; i += 1) {
      points[2 * (i - from)] = at.x(line.x[i]);
      points[2 * (i - from) + 1] = at.y(line.y[i]);
    }
    pen.line(points, { colour: tone, width: 1, alpha });
    return;
  }
  const columns = pixelColumns(line, from, to, at);
  const points = [];
  for (const [x, , high] of columns) points.push(x, at.y(high));
  for (const [x, low] of columns.reverse()) points.push(x, at.y(low));
  pen.area(points, { colour: tone, alpha: alpha * 0.55 });
}

/** The lowest and the highest value in each column of pixels. @param {Line} line @param {number} from @param {number} to @param {any} at */
function pixelColumns(line, from, to, at) {
  /** @type {[number, number, number][]} */
  const columns = [];
  const [low, high] = [line.low || line.y, line.high || line.y];
  for (let i = from; i < to; i += 1) {
    const x = Math.round(at.x(line.x[i]));
    const last = columns[columns.length - 1];
    if (!last || x > last[0]) columns.push([x, low[i], high[i]]);
    else {
      if (low[i] < last[1]) last[1] = low[i];
      if (high[i] > last[2]) last[2] = high[i];
    }
  }
  return columns;
}

/** @param {{line: Line, mean: Float32Array | null, from: number, to: number}} drawn @param {any} at @param {Pen} pen */
function paintFocused({ line, mean, from, to }, at, pen) {
  const points = [];
  for (let i = from; i < to; i += 1) points.push(at.x(line.x[i]), at.y(mean ? mean[i - from] : line.y[i]));
  pen.line(points, { colour: ink("surface"), width: 5.5 });
  pen.line(points, { colour: ink(line.colour), width: 3, dash: line.dash });
}

/** @param {Line} line @param {number} from @param {number} to @param {any} at @param {Pen} pen @param {Chart} chart */
function paintDots(line, from, to, at, pen, chart) {
  const fill = ink(line.colour);
  for (let i = from; i < to; i += 1) {
    const x = at.x(line.x[i]);
    if (x < at.box.left - 1 || x > at.box.left + at.box.width + 1) continue;
    const error = line.errors && line.errors[i];
    if (error) {
      const [high, low] = [at.y(line.y[i] + error), at.y(line.y[i] - error)];
      for (const part of [
        [x, high, x, low],
        [x - 3, high, x + 3, high],
        [x - 3, low, x + 3, low]
      ])
        pen.line(part, { colour: fill, width: 1.25 });
    }
    pen.dot(
      x,
      at.y(line.y[i]),
      line.kind === "dots" ? 2.75 : line.kind !== "both" || to - from > 60 || chart.drawn.length > 8 ? 1.75 : 3,
      { fill }
    );
  }
}

/** @param {{x: number, y: number, value: string, label: string}} best @param {any} at @param {Pen} pen */
function paintBest(best, at, pen) {
  const [x, y] = [at.x(best.x), at.y(best.y)];
  const right = at.box.left + at.box.width;
  if (x < at.box.left || x > right + 1 || y < at.box.top || y > at.box.top + at.box.height) return;
  pen.dot(x, y, 4.5, { fill: ink("surface"), stroke: ink("c2"), width: 2 });
  if (innerWidth < PHONE) {
    pen.text(Math.min(x, right - 20), y + 14, best.value, {
      colour: ink("val-text"),
      align: "center",
      bold: true,
      halo: true
    });
    return;
  }
  pen.text(right + 10, y, best.value, { colour: ink("val-text"), bold: true });
  pen.text(right + 10, y + 13, best.label, { colour: ink("faint") });
}

/** A line across with its label, unless there is no room below the one `above`. @param {{y: number, label: string, colour: string}} guide @param {any} at @param {Pen} pen @param {number} above */
function paintGuide(guide, at, pen, above) {
  const y = at.y(guide.y);
  if (!(y > at.box.top && y < at.box.top + at.box.height) || y < above + 16) return above;
  pen.line([at.box.left, y, at.box.left + at.box.width, y], {
    colour: ink(guide.colour),
    width: 1,
    dash: [3, 3],
    alpha: 0.8
  });
  pen.text(at.box.left + at.box.width - 4, y - 8, guide.label, { colour: ink("faint"), align: "right", halo: true });
  return y;
}

/** @param {{x: number, label: string}} broken @param {any} at @param {Pen} pen */
function paintBroken(broken, at, pen) {
  const left = Math.max(at.x(broken.x), at.box.left);
  const right = at.box.left + at.box.width;
  if (left > right) return;
  const [top, bottom] = [at.box.top, at.box.top + at.box.height];
  pen.area([left, top, right, top, right, bottom, left, bottom], { colour: ink("bad"), alpha: 0.08 });
  pen.line([left, top, left, bottom], { colour: ink("bad"), width: 1.5 });
  const isRight = left > (at.box.left + right) / 2;
  pen.text(left + (isRight ? -6 : 6), top + 8, broken.label, {
    colour: ink("bad"),
    bold: true,
    align: isRight ? "right" : "left",
    halo: true
  });
}

/** Names at the ends of lines, pushed apart where they would touch. @param {Chart} chart @param {any} at @param {Pen} pen */
function paintNames(chart, at, pen) {
  const { box } = at;
  const right = box.left + box.width;
  const room = (chart.spec.gutter || 0) - 26;
  const ends = chart.drawn
    .filter(({ from, to }) => to > from)
    .map(({ line, mean, from, to }) => {
      let last = to - 1;
      while (last > from && line.x[last] > chart.range[1]) last -= 1;
      const y = at.y(mean ? mean[last - from] : line.y[last]);
      return {
        line,
        x: at.x(line.x[last]),
        y: Math.min(Math.max(y, box.top), box.top + box.height),
        label: y < box.top ? `↑ ${line.label}` : line.label,
        to: 0
      };
    })
    .sort((a, b) => a.y - b.y);
  const height = 14;
  const most = Math.floor((box.height + 20) / height);
  const shown =
    ends.length > most
      ? ends
          .filter(
            ({ line }, i) =>
              line.key === chart.spec.focus || line.key === chart.hovered || i % Math.ceil(ends.length / most) === 0
          )
          .slice(0, most)
      : ends;
  let free = box.top - 6;
  for (const end of shown) {
    end.to = Math.max(end.y, free);
    free = end.to + height;
  }
  let limit = box.top + box.height + 8;
  for (const end of [...shown].reverse()) {
    end.to = Math.min(end.to, limit);
    limit = end.to - height;
  }
  for (const { line, label, x, y, to } of shown) {
    if (chart.alpha(line) < 1) continue;
    const tone = ink(line.colour);
    const style = { colour: ink(line.key === chart.spec.focus ? "ink" : "soft"), bold: line.key === chart.spec.focus };
    if (x < right - 40) {
      // it ends before the others
      pen.text(x + 6, y - 8, fitting(label, right - x), { ...style, halo: true });
      continue;
    }
    pen.line([Math.min(x, right), y, right + 4, y, right + 12, to], {
      colour: tone,
      width: 0.75,
      alpha: 0.6,
      clip: false
    });
    pen.dot(right + 15, to, 3, { fill: tone, clip: false });
    pen.text(right + 22, to, fitting(label, room), style);
  }
}
