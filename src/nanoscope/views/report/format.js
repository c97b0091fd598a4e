"use strict";
/* Numbers as text: values, and the ticks of axes. Digits are Latin in every language. */

const NOTHING = "–";

/** '{n} min' in the language of the page, by unit and plural form. */
const units = {
  /** @type {Record<string, string>} */
  patterns: {},
  plurals: new Intl.PluralRules("en"),
};

/** @param {string} language @param {Record<string, string>} labels */
function setUnits(language, labels) {
  units.patterns = labels;
  units.plurals = new Intl.PluralRules(language);
}

/** @param {number | null | undefined} value */
function shortNumber(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return NOTHING;
  for (const [size, letter] of /** @type {[number, string][]} */ ([[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e4, "k"]])) {
    const shown = letter === "k" ? value / 1e3 : value / size;
    if (Math.abs(value) >= size) return Number(shown.toPrecision(3)) + letter;
  }
  return String(Number(value.toPrecision(4)));
}

/** @param {number | null | undefined} seconds */
function shortTime(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return NOTHING;
  const sizes = /** @type {[number, string][]} */ ([[86400, "d"], [3600, "h"], [60, "min"], [1, "s"], [1e-3, "ms"]]);
  const [size, unit] = sizes.find(([size]) => Math.abs(seconds) >= size * (size > 1 ? 2 : 1)) || sizes[4];
  const n = Number((seconds / size).toPrecision(3));
  const form = Number.isInteger(n) ? units.plurals.select(n) : "other";
  return (units.patterns[`unit_${unit}_${form}`] || units.patterns[`unit_${unit}_other`] || `{n} ${unit}`).replace("{n}", String(n));
}

/** 20:51 or 1:02:33. @param {number} seconds */
function clockTime(seconds) {
  const whole = Math.round(seconds);
  const parts = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  return parts.slice(parts[0] ? 0 : 1).map((part, i) => (i ? String(part).padStart(2, "0") : part)).join(":");
}

/** 3,412. @param {number} value */
function grouped(value, decimals = 0) {
  const [whole, rest] = value.toFixed(decimals).split(".");
  return whole.replace(/\B(?=(\d{3})+$)/g, ",") + (rest ? `.${rest}` : "");
}

/** A loss that fits into a narrow cell: 1.4421, 123.46, 1.2e10. @param {number} value */
function cellLoss(value) {
  if (Math.abs(value) >= 1e5) return value.toExponential(1).replace("e+", "e");
  return Math.abs(value) >= 100 ? String(Number(value.toPrecision(5))) : value.toFixed(4);
}

/** @param {number} value */
function lossText(value) {
  return Math.abs(value) >= 100 ? shortNumber(value) : value.toFixed(3);
}

/** 0.003, 2048, 1e9. @param {number} value */
function settingText(value) {
  return Math.abs(value) >= 1e6 ? value.toExponential(3).replace(/\.?0*e\+/, "e") : String(Number(value.toPrecision(4)));
}

// --- quantities: how a series is written, and in which unit its axis counts ---

/** @param {string} name of a series */
function quantityOf(name) {
  if (name === "lr") return "rate";
  if (name === "tok_s") return "count";
  if (/_s$/.test(name)) return "time";
  if (/_pct$/.test(name)) return "percent";
  return /loss$/.test(name) ? "loss" : "number";
}

/** @type {Record<string, (value: number) => string>} */
const WRITE = {
  loss: lossText, time: shortTime, count: shortNumber, number: shortNumber,
  percent: (value) => `${shortNumber(value)}%`,
  rate: (value) => (value === 0 || Math.abs(value) >= 1e-3 ? shortNumber(value) : value.toExponential(2).replace(/\.?0*e/, "e")),
};

const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** The unit that the ticks of an axis count in, which stands in the title: no language widens the gutter. @param {string} quantity @param {number} size of typical values @param {Record<string, string>} labels */
function unitOf(quantity, size, labels) {
  const pick = (/** @type {[number, number, string][]} */ choices) => {
    const [, factor, unit] = choices.find(([least]) => size >= least) || choices[choices.length - 1];
    return { factor, unit };
  };
  if (quantity === "time") return pick([[172800, 86400, labels.days], [7200, 3600, labels.hours], [120, 60, labels.minutes], [1, 1, labels.seconds], [0, 1e-3, labels.milliseconds]]);
  if (quantity === "percent") return { factor: 1, unit: "%" };
  if (quantity === "rate" && size > 0 && size < 0.1) {
    const power = Math.floor(Math.log10(size) + 1e-9);
    return { factor: 10 ** power, unit: `10⁻${String(-power).split("").map((digit) => RAISED[Number(digit)]).join("")}` };
  }
  if (quantity === "loss") return { factor: 1, unit: "" };
  return pick([[1e10, 1e9, labels.billions], [1e7, 1e6, labels.millions], [1e4, 1e3, labels.thousands], [0, 1, ""]]);
}

// --- ticks ---

/** Round numbers between two values, at most `most` of them; `whole`: no fractions. @param {number} low @param {number} high @param {number} most */
function linearTicks(low, high, most, whole = false) {
  if (!(high > low)) return [low];
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  let step = ([1, 2, 2.5, 5, 10].find((n) => n * power >= rough * 0.999) || 10) * power;
  if (whole) step = Math.max(1, step % 1 ? Math.ceil(step) : step);
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({ length: Math.max(count, 0) }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

/** 1, 3, 10, 30, …, or powers of ten, or closer numbers; evenly spaced ones where little is shown. @param {number} low @param {number} high @param {number} most */
function logTicks(low, high, most) {
  const of = (/** @type {number[]} */ digits) => {
    const all = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
      for (const n of digits) if (n * 10 ** power >= low * 0.999 && n * 10 ** power <= high * 1.001) all.push(Number((n * 10 ** power).toPrecision(3)));
    }
    return all;
  };
  if (high / low < 4) return linearTicks(low, high, most);
  const found = [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 5, 7]].map(of).find((ticks) => ticks.length > 2);
  if (!found) return linearTicks(low, high, most);
  const every = Math.ceil(found.length / most);
  return found.filter((_, i) => i % every === 0);
}

/** Labels of ticks: as many decimals as their distance needs, the same along an axis, no label twice. @param {number[]} ticks @param {boolean} logarithmic */
function tickLabels(ticks, logarithmic = false) {
  const decimalsOf = (/** @type {number} */ n) => Math.max(0, Math.min(10, -Math.floor(Math.log10(Math.abs(n)) + 1e-9)));
  if (logarithmic && ticks.length > 1 && ticks[ticks.length - 1] / ticks[0] >= 4) return ticks.map((tick) => grouped(tick, tick && tick < 1 ? decimalsOf(tick) : tick % 1 ? 1 : 0));
  const apart = ticks.length > 1 ? Math.min(...ticks.slice(1).map((tick, i) => tick - ticks[i])) : Math.abs(ticks[0] || 1);
  const most = Math.max(...ticks.map(Math.abs), 0);
  const [size, letter] = /** @type {[number, string][]} */ ([[1e9, "B"], [1e6, "M"], [1e3, "k"]]).find(([size]) => most >= size * 100) || [1, ""];
  let decimals = decimalsOf(apart / size);
  while (decimals < 10 && Math.abs(Math.round((apart / size) * 10 ** decimals) - (apart / size) * 10 ** decimals) > 1e-6) decimals += 1; // 2.5
  return ticks.map((tick) => grouped(tick / size, decimals) + (tick ? letter : ""));
}
