"""What `nanoscope tune` writes: a TOML file for `nanoscope train`, with what was tried in its comments, and JSON."""

import hashlib
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from nanoscope.config import toml_value, without_options
from nanoscope.config_sources import Resolved
from nanoscope.errors import JobError, UsageError, why
from nanoscope.files import write_atomically
from nanoscope.messages import Text, printable
from nanoscope.planning.tuning import Outcome, in_one_line
from nanoscope.planning.tuning_result import Trial, describe, described
from nanoscope.version import __version__

MARK = "# Written by nanoscope tune"
PLACES = ("out_dir", "init_from")  # of a source that is a run


def default_file(resolved: Resolved) -> Path:
    return Path(f"tuned-{resolved.name}.toml")


def check_file(path: Path, *, overwrite: bool) -> None:
    """UsageError for a file that holds something else than what tune wrote there, unless it may be overwritten."""
    if path.suffix != ".toml":
        raise UsageError("--out={path} must end in .toml, so that nanoscope train can read it", path=path)
    try:
        written = path.read_text("utf-8") if path.exists() else None
    except (OSError, UnicodeDecodeError):
        written = ""
    if written is not None and not _is_ours(written) and not overwrite:
        raise UsageError(
            "{path} exists, and is not as nanoscope tune wrote it\n"
            "Choose another name: --out=FILE. Or overwrite it: --overwrite=True",
            path=path,
        )


def _is_ours(text: str) -> bool:
    first, _, rest = text.partition("\n")
    return first == _first_line(rest)


def _first_line(rest: str) -> str:
    return f"{MARK} (checksum {hashlib.sha256(rest.encode()).hexdigest()[:16]})"


def write_file(path: Path, outcome: Outcome) -> None:
    try:
        write_atomically(path, toml(outcome))
    except OSError as error:
        raise JobError(
            "can't write {path}: {reason}\nThe settings are: {settings}",
            path=path,
            reason=why(error),
            settings=in_one_line(outcome),
        ) from None


def toml(outcome: Outcome, when: datetime | None = None) -> str:
    """All settings of the source with the changes, and in comments what they rest on."""
    source, changes = outcome.resolved.given, outcome.settings
    settings = {key: value for key, value in without_options(source).items() if key not in PLACES}
    if source.get("init_from") not in (None, "auto"):
        settings["init_from"] = source["init_from"]
    lines = [f"# {line}".replace("\n", " ").rstrip() for line in _comment(outcome, when or datetime.now())]
    for key, value in {**settings, **changes}.items():
        was = f"  # was {toml_value(getattr(outcome.resolved.config, key))}" if key in changes else ""
        lines.append(f"{key} = {toml_value(value)}{was}")
    rest = "\n".join(lines) + "\n"
    return f"{_first_line(rest)}\n{rest}"


def _comment(outcome: Outcome, when: datetime) -> Iterable[str]:
    tuned, busy = outcome.tuned, outcome.busy
    yield f"The settings of {printable(outcome.resolved.name)}: {in_one_line(outcome)}."
    yield ""
    yield f"{printable(tuned.facts.device_name)}, nanoscope {__version__}, {when:%Y-%m-%d %H:%M}"
    if not busy:
        yield "measured on a quiet machine"
    used, unused = used_trials(outcome), unused_trials(outcome)
    if used:
        yield "Each change against the ones before it, as a share of the run's time:"
        yield from (f"  {describe(trial)}" for trial in used)
    yield from map(str, remarks(outcome))
    if tuned.confirmed is not None:
        yield f"All together, in a trial of their own: {described(tuned.confirmed)} ({tuned.confirmed.pairs} pairs)"
    if unused:
        yield "Not used:"
        yield from (f"  {describe(trial)}" for trial in unused)
    yield ""


def remarks(outcome: Outcome) -> list[Text]:
    """What to know about the choice: that it rests on a busy machine, or rounds differently."""
    found: list[Text] = []
    if (load := outcome.busy) is not None:
        found.append(
            Text(
                "measured on a busy machine: other processes used {others:.1f} of {cores:d} cores",
                others=load.others,
                cores=load.cores,
            )
        )
    if outcome.settings.get("dtype", "float32") != "float32":
        found.append(
            Text(
                "{dtype} rounds more than float32: losses will differ a little; --dtype=float32 keeps it out",
                dtype=outcome.settings["dtype"],
            )
        )
    return found


def used_trials(outcome: Outcome) -> list[Trial]:
    return [trial for trial in outcome.tuned.trials if trial.reason is None]


def unused_trials(outcome: Outcome) -> list[Trial]:
    return [trial for trial in outcome.tuned.trials if trial.reason is not None]


def command(path: Path) -> str:
    return shlex.join(["nanoscope", "train", str(path)])


def document(outcome: Outcome, words: Sequence[str], path: Path) -> dict[str, Any]:
    """What `tune --json` prints (docs/tune.md)."""
    tuned, busy = outcome.tuned, outcome.busy
    return {
        "schema": "nanoscope.tune/1",
        "source": list(words),
        "machine": {
            "device": tuned.facts.device,
            "device_name": tuned.facts.device_name,
            "dtype": tuned.facts.dtype,
            "threads": tuned.facts.threads,
            "memory_bytes": tuned.memory_bytes,
            "busy_cores": max(load.others for load in outcome.loads),
            "busy": busy is not None,
        },
        "seconds": tuned.seconds,
        "interrupted": tuned.interrupted,
        "too_slow": str(tuned.too_slow) if tuned.too_slow else None,
        "settings": outcome.settings,
        "gain": asdict(tuned.confirmed) if tuned.confirmed else None,
        "default": asdict(tuned.default),
        "tuned": asdict(tuned.tuned) if tuned.tuned else None,
        "compile_seconds": tuned.compile_seconds,
        "trials": [
            {
                "settings": trial.settings,
                "gain": _finite(trial),
                "used": trial.reason is None,
                "reason": None if trial.reason is None else str(trial.reason),
            }
            for trial in tuned.trials
        ],
        "file": str(path),
        "command": command(path),
    }


def _finite(trial: Trial) -> dict[str, Any] | None:
    """A gain whose range is unknown, from a single pair, has none."""
    if trial.gain is None:
        return None
    unknown = {"low": None, "high": None} if trial.gain.pairs == 1 else {}
    return asdict(trial.gain) | unknown
