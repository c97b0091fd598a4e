"""`nanoscope train`."""

from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from nanoscope.cli.languages import LANGUAGE_HELP, help_writer
from nanoscope.config import KEYS
from nanoscope.config_sources import preset_note, presets
from nanoscope.messages import LANGUAGES

if TYPE_CHECKING:
    from dataclasses import Field


def train(*words: Annotated[str, Parameter(allow_leading_hyphen=True)]) -> int:
    """Train a GPT, or resume a run."""
    if "--help" in words or "-h" in words:
        print(help_text())
        return 0
    from nanoscope.training.phases import PhaseClock, seconds_since_process_start
    from nanoscope.training.ready import resolve_and_make_ready

    clock = PhaseClock(seconds_since_process_start())
    resolved = resolve_and_make_ready(words)

    from nanoscope.training.launch import launch  # loads torch, after the environment is set up

    return launch(resolved, clock)


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
  nanoscope train laptop --init_from=auto      for jobs that are restarted: resume if there is a checkpoint, else begin
  torchrun --standalone --nproc_per_node=2 -m nanoscope train babygpt"""
CLOSING = """\
A flag typed on a resume changes the run for good, except those marked (session), which hold until this session ends,
and those marked (once), which hold for one invocation whenever they are typed.
Ctrl-C stops after the current micro-batch, saves, and prints the command that resumes the run exactly there.
Exit status: 0 done, 1 failed, 2 invalid usage, 128 + N if stopped by signal N."""
MARKS = {"run": "", "session": "(session)", "invocation": "(once)"}
PRESET_COLUMNS, KEY_COLUMNS = 15, 30


def help_text() -> str:
    """Presets, examples, and every key with its help and default."""
    help = help_writer()

    def settings(group: str, keys: Iterable["Field[Any]"]) -> str:
        return "\n".join([help.text(f"{group.capitalize()}:"), *map(setting, keys)])

    def setting(key: "Field[Any]") -> str:
        default = "" if key.default == "" else f"[{key.default}]"
        words = (help.translated(key.metadata["help"]), default, help.translated(MARKS[key.metadata["lasts"]]))
        return help.entry(f"--{key.name}", " ".join(filter(None, words)), KEY_COLUMNS)

    listed = [help.entry(name, help.translated(preset_note(name)), PRESET_COLUMNS) for name in presets()]
    groups = groupby(KEYS.values(), key=lambda key: str(key.metadata["group"]))
    language = help.entry(f"--lang {'|'.join(LANGUAGES)}", help.translated(LANGUAGE_HELP), KEY_COLUMNS)
    parts = [
        help.usage(USAGE), "\n".join([help.text(INTRODUCTION), *listed]), help.text(EXAMPLES),
        *(settings(*group) for group in groups), language, help.text(CLOSING),
    ]  # fmt: skip
    return "\n\n".join(parts)
