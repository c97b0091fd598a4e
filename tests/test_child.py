"""Child processes: what they answer, how they fail, and that nothing is left of them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import msgspec
import psutil
import pytest

from nanoscope.child import Child, ChildError


def echo(questions: Iterator[Any]) -> Iterator[Any]:
    for question in questions:
        print("this is no answer")
        yield {"variable": os.environ.get("GREETING"), "question": question}


def fail(questions: Iterator[Any]) -> Iterator[Any]:
    how = next(questions)
    if how == "memory":
        raise RuntimeError("can't allocate memory\nin more words")
    if how == "signal":
        os.kill(os.getpid(), signal.SIGILL)
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exit":
        print("the last words", file=sys.stderr, flush=True)
        os._exit(3)
    yield ""


def hang(questions: Iterator[Any]) -> Iterator[Any]:
    grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield grandchild.pid
    time.sleep(600)


class Echoed(msgspec.Struct):
    variable: str
    question: str


def started(function: Callable[..., Any], **variables: str) -> Child:
    return Child(f"tests.test_child:{function.__name__}", variables)


def test_each_question_has_an_answer() -> None:
    with closing(started(echo, GREETING="good day")) as child:
        for question in ("first", "second"):
            assert child.ask(question, Echoed, timeout=60) == Echoed("good day", question)


@pytest.mark.parametrize(
    ("how", "problem", "out_of_memory"),
    [
        ("memory", "can't allocate memory", True),
        ("signal", "SIGILL", False),
        ("killed", "does not fit into memory", True),
        ("exit", "the last words", False),
    ],
)
def test_a_child_without_an_answer_says_why(how: str, problem: str, out_of_memory: bool) -> None:
    with closing(started(fail)) as child:
        for question in (how, "and again"):
            with pytest.raises(ChildError, match=problem) as caught:
                child.ask(question, str, timeout=60)
            assert caught.value.out_of_memory is out_of_memory
            if how == "memory":
                break  # it said so itself


def test_a_child_that_takes_too_long_is_killed_with_its_own_children() -> None:
    with closing(started(hang)) as child:
        grandchild = psutil.Process(child.ask("", int, timeout=60))
        with pytest.raises(ChildError, match="does not finish"):
            child.ask("", int, timeout=0.1)
    assert not child.process.is_running()
    assert not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE


def test_a_child_ends_with_its_parent() -> None:
    code = """
from tests.test_child import *
child = started(hang)
print(child.ask("", int, timeout=60), child.process.pid, flush=True)
os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    until = time.monotonic() + 60
    for orphan in map(int, done.stdout.split()):
        while psutil.pid_exists(orphan) and psutil.Process(orphan).status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < until
            time.sleep(0.05)
