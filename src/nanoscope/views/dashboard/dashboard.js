"use strict";
/* The page of `nanoscope watch`: the list of runs, the report of those that are chosen, and a form for any log. */

const { language: usualLanguage, words: allWords } = JSON.parse(document.getElementById("words").textContent);
const view = new View({ language: usualLanguage });
const state = {
  runs: null, // as listed by the server
  chosen: [], // names of runs
  payload: null, // what is shown, of runs or of a log
  log: null, // {name, content} of a log that is shown instead of runs
  connected: false, notice: "",
};
const REST_SECONDS = 2; // drawing takes time from training too
let loading = false; // a report is on its way
let lookAgain = 0; // the timer of the next look at the chosen runs
let rested = 0; // when the server may be asked for the same runs again

const labelsNow = () => allWords[view.state.language].labels;
const byId = (id) => document.getElementById(id);
const isChosen = (names) => state.log === null && JSON.stringify(names) === JSON.stringify(state.chosen);

// --- remembered between visits; private windows may refuse ---

function recall(key) {
  try { return localStorage.getItem(`nanoscope-${key}`); } catch { return null; }
}

function remember(key, value) {
  try { if (value) localStorage.setItem(`nanoscope-${key}`, value); } catch { /* then not */ }
}

// --- the frame ---

view.listen((change) => {
  remember("language", change.language);
  remember("theme", change.theme);
  if (!("language" in change || "theme" in change)) return;
  const focused = document.activeElement && document.activeElement.id;
  showFrame();
  if (byId(focused)) byId(focused).focus();
});

/** Everything anew, in the language and colours that are chosen; what was typed stays. */
function showFrame() {
  const labels = labelsNow();
  const typed = ["log-text", "log-max-iters", "log-device", "sample-prompt"].map((id) => [id, byId(id) && byId(id).value]);
  const open = byId("log-panel") && !byId("log-panel").hidden;
  const written = byId("sample-text");
  applyAppearance(view, allWords);
  const header = make("header", { class: "top" }, make("h1", { class: "brand" }, "nanoscope"), make("span", { id: "connection", role: "status", class: "soft" }),
    make("div", { class: "actions" }, languageSwitch(view, allWords), themeSwitch(view, labels)));
  const nav = make("nav", { id: "runs", "aria-label": labels.watch }, logButton(labels), make("ul"));
  const main = make("main", {},
    logPanel(labels), make("p", { id: "notice", role: "alert", hidden: "" }), make("div", { id: "tools", class: "controls", hidden: "" }, downloadButton(labels)),
    make("div", { id: "content", tabindex: "-1" }), samplePanel(labels, written));
  document.body.querySelectorAll("header, .layout").forEach((old) => old.remove());
  document.body.prepend(header, make("div", { class: "layout" }, nav, main));
  for (const [id, value] of typed) if (value) byId(id).value = value;
  byId("log-panel").hidden = !open;
  byId("log-open").setAttribute("aria-expanded", String(Boolean(open)));
  byId("notice").hidden = !state.notice;
  byId("notice").textContent = state.notice;
  showConnection();
  showList();
  showContent();
}

function showConnection() {
  const labels = labelsNow();
  const text = state.connected ? labels.connected : labels.lost;
  if (byId("connection").textContent !== text) byId("connection").textContent = text;
  byId("connection").className = state.connected ? "soft" : "bad";
}

/** Say what went wrong, until something goes right. */
function showMessage(text) {
  state.notice = text;
  byId("notice").textContent = text;
  byId("notice").hidden = !text;
}

// --- the list ---

const hashOf = (names) => `#${new URLSearchParams(names.map((name) => ["run", name]))}`;

function listItem(run, labels) {
  const link = make("a", { class: "open", href: hashOf([run.name]) }, make("bdi", {}, run.label));
  const shown = state.log === null && state.chosen.includes(run.name);
  if (shown && state.chosen.length === 1) link.setAttribute("aria-current", "page");
  const box = make("input", { type: "checkbox", "aria-label": labels.compare_with.replace("{name}", () => run.label), "data-run": run.name });
  if (shown) box.setAttribute("checked", "");
  const facts = [make("span", { class: `state ${run.state}` }, labels[run.state])];
  if (run.step !== null) facts.push(`${labels.step} ${run.step}${run.total ? ` / ${run.total}` : ""}`);
  if (run.loss !== null) facts.push(`${labels.loss} ${run.loss.toFixed(4)}`);
  if (run.val !== null) facts.push(`${labels.val} ${run.val.toFixed(4)}`);
  if (run.reason !== null) facts.push(run.reason);
  if (run.eta_seconds !== null) facts.push(labels.left.replace("{time}", shortTime(run.eta_seconds)));
  const about = make("div", { class: "soft facts" }, ...facts.map((fact) => make("bdi", {}, fact)));
  const share = run.state === "live" && run.total ? make("progress", { max: run.total, value: Math.min(run.step || 0, run.total), "aria-label": run.label }) : null;
  return make("li", { "data-key": run.name, class: shown ? "shown" : "" }, make("div", { class: "row" }, box, link), about, share);
}

function showList() {
  if (state.runs === null) return;
  const labels = labelsNow();
  const items = state.runs.map((run) => listItem(run, labels));
  const shown = byId("runs").querySelector("ul");
  patchChildren(shown, make("ul", {}, ...(items.length ? items : [make("li", { class: "soft" }, labels.no_runs)])));
  for (const box of shown.querySelectorAll("input")) box.checked = box.hasAttribute("checked");
}

document.addEventListener("change", (event) => {
  const name = event.target.dataset && event.target.dataset.run;
  if (name === undefined) return;
  const before = state.log === null ? state.chosen : [];
  const chosen = event.target.checked ? [...before, name] : before.filter((other) => other !== name);
  location.hash = hashOf(chosen.length ? chosen : [name]);
  if (!chosen.length) showList();
});

/** The runs in the address; without any, those that are shown, or the first one. */
function choose() {
  const listed = (state.runs || []).map((run) => run.name);
  const named = new URLSearchParams(location.hash.slice(1)).getAll("run");
  const shown = state.chosen.filter((name) => listed.includes(name));
  const chosen = [named, shown, listed.slice(0, 1)].find((names) => names.length) || [];
  if (isChosen(chosen)) return;
  Object.assign(state, { chosen, payload: null, log: null });
  if (byId("sample-text")) byId("sample-text").textContent = "";
  showMessage("");
  showList();
  showContent();
  look();
}

// --- what is shown ---

function showContent() {
  const content = byId("content");
  byId("tools").hidden = state.payload === null;
  byId("sample").hidden = state.payload === null || state.log !== null || state.chosen.length !== 1;
  if (state.payload === null) {
    const labels = labelsNow();
    content.replaceChildren(...(state.chosen.length ? [make("p", { class: "soft" }, loading ? labels.loading : labels.error_no_training)] : []));
    return;
  }
  showReport(content, state.payload, view, { level: 2 });
}

/** The failure of an answer, in words. */
async function reasonOf(response) {
  const labels = labelsNow();
  let said = {};
  try { said = await response.json(); } catch { /* not ours */ }
  return [labels[`error_${said.error}`] || labels.error_failed, said.message || ""].join(" ").trim();
}

/** Ask for the chosen runs if they have changed since they were last asked for. */
async function look() {
  clearTimeout(lookAgain);
  if (loading || document.hidden || state.log !== null || !state.chosen.length) return;
  const chosen = state.chosen;
  const known = state.payload && state.payload.versions;
  const listed = Object.fromEntries((state.runs || []).map((run) => [run.name, run.version]));
  if (known && chosen.every((name) => known[name] === (listed[name] || known[name]))) return;
  const begun = (run) => run.step !== null || run.val !== null;
  if (!known && chosen.every((name) => (state.runs || []).some((run) => run.name === name && !begun(run)))) { showContent(); return; }
  if (known && Date.now() < rested) { lookAgain = setTimeout(look, rested - Date.now()); return; }
  loading = true;
  if (!known) showContent();
  let wait = 0;
  try {
    let response = await fetch(`/api/report?${hashOf(chosen).slice(1)}`);
    while (response.status === 202 && isChosen(chosen)) {
      const { done, of } = await response.json();
      if (!known) byId("content").replaceChildren(make("p", { class: "soft" }, `${labelsNow().loading} ${done} / ${of} `, make("progress", { value: done, max: of, "aria-label": labelsNow().loading })));
      response = await fetch(`/api/report?${hashOf(chosen).slice(1)}`);
    }
    if (response.status !== 202 && isChosen(chosen)) {
      if (response.ok) {
        state.payload = await response.json();
        wait = state.payload.leisure_seconds;
        showMessage("");
      } else {
        showMessage(await reasonOf(response));
        wait = 2;
      }
    }
  } catch { wait = 2; } // the server is gone: the stream reports when it is back
  loading = false;
  if (!isChosen(chosen)) { look(); return; }
  showContent();
  rested = Date.now() + 1000 * Math.max(wait, REST_SECONDS);
  lookAgain = setTimeout(look, rested - Date.now());
}

function downloadButton(labels) {
  const button = make("button", { type: "button", id: "download" }, labels.download);
  button.addEventListener("click", async () => {
    const place = state.log === null
      ? [`/report.html?${hashOf(state.chosen).slice(1)}&lang=${view.state.language}`]
      : [`/api/explain.html?${logQuery(state.log)}`, { method: "POST", body: state.log.content }];
    try {
      const response = await fetch(...place);
      if (!response.ok) { showMessage(await reasonOf(response)); return; }
      const name = /filename="([^"]+)"/.exec(response.headers.get("content-disposition") || "");
      const link = make("a", { href: URL.createObjectURL(await response.blob()), download: name ? name[1] : "report.html" });
      link.click();
      URL.revokeObjectURL(link.href);
    } catch { showMessage(labelsNow().error_failed); }
  });
  return button;
}

// --- a pasted log ---

function logButton(labels) {
  const button = make("button", { type: "button", id: "log-open", "aria-expanded": "false", "aria-controls": "log-panel" }, labels.explain_log);
  button.addEventListener("click", () => openLogPanel(byId("log-panel").hidden));
  return make("div", { class: "controls" }, button);
}

function openLogPanel(open) {
  byId("log-panel").hidden = !open;
  byId("log-open").setAttribute("aria-expanded", String(open));
  if (open) byId("log-text").focus();
}

function logPanel(labels) {
  const field = (id, label, attributes) => make("label", {}, `${label} `, make("input", { id, ...attributes }));
  const text = make("textarea", { id: "log-text", rows: "8", spellcheck: "false", dir: "ltr", "aria-label": labels.paste, placeholder: "iter 0: loss 10.9, time 12543.49ms, mfu -100.00%" });
  const file = make("input", { type: "file", id: "log-file" });
  file.addEventListener("change", () => { if (file.files.length) explain(file.files[0].name, file.files[0]); });
  const button = make("button", { type: "button", id: "log-explain" }, labels.explain);
  button.addEventListener("click", () => explain(labelsNow().pasted, text.value));
  return make("section", { id: "log-panel", hidden: "" }, make("h2", {}, labels.explain_log), make("p", {}, labels.paste), text,
    make("div", { class: "fields" }, field("log-max-iters", labels.max_iters, { inputmode: "numeric", size: "8" }),
      field("log-device", labels.device, { size: "14", placeholder: "RTX 4070 Ti" }), make("label", {}, `${labels.choose_file} `, file)),
    make("div", { class: "controls" }, button));
}

function logQuery(log) {
  return new URLSearchParams({ name: log.name, max_iters: log.max_iters, device: log.device, lang: view.state.language });
}

/** Show what the server says about a log: text, or a file. */
async function explain(name, content) {
  const log = { name, content, max_iters: byId("log-max-iters").value.trim(), device: byId("log-device").value.trim() };
  showMessage("");
  byId("log-explain").disabled = true;
  try {
    const response = await fetch(`/api/explain?${logQuery(log)}`, { method: "POST", body: content });
    if (response.ok) {
      Object.assign(state, { log, payload: await response.json(), chosen: [] });
      history.replaceState(null, "", location.pathname);
      showList();
      showContent();
      openLogPanel(false);
      byId("content").focus();
    } else showMessage(await reasonOf(response));
  } catch { showMessage(labelsNow().error_failed); }
  byId("log-explain").disabled = false;
}

addEventListener("dragover", (event) => event.preventDefault());
addEventListener("drop", (event) => {
  const { files } = event.dataTransfer;
  const text = event.dataTransfer.getData("text/plain");
  if (event.target.id === "log-text" && !files.length) return; // text dropped into the field is being edited
  event.preventDefault();
  if (files.length) explain(files[0].name, files[0]);
  else if (text) explain(labelsNow().pasted, text);
});

// --- samples ---

let writing = null; // lets the text that is being written be stopped

function samplePanel(labels, written) {
  const prompt = make("input", { id: "sample-prompt", dir: "auto", maxlength: "2000" });
  const button = make("button", { type: "button", id: "sample-go" }, writing ? labels.stop : labels.write);
  button.addEventListener("click", () => { if (writing) writing.abort(); else writeSample(prompt.value); });
  prompt.addEventListener("keydown", (event) => { if (event.key === "Enter" && !writing) writeSample(prompt.value); });
  return make("section", { id: "sample", hidden: "" }, make("h2", {}, labels.sampling),
    make("div", { class: "fields" }, make("label", {}, `${labels.prompt} `, prompt), make("span", { class: "controls" }, button)),
    written || make("pre", { id: "sample-text", dir: "auto", tabindex: "0", "aria-label": labels.sampling }));
}

async function writeSample(prompt) {
  const [run] = state.chosen;
  const here = () => isChosen([run]);
  writing = new AbortController();
  byId("sample-go").textContent = labelsNow().stop;
  byId("sample-text").textContent = prompt;
  try {
    const response = await fetch("/api/sample", { method: "POST", body: JSON.stringify({ run, prompt }), signal: writing.signal });
    if (response.ok) {
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      byId("sample-text").textContent = "";
      for (let part = await reader.read(); !part.done && here(); part = await reader.read()) byId("sample-text").append(part.value);
      if (!here()) writing.abort();
    } else showMessage(await reasonOf(response));
  } catch (error) { if (error.name !== "AbortError") showMessage(labelsNow().error_failed); }
  writing = null;
  byId("sample-go").textContent = labelsNow().write;
}

// --- news ---

function connect() {
  const stream = new EventSource("/api/stream");
  stream.addEventListener("runs", (event) => {
    Object.assign(state, { connected: true, runs: JSON.parse(event.data).runs });
    showConnection();
    showList();
    if (state.log === null) choose();
    look();
  });
  stream.addEventListener("error", () => {
    state.connected = false;
    showConnection();
    // The browser tries again by itself, unless the answer was no stream at all.
    if (stream.readyState === EventSource.CLOSED) setTimeout(connect, 2000);
  });
}

const ofBrowser = usualLanguage === "en" ? navigator.languages.map((tag) => tag.split("-")[0]).find((code) => allWords[code]) : null;
view.state.language = [recall("language"), ofBrowser].find((code) => allWords[code]) || usualLanguage;
if (["light", "dark"].includes(recall("theme"))) view.state.theme = recall("theme");
showFrame();
connect();
document.addEventListener("visibilitychange", look);
addEventListener("hashchange", () => { if (location.hash || state.log === null) choose(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (!view.state.theme) view.set({ theme: null }); });
