/*
 * Reading charts: a cursor at the same x in all of them, a tooltip at the pointer, and zooming, by mouse, touch and keys.
 * Nothing here moves the page.
 */

import { bdi, make, runDot } from "./dom.js";
import { grouped, lossText, lowerBound, shortNumber, shortTime, waysOf, WRITE } from "./numbers.js";
import { charts, drawnListeners, ink, sharedExtent } from "./plot.js";

const BESIDE = 14; // px from the pointer to the tooltip
const DRAG = 6; // px: less is a click
const MOST_ROWS = 24;

/** @type {{x: number, source: Chart} | null} */
let cursor = null;
/** @type {any} */
let tooltip = null;

/** Show the cursor at x in all charts that count alike, and the values there beside the pointer; null takes it away. @param {Chart | null} source @param {number} x @param {{left: number, top: number} | null} pointer */
export function setCursor(source, x = 0, pointer = null) {
  cursor = source && { x, source };
  for (const chart of charts) placeCursor(chart);
  showTooltip(pointer);
}

/** @param {Chart} chart */
function placeCursor(chart) {
  const holder = chart.holder;
  let layer = holder.querySelector(".cursor");
  const own = Boolean(chart.spec.xRange);
  const shown =
    cursor && chart.plot && chart.inSight && !own && cursor.x >= chart.range[0] && cursor.x <= chart.range[1];
  if (!shown || !cursor) {
    if (layer) layer.hidden = true;
    return;
  }
  if (!layer) {
    layer = make("div", { class: "cursor", "aria-hidden": "true" }, make("div", { class: "cursor-line" }));
    holder.append(layer);
  }
  layer.hidden = false;
  const { x, y, box } = chart.places();
  const left = x(cursor.x);
  const line = layer.firstChild;
  Object.assign(line.style, { left: `${left}px`, top: `${box.top}px`, height: `${box.height}px` });
  let used = 1;
  chart.drawn.forEach((drawn, i) => {
    const found = cursor && chart.valueAt(i, cursor.x);
    if (!found || chart.alpha(drawn.line) < 1) return;
    const top = y(found.value);
    if (top < box.top - 1 || top > box.top + box.height + 1) return;
    const dot = layer.children[used] || layer.appendChild(make("span", { class: "cursor-dot" }));
    dot.hidden = false;
    Object.assign(dot.style, {
      left: `${drawn.line.kind === "dots" ? x(drawn.line.x[found.index]) : left}px`,
      top: `${top}px`,
      borderColor: ink(drawn.line.colour)
    });
    used += 1;
  });
  for (; used < layer.children.length; used += 1) layer.children[used].hidden = true;
}

// --- the tooltip ---

/** The rows at x, highest first. @param {Chart} chart @param {number} x */
function rowsAt(chart, x) {
  const write = WRITE[chart.spec.quantity];
  /** @type {{line: Line, value: number, text: string, between: boolean, error: number | null, note: string | null, raw: boolean}[]} */
  const rows = [];
  chart.drawn.forEach(({ line, mean }, i) => {
    const found = chart.valueAt(i, x);
    if (!found) return;
    const error = line.errors ? line.errors[found.index] : null;
    const note = line.notes && !found.between ? line.notes[found.index] : null;
    rows.push({ line, value: found.value, text: write(found.value), between: found.between, error, note, raw: false });
    if (mean && found.raw !== null && !chart.spec.names)
      rows.push({ line, value: found.raw, text: write(found.raw), between: false, error: null, note: null, raw: true });
  });
  return rows.sort((a, b) => b.value - a.value);
}

/** The place of x in every way that the run counts: "Step 2480 · 15 min 9 s · 40.6M tokens". @param {Chart} chart @param {number} x */
function headAt(chart, x) {
  const { labels } = chart;
  const way = chart.view.state.x;
  const write = /** @type {Record<string, (v: number) => string>} */ ({
    step: v => `${labels.step} ${grouped(Math.round(v))}`,
    tokens: v => labels.count_tokens.replace("{n}", shortNumber(v)),
    time: shortTime,
    epochs: v => labels.count_epochs.replace("{n}", shortNumber(Number(v.toPrecision(3))))
  });
  const parts = [write[way](x)];
  const { run } = chart.spec;
  if (run && way === "step") {
    const ways = waysOf(run);
    for (const other of ["time", "tokens"]) if (ways[other]) parts.push(write[other](ways[other](x)));
  }
  return parts;
}

/** @param {{left: number, top: number} | null} pointer */
function showTooltip(pointer) {
  if (!cursor || !pointer) {
    if (tooltip) tooltip.hidden = true;
    return;
  }
  const { source: chart, x } = cursor;
  const rows = rowsAt(chart, x);
  const [head, ...more] = headAt(chart, x);
  const hidden = rows.length - MOST_ROWS;
  openTooltip(
    pointer,
    make("div", { class: "tooltip-head" }, make("strong", {}, bdi(head)), ...more.map(text => bdi(text))),
    ...rows.slice(0, MOST_ROWS).flatMap(row => tooltipRow(row, chart)),
    ...(hidden > 0 ? [make("div", { class: "faint" }, `+ ${hidden}`)] : [])
  );
}

/** @param {{left: number, top: number}} pointer @param {...Node} contents */
function openTooltip(pointer, ...contents) {
  if (!tooltip) tooltip = make("div", { class: "tooltip", "aria-hidden": "true" });
  if (!tooltip.isConnected) document.body.append(tooltip);
  tooltip.replaceChildren(...contents);
  tooltip.hidden = false;
  const { offsetWidth: width, offsetHeight: height } = tooltip;
  const left = pointer.left + BESIDE + width > innerWidth - 4 ? pointer.left - BESIDE - width : pointer.left + BESIDE;
  const top = pointer.top + BESIDE + height > innerHeight - 4 ? pointer.top - BESIDE - height : pointer.top + BESIDE;
  Object.assign(tooltip.style, { left: `${Math.max(4, left)}px`, top: `${Math.max(4, top)}px` });
}

/** @param {ReturnType<typeof rowsAt>[0]} row @param {Chart} chart */
function tooltipRow(row, chart) {
  const { labels } = chart;
  const name = row.raw ? labels.raw : row.line.label;
  const value = make("b", {}, bdi(`${row.between ? "≈ " : ""}${row.text}`, "ltr"));
  const error = row.error ? make("span", { class: "faint" }, bdi(`± ${lossText(row.error)}`, "ltr")) : null;
  const label = make(
    "span",
    { class: row.line.key === chart.spec.focus ? "strong" : "" },
    make("bdi", { dir: "auto" }, name)
  );
  if (row.between && row.line.kind === "both" && !chart.spec.names)
    label.append(make("span", { class: "faint" }, ` · ${labels.between}`));
  const parts = [make("div", { class: "tooltip-row" }, swatch(row.line, row.raw), label, value, error)];
  if (row.note) parts.push(make("div", { class: "tooltip-note" }, row.note));
  return parts;
}

/** A dot, a line or a wave in the colour of a line. @param {Line} line */
export function swatch(line, raw = false) {
  const mark = make("span", {
    class: `swatch ${raw ? "raw" : line.kind === "both" ? "both" : line.kind === "dots" ? "dots" : "line"}`
  });
  mark.style.setProperty("--tone", `var(--${line.colour})`);
  if (line.dash) mark.classList.add("dashed");
  return mark;
}

// --- zooming ---

/** Show a part of x; nearly all of it is all of it. @param {Chart} chart @param {number} low @param {number} high */
function zoomTo(chart, low, high) {
  const [first, last] = sharedExtent(chart.holder);
  const [from, to] = [Math.max(low, first), Math.min(high, last)];
  const least = (last - first) * 1e-4;
  if (!(to - from > least)) return;
  chart.view.set({ zoom: to - from > 0.995 * (last - first) ? null : [from, to] });
}

/** @param {Chart} chart @param {number} factor above 1: see less of x @param {number} [about] x that stays where it is */
function zoomBy(chart, factor, about) {
  const [low, high] = chart.range;
  const centre = about ?? (cursor ? cursor.x : (low + high) / 2);
  zoomTo(chart, centre - (centre - low) / factor, centre + (high - centre) / factor);
}

/** The same for the whole page, for buttons. @param {any} root @param {number} factor */
export function zoomPage(root, factor) {
  const chart = [...charts].find(each => root.contains(each.holder) && !each.spec.xRange && each.plot);
  if (chart) zoomBy(chart, factor);
}

// --- mouse, touch, keys ---

/** @param {Chart} chart */
export function listenToPointer(chart) {
  const { holder } = chart;
  if (chart.spec.points) {
    listenToPoints(chart);
    return;
  }
  /** @type {Map<number, {x: number, y: number}>} */
  const down = new Map();
  /** @type {{from: number, range: [number, number], distance: number, box: any} | null} */
  let gesture = null;
  const inside = (/** @type {MouseEvent} */ event) => {
    const at = holder.getBoundingClientRect();
    const { box } = chart.places();
    return { px: event.clientX - at.left - box.left, width: box.width };
  };
  const valueAt = (/** @type {MouseEvent} */ event) => {
    const { px, width } = inside(event);
    const [low, high] = chart.range;
    return low + (Math.min(Math.max(px, 0), width) / width) * (high - low);
  };
  const select = make("div", { class: "selection", hidden: "", "aria-hidden": "true" });
  holder.append(select);
  const show = (/** @type {PointerEvent} */ event) => {
    if (chart.plot) setCursor(chart, nearPoint(chart, valueAt(event)), { left: event.clientX, top: event.clientY });
  };

  holder.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
    if (event.button || !chart.plot) return;
    down.set(event.pointerId, { x: event.clientX, y: event.clientY });
    const spread = [...down.values()].map(({ x }) => x);
    gesture = {
      from: event.clientX,
      range: [...chart.range],
      distance: spread.length > 1 ? Math.abs(spread[0] - spread[1]) : 0,
      box: inside(event)
    };
    try {
      holder.setPointerCapture(event.pointerId);
    } catch {
      /* a pointer that a test made up */
    }
  });
  holder.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    if (!chart.plot) return;
    const known = down.get(event.pointerId);
    if (known) Object.assign(known, { x: event.clientX, y: event.clientY });
    if (gesture && down.size > 1) {
      // two fingers: what is between them stays between them
      select.hidden = true;
      const [one, two] = [...down.values()].map(({ x }) => x);
      const factor = Math.max(Math.abs(one - two), 1) / Math.max(gesture.distance, 1);
      const at = holder.getBoundingClientRect();
      const { box } = chart.places();
      const share = ((one + two) / 2 - at.left - box.left) / box.width;
      const [low, high] = gesture.range;
      const centre = low + share * (high - low);
      zoomTo(chart, centre - (centre - low) / factor, centre + (high - centre) / factor);
      return;
    }
    if (gesture && Math.abs(event.clientX - gesture.from) > DRAG) {
      const at = holder.getBoundingClientRect();
      const { box } = chart.places();
      const ends = [gesture.from, event.clientX]
        .map(x => Math.min(Math.max(x - at.left, box.left), box.left + box.width))
        .sort((a, b) => a - b);
      select.hidden = false;
      Object.assign(select.style, {
        left: `${ends[0]}px`,
        width: `${ends[1] - ends[0]}px`,
        top: `${box.top}px`,
        height: `${box.height}px`
      });
    }
    if (event.pointerType === "mouse" || gesture) show(event);
  });
  const end = (/** @type {PointerEvent} */ event) => {
    const pinched = down.size > 1;
    down.delete(event.pointerId);
    const was = gesture;
    if (!down.size) gesture = null;
    if (!was || !chart.plot || pinched) return;
    const dragged = !select.hidden;
    select.hidden = true;
    if (dragged && event.type === "pointerup") {
      const { px, width } = inside(event);
      const [low, high] = chart.range;
      const ends = [was.box.px, px]
        .map(at => low + (Math.min(Math.max(at, 0), width) / width) * (high - low))
        .sort((a, b) => a - b);
      setCursor(null);
      zoomTo(chart, ends[0], ends[1]);
    } else if (event.type === "pointerup") {
      if (event.pointerType !== "mouse") show(event);
      if (chart.spec.names) chooseLine(chart, valueAt(event), event.clientY - holder.getBoundingClientRect().top);
    }
  };
  holder.addEventListener("pointerup", end);
  holder.addEventListener("pointercancel", end);
  holder.addEventListener("pointerleave", (/** @type {PointerEvent} */ event) => {
    if (event.pointerType === "mouse" && !gesture) setCursor(null);
  });
  holder.addEventListener("dblclick", () => chart.view.set({ zoom: null }));
  holder.addEventListener(
    "wheel",
    (/** @type {WheelEvent} */ event) => {
      if (!event.ctrlKey || !chart.plot) return; // otherwise the page scrolls
      event.preventDefault();
      zoomBy(chart, Math.exp(-event.deltaY / 200), valueAt(event));
    },
    { passive: false }
  );
  holder.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    if (chart.plot && moveByKey(chart, event)) event.preventDefault();
  });
  holder.addEventListener("blur", () => {
    if (cursor && cursor.source === chart) setCursor(null);
  });
}

/** Highlight the run whose line was clicked; a second click takes that back. @param {Chart} chart @param {number} x @param {number} top px */
function chooseLine(chart, x, top) {
  const { y } = chart.places();
  const near = chart.drawn
    .map(({ line }, i) => ({ line, found: chart.valueAt(i, x) }))
    .map(({ line, found }) => ({ key: line.key, away: found ? Math.abs(y(found.value) - top) : Infinity }))
    .sort((a, b) => a.away - b.away)[0];
  if (near && near.away < 12) chart.view.set({ focus: chart.view.state.focus === near.key ? "" : near.key });
}

/** A chart of single points: the nearest one says what it is. @param {Chart} chart */
function listenToPoints(chart) {
  const { holder } = chart;
  const show = (/** @type {PointerEvent} */ event) => {
    if (!chart.plot) return;
    const at = holder.getBoundingClientRect();
    const { x, y, box } = chart.places();
    const away = (/** @type {{x: number, y: number}} */ point) =>
      Math.hypot(
        x(point.x) + 4 - (event.clientX - at.left),
        (Number.isNaN(point.y) ? box.top + 6 : y(point.y)) - (event.clientY - at.top)
      );
    const near = [...(chart.spec.points || [])].sort((a, b) => away(a) - away(b))[0];
    setCursor(null);
    if (near && away(near) < 14)
      openTooltip(
        { left: event.clientX, top: event.clientY },
        make(
          "div",
          { class: "tooltip-row" },
          runDot(near.key),
          make("bdi", { dir: "auto" }, near.key),
          make("b", {}, bdi(near.text, "ltr"))
        )
      );
  };
  holder.addEventListener("pointermove", show);
  holder.addEventListener("pointerdown", show);
  holder.addEventListener("pointerleave", () => setCursor(null));
}

/** The x of a marked point under the pointer, such as a slow step, or x itself. @param {Chart} chart @param {number} x */
function nearPoint(chart, x) {
  const stops = chart.spec.stops || [];
  if (!stops.length) return x;
  const after = lowerBound(stops, x);
  const near = [stops[after - 1], stops[after]]
    .filter(stop => stop !== undefined)
    .sort((a, b) => Math.abs(a - x) - Math.abs(b - x))[0];
  const { box } = chart.places();
  return Math.abs(near - x) <= ((chart.range[1] - chart.range[0]) / box.width) * 5 ? near : x;
}

/** @param {Chart} chart @param {KeyboardEvent} event @returns {boolean} whether the key was for the chart */
function moveByKey(chart, event) {
  const [low, high] = chart.range;
  const now = cursor && cursor.source === chart ? cursor.x : null;
  const stops = (chart.spec.stops || []).filter(stop => stop >= low && stop <= high);
  const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  let next = null;
  if (way && stops.length > 1 && !event.shiftKey) {
    const at =
      now === null
        ? way > 0
          ? -1
          : stops.length
        : way > 0
          ? lowerBound(stops, now * (1 + 1e-12) + 1e-12) - 1
          : lowerBound(stops, now);
    next = stops[Math.min(Math.max(at + way, 0), stops.length - 1)];
  } else if (way) next = now === null ? (way > 0 ? low : high) : now + (way * (high - low)) / 100;
  else if (event.key === "Home") next = stops[0] ?? low;
  else if (event.key === "End") next = stops[stops.length - 1] ?? high;
  else if (event.key === "+" || event.key === "=") zoomBy(chart, 2);
  else if (event.key === "-" || event.key === "_") zoomBy(chart, 0.5);
  else if (event.key === "Escape" && (cursor || chart.view.state.zoom)) {
    setCursor(null);
    chart.view.set({ zoom: null });
  } else return false;
  if (next !== null) {
    const x = Math.min(Math.max(next, low), high);
    const at = chart.holder.getBoundingClientRect();
    const { x: place, box } = chart.places();
    setCursor(chart, x, { left: at.left + place(x), top: at.top + box.top + box.height / 3 });
    describeCursor(chart);
  }
  return true;
}

/** What a screen reader hears as the cursor moves. @param {Chart} chart */
function describeCursor(chart) {
  if (!cursor) return;
  const rows = rowsAt(chart, cursor.x)
    .slice(0, 6)
    .map(
      row =>
        `${row.raw ? chart.labels.raw : row.line.label} ${row.between ? "≈ " : ""}${row.text}${row.note ? `. ${row.note}` : ""}`
    );
  chart.holder.setAttribute("aria-valuetext", [headAt(chart, cursor.x)[0], ...rows].join(chart.labels.separator));
  chart.holder.setAttribute("aria-valuenow", String(Math.round(cursor.x)));
}

drawnListeners.add(placeCursor);
