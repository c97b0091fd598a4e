import json

import pytest

import example_logs
from nanoscope.cli import run
from nanoscope.runs.events import Eval, Iter, Start
from written_runs import write_events, write_run


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C")
    (tmp_path / "laptop.log").write_text(example_logs.laptop(), encoding="utf-8")
    (tmp_path / "gpu.log").write_text(example_logs.gpu(), encoding="utf-8")
    (tmp_path / "both.log").write_text(example_logs.laptop() + example_logs.gpu(), encoding="utf-8")
    (tmp_path / "crash.log").write_text("RuntimeError: boom\n", encoding="utf-8")
    (tmp_path / "again").mkdir()
    (tmp_path / "again" / "gpu.log").write_text(example_logs.gpu(), encoding="utf-8")
    return tmp_path


def output(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


def test_two_logs_are_compared_by_their_names(here, capsys):
    assert run(["compare", "laptop.log", "gpu.log"]) == 0
    text = output(capsys)
    assert "laptop and gpu differ by" in text
    assert "Severe overfitting" in text


def test_the_runs_of_one_log_are_compared_with_each_other(here, capsys):
    assert run(["compare", "both.log"]) == 0
    assert "#1 and #2 differ by" in output(capsys)


def test_a_folder_of_runs_stands_for_the_runs_in_it(here, capsys):
    for name in ("lr1.0", "lr0.1"):
        write_run(here / "runs" / name)
    (here / "runs" / "notes").mkdir()
    assert run(["compare", "runs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["names"] == ["lr0.1", "lr1.0"]


def test_runs_are_found_at_any_depth_and_named_so_that_they_can_be_told_apart(here, capsys):
    for name in ("one/lr1.0", "one/lr0.1", "two/lr1.0", "alone"):
        write_run(here / "runs" / name)
    assert run(["compare", "runs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["names"] == ["alone", "lr0.1", "one/lr1.0", "two/lr1.0"]


def test_runs_of_a_folder_that_have_nothing_to_compare_are_skipped_with_a_warning(here, capsys):
    for name in ("one", "two"):
        write_run(here / "runs" / name)
    write_events(here / "runs/begun", [Start()])
    write_events(here / "runs/stopped", [Start(), Iter(step=0, loss=4.0)])
    write_events(here / "runs/newer", [Start(version=99)])
    for command in (["compare", "runs"], ["report", "runs"]):
        assert run(command) == 0
        said = capsys.readouterr().err
        assert "skipped runs/begun: it has no training step yet" in said
        assert "skipped runs/stopped: it has no evaluation yet" in said
        assert "skipped runs/newer: this run was written by a newer nanoscope" in said
        assert len(said.splitlines()) == 3
    assert (here / "runs/report.html").is_file()


def test_a_folder_whose_runs_have_all_nothing_to_show_is_refused(here, capsys):
    write_events(here / "runs/begun", [Start()])
    assert run(["compare", "runs"]) == 1
    assert "No training step was found in runs" in capsys.readouterr().err


def test_of_several_logs_one_without_training_is_skipped_with_a_warning(here, capsys):
    for command in ("compare", "report"):
        assert run([command, "gpu.log", "crash.log", "laptop.log"]) == 0
        assert "skipped crash.log: it has no training step yet" in capsys.readouterr().err


def test_repeats_with_other_seeds_are_ranked_together(here, capsys):
    for rate, val in ((0.1, 2.0), (0.01, 1.5), (1.0, 3.0)):
        for seed in (1, 2):
            settings = {"learning_rate": rate, "seed": seed, "max_iters": 100, "dataset": "song"}
            evals = [Eval(step=step, val_loss=val + seed / 100 + 1 / step) for step in (50, 100)]
            start = Start(config=settings, vocab_size=65)
            write_events(here / f"runs/lr={rate},seed={seed}", [start, Iter(step=0, loss=4.0), *evals])
    assert run(["compare", "runs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in lines if line.startswith("lr=")]
    assert [row[-1] for row in rows] == ["learning_rate=0.01", "learning_rate=0.1", "learning_rate=1"]
    assert rows[0][:5] == ["lr=0.01,seed=1", "(+1)", "1.5250", "±", "0.0071"]


def test_logs_of_the_same_name_are_called_by_their_paths(here, capsys):
    assert run(["compare", "gpu.log", "again/gpu.log", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["names"] == ["gpu.log", "again/gpu.log"]


def test_json_has_the_findings_with_their_evidence_and_confidence(here, capsys):
    assert run(["compare", "laptop.log", "gpu.log", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "nanoscope.compare/3"
    assert [[row["runs"], row["steps"]] for row in document["rows"]] == [[[1], 5000], [[0], 2000]]
    assert {"key": "n_layer", "values": [4, 6]} in document["config"]
    findings = document["findings"]
    confounded = next(finding for finding in findings if finding["code"] == "confounded")
    assert confounded["confidence"] == "sure"
    assert "n_embd" in confounded["settings"]


def test_the_output_is_in_the_language_asked_for(here, capsys):
    for language, words in {"ar": "تختلف عدة", "hi": "कई सेटिंग्स अलग हैं"}.items():
        assert run(["compare", "laptop.log", "gpu.log", "--lang", language]) == 0
        assert words in output(capsys)


def test_mistakes_are_answered_in_a_line_or_two(here, capsys):
    for words, status, message in (
        ("", 2, "give the logs of two or more runs"),
        ("gpu.log", 2, "contains only one run"),
        ("crash.log", 1, "No training step was found in crash.log"),
        ("gpu.log laptop.log --jsn", 2, "Did you mean --json?"),
    ):
        assert run(["compare", *words.split()]) == status
        error = capsys.readouterr().err
        assert message in error
        assert len(error.splitlines()) <= 3
