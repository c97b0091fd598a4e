"""The tools that diagnosis.py compares: how each is called, and what it calls the problems it finds."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nanoscope.version import __version__

PATIENCE_S = 60

# What each tool calls the problems. None: no problem, or nothing that could be right or wrong.
NANOSCOPE = {
    "improving": "improving", "too_short": None, "unclear": None, "no_training": None, "schedule_ended": None,
    "plateau": "plateau", "stalled": "overfitting", "worsening": "diverged", "overfitting": "overfitting",
    "memorising": "memorising", "leak": "leak", "repeated_batches": "memorising", "diverged": "diverged",
    "non_finite": "non_finite", "not_learning": "not_learning", "slowing_down": "slow", "waiting_for_data": "slow",
    "memory_growth": "memory", "damaged_start": "unstable", "gradient_explosion": "unstable",
    "gradient_not_finite": "non_finite", "gradient_vanishing": "not_learning", "scale_collapse": "unstable",
    "error": "crash", "completed": None, "slow_steps_normal": None,
}  # fmt: skip
RUNMEDIC = {
    "non_finite": "non_finite", "divergence": "diverged", "loss_spikes": "spikes", "no_learning": "not_learning",
    "overfitting": "overfitting", "val_below_train": "leak", "grad_spikes": "spikes", "constant_lr_plateau": "plateau",
    "input_bound": "slow", "slow_steps": "slow", "slowdown": "slow", "memory_growth": "memory",
    "log:amp_overflow": "unstable", "log:anomaly_nan": "non_finite", "log:unused_params": None,
}  # fmt: skip
LOSSLINT = {
    "nan_inf": "non_finite", "divergence": "diverged", "loss_spike": "spikes", "overfit_onset": "overfitting",
    "stagnation": "plateau", "step_backtrack": None, "parse": None,
}  # fmt: skip
TRAINSPOTTER = {
    "divergence": "diverged", "spikes": "spikes", "plateau": "plateau", "overfitting": "overfitting",
    "lr_schedule": None, "grad_norm": "spikes", "throughput": "slow", "eval_noise": None, "loss_floor": "memorising",
}  # fmt: skip
TRAINING_DOCTOR = {
    "Learning rate likely too high": "unstable", "Learning rate may be too low": "not_learning",
    "Training plateau detected": "plateau", "Early training plateau": "plateau", "Overfitting detected": "overfitting",
    "Unusual train/eval pattern": "leak", "Gradient instability detected": "unstable",
    "Possible mixed precision instability": "unstable",
}  # fmt: skip
SK_AUTOD = {
    "Classic overfitting": "overfitting", "Missed early stopping": "overfitting", "Exploding gradient": "spikes",
    "LR too high": "unstable", "LR too low": "not_learning", "Underfitting": "not_learning",
    "Dying ReLU proxy": "not_learning", "Data leakage": "leak", "Label noise floor": "plateau", "Noisy training": None,
}  # fmt: skip


@dataclass
class Answer:
    """What a tool says about a log. `problems` are alarms, `hints` what it mentions in passing."""

    read: bool
    problems: set[str] = field(default_factory=set)
    hints: set[str] = field(default_factory=set)

    def add(self, problem: str | None, is_hint: bool) -> None:
        if problem is not None:
            (self.hints if is_hint else self.problems).add(problem)


Ask = Callable[[Path, list[str]], Answer]


@dataclass(frozen=True)
class Tool:
    name: str
    input: str  # a key of `inputs_of`
    ask: Ask

    @property
    def title(self) -> str:
        return f"{self.name} ({self.input})"


def output_of(*command: str | Path) -> str | None:
    """What a command prints; None if it prints nothing in time. These tools exit with 1 if they find something."""
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        return None
    return done.stdout if done.stdout.strip() else None


def named(table: Mapping[str, str | None], code: str, tool: str) -> str | None:
    if code not in table:
        print(f"{tool}: no word in this script for {code!r}", file=sys.stderr)
        return code
    return table[code]


def nanoscope(path: Path, options: list[str]) -> Answer:
    text = output_of(sys.executable, "-m", "nanoscope", "explain", path, "--json", *options)
    if text is None:
        return Answer(read=False)
    found = json.loads(text)
    answer = Answer(read=any(run["steps_logged"] or run["evals"] for run in found["runs"]) or bool(found["errors"]))
    for run in found["runs"]:
        for verdict in run["findings"]:
            if verdict["code"] != "mismatch":
                answer.add(named(NANOSCOPE, verdict["code"], "nanoscope"), verdict["confidence"] == "hint")
    if any(error["kind"] != "interrupted" for error in found["errors"]):
        answer.add("crash", False)
    return answer


def runmedic(program: Path) -> Ask:
    def ask(path: Path, options: list[str]) -> Answer:
        text = output_of(program, "diagnose", path, "--json")
        runs = json.loads(text) if text else []
        answer = Answer(read=any(run["series"] for run in runs))
        for finding in (finding for run in runs for finding in run["findings"]):
            code = finding["check"]
            problem = RUNMEDIC.get(code, "crash") if code.startswith("log:") else named(RUNMEDIC, code, "runmedic")
            answer.add(problem, finding["severity"] == "info")
            answer.read = True
        return answer

    return ask


def losslint(program: Path) -> Ask:
    def ask(path: Path, options: list[str]) -> Answer:
        text = output_of(program, "check", path, "--format", "json")
        found = json.loads(text) if text else {"runs": [], "findings": []}
        answer = Answer(read=any(run["points"] for run in found["runs"]))
        for finding in found["findings"]:
            answer.add(named(LOSSLINT, finding["check"], "losslint"), finding["severity"] == "info")
        return answer

    return ask


def trainspotter(program: Path) -> Ask:
    def ask(path: Path, options: list[str]) -> Answer:
        text = output_of(program, "analyze", path, "--output", "json")
        if text is None:
            return Answer(read=False)
        found = json.loads(text)
        answer = Answer(read=bool(found["run"]["metrics"]))
        for finding in found["findings"]:
            problem = named(TRAINSPOTTER, finding["detector"], "trainspotter")
            if problem == "diverged" and "non-finite" in finding["title"]:
                problem = "non_finite"
            answer.add(problem, finding["severity"] == "info")
        return answer

    return ask


def library(python: Path, name: str, table: Mapping[str, str | None]) -> Ask:
    def ask(path: Path, options: list[str]) -> Answer:
        text = output_of(python, Path(__file__).with_name("diagnosis_peers.py"), name, path)
        answer = Answer(read=text is not None)
        for finding in json.loads(text or "[]"):
            answer.add(named(table, finding["code"], name), finding["severity"] == "info")
        return answer

    return ask


def tools(python: Path) -> list[Tool]:
    programs = python.absolute().parent
    medic = runmedic(programs / "runmedic")
    return [
        Tool("nanoscope", "log", nanoscope),
        Tool("runmedic", "log", medic),
        Tool("runmedic", "curves", medic),
        Tool("losslint", "curves", losslint(programs / "losslint")),
        Tool("trainspotter", "curves", trainspotter(programs / "trainspotter")),
        Tool("training-doctor", "curves", library(python, "training-doctor", TRAINING_DOCTOR)),
        Tool("sk-autod", "evaluations", library(python, "sk-autod", SK_AUTOD)),
    ]


def versions_of(python: Path) -> dict[str, str]:
    names = ["runmedic", "losslint", "trainspotter", "training-doctor", "sk-autod"]
    code = f"import json; from importlib.metadata import version; print(json.dumps({{n: version(n) for n in {names}}}))"
    return {"nanoscope": __version__, **json.loads(output_of(python, "-c", code) or "{}")}
