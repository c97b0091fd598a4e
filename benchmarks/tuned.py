"""What `nanoscope tune` gains, default against tuned, and that it is never slower. Run it on a quiet machine.

    python benchmarks/tuned.py laptop babygpt --minutes=1.5

Choosing and reporting use separate measurements: after the search, both ways are measured again in new processes, in
turns, and the table has the median and the spread of the pairs.
"""

import argparse
import platform
import sys
import time
from dataclasses import replace
from statistics import median

from nanoscope.config_sources import resolve
from nanoscope.planning.tuning import data_of, tune
from nanoscope.planning.tuning_candidates import Length
from nanoscope.planning.tuning_result import flags
from nanoscope.planning.tuning_rig import ChildRig

ROUNDS, ROUND_SECONDS = 3, 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("presets", nargs="+")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--pairs", type=int, default=4)
    options = parser.parse_args()
    print("| preset | chosen | default a step | tuned a step | ratio of run times: median (all pairs) | search |")
    print("| --- | --- | --- | --- | --- | --- |")
    for words in options.presets:
        print(row(words.split(), options.minutes, options.pairs), flush=True)
    print(f"\n{platform.platform()}, {time.strftime('%Y-%m-%d %H:%M')}")


def row(words: list[str], minutes: float, pairs: int) -> str:
    resolved = resolve(words)
    outcome = tune(resolved, minutes, lambda text: print(text, file=sys.stderr, flush=True))
    name, searched = " ".join(words), f"{outcome.tuned.seconds:.0f} s"
    if not outcome.settings:
        why = str(outcome.tuned.too_slow or "default kept")
        return f"| {name} | {why} | {1e3 * outcome.tuned.default.step_seconds:.1f} ms | the same | 1 | {searched} |"
    data, vocab_size = data_of(resolved.config, lambda text: None)
    ratios, steps = [], []
    for number in range(pairs):
        both = [resolved.config, replace(resolved.config, **outcome.settings)]
        rigs = [ChildRig(config, data=data, vocab_size=vocab_size) for config in both]
        order = rigs[::-1] if number % 2 else rigs
        found = {id(rig): [0.0, 0.0] for rig in rigs}
        rounds = 1 if outcome.tuned.default.step_seconds / resolved.config.gradient_accumulation_steps > 5 else ROUNDS
        for _ in range(rounds):
            for rig in order:
                found[id(rig)][0] += rig.measure("step", ROUND_SECONDS) / rounds
        for rig in order:
            found[id(rig)][1] = rig.measure("eval", ROUND_SECONDS)
        length = Length.of(resolved.config)
        before, after = (length.seconds(*found[id(rig)], rig.facts.compile_seconds) for rig in rigs)
        ratios.append(after / before)
        steps.append([found[id(rig)][0] for rig in rigs])
        for rig in rigs:
            rig.close()
    default, tuned = (1e3 * median(column) for column in zip(*steps, strict=True))
    spread = ", ".join(f"{ratio:.3f}" for ratio in sorted(ratios))
    return (
        f"| {name} | `{flags(outcome.settings)}` | {default:.1f} ms | {tuned:.1f} ms "
        f"| {median(ratios):.3f} ({spread}) | {searched} |"
    )


if __name__ == "__main__":
    main()
