"""nanoscope's own runs, as their events tell them."""

import json

import pytest

from nanoscope.analysis.analyse import Options, analyse
from nanoscope.analysis.findings import Eta, NoEta, NonFinite


def start(first_step: int = 0, max_iters: int = 60, t: float = 6.7) -> dict[str, object]:
    config = {"max_iters": max_iters, "eval_interval": 20, "batch_size": 12, "block_size": 64}
    return {"event": "start", "t": t, "config": config, "first_step": first_step, "tokens_per_step": 768}


def session(first: int, last: int, max_iters: int = 60) -> list[dict[str, object]]:
    """Start-up of 7 s, then 0.1 s a step and 2 s an evaluation at every 20th, with a checkpoint of 0.5 s."""
    events, t = [start(first, max_iters)], 7.0
    if first:
        events.append({"event": "resume", "t": t, "step": first})
    for step in range(first, last + 1):
        if step % 20 == 0 and (step > first or not first):
            t += 2.0
            events.append({"event": "eval", "t": t, "step": step, "val_loss": 4 - step / 60, "seconds": 2.0})
            if step:
                t += 0.5
                events.append({"event": "checkpoint", "t": t, "step": step, "seconds": 0.5})
        if step == max_iters:
            break
        t += 0.1
        if step % 5 == 0:
            events.append({"event": "iter", "t": t, "step": step, "loss": 4 - step / 60, "seconds": 0.1})
    return events


def end(events: list[dict[str, object]], reason: str = "finished") -> list[dict[str, object]]:
    t = float(str(events[-1]["t"]))
    spent = {
        name: sum(float(str(e["seconds"])) for e in events if e["event"] == name) for name in ("eval", "checkpoint")
    }
    phases = {"startup": 7.0, **spent, "step": t - 7.0 - sum(spent.values())}
    last = next(e["step"] for e in reversed(events) if "step" in e)
    return [*events, {"event": "end", "t": t, "reason": reason, "step": last, "wall_seconds": t, "phases": phases}]


@pytest.fixture
def explained(read):
    def explain(*events: dict[str, object]):
        log = read("".join(json.dumps(event) + "\n" for event in events))
        (run,) = log.runs
        return run, analyse(run, Options(), log), log

    return explain


@pytest.mark.parametrize("over", [True, False])
def test_the_phases_of_a_run_are_shares_of_its_own_clock_whether_it_ended_or_was_killed(explained, over) -> None:
    events = session(0, 60)
    _, analysis, _ = explained(*(end(events) if over else events[:-2]))
    costs = {cost.phase: cost for cost in analysis.phase_costs}

    assert costs["startup"].total_s == pytest.approx(7.0)
    assert costs["evaluation"].total_s == pytest.approx(2.0 * (4 if over else 3))
    assert sum(cost.share for cost in costs.values()) + 6.0 / (22.5 if over else 20.0) == pytest.approx(1.0, abs=0.03)


def test_a_resumed_run_has_its_new_total_and_the_time_of_both_sessions(explained) -> None:
    run, analysis, _ = explained(*end(session(0, 60)), *end(session(60, 90, max_iters=90)))

    assert run.resumed_at == [60]
    assert analysis.progress.total_steps == 90
    assert analysis.progress.finished is True
    assert {cost.phase: cost.total_s for cost in analysis.phase_costs}["startup"] == pytest.approx(14.0)


def test_a_finished_run_that_is_resumed_is_no_longer_finished(explained) -> None:
    _, analysis, _ = explained(*end(session(0, 60)), *session(60, 70, max_iters=90))

    assert analysis.progress.finished is False
    assert isinstance(analysis.eta, Eta)
    assert analysis.eta.steps_left == 20


def test_a_run_resumed_after_a_kill_keeps_the_evaluation_of_its_checkpoint(explained) -> None:
    run, analysis, _ = explained(*session(0, 57), *end(session(40, 60)))

    assert [e.step for e in run.evals] == [0, 20, 40, 60]
    assert list(run.steps.step) == list(range(0, 60, 5))
    assert analysis.progress.finished is True


def test_an_interrupted_run_is_said_to_be_and_knows_where_to_go_on(explained) -> None:
    events = [*session(0, 57), {"event": "checkpoint", "t": 20.0, "step": 58, "seconds": 0.1}]
    _, analysis, log = explained(*end(events, "interrupted"))

    assert [(e.kind, e.message) for e in log.errors] == [("interrupted", "stopped at iteration 58")]
    assert analysis.progress.finished is False
    assert analysis.progress.last_step == 58
    assert [(a.action, a.step) for a in analysis.advice][:1] == [("resume_from_checkpoint", 58)]


def test_a_loss_that_is_not_finite_between_two_lines_is_found(explained) -> None:
    events = [*session(0, 22), {"event": "non_finite", "t": 18.0, "step": 23}]
    _, analysis, _ = explained(*end(events, "non_finite"))

    assert isinstance(analysis.verdicts[0], NonFinite)
    assert (analysis.verdicts[0].step, analysis.verdicts[0].last_good_checkpoint) == (23, 20)
    assert isinstance(analysis.eta, NoEta)
    assert analysis.eta.reason == "not_finite"


def test_the_console_tells_the_end_and_a_bad_loss_too(read) -> None:
    line = "iter {}: loss 3.9, time 100.00ms, mfu 7.13%, tok/s 805, eta 1m03s\n"
    finished = read(line.format(0) + line.format(5) + "finished 8 iterations in 12s (step 76%)\n").runs[0]
    bad = read(line.format(0) + "nanoscope: the loss is not finite at iteration 3: training stopped\n").runs[0]
    stopped = read(line.format(0) + line.format(5) + "stopped at iteration 9 by SIGINT in 13s (step 54%)\n")

    assert (finished.said_finished, finished.total_steps) == (True, 8)
    assert (list(bad.steps.step), bad.failed) == ([0, 3], True)
    assert [e.kind for e in stopped.errors] == ["interrupted"]
