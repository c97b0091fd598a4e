"""`watch --notify`: tells a command or a webhook when a run breaks, stalls or ends."""

import json
import os
import shlex
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from nanoscope.errors import UsageError, why
from nanoscope.messages import Message, Shown, on_terminal
from nanoscope.runs.summary import RunSummary

TIMEOUT_SECONDS = 20.0
RECENT_SECONDS = 3600  # a run that was copied here after its end is no news
REPORTED = ("finished", "stopped", "failed", "stalled")

Facts = dict[str, Any]


class Watcher:
    """Looks at the runs again and again; every happening of a session is reported once."""

    def __init__(self, tell: Callable[[Facts], None], root: Path) -> None:
        self._tell, self._root = tell, root
        self._began = False
        self._told: set[tuple[str, int, str]] = set()

    def look(self, runs: Sequence[RunSummary]) -> None:
        """Report what has happened since the last look. What was so when watching began is no news."""
        for run in runs:
            is_news = self._began and time.time() - run.updated < RECENT_SECONDS
            for event in _events(run):
                known = (run.name, run.reader.sessions, event)
                if is_news and known not in self._told:
                    self._tell(self._facts(run, event))
                self._told.add(known)
        self._began = True

    def _facts(self, run: RunSummary, event: str) -> Facts:
        best, best_step = run.best_evaluation
        return {
            "event": event, "run": run.name, "folder": str(self._root / run.name), "state": run.state,
            "step": run.nan_step if event == "nan" else run.step, "total": run.total, "loss": run.loss,
            "best_val_loss": best, "best_step": best_step, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }  # fmt: skip


def _events(run: RunSummary) -> list[str]:
    found = ["nan"] if run.nan_step is not None else []
    if run.state in REPORTED and not (run.state == "failed" and found):  # it failed because of the NaN
        found.append(run.state)
    return found


def notifier(target: str) -> Callable[[Facts], None]:
    """Sends facts to an http(s) address, or to a command: as JSON on its standard input, and as NANOSCOPE_… variables.

    Names of runs are never part of a command line. What fails is reported once on standard error.
    """
    failed = False

    def tell(facts: Facts) -> None:
        nonlocal failed
        try:
            send(facts)
            failed = False
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            if not failed:
                event, reason = facts["event"], _reason(error)
                text = Message("nanoscope: --notify failed ({event}): {reason}", event=event, reason=reason)
                print(on_terminal(text), file=sys.stderr, flush=True)
            failed = True

    if urlsplit(target).scheme not in ("http", "https"):
        send = partial(_run, _words(target))
    elif urlsplit(target).hostname:
        send = partial(_post, target)
    else:
        raise UsageError("--notify={target}: not a complete address", target=target)
    return tell


def _post(url: str, facts: Facts) -> None:
    headers = {"Content-Type": "application/json", "User-Agent": "nanoscope"}
    request = urllib.request.Request(url, json.dumps(facts).encode(), headers)
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
        answer.read(1000)


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command, posix=os.name == "posix")
    except ValueError as error:
        raise UsageError("--notify={command}: {reason}", command=command, reason=why(error)) from None
    if not words:
        raise UsageError("--notify needs a command or an http(s) address")
    return words


def _run(words: list[str], facts: Facts) -> None:
    known = {f"NANOSCOPE_{name.upper()}": str(value) for name, value in facts.items() if value is not None}
    subprocess.run(
        words, input=json.dumps(facts).encode(), env={**os.environ, **known}, check=True, timeout=TIMEOUT_SECONDS,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def _reason(error: Exception) -> Shown:
    if isinstance(error, subprocess.CalledProcessError):
        return Message("the command ended with status {status:d}", status=error.returncode)
    if isinstance(error, subprocess.TimeoutExpired | TimeoutError):
        return Message("no answer within {seconds:.0f} s", seconds=TIMEOUT_SECONDS)
    return f"{error}"
