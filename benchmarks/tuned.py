"""What `nanoscope tune` gains, default against tuned, and that it is never slower. Run it on a quiet machine.

    python benchmarks/tuned.py laptop babygpt --minutes=1.5

Choosing and reporting use separate measurements: after the search, both ways are measured again in new processes, in
turns, and the table has the median and the spread of the pairs.
"""

import argparse
import platform
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from statistics import mean, median

from nanoscope.config import TrainConfig
from nanoscope.config_sources import resolve
from nanoscope.planning.tuning import data_of, in_one_line, tune
from nanoscope.planning.tuning_candidates import Length, Settings
from nanoscope.planning.tuning_result import flags
from nanoscope.planning.tuning_rig import ChildRig

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
        outcome = tune(resolved, minutes, lambda text: print(text, file=sys.stderr, flush=True))
        settings, searched = outcome.settings, f"{outcome.tuned.seconds:.0f} s"
        print(in_one_line(outcome), file=sys.stderr, flush=True)
        if not settings:
            why = str(outcome.tuned.too_slow or "default kept")
            return f"| {name} | {why} | {1e3 * outcome.tuned.default.step_seconds:.1f} ms | the same | 1 | {searched} |"
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
    data, vocab_size = data_of(config, lambda text: None)
    both = [config, replace(config, **settings)]
    with ExitStack() as rigs:
        opened = [ChildRig(each, data=data, vocab_size=vocab_size) for each in both]
        for rig in opened:
            rigs.callback(rig.close)
        order = [1, 0] if number % 2 else [0, 1]
        steps: list[list[float]] = [[], []]
        evaluations = [0.0, 0.0]
        began = time.monotonic()
        for _ in range(ROUNDS):
            for side in order:
                steps[side].append(opened[side].measure("step", ROUND_SECONDS))
            if time.monotonic() - began > LONG_SECONDS:
                break
        for side in order:
            evaluations[side] = opened[side].measure("eval", ROUND_SECONDS)
        means, length = [mean(each) for each in steps], Length.of(config)
        before, after = (
            length.seconds(means[side], evaluations[side], opened[side].facts.compile_seconds) for side in (0, 1)
        )
    return after / before, means


if __name__ == "__main__":
    main()
