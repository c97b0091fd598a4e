"""The command line as a whole: help, commands, and what happens on an unexpected failure."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from conftest import SONG, TINY_MODEL
from nanoscope import __version__, cli, config_sources
from nanoscope.config import KEYS
from nanoscope.config_sources import resolve
from nanoscope.errors import JobError, UsageError


@pytest.fixture(autouse=True)
def hundred_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.run(list(words)) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_the_first_screen_has_four_groups_and_the_first_things_to_type(capsys: pytest.CaptureFixture[str]) -> None:
    screen = printed(capsys)
    assert len(screen.splitlines()) < 24
    titles = [line.split()[0] for line in screen.splitlines()[2:6]]
    assert titles == list(cli.GROUPS) == ["Start", "Look", "Improve", "Tools"]
    for next_step in ("nanoscope demo", "nanoscope train book.txt", "nanoscope explain train.log", "nanoscope help"):
        assert next_step in screen


def test_help_says_what_each_command_does_group_by_group(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "--help")
    assert text == printed(capsys, "help")
    for title, commands in cli.GROUPS.items():
        group = text.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
        assert [line.split()[0] for line in group.splitlines() if line[2] != " "] == [
            name for name in commands if name != "completion"
        ]


def test_each_command_has_help_with_examples_at_the_width_of_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for columns in ("60", "80", "100"):
        monkeypatch.setenv("COLUMNS", columns)
        for command in cli.COMMANDS:
            text = printed(capsys, command, "--help")
            assert text == printed(capsys, "help", command)
            assert text.startswith(f"Usage: nanoscope {command}")
            examples = text.partition("For example:\n")[2].partition("\n\n")[0]
            assert f"nanoscope {command}" in examples
            for line in text.replace(examples, "").splitlines():  # a command is not broken
                assert len(line) <= int(columns), line
            assert "[default:\n" not in text
    assert list(tmp_path.iterdir()) == []


def test_the_help_of_train_has_a_dozen_settings_and_help_all_has_each_with_its_default(
    capsys: pytest.CaptureFixture[str],
) -> None:
    short = re.findall(r"^  --(\w+)", printed(capsys, "train", "--help").partition("Settings:")[2], re.MULTILINE)
    assert len(short) == 12
    assert {"dataset", "max_iters", "n_layer", "learning_rate", "device"} < set(short)
    shown = " ".join(printed(capsys, "train", "laptop", "--help-all").split())
    for key in KEYS.values():
        entry = shown.partition(f" --{key.name} ")[2]
        default = "" if key.default in ("", False) else f" [default: {key.default}]"
        explained = key.metadata["help"] + default
        assert entry.startswith(" ".join(explained.split())), key.name
    assert "--help-all" in printed(capsys, "train", "--help")
    for_once = printed(capsys, "resume", "--help").partition("except ")[2].partition(", which")[0]
    held = {
        n for n, key in KEYS.items() if key.metadata["holds"] == "invocation" and key.metadata["group"] != "command"
    }
    assert set(re.findall(r"[a-z_]+", for_once)) - {"and"} == held


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


def complaint(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.run(list(words)) == 2
    out, err = capsys.readouterr()
    assert (out, "Traceback" in err) == ("", False)
    return err


def test_what_is_no_command_gets_a_suggestion_and_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a run").mkdir()
    for name in ("my config.toml", "train_it.py", "train.py", "train.log", "a run/events.jsonl"):
        (tmp_path / name).touch()
    for words, meant in {
        ("trian",): "Did you mean train?",
        ("help", "trian"): "Did you mean train?",
        ("laptop",): "nanoscope train laptop\n",
        ("quick", "--prompt=a b"): "nanoscope train quick '--prompt=a b'\n",
        ("my config.toml",): "nanoscope train 'my config.toml'\n",
        ("train_it.py", "--seed=1"): "nanoscope train train_it.py --seed=1\n",
        ("train.log",): "nanoscope explain train.log\n",
        ("a run",): "nanoscope explain 'a run'\n",
        ("train.py", "config/x.py"): "nanoscope train config/x.py\n",
        ("sample.py", "--start=a"): "nanoscope sample --start=a\n",
        ("bench", "--device=cpu"): "nanoscope tune --device=cpu --bench\n",
        ("teach", "train.log"): "nanoscope explain train.log --teach\n",
    }.items():
        error = complaint(capsys, *words)
        assert meant in error
        assert all(command in error for command in cli.COMMANDS)


def test_a_run_called_by_its_name_alone_is_recognised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs/my run").mkdir(parents=True)
    (tmp_path / "runs/my run/events.jsonl").touch()
    for command in ("sample", "explain", "eta", "try", "compare", "report"):
        assert cli.run([command, "my run"]) in (1, 2)
        assert f"Did you mean '{Path('runs/my run')}'?" in capsys.readouterr().err


def test_an_unknown_option_names_the_closest_or_what_it_is_called_here(capsys: pytest.CaptureFixture[str]) -> None:
    for words, meant in {
        "--hepl": "--help",
        "sample --tempreature=1": "--temperature",
        "prepare a.txt --vocabsize=300": "--vocab_size",
        "explain a.log --lnag=ar": "--lang",
        "compare a.log --jsno": "--json",
        "presets --jsn": "--json",
        "demo --minute=1": "--minutes",
        "watch --prot=1": "--port",
        "train --lr=1": "--learning_rate",
        "train --steps=1": "--max_iters",
        "train --epochs=1": "--max_iters",
        "train --context=1": "--block_size",
        "train --gpu=0": "--device",
        "train --resume": "--init_from=resume",
        "train --out=x": "--out_dir",
        "train --output=x": "--out_dir",
        "train --bs=8": "--batch_size",
        "report a.log --output=x": "--out",
        "prepare a.txt --out_dir=x": "--out",
    }.items():
        assert f"Did you mean {meant}?" in complaint(capsys, *words.split()), words
    assert "--bogus" in complaint(capsys, "--bogus")


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


def test_an_expected_failure_is_printed_as_it_is(failing, capsys: pytest.CaptureFixture[str]) -> None:
    for error, status in ((JobError("no disk\nbuy one"), 1), (UsageError("no disk\nbuy one"), 2)):
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
    assert len(message.splitlines()) == 2
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
def test_a_closed_pipe_is_not_a_failure(tmp_path: Path, child_environment: dict[str, str]) -> None:
    for words in (["--help"], ["train", "--help"]):
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


@pytest.mark.slow
def test_demo_goes_from_text_to_a_report_and_a_second_one_leaves_the_first_alone(
    tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from nanoscope.training import resume

    def small(words: Iterable[str]) -> config_sources.Resolved:
        return resolve([*words, *TINY_MODEL, "--max_iters=3"])

    monkeypatch.setattr(resume, "resolve", small)
    monkeypatch.setenv("NANOSCOPE_CACHE", str(shared_cache))
    monkeypatch.chdir(tmp_path)
    assert cli.run(["demo", "--minutes=10"]) == 0
    printed = capsys.readouterr().out
    titles = ("Turn text", "Train", "See what happened", "Let it write", "Write a report", "Your own text")
    places = [printed.index(f"{number}. {title}") for number, title in enumerate(titles, start=1)]
    assert places == sorted(places)
    for name in ("config.toml", "events.jsonl", "console.log", "checkpoints/last", "report.html"):
        assert (tmp_path / "runs/demo" / name).is_file()

    first = {path: path.read_bytes() for path in Path("runs/demo").rglob("*") if path.is_file()}
    assert cli.run(["demo", "--minutes=10"]) == 0
    printed = capsys.readouterr().out
    assert {path: path.read_bytes() for path in Path("runs/demo").rglob("*") if path.is_file()} == first
    assert "nanoscope sample runs/demo-2" in printed
    assert "runs/demo " not in printed
    (advice,) = re.findall(r"train longer: nanoscope (.*)", printed)
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert cli.run(advice.split()) == 0
    assert "finished 6 iterations" in capsys.readouterr().out


def test_demo_needs_some_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for minutes in ("0", "-1", "nan", "inf", "soon"):
        assert "minutes" in complaint(capsys, "demo", f"--minutes={minutes}")
    assert list(tmp_path.iterdir()) == []


# --- the latest run, and texts ---


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which `train song.txt` was called twice."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "song.txt").write_text(SONG, "utf-8")
    with contextlib.chdir(folder):
        for _ in range(2):
            assert cli.run(["train", "song.txt", *TINY_MODEL, "--max_iters=2", "--device=cpu"]) == 0
        os.utime("runs/laptop-song-char/events.jsonl", (1, 1))
    return folder


def test_a_text_is_prepared_once_and_trained_on(trained: Path) -> None:
    assert sorted(path.name for path in (trained / "runs").iterdir()) == ["laptop-song-char", "laptop-song-char-2"]
    assert [path.name for path in (trained / "data").iterdir()] == ["song-char"]


def test_a_text_that_has_changed_since_is_to_be_prepared_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("song.txt").write_text(SONG, "utf-8")
    assert cli.run(["prepare", "song.txt"]) == 0
    os.utime("song.txt", (4e9, 4e9))
    assert cli.run(["train", "song.txt"]) == 1
    assert "Prepare it again: nanoscope prepare song.txt --overwrite" in capsys.readouterr().err
    assert not Path("runs").exists()


def test_the_latest_run_is_taken_where_none_is_named_and_it_is_said(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(trained)
    for words in ("explain", "eta", "report", "eval --device=cpu", "sample --max_new_tokens=3 --device=cpu"):
        assert cli.run(words.split()) == 0
        assert "nanoscope: the latest run: runs/laptop-song-char-2\n" in capsys.readouterr().err, words


def test_resume_trains_the_latest_run_on_or_the_one_that_is_named(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    os.utime("runs/laptop-song-char/checkpoints/last", (1, 1))
    assert cli.run(["resume", "--max_iters=3"]) == 0
    said = capsys.readouterr()
    assert "the latest run: runs/laptop-song-char-2" in said.err
    assert "finished 3 iterations" in said.out
    assert cli.run(["resume", "runs/laptop-song-char", "--max_iters=4"]) == 0
    assert "finished 4 iterations" in capsys.readouterr().out


def test_without_a_run_the_way_to_one_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in ("explain", "eta", "report", "eval", "sample", "try", "resume"):
        assert "There is no run in runs/ yet" in complaint(capsys, command)


# --- tune --bench ---


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows can't send SIGINT to one process")
def test_ctrl_c_prints_how_fast_the_machine_is_by_then(child_environment: dict[str, str], tmp_path: Path) -> None:
    words = [sys.executable, "-m", "nanoscope", "tune", "--bench", "--device=cpu", "--json"]
    process = subprocess.Popen(
        words, cwd=tmp_path, env=child_environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    while "measuring 4 seconds" not in (line := process.stderr.readline()):
        assert line, "ended too early"
    process.send_signal(signal.SIGINT)
    printed, complaints = process.communicate(timeout=300)
    assert process.returncode == 130
    assert complaints.endswith("nanoscope: interrupted\n")
    found = json.loads(printed)
    assert {"cpu", "threads", "platform", "torch", "matmul_float32_gflops"} <= found.keys()
    assert "step_ms" not in found
    assert list(tmp_path.iterdir()) == []
