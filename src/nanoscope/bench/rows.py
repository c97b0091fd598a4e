"""The rows of the bench: how each is measured. nanoscope and nanoGPT take turns, so that both meet the same moments.

A row's result is flat: KEY_UNIT and KEY_nanogpt_UNIT are medians over the turns, KEY_ratio is the median of the ratio
turn by turn (above 1: nanoscope is better), KEY_ratio_low and KEY_ratio_high its lowest and highest.
"""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from nanoscope.bench.workspace import GPT2_VOCAB_SIZE, Workspace, prepare_nanogpt
from nanoscope.errors import JobError

Result = dict[str, Any]

README = [
    "--device=cpu", "--compile=False", "--eval_iters=20", "--log_interval=1", "--block_size=64", "--batch_size=12",
    "--n_layer=4", "--n_head=4", "--n_embd=128", "--max_iters=2000", "--lr_decay_iters=2000", "--dropout=0.0",
]  # fmt: skip
"""The flags of the command for CPUs in nanoGPT's README."""
BEST_ON_A_GPU = 1.4697  # what nanoGPT's README reports for its baby GPT on an A100
BABY_ITERATIONS = 2000  # of 5000: about there its validation loss is lowest, before it overfits


def _shape(n_layer: int, n_embd: int, batch_size: int, block_size: int, dropout: float = 0.0) -> dict[str, Any]:
    return {"n_layer": n_layer, "n_head": 4 if n_embd == 128 else n_embd // 64, "n_embd": n_embd,
            "batch_size": batch_size, "block_size": block_size, "dropout": dropout}  # fmt: skip


SMALL, BABY, GPT2 = _shape(4, 128, 12, 64), _shape(6, 384, 16, 256, 0.2), _shape(12, 768, 1, 512)
SHAPES = {"4x128": SMALL, "6x384": BABY, "12x768": GPT2}
STEP_SECONDS = {"4x128": 8, "6x384": 12, "12x768": 12}


@dataclass
class Bench:
    """The workspace, and how often and for whom to measure."""

    workspace: Workspace
    repeats: int
    seeds: int
    say: Callable[[str], None]

    @property
    def side_by_side(self) -> bool:
        return self.workspace.checkout is not None

    def compare(
        self, key: str, unit: str, ours: Callable[[], float], theirs: Callable[[], float], higher_wins: bool = False
    ) -> Result:
        """Measure in turns, each side first every other time."""
        values: dict[str, list[float]] = {"nanoscope": [], "nanoGPT": []}
        sides = {"nanoscope": ours, "nanoGPT": theirs} if self.side_by_side else {"nanoscope": ours}
        for turn in range(self.repeats):
            for side in list(sides) if turn % 2 == 0 else reversed(sides):
                self.say(f"{key}: turn {turn + 1} of {self.repeats}, {side}")
                values[side].append(sides[side]())
                self.say(f"{key}: turn {turn + 1} of {self.repeats}, {side}: {values[side][-1]:.4g} {unit}")
        return compared(key, unit, values["nanoscope"], values["nanoGPT"], higher_wins)

    def compare_task(
        self, key: str, unit: str, task: str, shape: str, their_arguments: Result | None = None, **arguments: Any
    ) -> Result:
        """The same for a task of the two child processes whose result is called as its unit."""

        def measured(run: Callable[..., Result], **told: Any) -> float:
            found = run(task, shape=SHAPES[shape], **told, **arguments)[unit]
            return median(found) if isinstance(found, list) else float(found)

        space = self.workspace
        if shape == "12x768":
            ids = str(space.gpt2_ids)
            ours, theirs = {"dataset": ids}, {"dataset": ids, "vocab_size": GPT2_VOCAB_SIZE}
        else:
            ours = {"dataset": str(space.characters)}
            theirs = {"dataset": "data/shakespeare_char", "vocab_size": 65}
        theirs |= their_arguments or {}
        return self.compare(key, unit, lambda: measured(space.ours, **ours), lambda: measured(space.theirs, **theirs))


def compared(key: str, unit: str, ours: list[float], theirs: list[float], higher_wins: bool = False) -> Result:
    """The figures of one comparison; `theirs` is empty where there is no nanoGPT."""
    result: Result = {f"{key}_{unit}": median(ours)}
    if theirs:
        pairs = zip(ours, theirs, strict=True)
        ratios = [mine / other if higher_wins else other / mine for mine, other in pairs]
        result |= {
            f"{key}_nanogpt_{unit}": median(theirs),
            f"{key}_ratio": median(ratios),
            f"{key}_ratio_low": min(ratios),
            f"{key}_ratio_high": max(ratios),
        }
    return result


def peak(bench: Bench) -> Result:
    found = {dtype: bench.workspace.ours("peak", dtype=dtype)["gflops"] for dtype in ("float32", "bfloat16")}
    return {f"peak_gflops_{dtype}": gflops for dtype, gflops in found.items() if gflops is not None}


def step(bench: Bench, compile: bool = False) -> Result:
    """What a person gets by default, eager on a CPU, against nanoGPT's, eager or compiled."""
    result: Result = {}
    for name, seconds in STEP_SECONDS.items():
        key = f"step_{'against_compiled_' if compile else ''}{name}"
        result |= bench.compare_task(key, "ms", "step", name, their_arguments={"compile": compile}, seconds=seconds)
    return result


def memory(bench: Bench) -> Result:
    return bench.compare_task("memory", "added_mb", "step", "6x384", their_arguments={"compile": False}, seconds=0)


SAMPLE_TOKENS = 1000


def sample(bench: Bench, streams: int = 1) -> Result:
    """nanoGPT's sample.py makes its samples one after another: several of them take that many times as long."""
    key = "sample" if streams == 1 else f"sample{streams}"
    shape = {**BABY, "dropout": 0.0}
    result = bench.compare(
        key,
        "seconds",
        lambda: float(bench.workspace.ours("sample", shape=shape, tokens=SAMPLE_TOKENS, streams=streams)["seconds"]),
        lambda: streams * float(bench.workspace.theirs("sample", shape=shape, tokens=SAMPLE_TOKENS)["seconds"]),
    )
    return result | {f"{key}_tokens_per_second": streams * SAMPLE_TOKENS / result[f"{key}_seconds"]}


def evaluation(bench: Bench) -> Result:
    result = bench.compare_task("evaluation", "seconds", "evaluation", "4x128", eval_iters=20)
    return result | bench.compare_task("evaluation_6x384", "seconds", "evaluation", "6x384", eval_iters=5)


def checkpoint(bench: Bench) -> Result:
    """Nothing of nanoGPT's: against a save of the same state for which training waits."""
    result: Result = {}
    for name, shape, seconds in (("4x128", SMALL, 20), ("6x384", {**BABY, "batch_size": 4, "block_size": 64}, 40)):
        found = []
        for turn in range(bench.repeats):
            bench.say(f"checkpoint_{name}: turn {turn + 1} of {bench.repeats}")
            dataset = str(bench.workspace.characters)
            found.append(
                bench.workspace.ours("checkpoint", shape=shape, dataset=dataset, seconds=seconds, quiet_steps=15)
            )
        for unit in ("held_up", "blocked"):
            shares = [turn[f"{unit}_ms"] / turn["synchronous_ms"] for turn in found]
            key = f"checkpoint_{name}_{unit}"
            result |= {
                f"{key}_share": median(shares),
                f"{key}_share_low": min(shares),
                f"{key}_share_high": max(shares),
            }
            result[f"{key}_ms"] = median([turn[f"{unit}_ms"] for turn in found])
        result[f"checkpoint_{name}_synchronous_ms"] = median([turn["synchronous_ms"] for turn in found])
    for unit in ("held_up", "blocked"):  # the worse of the two
        result[f"checkpoint_{unit}_share"] = max(
            result[f"checkpoint_{name}_{unit}_share"] for name in ("4x128", "6x384")
        )
    return result


# --- whole commands, as a person types them ----------------------------------------------------------------------


def prepare(bench: Bench) -> Result:
    space = bench.workspace
    text = space.text.read_bytes() * 18
    source = space.folder / "20-megabytes.txt"
    source.write_bytes(text)
    words = ["-m", "nanoscope", "prepare", str(source), "--out", "data/20-megabytes", "--tokenizer", "char"]
    theirs = space.folder / "their-prepare"
    if bench.side_by_side:
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
    """The iterations right after an evaluation and a save, against the run's median one, by each side's own log."""
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
    """How many times the median iteration those right after an evaluation take; the first one is start-up's."""
    near = [seconds for number, seconds in durations.items() if number and number % interval == 0]
    if not near:
        raise JobError("the log shows no iteration after an evaluation")
    return median(near) / median(durations.values())


def time_to_loss(bench: Bench) -> Result:
    """nanoGPT's README command against `nanoscope train quick`, each seed in a turn of its own.

    Both models are evaluated by nanoscope, after the clock has stopped: the whole validation split in windows of 64.
    """
    space = bench.workspace
    ours: list[tuple[float, float]] = []  # seconds and loss
    theirs: list[tuple[float, float]] = []
    for seed in range(1, bench.seeds + 1):
        if bench.side_by_side:
            bench.say(f"time_to_loss: turn {seed} of {bench.seeds}, nanoGPT")
            words = ["train.py", "config/train_shakespeare_char.py", *README]
            seconds = space.command(words, space.nanogpt, "nanoGPT's train.py", minutes=60)[1]
            theirs.append((seconds, _val_loss(space, 64, nanogpt=str(space.nanogpt / "out-shakespeare-char"))))
            bench.say(f"time_to_loss: nanoGPT: {theirs[-1][1]:.4f} in {seconds:.1f} s")
        ours.append(_train_preset(bench, "quick", seed, 64))
    result = _runs("time_to_loss", "seconds", ours)
    if theirs:
        pairs = [(mine[0], their[0]) for mine, their in zip(ours, theirs, strict=True) if mine[1] <= their[1]]
        result |= {
            "time_to_loss_nanogpt_seconds": median([seconds for seconds, _ in theirs]),
            "time_to_loss_target": median([loss for _, loss in theirs]),
            "time_to_loss_reached": f"{len(pairs)} of {bench.seeds}",
            "time_to_loss_values": [their / mine for mine, their in pairs],
        }
        if pairs:
            result |= compared("time_to_loss", "seconds", [mine for mine, _ in pairs], [their for _, their in pairs])
    return result


def babygpt(bench: Bench) -> Result:
    """`nanoscope train babygpt` to the loss that nanoGPT's baby GPT has at its best on an A100.

    nanoGPT's own time is extrapolated: its iteration measured here, times the 2000 after which it is at its best.
    """
    runs = [_train_preset(bench, "babygpt", seed, 256) for seed in range(1, bench.seeds + 1)]
    result = _runs("babygpt", "minutes", [(seconds / 60, loss) for seconds, loss in runs])
    reached = [seconds / 60 for seconds, loss in runs if loss <= BEST_ON_A_GPU]
    result |= {"babygpt_target": BEST_ON_A_GPU, "babygpt_reached": f"{len(reached)} of {bench.seeds}"}
    if bench.side_by_side:
        bench.say("babygpt: nanoGPT's iteration")
        told = {"shape": {**BABY, "batch_size": 64}, "dataset": "data/shakespeare_char", "vocab_size": 65}
        iteration_ms = median(bench.workspace.theirs("step", **told, compile=False, seconds=0)["ms"])
        minutes = iteration_ms / 60_000 * BABY_ITERATIONS
        result |= {"babygpt_nanogpt_minutes": minutes}
        if reached:
            result |= compared("babygpt", "minutes", reached, [minutes] * len(reached))
    return result


def _runs(key: str, unit: str, runs: list[tuple[float, float]]) -> Result:
    times, losses = map(list, zip(*runs, strict=True))
    return {f"{key}_{unit}": median(times), f"{key}_runs": times, f"{key}_losses": losses}


def _train_preset(bench: Bench, preset: str, seed: int, block_size: int) -> tuple[float, float]:
    """Seconds of the whole command, and the loss of its last checkpoint over the whole validation split."""
    bench.say(f"{preset}: seed {seed} of {bench.seeds}, nanoscope")
    space, run = bench.workspace, f"{preset}-{seed}"
    words = ["-m", "nanoscope", "train", preset, f"--dataset={space.characters}", f"--seed={seed}", "--device=cpu"]
    _, seconds = space.command([*words, f"--out_dir={run}"], space.folder, f"nanoscope train {preset}", minutes=180)
    loss = _val_loss(space, block_size, run=str(space.folder / run))
    bench.say(f"{preset}: seed {seed} of {bench.seeds}: {loss:.4f} in {seconds:.1f} s")
    return seconds, loss


def _val_loss(space: Workspace, block_size: int, **model: str) -> float:
    return float(space.ours("loss", dataset=str(space.characters), block_size=block_size, **model)["loss"])


@dataclass(frozen=True)
class Row:
    measure: Callable[[Bench], Result]
    minutes: float
    """About how long a turn takes on two cores, both sides together."""
    by_seeds: bool = False
    long: bool = False


ROWS = {
    "peak": Row(peak, 0.1),
    "step": Row(step, 2),
    "step_compiled": Row(lambda bench: step(bench, compile=True), 5),
    "memory": Row(memory, 1),
    "sample": Row(sample, 1),
    "sample16": Row(lambda bench: sample(bench, streams=16), 1.5),
    "evaluation": Row(evaluation, 0.8),
    "checkpoint": Row(checkpoint, 1.3),
    "neighbours": Row(neighbours, 1.5),
    "prepare": Row(prepare, 0.2),
    "time_to_loss": Row(time_to_loss, 2, by_seeds=True),
    "babygpt": Row(babygpt, 20, by_seeds=True, long=True),
}


def expected_minutes(names: list[str], repeats: int, seeds: int) -> float:
    return sum(ROWS[name].minutes * (seeds if ROWS[name].by_seeds else repeats) for name in names)


def measure(bench: Bench, name: str) -> Result:
    """A row's figures; what could not be measured is told as NAME_failed, for the other rows can be."""
    try:
        return ROWS[name].measure(bench)
    except JobError as error:
        return {f"{name}_failed": str(error)}
