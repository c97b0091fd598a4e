import json

import pytest

import example_logs
from nanoscope.cli import run
from written_runs import run_events, write_events


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C")
    (tmp_path / "waiting.log").write_text(example_logs.WAITING, encoding="utf-8")
    (tmp_path / "gpu.log").write_text(example_logs.gpu(), encoding="utf-8")
    (tmp_path / "crash.log").write_text("RuntimeError: boom\n", encoding="utf-8")
    return tmp_path


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


def test_the_time_left_is_shown_with_the_naive_estimate_and_for_faster_steps(here, capsys):
    assert run(["eta", "waiting.log", "--max_iters=6000", "--step_time=0.2", "--step_time=0.15"]) == 0
    text = said(capsys)
    assert text.startswith("About 6 h 33 min left")
    assert "6 h 32 min 51 s" in text
    assert "20 min at 200 ms a step · 15 min at 150 ms a step" in text


def test_without_a_total_it_names_the_option_that_gives_one(here, capsys):
    assert run(["eta", "waiting.log"]) == 0
    text = said(capsys)
    assert "doesn't say how many steps the run will take" in text
    assert "--max_iters N" in text


def test_a_finished_run_has_nothing_left(here, capsys):
    assert run(["eta", "gpu.log"]) == 0
    assert said(capsys) == "Nothing is left to do: the run is complete."
    assert run(["eta", "gpu.log", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["eta"]["expected_s"] == 0


@pytest.mark.parametrize("file", [".", "console.log"])
def test_a_finished_run_that_is_to_train_longer_has_the_rest_left(tmp_path, capsys, file):
    folder = write_events(tmp_path / "run", run_events(200, "plain", 100))
    assert run(["eta", str(folder / file), "--max_iters=500", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["finished"], document["eta"]["steps_left"]) == (False, 300)
    assert run(["eta", str(folder / file), "--max_iters=200", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["finished"] is True


def test_json_has_the_numbers_or_the_reason(here, capsys):
    assert run(["eta", "waiting.log", "--max_iters=6000", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "nanoscope.eta/1"
    assert document["eta"]["naive_s"] == pytest.approx(23571.149)
    assert run(["eta", "waiting.log", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["eta"] is None
    assert document["no_eta"]["reason"] == "total_unknown"


def test_the_answer_is_in_the_chosen_language(here, capsys):
    assert run(["eta", "waiting.log", "--max_iters=6000", "--lang=hi"]) == 0
    assert "6 घंटे 32 मिनट 51 सेकंड" in said(capsys)


def test_mistakes_get_a_short_message(here, capsys):
    for words, status, message in (
        ("waiting.log gpu.log", 2, "does not take gpu.log"),
        ("waiting.log --maxiters=6000", 2, "Did you mean --max_iters?"),
        ("waiting.log --step_time=0", 2, "above 0"),
        ("crash.log", 1, "nanoscope explain crash.log"),
    ):
        assert run(["eta", *words.split()]) == status
        error = capsys.readouterr().err
        assert message in error
        assert len(error.splitlines()) <= 3
