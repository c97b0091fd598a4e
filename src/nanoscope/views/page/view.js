/*
 * What a person has chosen about the charts, and the colours of runs. Both pages use it: the report file and `watch`.
 *
 *   const view = new View({ language: "en" }, viewFromHash(location.hash));
 *   view.listen((change) => history.replaceState(null, "", `#${viewToHash(view)}`));
 *   showReport(element, payload, view);       // report.js; call it again with newer numbers to update the page in place
 *   view.set({ smoothing: 0.6 });             // redraws what changes, and calls the listeners
 */

/** @type {ViewState} */
const USUAL_VIEW = {
  x: "step",
  smoothing: 0.9,
  log: false,
  start: true,
  zoom: null,
  hidden: [],
  chart: "",
  focus: "",
  language: "en",
  theme: null
};

/** What changes together is set together: one redraw, one call of each listener. */
export class View {
  /**
   * @param {Partial<ViewState>} usual where the page differs from USUAL_VIEW, as in its language
   * @param {Partial<ViewState>} chosen as in the address
   */
  constructor(usual = {}, chosen = {}) {
    /** @type {ViewState} */
    this.usual = { ...USUAL_VIEW, ...usual };
    /** @type {ViewState} */
    this.state = { ...this.usual, ...chosen };
    /** @type {Set<(change: Partial<ViewState>) => void>} */
    this.listeners = new Set();
  }

  /** @param {Partial<ViewState>} change */
  set(change) {
    if (change.x && change.x !== this.state.x) change = { zoom: null, ...change }; // its numbers mean something else
    Object.assign(this.state, change);
    for (const listener of [...this.listeners]) listener(change);
  }

  /** Call `listener` with every change. Returns a function that ends this. @param {(change: Partial<ViewState>) => void} listener */
  listen(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Charts as they are at first; language, colours and the chosen chart stay. */
  reset() {
    const { x, smoothing, log, start, zoom, hidden, focus } = this.usual;
    this.set({ x, smoothing, log, start, zoom, hidden, focus });
  }
}

/** The choices that differ from the usual ones, for the address: "x=tokens&smoothing=0.5". @param {View} view */
export function viewToHash(view) {
  const parts = new URLSearchParams();
  const usual = view.usual;
  const { x, smoothing, log, start, zoom, hidden, chart, focus, language, theme } = view.state;
  if (x !== usual.x) parts.set("x", x);
  if (smoothing !== usual.smoothing) parts.set("smoothing", String(smoothing));
  if (log) parts.set("log", "1");
  if (!start) parts.set("start", "1");
  if (zoom) parts.set("zoom", zoom.map(at => Number(at.toPrecision(6))).join("_"));
  for (const name of hidden) parts.append("hide", name);
  if (chart) parts.set("chart", chart);
  if (focus) parts.set("focus", focus);
  if (theme) parts.set("theme", theme);
  if (language !== usual.language) parts.set("lang", language);
  return String(parts);
}

/** The choices in an address; whatever is not understood is left out. @param {string} hash */
export function viewFromHash(hash) {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  /** @type {Partial<ViewState>} */
  const state = {};
  const x = parts.get("x");
  if (x && ["step", "tokens", "time", "epochs"].includes(x)) state.x = x;
  const smoothing = Number(parts.get("smoothing"));
  if (parts.has("smoothing") && smoothing >= 0 && smoothing < 1) state.smoothing = smoothing;
  if (parts.has("log")) state.log = true;
  if (parts.has("start")) state.start = false;
  const zoom = (parts.get("zoom") || "").split("_").map(Number);
  if (zoom.length === 2 && zoom[0] < zoom[1] && zoom.every(Number.isFinite)) state.zoom = [zoom[0], zoom[1]];
  if (parts.has("hide")) state.hidden = parts.getAll("hide");
  for (const name of /** @type {const} */ (["chart", "focus"]))
    if (parts.get(name)) state[name] = parts.get(name) || "";
  const theme = parts.get("theme");
  if (theme === "light" || theme === "dark") state.theme = theme;
  const language = parts.get("lang");
  if (language && ["en", "ar", "hi"].includes(language)) state.language = language;
  return state;
}

// --- colours ---

const RUN_COLOURS = 8;

/** The colour of a run as a token of style.css ("c1" … "c8"), by its name alone: it stays when others come and go. @param {string} name */
export function runColour(name) {
  let hash = 2166136261; // FNV-1a
  for (let i = 0; i < name.length; i += 1) hash = Math.imul(hash ^ name.charCodeAt(i), 16777619);
  hash = Math.imul(hash ^ (hash >>> 15), 2246822507);
  return `c${1 + (((hash ^ (hash >>> 13)) >>> 0) % RUN_COLOURS)}`;
}

/**
 * Colour and dashes of runs that are shown together: of two with the same colour, the later name is dashed.
 * @param {string[]} names
 * @returns {Map<string, {colour: string, dash: number[] | null}>}
 */
export function runLines(names) {
  const dashes = [null, [6, 3], [2, 3], [10, 3, 2, 3]];
  /** @type {Record<string, number>} */
  const taken = {};
  return new Map(
    [...names].sort().map(name => {
      const colour = runColour(name);
      taken[colour] = (taken[colour] || 0) + 1;
      return [name, { colour, dash: dashes[(taken[colour] - 1) % dashes.length] }];
    })
  );
}

/** The value of a token of style.css now. @param {string} token */
export function colour(token) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${token}`).trim();
}
