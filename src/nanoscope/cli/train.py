"""`nanoscope train`."""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from nanoscope.cli.languages import LANGUAGE_HELP, help_writer
from nanoscope.cli.options import TUNE_HELP
from nanoscope.config import KEYS
from nanoscope.config_sources import preset_note, presets
from nanoscope.errors import UsageError
from nanoscope.messages import LANGUAGES, Message

if TYPE_CHECKING:
    from dataclasses import Field

    from nanoscope.config_sources import Resolved

TUNE = "--tune"


def train(*words: Annotated[str, Parameter(allow_leading_hyphen=True)]) -> int:
    """Train a GPT, or resume a run."""
    if "--help" in words or "-h" in words:
        print(help_text())
        return 0
    from nanoscope.training.phases import PhaseClock, seconds_since_process_start
    from nanoscope.training.resume import resolve_and_make_ready

    kept, minutes = _without_tune(words)
    if minutes is None:
        clock = PhaseClock(seconds_since_process_start())
        resolved = resolve_and_make_ready(words)
    else:
        resolved = resolve_and_make_ready(kept, partial(_tuned, minutes=minutes))
        clock = PhaseClock()  # the run begins here

    from nanoscope.training.launch import launch  # loads torch, after the environment is set up
    from nanoscope.views.closing import closing_lines

    return launch(resolved, clock, closing_lines)


def _without_tune(words: Sequence[str]) -> tuple[list[str], float | None]:
    """Take --tune or --tune=MINUTES, which is no setting of a run, out of the words; None if it is not there."""
    from nanoscope.cli.tune import checked_minutes

    asked = [word for word in words if word == TUNE or word.startswith(f"{TUNE}=")]
    if not asked:
        return list(words), None
    text = asked[-1].removeprefix(TUNE).removeprefix("=")
    try:
        minutes = checked_minutes(float(text) if text else None, TUNE)
    except ValueError:
        raise UsageError("invalid value for {option}: {text!r} is not a number", option=TUNE, text=text) from None
    return [word for word in words if word not in asked], minutes


def _tuned(resolved: "Resolved", minutes: float) -> "Resolved":
    """The same with the settings that are the fastest here."""
    from nanoscope.cli.tune import progress
    from nanoscope.planning.tuning import tune
    from nanoscope.planning.tuning_file import in_one_line, remarks, with_settings

    if resolved.config.init_from == "resume" and resolved.given.get("init_from") == "auto":
        progress(Message("{option} is ignored: a resumed run keeps its settings", option=TUNE))
        return resolved
    tuned = tune(resolved, minutes, progress)
    for text in (Message("tuned: {chosen}", chosen=in_one_line(tuned)), *remarks(tuned)):
        progress(text)
    return with_settings(resolved, tuned)


USAGE = "nanoscope train [PRESET|CONFIG ...] [--key=value ...]"
INTRODUCTION = """\
Train a GPT, or resume a run. A source is a preset, a TOML file, nanoGPT's config/*.py (read, never executed) or a
run's folder. Later sources override earlier ones, flags override all. The default source is the preset laptop.

Presets:"""
EXAMPLES = """\
Examples:
  nanoscope train laptop
  nanoscope train config/train_shakespeare_char.py --device=cpu --compile=False --max_iters=500
  nanoscope train laptop --dataset=data/mine --n_layer=6 --n_embd=192 --n_head=6 --max_minutes=30
  nanoscope train runs/laptop --init_from=resume --max_iters=4000
  nanoscope train laptop --init_from=runs/laptop --dataset=data/mine      fine-tune the model of a run on other text
  nanoscope train out-shakespeare-char --init_from=resume --max_iters=9000   continue a run of nanoGPT from its ckpt.pt
  nanoscope train babygpt --tune               find the fastest settings for this machine first
  nanoscope train laptop --init_from=auto      for jobs that are restarted: resume if there is a checkpoint, else begin
  torchrun --standalone --nproc_per_node=2 -m nanoscope train babygpt"""
CLOSING = """\
A flag typed on a resume changes the run for good, except those marked (once), which hold for this invocation only.
The options of the command hold for one invocation whenever they are typed.
Ctrl-C stops after the current micro-batch, saves, and prints the command that resumes the run exactly there.
Exit status: 0 done, 1 failed, 2 invalid usage, 128 + N if stopped by signal N."""
MARKS = {"run": "", "invocation": "(once)"}
PRESET_COLUMNS, KEY_COLUMNS = 15, 30


def help_text() -> str:
    """Presets, examples, and every key with its help and default."""
    help = help_writer()

    def settings(group: str, keys: Iterable["Field[Any]"]) -> str:
        return "\n".join([help.text(f"{group.capitalize()}:"), *map(setting, keys)])

    def setting(key: "Field[Any]") -> str:
        default = "" if key.default == "" else f"[{key.default}]"
        words = (help.translated(key.metadata["help"]), default, help.translated(MARKS[key.metadata["holds"]]))
        return help.entry(f"--{key.name}", " ".join(filter(None, words)), KEY_COLUMNS)

    listed = [help.entry(name, help.translated(preset_note(name)), PRESET_COLUMNS) for name in presets()]
    groups = groupby(KEYS.values(), key=lambda key: str(key.metadata["group"]))
    tune = help.entry(f"{TUNE}[=MINUTES]", help.translated(TUNE_HELP), KEY_COLUMNS)
    language = help.entry(f"--lang {'|'.join(LANGUAGES)}", help.translated(LANGUAGE_HELP), KEY_COLUMNS)
    parts = [
        help.usage(USAGE),
        "\n".join([help.text(INTRODUCTION), *listed]),
        help.text(EXAMPLES),
        *(settings(*group) for group in groups),
        f"{tune}\n{language}",
        help.text(CLOSING),
    ]
    return "\n\n".join(parts)
