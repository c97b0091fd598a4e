"""What came of a search, and how a trial is described in a line."""

from dataclasses import dataclass, field

from nanoscope.messages import Text
from nanoscope.planning.tuning_candidates import Facts, Settings
from nanoscope.planning.tuning_pairs import Gain


@dataclass(frozen=True)
class Trial:
    """One change that was tried, or was not for a reason."""

    settings: Settings
    gain: Gain | None = None
    """Of the whole run's time, against the best settings before it."""
    reason: Text | None = None
    """Why it is not used; None if it is."""


@dataclass(frozen=True)
class Figures:
    """What a configuration takes on this machine."""

    step_seconds: float
    eval_seconds: float
    run_seconds: float
    memory_bytes: int


@dataclass
class Tuned:
    """What came of it. `settings` are the changes that were confirmed: none if the settings are the fastest found."""

    facts: Facts
    default: Figures
    memory_bytes: int
    """What the run can have."""
    settings: Settings = field(default_factory=dict)
    tuned: Figures | None = None
    confirmed: Gain | None = None
    """Of all changes together, from the confirmation alone."""
    compile_seconds: float = 0.0
    """What compiling takes, if it was chosen: counted in the run's time."""
    trials: list[Trial] = field(default_factory=list)
    too_slow: Text | None = None
    """Why nothing could be compared."""
    seconds: float = 0.0
    interrupted: bool = False


def flags(settings: Settings) -> str:
    """Settings as they are typed."""
    return " ".join(f"--{key}={value}" for key, value in settings.items())


def describe(trial: Trial) -> Text:
    """A trial in one line."""
    settings = flags(trial.settings)
    if trial.gain is None:
        return Text("{settings}: {reason}", settings=settings, reason=trial.reason)
    gain = described(trial.gain)
    if trial.reason is None:
        return Text("{settings}: {gain}", settings=settings, gain=gain)
    return Text("{settings}: {gain}; {reason}", settings=settings, gain=gain, reason=trial.reason)


def described(gain: Gain) -> Text:
    """A gain in words, with its error."""
    share, error = abs(gain.share), gain.error
    if gain.pairs == 1:
        if gain.share < 0:
            return Text("about {share:.1%} longer (one pair)", share=share)
        return Text("about {share:.1%} shorter (one pair)", share=share)
    if gain.share < 0:
        return Text("{share:.1%} ± {error:.1%} longer", share=share, error=error)
    return Text("{share:.1%} ± {error:.1%} shorter", share=share, error=error)
