"""Logs and events made to do harm: to memory, to the analysis or to the terminal."""

import io
import json
import random
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from nanoscope import cli
from nanoscope.messages import printable
from nanoscope.runs.reader import read_log
from nanoscope.runs.text import clean
from nanoscope.views.terminal_page import Page
from nanoscope.words.language import choose_language

from .conftest import bounded

START: dict[str, Any] = {
    "event": "start", "t": 0.1, "version": 1, "run": "run", "first_step": 0, "device": "cpu", "parameters": 1000,
    "config": {
        "dataset": "song", "max_iters": 100, "batch_size": 4, "block_size": 8, "device": "cpu", "eval_interval": 20,
    },
    "tokens_per_step": 32, "peak_flops": 1e9, "vocab_size": 30, "train_tokens": 1000, "val_tokens": 100,
}  # fmt: skip


def an_iter(step: int) -> dict[str, Any]:
    return {
        "event": "iter", "t": 1 + step / 10, "step": step, "loss": 3 - step / 50, "seconds": 0.1, "lr": 1e-3,
        "grad_norm": 1.0, "tokens_per_second": 320.0, "mfu": 0.1,
    }  # fmt: skip


def an_eval(step: int) -> dict[str, Any]:
    return {
        "event": "eval", "t": 1.0, "step": step, "train_loss": 3.0, "val_loss": 3.1, "val_stderr": 0.1, "seconds": 0.5
    }  # fmt: skip


END: dict[str, Any] = {
    "event": "end", "t": 9.0, "reason": "finished", "step": 60, "wall_seconds": 9.0,
    "phases": {"startup": 1.0, "step": 6.0, "eval": 1.5, "checkpoint": 0.1},
}  # fmt: skip
EVENTS = [
    START, *map(an_iter, range(60)), an_eval(0), an_eval(20), an_eval(40),
    {"event": "checkpoint", "t": 3.0, "step": 40, "seconds": 0.1}, {"event": "resume", "t": 3.1, "step": 40},
    {"event": "non_finite", "t": 8.0, "step": 59}, END,
]  # fmt: skip

HOSTILE: list[Any] = [
    None, True, "x", "", "\x1b[2J\x07\x9b31m\u202egnol", "9" * 400, [], [[]], {}, {"a": 1}, -1, 0, 10**15, 10**25,
    10**400, -(10**400), 1e308, -1e308, 5e-324, float("inf"), float("-inf"), float("nan"), 2**63,
    "A" * 7000, "\ud800", "\x00",
]  # fmt: skip


def written(folder: Path, events: list[Any]) -> Path:
    folder.mkdir(exist_ok=True)
    text = "\n".join(event if isinstance(event, str) else json.dumps(event) for event in events)
    (folder / "events.jsonl").write_text(text + "\n", "utf-8")
    return folder


COMMANDS = (["explain", "--json"], ["explain"], ["explain", "--annotate"], ["eta"], ["compare"])


def output_of(folder: Path, words: list[str]) -> str:
    """What a command prints about these events; it must not crash."""
    logs = [str(folder)] * (2 if words[0] == "compare" else 1)
    output, errors = io.StringIO(), io.StringIO()
    with bounded(), redirect_stdout(output), redirect_stderr(errors):
        status = cli.run([*words, *logs])
    assert status == 0 or words[0] != "explain"  # eta and compare need steps
    assert "nanoscope: unexpected" not in errors.getvalue()
    if "--json" in words:
        json.loads(output.getvalue())
    assert not any(character in output.getvalue() for character in "\x1b\x07\x9b\u202e")
    return output.getvalue()


@pytest.mark.parametrize("field", sorted({key for event in EVENTS for key in event}))
def test_a_wrong_value_in_any_field_is_handled(field: str, tmp_path: Path) -> None:
    chooser = random.Random(field)
    for value, command in zip(chooser.sample(HOSTILE, 3), chooser.sample(COMMANDS, 3), strict=True):
        events = [{**event, field: value} if field in event and chooser.random() < 0.7 else event for event in EVENTS]
        output_of(written(tmp_path / "run", events), command)


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value)[:20])
def test_settings_of_a_wrong_type_are_handled(value: Any, tmp_path: Path) -> None:
    settings = {key: value for key in START["config"] if random.Random(f"{key}{value!a}").random() < 0.7}
    events = [{**START, "config": {**START["config"], **settings}}, *EVENTS[1:]]
    output_of(written(tmp_path / "run", events), random.Random(ascii(value)).choice(COMMANDS))


LINES = {
    "deep nesting": '{"event": ' + "[" * 8000,
    "deeper nesting": '{"event": ' + '{"a":' * 100_000,
    "a number of a million digits": '{"event": "iter", "step": ' + "9" * 1_000_000 + "}",
    "a number of 5000 digits": '{"event": "iter", "step": ' + "9" * 5000 + "}",
    "NUL bytes": "\x00" * 10_000,
    "a pickle": "\x80\x04cos\nsystem\n(S'touch MARKER'\ntR.",
    "parameters without end": "number of parameters: " + "9" * 5000 + "M",
    "other digits": "number of parameters: ²²²M, tokens per iteration will be: ١٢٣",
    "settings without end": "max_iters = " + "9" * 79,
    "backspaces": "loss 1.0" + "\x08" * 3 + "9.9",
}


@pytest.mark.parametrize("name", LINES)
def test_a_strange_line_is_skipped(name: str, tmp_path: Path) -> None:
    folder = written(tmp_path / "run", [LINES[name], *EVENTS, LINES[name]])
    output_of(folder, ["explain", "--json"])
    assert len(read_log(str(folder)).runs[-1].steps) >= 20


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_settings_with_escape_sequences_are_printed_harmlessly(command: list[str], tmp_path: Path) -> None:
    trick = "".join(TRICKS.values())
    config = {**START["config"], "dataset": trick, "device": trick, "dtype": trick}
    output_of(written(tmp_path / "run", [{**START, "config": config, "device": trick}, *EVENTS[1:]]), command)


def test_a_line_of_fifty_megabytes_takes_little_memory(tmp_path: Path, extra_megabytes: Callable[..., float]) -> None:
    with (tmp_path / "train.log").open("wb") as file:
        file.write(b'{"event": "iter", "step": 1, "loss": "')
        for _ in range(50):
            file.write(b"A" * (1 << 20))
    imports = "from nanoscope.runs.reader import read_log"
    assert extra_megabytes(imports, "read_log('train.log'); raise JobError('')") < 40


TRICKS = {
    "colours": "\x1b[31m", "clear the screen": "\x1b[2J\x1b[H", "the title": "\x1b]0;owned\x07",
    "a link": "\x1b]8;;http://evil\x1b\\", "the clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "C1": "\x9b31m\x9d0;owned\x9c\x90", "a bell": "\x07", "backspaces": "\x08\x08\x08",
    "a carriage return": "\rfake", "delete": "\x7f", "half a character": "\ud800",
    "turned text": "\u202egnol\u202c\u2066x\u2069",
    "device control": "\x1bPevil\x1b\\", "a reset": "\x1bc",
}  # fmt: skip
OBEYED = [
    chr(code) for code in [*range(9), *range(11, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
]


@pytest.mark.parametrize("name", TRICKS)
def test_escape_sequences_never_reach_the_terminal(name: str) -> None:
    for text in (printable(f"before {TRICKS[name]} after"), clean(f"before {TRICKS[name]} after").replace("\r", "")):
        assert not any(character in text for character in OBEYED)
        assert "before" in text


@pytest.mark.parametrize("name", TRICKS)
def test_an_annotated_log_prints_no_escape_sequences(name: str, tmp_path: Path) -> None:
    trick = TRICKS[name].encode("utf-8", "replace").decode()
    lines = [f"{trick}iter {n}: loss {3 - n / 9:.4f}, time 30.00ms, mfu 1.00%{trick}" for n in range(20)]
    (tmp_path / "train.log").write_text("\n".join([*lines, f"RuntimeError: {trick} out of luck"]), "utf-8")
    output = io.StringIO()
    with redirect_stdout(output):
        for more in ([], ["--annotate"]):
            assert cli.run(["explain", str(tmp_path / "train.log"), *more, "--lang=en"]) == 0
    assert "loss" in output.getvalue()
    assert not any(character in output.getvalue() for character in OBEYED)


def test_a_quoted_line_keeps_its_characters() -> None:
    console = Console(file=io.StringIO(), width=80)
    Page(choose_language("en"), console).quote("समय\t١٢\x1b[0m é")
    assert console.file.getvalue() == "समय\t١٢␛[0m é\n"  # type: ignore[attr-defined]
