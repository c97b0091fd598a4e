"use strict";
/* A payload becomes a page. Texts only ever enter it as text, never as markup. */

const CAUSE_COLOURS = {
  startup: "c3", resume: "c3", evaluation: "c0", "evaluation+checkpoint": "c5", checkpoint: "c2", periodic: "c6", stall: "c4",
};
const PHASE_COLOURS = { startup: "c3", data: "c6", steps: "c0", eval: "c5", checkpoint: "c2", sample: "c1", other: "raw" };
const OLD_RUN_COLOURS = ["c0", "c1", "c2", "c3", "c4", "c5", "c6"];
const TABLE_ROWS = 60;

/** An element with attributes and children; strings become text. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null));
  return element;
}

function list(texts, tag = "ul") {
  return make(tag, {}, ...texts.map((text) => make("li", {}, text)));
}

function section(level, title, ...children) {
  return make("section", {}, make(`h${level}`, {}, title), ...children);
}

function table(title, headers, rows, direction = null) {
  const head = make("tr", {}, ...headers.map((text) => make(text ? "th" : "td", text ? { scope: "col" } : {}, make("bdi", {}, text))));
  const body = rows.map(([first, ...rest]) =>
    make("tr", {}, make("th", { scope: "row" }, make("bdi", {}, String(first))), ...rest.map((text) => make("td", {}, make("bdi", {}, String(text))))));
  const whole = make("table", {}, make("thead", {}, head), make("tbody", {}, ...body));
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title, dir: direction }, whole);
}

/** A part that is only built when it is opened. */
function folded(summary, build, attributes = {}, open = false) {
  const element = make("details", attributes, make("summary", {}, summary));
  element.build = build;
  element.fill = () => { if (element.open && element.children.length === 1) element.build(element); };
  element.addEventListener("toggle", element.fill);
  element.open = open;
  element.fill();
  return element;
}

function some(rows) {
  const every = Math.max(1, Math.ceil(rows.length / TABLE_ROWS));
  return rows.filter((_, i) => i % every === 0 || i === rows.length - 1);
}

function legendOf(spec) {
  const entries = [...spec.series, ...(spec.lines || [])].filter((s) => s.label);
  return make("ul", { class: "legend" }, ...entries.map((entry) => {
    const swatch = make("span", { class: "swatch" });
    const shade = colour(entry.colour);
    swatch.style.background = entry.dash ? `repeating-linear-gradient(90deg, ${shade} 0 ${entry.dash[0]}px, transparent 0 ${entry.dash[0] + entry.dash[1]}px)` : shade;
    return make("li", {}, swatch, make("bdi", {}, entry.label));
  }));
}

/**
 * A chart with its title, legend, and its numbers in a table; drawn once it is in the page.
 * `update` takes over the numbers of another figure of the same kind.
 */
function figure(level, title, spec, labels, headers, rows, marks = null) {
  const holder = make("div", { class: "plot" });
  const first = spec.series[0];
  const ends = { title, first: spec.format(first.y.find((v) => v !== null)), last: spec.format(first.y.findLast((v) => v !== null)) };
  const image = make("div", { role: "img", "aria-label": labels.chart.replace(/\{(\w+)\}/g, (_, name) => ends[name]) });
  holder.append(image);
  spec.readout = make("div", { class: "readout", "aria-hidden": "true" });
  spec.labelX = spec.labelX || labels.step;
  const tip = marks ? make("p", { class: "tip soft", role: "status" }, labels.arrows) : null;
  const heading = title + (spec.logarithmic ? ` (${labels.logarithmic})` : "");
  const numbers = folded(labels.table, (into) => into.append(table(title, headers, some(rows()))));
  const whole = section(level, heading, legendOf(spec), holder, spec.readout, tip, numbers);
  if (spec.wide) whole.className = "wide";
  whole.figure = { spec, marks, image, numbers, title, shape: [heading, Boolean(marks), ...spec.series.map((s) => s.label)].join("\n") };
  let chart = null;
  whole.draw = () => {
    chart = drawChart(image, spec);
    if (marks) addMarks(holder, chart, marks, tip, labels.arrows);
  };
  whole.update = (other) => {
    const next = other.figure;
    Object.assign(spec, next.spec, { readout: spec.readout });
    image.setAttribute("aria-label", next.image.getAttribute("aria-label"));
    whole.querySelector(".legend").replaceWith(legendOf(spec));
    keepBuilding(numbers, next.numbers);
    if (chart === null) return;
    updateChart(chart, spec);
    if (JSON.stringify(marks) !== JSON.stringify(next.marks)) addMarks(holder, chart, next.marks, tip, labels.arrows);
    marks = next.marks;
  };
  return whole;
}

// --- a page that changes while somebody reads it ---

/** A part that is open stays open, with new contents; a closed one will open with the newest. */
function keepBuilding(old, next) {
  old.build = next.build;
  if (!old.open) return;
  next.open = true;
  next.fill();
  patchChildren(old, next);
}

/** Make `old` say what `next` says, leaving alone what is the same: focus, charts and open parts stay. */
function patch(old, next) {
  if (old.figure && next.figure && old.figure.shape === next.figure.shape) old.update(next);
  else if (old.figure && next.figure) {
    next.figure.numbers.open = old.figure.numbers.open;
    next.figure.numbers.fill();
    old.replaceWith(next);
  } else if (old.tagName === "DETAILS" && next.tagName === "DETAILS") {
    if (!old.firstChild.isEqualNode(next.firstChild)) old.firstChild.replaceWith(next.firstChild);
    keepBuilding(old, next);
  } else if (!old.figure && !next.figure && next.querySelector && (next.dataset.key !== undefined || next.querySelector("details, .plot"))) patchChildren(old, next);
  else if (!old.isEqualNode(next)) old.replaceWith(next);
}

/** Children of the same kind are paired in their order; what has no partner comes or goes. */
function patchChildren(old, next) {
  const before = [...old.childNodes];
  const after = [...next.childNodes];
  const kind = (node) => {
    if (node.figure) return `figure ${node.figure.title}`;
    const heading = node.nodeName === "SECTION" && node.querySelector("h2, h3, h4");
    return [node.nodeName, node.className, node.dataset && node.dataset.key, heading && heading.textContent].join("\n");
  };
  let at = 0;
  for (const node of after) {
    const partner = before.findIndex((candidate, i) => i >= at && kind(candidate) === kind(node));
    if (partner < 0) { old.insertBefore(node, before[at] || null); continue; }
    for (; at < partner; at += 1) before[at].remove();
    patch(before[at], node);
    at += 1;
  }
  for (; at < before.length; at += 1) before[at].remove();
}

function drawAll(root) {
  dropDetachedCharts();
  for (const element of root.querySelectorAll("section")) if (element.draw) { element.draw(); delete element.draw; }
}

// --- one run ---

function lossFigure(run, labels, level) {
  const series = [];
  const raw = readSeries(run, "loss");
  if (raw) series.push({ ...raw, label: labels.batches, colour: "raw", width: 1 });
  if (raw && run.smooth.length > 2) series.push({ ...pointsOf(run.smooth), label: labels.smoothed, colour: "c0", width: 2 });
  const lines = [];
  const evals = run.metric === "loss" ? run.evals : [];
  if (evals.length) {
    const train = pointsOf(evals, 3);
    if (train.x.length) series.push({ ...train, label: labels.train, colour: "c2", dots: true });
    series.push({ ...pointsOf(evals), label: labels.val, colour: "c1", dots: true, errors: evals.map((row) => row[2]) });
    const [best, value] = run.best;
    const name = best === run.onset ? `${labels.best}; ${labels.onset}` : labels.best;
    if (best !== null) lines.push({ x: best, label: `${name}: ${value.toFixed(4)} (${labels.step} ${best})`, colour: "c4" });
    if (run.onset !== null && run.onset !== best) lines.push({ x: run.onset, label: labels.onset, colour: "bad" });
  }
  if (!series.length) return null;
  const rows = () => (evals.length
    ? evals.map(([step, val, stderr, train]) => [step, shortNumber(train), shortNumber(val), shortNumber(stderr)])
    : run.smooth.map(([step, y]) => [step, shortNumber(y), "—", "—"]));
  const headers = [labels.step, evals.length ? labels.train : labels.smoothed, labels.val, labels.stderr];
  return figure(level, labels.loss, { series, lines, format: shortNumber, wide: true }, labels, headers, rows);
}

function bitsFigure(run, labels, level) {
  if (run.metric !== "bpb" || !run.evals.length) return null;
  const series = [{ ...pointsOf(run.evals), label: "", colour: "c1", dots: true }];
  const rows = () => run.evals.map(([step, bits]) => [step, shortNumber(bits)]);
  return figure(level, labels.bpb, { series, format: shortNumber }, labels, [labels.step, labels.bpb], rows);
}

function timeFigure(run, words, labels, level) {
  const all = readSeries(run, "time_s");
  if (!all) return null;
  const slowSteps = new Set(run.slow.map(([step]) => step));
  const normal = { x: all.x, y: all.y.map((y, i) => (slowSteps.has(all.x[i]) ? null : y)) };
  const series = [{ ...normal, label: labels.normal, colour: "soft", width: 1 }];
  for (const cause of Object.keys(words.causes)) {
    const points = pointsOf(run.slow.filter((row) => row[2] === cause).sort((a, b) => a[0] - b[0]));
    const name = CAUSE_COLOURS[cause] || CAUSE_COLOURS[cause.split("+")[0]];
    if (points.x.length) series.push({ ...points, label: words.causes[cause], colour: name, dots: true });
  }
  const slowPoints = run.slow.map(([x, y, cause], i) =>
    ({ x, y, text: words.slow[i] || `${labels.step} ${x}: ${words.causes[cause]}`, cause: words.causes[cause] }));
  const values = all.y.filter((y) => y !== null);
  const highest = values.reduce((a, b) => Math.max(a, b), 0);
  const lowest = values.reduce((a, b) => Math.min(a, b), Infinity);
  const spec = { series, format: shortTime, logarithmic: highest > 10 * lowest, wide: true };
  const rows = () => (slowPoints.length
    ? slowPoints.slice(0, TABLE_ROWS).sort((a, b) => a.x - b.x).map((slow) => [slow.x, shortTime(slow.y), slow.cause])
    : all.x.map((x, i) => [x, shortTime(all.y[i]), "—"]));
  return figure(level, labels.time_s, spec, labels, [labels.step, labels.time, labels.cause], rows, slowPoints.length ? slowPoints : null);
}

function simpleFigure(run, name, format, labels, level) {
  const points = readSeries(run, name);
  if (!points) return null;
  const rows = () => points.x.map((x, i) => [x, format(points.y[i])]);
  return figure(level, labels[name], { series: [{ ...points, label: "", colour: "c0" }], format }, labels, [labels.step, labels[name]], rows);
}

function phasesSection(run, words, labels, level) {
  const total = run.phases.reduce((sum, [, seconds]) => sum + seconds, 0);
  if (!total) return null;
  const bar = make("div", { class: "bar", "aria-hidden": "true" });
  const legend = make("ul", { class: "legend" });
  run.phases.forEach(([phase, seconds], i) => {
    const part = make("span");
    const swatch = make("span", { class: "swatch" });
    part.style.flexGrow = String(seconds / total);
    part.style.background = swatch.style.background = colour(PHASE_COLOURS[phase] || "raw");
    bar.append(part);
    legend.append(make("li", {}, swatch, `${labels[phase] || phase}: `, make("bdi", {}, words.phases[i])));
  });
  const whole = section(level, labels.phases, bar, legend);
  whole.className = "wide";
  return whole;
}

/** Everything about one run. */
function showRun(run, words, labels, level, onPaper = false) {
  const verdicts = words.verdicts.map(({ tone, title, text }) => make("div", { class: `verdict ${tone}` }, make("strong", {}, title), text));
  const parts = [make("p", { class: "soft" }, words.source), ...verdicts];
  if (words.errors.length) parts.push(section(level, labels.errors, list(words.errors)));
  if (words.advice.length) parts.push(section(level, labels.advice, list(words.advice, "ol")));
  const plots = [
    lossFigure(run, labels, level),
    timeFigure(run, words, labels, level),
    phasesSection(run, words, labels, level),
    bitsFigure(run, labels, level),
    simpleFigure(run, "lr", shortNumber, labels, level),
    simpleFigure(run, "grad_norm", shortNumber, labels, level),
    simpleFigure(run, "tok_s", shortNumber, labels, level),
    simpleFigure(run, "mfu_pct", (v) => (v === null ? "—" : `${shortNumber(v)}%`), labels, level),
    simpleFigure(run, "eta_s", shortTime, labels, level),
  ].filter((plot) => plot !== null);
  parts.push(make("div", { class: "plots" }, ...plots));
  parts.push(make("div", { class: "cards" }, ...words.sections.map(([title, texts]) => section(level, title, list(texts)))));
  if (words.notes.length) parts.push(section(level, labels.notes, list(words.notes)));
  if (run.samples.length) {
    parts.push(section(level, labels.samples, ...run.samples.map(([step, text], i) =>
      folded(`${labels.step} ${step}`, (into) => into.append(make("pre", { dir: "auto" }, text)), {}, i === run.samples.length - 1))));
  }
  for (const part of ["config", "environment"]) {
    const rows = () => table(labels[part], [labels.setting, labels.value], run[part]);
    if (run[part].length) parts.push(make("section", {}, folded(make(`h${level}`, {}, labels[part]), (into) => into.append(rows()), {}, onPaper)));
  }
  return parts;
}

// --- several runs ---

/** Ways to lay runs over each other: x of a step, for those ways that every run knows. */
function waysToCompare(runs) {
  const ways = { step: { x: () => (step) => step, format: shortNumber } };
  if (runs.every((run) => run.tokens_per_step)) ways.tokens = { x: (run) => (step) => step * run.tokens_per_step, format: shortNumber };
  if (runs.every((run) => run.clock.length > 1)) ways.time = { x: (run) => (step) => interpolate(run.clock, step), format: shortTime };
  return ways;
}

/** Colours first; where they end, the same ones again in dashes. */
function runLine(i) {
  const dashes = [undefined, [8, 4], [2, 3]];
  return { colour: OLD_RUN_COLOURS[i % OLD_RUN_COLOURS.length], dash: dashes[Math.floor(i / OLD_RUN_COLOURS.length) % dashes.length] };
}

function overlays(runs, labels, state) {
  const ways = waysToCompare(runs);
  const chosen = ways[state.equal] ? state.equal : "step";
  const way = ways[chosen];
  const over = (title, pick, format) => {
    const series = runs.map((run, i) => {
      const points = pick(run);
      return points && points.x.length > 1 ? { x: points.x.map(way.x(run)), y: points.y, label: run.label, ...runLine(i) } : null;
    }).filter((s) => s !== null);
    if (!series.length) return null;
    const rows = () => series.flatMap((s) => some(s.x.map((x, i) => [s.label, way.format(x), format(s.y[i])])).slice(0, TABLE_ROWS));
    return figure(3, title, { series, format, formatX: way.format, labelX: labels[chosen] }, labels, [labels.run, labels[chosen], title], rows);
  };
  const plots = [
    over(labels.val, (run) => (run.metric === "loss" ? pointsOf(run.evals) : null), shortNumber),
    over(labels.bpb, (run) => (run.metric === "bpb" ? pointsOf(run.evals) : null), shortNumber),
    over(labels.smoothed, (run) => pointsOf(run.smooth), shortNumber),
    over(labels.usual_time, (run) => pointsOf(run.pace), shortTime),
  ].filter((plot) => plot !== null);
  const choices = Object.keys(ways).map((name) => {
    const radio = make("input", { type: "radio", name: "equal", value: name, id: `equal-${name}` });
    radio.checked = name === chosen;
    radio.addEventListener("change", () => state.again({ equal: name }, radio.id));
    return make("label", {}, radio, ` ${labels[name]}`);
  });
  return section(2, labels.overlay, make("fieldset", {}, make("legend", {}, labels.equal), ...choices), make("div", { class: "plots" }, ...plots));
}

function showComparison(payload, words, labels, state) {
  const comparison = words.comparison;
  const parts = comparison.leads.map((text) => make("div", { class: "verdict" }, text));
  if (comparison.key.length) parts.push(list(comparison.key));
  parts.push(overlays(payload.runs, labels, state));
  parts.push(make("div", { class: "cards" }, ...comparison.sections.filter(([, texts]) => texts.length).map(([title, texts]) => section(2, title, list(texts)))));
  parts.push(section(2, comparison.measures_title, table(comparison.measures_title, comparison.measures_headers, comparison.measures)));
  if (comparison.settings.length) parts.push(section(2, comparison.settings_title, table(comparison.settings_title, comparison.settings_headers, comparison.settings)));
  parts.push(section(2, labels.runs, ...payload.runs.map((run, i) =>
    folded(run.name, (into) => { into.append(...showRun(run, words.runs[i], labels, 3, state.onPaper)); if (into.isConnected) drawAll(into); },
      { class: "run", "data-key": run.name }, Boolean(state.onPaper)))));
  return parts;
}

// --- the page ---

/** The parts of a page about a payload. */
function contents(payload, state) {
  const words = payload.words[state.language];
  return words.comparison ? showComparison(payload, words, words.labels, state) : showRun(payload.runs[0], words.runs[0], words.labels, 2, state.onPaper);
}

/** The title, and the switches of language and colours; `languages`: what there is, by code. */
function pageHeader(title, subtitle, languages, state) {
  const { labels, direction } = languages[state.language];
  const root = document.documentElement;
  root.lang = state.language;
  root.dir = direction;
  if (state.theme) root.dataset.theme = state.theme;
  for (const unit of Object.keys(unitPatterns)) unitPatterns[unit] = labels[`unit_${unit}`];
  const switches = Object.entries(languages).map(([code, { name }]) => {
    const button = make("button", { type: "button", lang: code, id: `lang-${code}`, "aria-pressed": String(code === state.language) }, name);
    button.addEventListener("click", () => state.again({ language: code }, button.id));
    return button;
  });
  const isDark = () => (state.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const theme = make("button", { type: "button", id: "theme", "aria-label": labels.theme, title: labels.theme }, "◐");
  theme.addEventListener("click", () => state.again({ theme: isDark() ? "light" : "dark" }, "theme"));
  return make("header", {},
    make("div", {}, make("h1", {}, make("bdi", {}, title)), make("span", { class: "soft" }, subtitle)),
    make("div", { class: "controls", role: "group", "aria-label": labels.language }, ...switches),
    make("div", { class: "controls" }, theme));
}

/**
 * Show a payload in `root`; called again with newer numbers, it updates what is there.
 * options: actions: elements for the line with the name; stateOf(run): {state, text} where somebody knows better than
 * the log whether it still trains ("live", "starting", "stalled", "finished", "stopped", "failed"); onPaper: everything open.
 */
function showReport(root, payload, view, options = {}) {
  const state = { language: view.state.language, equal: view.state.x, onPaper: options.onPaper, again: ({ equal }) => view.set({ x: equal }) };
  const next = make("div", {}, ...(options.actions || []), ...contents(payload, state));
  const what = JSON.stringify([view.state, payload.runs.map((run) => run.name)]);
  if (root.dataset.what === what) patchChildren(root, next);
  else root.replaceChildren(...next.childNodes);
  root.dataset.what = what;
  drawAll(root);
}

/** The report file: everything in one page. */
function start() {
  const payload = JSON.parse(document.getElementById("payload").textContent);
  const view = new View({ language: payload.language }, viewFromHash(location.hash));
  const names = payload.runs.slice(0, 3).map((run) => run.name).join(", ") + (payload.runs.length > 3 ? ", …" : "");
  const main = make("main");
  const show = (onPaper = false) => {
    const state = { ...view.state, theme: onPaper ? "light" : view.state.theme, again: (change, focused) => { view.set(change); document.getElementById(focused).focus(); } };
    document.body.querySelectorAll("header, main").forEach((old) => old.remove());
    document.body.prepend(pageHeader(names, payload.words[state.language].labels.report, payload.words, state), main);
    showReport(main, payload, view, { onPaper });
  };
  show();
  view.listen(() => { history.replaceState(null, "", `#${viewToHash(view)}`); show(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (!view.state.theme) show(); });
  addEventListener("beforeprint", () => {
    document.documentElement.classList.add("paper");
    show(true);
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("paper");
    if (!view.state.theme) delete document.documentElement.dataset.theme;
    show();
  });
}

if (document.getElementById("payload")) start();
