"""nanoscope's own runs: events.jsonl and console.log of a run tell the same story, whatever happened in it."""

import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from nanoscope.findings.analyse import Analysis, Options, analyse
from nanoscope.findings.declared import NonFinite
from nanoscope.findings.eta import Eta, NoEta
from nanoscope.runs import events as e
from nanoscope.runs.reader import read_log
from nanoscope.runs.run import Log, Run
from stories import SOURCES, assert_alike, story
from written_runs import write_events

STARTUP_SECONDS = 7.0
EVAL_SECONDS = 2.0
CHECKPOINT_SECONDS = 0.5
SETTINGS = {"eval_interval": 20, "batch_size": 12, "block_size": 64, "log_interval": 5, "learning_rate": 1e-3}

Explain = Callable[..., tuple[Run, Analysis, Log]]


def session(first: int, last: int, max_iters: int = 60, stderr: float | None = 0.02) -> list[e.AnyEvent]:
    """Start-up of 7 s, then 0.1 s per step and 2 s per evaluation at every 20th, with a checkpoint of 0.5 s."""
    t = STARTUP_SECONDS
    events: list[e.AnyEvent] = [
        e.Start(
            t=6.7, nanoscope="0.1.0", run="run", config={"max_iters": max_iters, **SETTINGS}, first_step=first,
            device="cpu", device_name="a CPU", dtype="float32",
            device_reasons="cpu (no GPU found), float32 (safe), eager (short)",
            peak_flops=5.5e10, peak_source="measured", parameters=800_000, tokens_per_step=768, data_folder="data/song",
            tokenizer="char", vocab_size=65, train_tokens=1_003_854, val_tokens=111_540,
        )
    ]  # fmt: skip
    if first:
        events.append(e.Resume(t=t, step=first))
    noise = random.Random(first)
    for step in range(first, last + 1):
        usual = 1.5 + 2.5 * 0.97**step
        if step % 20 == 0 and (step > first or not first):
            t += EVAL_SECONDS
            val = usual + 0.1
            events.append(
                e.Eval(
                    t=t, step=step, train_loss=usual, val_loss=val, val_stderr=stderr, seconds=EVAL_SECONDS, best=True
                )
            )
            if step:
                t += CHECKPOINT_SECONDS
                path = f"checkpoints/step-{step:06d}"
                events.append(e.Checkpoint(t=t, step=step, path=path, seconds=CHECKPOINT_SECONDS, best=True))
        if step == max_iters:
            break
        seconds = 0.1 + noise.gauss(0, 0.002)
        t += seconds
        if step % 5 == 0:
            events.append(
                e.Iter(
                    t=t, step=step, loss=usual + noise.gauss(0, 0.01), seconds=seconds, lr=1e-3, grad_norm=1.0,
                    tokens_per_second=768 / seconds, mfu=0.4, eta_seconds=(max_iters - step) * 0.1,
                )
            )  # fmt: skip
    return events


def end(events: list[e.AnyEvent], reason: e.EndReason = "finished", signal: str | None = None) -> list[e.AnyEvent]:
    t = events[-1].t
    assert t is not None
    spent = {
        "eval": EVAL_SECONDS * sum(isinstance(event, e.Eval) for event in events),
        "checkpoint": CHECKPOINT_SECONDS * sum(isinstance(event, e.Checkpoint) for event in events),
        "sample": sum(event.seconds or 0 for event in events if isinstance(event, e.Sample)),
    }
    phases = {"startup": STARTUP_SECONDS, **spent, "step": t - STARTUP_SECONDS - sum(spent.values())}
    step = max(getattr(event, "step", 0) for event in events)
    saved = max((event.step for event in events if isinstance(event, e.Checkpoint)), default=None)
    return [
        *events,
        e.End(t=t, reason=reason, step=step, wall_seconds=t, phases=phases, signal=signal, saved_step=saved),
    ]


def slowed(events: list[e.AnyEvent], step: int) -> list[e.AnyEvent]:
    """A step that takes 3 s, as the run notes itself."""
    at = next(i for i, event in enumerate(events) if isinstance(event, e.Iter) and event.step == step)
    slow = msgspec.structs.replace(events[at], seconds=3.0)
    note = e.SlowStep(t=events[at].t, step=step, seconds=3.0, usual=0.1, cause="busy")
    return [*events[:at], slow, note, *events[at + 1 :]]


@pytest.fixture(params=SOURCES)
def explained(request: pytest.FixtureRequest, tmp_path: Path) -> Explain:
    """What is found in a run with these events, from either of its files."""

    def explain(*events: e.AnyEvent) -> tuple[Run, Analysis, Log]:
        log = read_log(str(write_events(tmp_path / "run", events) / request.param))
        (run,) = log.runs
        return run, analyse(run, Options(), log), log

    return explain


# --- one story from two files ---

NOTES: list[e.AnyEvent] = [
    e.OutOfMemory(t=20.0, step=41, micro_batch_before=12, micro_batch=6),
    e.Asleep(t=20.0, step=42, seconds=4000.0),
    e.Spike(t=20.0, step=43, loss=5.25, usual=2.5, score=9.0),
    e.CheckpointFailed(t=20.0, step=44, message="No space left on device"),
    e.Note(t=20.0, text="torch.compile does not work here"),
    e.Sample(t=20.0, step=45, seconds=0.4, path="samples/step-000045.txt", beginning="ROMEO:\nwhat (ever)"),
]
STORIES: dict[str, list[e.AnyEvent]] = {
    "finished": end(slowed(session(0, 60), 35)),
    "finished, with all kinds of notes": end([*session(0, 47), *NOTES, *session(0, 60)[-9:]]),
    "finished, with one evaluation window": end(session(0, 60, stderr=None)),
    "interrupted": end(session(0, 57), "interrupted", "SIGINT"),
    "interrupted by another process": end(session(0, 57), "interrupted"),
    "killed": session(0, 57),
    "max_minutes": end(session(0, 43, max_iters=2000), "max_minutes"),
    "patience": end(session(0, 80, max_iters=2000), "patience"),
    "not finite": end([*session(0, 42), e.NonFinite(t=19.0, step=43)], "non_finite"),
    "rolled back": end(
        [
            *session(0, 52),
            e.Rollback(t=20.0, step=53, to=40, lr_factor=0.5, count=1, limit=3),
            *[event for event in session(0, 60) if getattr(event, "step", 0) >= 40][2:],
        ]
    ),
    "resumed": [*end(session(0, 47), "interrupted", "SIGTERM"), *end(session(40, 60))],
    "resumed after a kill": [*session(0, 57), *end(session(40, 60))],
    "continued after its end": [*end(session(0, 60)), *end(session(60, 90, max_iters=90))],
    "evaluated only": end([*session(0, 0)[:2]], "eval_only"),
}  # fmt: skip


@pytest.mark.parametrize("name", STORIES)
def test_the_console_and_the_events_of_a_run_tell_the_same(name: str, tmp_path: Path) -> None:
    folder = write_events(tmp_path / "run", STORIES[name])
    events, console = (story(folder / source) for source in SOURCES)
    if "kill" in name:  # only the events of a session that was killed say how long it took
        for story_ in (events, console):
            del story_["phase_costs"], story_["advice"]
    assert_alike(events, console)


@pytest.mark.parametrize(
    ("name", "finished", "last_step", "errors"),
    [
        ("finished", True, 60, []),
        ("max_minutes", True, 40, []),
        ("patience", True, 80, []),
        ("interrupted", False, 55, ["interrupted"]),
        ("interrupted by another process", False, 55, ["interrupted"]),
        ("not finite", False, 43, []),
        ("rolled back", True, 60, []),
        ("resumed", True, 60, ["interrupted"]),
    ],
)
@pytest.mark.parametrize("source", SOURCES)
def test_how_a_run_ended_is_known(
    name: str, finished: bool, last_step: int, errors: list[str], source: str, tmp_path: Path
) -> None:
    log = read_log(str(write_events(tmp_path / "run", STORIES[name]) / source))
    (run,) = log.runs
    progress = analyse(run, Options(), log).progress
    assert (progress.finished, progress.last_step) == (finished, last_step)
    assert [error.kind for error in log.errors] == errors


def test_a_console_without_standard_errors_is_not_taken_for_nanogpts(tmp_path: Path) -> None:
    folder = write_events(tmp_path / "run", STORIES["finished, with one evaluation window"])
    assert "±" not in (folder / "console.log").read_text("utf-8")
    log = read_log(str(folder / "console.log"))
    mfu = analyse(log.runs[0], Options(), log).mfu
    assert (log.format, mfu and mfu.assumed_device, mfu and mfu.trust) == ("nanoscope", None, "ok")


# --- what is found in them ---


def test_the_phases_of_a_run_that_ended_are_shares_of_its_own_time(explained: Explain) -> None:
    _, analysis, _ = explained(*end(session(0, 60)))
    costs = {cost.phase: cost for cost in analysis.phase_costs}
    assert costs["startup"].total_s == pytest.approx(7.0, abs=0.2)
    assert costs["evaluation"].total_s == pytest.approx(8.0, abs=0.2)
    assert sum(cost.share for cost in costs.values()) + 6.0 / 22.5 == pytest.approx(1.0, abs=0.03)


def test_the_phases_of_a_run_that_was_killed_are_shares_of_the_time_in_its_events(tmp_path: Path) -> None:
    log = read_log(str(write_events(tmp_path / "run", session(0, 60)[:-2])))
    costs = {cost.phase: cost for cost in analyse(log.runs[0], Options(), log).phase_costs}
    assert costs["startup"].total_s == pytest.approx(7.0)
    assert costs["evaluation"].total_s == pytest.approx(6.0)
    assert sum(cost.share for cost in costs.values()) + 6.0 / 20.0 == pytest.approx(1.0, abs=0.03)


def test_a_resumed_run_has_its_new_total_and_the_time_of_both_sessions(explained: Explain) -> None:
    run, analysis, _ = explained(*STORIES["continued after its end"])
    assert run.resumed_at == [60]
    assert (analysis.progress.total_steps, analysis.progress.finished) == (90, True)
    assert {cost.phase: cost.total_s for cost in analysis.phase_costs}["startup"] == pytest.approx(14.0, abs=0.4)


def test_a_finished_run_that_is_resumed_is_no_longer_finished(explained: Explain) -> None:
    _, analysis, _ = explained(*end(session(0, 60)), *session(60, 70, max_iters=90))
    assert analysis.progress.finished is False
    assert isinstance(analysis.eta, Eta)
    assert analysis.eta.steps_left == 20


def test_a_run_resumed_after_a_kill_keeps_the_evaluation_of_its_checkpoint(explained: Explain) -> None:
    run, analysis, _ = explained(*session(0, 57), *end(session(40, 60)))
    assert [evaluation.step for evaluation in run.evals] == [0, 20, 40, 60]
    assert list(run.steps.step) == list(range(0, 60, 5))
    assert analysis.progress.finished is True


def test_an_interrupted_run_can_be_resumed_from_its_last_checkpoint(explained: Explain) -> None:
    saved = e.Checkpoint(t=20.0, step=58, path="checkpoints/step-000058", seconds=0.1)
    _, analysis, log = explained(*end([*session(0, 57), saved], "interrupted", "SIGINT"))
    assert [(error.kind, error.message) for error in log.errors] == [("interrupted", "stopped at iteration 58")]
    assert (analysis.progress.finished, analysis.progress.last_step) == (False, 58)
    assert [(advice.action, advice.step) for advice in analysis.advice][:1] == [("resume_from_checkpoint", 58)]


def test_a_loss_that_is_not_finite_between_two_lines_is_found(explained: Explain) -> None:
    _, analysis, _ = explained(*end([*session(0, 22), e.NonFinite(t=18.0, step=23)], "non_finite"))
    assert isinstance(analysis.verdicts[0], NonFinite)
    assert (analysis.verdicts[0].step, analysis.verdicts[0].last_good_checkpoint) == (23, 20)
    assert isinstance(analysis.eta, NoEta)
    assert analysis.eta.reason == "not_finite"


def test_the_end_of_a_console_log_alone_says_that_it_finished(tmp_path: Path) -> None:
    lines = [f"iter {step}: loss 3.9, time 100.00ms, mfu 7.13%, tok/s 805, eta 1m03s" for step in (0, 5)]
    (tmp_path / "tail.log").write_text("\n".join([*lines, "finished 8 iterations in 12s (step 76%)"]), "utf-8")
    (run,) = read_log(str(tmp_path / "tail.log")).runs
    assert run.said_finished
