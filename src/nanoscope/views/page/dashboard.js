/* The page of `nanoscope watch`: the table of runs, the report of those that are chosen, and a form for any log. */

import { View, viewFromHash, viewToHash } from "./view.js";
import { bdi, icon, make, makeButton, openDialog, runDot } from "./dom.js";
import { grouped, shortTime } from "./numbers.js";
import { copyButton, saveBlob } from "./figure.js";
import {
  applyAppearance,
  languageSwitch,
  listenToPrint,
  refreshCharts,
  showReport,
  themeSwitch,
  wordsOf
} from "./report.js";
import { compareValues, isLive } from "./runs.js";
import { hashOf, RunTable } from "./table.js";
import { Bell, commandLine, COMMANDS, stateCard, stateOfRun, tabTitle } from "./states.js";

const { language: usualLanguage, languages } = JSON.parse(
  /** @type {any} */ (document.getElementById("words")).textContent
);
const REST_SECONDS = 5; // drawing takes time from training too
const LEISURE = 50; // what took a second to draw is drawn again after so many seconds at the earliest
const RETRY_SECONDS = 4;
const DRAWER_WIDTH = 1200;

export const state = {
  /** @type {Record<string, any>} */
  common: {}, // settings that all runs share
  folder: "",
  listed: false, // whether the server has sent its list
  /** @type {string[]} */
  chosen: [], // names of runs and logs
  of: 0, // how many they are the best of
  /** @type {Set<string>} */
  expected: new Set(), // logs that were sent, and are not in the list yet
  /** @type {Payload | null} */
  payload: null, // the report of what is chosen
  /** @type {null | string} */
  failure: null, // why there is none
  progress: "", // how far the server has read
  connected: false,
  lostAt: 0,
  answeredAt: Date.now()
};
let loading = false; // a report is on its way
let lookAgain = 0; // the timer of the next look at the chosen runs
let onPaper = false; // the page is being printed
let rested = 0; // when the server may be asked for the same runs again

const labelsNow = () => languages[view.state.language].labels;
/** @param {string} id @returns {any} */
const byId = id => document.getElementById(id);
const isChosen = (/** @type {string[]} */ names) => JSON.stringify(names) === JSON.stringify(state.chosen);

// --- remembered between visits; private windows may refuse ---

/** @param {string} key */
function recall(key) {
  try {
    return localStorage.getItem(`nanoscope-${key}`);
  } catch {
    return null;
  }
}

/** @param {string} key @param {string | null | undefined} value */
function remember(key, value) {
  try {
    if (value) localStorage.setItem(`nanoscope-${key}`, value);
  } catch {
    /* then not */
  }
}

const ofBrowser =
  usualLanguage === "en" ? navigator.languages.map(tag => tag.split("-")[0]).find(code => languages[code]) : null;
export const view = new View(
  { language: [recall("language"), ofBrowser].find(code => code && languages[code]) || usualLanguage },
  viewFromHash(location.hash)
);
if (!view.state.theme && ["light", "dark"].includes(recall("theme") || ""))
  view.state.theme = /** @type {any} */ (recall("theme"));
export const table_ = new RunTable({
  choose: (names, of) => choose(names, true, of),
  chosen: () => state.chosen,
  labels: labelsNow,
  remove: removeLog,
  recall,
  remember
});
const bell = new Bell({ labels: labelsNow, recall, remember, open: name => choose([name]) });

// --- the frame ---

view.listen(change => {
  remember("language", change.language);
  remember("theme", change.theme);
  putAddress();
  if (!("language" in change || "theme" in change)) return;
  const focused = document.activeElement && document.activeElement.id;
  showFrame();
  look(); // what is said about the runs comes in one language
  if (focused && byId(focused)) byId(focused).focus();
});

/** Everything anew, in the language and colours that are chosen; what was typed stays. */
function showFrame() {
  const labels = labelsNow();
  const typed = ["log-text", "log-max-iters", "log-device", "sample-prompt"].map(id => [
    id,
    byId(id) && byId(id).value
  ]);
  const open = byId("log-panel") && !byId("log-panel").hidden;
  const written = byId("sample-text");
  const scrolled = table_.scroller ? table_.scroller.scrollTop : 0;
  applyAppearance(view, languages);
  const header = make(
    "header",
    { class: "top" },
    makeButton(
      {
        class: "icon-button",
        id: "drawer",
        "aria-label": labels.watch,
        title: labels.watch,
        "aria-expanded": "false",
        "aria-controls": "runs"
      },
      () => openDrawer(!isDrawerOpen()),
      icon("list")
    ),
    make("h1", { class: "brand" }, "nanoscope"),
    make("span", { id: "connection", role: "status" }),
    makeButton({ id: "picker", class: "picker", "aria-controls": "runs", "aria-expanded": "false" }, () =>
      openDrawer(!isDrawerOpen())
    ),
    make(
      "div",
      { class: "actions" },
      makeButton(
        { class: "control", id: "log-open", "aria-expanded": "false", "aria-controls": "log-panel" },
        () => openLogPanel(byId("log-panel").hidden),
        labels.explain_log
      ),
      bell.build(),
      languagePick(labels),
      languageSwitch(view, languages),
      themeSwitch(view, labels),
      makeButton({ class: "icon-button", id: "keys", "aria-label": labels.keys, title: labels.keys }, showKeys, "?")
    )
  );
  const nav = make(
    "nav",
    { id: "runs", "aria-label": labels.watch },
    makeButton(
      { class: "icon-button", id: "drawer-close", "aria-label": labels.close, title: labels.close },
      () => openDrawer(false),
      icon("close")
    ),
    table_.build()
  );
  const main = make(
    "main",
    {},
    logPanel(labels, false),
    make("p", { id: "notice", role: "alert", hidden: "" }),
    make("div", { id: "status" }),
    make("div", { id: "content", tabindex: "-1" }),
    samplePanel(labels, written)
  );
  const tabs = make(
    "nav",
    { id: "tabs", "aria-label": labels.parts },
    ...[
      ["charts", labels.tab_charts],
      ["findings", labels.tab_findings],
      ["list", labels.tab_runs],
      ["explain", labels.explain]
    ].map(([name, text]) => makeButton({ class: "tab", id: `tab-${name}` }, () => openTab(name), text))
  );
  document.body.querySelectorAll("body > header, .layout, #tabs, .veil").forEach(old => old.remove());
  document.body.prepend(header, make("div", { class: "layout" }, nav, main), tabs);
  document.body.append(
    makeButton({ class: "veil", tabindex: "-1", "aria-hidden": "true", hidden: "" }, () => openDrawer(false))
  );
  for (const [id, value] of typed) if (value) byId(id).value = value;
  byId("log-panel").hidden = !open;
  byId("log-open").setAttribute("aria-expanded", String(Boolean(open)));
  table_.scroller.scrollTop = scrolled;
  openDrawer(isDrawerOpen(), false);
  showConnection();
  showContent();
}

/** The languages on a screen too narrow for buttons. @param {Labels} labels */
function languagePick(labels) {
  const pick = make(
    "select",
    { id: "lang-pick", "aria-label": labels.language },
    ...Object.entries(languages).map(([code, { name }]) => make("option", { value: code, lang: code }, name))
  );
  pick.value = view.state.language;
  pick.addEventListener("change", () => view.set({ language: pick.value }));
  return pick;
}

function showConnection() {
  const labels = labelsNow();
  const text = !state.listed ? labels.connecting : state.connected ? labels.connected : labels.lost;
  const element = byId("connection");
  if (element.textContent !== text) element.textContent = text;
  element.className = !state.listed ? "faint" : state.connected ? "tone-good" : "tone-fair";
  const stale = state.listed && !state.connected;
  if (stale === document.documentElement.classList.contains("stale")) return;
  document.documentElement.classList.toggle("stale", stale); // lines turn grey, texts stay
  refreshCharts(byId("content"), {});
}

// --- the drawer of narrower screens ---

const isNarrow = () => innerWidth < DRAWER_WIDTH;
const isDrawerOpen = () => document.documentElement.classList.contains("drawer-open");

/** @param {boolean} open */
export function openDrawer(open, focus = true) {
  const wide = !isNarrow();
  document.documentElement.classList.toggle("drawer-open", open && !wide);
  byId("runs").inert = !wide && !open;
  document.querySelector(".veil")?.toggleAttribute("hidden", wide || !open);
  for (const id of ["drawer", "picker"]) byId(id).setAttribute("aria-expanded", String(open && !wide));
  if (!focus || wide) return;
  if (open) {
    table_.draw();
    table_.field.focus();
  } else (byId("picker").offsetParent ? byId("picker") : byId("drawer")).focus();
}

function showPicker() {
  const labels = labelsNow();
  const runs = table_.shown;
  const [name] = state.chosen;
  const run = table_.runs.get(name);
  const text =
    state.chosen.length > 1
      ? labels.count_runs.replace("{n}", String(state.chosen.length))
      : run
        ? run.label
        : labels.watch;
  const place = runs.findIndex(each => each.name === name);
  byId("picker").replaceChildren(
    ...(run && state.chosen.length === 1 ? [runDot(run.label)] : []),
    make("bdi", { dir: "auto", class: "picker-name" }, text),
    make(
      "span",
      { class: "faint" },
      make("bdi", { dir: "ltr" }, `${place >= 0 ? `${place + 1} / ` : ""}${runs.length}`)
    ),
    icon("more")
  );
}

/** @param {string} name */
function openTab(name) {
  if (name === "list") {
    openDrawer(true);
    return;
  }
  openDrawer(false, false);
  if (name === "explain") {
    openLogPanel(true);
    return;
  }
  const target = name === "findings" ? document.querySelector("#content .details") : byId("content");
  if (target) target.scrollIntoView({ block: "start" });
}

// --- what is chosen ---

/** The address says what is shown and how. */
function putAddress() {
  const chosen = state.listed ? state.chosen : runsInAddress(); // until the list is here, nothing is chosen from it
  const hash = [hashOf(chosen).slice(1), viewToHash(view)].filter(Boolean).join("&");
  history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
}

/** Show these runs. @param {string[]} names @param {boolean} remembered whether the way back leads to what was shown before @param {number} of how many they are the best */
export function choose(names, remembered = true, of = names.length) {
  if (isChosen(names)) {
    openDrawer(false, false);
    return;
  }
  if (remembered && state.chosen.length) history.pushState(null, "", location.href);
  Object.assign(state, { chosen: names, of, payload: null, failure: null, progress: "" });
  if (remembered) Object.assign(view.state, { zoom: null, focus: "" }); // an address has its own
  putAddress();
  for (const id of ["sample-text", "sample-said"]) if (byId(id)) byId(id).textContent = "";
  if (names.length === 1 && isDrawerOpen()) openDrawer(false);
  rested = 0;
  table_.update();
  showContent();
  look();
}

const runsInAddress = () => new URLSearchParams(location.hash.slice(1)).getAll("run");

/** The runs in the address; without any, the first one. */
function chooseFromAddress() {
  const named = runsInAddress();
  if (named.length) choose(named, false);
  else if (!state.chosen.length && table_.runs.size) {
    const rank = (/** @type {ListedRun} */ run) => [isLive(run) ? 2 : run.state === "log" ? 0 : 1, run.updated];
    const first = [...table_.runs.values()]
      .filter(run => !table_.hidden.has(run.name))
      .sort((a, b) => compareValues(rank(b), rank(a)))[0];
    if (first) choose([first.name], false);
  }
}

// --- what is shown ---

const shownRuns = () => /** @type {ListedRun[]} */ (state.chosen.map(name => table_.runs.get(name)).filter(Boolean));

/** What the list knows, without the charts: these change when the report does. */
function showNews() {
  const shown = shownRuns();
  document.title = tabTitle(shown, state.connected, labelsNow());
  showPicker();
  showStatus(shown, labelsNow());
}

function showContent() {
  const labels = labelsNow();
  const content = byId("content");
  const shown = shownRuns();
  showNews();
  drawnStates = statesOf(shown);
  byId("sample").hidden = state.payload === null || state.chosen.length > 1 || !state.payload.runs[0].can_sample;
  if (state.payload !== null) {
    showReport(content, state.payload, view, { languages, level: 2, actions: actions(labels), stateOf, onPaper });
    return;
  }
  content.removeAttribute("data-charts");
  content.className = "";
  const waits = loading && state.chosen.length > 0 && state.failure === null;
  content.replaceChildren(
    ...(waits ? [make("p", { class: "soft waiting" }, `${labels.loading} ${state.progress}`)] : [])
  );
}

/** What the page says about runs besides their report. @param {ListedRun[]} runs */
const statesOf = runs => runs.map(run => `${run.name} ${run.state} ${run.step === null}`).join("\n");
let drawnStates = "";

/** The sentence and the next step of a state that the charts do not tell. @param {ListedRun[]} shown @param {Labels} labels */
function showStatus(shown, labels) {
  /** @type {Node | null} */
  let card = null;
  const missing = state.chosen.filter(name => !table_.runs.has(name) && !state.expected.has(name));
  if (state.listed && !state.connected) {
    const since = new Date(state.lostAt).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
    card = stateCard(
      "fair",
      "⏻",
      labels.gone_title.replace("{time}", since),
      labels.gone_text,
      make("div", { class: "actions" }, makeButton({ class: "control", id: "try-now" }, refresh, labels.try_now)),
      commandLine(COMMANDS.watch, labels)
    );
  } else if (state.listed && !table_.runs.size && !state.chosen.length) {
    card = make(
      "section",
      { class: "card empty", role: "status" },
      make("h2", {}, labels.empty_title),
      make("p", { class: "soft" }, labels.empty_text),
      commandLine(COMMANDS.train, labels),
      commandLine(COMMANDS.demo, labels),
      make("p", { class: "faint" }, labels.empty_or)
    );
    if (byId("log-panel").hidden && !byId("status").querySelector(".empty")) {
      byId("log-panel").hidden = false;
      byId("log-open").setAttribute("aria-expanded", "true");
    }
  } else if (state.listed && missing.length && missing.length === state.chosen.length) {
    card = stateCard(
      "fair",
      "?",
      labels.missing_title,
      labels.missing_text,
      make(
        "div",
        { class: "actions" },
        makeButton(
          { class: "control", id: "show-another" },
          () => {
            state.chosen = [];
            location.hash = "";
            chooseFromAddress();
          },
          labels.show_another
        )
      )
    );
  } else if (state.failure) {
    card = stateCard(
      "bad",
      "!",
      state.failure,
      "",
      make("div", { class: "actions" }, makeButton({ class: "control", id: "try-now" }, refresh, labels.try_now))
    );
  } else if (shown.length === 1) {
    const [run] = shown;
    card = stateOfRun(
      run,
      state.payload,
      state.payload && wordsOf(state.payload, view).runs[0],
      labels,
      { ...state.common, ...run.settings },
      bell.on || !("Notification" in globalThis)
        ? null
        : make(
            "div",
            { class: "actions" },
            makeButton(
              { class: "control", id: "notify-me" },
              async () => {
                await bell.switch();
                showContent();
              },
              labels.notify_me
            )
          )
    );
  } else if (state.of > state.chosen.length) {
    card = make(
      "p",
      { class: "soft", role: "status" },
      labels.best_of.replace("{shown}", String(state.chosen.length)).replace("{total}", grouped(state.of))
    );
  } else if (state.listed && !state.chosen.length) {
    card = make("p", { class: "soft", role: "status" }, labels.nothing_shown);
  }
  const next = make("div", {}, card);
  const holder = byId("status");
  if (holder.innerHTML === next.innerHTML) return;
  const focused = document.activeElement && holder.contains(document.activeElement) ? document.activeElement.id : "";
  holder.replaceChildren(...next.childNodes);
  if (focused && byId(focused)) byId(focused).focus();
  const panel = byId("log-panel");
  if (holder.querySelector(".empty")) holder.after(panel);
  else byId("notice").before(panel);
}

/** What the list knows about a run's state: the report itself cannot tell whether a process still runs. @param {RunNumbers} run of the payload */
function stateOf(run) {
  const listed = [...table_.runs.values()].find(each => each.label === run.name);
  if (!listed || listed.state === "log") return { state: run.state, text: "" };
  if (!state.connected) return { state: "gone", text: "" };
  return { state: listed.state, text: isLive(listed) ? lastLine(listed) : "" };
}

/** @param {ListedRun} run */
function lastLine(run) {
  return labelsNow().last_line.replace("{time}", shortTime(Math.max(1, Math.round(Date.now() / 1000 - run.updated))));
}

/** @param {Labels} labels */
function actions(labels) {
  const [name] = state.chosen;
  const run = state.chosen.length === 1 ? table_.runs.get(name) : undefined;
  const parts = [copyButton(labels.copy_link, labels.copied, () => location.href, { id: "copy-link" })];
  if (run && run.state === "log")
    parts.push(
      makeButton({ class: "control quiet", id: "remove-log" }, () => removeLog(name), icon("close"), labels.remove)
    );
  parts.push(makeButton({ class: "control", id: "download" }, download, icon("save"), labels.download));
  return parts;
}

async function download() {
  try {
    const response = await fetch(
      `/report.html?${hashOf(state.chosen).slice(1)}&${new URLSearchParams({ lang: view.state.language, view: viewToHash(view) })}`
    );
    if (!response.ok) {
      showMessage(await reasonOf(response));
      return;
    }
    const name = /filename="([^"]+)"/.exec(response.headers.get("content-disposition") || "");
    saveBlob(name ? name[1] : "report.html", await response.blob());
  } catch {
    showMessage(labelsNow().error_failed);
  }
}

/** Say what went wrong, until something goes right. @param {string} text */
function showMessage(text) {
  byId("notice").textContent = text;
  byId("notice").hidden = !text;
}

/** The failure of an answer, in words. @param {Response} response */
async function reasonOf(response) {
  const labels = labelsNow();
  /** @type {any} */
  let said = {};
  try {
    said = await response.json();
  } catch {
    /* not ours */
  }
  const reason = (labels[`error_${said.error}`] || labels.error_failed).replace("{command}", COMMANDS.explain);
  return [reason, said.message || ""].join(" ").trim();
}

/** Ask for the chosen runs if they have changed since they were last asked for. */
async function look() {
  clearTimeout(lookAgain);
  if (loading || document.hidden || !state.chosen.length || !state.connected) return;
  const chosen = state.chosen;
  const known = state.payload && state.payload.words[view.state.language] ? state.payload.versions : null;
  const there = chosen.filter(name => table_.runs.has(name) || state.expected.has(name));
  if (!there.length) {
    showContent();
    return;
  } // gone, or never there: nothing to ask for
  const version = (/** @type {string} */ name) => (table_.runs.get(name) || {}).version;
  if (known && there.every(name => known[name] === (version(name) || known[name]))) return;
  const begun = (/** @type {string} */ name) => {
    const run = table_.runs.get(name);
    return !run || run.step !== null || run.best !== null;
  };
  if (!known && !there.some(begun)) {
    showContent();
    return;
  } // starting
  if (known && Date.now() < rested) {
    lookAgain = window.setTimeout(look, rested - Date.now());
    return;
  }
  loading = true;
  if (!known) showContent();
  let wait = 0,
    began = performance.now();
  try {
    const place = `/api/report?${hashOf(there).slice(1)}&lang=${view.state.language}`;
    let response = await fetch(place);
    while (response.status === 202 && isChosen(chosen)) {
      const { done, of } = await response.json();
      state.progress = `${done} / ${of}`;
      if (!known) showContent();
      response = await fetch(place);
    }
    if (response.status !== 202 && isChosen(chosen)) {
      if (response.ok) {
        const text = await response.text();
        began = performance.now();
        state.payload = JSON.parse(text);
        state.failure = null;
        wait = state.payload?.leisure_seconds || 0;
        showMessage("");
      } else {
        const { status } = response;
        const reason = await reasonOf(response);
        if (status !== 404 && !known) state.failure = reason; // what has gone leaves the list, too
        wait = RETRY_SECONDS;
      }
    }
  } catch {
    wait = RETRY_SECONDS;
  } // the server is gone: the stream reports when it is back
  loading = false;
  if (!isChosen(chosen)) {
    look();
    return;
  }
  showContent();
  const drawing = performance.now() - began; // the browser needs about as long again to lay it out and paint it
  rested = Date.now() + Math.max(1000 * wait, 1000 * REST_SECONDS, LEISURE * drawing);
  lookAgain = window.setTimeout(look, rested - Date.now());
}

// --- samples ---

/** @type {AbortController | null} */
let writing = null; // lets the text that is being written be stopped

/** @param {Labels} labels @param {any} written */
function samplePanel(labels, written) {
  const prompt = make("input", { id: "sample-prompt", dir: "auto", maxlength: "2000" });
  const button = makeButton(
    { class: "control", id: "sample-go" },
    () => {
      if (writing) writing.abort();
      else writeSample(prompt.value);
    },
    writing ? labels.stop : labels.write
  );
  prompt.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter" && !writing) writeSample(prompt.value);
  });
  return make(
    "section",
    { id: "sample", class: "card", hidden: "" },
    make("h2", {}, labels.sampling),
    make(
      "div",
      { class: "fields" },
      make("label", {}, make("span", { class: "label" }, labels.prompt), prompt),
      button,
      make("p", { id: "sample-said", role: "alert" })
    ),
    written || make("pre", { id: "sample-text", dir: "auto", tabindex: "0", "aria-label": labels.sampling })
  );
}

/** @param {string} prompt */
async function writeSample(prompt) {
  const [run] = state.chosen;
  const here = () => isChosen([run]);
  writing = new AbortController();
  byId("sample-go").textContent = labelsNow().stop;
  byId("sample-text").textContent = prompt;
  const tell = (/** @type {string} */ text, tone = "bad") => {
    byId("sample-said").className = `tone-${tone}`;
    byId("sample-said").textContent = text;
  };
  tell(labelsNow().sample_loading, "soft");
  try {
    const response = await fetch("/api/sample", {
      method: "POST",
      body: JSON.stringify({ run, prompt }),
      signal: writing.signal
    });
    if (response.ok && response.body) {
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      byId("sample-text").textContent = "";
      tell("");
      for (let part = await reader.read(); !part.done && here(); part = await reader.read())
        byId("sample-text").append(part.value);
      if (!here()) writing.abort();
    } else tell(await reasonOf(response));
  } catch (error) {
    tell(/** @type {Error} */ (error).name === "AbortError" ? "" : labelsNow().error_failed);
  }
  writing = null;
  byId("sample-go").textContent = labelsNow().write;
}

// --- keys ---

const KEYS = /** @type {const} */ ([
  ["/", "key_search"],
  ["j", "key_down"],
  ["k", "key_up"],
  ["Enter", "key_open"],
  ["x", "key_select"],
  ["h", "key_hide"],
  ["r", "key_refresh"],
  ["b", "key_drawer"],
  ["?", "key_help"],
  ["Esc", "key_close"]
]);

function showKeys() {
  const labels = labelsNow();
  openDialog(
    labels.keys,
    labels.close,
    make(
      "dl",
      { class: "keys" },
      ...KEYS.map(([key, label]) =>
        make("div", {}, make("dt", {}, make("kbd", {}, key)), make("dd", {}, labels[label]))
      )
    )
  );
}

addEventListener("keydown", event => {
  if (
    event.ctrlKey ||
    event.metaKey ||
    event.altKey ||
    event.defaultPrevented ||
    document.querySelector("dialog[open]")
  )
    return;
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.key === "Escape") {
    if (target.id === "search" && table_.search) {
      table_.search = table_.field.value = "";
      table_.update();
    } else if (isDrawerOpen()) openDrawer(false);
    else if (target.closest("#log-panel")) openLogPanel(false, true);
    else if (target.id === "search") target.blur();
    return;
  }
  if (target.matches("input:not([type=checkbox], [type=range]), textarea, select")) return;
  const acts = /** @type {Record<string, () => void>} */ ({
    "/": () => {
      if (isNarrow()) openDrawer(true);
      table_.field.focus();
      table_.field.select();
    },
    j: () => {
      if (isNarrow() && !isDrawerOpen()) openDrawer(true);
      table_.move(1);
    },
    k: () => {
      if (isNarrow() && !isDrawerOpen()) openDrawer(true);
      table_.move(-1);
    },
    x: () => {
      if (table_.currentRun) table_.toggle(table_.currentRun);
    },
    h: () => {
      const name = table_.currentRun;
      if (name && table_.runs.get(name)?.state !== "log") table_.hide(name);
    },
    r: refresh,
    b: () => {
      if (isNarrow()) openDrawer(!isDrawerOpen());
      else {
        table_.wideChoice = !table_.wide;
        table_.update();
      }
    },
    "?": showKeys
  });
  if (!acts[event.key]) return;
  event.preventDefault();
  acts[event.key]();
});

// --- news ---

/** @type {EventSource | null} */
let stream = null;
let retry = 0;

/** No news any more, as if the server were gone. */
export function disconnect() {
  stream?.close();
  clearTimeout(lookAgain);
  state.connected = false;
}

export function connect() {
  clearTimeout(retry);
  if (stream) stream.close();
  stream = new EventSource("/api/stream");
  stream.addEventListener("runs", event => {
    const said = JSON.parse(event.data);
    table_.runs = new Map(said.runs.map((/** @type {ListedRun} */ run) => [run.name, run]));
    table_.columns = said.columns;
    table_.total = said.total;
    Object.assign(state, { common: said.common, folder: said.folder });
    heard();
  });
  stream.addEventListener("changes", event => {
    const said = JSON.parse(event.data);
    for (const name of said.gone) table_.runs.delete(name);
    for (const run of said.runs) table_.runs.set(run.name, run);
    table_.total = said.total;
    heard();
  });
  stream.addEventListener("error", () => {
    if (state.connected || !state.lostAt) state.lostAt = Date.now();
    const before = state.connected;
    state.connected = false;
    showConnection();
    if (before) showContent();
    // The browser tries again by itself, unless the answer was no stream at all.
    if (stream && stream.readyState === EventSource.CLOSED) retry = window.setTimeout(connect, 1000 * RETRY_SECONDS);
  });
}

/** The list has changed. */
function heard() {
  const back = !state.connected;
  Object.assign(state, { connected: true, listed: true, lostAt: 0 });
  for (const name of [...state.expected]) if (table_.runs.has(name)) state.expected.delete(name);
  showConnection();
  bell.look(table_.runs.values());
  table_.update();
  if (!state.chosen.length) chooseFromAddress();
  if (back) rested = 0;
  if (back || state.payload === null || statesOf(shownRuns()) !== drawnStates) showContent();
  else showNews();
  look();
}

/** Ask for everything again, now. */
function refresh() {
  rested = 0;
  state.failure = null;
  if (state.payload) state.payload.versions = {};
  if (!state.connected) connect();
  look();
}

showFrame();
connect();
document.addEventListener("visibilitychange", look);
listenToPrint(printed => {
  onPaper = printed;
  applyAppearance(view, languages, onPaper);
  showContent();
});
addEventListener("popstate", () => {
  const parts = viewFromHash(location.hash);
  const { language, theme } = view.state;
  Object.assign(view.state, view.usual, parts, { language, theme });
  chooseFromAddress();
});
addEventListener("hashchange", chooseFromAddress);
addEventListener("resize", () => {
  table_.update();
  openDrawer(isDrawerOpen(), false);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  if (!view.state.theme) view.set({ theme: null });
});
setInterval(() => {
  // times that pass without news
  if (document.hidden || state.chosen.length !== 1 || !state.connected) return;
  const run = table_.runs.get(state.chosen[0]);
  if (!run || !isLive(run)) return;
  const foot = document.querySelector("#content > .tiles .tile-state .foot");
  if (foot && state.payload) foot.replaceChildren(bdi(lastLine(run)));
  if (run.state === "stalled") showStatus([run], labelsNow());
}, 2000);

/* Logs of any trainer: pasted, dropped or chosen. The server keeps them, so they have an address like runs. */

/** @param {Labels} labels @param {boolean} alone whether there is nothing else on the page */
function logPanel(labels, alone) {
  const field = (
    /** @type {string} */ id,
    /** @type {string} */ label,
    /** @type {Record<string, string>} */ attributes
  ) => make("label", {}, make("span", { class: "label" }, label), make("input", { id, ...attributes }));
  const text = make("textarea", {
    id: "log-text",
    rows: alone ? "9" : "6",
    spellcheck: "false",
    dir: "ltr",
    "aria-label": labels.paste,
    placeholder: labels.paste
  });
  const file = make("input", { type: "file", id: "log-file", hidden: "", "aria-label": labels.choose_file });
  file.addEventListener("change", () => {
    if (file.files.length) explain(file.files[0].name, file.files[0]);
    file.value = "";
  });
  const said = make("p", { id: "log-said", role: "alert", class: "tone-bad" });
  return make(
    "section",
    { id: "log-panel", class: "card", hidden: "" },
    make(
      "div",
      { class: "card-head" },
      make("h2", {}, labels.explain_log),
      makeButton(
        { class: "icon-button", id: "log-close", "aria-label": labels.close, title: labels.close },
        () => openLogPanel(false, true),
        icon("close")
      )
    ),
    text,
    said,
    make(
      "div",
      { class: "fields" },
      field("log-max-iters", labels.max_iters, { inputmode: "numeric", size: "8" }),
      field("log-device", labels.device, { size: "14", placeholder: "RTX 4070 Ti" }),
      make(
        "div",
        { class: "actions" },
        makeButton({ class: "control", id: "log-choose" }, () => file.click(), labels.choose_file),
        file,
        makeButton({ class: "control primary", id: "log-explain" }, () => explain("", text.value), labels.explain)
      )
    )
  );
}

/** @param {boolean} open @param {boolean} back whether the focus returns to the button */
function openLogPanel(open, back = false) {
  const panel = byId("log-panel");
  panel.hidden = !open;
  byId("log-open").setAttribute("aria-expanded", String(open));
  if (open) {
    panel.scrollIntoView({ block: "nearest" });
    byId("log-text").focus();
  } else if (back) byId("log-open").focus();
}

/** Show what the server says about a log: text, or a file. @param {string} name of the file @param {string | Blob} content */
export async function explain(name, content) {
  const labels = labelsNow();
  const said = byId("log-said");
  const tell = (/** @type {string} */ text) => {
    if (byId("log-panel").hidden) openLogPanel(true);
    said.textContent = text;
  };
  if (typeof content === "string" ? !content.trim() : !content.size) {
    tell(labels.empty_paste);
    return;
  }
  said.textContent = "";
  const button = byId("log-explain");
  button.disabled = true;
  const query = new URLSearchParams({ name, device: byId("log-device").value.trim() });
  const steps = byId("log-max-iters").value.trim();
  if (steps) query.set("max_iters", steps);
  try {
    const response = await fetch(`/api/explain?${query}`, { method: "POST", body: content });
    if (response.ok) {
      const { log } = await response.json();
      byId("log-text").value = "";
      openLogPanel(false);
      state.expected.add(log); // the list will have it in a moment
      choose([log]);
      byId("content").focus();
    } else tell(await reasonOf(response));
  } catch {
    tell(labels.error_failed);
  }
  button.disabled = false;
}

/** @param {string} name */
async function removeLog(name) {
  try {
    await fetch(`/api/log?${new URLSearchParams({ log: name })}`, { method: "DELETE" });
  } catch {
    return;
  } // it stays in the list
  table_.runs.delete(name);
  table_.update();
  if (state.chosen.includes(name)) choose(state.chosen.filter(other => other !== name));
}

addEventListener("dragover", event => event.preventDefault());
addEventListener("drop", event => {
  if (!event.dataTransfer) return;
  const { files } = event.dataTransfer;
  const text = event.dataTransfer.getData("text/plain");
  if (event.target instanceof HTMLElement && event.target.id === "log-text" && !files.length) return; // text dropped into the field is being edited
  event.preventDefault();
  if (files.length) explain(files[0].name, files[0]);
  else if (text) explain("", text);
});
