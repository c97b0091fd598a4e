"""`nanoscope presets`: a table, one preset, and both as JSON."""

import json
from pathlib import Path

import pytest

from nanoscope.cli import run
from nanoscope.config_sources import preset_text, presets, resolve


def test_every_preset_is_listed_with_its_size_and_what_it_is_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run(["presets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["preset", "parameters", "block_size", "max_iters", "what", "for"]
    assert [line.split()[0] for line in lines[1 : 1 + len(presets())]] == presets()
    laptop = next(line for line in lines if line.startswith("laptop "))
    assert laptop.split()[1:4] == ["7.1M", "128", "500"]
    assert "One minute on a laptop" in laptop


def test_a_narrow_terminal_breaks_no_word_and_keeps_the_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["presets"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_the_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["presets", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == presets()
    assert set(rows[0]) == {"name", "parameters", "block_size", "max_iters", "note"}


def test_one_preset_is_printed_as_toml_that_train_reads(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["presets", "laptop"]) == 0
    printed = capsys.readouterr().out
    assert printed == preset_text("laptop")
    (tmp_path / "mine.toml").write_text(printed, "utf-8")
    assert resolve([str(tmp_path / "mine.toml")]).config == resolve(["laptop"]).config


def test_one_preset_as_json_has_its_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["presets", "quick", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["settings"] == resolve(["quick"]).given


def test_a_mistyped_preset_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["presets", "labtop"]) == 2
    assert "no preset is named 'labtop'. Did you mean laptop?" in capsys.readouterr().err
