import json
import subprocess
import sys

import pytest

import example_logs
from nanoscope.cli import run


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C")
    (tmp_path / "gpu.log").write_text(example_logs.gpu(), encoding="utf-8")
    (tmp_path / "spiky.log").write_text(example_logs.spiky(), encoding="utf-8")
    return tmp_path


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


def test_a_log_is_explained_in_english_unless_asked_otherwise(here, capsys):
    assert run(["explain", "gpu.log"]) == 0
    assert "Severe overfitting. Validation loss was best at step 1750" in said(capsys)


def test_the_language_can_be_chosen_or_is_that_of_the_locale(here, capsys, monkeypatch):
    assert run(["explain", "gpu.log", "--lang", "hi"]) == 0
    assert "गंभीर ओवरफ़िटिंग" in said(capsys)
    monkeypatch.setenv("LC_ALL", "ar_EG.UTF-8")
    assert run(["explain", "gpu.log"]) == 0
    assert "فرط تخصيص شديد" in said(capsys)


def test_several_logs_are_a_line_each(here, capsys):
    (here / "logs").mkdir()
    (here / "logs/notes.txt").write_text("nothing of interest\n", encoding="utf-8")
    (here / "logs/late.out").write_text(example_logs.laptop(), encoding="utf-8")
    assert run(["explain", "gpu.log", "spiky.log", "logs"]) == 0
    header, *rows = capsys.readouterr().out.strip().splitlines()
    assert header.split()[:2] == ["run", "steps"]
    assert [row.split()[0] for row in rows if row[0] != " "] == ["gpu", "spiky", "late"]
    assert "Severe" in rows[0]
    assert run(["explain", "gpu.log", "spiky.log", "--teach"]) == 0
    text = said(capsys)
    assert text.index("gpu.log:") < text.index("Severe overfitting") < text.index("spiky.log:")


def test_what_is_no_text_is_said_to_be_so(here, capsys):
    for name, content, message in (
        ("paper.pdf", b"%PDF-1.7 1 0 obj", "paper.pdf is a PDF, not a log"),
        ("model.bin", bytes(range(64)), "model.bin is a binary file, not a log"),
    ):
        (here / name).write_bytes(content)
        assert run(["explain", name]) == 1
        assert message in capsys.readouterr().err


def test_a_log_can_be_piped_in(nanoscope, here):
    for words, note in (["-"], ""), ([], "nanoscope: reading the log from standard input\n"):
        done = nanoscope("explain", *words, "--lang=en", cwd=here, input=example_logs.spiky())
        assert (done.returncode, done.stderr) == (0, note)
        assert done.stdout.startswith("standard input: 142 lines, format nanogpt")
    assert "start-up + evaluation: step 0 took 12.5 s" in done.stdout


def test_arabic_can_be_piped_with_an_old_code_page(nanoscope, here):
    done = nanoscope("explain", "gpu.log", "--lang=ar", cwd=here, env={"PYTHONIOENCODING": "cp1252"})
    assert "فرط تخصيص شديد" in done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="a shell with head is needed")
def test_a_closed_pipe_is_not_a_failure(here, child_environment):
    command = f"'{sys.executable}' -m nanoscope explain gpu.log; echo status $? >&2"
    done = subprocess.run(
        ["sh", "-c", f"({command}) | head -c 5"], cwd=here, env=child_environment, capture_output=True, encoding="utf-8"
    )
    assert done.stdout == "gpu.l"
    assert done.stderr == "status 0\n"


def test_a_pasted_log_can_be_annotated_too(nanoscope, here):
    done = nanoscope("explain", "-", "--annotate", "--lang=en", cwd=here, input=example_logs.spiky())
    assert done.returncode == 0, done.stderr
    assert "^ Slow: of these 5.99 s, 5.82 s are not training but evaluation +" in done.stdout
    assert all(line in done.stdout for line in example_logs.spiky().splitlines())


def test_the_directory_of_a_run_can_be_annotated(here, capsys):
    (here / "run").mkdir()
    event = {"event": "iter", "step": 1, "loss": 4.0, "seconds": 0.1}
    (here / "run" / "events.jsonl").write_text(json.dumps(event) + "\n", encoding="utf-8")
    (here / "run" / "console.log").write_text(example_logs.GPU_END, encoding="utf-8")
    assert run(["explain", "run", "--annotate"]) == 0
    assert said(capsys).startswith("iter 4980: loss 0.8010")


def test_the_console_log_of_a_run_is_explained_by_the_events_beside_it(here, capsys):
    (here / "run").mkdir()
    events = [{"event": "iter", "step": step, "loss": 4.0 - step / 10, "seconds": 0.1} for step in range(9)]
    (here / "run" / "events.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events), encoding="utf-8")
    (here / "run" / "console.log").write_text(example_logs.GPU_END, encoding="utf-8")
    assert run(["explain", "run/console.log"]) == 0
    assert "read from events.jsonl beside it" in said(capsys)


def test_json_is_for_programs(here, capsys):
    assert run(["explain", "gpu.log", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "nanoscope.explain/1"
    assert document["runs"][0]["verdicts"] == ["overfitting"]
    assert run(["explain", "gpu.log", "spiky.log", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2


def test_max_iters_and_device_add_what_the_log_does_not_say(here, capsys):
    assert run(["explain", "spiky.log", "--max_iters=20000", "--device", "RTX 4070 Ti"]) == 0
    text = said(capsys)
    assert "At step 10000 of 20000 (50%)." in text
    assert "On NVIDIA GeForce RTX 4070 Ti" in text


def test_mistakes_get_a_short_message(here, capsys):
    for words, status, message in (
        ("gpu.lg", 1, "Did you mean gpu.log?"),
        ("gpu.log --anotate", 2, "Did you mean --annotate?"),
        ("gpu.log --max_iters=0", 2, "must be above 0"),
        ("gpu.log --lang=xx", 2, "There is no language 'xx'."),
        ("empty", 1, "is not a nanoscope run"),
    ):
        (here / "empty").mkdir(exist_ok=True)
        assert run(["explain", *words.split()]) == status
        error = capsys.readouterr().err
        assert message in error
        assert len(error.splitlines()) <= 3


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("", "It is empty."),
        (
            "loading data\nFileNotFoundError: train.bin\n",
            "the program stopped with an error. FileNotFoundError: train.bin",
        ),
        ("number of parameters: 10.65M\ntorch.OutOfMemoryError: CUDA out of memory.\n", "Halve batch_size"),
        ("compiling the model... (takes a ~minute)\n^C\n", "the run was stopped before its end"),
    ],
)
def test_a_log_that_ends_before_training_is_explained_as_far_as_it_goes(text, answer, here, capsys):
    (here / "short.log").write_text(text, encoding="utf-8")
    assert run(["explain", "short.log"]) == 0
    text = said(capsys)
    assert "No training in this log." in text
    assert answer in text
