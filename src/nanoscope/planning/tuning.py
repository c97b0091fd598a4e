"""`nanoscope tune` and `train --tune`: search for the fastest way to carry out a run on this machine. Imports no torch.

Everything is measured in child processes, so nothing of this process, of a run or of the machine is changed.
"""

import os
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from nanoscope.config import TrainConfig, build
from nanoscope.config_sources import Resolved
from nanoscope.data.dataset import open_dataset
from nanoscope.data.find import find_dataset
from nanoscope.errors import UsageError
from nanoscope.hardware.load import Load, load_between, read
from nanoscope.hardware.probe import probe_cpu_dtype
from nanoscope.messages import Text
from nanoscope.planning.tuning_candidates import Settings
from nanoscope.planning.tuning_result import Tuned, flags
from nanoscope.planning.tuning_rig import ChildRig
from nanoscope.planning.tuning_search import Tuner, no_report

MINUTES = 2.0
LOOK_SECONDS = 0.5
GPT2_VOCABULARY = 50257


@dataclass(frozen=True)
class Outcome:
    """What was found for a configuration, and how busy the machine was before and after."""

    resolved: Resolved
    tuned: Tuned
    loads: tuple[Load, Load]

    @property
    def settings(self) -> Settings:
        """The changes that were confirmed."""
        return self.tuned.settings

    @property
    def config(self) -> TrainConfig:
        return replace(self.resolved.config, **self.settings)

    @property
    def busy(self) -> Load | None:
        """The load of a machine that was busy with other things."""
        load = max(self.loads, key=lambda each: each.others)
        return load if load.is_busy(load.cores) else None


def tune(resolved: Resolved, minutes: float = MINUTES, report: Callable[[Text], None] = no_report) -> Outcome:
    """Search for about so many minutes. Settings that were typed stay as they are."""
    config = resolved.config
    check_can_tune(resolved)
    data, vocab_size = data_of(config, report)
    before = _load()
    tuner = Tuner(
        config,
        partial(ChildRig, data=data, vocab_size=vocab_size),
        seconds=60 * minutes,
        fixed=resolved.typed,
        logical_cores=_cores(),
        probe=partial(probe_cpu_dtype, "bfloat16"),
        report=report,
    )
    tuned = tuner.run()
    return Outcome(resolved, tuned, (before, _load()))


def check_can_tune(resolved: Resolved) -> None:
    """UsageError where there is nothing to choose: a resumed run, or one of several processes."""
    config = resolved.config
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UsageError(
            "torchrun's processes can't tune\nRun nanoscope tune by itself, then train with the file it writes."
        )
    if config.init_from == "resume":
        raise UsageError(
            "a resumed run keeps its settings, so there is nothing to tune\n"
            "Tune before a run begins, or type what should change: --batch_size=8, --threads=1"
        )
    if config.eval_only:
        raise UsageError("eval_only=True trains nothing, so there is nothing to tune")


def with_settings(resolved: Resolved, settings: Settings) -> Resolved:
    """The same with other settings, as if a file had them."""
    given = {**resolved.given, **settings}
    return replace(resolved, given=given, config=build({**given, "init_from": resolved.config.init_from}))


def in_one_line(outcome: Outcome) -> Text:
    """What was chosen."""
    tuned = outcome.tuned
    if tuned.too_slow is not None:
        return tuned.too_slow
    if tuned.confirmed is None or tuned.tuned is None:
        return Text("the settings are the fastest found")
    return Text(
        "{settings}: {share:.1%} ± {error:.1%} less time, {after:duration} instead of {before:duration}",
        settings=flags(outcome.settings),
        share=tuned.confirmed.share,
        error=tuned.confirmed.error,
        after=tuned.tuned.run_seconds,
        before=tuned.default.run_seconds,
    )


def data_of(config: TrainConfig, report: Callable[[Text], None]) -> tuple[Path | None, int]:
    """The prepared dataset and its vocabulary. A corpus that is known is prepared, as training would do."""
    try:
        with redirect_stdout(sys.stderr):
            folder = find_dataset(config.dataset, config.tokenizer)
    except UsageError:
        if config.tokenizer != "gpt2":
            raise
        report(Text("there is no dataset {name!r} here: measuring with random tokens", name=config.dataset))
        return None, GPT2_VOCABULARY
    return folder, open_dataset(folder).vocab_size


def _load() -> Load:
    """What other processes do, while this one does nothing."""
    before = read()
    time.sleep(LOOK_SECONDS)
    return load_between(before, read())


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
