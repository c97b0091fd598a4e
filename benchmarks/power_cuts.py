"""Cut the power at any moment of a run's life, and check that it ends with the same weights, bit for bit.

python benchmarks/power_cuts.py [--cuts 120] [--seed N]

tests/power_cuts.py says how. The cuts are spread evenly over the operations of two runs.
"""

import argparse
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kill_runs import make_folder
from power_cuts import outcome, recorded

COMMON = {
    "device": "cpu", "compile": False, "n_layer": 2, "n_head": 2, "n_embd": 32,
    "block_size": 16, "max_iters": 12, "eval_interval": 3, "eval_iters": 2, "sample_interval": 5, "learning_rate": 0.02,
    "threads": 1, "dtype": "float32",
}  # fmt: skip
RUNS = [
    {**COMMON, "recipe": "modern", "ngrams": 1, "batch_size": 4, "gradient_accumulation_steps": 1, "dropout": 0.2,
     "keep_checkpoints": 1},
    {**COMMON, "recipe": "classic", "order": "epochs", "batch_size": 2, "gradient_accumulation_steps": 3,
     "always_save_checkpoint": False, "warmup_iters": 2},
]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cuts", type=int, default=120)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chooser, results, wrong = random.Random(options.seed), Counter[tuple[str, str]](), 0
    for settings in RUNS:
        with tempfile.TemporaryDirectory(prefix="nanoscope-cuts-") as scratch:
            folder = make_folder(Path(scratch), {"NANOSCOPE_CACHE": scratch})
            recording = recorded(folder, settings, chooser)
            some = recording.cuts[:: max(1, len(RUNS) * len(recording.cuts) // options.cuts)]
            print(f"{len(some)} of {len(recording.cuts)} states after a cut", flush=True)
            for cut in some:
                result, problem = outcome(recording, cut)
                results[cut.phase, result] += 1
                if problem:
                    wrong += 1
                    print(f"{cut.phase}, after {cut.operation}, left: {cut.way}\n  {result}: {problem}", flush=True)
    print("\n| cut while | cuts | outcome |\n| --- | ---: | --- |")
    for phase in dict.fromkeys(phase for phase, _ in results):
        found = {result: number for (when, result), number in results.items() if when == phase}
        said = ", ".join(f"{result} {number}" for result, number in found.items())
        print(f"| {phase} | {sum(found.values())} | {said} |")
    print(f"\n{results.total()} cuts, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
