"""How good the ETA is that `train` shows a tenth of the way through, over runs of different kinds.

    python benchmarks/eta.py FOLDER [NAME…] [--at 0.1] [--json]

Trains the named runs (default: all, about seven minutes on two quiet cores) in FOLDER, one after the other, then prints
the table of all runs that are there; a name that does not exist, such as -, only prints it. The ETA is that of the
first line after a tenth of the iterations, or of the time where a run ends by time. The truth is what followed until
the process was gone. Beside it: steps left × mean step so far (`naive`), time so far ÷ iterations done × those left,
which is what progress bars show (`bar`), and what `nanoscope eta` says about the events up to that line (`eta`).
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil

from nanoscope.findings.analyse import Options, analyse
from nanoscope.runs.own import OwnRun

# By name: what to train. Several: a run that is resumed, whose last session counts.
RUNS: dict[str, tuple[str, ...]] = {
    "quick, longer": ("quick --max_iters=400 --log_interval=5",),
    "laptop": ("laptop",),
    "classic, evaluated often": ("laptop-classic --max_iters=300 --eval_interval=20 --log_interval=5",),
    "babygpt, full evaluation": ("babygpt --max_iters=40 --eval_interval=40 --eval_iters=full --log_interval=1",),
    "mostly evaluation": (
        "laptop --n_layer=3 --n_embd=96 --max_iters=120 --eval_interval=30 --eval_iters=50 --log_interval=2",
    ),
    "large checkpoints": (
        "laptop-classic --n_layer=2 --n_embd=1536 --n_head=8 --block_size=32 --batch_size=4 --max_iters=40 "
        "--eval_interval=8 --eval_iters=2 --always_save_checkpoint=True --log_interval=1",
    ),
    "samples": ("laptop --batch_size=4 --max_iters=300 --eval_interval=100 --sample_interval=40 --log_interval=5",),
    "accumulation": (
        "laptop --batch_size=8 --gradient_accumulation_steps=4 --max_iters=100 --eval_interval=25 --log_interval=1",
    ),
    "vocabulary of 50257": (
        "laptop-classic --tokenizer=gpt2 --n_layer=1 --n_embd=64 --batch_size=8 --max_iters=120 --eval_interval=25 "
        "--log_interval=1",
    ),
    "resumed": (
        "laptop-classic --max_iters=150 --eval_interval=50",
        "--init_from=resume --max_iters=600 --eval_interval=70 --log_interval=5",
    ),
    "max_minutes": ("quick --max_iters=100000 --max_minutes=0.4 --log_interval=5",),
    "tiny steps": (
        "laptop-classic --n_layer=1 --n_embd=32 --n_head=2 --batch_size=4 --max_iters=4000 --eval_interval=500 "
        "--log_interval=1",
    ),
}


@dataclass(frozen=True)
class Row:
    name: str
    seconds_left: float
    """What was really left."""
    shown: float
    naive: float
    bar: float
    eta: float | None
    evaluation_share: float
    """Of what was left, evaluations and checkpoints took this share."""
    forecast: tuple[float, float, float, float]
    """The time that the first forecast gave, its range, and how long it really took from there."""
    disturbed: float
    """Cores that other programs, or other virtual machines, had meanwhile."""


def train(name: str, root: Path) -> None:
    folder = root / name
    before = _cpu_seconds()
    for number, words in enumerate(RUNS[name]):
        first = ["--overwrite=True"] if not number else []
        words_of_run = words.split() if not number else [str(folder), *words.split()]
        place = [f"--out_dir={folder}"] if not number else []
        command = [sys.executable, "-m", "nanoscope", "train", *words_of_run, *place, *first]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}\n{done.stderr[-2000:]}")
    spent = {key: value - before[key] for key, value in _cpu_seconds().items()}
    others = (spent["all"] - spent["own"]) / spent["wall"]
    note = {"gone": time.time(), "others": others, "stolen": spent["stolen"] / spent["wall"]}
    (folder / "benchmark.json").write_text(json.dumps(note), encoding="utf-8")


def _cpu_seconds() -> dict[str, float]:
    """Of the whole machine, and of the runs that are over. `stolen`: what a virtual machine wanted and did not get."""
    own, all_cores = resource.getrusage(resource.RUSAGE_CHILDREN), psutil.cpu_times()
    busy = all_cores.user + all_cores.nice + all_cores.system
    stolen = getattr(all_cores, "steal", 0.0)
    return {"all": busy, "own": own.ru_utime + own.ru_stime, "stolen": stolen, "wall": time.monotonic()}


def judge(name: str, folder: Path, at: float) -> Row:
    lines = (folder / "events.jsonl").read_text("utf-8").splitlines(keepends=True)
    events: list[dict[str, Any]] = [json.loads(line) for line in lines]
    session = max(i for i, event in enumerate(events) if event["event"] == "start")
    own = events[session:]
    forecast = next(event for event in own if event["event"] == "forecast")
    end, note = own[-1], json.loads((folder / "benchmark.json").read_text("utf-8"))
    gone = note["gone"]
    iterations = [event for event in own if event["event"] == "iter"]
    total = end["t"] - forecast["t"]
    by_time = end["reason"] == "max_minutes"

    def way(event: dict[str, Any]) -> float:
        return (event["t"] - forecast["t"]) / total if by_time else (event["step"] + 1 - forecast["step"]) / steps

    steps = end["step"] - forecast["step"]
    here = next(event for event in iterations if way(event) >= at)
    done = here["step"] + 1 - forecast["step"]
    past = [event for event in iterations if event["t"] <= here["t"]]
    mean_step = sum(event["steps"] * event["mean_seconds"] for event in past) / sum(event["steps"] for event in past)
    to_do = own[0]["config"]["max_iters"] - here["step"] - 1
    later = [event for event in own if event["t"] > here["t"] and event["event"] in ("eval", "checkpoint", "sample")]
    seconds_left = gone - datetime.fromisoformat(here["time"]).timestamp()
    return Row(
        name, seconds_left, here["eta_seconds"], to_do * mean_step, to_do * (here["t"] - forecast["t"]) / done,
        _as_nanoscope_eta("".join(lines[: events.index(here) + 1])),
        sum(event["seconds"] for event in later) / seconds_left,
        (forecast["seconds"], forecast["seconds_low"], forecast["seconds_high"],
         gone - datetime.fromisoformat(forecast["time"]).timestamp()), note["others"] + note["stolen"],
    )  # fmt: skip


def _as_nanoscope_eta(events: str) -> float | None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "events.jsonl").write_text(events, encoding="utf-8")
        (run,) = OwnRun(Path(folder)).read().runs
        return getattr(analyse(run, Options()).eta, "expected_s", None)


def table(rows: list[Row]) -> str:
    def figure(value: float | None, truth: float) -> str:
        return "n/a" if value is None else f"{value:.1f} s ({value / truth - 1:+.0%})"

    lines = ["| run | others had | really left | evaluations, saves, samples | shown | naive | bar | `nanoscope eta` |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for row in rows:
        figures = " | ".join(figure(v, row.seconds_left) for v in (row.shown, row.naive, row.bar, row.eta))
        beginning = f"| {row.name} | {row.disturbed:.2f} cores | {row.seconds_left:.1f} s"
        lines.append(f"{beginning} | {row.evaluation_share:.0%} of it | {figures} |")
    lines += ["", "| run | first forecast | range | really |", "| --- | --- | --- | --- |"]
    for row in rows:
        expected, low, high, real = row.forecast
        held = "" if low <= real <= high else " (outside)"
        lines.append(f"| {row.name} | {expected:.1f} s | {low:.1f} to {high:.1f} s | {real:.1f} s{held} |")
    within = sum(abs(row.shown / row.seconds_left - 1) <= 0.1 for row in rows)
    inside = sum(row.forecast[1] <= row.forecast[3] <= row.forecast[2] for row in rows)
    lines += ["", f"{within} of {len(rows)} within 10 %; {inside} of {len(rows)} first forecasts in their range."]
    lines.append(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=list(RUNS))
    parser.add_argument("--at", type=float, default=0.1)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    root = arguments.folder.resolve()
    root.mkdir(parents=True, exist_ok=True)
    for name in arguments.names:
        if name in RUNS:
            print(f"training {name} …", file=sys.stderr)
            train(name, root)
    rows = [judge(name, root / name, arguments.at) for name in RUNS if (root / name / "benchmark.json").exists()]
    print(json.dumps([asdict(row) for row in rows]) if arguments.json else table(rows))


if __name__ == "__main__":
    main()
