// Written by tests/page_types.py from the structs of the server.

export interface Payload {
  language: string;
  runs: RunNumbers[];
  settings: ChosenSetting[];
  concepts: Record<string, string>;
  words: Record<string, Words>;
  languages: Record<string, PageLanguage>;
  versions: Record<string, string>;
  leisure_seconds: number;
  view: string;
}

export interface ListedRun {
  name: string;
  label: string;
  state: string;
  version: string;
  updated: number;
  step: number | null;
  total: number | null;
  loss: number | null;
  val: number | null;
  best: number | null;
  best_step: number | null;
  nan_step: number | null;
  tok_s: number | null;
  eta_seconds: number | null;
  reason: string | null;
  compiled: boolean | null;
  kind: string;
  settings: Record<string, string | number | boolean>;
  spark: (number | null)[];
}

export interface RunNumbers {
  name: string;
  metric: "loss" | "bpb";
  state: "finished" | "stopped" | "failed" | "unfinished";
  evals: ([number, number, number | null, number | null])[];
  best: [number | null, number | null] | null;
  failure: "nan" | "diverged" | null;
  result: number | null;
  broken: number | null;
  clip: number | null;
  rungs: number[];
  uniform: number | null;
  slow: [number, number, string][];
  phases: [string, number][];
  tokens_per_step: number | null;
  epoch_tokens: number | null;
  clock: [number, number][];
  config: [string, string][];
  environment: [string, string][];
  samples: [number, string][];
  steps: PackedSteps | null;
  series: Record<string, PackedSeries>;
  resume: string | null;
  can_sample: boolean;
}

export interface ChosenSetting {
  key: string;
  values: (string | number | boolean | null)[];
}

export interface Words {
  runs: RunWords[];
  lessons: Record<string, Record<string, string>>;
  comparison: ComparisonTexts | null;
}

export interface PageLanguage {
  name: string;
  direction: "ltr" | "rtl";
  labels: Record<string, string>;
}

export interface PackedSteps {
  first: number;
  every: number;
  count: number;
  each: string | null;
}

export interface PackedSeries {
  y: string;
  low: string | null;
  high: string | null;
  x: PackedSteps | null;
}

export interface RunWords {
  source: string;
  tiles: Tile[];
  facts: string;
  rungs: string[];
  evidence: [string, string, string][];
  here: Record<string, string>;
  verdicts: VerdictWords[];
  errors: string[];
  advice: string[];
  sections: [string, string[]][];
  notes: string[];
  slow: string[];
  causes: Record<string, string>;
  phases: string[];
}

export interface ComparisonTexts {
  key: string[];
  leads: string[];
  findings: string[];
  measures: TextTable;
  settings: TextTable;
}

export interface Tile {
  key: string;
  concept: string;
  label: string;
  value: string;
  foot: string[];
  unit: string;
  share: number | null;
  seconds: number | null;
}

export interface VerdictWords {
  tone: "good" | "fair" | "bad";
  title: string;
  text: string;
}

export interface TextTable {
  title: string;
  headers: string[];
  rows: string[][];
}
