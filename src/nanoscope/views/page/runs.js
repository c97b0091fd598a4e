/* The runs as data: what the server lists, filtered, sorted and grouped. Nothing here touches the page. */

import { make } from "./dom.js";

/** States in the order of their chips. */
export const CHIPS = /** @type {const} */ ({
  all: null,
  live: ["live", "starting", "stalled"],
  finished: ["finished"],
  stopped: ["stopped"],
  failed: ["failed", "unreadable"],
  log: ["log"],
  hidden: null
});
export const FEWEST_CHIPS = 2;

/** Words of a search: each must be part of the name or, as name=value, a setting. @param {string} text @returns {(run: ListedRun) => boolean} */
function searchFor(text) {
  const tests = text
    .trim()
    .toLowerCase()
    .split(/\s+/)
    .filter(Boolean)
    .map(word => {
      const [, name, sign, wanted] = /^([\w.]+)(=|<|>)(.+)$/.exec(word) || [];
      if (!name) return (/** @type {ListedRun} */ run) => run.label.toLowerCase().includes(word) || run.state === word;
      return (/** @type {ListedRun} */ run) => {
        const key = Object.keys(run.settings).find(each => each.toLowerCase() === name);
        if (key === undefined) return false;
        const value = run.settings[key];
        if (sign !== "=")
          return typeof value === "number" && (sign === "<" ? value < Number(wanted) : value > Number(wanted));
        return String(value).toLowerCase() === wanted || (typeof value === "number" && value === Number(wanted));
      };
    });
  return run => tests.every(test => test(run));
}

/** The loss that a run is ranked by, if it has one. @param {ListedRun} run */
function rankedLoss(run) {
  return run.nan_step !== null && run.state === "failed" ? null : run.best;
}

/** What a column is sorted by; losses of each kind by themselves, the most frequent kind first. @param {string} column @param {ListedRun[]} runs @returns {(run: ListedRun) => any} */
export function sortKey(column, runs) {
  if (column === "name") return run => run.label;
  if (column === "best") {
    /** @type {Record<string, number>} */
    const counts = {};
    for (const run of runs) if (rankedLoss(run) !== null) counts[run.kind] = (counts[run.kind] || 0) + 1;
    const kinds = Object.keys(counts).sort((a, b) => counts[b] - counts[a]);
    return run => {
      const loss = rankedLoss(run);
      return loss === null ? [Infinity, Infinity] : [kinds.indexOf(run.kind), loss];
    };
  }
  if (column === "best_step" || column === "tok_s" || column === "step") return run => run[column] ?? -1;
  if (column.startsWith("setting ")) {
    const name = column.slice(8);
    return run => run.settings[name] ?? "";
  }
  return run => [isLive(run) ? 1 : 0, run.updated];
}

/** @param {any} a @param {any} b @returns {number} */
export function compareValues(a, b) {
  if (Array.isArray(a)) return compareValues(a[0], b[0]) || compareValues(a[1], b[1]);
  if (typeof a === "number" && typeof b === "number") return a === b ? 0 : a < b ? -1 : 1;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

/** @param {ListedRun} run */
export function isLive(run) {
  return run.state === "live" || run.state === "starting" || run.state === "stalled";
}

/** The run with the lowest loss of each kind that several have. @param {ListedRun[]} runs @returns {Set<string>} */
export function leadingRuns(runs) {
  const key = sortKey("best", runs);
  const ordered = runs
    .filter(run => rankedLoss(run) !== null && run.state !== "failed")
    .sort((a, b) => compareValues(key(a), key(b)));
  return new Set(
    ordered
      .filter((run, i) => run.kind !== ordered[i - 1]?.kind && run.kind === ordered[i + 1]?.kind)
      .map(({ name }) => name)
  );
}

/** Whether runs differ by nothing but the seed, so that their mean says something. @param {ListedRun[]} runs */
function areRepeats(runs) {
  const settingsOf = (/** @type {ListedRun} */ run) =>
    run.kind +
    JSON.stringify(
      Object.entries(run.settings)
        .filter(([name]) => name !== "seed")
        .sort()
    );
  return runs.every(run => settingsOf(run) === settingsOf(runs[0]));
}

/** The best losses of a group: mean and spread of repeats, else the lowest. @param {ListedRun[]} runs */
function statistics(runs) {
  const broken = runs.filter(run => run.state === "failed");
  const values = runs.filter(run => run.best !== null && run.state !== "failed").map(run => Number(run.best));
  const alike = runs.every(run => run.kind === runs[0].kind);
  if (!areRepeats(runs))
    return {
      best: values.length && alike ? Math.min(...values) : null,
      mean: null,
      spread: null,
      failed: broken.length
    };
  const mean = values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
  const spread =
    mean !== null && values.length > 1
      ? Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1))
      : null;
  return { best: null, mean, spread, failed: broken.length };
}

const DIVERGED = 2; // times the usual first loss: higher ones leave the sparkline

/** The lowest and the highest loss that sparklines of these runs show: a run that diverged does not flatten the others. @param {ListedRun[]} runs @returns {[number, number] | null} */
function commonScale(runs) {
  const known = runs.map(({ spark }) => spark.filter(value => value !== null)).filter(values => values.length);
  if (!known.length) return null;
  const firsts = known.map(values => Number(values[0])).sort((a, b) => a - b);
  const limit = DIVERGED * Math.abs(firsts[firsts.length >> 1]) || Infinity;
  let [low, high] = [Infinity, -Infinity];
  for (const values of known) {
    for (const value of values) {
      low = Math.min(low, Number(value));
      high = Math.max(high, Math.min(Number(value), limit));
    }
  }
  return high > low ? [low, high] : null;
}

/**
 * The rows of the table.
 * @param {ListedRun[]} runs @param {{search: string, chip: string, sort: string, down: boolean, group: string, closed: Set<string>, hidden: Set<string>}} choice
 * @returns {{rows: Row[], shown: ListedRun[], counts: Record<string, number>}}
 */
export function tableRows(runs, { search, chip, sort, down, group, closed, hidden }) {
  const matches = searchFor(search);
  /** @type {Record<string, number>} */
  const counts = {};
  const found = runs.filter(run => {
    if (!matches(run)) return false;
    for (const name of Object.keys(CHIPS)) if (inChip(run, name, hidden)) counts[name] = (counts[name] || 0) + 1;
    return inChip(run, chip, hidden);
  });
  const key = sortKey(sort, found);
  const way = down ? -1 : 1;
  const ordered = found
    .map(run => ({ run, key: key(run) }))
    .sort((a, b) => way * compareValues(a.key, b.key) || compareValues(a.run.label, b.run.label))
    .map(({ run }) => run);
  if (group === "none") {
    const scale = commonScale(ordered);
    return { rows: ordered.map(run => ({ run, scale })), shown: ordered, counts };
  }
  /** @type {Map<string, Group>} */
  const groups = new Map();
  for (const run of ordered) {
    const [label, value] = groupOf(run, group);
    const id = `${label}\n${value}`;
    const known = groups.get(id) || {
      key: id,
      label,
      value,
      runs: [],
      folder: group === "folder",
      best: null,
      mean: null,
      spread: null,
      failed: 0
    };
    known.runs.push(run);
    groups.set(id, known);
  }
  /** @type {Row[]} */
  const rows = [];
  const shown = [];
  const alone = [...groups.values()].filter(each => each.folder && !each.value); // runs in the folder itself have no heading
  for (const each of [...alone, ...[...groups.values()].filter(other => !alone.includes(other))]) {
    Object.assign(each, statistics(each.runs));
    const scale = commonScale(each.runs);
    if (!alone.includes(each)) rows.push({ group: each });
    if (alone.includes(each) || !closed.has(each.key)) rows.push(...each.runs.map(run => ({ run, scale })));
    shown.push(...each.runs);
  }
  return { rows, shown, counts };
}

/** @param {ListedRun} run @param {string} chip @param {Set<string>} hidden */
function inChip(run, chip, hidden) {
  if (hidden.has(run.name) !== (chip === "hidden")) return false;
  const states = CHIPS[/** @type {keyof typeof CHIPS} */ (chip)];
  return !states || states.some(state => state === run.state);
}

/** @param {ListedRun} run @param {string} group "folder" or a setting @returns {[string, string]} */
function groupOf(run, group) {
  if (group === "folder") return ["", run.state === "log" ? "" : run.label.slice(0, run.label.lastIndexOf("/") + 1)];
  const value = run.settings[group];
  return [group, value === undefined ? "–" : String(value)];
}

/** The folder that all these runs are in. @param {ListedRun[]} runs */
export function commonFolder(runs) {
  const folders = new Set(runs.map(run => run.label.slice(0, run.label.lastIndexOf("/") + 1)));
  return folders.size === 1 ? [...folders][0] : "";
}

/** The run's name without the folder that heads its group, or that all have in common. @param {ListedRun} run @param {string} group @param {string} prefix */
export function nameIn(run, group, prefix) {
  const name =
    group === "folder" && run.state !== "log"
      ? run.label.slice(run.label.lastIndexOf("/") + 1)
      : run.label.slice(prefix.length);
  const cut = run.state === "log" ? 0 : name.lastIndexOf("/") + 1;
  return make(
    "bdi",
    { dir: "auto", class: "run-path" },
    cut ? make("span", { class: "in-folder" }, name.slice(0, cut)) : null,
    make("span", {}, name.slice(cut))
  );
}
