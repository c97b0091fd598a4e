"""`watch --notify`: a real command and a real HTTP server are told what happens to runs."""

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from nanoscope.errors import UsageError
from nanoscope.runs.events import End, NonFinite
from nanoscope.views.dashboard import notify
from nanoscope.views.dashboard.notify import notifier
from watching import begin_run, training, until, watching
from written_runs import write_run

pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install '.[web]'")

RECORDER = """
import json, os, pathlib, sys
seen = {name: value for name, value in os.environ.items() if name.startswith("NANOSCOPE_")}
with pathlib.Path(sys.argv[1]).open("a", encoding="utf-8") as file:
    file.write(json.dumps([json.load(sys.stdin), seen]) + "\\n")
"""


@pytest.fixture
def recorder(tmp_path: Path) -> tuple[str, Path]:
    """A command that writes down what it is told, and where."""
    (tmp_path / "record.py").write_text(RECORDER, "utf-8")
    told = tmp_path / "told.jsonl"
    return f"'{sys.executable}' '{tmp_path / 'record.py'}' '{told}'", told


def told_in(file: Path) -> list[list[dict[str, Any]]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []


@contextmanager
def webhook(status: int = 200) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """An HTTP server on this machine, and what was posted to it."""
    posted: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook", posted
    finally:
        server.shutdown()
        server.server_close()


def test_a_command_is_run_once_when_a_run_finishes(tmp_path: Path, recorder: tuple[str, Path]) -> None:
    command, told = recorder
    runs = tmp_path / "runs"
    write_run(runs / "old")
    events = begin_run(runs / "now", 30)
    with watching(runs, "--notify", command) as server, training(runs / "now"):
        until(lambda: server.run("now")["state"] == "live" and server.run("old")["best"], "both runs are known")
        events.write(End(t=9.0, reason="finished", step=30, wall_seconds=9.0))
        until(lambda: told_in(told), "the command was run")
        until(lambda: server.run("now")["state"] == "finished", "the run is listed as finished")
        begin_run(runs / "later", 5).close()
        until(lambda: len(server.runs()) == 3, "another look was taken")
    ((facts, variables),) = told_in(told)
    assert (facts["event"], facts["run"], facts["step"]) == ("finished", "now", 30)
    assert Path(facts["folder"]) == runs / "now"
    assert facts["best_val_loss"] == pytest.approx(float(variables["NANOSCOPE_BEST_VAL_LOSS"]))
    assert variables["NANOSCOPE_EVENT"] == "finished"


def test_names_of_runs_are_facts_and_never_part_of_a_command(tmp_path: Path, recorder: tuple[str, Path]) -> None:
    command, told = recorder
    runs = tmp_path / "runs"
    runs.mkdir()
    name = "$(touch hacked) `touch hacked`; touch hacked #"
    with watching(runs, "--notify", command) as server:
        assert server.runs() == []
        events = begin_run(runs / name, 30)
        events.write(End(t=9.0, reason="interrupted", step=30, wall_seconds=9.0))
        until(lambda: told_in(told), "the command was run")
    ((facts, variables),) = told_in(told)
    assert facts["run"] == variables["NANOSCOPE_RUN"] == name
    assert facts["event"] == "stopped"
    assert not list(tmp_path.rglob("hacked"))


def test_a_webhook_gets_a_nan_once_and_no_failure_on_top_of_it(tmp_path: Path) -> None:
    events = begin_run(tmp_path / "run", 30)
    with webhook() as (url, posted), watching(tmp_path, "--notify", url) as server, training(tmp_path / "run"):
        until(lambda: server.run("run")["state"] == "live", "the run is known")
        events.write(NonFinite(t=9.0, step=30), End(t=9.0, reason="non_finite", step=30, wall_seconds=9.0))
        until(lambda: server.run("run")["state"] == "failed" and posted, "it is listed as failed")
        begin_run(tmp_path / "next", 10).write(End(reason="finished", step=10))
        until(lambda: len(posted) > 1, "the next run is reported")
    assert [(facts["event"], facts["run"], facts["step"]) for facts in posted] == [
        ("nan", "run", 30),
        ("finished", "next", 10),
    ]


def test_a_stall_is_reported(tmp_path: Path) -> None:
    events = begin_run(tmp_path / "run", 30)
    with webhook() as (url, posted), watching(tmp_path, "--notify", url) as server, training(tmp_path / "run"):
        until(lambda: server.run("run")["state"] == "live", "the run is known")
        until(lambda: posted, "its silence is reported")
        events.close()
    assert posted[0]["event"] == "stalled"


def test_what_fails_is_reported_once_on_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(notify, "TIMEOUT_SECONDS", 0.2)
    facts = {"event": "finished", "run": "a"}
    with webhook(500) as (url, _):
        tell = notifier(url)
        tell(facts)
        tell(facts)
    assert capsys.readouterr().err == "nanoscope: --notify failed (finished): HTTP Error 500: Internal Server Error\n"
    for command, reason in [
        ("no-such-command-here", "No such file"),
        (f"'{sys.executable}' -c 'raise SystemExit(3)'", "status 3"),
        (f"'{sys.executable}' -c 'import time; time.sleep(60)'", "no answer within"),
    ]:
        tell = notifier(command)
        tell(facts)
        tell(facts)
        (line,) = capsys.readouterr().err.splitlines()
        assert reason in line


@pytest.mark.parametrize("target", ["", "   ", "http://", "'unfinished"])
def test_a_target_that_cannot_be_meant_is_refused_at_once(target: str) -> None:
    with pytest.raises(UsageError, match="--notify"):
        notifier(target)
