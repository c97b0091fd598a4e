"""`nanoscope train`, whose words are sources and settings."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from nanoscope.cli.completion import complete_source
from nanoscope.cli.help_text import with_options
from nanoscope.cli.logs import progress, warn
from nanoscope.config import KEYS, TYPES
from nanoscope.errors import JobError
from nanoscope.messages import Message

if TYPE_CHECKING:
    from nanoscope.config_sources import Resolved

BEGINNERS = (
    "dataset", "max_iters", "max_minutes", "batch_size", "block_size", "n_layer", "n_head", "n_embd", "learning_rate",
    "eval_interval", "device", "out_dir",
)  # fmt: skip
SETTINGS_GROUP = "Settings"
Words = Annotated[str, Parameter(allow_leading_hyphen=True, completer=complete_source)]


def train(*sources: Words, tune: bool = False) -> int:
    """Train a GPT.

    A source is a preset, a text file (it is prepared first), a TOML file, nanoGPT's config/*.py (read, never executed)
    or a run's folder. Later sources override earlier ones, flags override all. The default source is the preset laptop.
    'nanoscope presets' lists the presets; each has its own values in place of the defaults below.

    For example:
      nanoscope train laptop
      nanoscope train book.txt
      nanoscope train config/train_shakespeare_char.py --device=cpu --compile=False --max_iters=500
      nanoscope train laptop --dataset=data/mine --n_layer=6 --n_embd=192 --n_head=6 --max_minutes=30
      nanoscope train laptop --init_from=runs/laptop --dataset=data/mine      fine-tune the model of a run on other text
      nanoscope train babygpt --tune               find the fastest settings for this machine first
      nanoscope train laptop --init_from=auto      resume if there is a checkpoint, else begin
      torchrun --standalone --nproc_per_node=2 -m nanoscope train babygpt

    Ctrl-C stops after the current micro-batch, saves, and prints the command that resumes the run exactly there.

    Exit status: 0 done, 1 failed, 2 invalid usage, 128 + N if stopped by signal N.

    'nanoscope train --help-all' lists all settings.

    Parameters
    ----------
    sources
        Presets, texts, config files or runs.
    tune
        Find the fastest settings for this machine first, in about 2 minutes (docs/tune.md).
    """
    from nanoscope.training.phases import PhaseClock, seconds_since_process_start
    from nanoscope.training.resume import resolve_and_make_ready

    clock = PhaseClock(seconds_since_process_start())
    resolved = resolve_and_make_ready(_prepared(sources), _tuned if tune else None)
    if tune:
        clock = PhaseClock()  # the run begins here

    from nanoscope.training.launch import launch  # loads torch, after the environment is set up
    from nanoscope.views.closing import closing_lines

    return launch(resolved, clock, closing_lines)


def with_settings(command: Callable[..., Any], everything: bool) -> Callable[..., Any]:
    """The command with settings as its options, for help and completion: it parses its words itself."""
    groups: dict[str, Group] = {}
    settings = {}
    for name in KEYS if everything else BEGINNERS:
        about, default = KEYS[name].metadata, str(KEYS[name].default)
        title = about["group"].capitalize() if everything else SETTINGS_GROUP
        group = groups.setdefault(title, Group(title, sort_key=len(groups)))
        settings[name] = Annotated[
            TYPES[name], Parameter(help=about["help"], group=group, show_choices=False, show_default=default or False)
        ]
    return with_options(command, settings)


def _prepared(words: Sequence[str]) -> list[str]:
    """The words with a dataset in place of each text: `train book.txt` prepares it, then trains."""
    from nanoscope.data.sources import SUFFIXES

    return [
        f"--dataset={_dataset_of(word)}" if Path(word).suffix in SUFFIXES and Path(word).is_file() else word
        for word in words
    ]


def _dataset_of(text: str) -> Path:
    """The dataset of a text, which is made unless it is there. One that is older than the text is refused."""
    from nanoscope.api.datasets import prepare
    from nanoscope.data.dataset import META
    from nanoscope.data.prepare import default_folder

    for kind in ("char", "bpe"):
        meta = default_folder(text, kind) / META
        if meta.is_file():
            if meta.stat().st_mtime < Path(text).stat().st_mtime:
                raise JobError(
                    "{folder} was prepared before {text} changed. Prepare it again: {command}",
                    folder=meta.parent,
                    text=text,
                    command=shlex.join(["nanoscope", "prepare", text, "--overwrite"]),
                )
            return meta.parent
    return prepare(text, warn=warn)


def _tuned(resolved: "Resolved") -> "Resolved":
    """The same with the settings that are the fastest here."""
    from nanoscope.planning.tuning import MINUTES, tune

    if resolved.config.init_from == "resume" and resolved.given.get("init_from") == "auto":
        progress(Message("{option} is ignored: a resumed run keeps its settings", option="--tune"))
        return resolved
    tuned = tune(resolved, MINUTES, progress)
    progress(Message("tuned: {chosen}", chosen=tuned.summary()))
    settings = tuned.settings
    return replace(resolved, given={**resolved.given, **settings}, config=replace(resolved.config, **settings))
