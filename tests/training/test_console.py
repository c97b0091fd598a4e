import io
import re
import time
from contextlib import redirect_stdout

import pytest

from nanoscope.runs.console import console_lines
from nanoscope.runs.events import AnyEvent, End, Eval, Iter, Start
from nanoscope.training import console
from nanoscope.training.console import BarTerminal, PlainTerminal, open_terminal, stages
from nanoscope.training.stopping import StopRequest


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True

    def text(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.getvalue())


def show(terminal: BarTerminal, event: AnyEvent) -> None:
    terminal.write(event, console_lines(event))


def test_a_terminal_gets_a_bar_and_a_file_does_not() -> None:
    with redirect_stdout(Tty()):
        assert isinstance(open_terminal(StopRequest()), BarTerminal)
    with redirect_stdout(io.StringIO()):
        assert isinstance(open_terminal(StopRequest()), PlainTerminal)


def test_the_bar_shows_where_the_run_is_below_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with redirect_stdout(Tty()) as tty:
        terminal = BarTerminal(StopRequest())
        show(terminal, Start(config={"max_iters": 20}))
        terminal.advance(0)
        show(terminal, Eval(step=0, val_loss=3.5, best=True))
        show(terminal, Iter(step=4, loss=2.25, tokens_per_second=1234.0, eta_seconds=75.0))
        terminal.advance(6)
        show(terminal, End(reason="finished", step=20, wall_seconds=3.0))
        terminal.close()
    shown = tty.text()
    assert "iter 4: loss 2.2500, time n/a, mfu n/a, tok/s 1.23k, eta 1m15s\n" in shown
    assert "6/20 eta 1m15s" in shown
    assert shown.endswith("finished 20 iterations in 3s\n")


def test_progress_inside_an_iteration_is_shown_in_the_bar_until_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with redirect_stdout(Tty()) as tty:
        terminal = BarTerminal(StopRequest())
        show(terminal, Start(config={"max_iters": 20}))
        terminal.advance(3)
        terminal.progress("iteration 3: micro-batch 17/40")
        terminal._progress.refresh()
        inside = tty.text()
        terminal.advance(4)
        terminal._progress.refresh()
        terminal.close()
    assert "3/20 iteration 3: micro-batch 17/40" in inside
    assert "micro-batch" not in tty.text()[len(inside) :]


def test_progress_goes_to_stderr_where_nothing_was_printed_for_a_while(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    terminal = PlainTerminal(StopRequest())
    terminal.line("iter 2: …")
    terminal.progress("iteration 3: micro-batch 1/40")
    now += PlainTerminal.SILENT_SECONDS
    terminal.progress("iteration 3: micro-batch 2/40")
    terminal.progress("iteration 3: micro-batch 3/40")
    assert capsys.readouterr() == ("iter 2: …\n", "iteration 3: micro-batch 2/40\n")


def test_stages_are_shown_only_if_they_take_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with stages() as show:
        show("reading", 0.1)
        now += console.QUIET_SECONDS
        show("reading", 0.5)
        show("reading", 0.6)
        now += console.LINE_SECONDS
        show("tokenizing", 0.1)
    assert capsys.readouterr().err == "reading: 50%\ntokenizing: 10%\n"
