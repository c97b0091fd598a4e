"use strict";
/* Logs of any trainer: pasted, dropped or chosen. The server keeps them, so they have an address like runs. */

/** @param {Record<string, string>} labels @param {boolean} alone whether there is nothing else on the page */
function logPanel(labels, alone) {
  const field = (/** @type {string} */ id, /** @type {string} */ label, /** @type {Record<string, string>} */ attributes) => make("label", {}, make("span", { class: "label" }, label), make("input", { id, ...attributes }));
  const text = make("textarea", { id: "log-text", rows: alone ? "9" : "6", spellcheck: "false", dir: "ltr", "aria-label": labels.paste, placeholder: labels.paste });
  const file = make("input", { type: "file", id: "log-file", hidden: "", "aria-label": labels.choose_file });
  file.addEventListener("change", () => { if (file.files.length) explain(file.files[0].name, file.files[0]); file.value = ""; });
  const said = make("p", { id: "log-said", role: "alert", class: "tone-bad" });
  return make("section", { id: "log-panel", class: "card", hidden: "" },
    make("div", { class: "card-head" }, make("h2", {}, labels.explain_log), makeButton({ class: "icon-button", id: "log-close", "aria-label": labels.close, title: labels.close }, () => openLogPanel(false, true), icon("close"))), text, said,
    make("div", { class: "fields" }, field("log-max-iters", labels.max_iters, { inputmode: "numeric", size: "8" }), field("log-device", labels.device, { size: "14", placeholder: "RTX 4070 Ti" }),
      make("div", { class: "actions" }, makeButton({ class: "control", id: "log-choose" }, () => file.click(), labels.choose_file), file,
        makeButton({ class: "control primary", id: "log-explain" }, () => explain("", text.value), labels.explain))));
}

/** @param {boolean} open @param {boolean} back whether the focus returns to the button */
function openLogPanel(open, back = false) {
  const panel = byId("log-panel");
  panel.hidden = !open;
  byId("log-open").setAttribute("aria-expanded", String(open));
  if (open) { panel.scrollIntoView({ block: "nearest" }); byId("log-text").focus(); } else if (back) byId("log-open").focus();
}

/** Show what the server says about a log: text, or a file. @param {string} name of the file @param {string | Blob} content */
async function explain(name, content) {
  const labels = labelsNow();
  const said = byId("log-said");
  const tell = (/** @type {string} */ text) => { if (byId("log-panel").hidden) openLogPanel(true); said.textContent = text; };
  if (typeof content === "string" ? !content.trim() : !content.size) { tell(labels.empty_paste); return; }
  said.textContent = "";
  const button = byId("log-explain");
  button.disabled = true;
  const query = new URLSearchParams({ name, max_iters: byId("log-max-iters").value.trim(), device: byId("log-device").value.trim() });
  try {
    const response = await fetch(`/api/explain?${query}`, { method: "POST", body: content });
    if (response.ok) {
      const payload = await response.json();
      byId("log-text").value = "";
      openLogPanel(false);
      state.expected.add(payload.log); // the list will have it in a moment
      choose([payload.log]);
      byId("content").focus();
    } else tell(await reasonOf(response));
  } catch { tell(labels.error_failed); }
  button.disabled = false;
}

/** @param {string} name */
async function removeLog(name) {
  try {
    await fetch(`/api/log?${new URLSearchParams({ log: name })}`, { method: "DELETE" });
  } catch { return; } // it stays in the list
  table_.runs.delete(name);
  table_.update();
  if (state.chosen.includes(name)) choose(state.chosen.filter((other) => other !== name));
}

addEventListener("dragover", (event) => event.preventDefault());
addEventListener("drop", (event) => {
  if (!event.dataTransfer) return;
  const { files } = event.dataTransfer;
  const text = event.dataTransfer.getData("text/plain");
  if (event.target instanceof HTMLElement && event.target.id === "log-text" && !files.length) return; // text dropped into the field is being edited
  event.preventDefault();
  if (files.length) explain(files[0].name, files[0]);
  else if (text) explain("", text);
});
