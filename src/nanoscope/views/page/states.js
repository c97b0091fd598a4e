/* What a run's state means: a sentence and the next step, the tab's title, and notifications. */

import { icon, make, makeButton, runDot } from "./dom.js";
import { cellLoss, shortTime } from "./numbers.js";
import { copyButton } from "./figure.js";
import { STATES } from "./run.js";

export const COMMANDS = {
  train: "nanoscope train laptop",
  demo: "nanoscope demo",
  watch: "nanoscope watch",
  explain: "nanoscope explain FILE"
};
const FEW_SETTINGS = 8; // shown while a run starts
const TELLING = [
  "n_layer",
  "n_head",
  "n_embd",
  "block_size",
  "batch_size",
  "learning_rate",
  "max_iters",
  "dataset",
  "device",
  "dtype"
];

/** A command with a button that copies it. @param {string} command @param {Labels} labels */
export function commandLine(command, labels) {
  return make(
    "div",
    { class: "command" },
    make("code", { dir: "ltr" }, command),
    copyButton(labels.copy, labels.copied, () => command, { "aria-label": `${labels.copy}: ${command}` })
  );
}

/** @param {string} tone @param {string} glyph @param {string} title @param {string} text @param {...(Node | null)} next */
export function stateCard(tone, glyph, title, text, ...next) {
  return make(
    "section",
    { class: `card state-card tone-bg-${tone}`, role: "status" },
    make("span", { class: `state-mark tone-${tone}`, "aria-hidden": "true" }, glyph),
    make(
      "div",
      { class: "state-text" },
      make("p", {}, make("strong", { class: `tone-${tone}` }, title), text ? ` ${text}` : ""),
      ...next
    )
  );
}

/** A card under the name of its run, where no report shows it. @param {ListedRun} run @param {Node} card */
function named(run, card) {
  return make(
    "div",
    { class: "page" },
    make(
      "div",
      { class: "name-line" },
      runDot(run.label),
      make("h2", { class: "run-name" }, make("bdi", { dir: "auto" }, run.label))
    ),
    card
  );
}

/**
 * The card above the charts of one run, or null where the charts say it all.
 * @param {ListedRun} run @param {Payload | null} payload its report @param {RunWords | null} words of it @param {Labels} labels @param {Record<string, any>} settings all that are known of the run @param {Node | null} notify a button that turns notifications on
 */
export function stateOfRun(run, payload, words, labels, settings, notify) {
  const fill = (/** @type {string} */ text, /** @type {Record<string, string>} */ values) =>
    text.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
  const resume = payload && payload.runs[0].resume;
  const next = resume ? commandLine(resume, labels) : null;
  const age = () => shortTime(Math.max(1, Math.round(Date.now() / 1000 - run.updated)));
  switch (run.state) {
    case "starting": {
      const names = [
        ...TELLING.filter(name => name in settings),
        ...Object.keys(settings).filter(name => !TELLING.includes(name))
      ].slice(0, FEW_SETTINGS);
      const chips = make(
        "div",
        { class: "setting-chips" },
        ...names.map(name =>
          make(
            "span",
            { class: "setting-chip" },
            make("code", {}, name),
            " ",
            make("bdi", { dir: "ltr" }, make("strong", {}, String(settings[name])))
          )
        )
      );
      return named(
        run,
        stateCard(
          "accent",
          "◌",
          run.compiled ? labels.compiling_title : labels.starting_title,
          run.compiled ? labels.compiling_text : labels.starting_text,
          names.length ? chips : null,
          notify
        )
      );
    }
    case "stalled":
      return stateCard("fair", "❚❚", fill(labels.stalled_title, { time: age() }), labels.stalled_text, next, notify);
    case "failed": {
      // what happened is the verdict below
      const [advice] = words ? words.advice : [];
      return stateCard(
        "bad",
        "✕",
        advice ? `${labels.advice}:` : labels.failed_title,
        advice || labels.failed_text,
        next
      );
    }
    case "stopped":
      return stateCard(
        "soft",
        "◻",
        fill(labels.stopped_title, { step: String(run.step || 0) }),
        resume ? labels.stopped_text : "",
        next
      );
    case "unreadable":
      return named(run, stateCard("bad", "!", labels.unreadable_title, run.reason || labels.unreadable_text));
    default:
      return null;
  }
}

/** The title of the tab: glyph, share and name. @param {ListedRun[]} shown @param {boolean} connected @param {Labels} labels */
export function tabTitle(shown, connected, labels) {
  if (!shown.length) return "nanoscope";
  if (shown.length > 1) return `${labels.count_runs.replace("{n}", String(shown.length))} · nanoscope`;
  const [run] = shown;
  const glyph = connected ? (STATES[/** @type {keyof typeof STATES} */ (run.state)] || ["≡"])[0] : "○";
  const share =
    run.total && run.step !== null && run.state !== "finished"
      ? `${Math.floor(1e-6 + 100 * Math.min(1, run.step / run.total))} %`
      : null;
  const result = run.state === "finished" && run.best !== null ? cellLoss(run.best) : null;
  return [`${glyph} ${share || result || ""}`.trim(), run.label].join(share || result ? " · " : " ");
}

// --- notifications ---

/** Tells of runs that break, stall or end, once each, if the person allows it. */
export class Bell {
  /** @param {{labels: () => Record<string, string>, recall: (key: string) => string | null, remember: (key: string, value: string) => void, open: (name: string) => void}} page */
  constructor(page) {
    this.page = page;
    this.on = page.recall("notify") === "yes" && this.allowed;
    /** @type {Map<string, string>} */
    this.before = new Map();
  }

  get allowed() {
    return "Notification" in globalThis && Notification.permission === "granted";
  }

  /** @returns {any} */
  build() {
    const labels = this.page.labels();
    this.button = makeButton(
      {
        class: "icon-button",
        id: "bell",
        "aria-label": labels.notify,
        title: labels.notify,
        "aria-pressed": String(this.on)
      },
      () => this.switch(),
      icon("bell")
    );
    this.button.hidden = !("Notification" in globalThis);
    return this.button;
  }

  async switch() {
    if (this.on) this.on = false;
    else {
      if (Notification.permission !== "granted") await Notification.requestPermission();
      this.on = this.allowed;
      if (!this.on) this.button.title = this.page.labels().notify_denied;
    }
    this.page.remember("notify", this.on ? "yes" : "no");
    this.button.setAttribute("aria-pressed", String(this.on));
  }

  /** @param {Iterable<ListedRun>} runs */
  look(runs) {
    for (const run of runs) {
      const now = run.nan_step !== null ? "nan" : run.state;
      const before = this.before.get(run.name);
      this.before.set(run.name, now);
      if (before !== undefined && before !== now && ["nan", "stalled", "finished", "stopped", "failed"].includes(now))
        this.tell(run, now);
    }
  }

  /** @param {ListedRun} run @param {string} what */
  tell(run, what) {
    if (!this.on) return;
    const labels = this.page.labels();
    const body =
      what === "nan"
        ? labels.nan_title.replace("{step}", String(run.nan_step || 0))
        : [labels[`state_${what}`], run.best === null ? "" : `${labels.best_val} ${cellLoss(run.best)}`]
            .filter(Boolean)
            .join(" · ");
    const note = new Notification(run.label, { body, tag: `${run.name} ${what}` });
    note.onclick = () => {
      focus();
      this.page.open(run.name);
    };
  }
}
