"""`nanoscope.plan` and `nanoscope.try_`: what a run will take, and what would help it. The commands print the same."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nanoscope.api.runs import Run, words_of
from nanoscope.config_sources import resolve
from nanoscope.errors import UsageError
from nanoscope.findings.declared import Advice
from nanoscope.hardware.probe import make_cpu_ready
from nanoscope.messages import Message, on_terminal

if TYPE_CHECKING:
    from nanoscope.planning.plan import Plan
    from nanoscope.planning.trying import Trials


def plan(preset: str | os.PathLike[str] = "laptop", **settings: Any) -> "Plan":
    """What a run would take: parameters, memory, time, disk. Nothing is trained for longer than some seconds.

    >>> nanoscope.plan("laptop", batch_size=64).seconds
    >>> nanoscope.plan("gpt2-124m", device="RTX 4090").fits

    `preset` and the settings are those of `train`; `device` may also be one that is not here. The figures are described
    in docs/plan.md. `seconds` is None if the run does not fit.
    """
    words = words_of(preset, settings)
    config = resolve(words).config
    make_cpu_ready(config.device, config.dtype, training=True)  # before torch is imported

    from nanoscope.planning.plan import plan_for

    return plan_for(words)


def try_(run: str | os.PathLike[str], *, minutes: float = 5.0) -> "Tried":
    """Try what could be changed about a run, in short runs with and without each change.

    >>> print(nanoscope.try_("runs/laptop", minutes=20))

    Nothing in the run's folder changes. Ctrl-C returns what is known by then.
    """
    from nanoscope.training.console import stages

    if not 0 < minutes < float("inf"):
        raise UsageError("{setting}: must be above 0.", setting=f"--minutes={minutes:g}")
    tried = Run(run)
    advice = tried.explain().advice
    make_cpu_ready(tried.config.device, tried.config.dtype, training=True)

    from nanoscope.planning.trying import try_run  # loads torch, after the environment is set up

    with stages() as show:
        trials = try_run(tried.folder, [each.action for each in advice], minutes, show)
    return Tried(tried.folder, trials, advice)


@dataclass
class Tried:
    """What was tried about a run, and what became of the advice. As a text, what `nanoscope try` prints."""

    folder: Path
    trials: "Trials"
    advice: Sequence[Advice]

    @property
    def complete(self) -> bool:
        """Whether all was tried: Ctrl-C stops before."""
        return self.trials.stopped != Message("interrupted")

    def json(self) -> dict[str, object]:
        """The document of `nanoscope try --json`."""
        trials = self.trials
        return {
            "schema": "nanoscope.try/3",
            "run": str(self.folder),
            "iters": trials.iters,
            "confirmed_iters": trials.confirmed_iters,
            "run_iters": trials.run.max_iters,
            **trials.document(),
            "advice": [{"action": each.action, "fate": trials.fate(each.action)} for each in self.advice],
            "command": trials.command(self.folder),
        }

    def __str__(self) -> str:
        from nanoscope.planning.trying import FATES
        from nanoscope.words.language import choose_language
        from nanoscope.words.sentences import sentence

        language = choose_language()
        said = [on_terminal(text) for text in self.trials.lines()]
        for each in self.advice:
            fate = FATES[self.trials.fate(each.action)]
            said.append(f"{on_terminal(fate)} {sentence(each, language)}")
        if (use := self.trials.command(self.folder)) is not None:
            said.append("\n" + on_terminal(Message("Train with what was confirmed:\n  {command}", command=use)))
        return "\n".join(said)
