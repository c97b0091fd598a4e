"""Trains small runs with planted faults, and healthy ones, and shows what `explain` says about each.

python benchmarks/planted.py [--folder FOLDER] [--text FILE] [--only NAME...] [--json]

Seconds per run, on a CPU; five minutes in total. With --folder, logs that are already there are not made
again, so a change of the analysis can be tried at once. The text is Python's standard library, or FILE. Healthy runs
are also explained as they stood after a quarter and after half of their lines.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from nanoscope.findings.analyse import Options, analyse
from nanoscope.runs.reader import read_log

MODULES = ("argparse", "ast", "configparser", "dataclasses", "difflib", "doctest", "inspect", "tarfile", "typing")
BLOCK = 2000  # characters: validation text is of the same kind as training text, and not next to it
CUTS = (0.25, 0.5, 1.0)  # of the lines of a healthy run

# In float32, in which the faults were chosen: a run on the edge of diverging takes another way in bfloat16.
SMALL = [
    "--recipe=classic", "--n_layer=2", "--n_head=2", "--n_embd=64", "--block_size=64", "--batch_size=12",
    "--gradient_accumulation_steps=1", "--dropout=0.0", "--max_iters=400", "--learning_rate=2e-3", "--warmup_iters=20",
    "--beta2=0.99", "--eval_interval=50", "--eval_iters=20", "--log_interval=5", "--dtype=float32",
]  # fmt: skip


# --- the faults ---


@dataclass(frozen=True)
class Planted:
    """A run with a fault, or without one. Later settings override earlier ones."""

    name: str
    settings: tuple[str, ...]
    found_by: frozenset[str] = frozenset()  # verdicts and advice that name the fault; none: the run is healthy
    data: str = "text"
    program: tuple[str, ...] = ("-m", "nanoscope")

    @property
    def is_healthy(self) -> bool:
        return not self.found_by


# Every iteration reads the batch of the first one.
FROZEN_LOADER = """
import sys
from nanoscope import cli
from nanoscope.data import loader
starts = loader.window_starts
loader.window_starts = lambda tokens, config, step, first_sequence: starts(tokens, config, 0, 0)
sys.exit(cli.run(sys.argv[1:]))
"""


def fault(name: str, settings: str, found_by: str, data: str = "text") -> Planted:
    return Planted(name, (*SMALL, *settings.split()), frozenset(found_by.split()), data)


FAULTS = [
    fault(
        "rate far too high",
        "--learning_rate=1.0 --warmup_iters=100 --min_lr=1.0",
        "diverged not_learning worsening damaged_start",
    ),
    fault(
        "no warm-up, high rate",
        "--learning_rate=0.3 --warmup_iters=0 --grad_clip=0 --lr_decay_iters=100 --min_lr=1e-3",
        "damaged_start diverged not_learning",
    ),
    fault("tiny data", "--max_iters=600", "overfitting memorising", data="tiny"),
    fault(
        "accumulation left at 40",
        "--gradient_accumulation_steps=40 --max_iters=30 --eval_interval=10 --log_interval=1",
        "lower_accumulation",
        data="short",
    ),
    fault("validation text = training text", "--max_iters=1200 --eval_interval=100", "leak", data="leaked"),
    replace(fault("frozen loader", "", "repeated_batches"), program=("-c", FROZEN_LOADER)),
    fault(
        "evaluations too long",
        "--eval_iters=400 --max_iters=150 --eval_interval=25",
        "lower_eval_iters raise_eval_interval",
    ),
]


def healthy(name: str, settings: str) -> Planted:
    return Planted(name, tuple(settings.split()))


HEALTHY = [
    healthy("quick", "quick --eval_interval=20"),
    healthy("quick, another seed", "quick --eval_interval=20 --seed=1"),
    healthy("quick, longer", "quick --max_iters=150 --eval_interval=30"),
    healthy("quick, narrow", "quick --n_embd=64 --n_layer=1 --eval_interval=20 --log_interval=5"),
    healthy("quick, small batches", "quick --batch_size=8 --max_iters=120 --eval_interval=20"),
    healthy("laptop, short", "laptop --n_layer=2 --max_iters=80 --eval_interval=20 --log_interval=5"),
    healthy("babygpt, small", "babygpt --n_layer=2 --n_embd=96 --block_size=64 --max_iters=120 --eval_interval=30"),
    healthy("laptop-classic, short", "laptop-classic --n_layer=2 --max_iters=500 --eval_interval=50"),
    healthy("laptop-classic, shallow", "laptop-classic --n_layer=1 --max_iters=600 --seed=2 --eval_interval=100"),
    healthy(
        "babygpt-classic, small",
        "babygpt-classic --n_layer=2 --n_head=4 --n_embd=96 --block_size=64 --batch_size=16 --max_iters=400 "
        "--eval_interval=50 --eval_iters=20",
    ),
]


# --- training ---


def text_of_python() -> str:
    folder = Path(sysconfig.get_paths()["stdlib"])
    text = "\n".join((folder / f"{name}.py").read_text("utf-8") for name in MODULES)
    return "".join(character for character in text if character.isascii())


def shuffled(text: str) -> str:
    blocks = [text[start : start + BLOCK] for start in range(0, len(text), BLOCK)]
    random.Random(1).shuffle(blocks)
    return "".join(blocks)


def dataset(name: str, text: str) -> tuple[str, float]:
    """A text, and the share at its end that is for validation."""
    return {
        "text": (text, 0.1),
        "short": (text[:50_000], 0.1),
        "tiny": (text[:6_000], 0.1),
        "leaked": (2 * text[:20_000], 0.5),
    }[name]


def command(folder: Path, *words: str, program: tuple[str, ...] = ("-m", "nanoscope")) -> None:
    threads = {"OMP_NUM_THREADS": "1"}  # so small a model is no faster with more
    done = subprocess.run(
        [sys.executable, *program, *words], cwd=folder, env=os.environ | threads, capture_output=True, text=True
    )
    if done.returncode not in (0, 1):  # 1: the loss was not finite
        raise SystemExit(f"nanoscope {' '.join(words)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")


def train(run: Planted, folder: Path, text: str) -> Path:
    """The events of a run; trained now unless it is there."""
    log = folder / f"{run.name}.jsonl"
    if log.exists():
        return log
    data, out = folder / "data" / run.data, folder / "run"
    if not data.exists():
        content, val_fraction = dataset(run.data, text)
        data.parent.mkdir(parents=True, exist_ok=True)
        source = data.with_suffix(".txt")
        source.write_text(content, "utf-8")
        command(folder, "prepare", str(source), f"--out={data}", "--tokenizer=char", f"--val_fraction={val_fraction}")
    shutil.rmtree(out, ignore_errors=True)
    where = [f"--dataset={data}", f"--out_dir={out}", "--device=cpu", "--compile=False"]
    command(folder, "train", *run.settings, *where, program=run.program)
    shutil.copy(out / "events.jsonl", log)
    return log


# --- what is said ---


@dataclass(frozen=True)
class Said:
    name: str
    cut: float
    verdicts: tuple[str, ...]  # with their confidence
    codes: frozenset[str]  # of verdicts and advice


def explain(log: Path) -> tuple[list[str], frozenset[str]]:
    read = read_log(str(log))
    (run,) = read.runs
    found = analyse(run, Options(), read)
    codes = frozenset([*(verdict.code for verdict in found.verdicts), *(advice.action for advice in found.advice)])
    return [f"{verdict.code} ({verdict.confidence})" for verdict in found.verdicts], codes


def cut_lines(log: Path, share: float) -> list[str]:
    """The header, and this share of what follows."""
    lines = log.read_text("utf-8").splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if '"event":"iter"' in line.replace(" ", "")[:40])
    return lines[: first + round(share * (len(lines) - first))]


def said_about(run: Planted, log: Path) -> Iterator[Said]:
    with tempfile.TemporaryDirectory() as folder:
        for cut in CUTS if run.is_healthy else (1.0,):
            part = Path(folder) / "part.jsonl"
            part.write_text("".join(cut_lines(log, cut)), "utf-8")
            verdicts, codes = explain(part)
            yield Said(run.name, cut, tuple(verdicts), codes)


def advice_in(said: Said) -> str:
    verdicts = {verdict.partition(" ")[0] for verdict in said.verdicts}
    return ", ".join(sorted(said.codes - verdicts)) or "–"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="keep the logs here, and use those that are here")
    parser.add_argument("--text", type=Path, help="train on this text instead")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="runs whose name contains one of these")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    text = shuffled(text_of_python()) if options.text is None else options.text.read_text("utf-8")
    found: list[Said] = []
    with tempfile.TemporaryDirectory() as temporary:
        for run in [*FAULTS, *HEALTHY]:
            if options.only and not any(part in run.name for part in options.only):
                continue
            for said in said_about(run, train(run, (options.folder or Path(temporary)).absolute(), text)):
                found.append(said)
                if not options.json:
                    result = "healthy" if run.is_healthy else "found" if said.codes & run.found_by else "NOT FOUND"
                    row = (run.name, f"{said.cut:.0%}", result, ", ".join(said.verdicts) or "–", advice_in(said))
                    print(f"| {' | '.join(row)} |", flush=True)
    if options.json:
        rows = [
            {"run": said.name, "cut": said.cut, "verdicts": said.verdicts, "codes": sorted(said.codes)}
            for said in found
        ]
        json.dump(rows, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
