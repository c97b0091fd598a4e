"""Compares what nanoscope and other tools that diagnose training runs say about the same logs.

python benchmarks/diagnosis.py LOGS... --peers PYTHON [--expected FILE] [--markdown docs/diagnosis.md] [--json]

LOGS are folders of logs whose names begin with the numbers of diagnosis_key.toml, which has the true diagnosis of each.
PYTHON is the interpreter of an environment with the other tools:

    python -m venv peers && peers/bin/pip install runmedic training-doctor losslint trainspotter sk-autod

--expected names a JSON file with facts about the logs. Its `args` (the total number of steps where a log doesn't say)
are passed to nanoscope, and its facts about verdicts are checked against the key.
"""

import argparse
import csv
import json
import math
import re
import sys
import tempfile
import tomllib
from collections import Counter
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from diagnosis_tools import NANOSCOPE, Answer, Tool, tools, versions_of

from nanoscope.runs.reader import read_log
from nanoscope.runs.run import Run

HERE = Path(__file__).parent
RIGHT, WRONG, SILENT = "right", "wrong", "silent"
MARKS = {RIGHT: "✓", WRONG: "✗", SILENT: "·"}

# A fault may be named by what it does: a loss of NaN is also 'diverged', a loss that explodes is also 'unstable'.
ACCEPTED = {
    "non_finite": {"diverged", "unstable", "spikes"},
    "diverged": {"unstable", "spikes"},
    "memorising": {"overfitting"},
    "overfitting": {"memorising"},
}
GETTING_WORSE = {"diverged", "non_finite", "overfitting"}  # 'improving' is false for these

# --- the logs ---


@dataclass(frozen=True)
class Log:
    number: int
    path: Path
    about: str
    faults: frozenset[str]
    also: frozenset[str]
    training: bool
    options: tuple[str, ...]

    @property
    def names_of_faults(self) -> set[str]:
        return set(self.faults).union(*(ACCEPTED.get(fault, ()) for fault in self.faults))

    def false_claims(self, answer: Answer) -> set[str]:
        allowed = self.names_of_faults | self.also
        return answer.problems - (allowed if self.faults & GETTING_WORSE else allowed | {"improving"})

    def outcome(self, answer: Answer) -> str:
        if self.false_claims(answer):
            return WRONG
        if not self.training:
            return RIGHT
        if not answer.read:
            return SILENT
        if not self.faults or (answer.problems | answer.hints) & self.names_of_faults:
            return RIGHT
        return SILENT


def read_key(folders: list[Path], expected: dict[str, Any]) -> list[Log]:
    key = {int(number): entry for number, entry in tomllib.loads((HERE / "diagnosis_key.toml").read_text()).items()}
    logs = []
    for path in (path for folder in folders for path in folder.iterdir()):
        digits = re.match(r"\d+", path.name)
        if digits is None:
            continue
        number = int(digits.group())
        if number not in key:
            print(f"{path.name}: not in the key, left out", file=sys.stderr)
            continue
        entry = key[number]
        log = Log(
            number, path, entry["about"], frozenset(entry.get("faults", ())), frozenset(entry.get("also", ())),
            entry.get("training", True), tuple(expected.get(path.name, {}).get("args", ())),
        )  # fmt: skip
        check_against(log, expected.get(path.name, {}).get("checks", []))
        logs.append(log)
    return sorted(logs, key=lambda log: log.number)


def check_against(log: Log, checks: list[dict[str, Any]]) -> None:
    """The key must agree with the facts of --expected about verdicts."""
    for check in checks:
        if check["path"].endswith(".verdicts"):
            required, excluded = (set([value] if isinstance(value := check.get(name, []), str) else value)
                                  for name in ("has", "lacks"))  # fmt: skip
            problems = {NANOSCOPE.get(code, code) for code in required} - {None, "improving"}
            if problems - log.names_of_faults - log.also:
                print(f"{log.number}: the key lacks {problems}", file=sys.stderr)
            if {NANOSCOPE.get(code, code) for code in excluded} & log.faults:
                print(f"{log.number}: the key has {excluded}, which is expected not to be said", file=sys.stderr)


Row = dict[str, float]


def curves(run: Run) -> list[Row]:
    """A row per step, with the names that the documentation of these tools uses."""
    rows: dict[int, Row] = {}
    steps = run.steps
    columns = {"loss": steps.loss, "lr": steps.lr, "grad_norm": steps.grad_norm, "step_time": steps.time_s}
    for index, step in enumerate(steps.step):
        rows[step] = {name: column[index] for name, column in columns.items() if not math.isnan(column[index])}
    has_losses = any("loss" in row for row in rows.values())
    for evaluation in run.evals:
        row = rows.setdefault(evaluation.step, {})
        row["eval_loss"] = evaluation.val
        if not has_losses and evaluation.train_loss is not None:
            row["loss"] = evaluation.train_loss
    return [{"step": step, **rows[step]} for step in sorted(rows)]


def evaluations(run: Run) -> list[Row]:
    """A row per evaluation, with the training loss measured there or printed last."""
    printed = [(step, loss) for step, loss in zip(run.steps.step, run.steps.loss, strict=True) if not math.isnan(loss)]
    rows = []
    for evaluation in run.evals:
        before = [loss for step, loss in printed if step <= evaluation.step]
        train = before[-1] if evaluation.train_loss is None and before else evaluation.train_loss
        if train is not None:
            rows.append({"step": evaluation.step, "loss": train, "eval_loss": evaluation.val})
    return rows


def write_table(rows: list[Row], path: Path) -> Path | None:
    """Only the columns that the log has."""
    names = [
        name
        for name in ("step", "loss", "eval_loss", "lr", "grad_norm", "step_time")
        if any(name in row for row in rows)
    ]
    if not rows:
        return None
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        for row in rows:
            writer.writerow({name: "nan" if math.isinf(value) else value for name, value in row.items()})
    return path


def inputs_of(log: Log, folder: Path) -> dict[str, Path | None]:
    """What the tools are given: the log itself, or its longest run as a table."""
    runs = read_log(str(log.path)).runs
    if not runs:
        return {"log": log.path, "curves": None, "evaluations": None}
    run = max(runs, key=lambda run: len(run.steps) + len(run.evals))
    return {
        "log": log.path,
        "curves": write_table(curves(run), folder / f"{log.number}.csv"),
        "evaluations": write_table(evaluations(run), folder / f"{log.number}-evaluations.csv"),
    }


# --- the result ---


@dataclass
class Result:
    """What each tool says about a log, and whether that is right."""

    log: Log
    answers: dict[str, Answer]

    def outcome(self, tool: Tool) -> str:
        return self.log.outcome(self.answers[tool.title])

    def cell(self, tool: Tool) -> str:
        answer = self.answers[tool.title]
        said = ", ".join(sorted(answer.problems | (answer.hints & self.log.names_of_faults))).replace("_", " ")
        return f"{MARKS[self.outcome(tool)]} {said or ('no problem' if answer.read else 'unreadable')}"


def compare(logs: list[Log], compared: list[Tool]) -> list[Result]:
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for log in logs:
            inputs = inputs_of(log, Path(folder))
            answers = {}
            for tool in compared:
                path = inputs[tool.input]
                answers[tool.title] = Answer(read=False) if path is None else tool.ask(path, list(log.options))
            results.append(Result(log, answers))
            print(
                f"{log.number}: " + ", ".join(f"{tool.name} {results[-1].cell(tool)}" for tool in compared),
                file=sys.stderr,
            )
    return results


def count(results: list[Result], tool: Tool) -> Counter[str]:
    return Counter(result.outcome(tool) for result in results)


def false_claims(results: list[Result], tool: Tool) -> Counter[str]:
    return Counter(problem for result in results for problem in result.log.false_claims(result.answers[tool.title]))


def most_often(claim: tuple[str, int]) -> tuple[int, str]:
    return -claim[1], claim[0]


def summary(results: list[Result], compared: list[Tool]) -> list[str]:
    with_faults = [result for result in results if result.log.faults]
    without = [result for result in results if not result.log.faults]
    lines = [
        f"| tool | given | right | wrong | silent | faults named, of {len(with_faults)} | "
        f"false alarms, on {len(without)} runs without a fault | what was named wrongly |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for tool in compared:
        counts, false = count(results, tool), false_claims(results, tool)
        named = sum(
            bool(result.log.names_of_faults & (result.answers[tool.title].problems | result.answers[tool.title].hints))
            for result in with_faults
        )
        alarms = sum(result.outcome(tool) == WRONG for result in without)
        which = ", ".join(f"{problem} {times}×" for problem, times in sorted(false.items(), key=most_often)).replace(
            "_", " "
        )
        lines.append(
            f"| {tool.name} | {tool.input} | {counts[RIGHT]} | {counts[WRONG]} | {counts[SILENT]} | {named} | {alarms} "
            f"| {which.replace('_', ' ')} |"
        )
    return lines


def page(results: list[Result], compared: list[Tool], versions: dict[str, str]) -> str:
    used = ", ".join(f"{name} {version}" for name, version in versions.items())
    rows = [
        f"| {result.log.number} | {result.log.about} | " + " | ".join(result.cell(tool) for tool in compared) + " |"
        for result in results
    ]
    return "\n".join(
        [
            *ABOUT.format(date=date.today(), versions=used, logs=len(results)).splitlines(),
            *summary(results, compared),
            *NOTES.splitlines(),
            "| log | what it is | " + " | ".join(tool.title for tool in compared) + " |",
            "| ---: | --- |" + " --- |" * len(compared),
            *rows,
            "",
        ]
    )


ABOUT = """\
# Diagnosis: nanoscope and other tools on the same logs

Tools that read a training log and say what is wrong with the run, on {logs} real logs of many trainers: whole runs,
beginnings, ends and excerpts, most of them healthy.

- {date}; default settings. {versions}.
- To repeat it, install the tools into an environment of their own
  (`python -m venv peers && peers/bin/pip install runmedic training-doctor losslint trainspotter sk-autod`), then run
  `python benchmarks/diagnosis.py LOGS --peers peers/bin/python --markdown docs/diagnosis.md` with a folder of logs.
  The logs were published by other people and are not part of this repository. `benchmarks/diagnosis_key.toml` has the
  true diagnosis of each, written by hand, by the number that its file name begins with.

"""

NOTES = """
**right**: names the fault, or finds nothing wrong with a run that has no fault. **wrong**: names a problem that the run
doesn't have, or calls a run improving that gets worse, whatever else it says. **silent**: misses the fault, or can't
read the log in a minute.

- **given**: runmedic reads console logs, as nanoscope does. The others read tables. To judge the diagnosis apart from
  the reading, all but nanoscope also get the numbers of the log as nanoscope reads them. *curves* is a CSV file of the
  longest run in the log, with the columns `step`, `loss`, `eval_loss`, `lr`, `grad_norm` and `step_time`, as far as the
  log has them. *evaluations* has the training and validation loss of each evaluation, for sk-autod, which expects
  losses by epoch. If nanoscope misreads a log, that misleads them too.
- Warnings and errors count as naming a problem. What a tool mentions as information, or nanoscope as a hint, counts if
  it is right, and is ignored if it is wrong.
- Words are taken broadly: 'diverged' or 'learning rate too high' is right for a loss that becomes NaN, and
  'overfitting' for a model that memorises. Remarks about noise and about the schedule of the learning rate are not
  judged, nor are remarks about slow steps where there are any, or about a plateau where opinions may differ.
- The key was written by the authors of nanoscope, who developed it with these logs, so this shows that nothing false is
  left on them, not how nanoscope does on others: expect it to do worse there. After a first look at the results the key
  was widened in two places: real spikes may be named in three logs, and one remark of a peer that is not about training
  is not judged.
- runwise was left out: it reads JSON lines, but diagnoses only runs of Weights & Biases.

## By log

✓ right, ✗ wrong, · silent

"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", type=Path, nargs="+", help="folders of logs")
    parser.add_argument(
        "--peers", type=Path, required=True, metavar="PYTHON", help="interpreter that has the other tools"
    )
    parser.add_argument("--expected", type=Path, help="facts about the logs, as JSON")
    parser.add_argument("--only", type=int, nargs="+", metavar="NUMBER", help="these logs only")
    parser.add_argument("--markdown", type=Path, help="write the page to this file")
    parser.add_argument("--json", action="store_true", help="print what each tool said, as JSON")
    options = parser.parse_args()
    expected = json.loads(options.expected.read_text()) if options.expected else {}
    logs = [log for log in read_key(options.logs, expected) if not options.only or log.number in options.only]
    compared = tools(options.peers)
    results = compare(logs, compared)
    if options.json:
        said = {
            result.log.number: {
                tool.title: {
                    "outcome": result.outcome(tool),
                    "read": result.answers[tool.title].read,
                    "problems": sorted(result.answers[tool.title].problems),
                    "hints": sorted(result.answers[tool.title].hints),
                }
                for tool in compared
            }
            for result in results
        }
        print(json.dumps(said, indent=1))
    else:
        print("\n".join(summary(results, compared)))
    if options.markdown:
        old = options.markdown.read_text("utf-8") if options.markdown.exists() else ""
        _, heading, simulated = old.partition("\n## Simulated runs")  # by rates.py
        new = page(results, compared, versions_of(options.peers))
        options.markdown.write_text(new + heading + simulated, "utf-8")


if __name__ == "__main__":
    main()
