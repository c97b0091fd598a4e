/* A chart in the page: its title, legend and menu around the plot. */

import { bdi, icon, make, makeButton, menuButton, openDialog, table } from "./dom.js";
import { lowerBound, NOTHING, shortTime, WRITE } from "./numbers.js";
import { Chart, FONT, ink, paintChart, textWidth } from "./plot.js";
import { listenToPointer, swatch, zoomPage } from "./pointer.js";

/**
 * @param {Spec} spec @param {View} view @param {Labels} labels @param {number} level of the heading
 * @param {{head?: Node | null, unit?: string, now?: string, label?: Node | string}} extras head: between title and legend; now: the last value; label: the title, if it opens something
 */
export function figure(spec, view, labels, level, extras = {}) {
  const own = Boolean(spec.xRange);
  const unit = extras.unit || "";
  const holder = make(
    "div",
    own
      ? { class: "plot", role: "img", "aria-label": spec.title }
      : {
          class: "plot",
          tabindex: "0",
          role: "slider",
          "aria-orientation": "horizontal",
          "aria-valuemin": "0",
          "aria-valuenow": "0",
          "aria-label": labels.chart.replace("{title}", spec.title),
          title: ""
        }
  );
  holder.removeAttribute("title");
  const legend = make("div", { class: "legend", role: "group", "aria-label": labels.legend });
  const now = make("span", { class: "now" }, bdi(extras.now || "", "ltr"));
  /** @type {Chart | null} */
  let chart = null;
  let hasRaw = false;
  const menu = menuButton(`${labels.take_away}: ${spec.title}`, icon("menu"), () => [
    makeButton(
      {},
      () => {
        if (chart) savePicture(chart, "png");
      },
      "PNG"
    ),
    makeButton(
      {},
      () => {
        if (chart) savePicture(chart, "svg");
      },
      "SVG"
    ),
    makeButton(
      {},
      () => {
        if (chart) saveText(`${fileName(chart)}.csv`, "text/csv", csvOf(...numbersOf(chart, true)));
      },
      "CSV"
    ),
    makeButton(
      {},
      () => {
        if (chart) openDialog(spec.title, labels.close, table(spec.title, ...numbersOf(chart, false)));
      },
      labels.table
    )
  ]);
  const whole = make(
    "section",
    { class: `card chart ${spec.tall ? "tall" : "small"}`, "data-key": spec.key },
    make(
      "div",
      { class: "card-head" },
      make(`h${level}`, {}, extras.label || spec.title, " ", make("bdi", { class: "unit", "data-unit": unit }, unit)),
      extras.head || null,
      legend,
      now,
      menu
    ),
    holder
  );
  fillLegend();
  whole.figure = {
    shape: `${spec.key} ${spec.title}`,
    spec,
    extras,
    draw() {
      if (chart) return;
      chart = new Chart(holder, spec, view, labels);
      listenToPointer(chart);
    },
    /** Show the numbers of another figure of the same shape. @param {any} next */
    take(next) {
      spec = this.spec = next.spec;
      now.replaceChildren(bdi(next.extras.now || "", "ltr"));
      fillLegend();
      if (chart) chart.take(spec);
    },
    /** @param {Partial<ViewState>} change */
    refresh(change) {
      const onlySmoothing = Object.keys(change).join() === "smoothing";
      if (!onlySmoothing || view.state.smoothing > 0 !== hasRaw) fillLegend();
      if (chart && (!onlySmoothing || spec.lines.some(line => line.smooth))) chart.schedule();
    }
  };
  return whole;

  function fillLegend() {
    if (spec.lines.length < 2 && !spec.lines.some(line => line.smooth && spec.tall)) return;
    const entries = spec.lines
      .filter(line => line.label && !line.unlisted)
      .map(line => entry(line, line.label, line.key));
    const smooth = spec.lines.find(line => line.smooth);
    hasRaw = view.state.smoothing > 0;
    if (smooth && spec.tall && !spec.names && view.state.smoothing > 0) entries.push(entry(smooth, labels.raw, "raw"));
    const focused = [...legend.children].indexOf(document.activeElement);
    legend.replaceChildren(...entries);
    if (focused >= 0 && legend.children[focused]) legend.children[focused].focus();
  }

  /** @param {Line} line @param {string} label @param {string} key */
  function entry(line, label, key) {
    const { hidden } = view.state;
    const button = makeButton(
      { class: "legend-item", "aria-pressed": String(!hidden.includes(key)) },
      () => {
        const { hidden: now } = view.state;
        view.set({ hidden: now.includes(key) ? now.filter(other => other !== key) : [...now, key] });
      },
      swatch(line, key === "raw"),
      make("bdi", { dir: "auto" }, label)
    );
    if (key === "raw") return button;
    for (const [event, hovered] of [
      ["pointerenter", key],
      ["focus", key],
      ["pointerleave", ""],
      ["blur", ""]
    ])
      button.addEventListener(event, () => {
        if (chart) chart.hover(hovered);
      });
    return button;
  }
}

/* One row of controls for all charts of a page. */

/** Buttons of which one is chosen. @param {string} label @param {string} id @param {[string, string][]} choices value and text @param {() => string} chosen @param {(value: string) => void} choose */
export function segment(label, id, choices, chosen, choose) {
  const buttons = choices.map(([value, text]) => makeButton({ id: `${id}-${value}` }, () => choose(value), text));
  const whole = make("div", { class: "segment", role: "group", "aria-label": label }, ...buttons);
  whole.update = () =>
    choices.forEach(([value], i) => buttons[i].setAttribute("aria-pressed", String(value === chosen())));
  whole.update();
  return whole;
}

/** @param {View} view @param {string[]} ways along x @param {Labels} labels @param {any} root */
export function chartToolbar(view, ways, labels, root) {
  const slider = make("input", { type: "range", id: "smoothing", min: "0", max: "0.99", step: "0.01" });
  const amount = make("output", { for: "smoothing", class: "amount" });
  slider.addEventListener("input", () => view.set({ smoothing: Number(slider.value) }));
  const x = segment(
    labels.x_axis,
    "x",
    ways.map(way => [way, labels[`by_${way}`]]),
    () => (ways.includes(view.state.x) ? view.state.x : "step"),
    way => view.set({ x: way })
  );
  const y = segment(
    labels.y_axis,
    "y",
    [
      ["linear", labels.linear],
      ["log", labels.log]
    ],
    () => (view.state.log ? "log" : "linear"),
    way => view.set({ log: way === "log" })
  );
  const start = make("input", { type: "checkbox", id: "leave-start" });
  start.addEventListener("change", () => view.set({ start: start.checked, zoom: null }));
  const button = (/** @type {IconName} */ face, /** @type {string} */ label, /** @type {() => void} */ act, id = "") =>
    makeButton({ class: "icon-button", "aria-label": label, title: label, id }, act, icon(face));
  const bar = make(
    "div",
    { class: "toolbar", role: "group", "aria-label": labels.toolbar, "data-key": ways.join(" ") },
    make("label", { class: "smoothing" }, make("span", {}, labels.smoothing), slider, amount),
    make("div", { class: "tool" }, make("span", { "aria-hidden": "true" }, "y"), y),
    make("div", { class: "tool" }, make("span", { "aria-hidden": "true" }, "x"), x),
    make("label", { class: "tool leave" }, start, labels.leave_start),
    make(
      "div",
      { class: "tool end" },
      button("minus", labels.zoom_out, () => zoomPage(root, 0.5), "zoom-out"),
      button("plus", labels.zoom_in, () => zoomPage(root, 2), "zoom-in"),
      makeButton({ class: "control quiet", id: "reset" }, () => view.reset(), icon("reset"), labels.reset)
    )
  );
  bar.update = () => {
    const { smoothing } = view.state;
    if (document.activeElement !== slider || Number(slider.value) !== smoothing) slider.value = String(smoothing);
    slider.style.setProperty("--share", String(smoothing / 0.99));
    amount.textContent = smoothing.toFixed(2);
    start.checked = view.state.start;
    x.update();
    y.update();
  };
  bar.update();
  return bar;
}

/* What can be taken away: pictures, tables, commands. */

/** @param {string} name @param {Blob} blob */
export function saveBlob(name, blob) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** @param {string} name @param {string} type @param {string} text */
export function saveText(name, type, text) {
  saveBlob(name, new Blob([text], { type: `${type};charset=utf-8` }));
}

/** A button that copies a text and says so. @param {string} label @param {string} done @param {() => string} text */
export function copyButton(label, done, text, attributes = {}) {
  const said = make("span", { "aria-live": "polite" }, label);
  const button = makeButton(
    { class: "control quiet", ...attributes },
    async () => {
      await copyText(text());
      said.textContent = done;
      setTimeout(() => {
        said.textContent = label;
      }, 1500);
    },
    icon("copy"),
    said
  );
  return button;
}

/** @param {string} text */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // pages that are files, and browsers that ask first
    const field = make("textarea", { class: "unseen", "aria-hidden": "true" });
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
}

// --- tables ---

/** Rows as RFC 4180 has them; a text that a spreadsheet would take for a formula is quoted. @param {string[]} headers @param {(string | number)[][]} rows */
export function csvOf(headers, rows) {
  const cell = (/** @type {string | number} */ value) => {
    let text = String(value);
    if (/^[=+\-@\t\r]/.test(text) && !Number.isFinite(Number(text))) text = `'${text}`;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [headers, ...rows].map(row => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

/** A button that saves a table. @param {string} title @param {string[]} headers @param {(string | number)[][]} rows @param {string} name of the file */
export function csvButton(title, headers, rows, name) {
  return makeButton(
    { class: "control quiet", "aria-label": `CSV: ${title}` },
    () => saveText(`${safeName(name)}.csv`, "text/csv", csvOf(headers, rows)),
    icon("save"),
    "CSV"
  );
}

/** @param {number} level @param {import("./payload.d.ts").TextTable} shown @param {string} name of the file */
export function tableCard(level, { title, headers, rows }, name) {
  return make(
    "section",
    { class: "card wide" },
    make("div", { class: "card-head" }, make(`h${level}`, {}, title), csvButton(title, headers, rows, name)),
    table(title, headers, rows)
  );
}

const TABLE_ROWS = 1000;

/** The numbers of a chart: all of them, or as many as one reads. @param {Chart} chart @param {boolean} all @returns {[string[], (string | number)[][]]} */
function numbersOf(chart, all) {
  const write = all
    ? (/** @type {number} */ value) => String(Number(value.toPrecision(7)))
    : WRITE[chart.spec.quantity];
  const lines = chart.spec.lines;
  const marked = all ? [] : lines.filter(line => line.kind);
  const errors = lines.some(line => line.errors && line.errors.some(Boolean));
  const notes = lines.some(line => line.notes);
  const xs = [...new Set((marked.length ? marked : lines).flatMap(line => Array.from(line.x)))].sort((a, b) => a - b);
  const every = all ? 1 : Math.max(1, Math.ceil(xs.length / TABLE_ROWS));
  const rows = xs
    .filter((_, i) => i % every === 0 || i === xs.length - 1)
    .map(x => {
      /** @type {(string | number)[]} */
      const row = [chart.view.state.x === "time" && !all ? shortTime(x) : Number(x.toPrecision(9))];
      let error = "";
      let note = "";
      for (const line of lines) {
        const i = lowerBound(line.x, x);
        const exact = line.x[i] === x;
        const near = exact ? i : !all && i > 0 && i < line.x.length && !line.kind ? i : -1;
        row.push(near >= 0 ? write(line.y[near]) : all ? "" : NOTHING);
        if (exact && line.errors && line.errors[i]) error = write(/** @type {number} */ (line.errors[i]));
        if (exact && line.notes && line.notes[i]) note = line.notes[i] || "";
      }
      if (errors) row.push(error);
      if (notes) row.push(note);
      return row;
    });
  const { labels } = chart;
  const headers = [
    labels[chart.view.state.x],
    ...lines.map(line => line.label || chart.spec.title),
    ...(errors ? [labels.stderr] : []),
    ...(notes ? [labels.cause] : [])
  ];
  return [headers, rows];
}

// --- pictures ---

/** @param {string} text */
function safeName(text) {
  return (
    text
      .normalize("NFKD")
      .replace(/[^\p{L}\p{N}._-]+/gu, "-")
      .replace(/^[-.]+|[-.]+$/g, "")
      .slice(0, 80) || "nanoscope"
  );
}

/** @param {Chart} chart */
function fileName(chart) {
  return safeName([...(chart.spec.runs || []).slice(0, 3), chart.spec.key].join("-"));
}

/** @param {string} text */
function escaped(text) {
  return text.replace(/[&<>"]/g, character => `&#${character.charCodeAt(0)};`);
}

/** A pen that writes SVG. @param {string[]} out @returns {Pen} */
function svgPen(out) {
  const round = (/** @type {number} */ n) => Math.round(n * 10) / 10;
  const path = (/** @type {ArrayLike<number>} */ points) => {
    let d = "";
    for (let i = 0; i < points.length; i += 2) d += `${i ? "L" : "M"}${round(points[i])} ${round(points[i + 1])}`;
    return d;
  };
  const clipped = (/** @type {boolean | undefined} */ clip) => (clip === false ? "" : ' clip-path="url(#box)"');
  return {
    line: (points, { colour, width, dash, alpha = 1, clip }) =>
      out.push(
        `<path d="${path(points)}" fill="none" stroke="${colour}" stroke-width="${width}" stroke-linejoin="round" opacity="${alpha}"${dash ? ` stroke-dasharray="${dash.join(" ")}"` : ""}${clipped(clip)}/>`
      ),
    area: (points, { colour, alpha }) =>
      out.push(`<path d="${path(points)}Z" fill="${colour}" opacity="${alpha}"${clipped(true)}/>`),
    dot: (x, y, r, { fill = "none", stroke = "none", width = 1, clip }) =>
      out.push(
        `<circle cx="${round(x)}" cy="${round(y)}" r="${r}" fill="${fill}" stroke="${stroke}" stroke-width="${width}"${clipped(clip)}/>`
      ),
    text: (x, y, text, { colour, align = "left", bold, halo }) =>
      out.push(
        `<text x="${round(x)}" y="${round(y)}" dy="0.35em" fill="${colour}" text-anchor="${{ left: "start", right: "end", center: "middle" }[align]}"${bold ? ' font-weight="600"' : ""}${halo ? ` stroke="${ink("surface")}" stroke-width="3" paint-order="stroke"` : ""}>${escaped(text)}</text>`
      )
  };
}

/** The chart as it is shown, with its title and legend. @param {Chart} chart */
function svgOf(chart) {
  const head = 30;
  const { spec } = chart;
  const width = chart.holder.clientWidth;
  const height = chart.height() + head;
  /** @type {string[]} */
  const out = [];
  const pen = svgPen(out);
  const { x, y, box } = chart.places();
  const at = { x, y, box };
  for (const { at: ticks, labels, isX } of [
    { ...chart.yTicks(chart.plot.scales.y.min, chart.plot.scales.y.max), isX: false },
    { ...chart.xTicks(chart.range[0], chart.range[1], box.width), isX: true }
  ]) {
    ticks.forEach((tick, i) => {
      if (
        isX
          ? tick < chart.range[0] || tick > chart.range[1]
          : tick < chart.plot.scales.y.min || tick > chart.plot.scales.y.max
      )
        return;
      if (isX)
        pen.line([x(tick), box.top + box.height, x(tick), box.top + box.height + 4], {
          colour: ink("edge"),
          width: 1,
          clip: false
        });
      else pen.line([box.left, y(tick), box.left + box.width, y(tick)], { colour: ink("grid"), width: 1 });
      pen.text(isX ? x(tick) : box.left - 8, isX ? box.top + box.height + 14 : y(tick), labels[i], {
        colour: ink("faint"),
        align: isX ? "center" : "right"
      });
    });
  }
  paintChart(chart, at, pen, "behind");
  if (!spec.paint) {
    for (const { line, mean, from, to } of chart.drawn) {
      if (line.kind === "dots") continue;
      const points = [];
      for (let i = from; i < to; i += 1) points.push(x(line.x[i]), y(mean ? mean[i - from] : line.y[i]));
      if (points.length) pen.line(points, { colour: ink(line.colour), width: chart.lineWidth(line), dash: line.dash });
    }
  }
  paintChart(chart, at, pen, "above");
  const body = out.splice(0).join("\n");
  const unit = chart.holder.closest("section").querySelector(".unit").textContent;
  pen.text(12, 16, `${spec.title}${unit ? ` (${unit})` : ""}`, { colour: ink("ink"), bold: true });
  let right = width - 12;
  if (!spec.names && chart.drawn.length > 1) {
    for (const { line } of [...chart.drawn].reverse()) {
      if (!line.label || right < width / 3) continue;
      pen.text(right, 16, line.label, { colour: ink("soft"), align: "right" });
      right -= textWidth(line.label) + 10;
      pen.dot(right, 16, 3.5, { fill: ink(line.colour), clip: false });
      right -= 14;
    }
  }
  const family = FONT.slice(FONT.indexOf(" ") + 1).replaceAll('"', "'");
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="${family}" font-size="11">
<rect width="${width}" height="${height}" fill="${ink("surface")}"/>
<clipPath id="box"><rect x="${box.left - 5}" y="${box.top - 5}" width="${box.width + 10}" height="${box.height + 5.5}"/></clipPath>
${out.join("\n")}
<g transform="translate(0 ${head})">
${body}
</g>
</svg>
`;
}

/** @param {Chart} chart @param {"png" | "svg"} kind */
function savePicture(chart, kind) {
  if (!chart.plot) return;
  const svg = svgOf(chart);
  if (kind === "svg") {
    saveText(`${fileName(chart)}.svg`, "image/svg+xml", svg);
    return;
  }
  const image = new Image();
  image.onload = () => {
    const canvas = document.createElement("canvas");
    canvas.width = 2 * image.width;
    canvas.height = 2 * image.height;
    const ctx = canvas.getContext("2d");
    if (!ctx) return;
    ctx.drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob(blob => {
      if (blob) saveBlob(`${fileName(chart)}.png`, blob);
    }, "image/png");
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
}
