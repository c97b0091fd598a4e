"use strict";
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
    line: (points, { colour, width, dash, alpha = 1, clip }) => clipped(clip, () => {
      trace(points);
      Object.assign(ctx, { strokeStyle: colour, lineWidth: width, globalAlpha: alpha, lineJoin: "round" });
      ctx.setLineDash(dash || []);
      ctx.stroke();
    }),
    area: (points, { colour, alpha }) => clipped(true, () => {
      trace(points);
      Object.assign(ctx, { fillStyle: colour, globalAlpha: alpha });
      ctx.fill();
    }),
    dot: (x, y, r, { fill, stroke, width = 1, clip }) => clipped(clip, () => {
      ctx.beginPath();
      ctx.arc(x, y, r, 0, 2 * Math.PI);
      if (fill) { ctx.fillStyle = fill; ctx.fill(); }
      if (stroke) { Object.assign(ctx, { strokeStyle: stroke, lineWidth: width }); ctx.stroke(); }
    }),
    text: (x, y, text, { colour, align = "left", bold, halo }) => {
      Object.assign(ctx, { font: (bold ? "600 " : "") + FONT, textAlign: align, textBaseline: "middle", direction: "ltr" });
      if (halo) { Object.assign(ctx, { strokeStyle: ink("surface"), lineWidth: 3, lineJoin: "round" }); ctx.strokeText(text, x, y); }
      ctx.fillStyle = colour;
      ctx.fillText(text, x, y);
    },
  };
}

/** @param {Chart} chart @param {{x: (v: number) => number, y: (v: number) => number, box: Box}} at @param {Pen} pen @param {"behind" | "above"} layer */
function paintChart(chart, at, pen, layer) {
  const { spec } = chart;
  const { box } = at;
  const bottom = box.top + box.height;
  if (layer === "behind") {
    pen.line([box.left, bottom + 0.5, box.left + box.width, bottom + 0.5], { colour: ink("edge"), width: 1, clip: false });
    const title = chart.xTicks(chart.range[0], chart.range[1], box.width).title;
    if (title) pen.text(box.left + box.width, bottom + (spec.tall ? 14.5 : 13), title, { colour: ink("faint"), align: "right" });
    if (spec.broken) paintBroken(spec.broken, at, pen);
    let above = -Infinity;
    for (const guide of spec.guides || []) above = paintGuide(guide, at, pen, above);
    if (!chart.view.state.hidden.includes("raw")) for (const drawn of chart.drawn) if (drawn.mean) paintRaw(drawn, at, pen, chart);
    return;
  }
  if (spec.paint) { spec.paint(at, pen); return; }
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
  if (chart.spec.names && chart.spec.lines.length > 4 && line.key !== chart.spec.focus && line.key !== chart.hovered) return;
  const tone = ink(line.colour);
  if (!line.low && to - from < at.box.width * 2) {
    const points = new Float32Array(2 * (to - from));
    for (let i = from; i < to; i += 1) { points[2 * (i - from)] = at.x(line.x[i]); points[2 * (i - from) + 1] = at.y(line.y[i]); }
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
      for (const part of [[x, high, x, low], [x - 3, high, x + 3, high], [x - 3, low, x + 3, low]]) pen.line(part, { colour: fill, width: 1.25 });
    }
    pen.dot(x, at.y(line.y[i]), line.kind === "dots" ? 2.75 : line.kind !== "both" || to - from > 60 || chart.drawn.length > 8 ? 1.75 : 3, { fill });
  }
}

/** @param {{x: number, y: number, value: string, label: string}} best @param {any} at @param {Pen} pen */
function paintBest(best, at, pen) {
  const [x, y] = [at.x(best.x), at.y(best.y)];
  const right = at.box.left + at.box.width;
  if (x < at.box.left || x > right + 1 || y < at.box.top || y > at.box.top + at.box.height) return;
  pen.dot(x, y, 4.5, { fill: ink("surface"), stroke: ink("c2"), width: 2 });
  if (innerWidth < PHONE) { pen.text(Math.min(x, right - 20), y + 14, best.value, { colour: ink("val-text"), align: "center", bold: true, halo: true }); return; }
  pen.text(right + 10, y, best.value, { colour: ink("val-text"), bold: true });
  pen.text(right + 10, y + 13, best.label, { colour: ink("faint") });
}

/** A line across with its label, unless there is no room below the one `above`. @param {{y: number, label: string, colour: string}} guide @param {any} at @param {Pen} pen @param {number} above */
function paintGuide(guide, at, pen, above) {
  const y = at.y(guide.y);
  if (!(y > at.box.top && y < at.box.top + at.box.height) || y < above + 16) return above;
  pen.line([at.box.left, y, at.box.left + at.box.width, y], { colour: ink(guide.colour), width: 1, dash: [3, 3], alpha: 0.8 });
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
  pen.text(left + (isRight ? -6 : 6), top + 8, broken.label, { colour: ink("bad"), bold: true, align: isRight ? "right" : "left", halo: true });
}

/** Names at the ends of lines, pushed apart where they would touch. @param {Chart} chart @param {any} at @param {Pen} pen */
function paintNames(chart, at, pen) {
  const { box } = at;
  const right = box.left + box.width;
  const room = (chart.spec.gutter || 0) - 26;
  const ends = chart.drawn.filter(({ from, to }) => to > from).map(({ line, mean, from, to }) => {
    let last = to - 1;
    while (last > from && line.x[last] > chart.range[1]) last -= 1;
    const y = at.y(mean ? mean[last - from] : line.y[last]);
    return { line, x: at.x(line.x[last]), y: Math.min(Math.max(y, box.top), box.top + box.height), label: y < box.top ? `↑ ${line.label}` : line.label, to: 0 };
  }).sort((a, b) => a.y - b.y);
  const height = 14;
  const most = Math.floor((box.height + 20) / height);
  const shown = ends.length > most ? ends.filter(({ line }, i) => line.key === chart.spec.focus || line.key === chart.hovered || i % Math.ceil(ends.length / most) === 0).slice(0, most) : ends;
  let free = box.top - 6;
  for (const end of shown) { end.to = Math.max(end.y, free); free = end.to + height; }
  let limit = box.top + box.height + 8;
  for (const end of [...shown].reverse()) { end.to = Math.min(end.to, limit); limit = end.to - height; }
  for (const { line, label, x, y, to } of shown) {
    if (chart.alpha(line) < 1) continue;
    const tone = ink(line.colour);
    const style = { colour: ink(line.key === chart.spec.focus ? "ink" : "soft"), bold: line.key === chart.spec.focus };
    if (x < right - 40) { // it ends before the others
      pen.text(x + 6, y - 8, fitting(label, right - x), { ...style, halo: true });
      continue;
    }
    pen.line([Math.min(x, right), y, right + 4, y, right + 12, to], { colour: tone, width: 0.75, alpha: 0.6, clip: false });
    pen.dot(right + 15, to, 3, { fill: tone, clip: false });
    pen.text(right + 22, to, fitting(label, room), style);
  }
}
