"""`nanoscope completion`, and what each argument completes to. Cyclopts writes the scripts."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from nanoscope.config_sources import preset_note, presets
from nanoscope.files import RUNS


def complete_preset(_: Any) -> dict[str, str]:
    return {name: preset_note(name) for name in presets()}


def complete_path(context: Any) -> Iterator[str]:
    """Yield the runs in runs/, and the files and folders that begin with what was typed."""
    typed = context.incomplete
    folder = Path(typed if typed.endswith("/") else typed.rpartition("/")[0])
    with suppress(OSError):
        for path in sorted({*RUNS.glob("*"), *folder.glob("[!.]*")}):
            yield path.as_posix() + "/" * (path.is_dir() and not (path / "events.jsonl").is_file())


def complete_source(context: Any) -> Iterator[str | tuple[str, str]]:
    """Yield what `train` can start from: presets, runs, config files and texts."""
    yield from complete_preset(context).items()
    yield from complete_path(context)


def completion(shell: Literal["bash", "zsh", "fish"]) -> None:
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
    from nanoscope.cli import COMMANDS, app

    script = app(COMMANDS, everything=True).generate_completion(prog_name="nanoscope", shell=shell)
    if shell == "bash":  # adds no space to the names of folders
        script = script.replace("complete -F ", "complete -o filenames -F ")
    elif shell == "zsh":  # calls a function by the name of its file
        script = script.replace("_cyclopts_nanoscope", "_nanoscope")
    sys.stdout.write(script)
