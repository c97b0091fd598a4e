"""Two runs side by side: the laptop and the card of the notes."""

import math

import pytest

from nanoscope.analysis.compare import compare

LAPTOP = ["Overriding: device = cpu", "n_layer = 4", "n_embd = 128", "batch_size = 12", "found vocab_size = 65"]
LAPTOP += ["tokens per iteration will be: 768", "number of parameters: 0.80M"]
CARD = ["Overriding: device = cuda", "n_layer = 6", "n_embd = 384", "batch_size = 64", "found vocab_size = 65"]
CARD += ["tokens per iteration will be: 16,384", "number of parameters: 10.65M"]


def row(comparison, measure: str):
    (found,) = [r for r in comparison.rows if r.measure == measure]
    return found


@pytest.fixture
def two_runs(read_run, nanogpt_log):
    """Laptop: 2000 steps to 1.76 / 1.89. Card: 5000 steps to 0.62 / 1.70, past a best of 1.47 at 2000."""
    laptop = nanogpt_log(
        last=2000, header=LAPTOP, step_s=lambda s: 0.116, eval_s=1.4, startup_s=0.5,
        loss=lambda s: 1.7525 + 2.4 * math.exp(-s / 380), val=lambda s: 1.874 + 2.3 * math.exp(-s / 380),
    )  # fmt: skip
    card = nanogpt_log(
        last=5000, header=CARD, step_s=lambda s: 0.0332, eval_s=4.4,
        loss=lambda s: 0.58 + 3.6 * math.exp(-s / 1100),
        val=lambda s: 1.47 + max(0, s - 2000) / 3000 * 0.2344 + 2.8 * math.exp(-s / 250),
    )  # fmt: skip
    return {"laptop": read_run(laptop), "4070 Ti": read_run(card)}


@pytest.fixture
def notes(two_runs):
    return compare(list(two_runs.values()), list(two_runs))


def test_the_table_has_the_ends_the_bests_and_equal_steps_tokens_and_time(notes) -> None:
    assert row(notes, "last_val_loss").values == pytest.approx((1.89, 1.70), abs=0.01)
    assert row(notes, "best_val_loss").values == pytest.approx((1.89, 1.47), abs=0.01)
    assert row(notes, "val_at_equal_steps").at == 2000
    assert row(notes, "val_at_equal_tokens").best == 0
    assert row(notes, "val_at_equal_time").best == 1
    assert row(notes, "time_to_loss").best == 1
    assert notes.speed_ratio == pytest.approx(0.0332 / 0.116, rel=0.03)


def test_another_model_and_overfitting_explain_the_difference_and_the_device_does_not(notes) -> None:
    explains = {e.reason: e.explains for e in notes.explanations}

    assert explains["other_model"] is True
    assert explains["other_batch"] is True
    assert explains["overfitting"] is True
    assert explains["device"] is False


@pytest.mark.parametrize("names", [("laptop", "4070 Ti"), ("4070 Ti", "laptop")])
def test_each_explanation_is_told_of_the_run_that_it_is_true_of(two_runs, names) -> None:
    comparison = compare([two_runs[name] for name in names], names)
    told_of = {e.reason: (names[e.run], names[e.other]) for e in comparison.explanations}
    overfitting = next(e for e in comparison.explanations if e.reason == "overfitting")

    assert told_of["overfitting"] == ("4070 Ti", "laptop")
    assert told_of["fewer_steps"] == ("laptop", "4070 Ti")
    assert overfitting.loss_difference == pytest.approx(1.70 - 1.89, abs=0.02)


def test_a_shorter_run_that_ends_lower_has_not_been_trained_too_little(read_run, nanogpt_log) -> None:
    past_its_best = nanogpt_log(
        last=4000, loss=lambda s: 4 * math.exp(-s / 900), val=lambda s: 1.5 + abs(s - 1000) / 4000
    )
    until_its_best = nanogpt_log(
        last=1000, loss=lambda s: 4 * math.exp(-s / 900), val=lambda s: 1.5 + abs(s - 1000) / 4000
    )
    comparison = compare([read_run(past_its_best), read_run(until_its_best)], ["long", "short"])

    assert [(e.reason, e.run) for e in comparison.explanations] == [("overfitting", 0)]


def test_a_machine_is_called_faster_only_where_the_machines_differ(notes, read_run, nanogpt_log) -> None:
    small, wide = (
        read_run(nanogpt_log(header=["device = cpu", f"n_embd = {width}"], step_s=lambda s, w=width: w / 1000))
        for width in (64, 128)
    )

    assert row(notes, "throughput").reason == "faster_machine"
    assert row(notes, "time_to_loss").reason == "faster_machine"
    assert row(compare([small, wide], ["a", "b"]), "time_to_loss").reason == "other_model"


def test_differing_settings_are_listed_and_equal_ones_are_not(notes) -> None:
    differences = {d.key: d.values for d in notes.config}

    assert differences["n_layer"] == (4, 6)
    assert differences["parameters"] == (800_000, 10_650_000)
    assert "vocab_size" not in differences


def test_the_shorter_run_is_continued_as_a_range_below_its_end(notes) -> None:
    (laptop,) = notes.continued

    assert laptop.run == 0
    assert laptop.to_step == 5000
    assert 1.4 < laptop.low < laptop.high < 1.92


def test_the_validation_of_the_card_is_past_its_best(notes) -> None:
    assert [v.code for v in notes.analyses[1].verdicts] == ["overfitting"]
    assert notes.analyses[1].verdicts[0].onset_step == pytest.approx(1750, abs=300)


def test_an_overfitting_run_is_not_continued(read_run, nanogpt_log) -> None:
    short = nanogpt_log(last=3000, loss=lambda s: 4 * math.exp(-s / 900), val=lambda s: 1.5 + abs(s - 1000) / 4000)
    comparison = compare([read_run(short), read_run(nanogpt_log(last=5000))], ["a", "b"])

    assert comparison.continued[0].why_not == "overfitting"


def test_the_same_run_twice_differs_by_nothing(read_run, nanogpt_log) -> None:
    run = read_run(nanogpt_log())
    comparison = compare([run, run], ["a", "b"])

    assert row(comparison, "last_val_loss").reason == "same"
    assert comparison.config == ()
    assert {e.reason for e in comparison.explanations} == {"noise"}


def test_fewer_steps_explain_where_the_runs_agree_at_equal_steps(read_run, nanogpt_log) -> None:
    comparison = compare([read_run(nanogpt_log(last=500)), read_run(nanogpt_log(last=3000))], ["a", "b"])

    assert {e.reason: e.explains for e in comparison.explanations} == {"fewer_steps": True}


def test_logs_without_evaluations_are_compared_by_training_loss(read_run, nanogpt_log) -> None:
    runs = [read_run(nanogpt_log(last=n, eval_every=None)) for n in (800, 2000)]

    assert row(compare(runs, ["a", "b"]), "val_at_equal_steps").values[0] is not None


def test_a_rounded_number_of_parameters_is_not_another_model(read_run, nanogpt_log) -> None:
    runs = [read_run(nanogpt_log(header=[f"number of parameters: {size}"])) for size in ("10.65M", "10,646,784")]
    comparison = compare(runs, ["a", "b"])

    assert comparison.config == ()
    assert "other_model" not in {e.reason for e in comparison.explanations}
