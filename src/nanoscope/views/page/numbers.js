/* Numbers as text: values, and the ticks of axes. Digits are Latin in every language. */

export const NOTHING = "–";

/** '{n} min' in the language of the page, by unit and plural form. */
const units = {
  /** @type {Record<string, string>} */
  patterns: {},
  plurals: new Intl.PluralRules("en")
};

/** @param {string} language @param {Labels} labels */
export function setUnits(language, labels) {
  units.patterns = labels;
  units.plurals = new Intl.PluralRules(language);
}

/** @param {number | null | undefined} value */
export function shortNumber(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return NOTHING;
  for (const [size, letter] of /** @type {[number, string][]} */ ([
    [1e12, "T"],
    [1e9, "B"],
    [1e6, "M"],
    [1e4, "k"]
  ])) {
    const shown = letter === "k" ? value / 1e3 : value / size;
    if (Math.abs(value) >= size) return Number(shown.toPrecision(3)) + letter;
  }
  return String(Number(value.toPrecision(4)));
}

/** @param {number | null | undefined} seconds */
export function shortTime(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return NOTHING;
  const sizes = /** @type {[number, string][]} */ ([
    [86400, "d"],
    [3600, "h"],
    [60, "min"],
    [1, "s"],
    [1e-3, "ms"]
  ]);
  const [size, unit] = sizes.find(([size]) => Math.abs(seconds) >= size * (size > 1 ? 2 : 1)) || sizes[4];
  const n = Number((seconds / size).toPrecision(3));
  const form = Number.isInteger(n) ? units.plurals.select(n) : "other";
  return (units.patterns[`unit_${unit}_${form}`] || units.patterns[`unit_${unit}_other`] || `{n} ${unit}`).replace(
    "{n}",
    String(n)
  );
}

/** 20:51 or 1:02:33. @param {number} seconds */
export function clockTime(seconds) {
  const whole = Math.round(seconds);
  const parts = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  return parts
    .slice(parts[0] ? 0 : 1)
    .map((part, i) => (i ? String(part).padStart(2, "0") : part))
    .join(":");
}

/** 3,412. @param {number} value */
export function grouped(value, decimals = 0) {
  const [whole, rest] = value.toFixed(decimals).split(".");
  return whole.replace(/\B(?=(\d{3})+$)/g, ",") + (rest ? `.${rest}` : "");
}

/** A loss that fits into a narrow cell: 1.4421, 123.46, 1.2e10. @param {number} value */
export function cellLoss(value) {
  if (Math.abs(value) >= 1e5) return value.toExponential(1).replace("e+", "e");
  return Math.abs(value) >= 100 ? String(Number(value.toPrecision(5))) : value.toFixed(4);
}

/** @param {number} value */
export function lossText(value) {
  return Math.abs(value) >= 100 ? shortNumber(value) : value.toFixed(3);
}

/** 0.003, 2048, 1e9. @param {number} value */
export function settingText(value) {
  return Math.abs(value) >= 1e6
    ? value.toExponential(3).replace(/\.?0*e\+/, "e")
    : String(Number(value.toPrecision(4)));
}

// --- quantities: how a series is written, and in which unit its axis counts ---

/** @param {string} name of a series */
export function quantityOf(name) {
  if (name === "lr") return "rate";
  if (name === "tok_s") return "count";
  if (/_s$/.test(name)) return "time";
  if (/_pct$/.test(name)) return "percent";
  return /loss$/.test(name) ? "loss" : "number";
}

/** @type {Record<string, (value: number) => string>} */
export const WRITE = {
  loss: lossText,
  time: shortTime,
  count: shortNumber,
  number: shortNumber,
  percent: value => `${shortNumber(value)}%`,
  rate: value =>
    value === 0 || Math.abs(value) >= 1e-3 ? shortNumber(value) : value.toExponential(2).replace(/\.?0*e/, "e")
};

const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** The unit that the ticks of an axis count in, which stands in the title: no language widens the gutter. @param {string} quantity @param {number} size of typical values @param {Labels} labels */
export function unitOf(quantity, size, labels) {
  const pick = (/** @type {[number, number, string][]} */ choices) => {
    const [, factor, unit] = choices.find(([least]) => size >= least) || choices[choices.length - 1];
    return { factor, unit };
  };
  if (quantity === "time")
    return pick([
      [172800, 86400, labels.days],
      [7200, 3600, labels.hours],
      [120, 60, labels.minutes],
      [1, 1, labels.seconds],
      [0, 1e-3, labels.milliseconds]
    ]);
  if (quantity === "percent") return { factor: 1, unit: "%" };
  if (quantity === "rate" && size > 0 && size < 0.1) {
    const power = Math.floor(Math.log10(size) + 1e-9);
    return {
      factor: 10 ** power,
      unit: `10⁻${String(-power)
        .split("")
        .map(digit => RAISED[Number(digit)])
        .join("")}`
    };
  }
  if (quantity === "loss") return { factor: 1, unit: "" };
  return pick([
    [1e10, 1e9, labels.billions],
    [1e7, 1e6, labels.millions],
    [1e4, 1e3, labels.thousands],
    [0, 1, ""]
  ]);
}

// --- ticks ---

/** Round numbers between two values, at most `most` of them; `whole`: no fractions. @param {number} low @param {number} high @param {number} most */
export function linearTicks(low, high, most, whole = false) {
  if (!(high > low)) return [low];
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  let step = ([1, 2, 2.5, 5, 10].find(n => n * power >= rough * 0.999) || 10) * power;
  if (whole) step = Math.max(1, step % 1 ? Math.ceil(step) : step);
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({ length: Math.max(count, 0) }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

/** 1, 3, 10, 30, …, or powers of ten, or closer numbers; evenly spaced ones where little is shown. @param {number} low @param {number} high @param {number} most */
export function logTicks(low, high, most) {
  const of = (/** @type {number[]} */ digits) => {
    const all = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
      for (const n of digits)
        if (n * 10 ** power >= low * 0.999 && n * 10 ** power <= high * 1.001)
          all.push(Number((n * 10 ** power).toPrecision(3)));
    }
    return all;
  };
  if (high / low < 4) return linearTicks(low, high, most);
  const found = [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 5, 7]].map(of).find(ticks => ticks.length > 2);
  if (!found) return linearTicks(low, high, most);
  const every = Math.ceil(found.length / most);
  return found.filter((_, i) => i % every === 0);
}

/** Labels of ticks: as many decimals as their distance needs, the same along an axis, no label twice. @param {number[]} ticks @param {boolean} logarithmic */
export function tickLabels(ticks, logarithmic = false) {
  const decimalsOf = (/** @type {number} */ n) =>
    Math.max(0, Math.min(10, -Math.floor(Math.log10(Math.abs(n)) + 1e-9)));
  if (logarithmic && ticks.length > 1 && ticks[ticks.length - 1] / ticks[0] >= 4)
    return ticks.map(tick => grouped(tick, tick && tick < 1 ? decimalsOf(tick) : tick % 1 ? 1 : 0));
  const apart =
    ticks.length > 1 ? Math.min(...ticks.slice(1).map((tick, i) => tick - ticks[i])) : Math.abs(ticks[0] || 1);
  const most = Math.max(...ticks.map(Math.abs), 0);
  const [size, letter] = /** @type {[number, string][]} */ ([
    [1e9, "B"],
    [1e6, "M"],
    [1e3, "k"]
  ]).find(([size]) => most >= size * 100) || [1, ""];
  let decimals = decimalsOf(apart / size);
  while (
    decimals < 10 &&
    Math.abs(Math.round((apart / size) * 10 ** decimals) - (apart / size) * 10 ** decimals) > 1e-6
  )
    decimals += 1; // 2.5
  return ticks.map(tick => grouped(tick / size, decimals) + (tick ? letter : ""));
}

/* The numbers of a payload: reading them, what they have along x, and their mean. */

/** Base64 of little-endian numbers. @param {string} base64 @param {Float32ArrayConstructor | Float64ArrayConstructor} Numbers */
function decode(base64, Numbers) {
  const bytes = Uint8Array.from(atob(base64), c => c.charCodeAt(0));
  return new Numbers(bytes.buffer);
}

/** Steps: first, distance and count, or each of them. @param {PackedSteps} steps */
function readSteps(steps) {
  if (steps.each !== null) return decode(steps.each, Float64Array);
  return Float64Array.from({ length: steps.count }, (_, i) => steps.first + i * steps.every);
}

/** What was decoded. @type {WeakMap<object, any>} */
const decoded = new WeakMap();

/** @template {object} P @template V @param {P} packed @param {(packed: P) => V} read @returns {V} */
function readOnce(packed, read) {
  if (!decoded.has(packed)) decoded.set(packed, read(packed));
  return decoded.get(packed);
}

/** One series of a run, or null. @param {RunNumbers} run @param {string} name */
export function readSeries(run, name) {
  const packed = run.series[name];
  const steps = packed && (packed.x || run.steps);
  if (!steps) return null;
  const x = readOnce(steps, readSteps);
  return readOnce(packed, ({ y, low, high }) => ({
    x,
    y: decode(y, Float32Array),
    low: low ? decode(low, Float32Array) : undefined,
    high: high ? decode(high, Float32Array) : undefined
  }));
}

/** Columns of rows [x, y, …], without the rows that have no y. @param {any[][]} rows */
export function columnsOf(rows, column = 1) {
  const kept = rows.filter(row => row[column] !== null && row[column] !== undefined);
  return { x: kept.map(row => row[0]), y: kept.map(row => row[column]), rows: kept };
}

// --- what is along x ---

/** y at x between the points around it, extended beyond the ends. @param {[number, number][]} points @param {number} x */
function interpolate(points, x) {
  let after = points.findIndex(([px]) => px >= x);
  if (after < 0) after = points.length - 1;
  const [x1, y1] = points[Math.max(after, 1)];
  const [x0, y0] = points[Math.max(after, 1) - 1];
  return x1 === x0 ? y1 : y0 + ((y1 - y0) * (x - x0)) / (x1 - x0);
}

/** The ways to count along x that a run knows, each with its x of a step. @param {RunNumbers} run @returns {Record<string, (step: number) => number>} */
export function waysOf(run) {
  /** @type {Record<string, (step: number) => number>} */
  const ways = { step: step => step };
  const { tokens_per_step: tokens, epoch_tokens: epoch } = run;
  if (tokens) ways.tokens = step => step * tokens;
  if (run.clock.length > 1) ways.time = step => Math.max(0, interpolate(run.clock, step));
  if (tokens && epoch) ways.epochs = step => (step * tokens) / epoch;
  return ways;
}

/** The ways that all of these runs know. @param {RunNumbers[]} runs */
export function commonWays(runs) {
  const all = runs.map(run => Object.keys(waysOf(run)));
  return ["step", "tokens", "time", "epochs"].filter(way => all.every(ways => ways.includes(way)));
}

/** The same steps as x, kept with them: charts of a run share their x. @type {WeakMap<object, Map<string, Float64Array>>} */
const alongCache = new WeakMap();

/** @param {RunNumbers} run @param {string} way @param {ArrayLike<number>} steps */
export function along(run, way, steps) {
  if (way === "step") return steps;
  const key = /** @type {object} */ (steps);
  if (!alongCache.has(key)) alongCache.set(key, new Map());
  const known = /** @type {Map<string, Float64Array>} */ (alongCache.get(key));
  if (!known.has(way)) {
    const turn = waysOf(run)[way] || waysOf(run).step;
    known.set(way, Float64Array.from(steps, turn));
  }
  return /** @type {Float64Array} */ (known.get(way));
}

// --- the mean ---

const MEAN_UNITS = 400; // the mean forgets by the distance along x, in parts of what is shown

/** The index of the first value that is not below `at`. @param {ArrayLike<number>} values @param {number} at */
export function lowerBound(values, at) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * The exponential mean of the points from..to-1, forwards and backwards, so that it does not lag; the weights are
 * divided out, so that it begins and ends without a bias.
 * @param {ArrayLike<number>} x @param {ArrayLike<number>} y @param {number} from @param {number} to @param {number} smoothing
 */
export function exponentialMean(x, y, from, to, smoothing) {
  const count = to - from;
  const mean = new Float32Array(Math.max(count, 0));
  if (count < 1) return mean;
  const weights = new Float32Array(count);
  const unit = (x[to - 1] - x[from]) / MEAN_UNITS || 1;
  const rate = Math.log(Math.max(smoothing, 1e-6)) / unit;
  let sum = 0;
  let weight = 0;
  for (let i = 0; i < count; i += 1) {
    const keep = i ? Math.exp(rate * (x[from + i] - x[from + i - 1])) : 0;
    sum = sum * keep + y[from + i];
    weight = weight * keep + 1;
    mean[i] = sum;
    weights[i] = weight;
  }
  sum = weight = 0;
  for (let i = count - 1; i >= 0; i -= 1) {
    const value = y[from + i];
    const keep = i < count - 1 ? Math.exp(rate * (x[from + i + 1] - x[from + i])) : 0;
    sum = sum * keep + value;
    weight = weight * keep + 1;
    mean[i] = (mean[i] + sum - value) / (weights[i] + weight - 1); // the point itself is in both
  }
  return mean;
}
