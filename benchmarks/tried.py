"""Plants five situations in small runs, lets `nanoscope try` find out, and says whether it is right.

python benchmarks/tried.py [--dataset NAME] [--only NAME...] [--repeats 3] [--first_seed N] [--minutes M] [--folder DIR]
python benchmarks/tried.py --sweep       the loss at many learning rates, from other seeds: what 'right' means for rates

About a minute for each situation on one core. Each repeat has another seed of the planted run, and so of the trials.
Whatever is proposed is also trained once more with a seed that neither has seen, beside the planted run.
"""

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nanoscope.config import TrainConfig
from nanoscope.config_sources import resolve
from nanoscope.data.find import find_dataset
from nanoscope.planning.trying import Arms

GOOD = [
    "--recipe=classic", "--n_layer=2", "--n_head=2", "--n_embd=64", "--block_size=32", "--batch_size=8",
    "--gradient_accumulation_steps=1", "--dropout=0.0", "--max_iters=250", "--learning_rate=2e-3", "--warmup_iters=25",
    "--beta2=0.99", "--eval_interval=125", "--eval_iters=25", "--log_interval=10", "--device=cpu", "--compile=False",
    "--dtype=float32",
]  # fmt: skip
FRESH_SEEDS = 3
NEAR_THE_BEST = 3.4  # times: how far a proposed rate may be from the best of the sweep; the sweep's steps are 3.2
SWEPT = 0.03, 0.1, 0.32, 1.0, 3.2, 10.0, 32.0


@dataclass(frozen=True)
class Situation:
    name: str
    settings: str
    is_right: Callable[[dict[str, Any], TrainConfig], bool]


def proposed(document: dict[str, Any], question: str) -> bool:
    return any(each["question"] == question and each["verdict"] == "helps" for each in document["findings"])


def rate_is_near(document: dict[str, Any], config: TrainConfig, lower: bool, best: float) -> bool:
    rate = config.peak_lr * config.lr_scale
    near = best / NEAR_THE_BEST < rate < best * NEAR_THE_BEST
    return proposed(document, "lower_rate" if lower else "higher_rate") and near


def situations(best: float) -> list[Situation]:
    """`best` is the rate with the lowest loss in the sweep of GOOD."""
    return [
        Situation("rate × 10", "--learning_rate=2e-2", lambda d, c: rate_is_near(d, c, True, best)),
        Situation("rate ÷ 10", "--learning_rate=2e-4", lambda d, c: rate_is_near(d, c, False, best)),
        Situation(
            "batch too small",
            "--batch_size=1 --eval_iters=200 --max_iters=700 --warmup_iters=70 --eval_interval=350",
            lambda d, c: proposed(d, "larger_batch"),
        ),
        Situation(
            "no warm-up",
            "--n_layer=4 --learning_rate=5e-3 --warmup_iters=0 --max_iters=200 --eval_interval=100",
            lambda d, c: proposed(d, "warm_up"),
        ),
        Situation("already good", "", lambda d, c: d["command"] is None),
    ]


def nanoscope(*words: str) -> str:
    done = subprocess.run([sys.executable, "-m", "nanoscope", *words], capture_output=True, text=True, encoding="utf-8")
    if done.returncode:
        sys.exit(f"nanoscope {shlex.join(words)}: {done.stderr}")
    return done.stdout


def arms_of(config: TrainConfig, run: Path | None = None) -> Arms:
    return Arms(replace(config, dataset=str(find_dataset(config.dataset, config.tokenizer, run=run))))


def final_loss(arms: Arms, config: TrainConfig, seed: int) -> float:
    return arms.train(replace(config, seed=seed), windows=400).loss


def fresh_gain(arms: Arms, planted: TrainConfig, command: str) -> list[float]:
    """What the proposed command gains over the planted run, with seeds that the trials have not seen."""
    better = resolve(shlex.split(command)[2:]).config
    seeds = [planted.seed + 1000 + number for number in range(FRESH_SEEDS)]
    return [final_loss(arms, planted, seed) - final_loss(arms, better, seed) for seed in seeds]


def sweep(dataset: str) -> None:
    config = resolve([*GOOD, f"--dataset={dataset}"]).config
    arms = arms_of(config)
    for factor in SWEPT:
        losses = [final_loss(arms, replace(config, lr_scale=factor), 9000 + number) for number in range(3)]
        print(f"rate {config.peak_lr * factor:.2g}: {' '.join(f'{loss:.4f}' for loss in losses)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="shakespeare")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--first_seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--best_rate", type=float, default=2e-3, help="of --sweep on this dataset")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--sweep", action="store_true")
    options = parser.parse_args()
    if options.sweep:
        sweep(options.dataset)
        return
    print(f"{platform.processor() or platform.machine()}, OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', 'unset')}")
    with tempfile.TemporaryDirectory() as scratch:
        root = options.folder or Path(scratch)
        for situation in situations(options.best_rate):
            for number in range(options.repeats):
                if not options.only or any(word in situation.name for word in options.only):
                    one(situation, options.first_seed + 10 * number, options, root)


def one(situation: Situation, seed: int, options: argparse.Namespace, root: Path) -> None:
    folder = root / f"{situation.name.replace(' ', '-')}-{seed}"
    words = [*GOOD, f"--dataset={options.dataset}", *situation.settings.split(), f"--seed={seed}"]
    nanoscope("train", *words, f"--out_dir={folder}", "--overwrite=True")
    document = json.loads(nanoscope("try", str(folder), "--json", f"--minutes={options.minutes}"))
    folder.with_suffix(".json").write_text(json.dumps(document, indent=1), encoding="utf-8")
    planted = resolve([str(folder)]).config
    command = document["command"]
    config = resolve(shlex.split(command)[2:]).config if command else planted
    right = situation.is_right(document, config)
    helps = [each for each in document["findings"] if each["verdict"] == "helps"]
    told = [
        f"{each['question']} {' '.join(f'{k}={v}' for k, v in each['best']['settings'].items())}: "
        + "{mean:.3f} ± {error:.3f} ({pairs} pairs)".format(**each["best"]["gain"])
        for each in helps
    ]
    fresh = ""
    if command:
        gains = fresh_gain(arms_of(planted, folder), planted, command)
        right = right and sum(gains) > 0
        fresh = f"; again with other seeds: {' '.join(f'{gain:+.3f}' for gain in gains)}"
    said = "; ".join(told) or "nothing to change"
    print(f"{situation.name:<22} seed {seed:<4} {'right' if right else 'WRONG'}  {said}{fresh}", flush=True)


if __name__ == "__main__":
    main()
