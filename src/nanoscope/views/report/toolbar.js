"use strict";
/* One row of controls for all charts of a page. */

/** Buttons of which one is chosen. @param {string} label @param {string} id @param {[string, string][]} choices value and text @param {() => string} chosen @param {(value: string) => void} choose */
function segment(label, id, choices, chosen, choose) {
  const buttons = choices.map(([value, text]) => makeButton({ id: `${id}-${value}` }, () => choose(value), text));
  const whole = make("div", { class: "segment", role: "group", "aria-label": label }, ...buttons);
  whole.update = () => choices.forEach(([value], i) => buttons[i].setAttribute("aria-pressed", String(value === chosen())));
  whole.update();
  return whole;
}

/** @param {View} view @param {string[]} ways along x @param {Record<string, string>} labels @param {any} root */
function chartToolbar(view, ways, labels, root) {
  const slider = make("input", { type: "range", id: "smoothing", min: "0", max: "0.99", step: "0.01" });
  const amount = make("output", { for: "smoothing", class: "amount" });
  slider.addEventListener("input", () => view.set({ smoothing: Number(slider.value) }));
  const x = segment(labels.x_axis, "x", ways.map((way) => [way, labels[`by_${way}`]]), () => (ways.includes(view.state.x) ? view.state.x : "step"), (way) => view.set({ x: way }));
  const y = segment(labels.y_axis, "y", [["linear", labels.linear], ["log", labels.log]], () => (view.state.log ? "log" : "linear"), (way) => view.set({ log: way === "log" }));
  const start = make("input", { type: "checkbox", id: "leave-start" });
  start.addEventListener("change", () => view.set({ start: start.checked, zoom: null }));
  const button = (/** @type {keyof typeof ICONS} */ face, /** @type {string} */ label, /** @type {() => void} */ act, id = "") => makeButton({ class: "icon-button", "aria-label": label, title: label, id }, act, icon(face));
  const bar = make("div", { class: "toolbar", role: "group", "aria-label": labels.toolbar, "data-key": ways.join(" ") },
    make("label", { class: "smoothing" }, make("span", {}, labels.smoothing), slider, amount),
    make("div", { class: "tool" }, make("span", { "aria-hidden": "true" }, "y"), y),
    make("div", { class: "tool" }, make("span", { "aria-hidden": "true" }, "x"), x),
    make("label", { class: "tool leave" }, start, labels.leave_start),
    make("div", { class: "tool end" },
      button("minus", labels.zoom_out, () => zoomPage(root, 0.5), "zoom-out"), button("plus", labels.zoom_in, () => zoomPage(root, 2), "zoom-in"),
      makeButton({ class: "control quiet", id: "reset" }, () => view.reset(), icon("reset"), labels.reset)));
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
