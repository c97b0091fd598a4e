"use strict";
/* The numbers of a payload: reading them, what they have along x, and their mean. */

/**
 * @typedef {object} Line one line of a chart
 * @property {string} key by which the legend hides it
 * @property {string} label
 * @property {ArrayLike<number>} x ascending
 * @property {ArrayLike<number>} y
 * @property {ArrayLike<number>} [low] of the stretch that y is the mean of
 * @property {ArrayLike<number>} [high]
 * @property {(number | null)[]} [errors] standard errors
 * @property {(string | null)[]} [notes] what there is to say about a point
 * @property {string} colour a token
 * @property {number[] | null} [dash]
 * @property {number} [width]
 * @property {"line" | "dots" | "both"} [kind]
 * @property {boolean} [smooth] whether its mean is drawn, with the raw numbers behind it
 * @property {boolean} [unlisted] not in the legend
 */

/** Base64 of little-endian numbers. @param {string} base64 @param {Float32ArrayConstructor | Float64ArrayConstructor} Numbers */
function decode(base64, Numbers) {
  const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  return new Numbers(bytes.buffer);
}

/** Steps: first, distance and count, or each of them. @param {any} steps */
function readSteps(steps) {
  if (steps.each !== undefined) return decode(steps.each, Float64Array);
  return Float64Array.from({ length: steps.count }, (_, i) => steps.first + i * steps.every);
}

/** One series of a run as {x, y, low?, high?}, or null. It is read once. @param {any} run @param {string} name */
function readSeries(run, name) {
  const packed = run.series[name];
  if (!packed) return null;
  if (!packed.read) {
    if (!packed.x && !run.steps.read) run.steps.read = readSteps(run.steps);
    const read = (/** @type {string | undefined} */ text) => (text === undefined ? undefined : decode(text, Float32Array));
    packed.read = { x: packed.x ? readSteps(packed.x) : run.steps.read, y: read(packed.y), low: read(packed.low), high: read(packed.high) };
  }
  return packed.read;
}

/** Columns of rows [x, y, …], without the rows that have no y. @param {any[][]} rows */
function columnsOf(rows, column = 1) {
  const kept = rows.filter((row) => row[column] !== null && row[column] !== undefined);
  return { x: kept.map((row) => row[0]), y: kept.map((row) => row[column]), rows: kept };
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

/** The ways to count along x that a run knows, each with its x of a step. @param {any} run @returns {Record<string, (step: number) => number>} */
function waysOf(run) {
  /** @type {Record<string, (step: number) => number>} */
  const ways = { step: (step) => step };
  if (run.tokens_per_step) ways.tokens = (step) => step * run.tokens_per_step;
  if (run.clock.length > 1) ways.time = (step) => Math.max(0, interpolate(run.clock, step));
  if (run.tokens_per_step && run.epoch_tokens) ways.epochs = (step) => (step * run.tokens_per_step) / run.epoch_tokens;
  return ways;
}

/** The ways that all of these runs know. @param {any[]} runs */
function commonWays(runs) {
  const all = runs.map((run) => Object.keys(waysOf(run)));
  return ["step", "tokens", "time", "epochs"].filter((way) => all.every((ways) => ways.includes(way)));
}

/** The same steps as x, kept with them: charts of a run share their x. @type {WeakMap<object, Map<string, Float64Array>>} */
const alongCache = new WeakMap();

/** @param {any} run @param {string} way @param {ArrayLike<number>} steps */
function along(run, way, steps) {
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
function lowerBound(values, at) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < at) low = middle + 1; else high = middle;
  }
  return low;
}

/**
 * The exponential mean of the points from..to-1, forwards and backwards, so that it does not lag; the weights are
 * divided out, so that it begins and ends without a bias.
 * @param {ArrayLike<number>} x @param {ArrayLike<number>} y @param {number} from @param {number} to @param {number} smoothing
 */
function exponentialMean(x, y, from, to, smoothing) {
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
