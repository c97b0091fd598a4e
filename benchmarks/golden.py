"""Trains the same list of small runs with two source trees, on this machine, and compares what they leave behind.

python benchmarks/golden.py BASE [--only NAME...] [--keep FOLDER]

BASE is another checkout of nanoscope (git worktree add ../base COMMIT). Nothing is stored, because kernels differ
between CPUs: both trees train now, with this interpreter. Compared are weights, optimizer and progress of every
checkpoint, byte by byte, the events without times, the memory that `plan` counts, and the operations of a forward
pass and an update on fake CUDA tensors. Five minutes on two quiet cores; the exit status is 1 if anything differs.
"""

import argparse
import json
import math
import os
import runpy
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
SMALL = [
    "--dataset=data/text", "--n_layer=2", "--n_head=2", "--n_embd=32", "--block_size=32", "--batch_size=8",
    "--max_iters=20", "--eval_interval=5", "--eval_iters=2", "--log_interval=1", "--device=cpu", "--out_dir=run",
]  # fmt: skip
PRESETS = ("quick", "quick-bpe", "laptop", "laptop-classic", "babygpt", "babygpt-classic", "gpt2-124m")
RECIPES = ("laptop", "laptop-classic")
ACCUMULATION = "--gradient_accumulation_steps=3"
KEPT = {
    "iter": ("step", "loss", "lr", "grad_norm", "steps"),
    "eval": ("step", "train_loss", "train_stderr", "val_loss", "val_stderr", "windows", "best"),
    "checkpoint": ("step", "best"),
    "sample": ("step", "beginning"),
    "rollback": ("step", "to", "lr_factor", "count"),
    "out_of_memory": ("step", "micro_batch_before", "micro_batch"),
    "resume": ("step", "changed", "for_session"),
    "non_finite": ("step",),
    "end": ("reason", "step", "best_val_loss", "best_step", "saved_step"),
}
"""Fields of events that are the same in every run of the same settings."""


@dataclass(frozen=True)
class Case:
    """A run: one or more commands, in one folder."""

    name: str
    commands: tuple[tuple[str, ...], ...]
    fault: str = "none"
    processes: int = 1


def cases() -> list[Case]:
    found = []
    for dtype in ("float32", "bfloat16"):
        common = (f"--dtype={dtype}", "--compile=False")
        found += [
            Case(f"{preset} {dtype}", ((preset, "--gradient_accumulation_steps=1", *common),)) for preset in PRESETS
        ]
        for preset in RECIPES:
            start = (preset, ACCUMULATION, "--dropout=0.1", "--sample_interval=10", *common)
            once = (preset, "--gradient_accumulation_steps=1", *common)
            more = ("run", "--init_from=resume", "--max_iters=30")
            found += [
                Case(f"accumulation with dropout {preset} {dtype}", (start,)),
                Case(f"resume {preset} {dtype}", ((*start, "--lr_decay_iters=30"), more)),
                Case(f"two processes {preset} {dtype}", (start,), processes=2),
                Case(f"out of memory {preset} {dtype}", (once,), fault="memory"),
                Case(f"rollback {preset} {dtype}", ((*once, "--on_nan=rollback"),), fault="nan"),
            ]
    for preset in RECIPES:
        words = (preset, ACCUMULATION, "--dropout=0.1", "--dtype=float32", "--compile=True")
        found.append(Case(f"compile {preset} float32", (words,)))
    return found


def environment_of(tree: Path, folder: Path) -> dict[str, str]:
    """The environment of a child process that uses the sources of `tree`."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("NANOSCOPE_")}
    return kept | {"PYTHONPATH": str(tree / "src"), "NANOSCOPE_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}


def printed(what: str, tree: Path, folder: Path) -> dict[str, Any]:
    """What a child prints with the sources of `tree`: 'memory' or 'graphs'."""
    command = [sys.executable, str(HERE), f"--{what}", str(tree)]
    done = subprocess.run(command, env=environment_of(tree, folder), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{what} of {tree}:\n{done.stderr[-2000:]}")
    return dict(json.loads(done.stdout))


def run(tree: Path, case: Case, folder: Path) -> dict[str, Any]:
    """Train a case with the sources of `tree`. What it leaves, by name."""
    folder.mkdir(parents=True)
    (folder / "text.txt").write_text(
        "".join(f"Verse {n * n % 97}: row, row, row your boat.\n" for n in range(600)), "utf-8"
    )
    environment = environment_of(tree, folder.parent)
    parallel = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={case.processes}"]

    def nanoscope(*words: str, parallel: tuple[str, ...] | list[str] = ()) -> int:
        command = [sys.executable, *parallel, str(HERE), "--child", case.fault, *words]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
        if done.returncode and case.fault == "none":
            raise SystemExit(
                f"{case.name}: exit status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
            )
        return done.returncode

    kind = "bpe" if case.name.startswith("quick-bpe") else "char"
    nanoscope(
        "prepare", "text.txt", "--out", "data/text", f"--tokenizer={kind}", *(["--vocab_size=300"] * (kind == "bpe"))
    )
    parallel = parallel if case.processes > 1 else []
    settings: dict[str, list[str]] = {"run": []}  # a run that is resumed has its settings
    statuses = [
        nanoscope("train", words[0], *settings.get(words[0], SMALL), *words[1:], parallel=parallel)
        for words in case.commands
    ]
    left: dict[str, Any] = {"status": statuses, "events": events(folder / "run/events.jsonl")}
    for file in sorted((folder / "run/checkpoints").glob("step-*/*")):
        content = file.read_bytes()
        left[f"{file.parent.name}/{file.name}"] = (
            json.loads(content)["progress"] if file.name == "state.json" else content
        )
    return left


def events(file: Path) -> list[dict[str, Any]]:
    """Without times, and losses as hexadecimal numbers."""
    found = []
    for event in map(json.loads, file.read_text("utf-8").splitlines()):
        fields = {key: event.get(key) for key in KEPT.get(event["event"], ())}
        if fields:
            values = {key: value.hex() if isinstance(value, float) else value for key, value in fields.items()}
            found.append({"event": event["event"], **values})
    return found


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Everything that differs; of the events only the first that does."""
    found = []
    for name in sorted({*before, *now}):
        if name not in before or name not in now:
            found.append(f"{name} is there only {'before' if name in before else 'now'}")
        elif name == "events" and before[name] != now[name]:
            pairs = zip([*before[name], None], [*now[name], None], strict=False)
            found.append(next(f"event {a} → {b}" for a, b in pairs if a != b))
        elif before[name] != now[name]:
            found.append(f"{name} differs")
    return found


# --- in the child, where the tree's own nanoscope is imported ---


def child(fault: str, words: list[str]) -> None:
    """nanoscope's command line, in a torch that has a fault. The faults know nothing of nanoscope's own names."""
    import torch

    whole, embedding = 4, torch.nn.functional.embedding

    def short_of_memory(tokens: torch.Tensor, *rest: Any, **more: Any) -> torch.Tensor:
        if torch.is_grad_enabled() and tokens.ndim == 2 and len(tokens) > whole:
            raise torch.OutOfMemoryError("out of memory, on purpose")
        return embedding(tokens, *rest, **more)

    def sometimes_nan(tokens: torch.Tensor, *rest: Any, **more: Any) -> torch.Tensor:
        found = embedding(tokens, *rest, **more)
        broken = torch.is_grad_enabled() and tokens.ndim == 2 and int(tokens.sum()) % 7 == 0
        return found * math.nan if broken else found

    if fault == "memory":
        torch.nn.functional.embedding = short_of_memory  # type: ignore[assignment]
    elif fault == "nan":
        torch.nn.functional.embedding = sometimes_nan  # type: ignore[assignment]
    sys.argv = ["nanoscope", *words]
    runpy.run_module("nanoscope", run_name="__main__")


def print_memory() -> None:
    from nanoscope.config_sources import resolve
    from nanoscope.planning.memory import training_memory
    from nanoscope.training.initial_model import new_shape

    found = {}
    for preset in PRESETS:
        config = resolve([preset]).config
        shape = new_shape(config, 50304 if preset == "gpt2-124m" else 65)
        for device, dtype in (("cpu", "float32"), ("cpu", "bfloat16"), ("cuda", "bfloat16"), ("cuda", "float16")):
            memory = training_memory(shape, config, config.batch_size, device, dtype)
            found[f"{preset} {device} {dtype}"] = [memory.parameters, round(memory.peak, -3)]
    print(json.dumps(found))


def print_graphs(tree: Path) -> None:
    """The operations of both recipes on fake CUDA tensors, with their dtypes, by the tree's own tests/fake_devices."""
    sys.path.insert(0, str(tree / "tests"))
    import fake_devices

    found = {}
    with tempfile.TemporaryDirectory() as folder:
        fake_devices.allow_fake_cuda(Path(folder))
        for recipe, shape in fake_devices.SHAPES.items():
            for dtype in ("float32", "bfloat16", "float16"):
                choice = fake_devices.gpu(dtype=dtype)
                with fake_devices.on_fake_cuda():
                    model, _, forward = fake_devices.forward_pass(shape, choice)
                    update = fake_devices.optimizer_step(model, choice)
                found[f"{recipe} {dtype} forward"] = [str(op) for op in forward]
                found[f"{recipe} {dtype} update"] = [str(op) for op in update]
    print(json.dumps(found))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--memory"]:
        print_memory()
        sys.exit()
    if sys.argv[1:2] == ["--graphs"]:
        print_graphs(Path(sys.argv[2]))
        sys.exit()
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3:])
        sys.exit()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", type=Path)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="cases whose name contains one of these")
    parser.add_argument("--keep", type=Path, help="a folder for the runs, to look at them")
    given = parser.parse_args()
    trees = {"before": given.base.resolve(), "now": HERE.parents[1]}
    chosen = [case for case in cases() if not given.only or any(part in case.name for part in given.only)]
    different = 0
    with tempfile.TemporaryDirectory() as temporary:
        place = given.keep or Path(temporary)
        for case in chosen:
            left = [
                run(tree, case, place.resolve() / name / case.name.replace(" ", "-")) for name, tree in trees.items()
            ]
            problems = differences(*left)
            different += bool(problems)
            print(f"{case.name}: {'; '.join(problems) or f'equal ({len(left[0])} things)'}", flush=True)
        counted = [what for what in ("memory", "graphs") if not given.only or what in given.only]
        for what in counted:
            before, now = (printed(what, tree, place) for tree in trees.values())
            different += before != now
            for name in sorted({*before, *now}):
                if before.get(name) != now.get(name):
                    print(f"{what} of {name}: {before.get(name)} → {now.get(name)}")
            print(f"{what}: {len(before)} compared", flush=True)
    print(f"{different} of {len(chosen) + len(counted)} differ")
    sys.exit(bool(different))
