"""A real `nanoscope watch` process, an HTTP client for it, and runs that grow while it watches."""

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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

from nanoscope.runs.events import End, Eval, Iter, NonFinite, Start
from written_runs import EventFile

SOURCES = Path(__file__).parents[1] / "src"
PATIENCE_SECONDS = 120.0  # how long to wait for a condition: the machine may be busy
URL = re.compile(r"(http://\S+?:(\d+)/\S*)\s*$", re.MULTILINE)

HOLDER = """
import sys
from pathlib import Path
from nanoscope.training.lock import RunLock
lock = RunLock(Path(sys.argv[1])).acquire()
print("held", flush=True)
sys.stdin.read()
"""

# What the modules of the dashboard export, within reach of a test.
HANDLES = """addEventListener("DOMContentLoaded", async () => {
    const names = ["view", "dom", "numbers", "plot", "figure", "runs", "table", "dashboard"];
    const modules = await Promise.all(names.map((name) => import(`/static/${name}.js`)));
    modules.forEach((module) => Object.assign(window, module));
    window.handled = true;
})"""

Runs = list[dict[str, Any]]
Stream = Iterator[Runs | None]  # None: a line that is no list


def until(holds: Callable[[], Any], what: str) -> Any:
    """Wait for a value that is true, and return it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := holds()):
        assert time.monotonic() < deadline, f"timed out waiting until {what}"
        time.sleep(0.02)
    return found


def child_environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(SOURCES), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}


@dataclass
class Answer:
    """A response; header names are in lower case."""

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
    """A server process. Its output goes to a file, so that it never blocks on a full pipe."""

    def __init__(self, *words: str | Path, cwd: Path, launcher: Sequence[str] = ()) -> None:
        handle, name = tempfile.mkstemp(prefix="nanoscope-watch-", suffix=".txt")
        self._output = Path(name)
        self.process = subprocess.Popen(
            [*launcher, sys.executable, "-m", "nanoscope", "watch", *map(str, words)], cwd=cwd, env=child_environment(),
            stdin=subprocess.DEVNULL, stdout=handle, stderr=subprocess.STDOUT,
        )  # fmt: skip
        os.close(handle)
        self.url, self.port = "", 0

    @property
    def printed(self) -> str:
        return self._output.read_text("utf-8")

    def serving(self) -> Self:
        """Wait until it has printed its address."""
        found = until(lambda: URL.search(self.printed) or self.process.poll() is not None, "the server has started")
        assert found is not True, f"it ended with status {self.process.returncode}:\n{self.printed}"
        self.url, self.port = found[1], int(found[2])
        return self

    def ended(self) -> tuple[int, str]:
        """Wait for its end; exit status and output."""
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
        """Send one request. Headers are keywords with '_' for '-'; an iterator is sent in chunks."""
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

    def report(self, *names: str, lang: str = "en") -> Any:
        """The payload of runs, once the server has read them all."""
        query = urlencode([*(("run", name) for name in names), ("lang", lang)])
        return until(lambda: (a := self.ask(f"/api/report?{query}")).status != 202 and a, "all runs are read").json

    @contextmanager
    def stream(self) -> Iterator[Stream]:
        """The lists that /api/stream sends."""
        connection = self.connect()
        try:
            connection.request("GET", "/api/stream")
            yield _lists(connection.getresponse())
        finally:
            connection.close()


def _lists(response: http.client.HTTPResponse) -> Stream:
    """The whole list, whenever something in it has changed."""
    assert response.status == 200
    assert response.getheader("content-type", "").startswith("text/event-stream")
    event, listed = "", {}
    while line := response.readline():
        field, _, value = line.decode("utf-8").rstrip("\r\n").partition(": ")
        if field == "event":
            event = value
        elif field == "data":
            assert event in ("runs", "changes")
            said = json.loads(value)
            listed = {name: run for name, run in listed.items() if event == "changes" and name not in said["gone"]}
            listed |= {run["name"]: run for run in said["runs"]}
            yield list(listed.values())
        yield None  # so that the reader can time out, however many pings the server sends


def heard(stream: Stream, holds: Callable[[dict[str, dict[str, Any]]], Any]) -> dict[str, dict[str, Any]]:
    """Read the stream until the condition holds; the runs by name."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    for runs in stream:
        by_name = {run["name"]: run for run in runs or ()}
        if runs is not None and holds(by_name):
            return by_name
        assert time.monotonic() < deadline, "timed out waiting for this in the stream"
    raise AssertionError("the stream has ended")


@contextmanager
def watching(
    folder: Path | str, *words: str, cwd: Path | None = None, port: int = 0, launcher: Sequence[str] = ()
) -> Iterator[Watch]:
    """A server over a folder, in English; on any free port by default."""
    watch = Watch(folder, "--port", str(port), "--lang", "en", *words, cwd=cwd or Path(folder), launcher=launcher)
    try:
        yield watch.serving()
    finally:
        watch.close()


# --- runs that grow ---


def falling(step: int, of: int = 100) -> float:
    """A validation loss."""
    return 1.4 + 2.8 * math.exp(-5 * step / of)


def begin_run(folder: Path, steps: int, of: int = 100, eval_interval: int = 10) -> EventFile:
    """A run that has not ended; write on to the file to continue it."""
    file = EventFile(folder)
    config = {"max_iters": of, "batch_size": 4, "block_size": 16, "eval_interval": eval_interval}
    file.write(Start(t=0.0, run=folder.name, config=config, device="cpu", tokens_per_step=64))
    go_on(file, range(steps), of, eval_interval)
    return file


def go_on(file: EventFile, steps: range, of: int = 100, eval_interval: int = 10) -> None:
    """More steps, with an evaluation before every `eval_interval`-th."""
    for step in steps:
        val, now = falling(step, of), 0.06 * step
        if step % eval_interval == 0:
            file.write(Eval(t=now, step=step, train_loss=val - 0.05, val_loss=val, val_stderr=0.01, seconds=0.1))
        file.write(
            Iter(
                t=now, step=step, loss=val + 0.1 * math.sin(step * step), seconds=0.05 + step % 7 / 1000, lr=1e-3,
                grad_norm=1 + step % 5 / 10, tokens_per_second=1280.0, mfu=0.1, eta_seconds=(of - step) * 0.05,
            )
        )  # fmt: skip


def write_small_run(folder: Path, best: float, *, broken: bool = False, steps: int = 200, **settings: float) -> None:
    """A run that has ended, of a few lines; `broken`: its loss became NaN half-way. One step is slow."""
    events = EventFile(folder)
    config = {"max_iters": steps, "eval_interval": 20, "n_layer": 2, "dataset": "song", **settings}
    data = {"dataset_fingerprint": "5077", "vocab_size": 65, "train_tokens": 1_000_000, "val_tokens": 100_000}
    events.write(Start(t=0.0, config=config, tokens_per_step=64, device="cpu", **data))  # type: ignore[arg-type]
    end = steps // 2 if broken else steps
    for step in range(0, end, 2):
        val, now = best + 2 * math.exp(-10 * step / steps), 0.05 * step
        if step % 20 == 0:
            events.write(Eval(t=now, step=step, train_loss=val, val_loss=val, val_stderr=0.01, seconds=0.1))
        slow = 2.0 if step == 100 else 0.05
        events.write(Iter(t=now, step=step, loss=val, seconds=slow, lr=1e-3, tokens_per_second=64 / slow))
    now = 0.05 * end
    if broken:
        events.write(NonFinite(t=now, step=end))
    reason = "non_finite" if broken else "finished"
    events.write(End(t=now, reason=reason, step=end, wall_seconds=now, phases={"step": now}))  # type: ignore[arg-type]
    events.close()


RATES = {1e-4: 1.9, 1e-3: 1.6, 1e-2: 1.5}


def write_sweep(folder: Path) -> Path:
    """Three learning rates with two seeds each, one run of which broke, and a run beside the sweep."""
    for rate, best in RATES.items():
        for seed in (1, 2):
            write_small_run(
                folder / f"sweep/lr{rate:g}_s{seed}", best + seed / 100, broken=rate == 1e-2 and seed == 2,
                learning_rate=rate, seed=seed,
            )  # fmt: skip
    write_small_run(folder / "alone", 1.75, learning_rate=1e-3, seed=3)
    return folder


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
