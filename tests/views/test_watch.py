"""`nanoscope watch` as a real process, over plain HTTP."""

import asyncio
import base64
import contextlib
import gzip
import io
import json
import math
import os
import re
import select
import signal
import socket
import sys
from array import array
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import psutil
import pytest
from starlette.exceptions import HTTPException

import example_logs
from nanoscope import cli
from nanoscope.cli.watch import DEFAULT_PORT
from nanoscope.findings.analyse import Options
from nanoscope.runs.events import End, EndReason, Eval, Start
from nanoscope.views.dashboard import logs
from nanoscope.views.dashboard.logs import MAX_LOGS
from nanoscope.views.dashboard.reports import Reports
from nanoscope.views.dashboard.routes import make_app
from watching import PATIENCE_SECONDS, Answer, Watch, begin_run, falling, go_on, heard, training, until, watching
from written_runs import EventFile, write_run

pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install '.[web]'")

LIMIT_BYTES = 32_000_000
SECURITY = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "x-frame-options": "DENY",
}
posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such thing")


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """Every path below with its size and the time of its last change."""
    found = {path: path.lstat() for path in [folder, *folder.rglob("*")]}
    return {str(path): (stat.st_size, stat.st_mtime_ns) for path, stat in found.items()}


def losses(payload: dict[str, Any], run: int = 0) -> list[float]:
    return list(array("f", base64.b64decode(payload["runs"][run]["series"]["loss"]["y"])))


def refused(*words: str | Path, cwd: Path) -> tuple[int, str]:
    """A server that does not start: its status and what it said."""
    watch = Watch(*words, cwd=cwd)
    try:
        status, said = watch.ended()
    finally:
        watch.close()
    assert "Traceback" not in said
    return status, said


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs in every state but live, one of them in a deep folder; and next to them a folder that must stay private."""
    top = tmp_path_factory.mktemp("shelf")
    runs = top / "runs"
    write_run(runs / "done")
    write_run(runs / "other", steps=200)
    write_run(runs / "one/two/three", steps=40)
    write_run(runs / "one/two/three/four", steps=40)
    write_run(top / "outside", steps=50)
    endings: list[tuple[str, EndReason]] = [("interrupted", "interrupted"), ("burst", "non_finite")]
    for name, reason in endings:
        events = begin_run(runs / name, 25)
        events.write(End(t=2.0, reason=reason, step=25, wall_seconds=2.0, phases={"step": 1.25}))
        events.close()
    begin_run(runs / "killed", 25).close()
    with training(runs / "killed"):
        pass
    return runs


@pytest.fixture(scope="module")
def server(shelf: Path) -> Iterator[Watch]:
    with watching(shelf) as watch:
        yield watch


# --- the list ---


def test_the_printed_line_ends_with_an_address_that_accepts_local_connections_only(server: Watch) -> None:
    assert server.url == f"http://127.0.0.1:{server.port}/"
    addresses = {a.address for each in psutil.net_if_addrs().values() for a in each if a.family == socket.AF_INET}
    others = sorted(address for address in addresses if not address.startswith("127."))
    if not others:
        pytest.skip("this machine has no other address")
    with pytest.raises(OSError, match=r"refused|timed out"):
        socket.create_connection((others[0], server.port), timeout=5).close()


def test_a_run_is_listed_with_its_progress(server: Watch) -> None:
    run = server.run("done")
    assert set(run) >= {"name", "state", "step", "total", "loss", "val", "eta_seconds", "updated", "version"}
    assert (run["state"], run["total"]) == ("finished", 300)
    assert run["step"] in (299, 300)
    assert run["loss"] == pytest.approx(1.0, abs=0.2)
    assert run["val"] == pytest.approx(1.84, abs=0.01)


@pytest.mark.parametrize(
    ("name", "state"),
    [("done", "finished"), ("interrupted", "stopped"), ("killed", "stopped"), ("burst", "failed")],
)
def test_a_run_that_has_ended_is_listed_with_how_it_ended(server: Watch, name: str, state: str) -> None:
    assert server.run(name)["state"] == state


def test_runs_are_found_three_levels_deep_and_named_by_their_path(server: Watch) -> None:
    names = [run["name"] for run in server.runs()]
    assert "one/two/three" in names
    assert "one/two/three/four" not in names
    assert len(names) == len(set(names)) == 6


def test_a_runs_own_folder_can_be_watched(tmp_path: Path) -> None:
    write_run(tmp_path / "alone", steps=40)
    with watching(tmp_path / "alone") as server:
        (run,) = server.runs()
        assert run["state"] == "finished"
        assert len(losses(server.ask(f"/api/report?run={run['name']}").json)) == 40


def test_a_run_is_live_and_listed_first_until_its_process_is_killed(tmp_path: Path) -> None:
    begin_run(tmp_path / "a-training", 30).close()
    os.utime(tmp_path / "a-training/events.jsonl", (1e9, 1e9))  # so that only being live brings it to the front
    write_run(tmp_path / "finished")
    with watching(tmp_path) as server, server.stream() as stream, training(tmp_path / "a-training") as process:
        go_on(EventFile(tmp_path / "a-training"), range(30, 31))
        os.utime(tmp_path / "a-training/events.jsonl", (1e9, 1e9))
        heard(stream, lambda runs: runs["a-training"]["state"] == "stalled")  # it trains, but has long been silent
        first = server.runs()[0]
        assert (first["name"], first["step"], first["total"]) == ("a-training", 30, 100)
        assert first["eta_seconds"] > 0
        process.kill()
        process.wait()
        assert (tmp_path / "a-training/lock.json").exists()
        heard(stream, lambda runs: runs["a-training"]["state"] == "stopped")


def test_the_last_validation_loss_is_listed_however_many_lines_ago_it_was(tmp_path: Path) -> None:
    events = begin_run(tmp_path / "run", 1, of=5000)
    go_on(events, range(1, 1000), of=5000, eval_interval=1000)  # about 200 kB
    events.close()
    with watching(tmp_path) as server:
        run = server.run("run")
        assert (run["step"], run["val"]) == (999, pytest.approx(falling(0), abs=1e-4))


def test_a_run_of_a_newer_nanoscope_is_listed_as_unreadable_with_the_reason(tmp_path: Path) -> None:
    write_run(tmp_path / "older", steps=40)
    newer = write_run(tmp_path / "newer", steps=40) / "events.jsonl"
    newer.write_text(newer.read_text("utf-8").replace('"version":1', '"version":2', 1), "utf-8")
    with watching(tmp_path) as server:
        run = server.run("newer")
        assert run["state"] == "unreadable"
        assert "newer nanoscope" in run["reason"]
        assert server.ask("/api/report?run=newer").error == (422, "no_training")
        assert [shown["name"] for shown in server.report("older", "newer")["runs"]] == ["older"]


# --- the stream ---


def test_the_stream_reports_new_steps_and_ignores_a_half_written_line(tmp_path: Path) -> None:
    events = begin_run(tmp_path / "run", 10)
    with watching(tmp_path) as server, server.stream() as stream:
        before = heard(stream, lambda runs: "run" in runs)["run"]
        assert before["step"] == 9
        go_on(events, range(10, 20))
        after = heard(stream, lambda runs: runs["run"]["step"] == 19)["run"]
        assert after["version"] != before["version"]
        assert after["val"] == pytest.approx(falling(10), abs=1e-4)
        with (tmp_path / "run/events.jsonl").open("ab", buffering=0) as file:
            file.write(b'{"event": "iter", "step": 20, "lo')
            until(lambda: len(losses(server.ask("/api/report?run=run").json)) == 20, "the report has all whole lines")
            file.write(b'ss": 1.25, "seconds": 0.05}\n')
        assert heard(stream, lambda runs: runs["run"]["step"] == 20)["run"]["loss"] == 1.25
        until(lambda: losses(server.ask("/api/report?run=run").json)[-1] == 1.25, "the report has the line too")


def test_the_stream_reports_runs_that_appear_vanish_or_are_truncated(tmp_path: Path) -> None:
    with watching(tmp_path) as server, server.stream() as stream:
        heard(stream, lambda runs: not runs)
        begin_run(tmp_path / "new", 30).close()
        heard(stream, lambda runs: "new" in runs and runs["new"]["step"] == 29)
        (tmp_path / "new/events.jsonl").write_bytes(b"")
        heard(stream, lambda runs: runs.get("new", {}).get("step") != 29)
        begin_run(tmp_path / "new", 12).close()
        heard(stream, lambda runs: "new" in runs and runs["new"]["step"] == 11)
        (tmp_path / "new/events.jsonl").unlink()
        (tmp_path / "new").rmdir()
        heard(stream, lambda runs: not runs)
        assert server.ask("/api/report?run=new").error == (404, "gone")


def test_a_run_that_was_restarted_shows_nothing_of_the_old_one(tmp_path: Path) -> None:
    begin_run(tmp_path / "run", 50).close()
    with watching(tmp_path) as server, server.stream() as stream:
        heard(stream, lambda runs: runs["run"]["step"] == 49)
        assert len(losses(server.ask("/api/report?run=run").json)) == 50
        (tmp_path / "run/events.jsonl").unlink()
        begin_run(tmp_path / "run", 60).close()  # longer than the old one: its size alone does not tell
        heard(stream, lambda runs: "run" in runs and runs["run"]["step"] == 59)
        until(lambda: len(losses(server.ask("/api/report?run=run").json)) == 60, "the report is that of the new one")


# --- reports ---


def test_a_report_contains_what_the_report_command_writes(server: Watch, shelf: Path, tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path), redirect_stdout(io.StringIO()):
        assert cli.run(["report", str(shelf / "done"), "-o", "report.html"]) == 0
    written = (tmp_path / "report.html").read_text("utf-8")
    found = re.search(r'<script type="application/json" id="payload">(.*?)</script>', written, re.S)
    assert found is not None
    expected, served = json.loads(found[1]), server.ask("/api/report?run=done&lang=hi").json
    for part in ("steps", "series", "evals", "best", "slow", "phases", "config", "samples"):
        assert served["runs"][0][part] == expected["runs"][0][part], part
    assert served["words"]["hi"]["runs"][0]["verdicts"] == expected["words"]["hi"]["runs"][0]["verdicts"]


def test_several_runs_are_compared(server: Watch) -> None:
    payload = server.report("done", "one/two/three", lang="ar")
    assert set(payload["words"]) == {"ar"}
    assert [run["name"] for run in payload["runs"]] == ["done", "one/two/three"]
    assert payload["words"]["ar"]["comparison"]["measures"]["rows"]
    assert (len(losses(payload, 0)), len(losses(payload, 1))) == (300, 40)


def test_the_report_can_be_downloaded_as_a_self_contained_file(server: Watch) -> None:
    answer = server.ask("/report.html?run=done&lang=ar")
    page = answer.body.decode("utf-8")
    assert answer.headers["content-type"].startswith("text/html")
    assert re.match(r'attachment; filename="?[\w.-]+\.html', answer.headers["content-disposition"])
    assert '<html lang="ar" dir="rtl">' in page
    assert not re.search(r'(src|href)="(?!data:)', page)
    assert '"loss"' in page


def test_the_name_of_a_report_cannot_break_its_header(tmp_path: Path) -> None:
    name = 'q"uo; te' if sys.platform != "win32" else "q; uo"
    begin_run(tmp_path / name, 20).close()
    begin_run(tmp_path / "صفحة", 20).close()
    with watching(tmp_path) as server:
        for quoted in ("q%22uo;%20te" if sys.platform != "win32" else "q;%20uo", "%D8%B5%D9%81%D8%AD%D8%A9"):
            answer = server.ask(f"/report.html?run={quoted}")
            assert answer.status == 200
            assert answer.headers["content-disposition"].count('"') in (0, 2)


@pytest.mark.parametrize("path", ["/api/report", "/report.html"])
@pytest.mark.parametrize(
    "run",
    [
        *("../outside", "../../etc", "/etc", "..", ".", "", "nothing", "done/../other", "one/two/three/four"),
        *("done/samples", "./done", "done/", "//done", "a%00b", "%ff", "..%5Coutside", "C:%5CWindows", "x" * 5000),
    ],
)
def test_only_listed_runs_can_be_requested(server: Watch, path: str, run: str) -> None:
    assert server.ask(f"{path}?run={run}").error in [(404, "gone"), (422, "bad_request")]


def test_a_report_of_no_run_is_refused_and_an_unknown_language_falls_back_to_the_servers(server: Watch) -> None:
    assert server.ask("/api/report").error == (422, "bad_request")
    assert server.ask("/report.html").error == (422, "bad_request")
    assert b'<html lang="en"' in server.ask("/report.html?run=done&lang=<script>").body


@posix
def test_links_that_lead_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    secret = write_run(tmp_path / "outside", steps=50)
    runs = tmp_path / "runs"
    for name in ("linked-file", "honest", "linked-samples", "linked-sample"):
        (runs / name).mkdir(parents=True)
    (runs / "linked-folder").symlink_to(secret)
    (runs / "linked-file/events.jsonl").symlink_to(secret / "events.jsonl")
    for name in ("honest", "linked-samples", "linked-sample"):
        begin_run(runs / name, 20).close()
    (runs / "linked-samples/samples").symlink_to(secret / "samples")
    (runs / "linked-sample/samples").mkdir()
    (runs / "linked-sample/samples/step-000000.txt").symlink_to(secret / "samples/step-000000.txt")
    with watching(runs) as server:
        assert not {run["name"] for run in server.runs() if run["state"] != "unreadable"} & {
            "linked-folder", "linked-file",
        }  # fmt: skip
        for name in ("linked-folder", "linked-file"):
            assert server.ask(f"/api/report?run={name}").error == (404, "gone")
        for name in ("honest", "linked-samples", "linked-sample"):
            answer = server.ask(f"/api/report?run={name}")
            assert answer.status == 200
            assert b"ROMEO" not in answer.body


# --- logs of others ---


def explain(server: Watch, log: str | bytes, query: str = "", path: str = "/api/explain") -> Answer:
    body = log if isinstance(log, bytes) else log.encode("utf-8")
    return server.ask(f"{path}{query}", "POST", body, content_type="text/plain")


def explained(server: Watch, log: str | bytes, query: str = "", lang: str = "en") -> Any:
    """The report of a log that was pasted."""
    return server.report(explain(server, log, query).json["log"], lang=lang)


def test_a_pasted_log_is_explained_with_its_slow_steps(server: Watch) -> None:
    payload = explained(server, example_logs.spiky(), "?name=mine.log", lang="hi")
    assert payload["runs"][0]["name"] == "mine.log"
    slow = payload["runs"][0]["slow"]
    assert slow[0] == [0, pytest.approx(12.5435), "startup+evaluation"]
    assert {cause for _, _, cause in slow[1:]} == {"evaluation+checkpoint"}
    assert len(payload["words"]["hi"]["runs"][0]["slow"]) == len(slow)


def test_max_iters_and_device_can_be_given_with_a_log(server: Watch) -> None:
    without = explained(server, example_logs.WAITING)["words"]["en"]["runs"][0]
    told = explained(server, example_logs.WAITING, "?max_iters=6000&device=RTX%204070%20Ti")["words"]["en"]["runs"][0]
    assert "6000" not in json.dumps(without)
    assert "6000" in json.dumps(told)
    assert "4070" in json.dumps(told)


def test_the_report_of_a_log_can_be_downloaded(server: Watch) -> None:
    key = explain(server, example_logs.spiky(), "?name=mine.log").json["log"]
    answer = server.ask(f"/report.html?run={key}&lang=hi")
    assert answer.headers["content-disposition"].startswith("attachment")
    assert "evaluation+checkpoint" in answer.body.decode("utf-8")


@pytest.mark.parametrize(
    "body", [b"", b"Shall I compare thee\nto a summer's day?\n", bytes(range(256)) * 50, b"\x1f\x8b\x00"]
)
def test_a_text_without_training_says_so(server: Watch, body: bytes) -> None:
    assert explain(server, body).error == (422, "no_training")


def test_events_of_a_newer_nanoscope_are_refused_with_the_reason(server: Watch) -> None:
    answer = explain(server, '{"event": "start", "version": 2}\n{"event": "iter", "step": 0, "loss": 4.0}\n')
    assert answer.error == (422, "newer")
    assert "pip install --upgrade nanoscope" in answer.json["message"]


SILLY_DIGITS = f"?max_iters={'0' * 12}1{'9' * 5000}"


@pytest.mark.parametrize(
    "query", ["?max_iters=0", "?max_iters=-5", "?max_iters=many", "?max_iters=1e400", SILLY_DIGITS]
)
def test_an_impossible_number_of_steps_is_refused(server: Watch, query: str) -> None:
    assert explain(server, example_logs.spiky(), query).error == (422, "bad_request")


def test_a_log_beyond_the_limit_is_refused_before_it_is_read(server: Watch) -> None:
    connection = server.connect()
    connection.putrequest("POST", "/api/explain")
    connection.putheader("Content-Length", str(LIMIT_BYTES + 1))
    connection.endheaders()
    response = connection.getresponse()  # nothing of the body was sent
    assert (response.status, json.loads(response.read())) == (413, {"error": "too_large"})
    connection.close()


def test_a_log_of_unknown_size_is_refused_once_it_exceeds_the_limit(server: Watch) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS) as client:
        head = f"POST /api/explain HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nTransfer-Encoding: chunked\r\n\r\n"
        client.sendall(head.encode())
        chunk = b"%x\r\n%s\r\n" % (2**20, b"x" * 2**20)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it may hang up before all is sent
            for _ in range(34):
                client.sendall(chunk)
            client.sendall(b"0\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 413 ")
    assert server.ask("/api/runs").status == 200


def test_a_log_just_below_the_limit_is_read_to_its_end(server: Watch) -> None:
    log = example_logs.spiky().encode()
    padding = b"#" * (LIMIT_BYTES - len(log) - 1) + b"\n"  # one line, of which only the beginning costs time
    assert explained(server, padding + log)["runs"][0]["slow"][0][0] == 0


# --- samples ---


@pytest.fixture(scope="module")
def writer(small_run: Path) -> Iterator[Watch]:
    with watching(small_run.parent) as watch:
        yield watch


def sample(server: Watch, **asked: object) -> Answer:
    body = json.dumps({"run": "run", "prompt": "row, ", "max_new_tokens": 20, "temperature": 0.8} | asked)
    return server.ask("/api/sample", "POST", body.encode("utf-8"), content_type="application/json")


def children(server: Watch) -> list[psutil.Process]:
    return psutil.Process(server.process.pid).children(recursive=True)


@pytest.mark.slow
def test_a_child_process_continues_a_prompt_from_a_checkpoint(writer: Watch) -> None:
    answer = sample(writer)
    assert answer.headers["content-type"].startswith("text/plain")
    text = answer.body.decode("utf-8")
    assert text.startswith("row, ")
    assert 20 <= len(text.rstrip("\n")) <= 25
    assert "Traceback" not in text
    until(lambda: not children(writer), "the child has gone")


@pytest.mark.parametrize(
    "asked",
    [
        {"max_new_tokens": "many"},
        {"max_new_tokens": 0},
        {"max_new_tokens": 10**9},
        {"temperature": -1},
        {"temperature": "hot"},
        {"temperature": math.nan},
    ],
)
def test_a_sample_with_invalid_settings_is_refused(writer: Watch, asked: dict[str, object]) -> None:
    assert sample(writer, **asked).error == (422, "bad_request")
    assert children(writer) == []


def test_a_prompt_beyond_the_limit_is_refused(writer: Watch) -> None:
    assert sample(writer, prompt="x" * 50_000).error == (413, "too_large")


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b"\xff\xfe", b"[" * 10_000])
def test_a_sample_request_that_is_not_an_object_is_refused(writer: Watch, body: bytes) -> None:
    answer = writer.ask("/api/sample", "POST", body, content_type="application/json")
    assert answer.error == (422, "bad_request")


@pytest.mark.parametrize("run", ["nothing", "../small-run", "/etc", "..", "run/checkpoints", None, ["run"]])
def test_only_listed_runs_can_be_sampled(writer: Watch, run: object) -> None:
    assert sample(writer, run=run).error in [(404, "gone"), (422, "bad_request")]


@pytest.mark.slow
def test_a_prompt_is_text_and_never_a_file_name(writer: Watch, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("gently down", "utf-8")
    answer = sample(writer, prompt=f"FILE:{tmp_path / 'secret.txt'}")
    # Its alphabet is that of its song: it cannot begin with these letters, and says so.
    assert answer.error == (422, "sample")
    assert "'F'" in answer.json["message"]
    assert b"gently down" not in answer.body


@pytest.mark.slow
def test_one_sample_is_written_at_a_time_and_stops_when_its_reader_leaves(writer: Watch) -> None:
    body = json.dumps({"run": "run", "prompt": "row, ", "max_new_tokens": 2000, "temperature": 1.0}).encode()
    connection = writer.connect()
    connection.request("POST", "/api/sample", body, {"Content-Type": "application/json"})
    until(lambda: children(writer), "the child has started")
    assert sample(writer).error == (409, "busy")
    connection.close()
    until(lambda: not children(writer), "the child is gone because its reader is")


@pytest.mark.slow
def test_of_several_simultaneous_sample_requests_one_is_served(writer: Watch) -> None:
    with ThreadPoolExecutor(3) as pool:
        statuses = sorted(answer.status for answer in pool.map(lambda _: sample(writer), range(3)))
    assert statuses == [200, 409, 409]


def test_a_run_without_a_checkpoint_says_why_nothing_is_written(server: Watch) -> None:
    answer = sample(server, run="done")
    assert answer.error == (422, "sample")
    assert "checkpoint" in answer.json["message"]
    assert len(answer.json["message"].splitlines()) <= 3


# --- safety ---


@pytest.mark.parametrize("host", ["127.0.0.1:{}", "localhost:{}", "[::1]:{}", "LOCALHOST:{}", "localhost:9999"])
def test_local_host_names_are_accepted_also_through_a_forwarded_port(server: Watch, host: str) -> None:
    assert server.ask("/api/runs", Host=host.format(server.port)).status == 200


@pytest.mark.parametrize("path", ["/", "/api/runs", "/api/stream", "/static/report.js", "/nothing"])
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{}",
        "127.0.0.1.evil.example:{}",
        "localhost:{}@evil",
        "",
        "10.0.0.1:{}",
    ],
)
def test_dns_rebinding_is_refused(server: Watch, path: str, host: str) -> None:
    assert server.ask(path, Host=host.format(server.port)).error == (403, "wrong_host")


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "http://127.0.0.1"])
@pytest.mark.parametrize(("path", "method"), [("/api/runs", "GET"), ("/api/explain", "POST"), ("/api/sample", "POST")])
def test_requests_from_other_sites_are_refused(server: Watch, path: str, method: str, origin: str) -> None:
    answer = server.ask(path, method, b"{}" if method == "POST" else None, Origin=origin.format(server.port))
    assert answer.error == (403, "wrong_origin")


def test_requests_from_the_page_itself_are_accepted(server: Watch) -> None:
    own = f"http://127.0.0.1:{server.port}"
    assert server.ask("/api/runs", Origin=own, Sec_Fetch_Site="same-origin").status == 200


@pytest.mark.parametrize("path", ["/api/runs", "/api/stream", "/api/report?run=done", "/report.html?run=done"])
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_other_sites_cannot_embed_responses(server: Watch, path: str, site: str) -> None:
    assert server.ask(path, Sec_Fetch_Site=site).status == 403


def test_a_link_on_another_site_opens_the_page(server: Watch) -> None:
    assert server.ask("/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate").status == 200


@pytest.mark.parametrize(
    ("path", "method", "headers", "status"),
    [
        ("/", "GET", {}, 200),
        ("/api/runs", "GET", {}, 200),
        ("/api/report?run=done", "GET", {}, 200),
        ("/api/report?run=nothing", "GET", {}, 404),
        ("/report.html?run=done", "GET", {}, 200),
        ("/api/explain", "POST", {}, 422),
        ("/api/sample", "POST", {}, 422),
        ("/api/runs", "GET", {"Host": "evil.example"}, 403),
        ("/api/runs", "GET", {"Origin": "http://evil.example"}, 403),
        ("/nothing", "GET", {}, 404),
        ("/static/nothing.js", "GET", {}, 404),
        ("/api/runs", "DELETE", {}, 405),
        ("/api/explain", "GET", {}, 405),
    ],
)
def test_every_response_has_the_security_headers(
    server: Watch, path: str, method: str, headers: dict[str, str], status: int
) -> None:
    answer = server.ask(path, method, b"" if method == "POST" else None, **headers)
    assert answer.status == status
    assert {name: answer.headers.get(name) for name in SECURITY} == SECURITY
    rules = {rule.split()[0]: rule.split()[1:] for rule in answer.headers["content-security-policy"].split(";")}
    assert rules["default-src"] == ["'none'"]
    assert rules["script-src"] == ["'self'"]
    assert rules["connect-src"] == ["'self'"]
    assert rules["frame-ancestors"] == ["'none'"]
    assert "'unsafe-inline'" not in str(rules)
    assert "access-control-allow-origin" not in answer.headers


def test_an_internal_error_is_printed_in_one_line_and_its_response_has_the_security_headers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(Reports, "answer", fail)
    sent: list[dict[str, Any]] = []

    async def ask() -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "GET", "path": "/api/report", "query_string": b"run=a"}
        scope |= {"headers": [(b"host", b"localhost")], "root_path": "", "scheme": "http", "server": ("localhost", 1)}
        with contextlib.suppress(RuntimeError):  # the server is told of it too, and is silent
            await make_app(tmp_path, "en", frozenset({"localhost"}), None)(scope, receive, send)

    with ThreadPoolExecutor(1) as pool:  # playwright keeps a loop of its own in this thread
        pool.submit(asyncio.run, ask()).result()
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    assert sent[0]["status"] == 500
    assert {name: headers.get(name) for name in SECURITY} == SECURITY
    assert json.loads(sent[1]["body"]) == {"error": "failed"}
    assert capfd.readouterr().err == "nanoscope: /api/report: RuntimeError: a fault\n"


def test_the_stream_and_static_files_have_the_security_headers(server: Watch) -> None:
    page = server.ask("/").body.decode("utf-8")
    loaded = re.findall(r'(?:src|href)="(/?static/[^"]+)"', page)
    assert any(name.endswith(".js") for name in loaded)
    assert any(name.endswith(".css") for name in loaded)
    assert "<script>" not in page
    assert "style=" not in page
    for name in loaded:
        answer = server.ask("/" + name.lstrip("/"))
        assert answer.status == 200
        kind = "javascript" if name.endswith(".js") else "text/css"
        assert kind in answer.headers["content-type"]
        assert {header: answer.headers.get(header) for header in SECURITY} == SECURITY
    connection = server.connect()
    connection.request("GET", "/api/stream")
    response = connection.getresponse()
    assert response.getheader("x-content-type-options") == "nosniff"
    assert "no-store" in (response.getheader("cache-control") or "")
    connection.close()


@pytest.mark.parametrize(
    "path",
    [
        *("/static/../shell.py", "/static/%2e%2e/shell.py", "/static/..%2fshell.py", "/static/%2e%2e%2f__init__.py"),
        *("/static//etc/passwd", "/static/%2fetc/passwd", "/static/..%5cshell.py", "/static/", "/static/routes.py"),
    ],
)
def test_only_the_pages_own_files_are_served(server: Watch, path: str) -> None:
    answer = server.ask(path)
    assert answer.status == 404
    assert b"import" not in answer.body


@pytest.fixture(scope="module")
def guarded(shelf: Path) -> Iterator[Watch]:
    """A server for other machines, with a random token."""
    with watching(shelf, "--host", "0.0.0.0") as watch:
        yield watch


def token_of(server: Watch) -> str:
    found = re.search(r"\?token=(\S+)", server.url)
    assert found is not None, server.url
    return found[1]


@pytest.mark.parametrize(
    "path", ["/", "/api/runs", "/api/stream", "/api/report?run=done", "/static/report.js", "/nothing"]
)
def test_remote_access_needs_the_token(guarded: Watch, path: str) -> None:
    assert len(token_of(guarded)) >= 16
    assert guarded.ask(path).error == (401, "token")
    assert guarded.ask(path, Authorization="Bearer " + "x" * len(token_of(guarded))).error == (401, "token")
    assert guarded.ask(path, Cookie="token=; nanoscope=x").error == (401, "token")


def test_the_printed_address_sets_a_cookie_and_redirects_to_an_address_without_the_token(guarded: Watch) -> None:
    answer = guarded.ask(f"/?token={token_of(guarded)}")
    assert answer.status in (302, 303, 307)
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"]
    assert "httponly" in cookie.lower()
    assert "samesite=strict" in cookie.lower()
    assert guarded.ask("/api/runs", Cookie=cookie.split(";")[0]).status == 200
    assert guarded.ask("/", Cookie=cookie.split(";")[0]).status == 200


def test_programs_can_send_the_token_in_a_header(guarded: Watch) -> None:
    assert guarded.ask("/api/runs", Authorization=f"Bearer {token_of(guarded)}").status == 200


def test_a_wrong_token_in_the_address_sets_no_cookie(guarded: Watch) -> None:
    for wrong in ("x", "", token_of(guarded)[:-1], token_of(guarded) + "x", "%D8%B5"):
        answer = guarded.ask(f"/?token={wrong}")
        assert answer.status == 401
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(("host", "status"), [("evil.example:{}", 403), ("10.1.2.3:{}", 200), ("localhost:{}", 200)])
def test_the_host_name_is_checked_even_with_the_token(guarded: Watch, host: str, status: int) -> None:
    headers = {"Host": host.format(guarded.port), "Authorization": f"Bearer {token_of(guarded)}"}
    assert guarded.ask("/api/runs", **headers).status == status


def test_the_token_can_be_chosen(shelf: Path) -> None:
    with watching(shelf, "--host", "0.0.0.0", "--token", "a-token-of-my-own") as server:
        assert token_of(server) == "a-token-of-my-own"
        assert server.ask("/api/runs", Authorization="Bearer a-token-of-my-own").status == 200
        assert server.ask("/api/runs").error == (401, "token")


# --- folders that nobody should have made ---


def make_hostile(runs: Path) -> None:
    """One valid run among everything else that can be called events.jsonl."""
    begin_run(runs / "honest", 20).close()
    contents = {
        "binary": os.urandom(5000),
        "empty": b"",
        "one-long-line": b'{"event": "iter", "loss": ' + b"9" * 3_000_000,
        "deep": b'{"event":"iter","step":' + b"[" * 200_000,
        "zeros": bytes(2_000_000),
        "no-numbers": b'{"event": "iter", "step": "<b>", "loss": {}, "seconds": []}\n' * 50,
        "absurd": b'{"event": "iter", "step": 1, "loss": 1e999, "seconds": -1e308}\n' * 50
        + b'{"event": "start", "config": {"max_iters": -7}, "tokens_per_step": 1e300}\n',
        "not-a-number": b'{"event": "iter", "step": 3, "loss": NaN, "seconds": Infinity}\n' * 50,
        "backwards": b"".join(
            b'{"event": "iter", "step": %d, "loss": 2.0, "seconds": 0.1}\n' % n for n in range(50, 0, -1)
        ),
    }
    for name, content in contents.items():
        (runs / name).mkdir(parents=True)
        (runs / name / "events.jsonl").write_bytes(content)
    (runs / "folder/events.jsonl").mkdir(parents=True)
    (runs / "a-file").write_text("no folder", "utf-8")
    if sys.platform == "win32":
        return
    for name in ("pipe", "passwd", "loop", "dangling", "locked-pipe", "unreadable"):
        (runs / name).mkdir()
    os.mkfifo(runs / "pipe/events.jsonl")
    (runs / "passwd/events.jsonl").symlink_to("/etc/passwd")
    (runs / "loop/again").symlink_to(runs / "loop")
    (runs / "dangling/events.jsonl").symlink_to("/nowhere/at/all")
    begin_run(runs / "locked-pipe", 5).close()
    os.mkfifo(runs / "locked-pipe/lock.json")
    os.mkfifo(runs / "locked-pipe/.lock")
    begin_run(runs / "unreadable", 5).close()
    (runs / "unreadable/events.jsonl").chmod(0)
    begin_run(runs / "</script><img src=x onerror=alert(1)>", 5).close()
    (runs / os.fsdecode(b"not-\xff-utf8")).mkdir()
    begin_run(runs / os.fsdecode(b"not-\xff-utf8"), 5).close()


@pytest.mark.slow
def test_hostile_folders_break_neither_the_list_nor_the_server_and_nothing_is_written(tmp_path: Path) -> None:
    make_hostile(tmp_path)
    before = listing(tmp_path)
    with watching(tmp_path) as server:
        runs = server.runs()
        assert ("honest", 19) in [(run["name"], run["step"]) for run in runs]
        assert b"root:" not in json.dumps(runs).encode()
        for name in [run["name"] for run in runs] + ["pipe", "passwd", "folder", "loop/again", "dangling"]:
            answer = server.ask("/api/report?" + _query(run=name))
            assert answer.status in (200, 404, 422), (name, answer.body[:200])
            json.loads(answer.body, parse_constant=pytest.fail)  # NaN is not JSON, and no page would read it
            assert b"root:" not in answer.body
        explained = explain(server, example_logs.spiky())
        assert explained.status == 200
        with server.stream() as stream:
            heard(stream, lambda listed: "honest" in listed)
        assert "Traceback" not in server.printed
    assert listing(tmp_path) == before


def _query(**values: str) -> str:
    from urllib.parse import urlencode

    return urlencode(values, errors="surrogateescape")


@posix
@pytest.mark.parametrize("becomes", ["pipe", "link"])
def test_a_run_whose_events_become_a_pipe_or_link_is_gone_at_once(tmp_path: Path, becomes: str) -> None:
    write_run(tmp_path / "outside", steps=50)
    begin_run(tmp_path / "runs/run", 20).close()
    begin_run(tmp_path / "runs/other", 20).close()
    events = tmp_path / "runs/run/events.jsonl"
    with watching(tmp_path / "runs") as server:
        assert len(server.runs()) == 2
        events.unlink()
        os.mkfifo(events) if becomes == "pipe" else events.symlink_to(tmp_path / "outside/events.jsonl")
        assert server.ask("/api/report?run=run").error == (404, "gone")
        assert [run["name"] for run in server.runs() if run["state"] != "unreadable"] == ["other"]


def test_a_stalled_upload_does_not_block_others(server: Watch) -> None:
    stalled = server.connect()
    stalled.putrequest("POST", "/api/explain")
    stalled.putheader("Content-Length", "1000")
    stalled.endheaders(b"iter 0: loss 4.0")
    assert explain(server, example_logs.spiky()).status == 200
    stalled.close()


@pytest.mark.slow
def test_a_run_among_very_many_folders_is_listed(tmp_path: Path) -> None:
    for number in range(1500):
        (tmp_path / f"data-{number:04d}").mkdir()
    begin_run(tmp_path / "zz-run", 20).close()
    with watching(tmp_path) as server:
        assert [run["name"] for run in server.runs()] == ["zz-run"]


# --- the process ---


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux tells what a process has loaded")
def test_torch_is_not_loaded_by_the_server(server: Watch) -> None:
    assert len(server.report("done", "other")["runs"]) == 2
    assert explain(server, example_logs.spiky()).status == 200
    loaded = Path(f"/proc/{server.process.pid}/maps").read_text("utf-8")
    assert "python" in loaded
    assert "libtorch" not in loaded


@posix
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_server_with_status_0_while_pages_are_open(shelf: Path, number: int) -> None:
    with watching(shelf) as server, server.stream() as first, server.stream() as second:
        heard(first, bool)
        heard(second, bool)
        status, printed = server.stop(number)
    assert status == 0
    assert "Traceback" not in printed
    assert "Error" not in printed


@posix
@pytest.mark.slow
def test_a_signal_also_stops_the_sampling_process(small_run: Path) -> None:
    with watching(small_run.parent) as server:
        connection = server.connect()
        body = json.dumps({"run": "run", "prompt": "row", "max_new_tokens": 2000, "temperature": 1.0}).encode()
        connection.request("POST", "/api/sample", body, {"Content-Type": "application/json"})
        written = until(lambda: children(server), "the child has started")
        assert server.stop(signal.SIGINT)[0] == 0
        until(lambda: not any(map(_lives, written)), "the child is gone")
        connection.close()


def _lives(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def test_a_requested_port_that_is_in_use_is_reported(shelf: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        status, said = refused(shelf, "--port", str(port), cwd=shelf)
    assert status == 1
    assert f"port {port}" in said
    assert "--port" in said


def test_if_the_default_port_is_in_use_the_next_free_one_is_used(shelf: Path) -> None:
    with socket.socket() as taken:
        with contextlib.suppress(OSError):  # somebody else has it, which is as good
            taken.bind(("127.0.0.1", DEFAULT_PORT))
            taken.listen()
        watch = Watch(shelf, cwd=shelf)
        try:
            assert watch.serving().port > DEFAULT_PORT
            assert watch.ask("/api/runs").status == 200
        finally:
            watch.close()


@pytest.mark.parametrize(
    "words", [["--port", "-1"], ["--port", "65536"], ["--port", "eighty"], ["--lang", "xx"], ["--prot", "1"]]
)
def test_invalid_options_are_reported_with_status_2(shelf: Path, words: list[str]) -> None:
    status, said = refused(shelf, *words, cwd=shelf)
    assert status == 2
    assert 1 <= len(said.splitlines()) <= 4
    assert words[0].lstrip("-") in said or words[1] in said


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    status, said = refused("rans", cwd=tmp_path)
    assert status in (1, 2)
    assert "rans" in said
    assert len(said.splitlines()) <= 3


def test_without_a_folder_the_server_waits_for_runs_to_appear(tmp_path: Path) -> None:
    watch = Watch("--port", "0", cwd=tmp_path)
    try:
        server = watch.serving()
        assert server.runs() == []
        assert not (tmp_path / "runs").exists()
        with server.stream() as stream:
            begin_run(tmp_path / "runs/first", 20).close()
            heard(stream, lambda runs: "first" in runs)
    finally:
        watch.close()


def test_help_lists_every_option() -> None:
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        assert cli.run(["watch", "--help"]) == 0
    assert [word for word in ("--host", "--port", "--token", "--lang", "--open") if word not in output.getvalue()] == []


# --- pasted logs are kept ---


def test_a_pasted_log_is_listed_and_can_be_asked_for_until_it_is_removed(tmp_path: Path) -> None:
    with watching(tmp_path) as server:
        key = explain(server, example_logs.spiky(), "?name=mine.log").json["log"]
        (entry,) = server.runs()
        assert (entry["name"], entry["label"], entry["state"]) == (key, "mine.log", "log")
        assert server.report(key)["runs"][0]["name"] == "mine.log"
        assert server.ask(f"/api/log?log={key}", "DELETE").status == 200
        assert server.runs() == []
        assert server.ask(f"/api/report?run={key}").error == (404, "gone")
        assert server.ask(f"/api/log?log={key}", "DELETE").error == (404, "gone")


def test_options_of_a_log_are_kept_with_it(server: Watch) -> None:
    key = explain(server, example_logs.WAITING, "?max_iters=6000&name=waiting.log").json["log"]
    others = [explain(server, example_logs.spiky(), f"?name={i}").json["log"] for i in range(3)]
    assert "6000" in json.dumps(server.report(key, *others)["words"]["en"]["runs"][0])


def test_a_log_is_overlaid_with_a_run(server: Watch) -> None:
    key = explain(server, example_logs.spiky(), "?name=theirs.log").json["log"]
    payload = server.report("done", key)
    assert [run["name"] for run in payload["runs"]] == ["done", "theirs.log"]
    assert payload["words"]["en"]["comparison"]["measures"]["rows"]


def test_the_number_of_kept_logs_is_bounded_and_the_oldest_goes_first(tmp_path: Path) -> None:
    with watching(tmp_path) as server:
        log = "".join(f"iter {i}: loss {3 - i / 10:.4f}, time 30.00ms, mfu 1.00%\n" for i in range(9))
        keys = [explain(server, log, f"?name=log{i}").json["log"] for i in range(MAX_LOGS + 2)]
        listed = [run["name"] for run in server.runs()]
    assert listed == keys[:1:-1]


def test_a_downloaded_report_opens_with_the_view_and_without_folders_of_this_machine(server: Watch) -> None:
    page = server.ask("/report.html?run=done&view=x%3Dtokens%26smoothing%3D0.5").body.decode("utf-8")
    found = re.search(r'<script type="application/json" id="payload">(.*?)</script>', page, re.S)
    assert found is not None
    payload = json.loads(found[1])
    assert payload["view"] == "x=tokens&smoothing=0.5"
    assert payload["runs"][0]["resume"] is None


# --- the table ---


def test_only_settings_that_differ_are_columns(tmp_path: Path) -> None:
    for seed in (1, 2):
        file = EventFile(tmp_path / f"run-{seed}")
        file.write(
            Start(config={"seed": seed, "n_layer": 2, "out_dir": f"runs/{seed}"}), Eval(step=1, val_loss=2.0 / seed)
        )
        file.close()
    with watching(tmp_path) as server:
        listed = until(lambda: (found := server.ask("/api/runs").json)["columns"] and found, "settings are read")
        assert listed["columns"] == ["seed"]
        assert listed["common"] == {"n_layer": 2}
        assert {run["name"]: run["settings"] for run in listed["runs"]} == {"run-1": {"seed": 1}, "run-2": {"seed": 2}}
        assert {run["best"] for run in listed["runs"]} == {1.0, 2.0}


def test_a_run_that_trains_without_a_step_is_starting(tmp_path: Path) -> None:
    begin_run(tmp_path / "run", 0).close()
    with watching(tmp_path) as server, training(tmp_path / "run"):
        until(lambda: server.run("run")["state"] == "starting", "it is listed as starting")


def test_long_runs_that_may_grow_are_compared_and_say_the_same_as_one_by_one(tmp_path: Path) -> None:
    names = [f"run-{i}" for i in range(3)]
    for name in names:
        events = begin_run(tmp_path / name, 0)
        go_on(events, range(9000), of=9000, eval_interval=500)
        events.close()
    assert sum((tmp_path / name / "events.jsonl").stat().st_size for name in names) > 4_000_000
    with watching(tmp_path) as server:
        together = server.report(*names)
        alone = [server.report(name)["runs"][0] for name in names]
    with watching(tmp_path) as server:
        for name in names:
            server.report(name)
        one_by_one = server.report(*names)
    assert together["words"] == one_by_one["words"]
    assert [run["best"] for run in together["runs"]] == [run["best"] for run in alone]


def test_of_very_many_runs_the_newest_are_listed_with_how_many_there_are(tmp_path: Path) -> None:
    for number in range(2003):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}/events.jsonl").write_text('{"event":"start","version":1}\n', encoding="utf-8")
    with watching(tmp_path) as server:
        listed = until(lambda: (said := server.ask("/api/runs").json)["total"] == 2003 and said, "all runs are read")
    assert len(listed["runs"]) == 2000


# --- too much of everything ---


def test_a_log_that_unpacks_to_gigabytes_is_refused_and_the_next_one_is_read(server: Watch) -> None:
    packed = gzip.compress((b"#" * 999 + b"\n") * 10_000) * 300  # 3 GB
    assert len(packed) < LIMIT_BYTES
    assert server.ask("/api/explain", "POST", packed).error == (413, "too_large")
    assert explain(server, example_logs.spiky()).status == 200


def test_a_log_that_takes_too_long_to_read_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MOST_SECONDS", 0.0)
    with pytest.raises(HTTPException, match="too_large"):
        logs.KeptLogs(tmp_path).add(example_logs.spiky().encode(), "log", Options())


def test_logs_that_are_sent_but_never_finished_take_a_bounded_amount_of_memory(shelf: Path) -> None:
    with watching(shelf) as server, contextlib.ExitStack() as open_connections:
        sockets = {}
        for _ in range(5):
            sending = server.connect()
            open_connections.callback(sending.close)
            sending.putrequest("POST", "/api/explain")
            sending.putheader("Content-Length", str(LIMIT_BYTES))
            sending.endheaders()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it may be refused in between
                sending.send(b"#" * (LIMIT_BYTES - 1))
            sockets[sending.sock] = sending
        answered, _, _ = select.select(list(sockets), [], [], PATIENCE_SECONDS)
        refused = sockets[answered[0]].getresponse()
        assert (refused.status, json.loads(refused.read())) == (503, {"error": "crowded"})
        assert psutil.Process(server.process.pid).memory_info().rss < 400e6


def test_a_connection_that_sends_no_whole_header_is_closed(server: Watch) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        assert client.recv(100) == b""


@posix
def is_closed(client: socket.socket) -> bool:
    try:
        return client.recv(100) == b""
    except ConnectionResetError:
        return True


def test_with_few_files_allowed_too_many_pages_are_refused_without_a_traceback(shelf: Path) -> None:
    launcher = ["sh", "-c", 'ulimit -n 64; exec "$@"', "sh"]
    with watching(shelf, launcher=launcher) as server, contextlib.ExitStack() as pages:
        clients = []
        for _ in range(80):
            client = pages.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS))
            clients.append(client)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                client.sendall(b"GET /api/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert any(map(is_closed, clients))  # each is answered or refused, not always in order
        pages.close()
        until(lambda: server.ask("/api/runs").status == 200, "it answers again")
        assert "Traceback" not in server.printed


def test_a_short_token_is_refused(shelf: Path) -> None:
    status, said = refused(shelf, "--host", "0.0.0.0", "--token", "a", cwd=shelf)
    assert status == 2
    assert "--token is too short" in said
