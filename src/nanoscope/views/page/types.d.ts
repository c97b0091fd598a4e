// What the scripts use besides each other, for the type checker only. Everything here is global.

/** uPlot, as far as plot.js uses it (the package youplot has no types). */
declare class uPlot {
  constructor(options: object, data: ArrayLike<unknown>[], holder: Element);
}

type Labels = Record<string, string>;
type Payload = import("./payload.d.ts").Payload;
type RunNumbers = import("./payload.d.ts").RunNumbers;
type RunWords = import("./payload.d.ts").RunWords;
type Words = import("./payload.d.ts").Words;
type PageLanguage = import("./payload.d.ts").PageLanguage;
type PackedSteps = import("./payload.d.ts").PackedSteps;
type PackedSeries = import("./payload.d.ts").PackedSeries;
type ListedRun = import("./payload.d.ts").ListedRun;
type ChosenSetting = import("./payload.d.ts").ChosenSetting;
type ComparisonTexts = import("./payload.d.ts").ComparisonTexts;
type View = import("./view.js").View;
type Chart = import("./plot.js").Chart;

interface Options {
  languages: Record<string, PageLanguage>;
  /** elements for the line with the name, at its end */
  actions?: Node[];
  /** where somebody knows better than the log whether it trains: "live", "starting", "stalled", "finished", "stopped", "failed", "gone"; the text says since when */
  stateOf?: (run: RunNumbers) => {state: string, text: string};
  /** everything open */
  onPaper?: boolean;
  /** of the first heading; 1 in the report file */
  level?: number;
}

type IconName = keyof typeof import("./dom.js").ICONS;

type Lesson = Record<string, string>;

type Frame = {level: number, labels: Labels, view: View, stateOf: (run: RunNumbers) => {state: string, text: string}, actions: Node[], onPaper: boolean, concepts: Record<string, string>, lessons: Record<string, Lesson>, brief?: boolean};

type Group = {key: string, label: string, value: string, runs: ListedRun[], folder: boolean, best: number | null, mean: number | null, spread: number | null, failed: number};

type Row = {group: Group} | {run: ListedRun, group?: undefined, scale: [number, number] | null};

interface Spec {
  key: string;
  title: string;
  /** see format.js */
  quantity: string;
  lines: Line[];
  tall?: boolean;
  /** always logarithmic; a loss follows the toolbar */
  log?: boolean;
  /** single spikes do not set the scale */
  robust?: boolean;
  fromZero?: boolean;
  /** px at the right, for labels */
  gutter?: number;
  /** lines across */
  guides?: {y: number, label: string, colour: string}[];
  best?: {x: number, y: number, value: string, label: string} | null;
  /** from here on there is nothing */
  broken?: {x: number, label: string} | null;
  /** lines carry their names at their ends */
  names?: boolean;
  /** key of the highlighted line */
  focus?: string;
  /** x that the arrow keys go to */
  stops?: number[];
  /** instead of lines */
  paint?: (at: Places, pen: Pen) => void;
  /** of a chart with an x of its own */
  xRange?: [number, number];
  yRange?: [number, number];
  xTicks?: number[];
  xLabels?: string[];
  xLog?: boolean;
  /** of a chart that paints itself */
  points?: {x: number, y: number, key: string, text: string}[];
  /** whose steps x counts */
  run?: RunNumbers;
  /** names, for the file that a picture is saved in */
  runs?: string[];
}

interface Pen {
  /** x, y, x, y, … */
  line: (points: ArrayLike<number>, style: {colour: string, width: number, dash?: number[] | null, alpha?: number, clip?: boolean}) => void;
  area: (points: ArrayLike<number>, style: {colour: string, alpha: number}) => void;
  dot: (x: number, y: number, r: number, style: {fill?: string, stroke?: string, width?: number, clip?: boolean}) => void;
  text: (x: number, y: number, text: string, style: {colour: string, align?: string, bold?: boolean, halo?: boolean}) => void;
}

type Box = {left: number, top: number, width: number, height: number};

/** one line of a chart */
interface Line {
  /** by which the legend hides it */
  key: string;
  label: string;
  /** ascending */
  x: ArrayLike<number>;
  y: ArrayLike<number>;
  /** of the stretch that y is the mean of */
  low?: ArrayLike<number>;
  high?: ArrayLike<number>;
  /** standard errors */
  errors?: (number | null)[];
  /** what there is to say about a point */
  notes?: (string | null)[];
  /** a token */
  colour: string;
  dash?: number[] | null;
  width?: number;
  kind?: "line" | "dots" | "both";
  /** whether its mean is drawn, with the raw numbers behind it */
  smooth?: boolean;
  /** not in the legend */
  unlisted?: boolean;
}

interface ViewState {
  /** what the charts have along: "step", "tokens", "time" or "epochs" */
  x: string;
  /** share of the past in the mean, 0 (none) to 0.99 */
  smoothing: number;
  /** whether losses have a logarithmic scale */
  log: boolean;
  /** whether the start of the run is left out */
  start: boolean;
  /** the part of x that is shown, in units of x */
  zoom: [number, number] | null;
  /** keys of series, or names of runs, that the legend hides */
  hidden: string[];
  /** of several runs: the series in the large chart */
  chart: string;
  /** of several runs: the highlighted one */
  focus: string;
  language: string;
  /** null: as the system */
  theme: "light" | "dark" | null;
}

/** a series that several runs can have */
type Series = {key: string, title: string, quantity: string, pick: (run: RunNumbers) => any};

/** where values are drawn, in px */
type Places = {x: (v: number) => number, y: (v: number) => number, box: Box};
