"""`explain --fail_on`: a crash is a verdict, and so is everything else that should stop a CI job."""

import json

import pytest

from nanoscope.cli import run
from nanoscope.findings.declared import Diverged, Improving, NonFinite, Overfitting, Verdict

STEPS = "".join(f"iter {step}: loss {4 - step / 1000:.4f}, time 100.00ms, mfu 5.00%\n" for step in range(0, 1000, 10))
LATER = "".join(
    f"iter {step}: loss {4 - step / 1000:.4f}, time 100.00ms, mfu 5.00%\n" for step in range(1000, 1500, 10)
)
CRASH = 'Traceback (most recent call last):\n  File "x.py", line 3, in step\n    f()\nRuntimeError: it broke\n'
STOPPED = 'Traceback (most recent call last):\n  File "x.py", line 3, in step\n    f()\nKeyboardInterrupt\n'


@pytest.fixture
def log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C")

    def write(text: str) -> str:
        (tmp_path / "train.log").write_text(text, "utf-8")
        return "train.log"

    return write


def test_a_log_that_ends_in_a_traceback_fails(log, capsys):
    for words in ("--fail_on=error", "--fail-on=any --json", "--fail_on=diverged,error --annotate"):
        assert run(["explain", log(STEPS + CRASH), *words.split()]) == 1
        assert capsys.readouterr().err == "nanoscope: train.log: error\n"


def test_the_crash_is_the_headline_and_is_told_once(log, capsys):
    assert run(["explain", log(STEPS + CRASH)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.index("Ended by an error. Line 104: the program stopped") < text.index("Still improving")
    assert text.count("RuntimeError: it broke") == 1
    assert "Errors in the log" not in text


def test_the_document_has_the_crash_among_the_verdicts(log, capsys):
    assert run(["explain", log(STEPS + CRASH), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["runs"]
    assert found["verdicts"] == ["error", "improving"]
    assert found["findings"][0] == {
        "code": "error", "confidence": "sure", "line": 104, "kind": "exception", "message": "RuntimeError: it broke",
        "finished": False,
    }  # fmt: skip


def test_a_crash_before_the_first_step_fails_too(log):
    assert run(["explain", log("loading data\n" + CRASH), "--json", "--fail_on=error"]) == 1


def test_ctrl_c_is_no_error_but_is_told(log, capsys):
    assert run(["explain", log(STEPS + STOPPED), "--fail_on=error,any"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Errors in the log" not in text
    assert "the run was stopped before its end. KeyboardInterrupt" in text.partition("Progress")[2]


def test_an_error_after_which_training_went_on_is_listed_and_is_no_verdict(log, capsys):
    for text in (CRASH + STEPS, STEPS + CRASH + LATER):
        assert run(["explain", log(text), "--fail_on=error,any"]) == 0
        assert "RuntimeError: it broke" in capsys.readouterr().out.partition("Errors in the log")[2]


def test_an_error_after_the_end_of_training_is_a_verdict_but_not_a_bad_one(log, capsys):
    done = "max_iters = 990\n" + STEPS + CRASH
    assert run(["explain", log(done), "--fail_on=any"]) == 0
    assert "An error after the end of training" in capsys.readouterr().out
    assert run(["explain", log(done), "--fail_on=error"]) == 1


def test_any_is_what_the_verdicts_themselves_call_bad(log):
    overfits = Overfitting(100, 1.0, 1.5, 0.5, 0.5, 100, 0.5, "severe")
    slight = Overfitting(100, 1.0, 1.01, 0.5, 0.01, 100, 0.5, "slight")
    assert (overfits.tone, slight.tone) == ("bad", "fair")
    assert NonFinite(5, False, True, None, None).tone == "fair"
    assert Improving.usual_tone == "good"
    assert Diverged.usual_tone == "bad"
    assert {"worsening", "not_learning", "diverged", "no_training"} <= {
        kind.code for kind in Verdict.__subclasses__() if kind.usual_tone == "bad"
    }
    assert run(["explain", log("".join(f"iter {s}: loss nan, time 9.00ms\n" for s in range(40))), "--fail_on=any"]) == 1
    assert run(["explain", log(STEPS), "--fail_on=any"]) == 0
