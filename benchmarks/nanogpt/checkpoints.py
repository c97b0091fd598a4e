"""nanoGPT's real ckpt.pt in nanoscope: evaluated to the same loss, and resumed without a jump.

python -m benchmarks.nanogpt.checkpoints --nanogpt PATH [--iterations 500] [--json]

nanoGPT trains its small model for some iterations. Its own code and `nanoscope eval` measure the checkpoint in the same
windows; then nanoGPT and nanoscope each resume it for 100 iterations. Exit status 1 if the losses differ by more than
1e-4, or the curves by more than their noise. Takes about two minutes on two cores.
"""

import argparse
import json
import math
import re
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks.nanogpt.workspace import README, Workspace, check_nanogpt
from nanoscope.errors import JobError, UsageError

OUT = "out-shakespeare-char"
RESUMED = 100  # iterations
SAME_LOSS = 1e-4
NEAR = 20  # iterations before and after the resume that are compared
SIGMAS = 3.5


def check(space: Workspace, iterations: int) -> dict[str, Any]:
    """The figures of all comparisons; `failed` lists those that are out of bounds."""
    before = _train(space, iterations)
    shutil.copytree(space.nanogpt / OUT, space.nanogpt / "out-theirs")
    theirs = float(space.theirs("loss", checkpoint=f"{OUT}/ckpt.pt", dataset="data/shakespeare_char")["loss"])
    ours = _evaluate(space, OUT)
    goes_on = _train(space, iterations + RESUMED, "--init_from=resume", "--out_dir=out-theirs")
    resumed = _resume(space, iterations + RESUMED)
    found = {
        "iterations": iterations, "val_loss_nanogpt": theirs, "val_loss": ours, "val_loss_difference": ours - theirs,
        "train_loss_before": mean(before[-NEAR:]), "train_loss_after": mean(resumed[:NEAR]),
        "train_loss_after_nanogpt": mean(goes_on[:NEAR]), "train_loss_last": mean(resumed[-NEAR:]),
        "train_loss_last_nanogpt": mean(goes_on[-NEAR:]), "val_loss_resumed": _evaluate(space, OUT),
        "val_loss_resumed_nanogpt": _evaluate(space, "out-theirs/ckpt.pt"),
    }  # fmt: skip
    noise = stdev(before[-NEAR:]) * math.sqrt(2 / NEAR)
    limits = {
        "the same windows": (ours - theirs, SAME_LOSS),
        "no rise at the resume": (max(0, found["train_loss_after"] - found["train_loss_before"]), SIGMAS * noise),
        "after the resume": (found["train_loss_after"] - found["train_loss_after_nanogpt"], SIGMAS * noise),
        "at the end": (found["train_loss_last"] - found["train_loss_last_nanogpt"], SIGMAS * noise),
    }
    return found | {"noise": noise, "failed": [name for name, (off, most) in limits.items() if not abs(off) <= most]}


def _train(space: Workspace, iterations: int, *more: str) -> list[float]:
    """Losses of nanoGPT's train.py, which saves a checkpoint at the last iteration."""
    flags = [flag for flag in README if not flag.startswith("--max_iters")]
    # It saves only where it evaluates, and never at iteration 0.
    flags += [f"--max_iters={iterations}", f"--eval_interval={iterations}", "--always_save_checkpoint=True", *more]
    printed, _ = space.command(
        ["train.py", "config/train_shakespeare_char.py", *flags], space.nanogpt, "nanoGPT's train.py"
    )
    return [float(loss) for loss in re.findall(r"^iter \d+: loss (\S+),", printed, re.MULTILINE)]


def _evaluate(space: Workspace, model: str) -> float:
    """The loss over the whole validation split by `nanoscope eval`."""
    words = [
        "-m",
        "nanoscope",
        "eval",
        model,
        "--dataset=shakespeare_char",
        "--device=cpu",
        "--dtype=float32",
        "--json",
    ]
    printed, _ = space.command([*words, "--checkpoint=last"], space.nanogpt, "nanoscope eval")
    return float(json.loads(printed)["scores"][0]["loss"])


def _resume(space: Workspace, iterations: int) -> list[float]:
    words = ["-m", "nanoscope", "train", OUT, "--init_from=resume", f"--max_iters={iterations}", "--device=cpu"]
    space.command([*words, "--dtype=float32", "--compile=False"], space.nanogpt, "nanoscope train")
    lines = (space.nanogpt / OUT / "events.jsonl").read_text("utf-8").splitlines()
    return [event["loss"] for event in map(json.loads, lines) if event["event"] == "iter"]


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.nanogpt.checkpoints", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--nanogpt", type=Path, required=True, metavar="PATH", help="a checkout; it is copied")
    parser.add_argument("--iterations", type=int, default=500, help="that nanoGPT trains before the checkpoint")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(words)
    try:
        check_nanogpt(options.nanogpt)
        with tempfile.TemporaryDirectory(prefix="nanoscope-bench-", ignore_cleanup_errors=True) as folder:
            found = check(Workspace(Path(folder), options.nanogpt), options.iterations)
    except (JobError, UsageError) as error:
        print(error, file=sys.stderr)
        return error.exit_status
    if options.json:
        print(json.dumps(found))
    else:
        print("\n".join(f"{key:<28} {value:.6g}" for key, value in found.items() if isinstance(value, float)))
        print("out of bounds: " + ", ".join(found["failed"]) if found["failed"] else "all within bounds")
    return 1 if found["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
