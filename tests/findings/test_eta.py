"""What is left."""

import pytest

from nanoscope.findings.analyse import Options, analyse
from nanoscope.findings.eta import Eta, NoEta, scenario
from nanoscope.runs.events import AnyEvent, Checkpoint, Eval, Forecast, Iter, Start
from nanoscope.runs.own import EventReader
from nanoscope.runs.run import Run, Series

NOTES = (
    "step 0: train loss 10.8792, val loss 10.8798\niter 0: loss 10.8723, time 27374.65ms, mfu -100.00%\n"
    "iter 100: loss 8.0170, time 3995.11ms, mfu 12.62%\n"
)


def test_the_notes_case_of_6000_iterations(explain) -> None:
    eta = explain(NOTES, max_iters=6000).eta

    assert isinstance(eta, Eta)
    hours, rest = divmod(int(eta.naive_s), 3600)
    assert (hours, *divmod(rest, 60)) == (6, 32, 51)
    assert eta.expected_s == pytest.approx(eta.naive_s)
    assert scenario(eta.steps_left, 0.2).remaining_s / 60 == pytest.approx(20, abs=0.5)
    assert scenario(eta.steps_left, 0.15).remaining_s / 60 == pytest.approx(15, abs=0.5)


def test_scenarios_are_offered_below_the_present_step_time(explain) -> None:
    eta = explain(NOTES, max_iters=6000).eta

    assert len(eta.scenarios) == 3
    assert all(s.step_s < 3.9 and s.remaining_s == pytest.approx(s.step_s * 5900) for s in eta.scenarios)


def test_evaluations_to_come_are_counted(explain, nanogpt_log) -> None:
    eta = explain(nanogpt_log(last=1000), max_iters=3000).eta

    assert eta.evals_left == 8
    assert eta.expected_s == pytest.approx(2000 * 0.1 + 8 * 4.0, rel=0.02)
    assert eta.low_s <= eta.expected_s <= eta.high_s


def test_start_up_and_a_last_line_with_an_evaluation_do_not_mislead(explain, nanogpt_log) -> None:
    eta = explain(nanogpt_log(last=1000), max_iters=3000).eta

    assert eta.naive_s == pytest.approx(2000 * 4.1, rel=0.02)
    assert eta.step_s == pytest.approx(0.1, rel=0.02)


def test_one_stall_is_not_extrapolated(explain, nanogpt_log) -> None:
    eta = explain(
        nanogpt_log(last=1000, eval_every=None, step_s=lambda s: 60.0 if s == 700 else 0.1), max_iters=2000
    ).eta

    assert eta.expected_s == pytest.approx(100, rel=0.03)


def test_a_run_that_slowed_down_is_extrapolated_from_its_end(explain, nanogpt_log) -> None:
    eta = explain(nanogpt_log(last=900, eval_every=None, step_s=lambda s: 0.1 if s < 450 else 0.2), max_iters=1900).eta

    assert eta.expected_s == pytest.approx(200, rel=0.03)


def test_without_a_total_there_is_no_eta_and_a_reason(explain, nanogpt_log) -> None:
    eta = explain(nanogpt_log(last=1000)).eta

    assert isinstance(eta, NoEta)
    assert eta.reason == "total_unknown"
    assert eta.step_s == pytest.approx(0.1, rel=0.02)


def test_without_times_there_is_no_eta_and_a_reason(explain) -> None:
    eta = explain("".join(f"{s} train 5.{s}\n" for s in range(30)), max_iters=100).eta

    assert isinstance(eta, NoEta)
    assert eta.reason == "no_times"


def test_a_finished_run_has_exactly_nothing_left(explain, nanogpt_log) -> None:
    analysis = explain(nanogpt_log(last=1000), max_iters=1000)

    assert analysis.progress.finished is True
    assert (analysis.eta.expected_s, analysis.eta.low_s, analysis.eta.high_s) == (0, 0, 0)


@pytest.mark.parametrize(("total", "finished"), [(1000, True), (1005, True), (1010, False), (5000, False)])
def test_a_run_is_finished_when_no_further_line_is_due(explain, nanogpt_log, total, finished) -> None:
    assert explain(nanogpt_log(last=1000), max_iters=total).progress.finished is finished


def test_counting_from_zero_ends_one_before_the_total(explain) -> None:
    line = "step {0:05d}/00050 (1.00%) | loss: 4.0 | lrm: 1.00 | dt: 500.00ms | tok/sec: 1,000 | mfu: 40.00\n"

    assert explain("".join(line.format(s) for s in range(50))).progress.finished is True
    assert explain("".join(line.format(s) for s in range(40))).progress.steps_left == 10


def test_an_interrupted_run_is_not_finished(explain, nanogpt_log) -> None:
    analysis = explain(nanogpt_log(last=1000) + "KeyboardInterrupt\n", max_iters=1005)

    assert analysis.progress.finished is False


def test_the_last_evaluation_of_all_does_not_change_the_interval(explain) -> None:
    step = "step {0:5d} | loss: 3.1 | lr 1e-4 | norm: 1.0 | dt: 400.00ms | tok/sec: 1000.00"
    lines = []
    for s in range(700, 1073):
        lines += ["validation loss: 3.2"] if s in (750, 1000, 1072) else []
        lines.append(step.format(s))
    analysis = explain("\n".join(lines))

    assert analysis.evals.interval == 250
    assert analysis.progress.finished is True


def test_an_evaluation_after_the_last_printed_step_counts_as_progress(explain, nanogpt_log) -> None:
    progress = explain(nanogpt_log(last=57, every=5, eval_every=19), max_iters=57).progress

    assert (progress.last_step, progress.steps_left, progress.finished) == (57, 0, True)


def test_the_parts_add_up_to_the_whole(explain, nanogpt_log) -> None:
    eta = explain(nanogpt_log(last=1000), max_iters=3000).eta

    assert eta.steps_left * eta.step_s + eta.evals_left * eta.eval_each_s == pytest.approx(eta.expected_s)


def test_before_the_second_evaluation_the_header_and_the_first_step_tell_of_those_to_come(explain, nanogpt_log) -> None:
    eta = explain(nanogpt_log(last=200, header=["Overriding: eval_interval = 250"]), max_iters=2000).eta

    assert eta.evaluations == "likely"
    assert eta.evals_left == 8
    assert eta.low_s < 1800 * 0.1 + 8 * 4.0 < eta.high_s


def test_evaluations_of_unknown_frequency_are_only_in_the_upper_end_of_the_range(explain, nanogpt_log) -> None:
    eta = explain(nanogpt_log(last=200), max_iters=2000).eta

    assert eta.evaluations == "left_out"
    assert eta.expected_s == pytest.approx(180, rel=0.02)
    assert eta.high_s > 1800 * 0.1 + 7 * 4.0


def test_with_compiling_turned_off_the_first_step_shows_what_an_evaluation_costs(explain, nanogpt_log) -> None:
    header = ["Overriding: eval_interval = 250", "Overriding: compile = False"]
    analysis = explain(nanogpt_log(last=200, startup_s=0, header=header), max_iters=2000)

    assert analysis.slow_steps[0].causes == ("evaluation",)
    assert analysis.eta.expected_s == pytest.approx(1800 * 0.1 + 8 * 4.0, rel=0.02)


def test_an_even_run_has_a_narrower_range_than_a_restless_one(explain, nanogpt_log) -> None:
    def width(step_s) -> float:
        eta = explain(nanogpt_log(last=1000, eval_every=None, step_s=step_s), max_iters=3000).eta
        return (eta.high_s - eta.low_s) / eta.expected_s

    assert width(lambda s: 0.1) < 0.15
    assert width(lambda s: 0.1 if s % 600 < 300 else 0.14) > 0.3


def test_a_steady_drift_is_within_the_range(explain, nanogpt_log) -> None:
    def step_s(step: int) -> float:
        return 0.1 * (1 + step / 2000)

    eta = explain(nanogpt_log(last=1000, eval_every=None, startup_s=0, step_s=step_s), max_iters=2000).eta

    assert eta.step_s > step_s(900)
    assert eta.low_s < sum(step_s(s) for s in range(1001, 2001)) < eta.high_s


def test_a_run_that_changed_its_pace_just_now_is_extrapolated_from_the_change(explain, nanogpt_log) -> None:
    def step_s(step: int) -> float:
        return 0.1 if step < 900 else 0.15

    eta = explain(nanogpt_log(last=1000, eval_every=None, startup_s=0, step_s=step_s), max_iters=1500).eta

    assert eta.expected_s == pytest.approx(75, rel=0.03)


@pytest.mark.parametrize(("printed", "disagrees"), [(100.0, False), (400.0, True)])
def test_the_estimate_of_the_trainer_stands_beside_ours(read_run, nanogpt_log, printed, disagrees) -> None:
    run = read_run(nanogpt_log(last=1000, eval_every=None, header=["Overriding: max_iters = 2000"]))
    run.series["eta_s"] = Series()
    run.series["eta_s"].steps.append(1000)
    run.series["eta_s"].values.append(printed)
    eta = analyse(run).eta

    assert (eta.printed_s, eta.printed_disagrees) == (printed, disagrees)
    assert analyse(run, Options(max_iters=9000)).eta.printed_s is None  # that is the time to another end


# A total in the log that its steps are above means something else, and is left out; one that somebody gives is held.
@pytest.mark.parametrize(("total", "given", "mismatches"), [("/00050", None, []), ("", 50, ["beyond_total"])])
def test_a_run_beyond_its_total_is_neither_finished_nor_given_a_time(explain, total, given, mismatches) -> None:
    line = f"step {{0:05d}}{total} (1.00%) | loss: 4.0 | lrm: 1.00 | dt: 500.00ms | tok/sec: 1,000 | mfu: 40.00\n"
    analysis = explain("".join(line.format(s) for s in range(80)), max_iters=given)

    assert analysis.progress.finished is None
    assert isinstance(analysis.eta, NoEta)
    assert [mismatch.kind for mismatch in analysis.mismatches] == mismatches


def test_a_thousand_steps_hold_their_evaluations(explain, nanogpt_log) -> None:
    eta = explain(nanogpt_log(last=1000)).eta

    assert eta.evals_in_thousand == 4
    assert eta.thousand_s == pytest.approx(100 + 4 * 4.0, rel=0.02)


def test_without_a_total_the_trainers_own_estimate_is_given(explain) -> None:
    lines = (
        f"eta: 1:{40 - i:02d}:00  iter: {i * 60}  total_loss: {3 - i / 50:.3f}  time: 1.00\n" for i in range(1, 20)
    )

    eta = explain("".join(lines)).eta

    assert isinstance(eta, NoEta)
    assert eta.printed_s == 3600 + 21 * 60
    assert "The trainer's own estimate is" in str(eta.text())


def test_evaluations_on_printed_steps_that_take_no_longer_are_not_charged_with_start_up(explain, nanogpt_log) -> None:
    text = nanogpt_log(last=1000, eval_every=200, eval_s=0.0, startup_s=30.0)
    eta = explain(text, max_iters=5000).eta
    assert eta.expected_s == pytest.approx(400, rel=0.03)
    assert eta.high_s < 450


def own_run(steps: int, *events: AnyEvent, **config: object) -> Run:
    """A run of nanoscope with so many iterations of a second, which foresaw evaluations of 20 s and saves of 2 s."""
    reader = EventReader()
    reader.take([Start(config={"max_iters": 1000, "eval_interval": 300, **config})])
    reader.take([Forecast(steps=1000, step_seconds=1.0, eval_seconds=20.0, checkpoint_seconds=2.0)])
    for step in range(steps):
        reader.take([Iter(step=step, loss=2.0, seconds=1.0, eta_seconds=100.0, t=float(step))])
    for event in events:
        reader.take([event])
    (run,) = reader.log("").runs
    return run


def test_before_its_first_evaluation_our_own_run_has_foreseen_what_those_to_come_cost() -> None:
    eta = analyse(own_run(100)).eta
    assert isinstance(eta, Eta)
    assert (eta.evaluations, eta.evals_left, eta.eval_each_s) == ("forecast", 4, 20.0)  # at 300, 600, 900 and the end
    assert (eta.checkpoints_left, eta.checkpoint_each_s) == (4, 2.0)
    assert eta.expected_s == pytest.approx(901 + 4 * 22, abs=1)
    assert eta.low_s < 901 + 4 * 16 < 901 + 4 * 28 < eta.high_s


def test_the_first_evaluation_of_our_own_run_replaces_the_forecast() -> None:
    seen = [Eval(step=300, val_loss=2.0, seconds=50.0), Checkpoint(step=300, seconds=5.0)]
    eta = analyse(own_run(301, *seen)).eta
    assert isinstance(eta, Eta)
    assert (eta.evaluations, eta.evals_left, eta.eval_each_s) == ("known", 3, 50.0)
    assert eta.checkpoint_each_s == 5.0


def test_a_run_with_a_time_limit_ends_when_its_trainer_says() -> None:
    eta = analyse(own_run(100, max_minutes=5.0)).eta
    assert isinstance(eta, Eta)
    assert eta.expected_s == eta.high_s == pytest.approx(100)
    assert eta.steps_left == pytest.approx(91, abs=1)
    longer = analyse(own_run(100, max_minutes=5.0), Options(max_iters=2000)).eta  # somebody asks about another run
    assert isinstance(longer, Eta)
    assert longer.expected_s > 1900


def test_a_checkpoint_before_the_first_step_says_nothing_about_how_often_they_come() -> None:
    reader = EventReader()
    reader.take([Start(config={"max_iters": 1000, "eval_interval": 300})])
    reader.take([Checkpoint(step=0, seconds=1.0)])
    for step in range(100):
        reader.take([Iter(step=step, loss=2.0, seconds=1.0)])
    (run,) = reader.log("").runs
    assert analyse(run).eta.checkpoints_left == 0  # type: ignore[union-attr]
