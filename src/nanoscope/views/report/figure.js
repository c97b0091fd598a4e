"use strict";
/* A chart in the page: its title, legend and menu around the plot. */

/**
 * @param {Spec} spec @param {View} view @param {Record<string, string>} labels @param {number} level of the heading
 * @param {{head?: Node | null, unit?: string, now?: string, label?: Node | string}} extras head: between title and legend; now: the last value; label: the title, if it opens something
 */
function figure(spec, view, labels, level, extras = {}) {
  const own = Boolean(spec.xRange);
  const unit = extras.unit || "";
  const holder = make("div", own ? { class: "plot", role: "img", "aria-label": spec.title } : {
    class: "plot", tabindex: "0", role: "slider", "aria-orientation": "horizontal", "aria-valuemin": "0", "aria-valuenow": "0", "aria-label": labels.chart.replace("{title}", spec.title), title: "",
  });
  holder.removeAttribute("title");
  const legend = make("div", { class: "legend", role: "group", "aria-label": labels.legend });
  const now = make("span", { class: "now" }, bdi(extras.now || "", "ltr"));
  /** @type {Chart | null} */
  let chart = null;
  let hasRaw = false;
  const menu = menuButton(`${labels.take_away}: ${spec.title}`, icon("menu"), () => [
    makeButton({}, () => { if (chart) savePicture(chart, "png"); }, "PNG"),
    makeButton({}, () => { if (chart) savePicture(chart, "svg"); }, "SVG"),
    makeButton({}, () => { if (chart) saveText(`${fileName(chart)}.csv`, "text/csv", csvOf(...numbersOf(chart, true))); }, "CSV"),
    makeButton({}, () => { if (chart) openDialog(spec.title, labels.close, table(spec.title, ...numbersOf(chart, false))); }, labels.table),
  ]);
  const whole = make("section", { class: `card chart ${spec.tall ? "tall" : "small"}`, "data-key": spec.key },
    make("div", { class: "card-head" }, make(`h${level}`, {}, extras.label || spec.title, " ", make("bdi", { class: "unit", "data-unit": unit }, unit)), extras.head || null, legend, now, menu),
    holder);
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
      if (!onlySmoothing || (view.state.smoothing > 0) !== hasRaw) fillLegend();
      if (chart && (!onlySmoothing || spec.lines.some((line) => line.smooth))) chart.schedule();
    },
  };
  return whole;

  function fillLegend() {
    if (spec.lines.length < 2 && !spec.lines.some((line) => line.smooth && spec.tall)) return;
    const entries = spec.lines.filter((line) => line.label && !line.unlisted).map((line) => entry(line, line.label, line.key));
    const smooth = spec.lines.find((line) => line.smooth);
    hasRaw = view.state.smoothing > 0;
    if (smooth && spec.tall && !spec.names && view.state.smoothing > 0) entries.push(entry(smooth, labels.raw, "raw"));
    const focused = [...legend.children].indexOf(document.activeElement);
    legend.replaceChildren(...entries);
    if (focused >= 0 && legend.children[focused]) legend.children[focused].focus();
  }

  /** @param {Line} line @param {string} label @param {string} key */
  function entry(line, label, key) {
    const { hidden } = view.state;
    const button = makeButton({ class: "legend-item", "aria-pressed": String(!hidden.includes(key)) }, () => {
      const { hidden: now } = view.state;
      view.set({ hidden: now.includes(key) ? now.filter((other) => other !== key) : [...now, key] });
    }, swatch(line, key === "raw"), make("bdi", { dir: "auto" }, label));
    if (key === "raw") return button;
    for (const [event, hovered] of [["pointerenter", key], ["focus", key], ["pointerleave", ""], ["blur", ""]]) button.addEventListener(event, () => { if (chart) chart.hover(hovered); });
    return button;
  }
}
