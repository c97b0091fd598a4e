/* A payload becomes a page. */

import { View, viewFromHash, viewToHash } from "./view.js";
import { make, makeButton, patchChildren } from "./dom.js";
import { commonWays, setUnits } from "./numbers.js";
import { charts, colours, drawAll } from "./plot.js";
import { setCursor } from "./pointer.js";
import { chartToolbar, segment } from "./figure.js";
import { showRun } from "./run.js";
import { showComparison } from "./overlay.js";

/** @type {WeakMap<Element, any>} */
const pages = new WeakMap();

/**
 * Show a payload in `root`. Called again with newer numbers, it updates what is there: focus, zoom and what is open stay.
 * @param {any} root @param {Payload} payload @param {View} view @param {Options} options
 */
export function showReport(root, payload, view, options) {
  const what = JSON.stringify([view.state.language, Boolean(options.onPaper), payload.runs.map(run => run.name)]);
  const known = pages.get(root);
  if (known && known.stop) known.stop();
  const build = () => {
    const words = wordsOf(payload, view);
    const { labels } = options.languages[view.state.language];
    const frame = {
      level: options.level || 1,
      labels,
      view,
      actions: options.actions || [],
      onPaper: Boolean(options.onPaper),
      concepts: payload.concepts,
      lessons: words.lessons,
      stateOf: options.stateOf || (run => ({ state: run.state, text: "" }))
    };
    const tools = options.onPaper ? null : chartToolbar(view, commonWays(payload.runs), labels, root);
    return words.comparison
      ? showComparison(payload, words.comparison, words, frame, tools)
      : showRun(payload.runs[0], words.runs[0], frame, tools);
  };
  root.dataset.charts = "";
  root.classList.add("page");
  if (known && known.what === what && known.view === view) patchChildren(root, make("div", {}, ...build()));
  else root.replaceChildren(...build());
  drawAll(root);
  const stop = view.listen(change => {
    if ("language" in change) return; // whoever shows the page shows it again
    if ("x" in change || "chart" in change || "focus" in change) {
      patchChildren(root, make("div", {}, ...build()));
      drawAll(root);
    }
    refreshCharts(root, change);
  });
  pages.set(root, { what, view, stop });
}

/** What is said, in the language of the page once it is there. @param {Payload} payload @param {View} view */
export function wordsOf(payload, view) {
  return payload.words[view.state.language] || payload.words[payload.language];
}

/** Draw the charts below `root` again, as far as a change concerns them. @param {any} root @param {Partial<ViewState>} change */
export function refreshCharts(root, change) {
  colours.clear();
  setCursor(null);
  for (const element of root.querySelectorAll(".toolbar, .segment")) if (element.update) element.update();
  for (const element of root.querySelectorAll("section")) if (element.figure) element.figure.refresh(change);
}

// --- the frame around it ---

/** Language and colours of the whole page. @param {View} view @param {Record<string, PageLanguage>} languages words by code */
export function applyAppearance(view, languages, onPaper = false) {
  const { language } = view.state;
  const theme = onPaper ? "light" : view.state.theme;
  const { labels, direction } = languages[language];
  const root = document.documentElement;
  root.lang = language;
  root.dir = direction;
  if (theme) root.dataset.theme = theme;
  else delete root.dataset.theme;
  colours.clear();
  setUnits(language, labels);
}

/** @param {View} view @param {Record<string, PageLanguage>} languages */
export function languageSwitch(view, languages) {
  const { labels } = languages[view.state.language];
  const whole = segment(
    labels.language,
    "lang",
    Object.entries(languages).map(([code, { name }]) => [code, name]),
    () => view.state.language,
    code => view.set({ language: code })
  );
  for (const button of whole.children) button.lang = button.id.slice("lang-".length);
  return whole;
}

/** @param {View} view @param {Labels} labels */
export function themeSwitch(view, labels) {
  const isDark = () =>
    (view.state.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  return makeButton(
    { class: "icon-button", id: "theme", "aria-label": labels.theme, title: labels.theme },
    () => view.set({ theme: isDark() ? "light" : "dark" }),
    "◐"
  );
}

/** The report file: everything in one page. */
function start() {
  const payload = JSON.parse(/** @type {any} */ (document.getElementById("payload")).textContent);
  const view = new View({ language: payload.language }, viewFromHash(location.hash || payload.view || ""));
  const main = make("main");
  const show = (onPaper = false) => {
    const focused = document.activeElement && document.activeElement.id;
    const { labels } = payload.languages[view.state.language];
    applyAppearance(view, payload.languages, onPaper);
    const header = make(
      "header",
      { class: "top" },
      make("span", { class: "brand" }, "nanoscope"),
      make("span", { class: "faint" }, labels.report),
      make("div", { class: "actions" }, languageSwitch(view, payload.languages), themeSwitch(view, labels))
    );
    document.body.querySelectorAll("body > header, main").forEach(old => old.remove());
    document.body.prepend(header, main);
    showReport(main, payload, view, { languages: payload.languages, onPaper });
    const again = focused && document.getElementById(focused);
    if (again) again.focus();
  };
  show();
  view.listen(change => {
    const hash = viewToHash(view);
    history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
    if ("language" in change || "theme" in change) {
      const top = scrollY;
      show();
      scrollTo(0, top);
    }
  });
  addEventListener("hashchange", () => view.set({ ...view.usual, ...viewFromHash(location.hash) }));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    if (!view.state.theme) view.set({ theme: null });
  });
  listenToPrint(show);
}

/** Paper is light, and everything on it is drawn. @param {(onPaper: boolean) => void} show */
export function listenToPrint(show) {
  for (const [event, onPaper] of /** @type {[string, boolean][]} */ ([
    ["beforeprint", true],
    ["afterprint", false]
  ])) {
    addEventListener(event, () => {
      document.documentElement.classList.toggle("paper", onPaper);
      show(onPaper);
      if (onPaper)
        for (const chart of charts) {
          chart.inSight = true;
          chart.refresh();
        }
    });
  }
}

if (document.getElementById("payload")) start();
