"""What `nanoscope tune` writes: a TOML file for `nanoscope train`, with what was tried in its comments, and JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from nanoscope.config import build, toml_value, without_options
from nanoscope.config_sources import Resolved
from nanoscope.errors import JobError, UsageError, why
from nanoscope.files import write_atomically
from nanoscope.messages import Message, printable
from nanoscope.planning.tuning import Tuned, describe, described, flags
from nanoscope.version import __version__

BUSY_CORES = 0.5


def check_file(path: Path, *, overwrite: bool) -> None:
    """UsageError for a file that exists, unless it may be overwritten."""
    if path.suffix != ".toml":
        raise UsageError("--out={path} must end in .toml, so that nanoscope train can read it", path=path)
    if path.exists() and not overwrite:
        raise UsageError(
            "{path} exists\nChoose another name: --out=FILE. Or overwrite it: --overwrite=True",
            path=path,
        )


def write_file(path: Path, resolved: Resolved, tuned: Tuned) -> None:
    """All settings of the source with the changes, and in comments what they rest on."""
    left_out = {"out_dir", *({"init_from"} if resolved.given.get("init_from") == "auto" else ())}  # of one run
    settings = {key: value for key, value in without_options(resolved.given).items() if key not in left_out}
    about = f"{printable(tuned.facts.device_name)}, nanoscope {__version__}, {datetime.now():%Y-%m-%d %H:%M}"
    title = f"Written by nanoscope tune. The settings of {printable(resolved.name)}: {in_one_line(tuned)}."
    comment = (title, about, *lines(tuned), "")
    content = [f"# {line}".replace("\n", " ").rstrip() for line in comment]
    for key, value in (settings | tuned.settings).items():
        was = f"  # was {toml_value(getattr(resolved.config, key))}" if key in tuned.settings else ""
        content.append(f"{key} = {toml_value(value)}{was}")
    try:
        write_atomically(path, "\n".join(content) + "\n")
    except OSError as error:
        raise JobError("can't write {path}: {reason}", path=path, reason=why(error)) from None


def in_one_line(tuned: Tuned) -> Message:
    """What was chosen."""
    if tuned.gain is not None:
        return Message("{settings}: {gain}", settings=flags(tuned.settings), gain=described(tuned.gain))
    if any(trial.gain is not None for trial in tuned.trials):
        return Message("the settings are the fastest found")
    return Message("nothing could be compared in this time; allow more with --minutes")


def remarks(tuned: Tuned) -> Iterator[Message]:
    """What to know about the choice: that it rests on a busy machine, or rounds differently."""
    if tuned.busy_cores > BUSY_CORES:
        yield Message("measured on a busy machine: other processes used {others:.1f} cores", others=tuned.busy_cores)
    if tuned.settings.get("dtype", "float32") != "float32":
        yield Message(
            "{dtype} rounds more than float32: losses will differ a little; --dtype=float32 keeps it out",
            dtype=tuned.settings["dtype"],
        )


def lines(tuned: Tuned) -> Iterator[Message]:
    """With what was tried."""
    yield from remarks(tuned)
    if tuned.trials:
        yield Message("Each change against the ones before it, as a share of the run's time:")
    yield from map(describe, tuned.trials)


def document(tuned: Tuned, words: Sequence[str], path: Path) -> dict[str, object]:
    """What `tune --json` prints (docs/tune.md)."""
    default = {key: getattr(tuned.default_seconds, key) for key in ("step", "eval", "run")}
    about = {"schema": "nanoscope.tune/2", "source": words, "summary": str(in_one_line(tuned)), "file": str(path)}
    return {**about, **vars(tuned), "default_seconds": default}


def with_settings(resolved: Resolved, tuned: Tuned) -> Resolved:
    """The same with other settings, as if a file had them."""
    given = {**resolved.given, **tuned.settings}
    return replace(resolved, given=given, config=build({**given, "init_from": resolved.config.init_from}))
