/* The page of several runs: one chart of any series over all of them, what compare says, settings against results. */

import { runColour, runLines } from "./view.js";
import { folded, icon, list, make, PHONE, runDot } from "./dom.js";
import { along, cellLoss, columnsOf, commonWays, quantityOf, readSeries, settingText } from "./numbers.js";
import { drawAll, fitting, ink } from "./plot.js";
import { copyButton, figure, segment, tableCard } from "./figure.js";
import { seriesGroups, seriesTitle, showRun } from "./run.js";

const NAMES_GUTTER = 138;

/** The series that at least one run has, as tabs. @param {RunNumbers[]} runs @param {Labels} labels @returns {Series[]} */
function overlaySeries(runs, labels) {
  /** @type {Series[]} */
  const choices = [
    {
      key: "val",
      title: labels.val_short,
      quantity: "loss",
      pick: run => (run.metric === "loss" && run.evals.length ? columnsOf(run.evals) : null)
    },
    {
      key: "bpb",
      title: labels.bpb,
      quantity: "loss",
      pick: run => (run.metric === "bpb" && run.evals.length ? columnsOf(run.evals) : null)
    },
    {
      key: "loss",
      title: labels.train_short,
      quantity: "loss",
      pick: run => readSeries(run, "loss")
    },
    {
      key: "time_s",
      title: labels.time_s,
      quantity: "time",
      pick: run => readSeries(run, "time_s")
    }
  ];
  const names = [...new Set(runs.flatMap(run => Object.keys(run.series)))];
  for (const group of seriesGroups(names, labels)) {
    for (const name of group.names) {
      const title = group.names.length > 1 ? `${group.title}: ${seriesTitle(name, labels).short}` : group.title;
      choices.push({
        key: name,
        title,
        quantity: quantityOf(name),
        pick: run => readSeries(run, name)
      });
    }
  }
  return choices.filter(({ pick }) =>
    runs.some(run => {
      const found = pick(run);
      return found && found.y.length;
    })
  );
}

/** @param {RunNumbers[]} runs @param {Frame} frame */
function overlayFigure(runs, { labels, view, level }) {
  const choices = overlaySeries(runs, labels);
  if (!choices.length) return null;
  const chosen = choices.find(({ key }) => key === view.state.chart) || choices[0];
  const ways = commonWays(runs);
  const way = ways.includes(view.state.x) ? view.state.x : "step";
  const styles = runLines(runs.map(run => run.name));
  const lines = runs
    .map(run => {
      const found = chosen.pick(run);
      if (!found || !found.y.length) return null;
      const sparse = chosen.key === "val" || chosen.key === "bpb";
      return {
        ...found,
        x: along(run, way, found.x),
        key: run.name,
        label: run.name,
        ...styles.get(run.name),
        width: 1.75,
        smooth: !sparse && chosen.key !== "lr",
        kind: sparse ? "both" : undefined,
        errors: sparse && runs.length <= 4 ? found.rows.map((/** @type {any[]} */ row) => row[2]) : undefined,
        rows: undefined
      };
    })
    .filter(line => line !== null);
  const tabs = segment(
    labels.overlay,
    "chart",
    choices.map(({ key, title }) => [key, title]),
    () => chosen.key,
    key => view.set({ chart: key })
  );
  tabs.classList.add("tabs");
  const phone = innerWidth < PHONE;
  const spec = {
    key: "overlay",
    title: labels.overlay,
    quantity: chosen.quantity,
    tall: true,
    robust: true,
    names: !phone,
    gutter: phone ? 12 : NAMES_GUTTER,
    lines: /** @type {Line[]} */ (lines),
    focus: view.state.focus || bestOf(runs),
    runs: [chosen.key],
    log: false,
    fromZero: chosen.quantity === "time" || chosen.quantity === "percent"
  };
  const whole = figure(spec, view, labels, level + 1, { head: tabs });
  whole.classList.add("overlay");
  whole.figure.shape = `overlay ${chosen.key} ${way}`;
  return whole;
}

/** The name of the run with the lowest loss; none if they cannot be ranked. @param {RunNumbers[]} runs */
function bestOf(runs) {
  const ranked = runs.filter(run => run.result !== null).sort((a, b) => Number(a.result) - Number(b.result));
  return ranked.length > 1 && new Set(ranked.map(run => run.metric)).size === 1 ? ranked[0].name : "";
}

// --- settings against results ---

/** @param {unknown[]} values */
function isRate(values) {
  const numbers = values.filter(value => typeof value === "number");
  return (
    numbers.length === values.length && numbers.every(n => n > 0) && Math.max(...numbers) / Math.min(...numbers) >= 5
  );
}

/** One chart for each setting that differs: every run a dot, the mean of equal values with its spread. @param {Payload} payload @param {Frame} frame */
function settingFigures(payload, { labels, view, level }) {
  const { runs } = payload;
  const results = runs.map(run => run.result);
  const finite = results.filter(result => result !== null);
  if (finite.length < 3) return []; // two runs are told apart by the table
  const [low, high] = [Math.min(...finite), Math.max(...finite)];
  const margin = (high - low) * 0.15 || 0.1;
  return payload.settings
    .map(({ key, values }) => {
      const known = values
        .map((value, i) => ({
          value,
          result: results[i],
          failure: runs[i].failure,
          name: runs[i].name
        }))
        .filter(({ value, result, failure }) => value !== null && (result !== null || failure));
      const distinct = [...new Set(known.map(({ value }) => value))];
      if (distinct.length < 2 || distinct.length > 24) return null;
      const numeric = distinct.every(value => typeof value === "number");
      distinct.sort((a, b) =>
        typeof a === "number" && typeof b === "number"
          ? a - b
          : typeof a === "number"
            ? -1
            : typeof b === "number"
              ? 1
              : String(a).localeCompare(String(b), "en", { numeric: true })
      );
      const log = numeric && isRate(distinct);
      const place = (/** @type {any} */ value) => (numeric ? Number(value) : distinct.indexOf(value));
      const ends = [place(distinct[0]), place(distinct[distinct.length - 1])];
      const range = /** @type {[number, number]} */ (
        log
          ? [ends[0] / (ends[1] / ends[0]) ** 0.12, ends[1] * (ends[1] / ends[0]) ** 0.12]
          : [ends[0] - (ends[1] - ends[0]) * 0.12, ends[1] + (ends[1] - ends[0]) * 0.12]
      );
      // Means say something about this setting if the others take the same values with each of its own.
      const others = payload.settings.filter(other => other.key !== key);
      const besides = (/** @type {any} */ value) =>
        values
          .flatMap((own, i) => (own === value ? [JSON.stringify(others.map(other => other.values[i]))] : []))
          .sort()
          .join();
      const fair = distinct.every(value => besides(value) === besides(distinct[0]));
      const groups = distinct.map(value => {
        const members = known.filter(each => each.value === value);
        const numbers = members.map(({ result }) => result).filter(result => result !== null);
        const mean = numbers.reduce((sum, n) => sum + n, 0) / numbers.length;
        const spread =
          numbers.length > 1
            ? Math.sqrt(numbers.reduce((sum, n) => sum + (n - mean) ** 2, 0) / (numbers.length - 1))
            : 0;
        return { x: place(value), members, mean: numbers.length ? mean : null, spread };
      });
      const spec = {
        key: `setting ${key}`,
        title: key,
        quantity: "loss",
        lines: [],
        xRange: range,
        yRange: /** @type {[number, number]} */ ([low - margin, high + margin]),
        xLog: log,
        xTicks: distinct.map(place),
        xLabels: distinct.map(value => (typeof value === "number" ? settingText(value) : fitting(String(value), 90))),
        runs: [key],
        points: known.map(({ value, result, failure, name }) => ({
          x: place(value),
          y: result === null ? NaN : result,
          key: name,
          text: result === null ? labels[`failure_${failure}`] : cellLoss(result)
        })),
        paint: (/** @type {any} */ at, /** @type {Pen} */ pen) =>
          paintSetting(groups, at, pen, view, bestOf(runs), fair, labels)
      };
      const whole = figure(spec, view, labels, level + 1, {
        head: make(
          "span",
          { class: "faint" },
          `${document.documentElement.dir === "rtl" ? "←" : "→"} ${labels.best_val}`
        )
      });
      whole.classList.add("setting");
      whole
        .querySelector(".plot")
        .setAttribute(
          "aria-label",
          groups
            .map(
              ({ mean, members }) =>
                `${key} ${members[0].value}: ${mean === null ? labels[`failure_${members[0].failure}`] : cellLoss(mean)}`
            )
            .join(labels.separator)
        );
      return whole;
    })
    .filter(each => each !== null);
}

/** @param {{x: number, members: any[], mean: number | null, spread: number}[]} groups @param {any} at @param {Pen} pen @param {View} view @param {string} best @param {boolean} fair whether means are drawn @param {Labels} labels */
function paintSetting(groups, at, pen, view, best, fair, labels) {
  const hidden = view.state.hidden;
  const means = groups.flatMap(({ x, mean }) => (mean === null ? [] : [at.x(x), at.y(mean)]));
  if (fair && means.length > 2) pen.line(means, { colour: ink("ghost"), width: 1.25 });
  for (const { x, members, mean, spread } of groups) {
    const left = at.x(x);
    if (fair && mean !== null && members.length > 1) {
      pen.line([left - 14, at.y(mean), left - 6, at.y(mean)], { colour: ink("ink"), width: 2 });
      if (spread)
        pen.line([left - 10, at.y(mean - spread), left - 10, at.y(mean + spread)], { colour: ink("ink"), width: 1.5 });
    }
    members.forEach(({ result, failure, name }, i) => {
      const across = left + Math.min(i * 3, 12);
      if (result === null) {
        const top = at.box.top + 6;
        const marks =
          failure === "nan"
            ? [
                [across - 4, top - 4, across + 4, top + 4],
                [across - 4, top + 4, across + 4, top - 4]
              ]
            : [[across - 4, top + 3, across, top - 4, across + 4, top + 3]];
        for (const mark of marks) pen.line(mark, { colour: ink("bad"), width: 2, clip: false });
        const isRight = across > at.box.left + at.box.width - 64;
        pen.text(across + (isRight ? -8 : 8), top, labels[`failure_${failure}`], {
          colour: ink("bad"),
          align: isRight ? "right" : "left"
        });
      } else if (hidden.includes(name)) pen.dot(across, at.y(result), 3.25, { stroke: ink("control"), width: 1.25 });
      else
        pen.dot(across, at.y(result), name === (view.state.focus || best) ? 5.5 : 4, {
          fill: ink(runColour(name)),
          stroke: ink("surface"),
          width: 1
        });
    });
  }
}

// --- everything ---

/** @param {Payload} payload @param {ComparisonTexts} comparison @param {Words} words @param {Frame} frame @param {Node | null} tools */
export function showComparison(payload, comparison, words, frame, tools) {
  const { labels, level, view } = frame;
  const { runs } = payload;
  const names = runs.map(run => run.name);
  const title = names.slice(0, 3).join(", ") + (names.length > 3 ? ", …" : "");
  const actions = [...frame.actions];
  if (payload.settings.length)
    actions.unshift(
      copyButton(labels.differences, labels.copied, () => settingsText(payload), { id: "copy-settings" })
    );
  const head = make(
    "div",
    { class: "name-line" },
    make(`h${level}`, { class: "run-name" }, make("bdi", { dir: "auto" }, title)),
    make("span", { class: "facts" }, labels.count_runs.replace("{n}", String(names.length))),
    make("div", { class: "actions" }, ...actions)
  );
  const { leads, findings } = comparison;
  const [lead, ...more] = [leads[0], ...findings, ...leads.slice(1)].filter(Boolean);
  const verdict = lead
    ? make(
        "section",
        { class: "card verdicts", "data-key": "verdicts", "aria-label": labels.verdict },
        make(
          "div",
          { class: "verdict" },
          make("p", {}, make("strong", {}, lead), ...(more.length ? [" ", more[0]] : []))
        ),
        more.length > 1
          ? folded(
              make("span", { class: "why" }, labels.why, " ", icon("more")),
              into => into.append(list(more.slice(1))),
              { class: "evidence-part", "data-key": "why" },
              frame.onPaper
            )
          : null
      )
    : null;
  const settings = settingFigures(payload, frame);
  const parts = [
    head,
    verdict,
    tools,
    overlayFigure(runs, frame),
    settings.length ? make("div", { class: "smalls settings" }, ...settings) : null
  ];
  parts.push(
    make(
      "div",
      { class: "details" },
      tableCard(level + 1, comparison.measures, "side-by-side"),
      comparison.settings.rows.length ? tableCard(level + 1, comparison.settings, "settings") : null
    )
  );
  parts.push(
    make(
      "section",
      { class: "each" },
      make(`h${level + 1}`, {}, labels.runs),
      ...runs.map((run, i) => {
        const summary = make(
          "span",
          { class: "run-summary" },
          runDot(run.name),
          make("bdi", { dir: "auto" }, run.name)
        );
        return folded(
          summary,
          into => {
            const inner = make(
              "div",
              { "data-charts": "", class: "page" },
              ...showRun(run, words.runs[i], { ...frame, level: level + 2, actions: [], brief: true }, null)
            );
            into.append(inner);
            if (into.isConnected) drawAll(into);
          },
          { class: "run card", "data-key": run.name },
          Boolean(frame.onPaper)
        );
      })
    )
  );
  if (view.state.focus && !names.includes(view.state.focus)) view.state.focus = "";
  return parts.filter(part => part !== null);
}

/** The settings that differ, as text to paste. @param {Payload} payload */
function settingsText(payload) {
  const names = payload.runs.map(run => run.name);
  return (
    [["", ...names], ...payload.settings.map(({ key, values }) => [key, ...values.map(value => value ?? "")])]
      .map(row => row.join("\t"))
      .join("\n") + "\n"
  );
}
