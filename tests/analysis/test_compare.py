"""What comparisons of made-up runs say, and what they do not say."""

import math

import pytest

from compared_runs import complete, evaluated_by_window, falling, run, started
from nanoscope.analysis.compare import analyse_experiment, compare
from nanoscope.analysis.findings import (
    Confounded,
    Effect,
    Fault,
    FewerSteps,
    Identical,
    NotComparable,
    Repeats,
    ResumedWith,
    SameData,
    Speed,
    Unexplained,
    UnknownData,
    WithinNoise,
    Work,
)
from nanoscope.runs.events import Resume
from nanoscope.runs.own import RunDetails


def compared(*runs):
    return compare(runs, [chr(97 + number) for number in range(len(runs))])


def found(comparison, kind):
    """The findings of one kind."""
    experiment = comparison.experiment
    return [f for f in (*experiment.data, *experiment.learnt, *experiment.speed) if isinstance(f, kind)]


def the(comparison, kind):
    (one,) = found(comparison, kind)
    return one


def row(comparison, measure: str):
    (one,) = [r for r in comparison.rows if r.measure == measure]
    return one


# --- one setting ---


def sweep(**options):
    ends = {0.0003: 3.48, 0.001: 2.65, 0.01: 2.34, 0.03: 2.68, 0.1: 2.88}
    return compared(*(complete(end, learning_rate=rate, **options) for rate, end in ends.items()))


def test_the_one_setting_that_differs_is_named_with_its_losses_and_its_best_value():
    effect = the(sweep(), Effect)

    assert (effect.setting, effect.verdict, effect.confidence) == ("learning_rate", "differs", "sure")
    assert effect.values == ("0.0003", "0.001", "0.01", "0.03", "0.1")
    assert effect.losses == pytest.approx((3.48, 2.65, 2.34, 2.68, 2.88), abs=0.02)
    assert effect.values[effect.best] == "0.01"
    assert effect.step == 400


def test_a_best_inside_the_range_is_narrowed_down_and_one_at_the_end_widens_it():
    inside = the(sweep(), Effect)
    at_the_end = the(compared(*(complete(3 - width / 64, n_embd=width) for width in (16, 32, 64))), Effect)

    assert (inside.edge, inside.try_next) == ("inside", ("0.003", "0.02"))
    assert (at_the_end.edge, at_the_end.try_next) == ("high", ("128",))


def test_runs_of_a_sweep_are_equally_fast_within_their_spread():
    runs = [complete(2 + k / 10, learning_rate=10**-k, seconds=0.0031 + k / 20_000, spread=0.2) for k in range(5)]

    assert [f.reason for f in found(compared(*runs), Speed)] == ["equal"]


def test_a_setting_whose_effect_is_below_the_noise_is_not_called_a_cause():
    effect = the(compared(complete(2.0), complete(2.01, dropout=0.1)), Effect)

    assert effect.verdict == "within_noise"
    assert effect.noise == pytest.approx(0.01 * math.sqrt(2))


def test_runs_that_kept_their_losses_by_window_are_compared_window_by_window():
    runs = [
        complete(end, own=evaluated_by_window(end), dropout=share, stderr=0.09)
        for end, share in ((2.0, 0.1), (2.2, 0.3))
    ]
    effect = the(compared(*runs), Effect)

    assert (effect.verdict, effect.noise_from) == ("differs", "windows")
    assert effect.difference == pytest.approx(0.2, abs=0.01)
    assert 0 < effect.noise < 0.005


def test_losses_by_window_of_another_evaluation_are_not_used():
    runs = [complete(end, own=evaluated_by_window(end + 0.1), dropout=share) for end, share in ((2.0, 0.1), (2.2, 0.3))]

    assert the(compared(*runs), Effect).noise_from == "errors"


def test_a_small_difference_without_repeats_is_only_likely():
    small = the(compared(complete(2.0), complete(2.07, dropout=0.1)), Effect)
    large = the(compared(complete(2.0), complete(2.5, dropout=0.1)), Effect)

    assert (small.small, small.confidence) == (True, "likely")
    assert (large.small, large.confidence) == (False, "sure")


def test_repeats_with_other_seeds_are_the_noise_that_a_setting_is_judged_by():
    seeds = [complete(end, seed=seed) for seed, end in enumerate((2.0, 2.2, 1.8, 2.1))]
    comparison = compared(*seeds, complete(2.4, dropout=0.1))
    effect, repeats = the(comparison, Effect), the(comparison, Repeats)

    assert repeats.count == 4
    assert repeats.spread == pytest.approx(0.17, abs=0.01)
    assert (effect.verdict, effect.noise_from) == ("within_noise", "repeats")


def test_a_value_at_which_a_run_breaks_is_a_difference_and_has_no_loss():
    broken = complete(loss=lambda step: falling(step) if step < 200 else math.nan, learning_rate=1.0)
    effect = the(compared(complete(learning_rate=0.01), broken), Effect)

    assert effect.verdict == "differs"
    assert effect.losses[1] is None


def test_settings_that_only_follow_from_another_are_not_named():
    wide = complete(1.8, n_embd=64, n_head=4, parameters=100_000)
    slower = complete(2.4, learning_rate=0.001, min_lr=0.0001)

    assert the(compared(complete(parameters=26_000), wide), Effect).setting == "n_embd"
    assert the(compared(complete(), slower), Effect).setting == "learning_rate"


def test_what_cannot_change_what_is_learnt_is_no_cause_of_another_loss():
    other = {"log_interval": 1, "out_dir": "runs/b", "eval_interval": 7, "compile": "inductor", "device_name": "card"}
    comparison = compared(complete(2.0), complete(2.5, **other))

    assert not found(comparison, Effect)
    assert the(comparison, Unexplained).knows == "settings"


def test_the_same_tokens_a_step_in_other_batches_are_no_cause_of_another_loss():
    comparison = compared(complete(2.0), complete(2.005, batch_size=4, gradient_accumulation_steps=2, seconds=0.2))

    assert not found(comparison, Effect)
    assert set(the(comparison, Speed).settings) == {"batch_size", "gradient_accumulation_steps"}


def test_a_log_that_shows_few_settings_makes_the_cause_only_a_hint():
    few = [run(end, dataset="song", learning_rate=end) for end in (2.0, 2.5)]
    header = {"dataset": "song", **dict.fromkeys("abcdefghij", 1)}
    many = [run(end, learning_rate=end, **header) for end in (2.0, 2.5)]

    assert the(compared(*few), Effect).confidence == "hint"
    assert the(compared(*many), Effect).confidence == "likely"


def test_a_cause_is_only_a_hint_if_the_data_or_the_trainers_may_differ():
    unknown_data = [complete(end, learning_rate=end) for end in (2.0, 2.5)]
    other_trainer = [complete(end, learning_rate=end) for end in (2.0, 2.5)]
    for each in unknown_data:
        del each.config["dataset"], each.config["train_tokens"], each.config["vocab_size"]
    other_trainer[1].format = "litgpt"

    assert the(compared(*unknown_data), Effect).confidence == "hint"
    assert the(compared(*other_trainer), Effect).confidence == "hint"


def test_runs_of_other_lengths_are_judged_by_their_ends():
    effect = the(compared(complete(2.3), complete(2.0, max_iters=800, steps=800)), Effect)

    assert (effect.setting, effect.step) == ("max_iters", None)


@pytest.mark.parametrize("values", [(1e308, 1e307, 1e-308), (-1.0, 0.0, 1.0), (0, 0.1, 0.2), (1, 2, 3), ("a", 1, True)])
def test_any_values_of_a_setting_can_be_compared(values):
    effect = the(compared(*(complete(2 + place, dropout=value) for place, value in enumerate(values))), Effect)

    assert effect.setting == "dropout"
    assert not {"inf", "nan"} & set(effect.try_next)


def test_settings_are_safe_to_print():
    hostile = "\x1b[31mred\x07"
    effect = the(compared(complete(2.0, trick="plain"), complete(2.5, trick=hostile)), Effect)

    assert not any(character in "".join(effect.values) for character in "\x1b\x07")


# --- several settings ---


def test_several_settings_are_listed_with_the_run_that_would_tell_them_apart():
    comparison = compared(complete(2.0), complete(2.5, n_embd=64, learning_rate=0.003))
    confounded = the(comparison, Confounded)

    assert not found(comparison, Effect)
    assert confounded.settings == ("n_embd", "learning_rate")
    assert confounded.tell_apart == (("n_embd", "64"),)
    assert abs(confounded.difference) == pytest.approx(0.5, abs=0.01)


def test_a_third_run_tells_two_settings_apart():
    runs = complete(2.0), complete(2.5, n_embd=64), complete(3.5, n_embd=64, learning_rate=0.003)
    comparison = compared(*runs)

    assert {f.setting: f.difference for f in found(comparison, Effect)} == pytest.approx(
        {"n_embd": 0.5, "learning_rate": 1.0}, abs=0.01
    )
    assert not found(comparison, Confounded)


def test_in_a_grid_the_effect_of_a_setting_is_given_for_each_value_of_the_other():
    runs = [complete(2 + rate + width / 64, dropout=rate, n_embd=width) for rate in (0.1, 0.9) for width in (32, 64)]

    assert {f.fixed for f in found(compared(*runs), Effect) if f.setting == "dropout"} == {
        (("n_embd", "32"),),
        (("n_embd", "64"),),
    }


# --- no setting ---


def test_a_difference_that_no_setting_explains_is_unexplained_and_not_called_noise():
    comparison = compared(run(2.33), run(1.92))

    assert the(comparison, Unexplained).difference == pytest.approx(0.41, abs=0.01)
    assert not found(comparison, WithinNoise)


def test_a_difference_within_the_measured_noise_is_noise():
    assert the(compared(run(2.0), run(2.01)), WithinNoise).noise_from == "errors"
    assert the(compared(run(2.0, stderr=None), run(2.001, stderr=None)), WithinNoise).noise_from == "scatter"


def test_without_any_measure_of_the_noise_a_difference_is_not_called_noise():
    runs = [run(end, steps=50, eval_every=50, stderr=None) for end in (2.0, 2.01)]

    assert the(compared(*runs), Unexplained).noise is None


def test_runs_that_agree_to_the_digit_are_identical_whatever_was_changed():
    same = the(compared(run(), run(), run(), run(2.5)), Identical)
    changed = the(compared(complete(), complete(dropout=0.1)), Identical)

    assert same.runs == (0, 1, 2)
    assert changed.settings == ("dropout",)


def test_many_runs_that_nothing_tells_apart_and_that_hardly_differ_are_repeats():
    runs = [run(3.2785 + math.sin(k) / 1000) for k in range(20)]
    comparison = compared(*runs)

    assert the(comparison, Repeats).spread == pytest.approx(0.0007, abs=0.0002)
    assert found(compared(run(2), run(3), run(4)), Repeats) == []


# --- lengths ---


def test_fewer_steps_explain_where_the_runs_agree_at_equal_steps():
    fewer = the(compared(run(2.005, steps=150), run()), FewerSteps)

    assert (fewer.run, fewer.steps, fewer.equal_step, fewer.verdict) == (0, 150, 150, "explains")


def test_fewer_steps_are_not_all_where_the_runs_differ_at_equal_steps():
    assert the(compared(run(2.5, steps=200), run()), FewerSteps).verdict == "differs_too"


def test_a_shorter_run_that_ends_lower_has_not_been_trained_too_little():
    past_its_best = run(val=lambda step: 2 + abs(step - 100) / 400, loss=falling)
    until_its_best = run(val=lambda step: 2 + abs(step - 100) / 400, loss=lambda step: falling(step) + 0.01, steps=100)

    assert not [f for f in found(compared(past_its_best, until_its_best), FewerSteps) if f.verdict == "explains"]


def test_evaluations_far_apart_are_not_joined_by_a_line():
    sparse = run(2.5, steps=4000, eval_every=2000)
    dense = run(steps=250, eval_every=50)
    comparison = compared(sparse, dense)

    assert the(comparison, FewerSteps).measure == "train"
    assert row(comparison, "train_at_equal_steps").at == 250


def test_runs_without_a_step_in_common_are_not_compared_at_one():
    comparison = compared(run(steps=100), run(first=300))

    assert the(comparison, FewerSteps).verdict == "no_common_step"
    assert not [r for r in comparison.rows if "equal_steps" in r.measure]


def test_training_losses_are_called_training_losses():
    comparison = compared(run(2.0, eval_every=None), run(3.0, eval_every=None))

    assert row(comparison, "train_at_equal_steps").values == pytest.approx((2.02, 3.02), abs=0.03)
    assert the(comparison, Unexplained).measure == "train"


def test_an_overfitting_run_is_told_as_such():
    overfitting = run(val=lambda step: 2 + 2.2 * math.exp(-step / 40) + max(0, step - 150) / 500)

    assert [(f.run, f.kind) for f in found(compared(run(2.1), overfitting), Fault)] == [(1, "overfitting")]


@pytest.mark.parametrize(
    ("shorter", "why_not"),
    [
        (run(steps=600), None),
        (run(steps=200), "too_far"),
        (run(steps=600, eval_every=200), "too_short"),
        (run(steps=600, val=lambda step: 2 + max(0, step - 200) / 400 + 2.2 * math.exp(-step / 40)), "overfitting"),
    ],
)
def test_where_a_shorter_run_would_be_is_a_range_up_to_twice_its_steps(shorter, why_not):
    (continued,) = compared(shorter, run(2.5, steps=1000)).continued

    assert continued.why_not == why_not
    if why_not is None:
        assert 1.8 < continued.low < 2.0 < continued.high < 2.1


# --- the data ---


@pytest.mark.parametrize(
    ("one", "two", "reason"),
    [
        ({"metric": "bpb"}, {}, "unit"),
        ({"vocab_size": 65}, {"vocab_size": 50257}, "vocabulary"),
        ({"dataset": "fineweb", "vocab_size": 50304}, {"dataset": "openwebtext", "vocab_size": 50304}, "data"),
        ({"vocab_size": 256, "train_tokens": 1000}, {"vocab_size": 256, "train_tokens": 9000}, "size"),
        ({}, {"loss": lambda step: falling(step) + 6}, "start"),
    ],
)
def test_losses_of_other_data_tokens_or_units_are_not_ranked(one, two, reason):
    comparison = compared(run(2.0, **one), run(2.5, **two))

    assert the(comparison, NotComparable).reason == reason
    assert not [r for r in comparison.rows if "val" in r.measure and r.best is not None]
    assert not [r for r in comparison.rows if "equal" in r.measure]
    assert not comparison.experiment.learnt


def test_the_same_data_under_another_name_are_recognised():
    logged = run(2.0, dataset="shakespeare_char", vocab_size=65)
    ours = run(2.5, dataset="data/shakespeare", vocab_size=65, train_tokens=1_003_854)
    prepared = [run(2.0, dataset=name, own=started(dataset_fingerprint="same")) for name in ("one", "another")]

    assert the(compared(logged, ours), SameData).evidence == "vocabulary"
    assert the(compared(*prepared), SameData).evidence == "fingerprint"


def test_a_vocabulary_that_was_padded_is_the_same():
    assert not found(compared(run(2.0, vocab_size=50257), run(2.5, vocab_size=50304)), NotComparable)


def test_logs_that_do_not_name_their_data_are_compared_with_a_warning():
    assert found(compared(run(), run(2.5)), UnknownData)
    assert not found(compared(complete(), complete(2.5)), UnknownData)


# --- the time ---


def test_more_arithmetic_in_a_step_is_seen_by_mfu_and_time():
    small = run(mfu_pct=9.7, assumes="A100", seconds=0.169)
    large = run(2.5, mfu_pct=11.3, assumes="A100", seconds=3.84)
    comparison = compared(small, large)

    assert the(comparison, Work).ratio == pytest.approx(26, abs=1)
    assert the(comparison, Speed).reason == "work"


def test_an_mfu_that_the_tokens_contradict_is_not_believed():
    eight = run(mfu_pct=48.0, assumes="H100", seconds=0.48, tokens_per_step=524_288)
    one = run(2.5, mfu_pct=12.0, assumes="H100", seconds=13.8, tokens_per_step=524_288)

    assert not found(compared(eight, one), Work)


@pytest.mark.parametrize(
    ("one", "two", "reason"),
    [
        ({"device_name": "card"}, {"device_name": "cpu"}, "device"),
        ({"compile": "inductor"}, {}, "setting"),
        ({"device_name": "cpu", "parameters": 9}, {"device_name": "cpu", "parameters": 9}, "same_machine"),
        ({"parameters": 9}, {"parameters": 9}, "machine"),
    ],
)
def test_a_machine_is_called_faster_only_with_evidence(one, two, reason):
    comparison = compared(complete(seconds=0.1, **one), complete(2.01, seconds=0.2, **two))

    assert [f.reason for f in found(comparison, Speed)] == [reason]


def test_a_smaller_model_is_not_called_the_reason_of_a_slower_step():
    small, large = run(parameters=1000, seconds=0.3), run(2.5, parameters=9000)

    assert the(compared(small, large), Speed).reason == "unexplained"


def test_another_device_is_not_called_the_reason_where_the_work_is_unknown():
    one, two = run(device_name="A100", seconds=0.3), run(2.5, device_name="H100")

    assert the(compared(one, two), Speed).reason == "unexplained"


def test_without_evidence_another_speed_is_unexplained():
    assert the(compared(run(), run(2.5, seconds=0.3)), Speed).reason == "unexplained"


def test_what_cannot_change_the_speed_is_no_cause_of_it():
    comparison = compared(complete(device_name="cpu"), complete(2.5, seed=5, device_name="cpu", seconds=0.3))

    assert the(comparison, Speed).settings == ()


def test_the_time_of_a_run_is_its_own_whatever_it_is_compared_with():
    timed = run(wall_seconds=98.4)
    times = {
        row(compared(timed, other), "total_time").values[0]
        for other in (run(2.5), run(2.5, eval_every=None), run(2.5, steps=4000))
    }

    assert times == {98.4}


# --- the table, and one log ---


def test_differing_settings_are_listed_and_equal_ones_are_not():
    differences = {d.key: d.values for d in compared(complete(), complete(2.5, n_embd=64, out_dir="b")).config}

    assert differences == {"n_embd": (32, 64)}


def test_a_rounded_number_of_parameters_is_not_another_model():
    comparison = compared(complete(parameters=10_650_000), complete(2.5, parameters=10_646_784))

    assert comparison.config == ()


def test_runs_of_one_log_that_went_equally_far_are_one_experiment():
    runs = [run(3.28 + math.sin(k) / 1000) for k in range(6)] + [run(steps=50)]
    analyses = compared(*runs).analyses
    experiment = analyse_experiment(runs, analyses)

    assert experiment is not None
    assert [(f.code, f.count) for f in experiment.learnt] == [("repeats", 6)]
    assert analyse_experiment(runs[-2:], analyses[-2:]) is None


def test_what_a_longer_run_of_the_same_settings_has_measured_is_not_predicted():
    longer, shorter = complete(2.0, max_iters=1000, steps=1000), complete(2.1, max_iters=600, steps=600)
    assert compared(longer, shorter).continued == ()
    (continued,) = compared(longer, complete(2.1, max_iters=600, steps=600, learning_rate=0.1)).continued
    assert continued.low is not None


def test_a_run_that_was_resumed_with_other_settings_is_said_to_have_been():
    changed = {"max_iters": (400, 800), "log_interval": (1, 10)}
    resumed = complete(2.0, steps=800, own=RunDetails(started(), resumes=[Resume(step=400, changed=changed)]))
    finding = the(compared(resumed, complete(2.0, seed=2)), ResumedWith)
    assert (finding.run, finding.step, finding.settings) == (0, 400, (("max_iters", "800"),))
