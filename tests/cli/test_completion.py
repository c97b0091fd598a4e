"""Completion, in the real shells that this machine has."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import Nanoscope
from nanoscope import cli
from nanoscope.config import KEYS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working directory with two runs, some files, and nanoscope as a command."""
    for name in ("runs/laptop/events.jsonl", "runs/my run/events.jsonl", "runs/empty/note", "mine.toml", "train.log"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin/nanoscope"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m nanoscope "$@"\n', "utf-8")
    command.chmod(0o755)
    return tmp_path


def script(shell: str, nanoscope: Nanoscope, folder: Path) -> Path:
    done = nanoscope("completion", shell, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    path = folder / f"completion.{shell}"
    path.write_text(done.stdout, "utf-8")
    return path


def shell_output(shell: str, code: str, folder: Path, environment: dict[str, str]) -> str:
    if shutil.which(shell) is None or sys.platform == "win32":
        pytest.skip(f"this machine has no {shell}")
    path = f"{folder / 'bin'}:{environment['PATH']}"
    done = subprocess.run(
        [shell, "-c", code], cwd=folder, env={**environment, "PATH": path}, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


BASH = """
source completion.bash
complete -p nanoscope
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_nanoscope
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def bash(nanoscope: Nanoscope, folder: Path, child_environment: dict[str, str]):
    """What bash offers for the last of the words."""

    def complete(*words: str) -> list[str]:
        if not (folder / "completion.bash").exists():
            script("bash", nanoscope, folder)
        quoted = " ".join(f"'{word}'" for word in ("nanoscope", *words))
        printed = shell_output("bash", f"set -- {quoted}\n{BASH}", folder, child_environment)
        registered, *offered = printed.splitlines()
        assert registered == "complete -o filenames -F _nanoscope nanoscope"
        return [word for word in offered if word]

    return complete


@pytest.mark.slow
def test_bash_completes_commands_settings_presets_runs_and_files(bash) -> None:
    assert set(bash("")) == set(cli.COMMANDS) - {"completion"}
    assert bash("tra") == ["train"]
    assert bash("help", "pr") == ["prepare", "presets"]
    assert set(bash("train", "laptop", "--")) >= {f"--{key}" for key in KEYS}
    assert bash("resume", "--max_it") == ["--max_iters"]
    assert bash("train", "--dtype", "=", "bf") == ["bfloat16"]  # bash splits --dtype=bf into these words
    assert bash("prepare", "--ex") == ["--ext"]
    assert bash("train", "qu") == ["quick", "quick-bpe"]
    assert bash("presets", "qu") == ["quick", "quick-bpe"]
    for command in ("sample", "explain", "compare", "report", "eta", "try", "eval"):
        assert bash(command, "runs/l") == ["runs/laptop"]
    assert bash("explain", "train.l") == ["train.log"]


@pytest.mark.slow
def test_fish_completes_commands_settings_presets_runs_and_files(
    nanoscope: Nanoscope, folder: Path, child_environment: dict[str, str]
) -> None:
    script("fish", nanoscope, folder)

    def complete(line: str) -> list[str]:
        printed = shell_output("fish", f"source completion.fish; complete -C'{line}'", folder, child_environment)
        return [offer.partition("\t")[0] for offer in printed.splitlines()]

    assert "train" in complete("nanoscope trai")
    assert complete("nanoscope train --max_it") == ["--max_iters"]
    assert complete("nanoscope train qu") == ["quick", "quick-bpe"]
    assert "runs/laptop" in complete("nanoscope sample runs/l")
    assert complete("nanoscope explain train.l") == ["train.log"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_scripts_are_valid(
    shell: str, nanoscope: Nanoscope, folder: Path, child_environment: dict[str, str]
) -> None:
    path = script(shell, nanoscope, folder)
    shell_output(shell, f"{shell} -n {path.name}", folder, child_environment)
    assert "max_iters" in path.read_text("utf-8")


ZSH = """
zmodload zsh/zpty
zpty inner zsh -f -i
zpty -w inner "PS1= ; fpath=($PWD \\$fpath); autoload -Uz compinit; compinit -u -D; bindkey '^I' complete-word"
zpty -w inner "print READY"
zpty -r inner line '*READY*READY*'
zpty -w -n inner $'nanoscope trai\\t'
zpty -r inner line '*train*'
zpty -w -n inner $' --max_it\\t'
zpty -r inner line '*max_iters*'
print -r -- completed
zpty -d inner
"""


@pytest.mark.slow
def test_zsh_completes_from_a_file_named_as_the_help_says(
    nanoscope: Nanoscope, folder: Path, child_environment: dict[str, str]
) -> None:
    (folder / "train.log").unlink()
    script("zsh", nanoscope, folder).rename(folder / "_nanoscope")
    assert shell_output("zsh", ZSH, folder, {**child_environment, "TERM": "dumb"}).endswith("completed\n")


def test_a_shell_without_a_script_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["completion", "tcsh"]) == 2
    assert "bash, zsh, fish" in capsys.readouterr().err
