"""One training iteration, nanoscope against nanoGPT, side by side: the same shape, batch, machine and moment.

Both are run as their users run them, as processes of their own, in turns, several times. From each log the median
time of the iterations that hold no evaluation is taken (nanoGPT's clock puts evaluation into the iteration after it).

    python benchmarks/step_time.py --nanogpt PATH [--repeats 3] [--iterations 150] [--json]
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SHAPE = [
    "--device=cpu", "--compile=False", "--eval_iters=20", "--log_interval=1", "--block_size=64", "--batch_size=12",
    "--n_layer=4", "--n_head=4", "--n_embd=128", "--lr_decay_iters=2000", "--dropout=0.0",
]  # fmt: skip
SKIPPED = 10  # the first iterations of each run: caches, the allocator, the clock frequency


def iteration_ms(command: list[str], folder: Path) -> list[float]:
    done = subprocess.run(command, cwd=folder, env=os.environ, capture_output=True, encoding="utf-8")
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-500:]}\n{done.stderr[-1000:]}")
    found = {int(n): float(ms) for n, ms in re.findall(r"^iter (\d+): loss [\d.]+, time ([\d.]+)ms", done.stdout, re.M)}
    return [ms for step, ms in found.items() if step >= SKIPPED and step % 1000]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nanogpt", type=Path, help="a checkout of nanoGPT with data/shakespeare_char prepared")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=150)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    flags = [*SHAPE, f"--max_iters={options.iterations}", "--eval_interval=1000"]
    times: dict[str, list[float]] = {"nanoscope": [], "nanoGPT": []}
    medians: dict[str, list[float]] = {"nanoscope": [], "nanoGPT": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        commands = {"nanoscope": ([sys.executable, "-m", "nanoscope", "train", "babygpt", "--overwrite=True"], folder)}
        if options.nanogpt:
            copy = folder / "nanogpt"
            shutil.copytree(options.nanogpt, copy, ignore=shutil.ignore_patterns(".git", "out*"))
            config = ["config/train_shakespeare_char.py"]
            commands["nanoGPT"] = ([sys.executable, "train.py", *config], copy)
            commands["nanoscope"] = (
                [sys.executable, "-m", "nanoscope", "train", *config, "--overwrite=True", "--out_dir=run"],
                copy,
            )
        for turn in range(options.repeats):
            for system, (command, place) in commands.items():
                found = iteration_ms([*command, *flags], place)
                times[system] += found
                medians[system].append(statistics.median(found))
                print(f"turn {turn + 1}: {system:<10} {medians[system][-1]:7.2f} ms", file=sys.stderr)
    result = {
        system: {"median_ms": statistics.median(values), "of_runs_ms": medians[system]}
        for system, values in times.items()
        if values
    }
    if options.nanogpt:
        ratios = [theirs / ours for theirs, ours in zip(medians["nanoGPT"], medians["nanoscope"], strict=True)]
        result["nanogpt_over_nanoscope"] = {
            "median": statistics.median(ratios),
            "low": min(ratios),
            "high": max(ratios),
        }
    if options.json:
        print(json.dumps(result))
        return
    for system, values in result.items():
        print(system, *(f"{key} {value}" for key, value in values.items()))


if __name__ == "__main__":
    main()
