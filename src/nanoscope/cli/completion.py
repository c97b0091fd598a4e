"""`nanoscope completion`, and what each argument completes to.

Cyclopts writes the scripts. A script has the names of commands and options in it, and asks `nanoscope __complete` for
what depends on the folder: runs, and presets.
"""

import inspect
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from nanoscope.cli.options import TUNE_HELP
from nanoscope.config import KEYS, TYPES
from nanoscope.config_sources import preset_note, presets
from nanoscope.files import RUNS

Shell = Literal["bash", "zsh", "fish"]
SHELL_COMPLETES_FILES = "NANOSCOPE_SHELL_COMPLETES_FILES"


def complete_preset(_: Any) -> dict[str, str]:
    return {name: preset_note(name) for name in presets()}


def complete_path(context: Any) -> Iterator[str]:
    """Yield the runs in runs/, then the files and folders that begin with what was typed."""
    yield from _runs()
    yield from _files(context.incomplete)


def complete_source(context: Any) -> Iterator[str | tuple[str, str]]:
    """Yield what `train` can start from: presets, runs, config files."""
    yield from complete_preset(context).items()
    yield from _runs()
    yield from (name for name in _files(context.incomplete) if name.endswith((".py", ".toml", "/")))


def _runs() -> list[str]:
    return sorted(events.parent.as_posix() for events in RUNS.glob("*/events.jsonl"))


def _files(typed: str) -> Iterator[str]:
    """Yield the entries of the folder that is being typed, unless the shell itself completes file names."""
    if os.environ.get(SHELL_COMPLETES_FILES):
        return
    head = typed[: typed.rfind("/") + 1]
    with suppress(OSError):
        for entry in sorted(Path(head or ".").iterdir()):
            if not entry.name.startswith("."):
                yield head + entry.name + "/" * entry.is_dir()


def train(*sources: Annotated[str, Parameter(completer=complete_source)]) -> None:
    """Stand in for `train`, which parses its own words: here, its settings are options that can be completed."""


_SETTINGS = {
    name: Annotated[TYPES[name], Parameter(help=key.metadata["help"], negative=())] for name, key in KEYS.items()
}
_SETTINGS["tune"] = Annotated[bool, Parameter(help=TUNE_HELP, negative=())]
train.__annotations__ |= _SETTINGS
train.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        *inspect.signature(train).parameters.values(),
        *(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=None)
            for name, kind in _SETTINGS.items()
        ),
    ]
)


def completion(shell: Shell) -> None:
    """Print the script that lets a shell complete commands, options, presets and runs.

    For example:

      source <(nanoscope completion bash)      in ~/.bashrc

      nanoscope completion zsh > ~/.zfunc/_nanoscope

      nanoscope completion fish > ~/.config/fish/completions/nanoscope.fish

    The folder must exist (mkdir -p). zsh needs these lines in ~/.zshrc:

      fpath=(~/.zfunc $fpath); autoload -Uz compinit; compinit

    Then start a new shell.

    Parameters
    ----------
    shell
        bash, zsh or fish.
    """
    from nanoscope.cli import completing_app

    script = completing_app().generate_completion(prog_name="nanoscope", shell=shell)
    if shell == "bash":  # where nothing else fits, bash completes file names, and adds no space to those of folders
        script = script.replace("complete -F ", "complete -o default -F ")
        script = script.replace('"$_cmd" __complete', f'{SHELL_COMPLETES_FILES}=1 "$_cmd" __complete')
    elif shell == "zsh":  # calls a function by the name of its file
        script = script.replace("_cyclopts_nanoscope", "_nanoscope")
    sys.stdout.write(script)
