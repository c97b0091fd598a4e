"""How much a run has read, if a resume changed its batch."""

from pathlib import Path

import pytest

from nanoscope.findings.analyse import Options, analyse
from nanoscope.findings.declared import RunProgress
from nanoscope.runs.events import AnyEvent, End, Iter, Resume, Start
from nanoscope.runs.reader import read_log
from written_runs import write_events


def session(first: int, last: int, tokens: int) -> list[AnyEvent]:
    config = {"max_iters": 100, "dataset": "data/x"}
    start = Start(nanoscope="0.1.0", run="run", config=config, first_step=first, tokens_per_step=tokens)
    resume = [Resume(step=first)] if first else []
    steps = [Iter(step=step, loss=2.0, seconds=0.01) for step in range(first, last)]
    return [start, *resume, *steps, End(reason="interrupted", step=last, wall_seconds=1.0, saved_step=last)]


def progress(path: Path) -> RunProgress:
    log = read_log(str(path))
    (run,) = log.runs
    return analyse(run, Options(), log).progress


@pytest.mark.parametrize("file", [".", "console.log"])
def test_the_tokens_of_all_sessions_are_added_up(tmp_path: Path, file: str) -> None:
    events = [*session(0, 40, 128), *session(40, 60, 64), *session(60, 70, 256)]
    found = progress(write_events(tmp_path / "run", events) / file)
    assert found.tokens_seen == 40 * 128 + 20 * 64 + 10 * 256
    assert found.tokens_per_step == 256


@pytest.mark.parametrize("file", [".", "console.log"])
def test_iterations_that_were_repeated_count_once_with_their_last_batch(tmp_path: Path, file: str) -> None:
    events = [*session(0, 40, 128), *session(20, 50, 64)]
    assert progress(write_events(tmp_path / "run", events) / file).tokens_seen == 20 * 128 + 30 * 64
