"""What `nanoscope tune` gains, default against tuned, and that it is never slower. Run it on a quiet machine.

    python benchmarks/tuned.py laptop babygpt --minutes=1.5

Choosing and reporting use separate measurements: after the search, both ways are measured again in new processes, in
turns, and the table has the median and the spread of the pairs.
"""

import argparse
import platform
import sys
import time
from contextlib import ExitStack, closing
from dataclasses import replace
from statistics import mean, median

from nanoscope.config import TrainConfig
from nanoscope.config_sources import resolve
from nanoscope.data.find import find_dataset
from nanoscope.planning.rig import Rig
from nanoscope.planning.search import Settings, flags
from nanoscope.planning.tuning import tune

ROUNDS, ROUND_SECONDS, LONG_SECONDS = 3, 1.0, 20.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("presets", nargs="+", help="a preset, and flags in the same word")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--pairs", type=int, default=4, help="of processes to report; 0: search only")
    parser.add_argument("--chosen", default="", help="report these flags instead of searching")
    options = parser.parse_args()
    print("| preset | chosen | default a step | tuned a step | ratio of run times: median (all pairs) | search |")
    print("| --- | --- | --- | --- | --- | --- |")
    for words in options.presets:
        print(row(words.split(), options.minutes, options.pairs, options.chosen.split()), flush=True)
    print(f"\n{platform.platform()}, {time.strftime('%Y-%m-%d %H:%M')}")


def row(words: list[str], minutes: float, pairs: int, chosen: list[str]) -> str:
    resolved, name, searched = resolve(words), " ".join(words), "before"
    settings = resolve(["laptop", *chosen]).typed
    if not chosen:
        began = time.monotonic()
        tuned = tune(resolved, minutes, lambda text: print(text, file=sys.stderr, flush=True))
        settings, searched = tuned.settings, f"{time.monotonic() - began:.0f} s"
        print(tuned.summary(), file=sys.stderr, flush=True)
        if not settings:
            step = f"{1e3 * tuned.default.step:.1f} ms"
            return f"| {name} | {tuned.summary()} | {step} | the same | 1 | {searched} |"
    if not pairs:
        return f"| {name} | `{flags(settings)}` | | | not reported | {searched} |"
    ratios, steps = zip(*(pair(resolved.config, settings, number) for number in range(pairs)), strict=True)
    default, tuned = (1e3 * median(column) for column in zip(*steps, strict=True))
    spread = ", ".join(f"{ratio:.3f}" for ratio in sorted(ratios))
    return (
        f"| {name} | `{flags(settings)}` | {default:.1f} ms | {tuned:.1f} ms "
        f"| {median(ratios):.3f} ({spread}) | {searched} |"
    )


def pair(config: TrainConfig, settings: Settings, number: int) -> tuple[float, list[float]]:
    """Both ways in new processes, in turns: the ratio of the run's times, and the seconds of a step of each."""
    config = replace(config, dataset=str(find_dataset(config.dataset, config.tokenizer)), tokenizer="auto")
    with ExitStack() as rigs:
        both = [rigs.enter_context(closing(Rig(each))) for each in (config, replace(config, **settings))]
        order = [1, 0] if number % 2 else [0, 1]
        runs: list[list[float]] = [[], []]
        steps: list[list[float]] = [[], []]
        began = time.monotonic()
        for _ in range(ROUNDS):
            for side in order:
                figures = both[side].measure(ROUND_SECONDS)
                runs[side].append(figures.run)
                steps[side].append(figures.step)
            if time.monotonic() - began > LONG_SECONDS:
                break
    return mean(runs[1]) / mean(runs[0]), [mean(each) for each in steps]


if __name__ == "__main__":
    main()
