/* A label that opens what its number means, beside it. */

import { bdi, card, folded, icon, list, make, makeButton, openDialog, PHONE, runDot, table } from "./dom.js";
import {
  along,
  cellLoss,
  clockTime,
  columnsOf,
  quantityOf,
  readSeries,
  shortNumber,
  waysOf,
  WRITE
} from "./numbers.js";
import { copyButton, csvButton, figure } from "./figure.js";

/** What a label opens, with the newest numbers: a label stays while the page around it changes. @type {Map<string, Lesson & {here: string}>} */
const lessons = new Map();

/**
 * The text of a label; a button if there is a concept behind it.
 * @param {string} text @param {string | undefined} concept @param {RunNumbers} run @param {RunWords} words @param {Frame} frame
 * @returns {Node | string}
 */
function lessonLabel(text, concept, run, words, frame) {
  const lesson = frame.lessons[concept || ""];
  if (!lesson || frame.onPaper) return text;
  const key = `${run.name}\n${concept}`;
  lessons.set(key, { ...lesson, here: words.here[concept || ""] });
  return makeButton(
    { class: "lesson-label", "aria-haspopup": "dialog", "data-lesson": key },
    event => {
      event.preventDefault();
      openLesson(/** @type {HTMLElement} */ (event.currentTarget), key, frame.labels);
    },
    text
  );
}

/** @param {HTMLElement} button @param {string} key @param {Labels} labels */
function openLesson(button, key, labels) {
  const lesson = /** @type {Lesson & {here: string}} */ (lessons.get(key));
  const paragraphs = [make("p", {}, lesson.summary)];
  if (lesson.here || lesson.example) paragraphs.push(make("p", { class: "here" }, lesson.here || lesson.example));
  for (const part of /** @type {const} */ (["normal", "mistake"]))
    paragraphs.push(make("p", {}, make("strong", {}, labels[`lesson_${part}`]), make("br"), lesson[part]));
  const place = button.getBoundingClientRect();
  const dialog = openDialog(lesson.title, labels.close, ...paragraphs);
  dialog.classList.add("lesson");
  dialog.addEventListener("close", () => {
    // Newer numbers may have put another button in the place of the one that was pressed.
    const again = button.isConnected
      ? button
      : [...document.querySelectorAll(".lesson-label")].find(other => other.getAttribute("data-lesson") === key);
    if (again) /** @type {HTMLElement} */ (again).focus();
  });
  if (innerWidth < PHONE) return; // a sheet at the lower edge
  const { offsetWidth: width, offsetHeight: height } = dialog;
  const start = document.documentElement.dir === "rtl" ? place.right - width : place.left;
  const below = place.bottom + 6;
  dialog.style.left = `${Math.max(12, Math.min(start, innerWidth - width - 12))}px`;
  dialog.style.top = `${below + height <= innerHeight - 12 ? below : Math.max(12, place.top - 6 - height)}px`;
}

/* The page of one run: what it reached, the verdict, charts, and everything else that is known about it. */

/** @type {Labels} */
const CAUSE_COLOURS = { startup: "c7", resume: "c7", evaluation: "c3", checkpoint: "c5", periodic: "c8", stall: "bad" };
/** @type {Labels} */
const PHASE_COLOURS = {
  steps: "c1",
  eval: "c3",
  checkpoint: "c5",
  startup: "c7",
  data: "c6",
  sample: "c4",
  other: "ghost"
};
export const STATES = {
  live: ["◉", "good"],
  starting: ["◌", "accent"],
  stalled: ["❚❚", "fair"],
  finished: ["✓", "good"],
  stopped: ["◻", "soft"],
  failed: ["✕", "bad"],
  unfinished: ["◻", "soft"],
  gone: ["⏻", "fair"]
};

/** Glyph, colour and word of a state. @param {string} state @param {Labels} labels */
function stateMark(state, labels) {
  const [glyph, tone] = STATES[/** @type {keyof typeof STATES} */ (state)] || STATES.unfinished;
  return make(
    "span",
    { class: `state tone-${tone}` },
    make("span", { class: "glyph", "aria-hidden": "true" }, glyph),
    labels[`state_${state}`] || state
  );
}

/** @param {RunNumbers} run @param {RunWords} words @param {Frame} frame */
function nameLine(run, words, { level, labels, actions }) {
  const buttons = [...actions];
  const { resume } = run;
  if (resume)
    buttons.unshift(copyButton(labels.resume, labels.copied, () => resume, { id: "copy-resume", title: resume }));
  return make(
    "div",
    { class: "name-line" },
    runDot(run.name),
    make(`h${level}`, { class: "run-name" }, make("bdi", { dir: "auto" }, run.name)),
    make("span", { class: "facts" }, bdi(words.facts)),
    make("div", { class: "actions" }, ...buttons)
  );
}

/** @param {RunNumbers} run @param {RunWords} words @param {Frame} frame */
function tileStrip(run, words, frame) {
  const { labels, stateOf } = frame;
  const { state, text } = stateOf(run);
  const foot = (/** @type {string[]} */ parts) =>
    make("div", { class: "foot" }, ...parts.flatMap((part, i) => [i ? " · " : null, bdi(part)]));
  const tiles = words.tiles.map(tile => {
    const whole = make(
      "div",
      { class: `tile tile-${tile.key}`, "data-key": tile.key },
      make("dt", { class: "label" }, lessonLabel(tile.label, tile.concept, run, words, frame)),
      make(
        "dd",
        { class: "number" },
        make(
          "bdi",
          { dir: tile.unit ? "ltr" : null },
          tile.value,
          tile.unit ? make("span", { class: "tile-unit" }, ` ${tile.unit}`) : null
        )
      )
    );
    const parts = tile.seconds && (state === "stalled" || state === "stopped") ? [labels.if_continues] : [...tile.foot];
    if (tile.seconds && state === "live")
      parts.push(
        labels.done_about.replace(
          "{time}",
          new Date(Date.now() + 1000 * tile.seconds).toLocaleTimeString("en-GB", {
            hour: "2-digit",
            minute: "2-digit"
          })
        )
      );
    if (tile.share === null) whole.append(make("dd", {}, foot(parts)));
    else
      whole.append(
        make(
          "dd",
          { class: "with-bar" },
          make("progress", { max: "1", value: String(tile.share), "aria-label": tile.label }),
          foot(parts)
        )
      );
    return whole;
  });
  tiles.push(
    make(
      "div",
      { class: "tile tile-state", "data-key": "state" },
      make("dt", { class: "label" }, labels.state),
      make("dd", { class: "number" }, stateMark(state, labels)),
      make("dd", {}, foot(text ? [text] : []))
    )
  );
  return make("dl", { class: "tiles", "data-key": "tiles" }, ...tiles);
}

/** The verdict in a sentence, and what it rests on. @param {RunNumbers} run @param {RunWords} words @param {Frame} frame */
function verdictCard(run, words, frame) {
  const { labels, onPaper } = frame;
  if (!words.verdicts.length) return null;
  const rows = words.verdicts.map(({ tone, title, text }) =>
    make(
      "div",
      { class: `verdict ${tone}` },
      make("span", { class: "verdict-mark" }, icon(tone)),
      make("p", {}, make("strong", {}, title), text)
    )
  );
  const card = make("section", { class: "card verdicts", "data-key": "verdicts", "aria-label": labels.verdict });
  if (!words.evidence.length) {
    card.append(...rows);
    return card;
  }
  const summary = make("span", { class: "why" }, labels.why, " ", icon("more"));
  const why = folded(
    summary,
    into =>
      into.append(
        make(
          "dl",
          { class: "evidence" },
          ...words.evidence.map(([title, text, concept]) =>
            make("div", {}, make("dt", {}, lessonLabel(title, concept, run, words, frame)), make("dd", {}, text))
          )
        )
      ),
    { class: "evidence-part", "data-key": "why" },
    onPaper
  );
  card.append(rows[0], why, ...rows.slice(1));
  return card;
}

// --- charts ---

/** @param {RunNumbers} run @param {RunWords} words @param {Frame} frame @returns {any[]} */
function runCharts(run, words, frame) {
  const { labels, view, level } = frame;
  const way = waysOf(run)[view.state.x] ? view.state.x : "step";
  const at = (/** @type {ArrayLike<number>} */ steps) => along(run, way, steps);
  const single = (/** @type {number} */ step) => waysOf(run)[way](step);
  const shared = { run, runs: [run.name] };
  /** @type {any[]} */
  const figures = [];
  const add = (/** @type {any} */ spec, extras = {}) =>
    figures.push(
      figure({ ...shared, ...spec }, view, labels, level + 1, {
        ...extras,
        label: lessonLabel(spec.title, frame.concepts[`chart ${spec.key}`], run, words, frame)
      })
    );

  const loss = lossSpec(run, words, labels, at, single);
  if (loss) add(loss);
  const time = timeSpec(run, words, labels, at);
  if (time) add(time);
  const last = (/** @type {string} */ name) => {
    const read = readSeries(run, name);
    return read ? WRITE[quantityOf(name)](read.y[read.y.length - 1]) : "";
  };
  for (const group of seriesGroups(Object.keys(run.series), labels)) {
    const lines = group.names.map((name, i) => {
      const read = readSeries(run, name);
      return {
        ...read,
        x: at(read ? read.x : []),
        key: name,
        label: group.names.length > 1 ? seriesTitle(name, labels).short : "",
        colour: ["c1", "c6", "c3", "c4"][i % 4],
        smooth: name === "grad_norm" || name === "mfu_pct" || name === "data_s"
      };
    });
    const clip =
      group.key === "grad_norm" && run.clip
        ? [{ y: run.clip, label: `${labels.clip} ${shortNumber(run.clip)}`, colour: "fair" }]
        : [];
    add(
      {
        key: group.key,
        title: group.title,
        quantity: group.quantity,
        lines,
        guides: clip,
        robust: group.key === "grad_norm",
        fromZero: group.fromZero
      },
      { unit: group.unit, now: group.names.length === 1 ? last(group.names[0]) : "" }
    );
  }
  if (run.metric === "bpb" && run.evals.length) {
    const { x, y, rows } = columnsOf(run.evals);
    add({
      key: "bpb",
      title: labels.bpb,
      quantity: "loss",
      stops: Array.from(at(x)),
      lines: [{ key: "bpb", label: "", x: at(x), y, errors: rows.map(row => row[2]), colour: "c2", kind: "both" }]
    });
  }
  const phases = phaseCard(run, words, frame);
  if (phases) figures.splice(Math.min(6, figures.length), 0, phases);
  return figures;
}

/** @param {RunNumbers} run @param {RunWords} words @param {Labels} labels @param {(steps: ArrayLike<number>) => ArrayLike<number>} at @param {(step: number) => number} single */
function lossSpec(run, words, labels, at, single) {
  /** @type {Line[]} */
  const lines = [];
  const raw = readSeries(run, "loss");
  if (raw)
    lines.push({
      ...raw,
      x: at(raw.x),
      key: "train",
      label: labels.batches,
      colour: "c1",
      smooth: raw.y.length > 8,
      width: 2
    });
  const evals = run.metric === "loss" ? run.evals : [];
  if (evals.length) {
    const train = columnsOf(evals, 3);
    if (train.x.length)
      lines.push({
        x: at(train.x),
        y: train.y,
        key: "train_eval",
        label: labels.train,
        colour: "c3",
        kind: "both",
        width: 1.25
      });
    const { x, y, rows } = columnsOf(evals);
    lines.push({
      x: at(x),
      y,
      key: "val",
      label: labels.val,
      colour: "c2",
      kind: "both",
      width: 2,
      errors: rows.map(row => row[2])
    });
  }
  if (!lines.length) return null;
  const [bestStep, bestLoss] = run.best || [null, null];
  const best =
    evals.length && bestStep !== null && bestLoss !== null
      ? {
          x: single(bestStep),
          y: bestLoss,
          value: cellLoss(bestLoss),
          label: `${labels.best_short} · ${shortNumber(bestStep)}`
        }
      : null;
  const guide = (/** @type {number} */ y, /** @type {string} */ name) => ({
    y,
    label: `${name} ${y.toFixed(2)}`,
    colour: "faint"
  });
  const guides = run.uniform ? [guide(run.uniform, labels.guessing)] : [];
  if (run.metric === "loss") run.rungs.forEach((y, i) => guides.push(guide(y, words.rungs[i])));
  return {
    key: "loss",
    title: labels.loss,
    quantity: "loss",
    tall: true,
    robust: true,
    lines,
    gutter: best ? 88 : 24,
    best,
    guides,
    broken:
      run.broken === null
        ? null
        : { x: single(run.broken), label: labels.nan_from.replace("{step}", String(run.broken)) },
    stops: evals.length > 1 ? Array.from(at(columnsOf(evals).x)) : []
  };
}

/** Step time: usual steps as a line, slow ones as dots by their cause. @param {RunNumbers} run @param {RunWords} words @param {Labels} labels @param {(steps: ArrayLike<number>) => ArrayLike<number>} at */
function timeSpec(run, words, labels, at) {
  const usual = readSeries(run, "time_s");
  if (!usual && !run.slow.length) return null;
  /** @type {Line[]} */
  const lines = usual
    ? [{ ...usual, x: at(usual.x), key: "usual", label: labels.normal, colour: "soft", width: 1.25, unlisted: true }]
    : [];
  const slow = run.slow
    .map(([step, seconds, cause], i) => ({
      step,
      seconds,
      cause,
      note: words.slow[i] || `${labels.step} ${step}: ${words.causes[cause]}`
    }))
    .sort((a, b) => a.step - b.step);
  for (const cause of Object.keys(words.causes)) {
    const rows = slow.filter(row => row.cause === cause);
    const main = cause.split("+").find(part => part === "checkpoint") || cause.split("+")[0];
    if (rows.length)
      lines.push({
        x: at(rows.map(row => row.step)),
        y: rows.map(row => row.seconds),
        notes: rows.map(row => row.note),
        key: `slow ${cause}`,
        label: `${words.causes[cause]} ${rows.length}`,
        colour: CAUSE_COLOURS[main] || "bad",
        kind: "dots"
      });
  }
  const highest = Math.max(...slow.map(row => row.seconds), 0);
  const typical = usual ? usual.y[usual.y.length >> 1] : 0;
  return {
    key: "time_s",
    title: labels.time_s,
    quantity: "time",
    lines,
    log: highest > 5 * typical && typical > 0,
    fromZero: true,
    stops: Array.from(at(slow.map(row => row.step)))
  };
}

/** Series that belong into one chart, the most asked for first. @param {string[]} names @param {Labels} labels */
export function seriesGroups(names, labels) {
  const without = ["loss", "time_s"];
  const order = ["lr", "grad_norm", "tok_s", "memory", "mfu_pct", "utilisation", "data_s", "eta_s"];
  /** @type {Map<string, {key: string, title: string, unit: string, quantity: string, names: string[], fromZero: boolean}>} */
  const groups = new Map();
  for (const name of names) {
    if (without.includes(name)) continue;
    const key = /_gb$/.test(name) ? "memory" : /^(cpu|gpu).*_pct$/.test(name) ? "utilisation" : name;
    const { title, unit } = seriesTitle(name, labels);
    const known = groups.get(key) || {
      key,
      title: labels[`group_${key}`] || title,
      unit,
      quantity: quantityOf(name),
      names: /** @type {string[]} */ ([]),
      fromZero: !["grad_norm", "tok_s", "loss_scale"].includes(key)
    };
    known.names.push(name);
    groups.set(key, known);
  }
  const place = (/** @type {string} */ key) => (order.indexOf(key) < 0 ? order.length : order.indexOf(key));
  return [...groups.values()].sort((a, b) => place(a.key) - place(b.key));
}

/** The title of any series: its label if it is known, else its own name without the unit at its end. @param {string} name @param {Labels} labels */
export function seriesTitle(name, labels) {
  const unit = { gb: "GB", pct: "%" }[(/_(gb|pct)$/.exec(name) || [])[1]] || "";
  const plain = name.replace(/_(gb|pct|s)$/, "").replaceAll("_", " ");
  const title = labels[`series_${name}`] || labels[name] || plain;
  return { title, unit, short: labels[`short_${name}`] || title };
}

/** @param {RunNumbers} run @param {RunWords} words @param {Frame} frame */
function phaseCard(run, words, frame) {
  const { labels, level } = frame;
  const total = run.phases.reduce((sum, [, seconds]) => sum + seconds, 0);
  if (!total) return null;
  const bar = make("div", { class: "bar", "aria-hidden": "true" });
  const parts = make("ul", { class: "phases" });
  run.phases
    .map(([phase, seconds], i) => ({ phase, seconds, text: words.phases[i] }))
    .sort((a, b) => b.seconds - a.seconds)
    .forEach(({ phase, seconds, text }) => {
      const part = make("span");
      part.style.flexGrow = String(seconds / total);
      part.style.background = `var(--${PHASE_COLOURS[phase] || "ghost"})`;
      bar.append(part);
      const mark = make("span", { class: "swatch dots" });
      mark.style.setProperty("--tone", `var(--${PHASE_COLOURS[phase] || "ghost"})`);
      parts.append(
        make(
          "li",
          {},
          mark,
          make("span", {}, lessonLabel(labels[phase] || phase, frame.concepts[`phase ${phase}`], run, words, frame)),
          bdi(text)
        )
      );
    });
  return make(
    "section",
    { class: "card small", "data-key": "phases" },
    make(
      "div",
      { class: "card-head" },
      make(`h${level + 1}`, {}, labels.phases),
      make("span", { class: "now" }, bdi(clockTime(total)))
    ),
    bar,
    parts
  );
}

// --- everything ---

/** What is below the charts. @param {RunNumbers} run @param {RunWords} words @param {Frame} frame */
function runDetails(run, words, frame) {
  const { labels, level, onPaper } = frame;
  const parts = [];
  if (words.errors.length) parts.push(card(level + 1, labels.errors, list(words.errors)));
  if (words.advice.length) parts.push(card(level + 1, labels.advice, list(words.advice, "ol")));
  parts.push(...words.sections.map(([title, texts]) => card(level + 1, title, list(texts))));
  if (words.notes.length) parts.push(card(level + 1, labels.notes, list(words.notes)));
  if (run.samples.length) {
    parts.push(
      card(
        level + 1,
        labels.samples,
        ...run.samples.map(([step, text], i) =>
          folded(
            `${labels.step} ${step}`,
            into => into.append(make("pre", { dir: "auto" }, text)),
            { "data-key": `sample ${step}` },
            i === run.samples.length - 1
          )
        )
      )
    );
  }
  for (const part of /** @type {const} */ (["config", "environment"])) {
    if (!run[part].length) continue;
    const whole = /** @type {[string, string[], any[]]} */ ([labels[part], [labels.setting, labels.value], run[part]]);
    const named = (/** @type {string} */ name) =>
      lessonLabel(name, part === "config" ? frame.concepts[`setting ${name}`] : "", run, words, frame);
    const build = (/** @type {any} */ into) =>
      into.append(csvButton(...whole, `${run.name}-${part}`), table(...whole, named));
    parts.push(
      make(
        "section",
        { class: "card" },
        folded(make(`h${level + 1}`, {}, labels[part]), build, { "data-key": part }, onPaper && !frame.brief)
      )
    );
  }
  parts.push(make("p", { class: "source faint" }, words.source));
  return make("div", { class: "details" }, ...parts);
}

/** @param {RunNumbers} run @param {RunWords} words @param {Frame} frame @param {Node | null} tools */
export function showRun(run, words, frame, tools) {
  const [first, ...rest] = runCharts(run, words, frame);
  const tall = first && first.classList.contains("tall");
  return [
    nameLine(run, words, frame),
    tileStrip(run, words, frame),
    verdictCard(run, words, frame),
    first ? tools : null,
    tall ? first : null,
    make("div", { class: "smalls" }, ...(tall ? rest : [first, ...rest].filter(Boolean))),
    runDetails(run, words, frame)
  ].filter(part => part !== null);
}
