"""A real `nanoscope watch` process, plain HTTP to talk to it, and runs that go on while it watches."""

import http.client
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

from nanoscope.runs.events import EventWriter

SOURCES = Path(__file__).parents[1] / "src"
PATIENCE_SECONDS = 40.0  # until something is given up: the machine may be busy with other tests
URL = re.compile(r"(http://\S+?:(\d+)/\S*)\s*$", re.MULTILINE)

HOLDER = """
import sys
from pathlib import Path
from nanoscope.training.lock import RunLock
lock = RunLock(Path(sys.argv[1])).acquire()
print("held", flush=True)
sys.stdin.read()
"""

Runs = list[dict[str, Any]]
Stream = Iterator[Runs | None]  # None: a line that is no list


def until(holds: Callable[[], Any], what: str) -> Any:
    """Wait for a value that is true, and return it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := holds()):
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.02)
    return found


def child_environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(SOURCES), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}


@dataclass
class Answer:
    """What the server sent back; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> tuple[int, str]:
        return self.status, self.json["error"]


class Watch:
    """A server process. What it prints goes to a file, so that it never waits for a reader."""

    def __init__(self, *words: str | Path, cwd: Path) -> None:
        handle, name = tempfile.mkstemp(prefix="nanoscope-watch-", suffix=".txt")
        self._output = Path(name)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "nanoscope", "watch", *map(str, words)], cwd=cwd, env=child_environment(),
            stdin=subprocess.DEVNULL, stdout=handle, stderr=subprocess.STDOUT,
        )  # fmt: skip
        os.close(handle)
        self.url, self.port = "", 0

    @property
    def printed(self) -> str:
        return self._output.read_text("utf-8")

    def serving(self) -> Self:
        """Wait until it has printed where it is."""
        found = until(lambda: URL.search(self.printed) or self.process.poll() is not None, "the server has started")
        assert found is not True, f"it ended with status {self.process.returncode}:\n{self.printed}"
        self.url, self.port = found[1], int(found[2])
        return self

    def ended(self) -> tuple[int, str]:
        """Exit status and all that it printed, once it has ended by itself."""
        status = self.process.wait(PATIENCE_SECONDS)
        return status, self.printed

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(number)
        return self.ended()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_SECONDS)
        self._output.unlink(missing_ok=True)

    # --- HTTP ---

    def connect(self, host: str = "127.0.0.1") -> http.client.HTTPConnection:
        return http.client.HTTPConnection(host, self.port, timeout=PATIENCE_SECONDS)

    def ask(
        self, path: str, method: str = "GET", body: bytes | Iterator[bytes] | None = None, **headers: str
    ) -> Answer:
        """One request; headers are given as keywords, with '_' for '-'. An iterator is sent in chunks."""
        connection = self.connect()
        try:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            chunked = body is not None and not isinstance(body, bytes)
            connection.request(method, path, body, sent, encode_chunked=chunked)
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def runs(self) -> Runs:
        return self.ask("/api/runs").json["runs"]

    def run(self, name: str) -> dict[str, Any]:
        return next(run for run in self.runs() if run["name"] == name)

    def report(self, *names: str) -> Any:
        """The payload of runs, however long the server needs to read them."""
        query = urlencode([("run", name) for name in names])
        return until(lambda: (a := self.ask(f"/api/report?{query}")).status != 202 and a, "all runs are read").json

    @contextmanager
    def stream(self) -> Iterator[Stream]:
        """The lists that /api/stream sends, one after the other."""
        connection = self.connect()
        try:
            connection.request("GET", "/api/stream")
            yield _lists(connection.getresponse())
        finally:
            connection.close()


def _lists(response: http.client.HTTPResponse) -> Stream:
    assert response.status == 200
    assert response.getheader("content-type", "").startswith("text/event-stream")
    event = ""
    while line := response.readline():
        field, _, value = line.decode("utf-8").rstrip("\r\n").partition(": ")
        if field == "event":
            event = value
        elif field == "data":
            assert event == "runs"
            yield json.loads(value)["runs"]
        yield None  # so that who waits can give up, however often the server says that it is still there


def heard(stream: Stream, holds: Callable[[dict[str, dict[str, Any]]], Any]) -> dict[str, dict[str, Any]]:
    """Read the stream until it tells what is waited for; the runs by name."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    for runs in stream:
        by_name = {run["name"]: run for run in runs or ()}
        if runs is not None and holds(by_name):
            return by_name
        assert time.monotonic() < deadline, "waited in vain for this in the stream"
    raise AssertionError("the stream has ended")


@contextmanager
def watching(folder: Path | str, *words: str, cwd: Path | None = None, port: int = 0) -> Iterator[Watch]:
    """A server over a folder, in English, on a free port unless one is given."""
    watch = Watch(folder, "--port", str(port), "--lang", "en", *words, cwd=cwd or Path(folder))
    try:
        yield watch.serving()
    finally:
        watch.close()


# --- runs that go on ---


def falling(step: int, of: int = 100) -> float:
    """A validation loss."""
    return 1.4 + 2.8 * math.exp(-5 * step / of)


def begin_run(folder: Path, steps: int, of: int = 100, eval_interval: int = 10) -> EventWriter:
    """A run that has not come to its end; its events go on where this stops."""
    folder.mkdir(parents=True, exist_ok=True)
    events = EventWriter(folder / "events.jsonl")
    config = {"max_iters": of, "batch_size": 4, "block_size": 16, "eval_interval": eval_interval}
    events.write("start", version=1, run=folder.name, config=config, device="cpu", first_step=0, tokens_per_step=64)
    go_on(events, range(steps), of, eval_interval)
    return events


def go_on(events: EventWriter, steps: range, of: int = 100, eval_interval: int = 10) -> None:
    """More steps, and evaluations before some of them."""
    for step in steps:
        val, now = falling(step, of), 0.06 * step
        if step % eval_interval == 0:
            events.write("eval", t=now, step=step, train_loss=val - 0.05, val_loss=val, val_stderr=0.01, seconds=0.1)
        events.write(
            "iter", t=now, step=step, loss=val + 0.1 * math.sin(step * step), seconds=0.05 + step % 7 / 1000, lr=1e-3,
            grad_norm=1 + step % 5 / 10, tokens_per_second=1280.0, mfu=0.1, eta_seconds=(of - step) * 0.05,
        )  # fmt: skip


@contextmanager
def training(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the folder's lock, as training does."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)], env=child_environment(), text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
