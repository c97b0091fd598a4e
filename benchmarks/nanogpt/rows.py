"""The rows of the comparison: how each is measured. nanoscope and nanoGPT take turns, so both meet the same load.

A row's result is flat: KEY_UNIT and KEY_nanogpt_UNIT are medians over the turns, KEY_ratio is the median of the ratios
turn by turn (above 1, nanoscope is better), KEY_ratio_low and KEY_ratio_high are the lowest and highest.
"""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

from benchmarks.nanogpt.elsewhere import elsewhere
from benchmarks.nanogpt.texts import TEXTS
from benchmarks.nanogpt.workspace import GPT2_VOCAB_SIZE, README, Workspace, prepare_nanogpt
from nanoscope.errors import JobError

Result = dict[str, Any]

BEST_ON_A_GPU = 1.4697  # what nanoGPT's README reports for its baby GPT on an A100
BABY_ITERATIONS = 2000  # of 5000: about there its validation loss is lowest, before it overfits


def _shape(n_layer: int, n_embd: int, batch_size: int, block_size: int, dropout: float = 0.0) -> dict[str, Any]:
    return {"n_layer": n_layer, "n_head": 4 if n_embd == 128 else n_embd // 64, "n_embd": n_embd,
            "batch_size": batch_size, "block_size": block_size, "dropout": dropout}  # fmt: skip


BABY = _shape(6, 384, 16, 256, 0.2)
SHAPES = {"4x128": _shape(4, 128, 12, 64), "6x384": BABY, "12x768": _shape(12, 768, 1, 512)}
ITERATIONS = {"4x128": 150, "6x384": 5, "12x768": 4}  # about 10 s each on two cores
SAMPLE_TOKENS = 1000


@dataclass
class Bench:
    """Where to measure, how often, and how to report progress."""

    workspace: Workspace
    repeats: int
    seeds: int
    progress: Callable[[str], None]

    def compare(
        self, key: str, unit: str, ours: Callable[[], float], theirs: Callable[[], float], higher_wins: bool = False
    ) -> Result:
        """Measure in turns; the sides alternate in going first."""
        sides = {"nanoscope": ours, "nanoGPT": theirs}
        values: dict[str, list[float]] = {side: [] for side in sides}
        for turn in range(self.repeats):
            for side in list(sides) if turn % 2 == 0 else reversed(sides):
                self.progress(f"{key}: turn {turn + 1} of {self.repeats}, {side}")
                values[side].append(sides[side]())
                self.progress(f"{key}: turn {turn + 1} of {self.repeats}, {side}: {values[side][-1]:.4g} {unit}")
        return compared(key, unit, values["nanoscope"], values["nanoGPT"], higher_wins)

    def compare_task(self, key: str, unit: str, task: str, shape: str, dtype: str = "auto", **arguments: Any) -> Result:
        """The same for a task of both child processes whose result has a figure named `unit`.

        `dtype` is nanoscope's; nanoGPT always uses float32 on a CPU.
        """

        def measured(run: Callable[..., Result], **own: Any) -> float:
            found = run(task, shape=SHAPES[shape], **own, **arguments)[unit]
            return median(found) if isinstance(found, list) else float(found)

        space = self.workspace
        if shape == "12x768":
            ids = str(space.gpt2_ids)
            ours, theirs = {"dataset": ids}, {"dataset": ids, "vocab_size": GPT2_VOCAB_SIZE}
        else:
            ours = {"dataset": str(space.characters)}
            theirs = {"dataset": "data/shakespeare_char", "vocab_size": 65}
        ours["dtype"] = dtype
        return self.compare(key, unit, lambda: measured(space.ours, **ours), lambda: measured(space.theirs, **theirs))


def compared(key: str, unit: str, ours: list[float], theirs: list[float], higher_wins: bool = False) -> Result:
    """The figures of one comparison."""
    ratios = [mine / other if higher_wins else other / mine for mine, other in zip(ours, theirs, strict=True)]
    return {
        f"{key}_{unit}": median(ours),
        f"{key}_nanogpt_{unit}": median(theirs),
        f"{key}_ratio": median(ratios),
        f"{key}_ratio_low": min(ratios),
        f"{key}_ratio_high": max(ratios),
    }


def peak(bench: Bench) -> Result:
    found = {dtype: bench.workspace.ours("peak", dtype=dtype)["gflops"] for dtype in ("float32", "bfloat16")}
    return {f"peak_gflops_{dtype}": gflops for dtype, gflops in found.items() if gflops is not None}


def step(bench: Bench, compile: bool = False, dtype: str = "auto") -> Result:
    """Both eager or both compiled; nanoscope with the dtype it chooses for this CPU, or with this one."""
    result: Result = {}
    for name, iterations in ITERATIONS.items():
        key = f"step_{'compiled_' if compile else ''}{'' if dtype == 'auto' else f'{dtype}_'}{name}"
        result |= bench.compare_task(key, "ms", "step", name, dtype=dtype, compile=compile, iterations=iterations)
    return result


def memory(bench: Bench) -> Result:
    return bench.compare_task("memory", "added_mb", "step", "6x384", compile=False, iterations=3)


def sample(bench: Bench, streams: int = 1) -> Result:
    """nanoGPT's sample.py writes one sample after another: N of them take N times as long."""
    key = "sample" if streams == 1 else f"sample{streams}"
    task = {"shape": {**BABY, "dropout": 0.0}, "tokens": SAMPLE_TOKENS}
    result = bench.compare(
        key,
        "seconds",
        lambda: float(bench.workspace.ours("sample", **task, streams=streams)["seconds"]),
        lambda: streams * float(bench.workspace.theirs("sample", **task)["seconds"]),
    )
    return result | {f"{key}_tokens_per_second": streams * SAMPLE_TOKENS / result[f"{key}_seconds"]}


def evaluation(bench: Bench, dtype: str = "auto") -> Result:
    key = "evaluation" if dtype == "auto" else f"evaluation_{dtype}"
    result = bench.compare_task(key, "seconds", "evaluation", "4x128", dtype=dtype, eval_iters=20)
    return result | bench.compare_task(f"{key}_6x384", "seconds", "evaluation", "6x384", dtype=dtype, eval_iters=5)


# --- whole commands, as a user types them ------------------------------------------------------------------------


def prepare(bench: Bench) -> Result:
    space = bench.workspace
    text = space.text.read_bytes() * 18
    source = space.folder / "20-megabytes.txt"
    source.write_bytes(text)
    words = ["-m", "nanoscope", "prepare", str(source), "--out", "data/20-megabytes", "--tokenizer", "char"]
    theirs = space.folder / "their-prepare"
    theirs.mkdir()
    shutil.copy(space.nanogpt / "data/shakespeare_char/prepare.py", theirs)
    megabytes = len(text) / 1e6
    return bench.compare(
        "prepare",
        "mb_per_second",
        lambda: megabytes / space.command([*words, "--overwrite"], space.folder, "nanoscope prepare")[1],
        lambda: megabytes / prepare_nanogpt(space, theirs, text),
        higher_wins=True,
    )


def neighbours(bench: Bench) -> Result:
    """Iterations right after an evaluation and a save, relative to the run's median, by each side's own log."""
    space = bench.workspace
    often = ["--eval_interval=20", "--max_iters=201", "--log_interval=1", "--device=cpu", "--compile=False"]

    def ours() -> float:
        words = ["-m", "nanoscope", "train", "laptop", f"--dataset={space.characters}", *often]
        words += ["--always_save_checkpoint=True", "--out_dir=often", "--overwrite=True"]
        space.command(words, space.folder, "nanoscope train")
        lines = (space.folder / "often" / "events.jsonl").read_text("utf-8").splitlines()
        events = [event for event in map(json.loads, lines) if event["event"] == "iter"]
        return neighbour_times({event["step"]: event["seconds"] for event in events}, 20)

    def theirs() -> float:
        words = ["train.py", "config/train_shakespeare_char.py", *README, *often, "--always_save_checkpoint=True"]
        printed, _ = space.command(words, space.nanogpt, "nanoGPT's train.py")
        found = re.findall(r"^iter (\d+): loss \S+, time ([\d.]+)ms", printed, re.MULTILINE)
        return neighbour_times({int(number): float(ms) for number, ms in found}, 20)

    result = bench.compare("neighbours", "times", ours, theirs)
    result["neighbour_step_ratio"] = result["neighbours_times"]
    return result


def neighbour_times(durations: dict[int, float], interval: int) -> float:
    """The median iteration after an evaluation, in units of the median iteration; iteration 0 is start-up."""
    near = [seconds for number, seconds in durations.items() if number and number % interval == 0]
    if not near:
        raise JobError("the log shows no iteration after an evaluation")
    return median(near) / median(durations.values())


def time_to_loss(bench: Bench) -> Result:
    """nanoGPT's README command against `nanoscope train quick`, one turn per seed.

    nanoscope evaluates both models after the clock has stopped: the whole validation split in windows of 64.
    """
    space = bench.workspace
    ours: list[tuple[float, float]] = []  # seconds and loss
    theirs: list[tuple[float, float]] = []
    for seed in range(1, bench.seeds + 1):
        bench.progress(f"time_to_loss: turn {seed} of {bench.seeds}, nanoGPT")
        words = ["train.py", "config/train_shakespeare_char.py", *README]
        seconds = space.command(words, space.nanogpt, "nanoGPT's train.py", minutes=60)[1]
        theirs.append((seconds, _val_loss(space, 64, nanogpt=str(space.nanogpt / "out-shakespeare-char"))))
        bench.progress(f"time_to_loss: nanoGPT: {theirs[-1][1]:.4f} in {seconds:.1f} s")
        ours.append(_train_preset(bench, "quick", seed, 64))
    pairs = [(mine[0], their[0]) for mine, their in zip(ours, theirs, strict=True) if mine[1] <= their[1]]
    result = _runs("time_to_loss", "seconds", ours) | {
        "time_to_loss_nanogpt_seconds": median([seconds for seconds, _ in theirs]),
        "time_to_loss_target": median([loss for _, loss in theirs]),
        "time_to_loss_reached": f"{len(pairs)} of {bench.seeds}",
        "time_to_loss_values": [their / mine for mine, their in pairs],
    }
    if pairs:
        result |= compared("time_to_loss", "seconds", [mine for mine, _ in pairs], [their for _, their in pairs])
    return result


def babygpt(bench: Bench) -> Result:
    """`nanoscope train babygpt` to the loss that nanoGPT's baby GPT reaches at its best on an A100.

    nanoGPT's time is extrapolated: its iteration measured here × the 2000 iterations it takes to get there.
    """
    runs = [_train_preset(bench, "babygpt", seed, 256) for seed in range(1, bench.seeds + 1)]
    bench.progress("babygpt: nanoGPT's iteration")
    task = {"shape": {**BABY, "batch_size": 64}, "dataset": "data/shakespeare_char", "vocab_size": 65}
    iteration_ms = median(bench.workspace.theirs("step", **task, compile=False, iterations=3)["ms"])
    minutes = iteration_ms / 60_000 * BABY_ITERATIONS
    reached = [seconds / 60 for seconds, loss in runs if loss <= BEST_ON_A_GPU]
    result = _runs("babygpt", "minutes", [(seconds / 60, loss) for seconds, loss in runs]) | {
        "babygpt_target": BEST_ON_A_GPU,
        "babygpt_reached": f"{len(reached)} of {bench.seeds}",
        "babygpt_nanogpt_minutes": minutes,
    }
    if reached:
        result |= compared("babygpt", "minutes", reached, [minutes] * len(reached))
    return result


def _runs(key: str, unit: str, runs: list[tuple[float, float]]) -> Result:
    times, losses = map(list, zip(*runs, strict=True))
    return {f"{key}_{unit}": median(times), f"{key}_runs": times, f"{key}_losses": losses}


def _train_preset(bench: Bench, preset: str, seed: int, block_size: int) -> tuple[float, float]:
    """Seconds of the whole command, and the loss of its last checkpoint over the whole validation split."""
    bench.progress(f"{preset}: seed {seed} of {bench.seeds}, nanoscope")
    space, run = bench.workspace, f"{preset}-{seed}"
    words = ["-m", "nanoscope", "train", preset, f"--dataset={space.characters}", f"--seed={seed}", "--device=cpu"]
    _, seconds = space.command([*words, f"--out_dir={run}"], space.folder, f"nanoscope train {preset}", minutes=180)
    loss = _val_loss(space, block_size, run=str(space.folder / run))
    bench.progress(f"{preset}: seed {seed} of {bench.seeds}: {loss:.4f} in {seconds:.1f} s")
    return seconds, loss


def _val_loss(space: Workspace, block_size: int, **model: str) -> float:
    return float(space.ours("loss", dataset=str(space.characters), block_size=block_size, **model)["loss"])


ROWS: dict[str, Callable[[Bench], Result]] = {
    "peak": peak,
    "step": step,
    "step_float32": partial(step, dtype="float32"),
    "step_compiled": partial(step, compile=True),
    "step_compiled_float32": partial(step, compile=True, dtype="float32"),
    "memory": memory,
    "sample": sample,
    "sample16": partial(sample, streams=16),
    "evaluation": evaluation,
    "evaluation_float32": partial(evaluation, dtype="float32"),
    "neighbours": neighbours,
    "prepare": prepare,
    "time_to_loss": time_to_loss,
    "babygpt": babygpt,
    **{f"elsewhere_{text.name}": partial(elsewhere, text=text) for text in TEXTS},
}
GROUPS = {"elsewhere": [f"elsewhere_{text.name}" for text in TEXTS]}  # a name that stands for several rows
LONG_ROWS = ("babygpt", *GROUPS["elsewhere"])  # measured only if named


def measure(bench: Bench, name: str) -> Result:
    """A row's figures, or NAME_failed with the reason, so that the other rows are still measured."""
    try:
        return ROWS[name](bench)
    except JobError as error:
        return {f"{name}_failed": str(error)}
