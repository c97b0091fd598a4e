"""The command line as a whole: help, commands, and what happens on an unexpected failure."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import TINY_MODEL
from nanoscope import __version__, cli, config_sources
from nanoscope.config import KEYS
from nanoscope.config_sources import presets, resolve
from nanoscope.errors import JobError, UsageError


def test_help_lists_the_commands_and_has_examples(nanoscope, tmp_path: Path) -> None:
    done = nanoscope("--help", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for command in cli.COMMANDS:
        assert re.search(rf"^ *{command}\b", done.stdout, re.MULTILINE)
    assert "Examples:\n" in done.stdout
    assert "nanoscope train laptop" in done.stdout


def test_the_first_screen_is_short_and_says_where_to_go_on(nanoscope, tmp_path: Path) -> None:
    done = nanoscope(cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) < 24
    for next_step in ("nanoscope demo", "nanoscope train laptop", "nanoscope help", "nanoscope presets"):
        assert next_step in done.stdout


def test_help_of_a_command_is_its_help_and_help_alone_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    def printed(*words: str) -> str:
        assert cli.run(list(words)) == 0
        return capsys.readouterr().out

    assert printed("help") == printed("--help")
    for command in ("train", "prepare", "help"):
        assert printed("help", command) == printed(command, "--help")


def test_help_of_an_unknown_command_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["help", "trian"]) == 2
    assert "Did you mean train?" in capsys.readouterr().err


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_each_command_has_help_with_examples(command: str, nanoscope, tmp_path: Path) -> None:
    done = nanoscope(command, "--help", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: nanoscope {command}")
    assert re.search("For example:|Examples:", done.stdout)
    assert f"nanoscope {command}" in done.stdout.partition("xample")[2]
    assert list(tmp_path.iterdir()) == []


def test_the_help_of_train_explains_every_key_with_its_default_and_every_preset(nanoscope, tmp_path: Path) -> None:
    shown = " ".join(nanoscope("train", "laptop", "--help", cwd=tmp_path, env={"COLUMNS": "100"}).stdout.split())
    for key in KEYS.values():
        entry = shown.partition(f" --{key.name} ")[2]
        explained = f"{key.metadata['help']} [{key.default}]" if key.default != "" else key.metadata["help"]
        assert entry.startswith(" ".join(explained.split())), key.name
    for preset in presets():
        assert f" {preset} " in shown


def test_help_does_not_import_torch(child_environment: dict[str, str], tmp_path: Path) -> None:
    code = """
import sys
from nanoscope.cli import COMMANDS, run
for command in COMMANDS:
    run([command, "-h"])
    if "torch" in sys.modules:
        sys.exit(f"the help of {command} waits for torch")
"""
    done = subprocess.run([sys.executable, "-c", code], env=child_environment, cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(b"Usage: nanoscope ") == len(cli.COMMANDS)


def test_the_version_is_printed(nanoscope, tmp_path: Path) -> None:
    done = nanoscope("--version", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"nanoscope {__version__}\n")


def test_an_unknown_command_gets_a_suggestion_and_the_list(nanoscope, tmp_path: Path) -> None:
    done = nanoscope("trian", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "there is no command 'trian'. Did you mean train?" in done.stderr
    assert all(command in done.stderr for command in cli.COMMANDS)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["laptop"], "nanoscope train laptop"),
        (["quick", "--prompt=a b"], "nanoscope train quick '--prompt=a b'"),
        (["my config.toml"], "nanoscope train 'my config.toml'"),
        (["train_it.py", "--seed=1"], "nanoscope train train_it.py --seed=1"),
        (["train.log"], "nanoscope explain train.log"),
        (["a run"], "nanoscope explain 'a run'"),
    ],
)
def test_what_was_typed_without_its_command_gets_the_whole_command(
    words: list[str], meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a run").mkdir()
    for name in ("my config.toml", "train_it.py", "train.log", "a run/events.jsonl"):
        (tmp_path / name).touch()
    assert cli.run(words) == 2
    assert f"Did you mean: {meant}\n" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["sample", "explain", "eta", "try", "compare", "report"])
def test_a_run_called_by_its_name_alone_is_recognised(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs/my run").mkdir(parents=True)
    (tmp_path / "runs/my run/events.jsonl").touch()
    assert cli.run([command, "my run"]) in (1, 2)
    assert f"Did you mean '{Path('runs/my run')}'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["--hepl"], "--help"),
        (["sample", "--tempreature=1"], "--temperature"),
        (["prepare", "a.txt", "--vocabsize=300"], "--vocab_size"),
        (["explain", "a.log", "--lnag=ar"], "--lang"),
        (["compare", "a.log", "--jsno"], "--json"),
        (["presets", "--jsn"], "--json"),
        (["demo", "--minute=1"], "--minutes"),
        (["watch", "--prot=1"], "--port"),
        (["bench", "--device_=cpu"], "--device"),
    ],
)
def test_an_unknown_option_names_the_closest(words: list[str], meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(words) == 2
    assert f"Did you mean {meant}?" in capsys.readouterr().err


def test_an_unknown_global_option_is_invalid_usage(nanoscope, tmp_path: Path) -> None:
    done = nanoscope("--bogus", cwd=tmp_path)
    assert done.returncode == 2
    assert "--bogus" in done.stderr
    assert "Traceback" not in done.stderr


# --- ends --------------------------------------------------------------------------------------------------------


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch):
    """Makes `nanoscope demo` raise what it is given."""
    from nanoscope.cli import demo as module

    def fail_with(error: BaseException) -> None:
        def demo() -> None:
            """Fail."""
            raise error

        monkeypatch.setattr(module, "demo", demo)

    return fail_with


@pytest.mark.parametrize(("error", "status"), [(JobError("no disk\nbuy one"), 1), (UsageError("no disk\nbuy one"), 2)])
def test_an_expected_failure_is_printed_as_it_is(
    error: Exception, status: int, failing, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(error)
    assert cli.run(["demo"]) == status
    assert capsys.readouterr().err == "nanoscope: no disk\n  buy one\n"


def test_ctrl_c_ends_with_its_own_status(failing, capsys: pytest.CaptureFixture[str]) -> None:
    failing(KeyboardInterrupt())
    assert cli.run(["demo"]) == 130
    assert capsys.readouterr().err == "nanoscope: interrupted\n"


def test_an_unexpected_failure_is_one_short_report_and_a_file_with_the_details(
    failing, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv("NANOSCOPE_DEBUG", raising=False)
    failing(ZeroDivisionError("a\nlong " + "story " * 100))
    assert cli.run(["demo"]) == 1
    message = capsys.readouterr().err
    assert message.startswith("nanoscope: unexpected ZeroDivisionError: a long story")
    assert len(message.splitlines()) == 3
    assert "Traceback" not in message
    (details,) = tmp_path.iterdir()
    assert str(details) in message
    assert "Traceback" in details.read_text("utf-8")
    assert f"nanoscope {__version__}" in details.read_text("utf-8")


def test_the_details_of_a_failure_can_be_printed(
    failing, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("NANOSCOPE_DEBUG", "1")
    failing(ZeroDivisionError("why"))
    assert cli.run(["demo"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_an_unexpected_failure_is_reported_even_if_no_file_can_be_written(
    failing, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    monkeypatch.delenv("NANOSCOPE_DEBUG", raising=False)
    failing(ZeroDivisionError("why"))
    assert cli.run(["demo"]) == 1
    message = capsys.readouterr().err
    assert message.startswith("nanoscope: unexpected ZeroDivisionError: why")
    assert "NANOSCOPE_DEBUG=1" in message


@pytest.mark.skipif(os.name == "nt", reason="a pipe that nobody reads is another error on Windows")
@pytest.mark.parametrize("words", [["--help"], ["explain", "--help"], ["train", "--help"]], ids=" ".join)
def test_a_closed_pipe_is_not_a_failure(words: list[str], tmp_path: Path, child_environment: dict[str, str]) -> None:
    ends = os.pipe()
    os.close(ends[0])
    done = subprocess.run(
        [sys.executable, "-m", "nanoscope", *words],
        env=child_environment, cwd=tmp_path, stdout=ends[1], stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    os.close(ends[1])
    assert (done.returncode, done.stderr) == (0, "")


def test_a_terminal_that_only_knows_ascii_still_gets_the_help(nanoscope, tmp_path: Path) -> None:
    done = nanoscope(
        "train", "--help", cwd=tmp_path, env={"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    )
    assert done.returncode == 0
    assert done.stderr == ""


DEMO = ("Turn text", "Train", "See what happened", "Let it write", "Write a report", "What you have")


@pytest.mark.slow
def test_demo_goes_from_text_to_a_report(
    tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = [*TINY_MODEL, "--max_iters=3"]
    monkeypatch.setattr(config_sources, "resolve", lambda words: resolve([*words, *small]))
    monkeypatch.setenv("NANOSCOPE_CACHE", str(shared_cache))
    monkeypatch.chdir(tmp_path)
    assert cli.run(["demo", "--minutes=10"]) == 0
    printed = capsys.readouterr().out
    places = [printed.index(f"{number}. {title}") for number, title in enumerate(DEMO, start=1)]
    assert places == sorted(places)
    for name in ("config.toml", "events.jsonl", "console.log", "checkpoints/last", "report.html"):
        assert (tmp_path / "runs/demo" / name).is_file()


@pytest.mark.slow
def test_a_second_demo_leaves_the_first_alone_and_its_advice_trains_further(
    tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(config_sources, "resolve", lambda words: resolve([*words, *TINY_MODEL, "--max_iters=3"]))
    monkeypatch.setenv("NANOSCOPE_CACHE", str(shared_cache))
    monkeypatch.chdir(tmp_path)
    assert cli.run(["demo", "--minutes=10"]) == 0
    first = {path: path.read_bytes() for path in Path("runs/demo").rglob("*") if path.is_file()}
    capsys.readouterr()
    assert cli.run(["demo", "--minutes=10"]) == 0
    printed = capsys.readouterr().out
    assert {path: path.read_bytes() for path in Path("runs/demo").rglob("*") if path.is_file()} == first
    assert "nanoscope sample runs/demo-2" in printed
    assert "runs/demo " not in printed
    (advice,) = re.findall(r"train longer: nanoscope (train runs/demo-2 --init_from=resume.*)", printed)
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert cli.run(advice.split()) == 0
    assert "finished 6 iterations" in capsys.readouterr().out


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "inf", "soon"])
def test_demo_needs_some_minutes(minutes: str, nanoscope, tmp_path: Path) -> None:
    done = nanoscope("demo", f"--minutes={minutes}", cwd=tmp_path)
    assert done.returncode == 2
    assert "minutes" in done.stderr
    assert list(tmp_path.iterdir()) == []
