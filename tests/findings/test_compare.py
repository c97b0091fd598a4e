"""What comparisons of made-up runs say, and what they do not say."""

import math
import random

import pytest

from compared_runs import complete, evaluated_by_window, falling, run, started
from nanoscope.findings.compare import compare, compare_equally_long, comparison_json
from nanoscope.findings.compare.effects import Confounded, Effect, Identical, Repeats
from nanoscope.findings.compare.runs import NotComparable, UnknownData
from nanoscope.runs.details import RunDetails
from nanoscope.runs.events import Resume
from nanoscope.words.language import Language

ENGLISH = Language("en")


def compared(*runs):
    return compare(runs, [chr(97 + number) for number in range(len(runs))])


def found(comparison, kind):
    """The findings of one kind."""
    return [finding for finding in comparison.findings if isinstance(finding, kind)]


def the(comparison, kind):
    (one,) = found(comparison, kind)
    return one


def repeated(values, seeds: int, off: float = 0.02, **setting):
    """A run for each value and seed; `off` is how far apart seeds end."""
    chance = random.Random(1)
    (name,) = setting
    return compared(
        *(
            complete(end + chance.gauss(0, off), seed=seed, **{name: value})
            for value, end in zip(setting[name], values, strict=True)
            for seed in range(seeds)
        )
    )


# --- one setting ---


def sweep(**options):
    ends = {0.0003: 3.48, 0.001: 2.65, 0.01: 2.34, 0.03: 2.68, 0.1: 2.88}
    return compared(*(complete(end, learning_rate=rate, **options) for rate, end in ends.items()))


def test_the_one_setting_that_differs_is_named_with_its_losses_and_its_best_value():
    effect = the(sweep(), Effect)

    assert (effect.setting, effect.verdict, effect.confidence) == ("learning_rate", "differs", "sure")
    assert effect.values == ("0.0003", "0.001", "0.01", "0.03", "0.1")
    assert effect.losses == pytest.approx((3.48, 2.65, 2.34, 2.68, 2.88), abs=0.02)
    assert (effect.values[effect.best], effect.edge, effect.step) == ("0.01", "inside", 400)
    assert the(compared(*(complete(3 - w / 64, n_embd=w) for w in (16, 32, 64))), Effect).edge == "high"


def test_without_repeats_a_difference_that_seeds_could_make_is_one_between_models():
    for end, verdict in ((2.01, "within_noise"), (2.07, "models"), (2.13, "differs"), (2.5, "differs")):
        effect = the(compared(complete(2.0), complete(end, dropout=0.1)), Effect)
        assert (effect.verdict, effect.seed_differs) == (verdict, False)
    other_seed = the(compared(complete(2.0), complete(2.07, dropout=0.1, seed=2)), Effect)
    assert (other_seed.verdict, other_seed.seed_differs) == ("models", True)


def test_the_printed_error_is_the_one_that_the_verdict_rests_on():
    by_errors = the(compared(complete(2.0), complete(2.01, dropout=0.1)), Effect)
    by_window = [complete(end, own=evaluated_by_window(end), dropout=end) for end in (2.0, 2.05)]
    model = the(compared(*by_window), Effect)
    repeats = the(repeated((2.0, 2.5), 3, dropout=(0.1, 0.3)), Effect)

    assert (by_errors.noise_from, by_errors.noise) == ("errors", pytest.approx(0.01 * math.sqrt(2)))
    assert (model.verdict, model.noise_from) == ("models", "windows")
    assert (model.difference, 0 < model.noise < 0.005) == (pytest.approx(0.05, abs=0.01), True)
    assert (repeats.verdict, repeats.noise_from, repeats.confidence) == ("differs", "repeats", "sure")


def test_losses_by_window_of_another_evaluation_are_not_used():
    runs = [complete(end, own=evaluated_by_window(end + 0.1), dropout=end) for end in (2.0, 2.05)]

    assert the(compared(*runs), Effect).noise_from == "errors"


def test_repeats_with_other_seeds_are_the_noise_that_a_setting_is_judged_by():
    seeds = [complete(end, seed=seed) for seed, end in enumerate((2.0, 2.2, 1.8, 2.1))]
    comparison = compared(*seeds, complete(2.25, dropout=0.1))
    effect, repeats = the(comparison, Effect), the(comparison, Repeats)

    assert (len(repeats.runs), repeats.differ) == (4, "seed")
    assert repeats.spread == pytest.approx(0.17, abs=0.01)
    assert (effect.verdict, effect.noise_from) == ("within_noise", "repeats")


def test_runs_with_the_same_values_that_disagree_keep_a_setting_from_being_named():
    one_is_off = [complete(end, out_dir=str(end)) for end in (2.0, 2.01, 1.99, 2.8)]

    assert the(compared(*one_is_off, complete(2.5, dropout=0.1)), Effect).verdict != "differs"


def test_a_value_at_which_a_run_breaks_is_a_difference_and_has_no_loss():
    broken = complete(loss=lambda step: falling(step) if step < 200 else math.nan, learning_rate=1.0)
    effect = the(compared(complete(learning_rate=0.01), broken), Effect)

    assert (effect.verdict, effect.losses[1]) == ("differs", None)


def test_settings_that_only_follow_from_another_are_not_named():
    wide = complete(1.8, n_embd=64, n_head=4, parameters=100_000)
    slower = complete(2.4, learning_rate=0.001, min_lr=0.0001)

    assert the(compared(complete(parameters=26_000), wide), Effect).setting == "n_embd"
    assert the(compared(complete(), slower), Effect).setting == "learning_rate"


def test_what_cannot_change_what_is_learnt_is_no_cause_of_another_loss():
    other = {"log_interval": 1, "out_dir": "runs/b", "eval_interval": 7, "compile": "inductor", "device_name": "card"}
    split = {"batch_size": 4, "gradient_accumulation_steps": 2}
    for changes in (other, split):
        comparison = compared(complete(2.0), complete(2.5, **changes))
        assert not found(comparison, Effect) + found(comparison, Confounded)
        assert the(comparison, Repeats).unexplained == "settings"


def test_a_cause_is_only_a_hint_if_settings_data_or_trainers_are_unknown():
    few = [run(end, dataset="song", learning_rate=end) for end in (2.0, 2.5)]
    many = [run(end, learning_rate=end, dataset="song", **dict.fromkeys("abcdefghij", 1)) for end in (2.0, 2.5)]
    unknown_data = [complete(end, learning_rate=end) for end in (2.0, 2.5)]
    for each in unknown_data:
        del each.config["dataset"], each.config["train_tokens"], each.config["vocab_size"]
    other_trainer = [complete(end, learning_rate=end) for end in (2.0, 2.5)]
    other_trainer[1].format = "litgpt"

    assert the(compared(*few), Effect).confidence == "hint"
    assert the(compared(*many), Effect).confidence == "sure"
    assert the(compared(*unknown_data), Effect).confidence == "hint"
    assert set(the(compared(*other_trainer), Confounded).settings) == {"learning_rate", "trainer"}
    # What a number follows from may be hidden.
    assert not found(compared(run(2.0, parameters=1000), run(2.5, parameters=9000)), Effect)


def test_runs_of_other_lengths_are_judged_by_their_ends():
    effect = the(compared(complete(2.3), complete(2.0, max_iters=800, steps=800)), Effect)

    assert (effect.setting, effect.step) == ("max_iters", None)


@pytest.mark.parametrize("values", [(1e308, 1e307, 1e-308), (-1.0, 0.0, 1.0), (0, 0.1, 0.2), (1, 2, 3), ("a", 1, True)])
def test_any_values_of_a_setting_can_be_compared(values):
    effect = the(compared(*(complete(2 + place, dropout=value) for place, value in enumerate(values))), Effect)

    assert effect.setting == "dropout"


def test_settings_are_safe_to_print():
    hostile = "\x1b[31mred\x07"
    effect = the(compared(complete(2.0, trick="plain"), complete(2.5, trick=hostile)), Effect)

    assert not any(character in "".join(effect.values) for character in "\x1b\x07")


def test_an_effect_that_some_runs_show_names_these_runs():
    runs = [complete(2.0, learning_rate=0.1), complete(2.9, dropout=0.1), complete(2.2, dropout=0.5, n_embd=64)]
    effects = found(compared(*runs, complete(3.9, dropout=0.5)), Effect)

    assert ("dropout", (1, 3)) in [(effect.setting, effect.among) for effect in effects]


def test_a_setting_is_no_reason_why_steps_are_slower():
    alone, others = complete(seconds=0.052, dropout=0.0), [complete(seconds=0.02, dropout=d) for d in (0.0, 0.2)]
    comparison = compared(alone, *others)

    assert sorted(row.step_seconds for row in comparison.rows) == pytest.approx([0.02, 0.02, 0.052], rel=0.05)
    assert {finding.measure for finding in comparison.findings} == {"val"}


def test_a_reason_that_leaves_the_best_run_out_names_the_runs_it_is_about():
    best = complete(1.0, n_embd=64, learning_rate=0.1, batch_size=16)
    (effect,) = found(compared(best, complete(2.0), complete(2.9, dropout=0.1)), Effect)

    assert (effect.setting, effect.among) == ("dropout", (1, 2))


def test_logs_of_other_trainers_or_without_settings_give_no_reason():
    fairseq, ours = run(3.0, tokens_per_step=2981), run(2.0, tokens_per_step=2048)
    fairseq.format = "fairseq"
    for runs in ((fairseq, ours), (run(3.0, tokens_per_step=2981), ours), (run(3.0), run(2.0))):
        assert not found(compared(*runs), Effect)


# --- several settings ---


def test_several_settings_are_listed_with_the_run_that_would_tell_them_apart():
    comparison = compared(complete(2.0), complete(2.5, n_embd=64, learning_rate=0.003, device_name="card"))
    confounded = the(comparison, Confounded)

    assert not found(comparison, Effect)
    assert confounded.settings == ("n_embd", "learning_rate")
    assert confounded.tell_apart == (("n_embd", "64"),)
    assert abs(confounded.difference) == pytest.approx(0.5, abs=0.01)
    assert not confounded.device_differs  # one log does not say on which it ran
    assert "device" not in ENGLISH.render(confounded.said("ab"), confounded)


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


def test_a_setting_that_a_resume_changed_is_another_one():
    resumed = RunDetails(started(), resumes=[Resume(step=200, changed={"min_lr": (0.1, 0.01), "log_interval": (1, 2)})])
    effect = the(compared(complete(2.5, own=resumed), complete(2.0)), Effect)

    assert (effect.setting, effect.values[0]) == ("min_lr", "0.1 → 0.01")


# --- no setting ---


@pytest.mark.parametrize(
    ("runs", "unexplained"),
    [
        ([run(2.33), run(1.92)], "no_settings"),
        ([run(2.33, dropout=0.1), run(1.92, dropout=0.1)], "some_settings"),
        ([complete(2.33), complete(1.92)], "settings"),
        ([run(end, steps=50, eval_every=50, stderr=None) for end in (2.0, 2.01)], "no_settings"),  # noise unknown
        ([run(2.0), run(2.01)], None),
        ([run(2.0, stderr=None), run(2.001, stderr=None)], None),
        ([run(3.2785 + math.sin(k) / 1000) for k in range(20)], None),
        ([complete(2.0), complete(2.3, seed=2)], None),
    ],
)
def test_what_no_setting_explains_is_noise_only_within_the_measured_noise(runs, unexplained):
    assert the(compared(*runs), Repeats).unexplained == unexplained


def test_runs_that_agree_to_the_digit_are_identical_whatever_was_changed():
    same = the(compared(run(), run(), run(), run(2.5)), Identical)
    changed = the(compared(complete(), complete(dropout=0.1)), Identical)

    assert same.runs == (0, 1, 2)
    assert changed.settings == ("dropout",)


# --- the table ---


def test_the_table_has_the_best_run_at_equal_steps_first_and_says_why_others_are_higher():
    comparison = compared(complete(2.5, n_embd=64, seed=2), complete(2.0, steps=800), complete(2.3, dropout=0.1))
    first, second, third = comparison.rows

    assert (comparison.measure, comparison.step) == ("val", 400)
    assert [row.runs for row in comparison.rows] == [(1,), (2,), (0,)]
    assert (first.difference, second.difference) == (None, pytest.approx(0.3, abs=0.02))
    assert second.difference_error == pytest.approx(0.01 * math.sqrt(2))
    assert (second.settings, third.settings) == ((("dropout", "0.1"),), (("n_embd", "64"), ("seed", "2")))


def test_repeats_share_a_row_with_their_mean_and_spread():
    comparison = repeated((2.5, 2.0), 3, dropout=(0.1, 0.3))

    assert [len(row.runs) for row in comparison.rows] == [3, 3]
    assert [row.settings for row in comparison.rows] == [(("dropout", "0.3"),), (("dropout", "0.1"),)]
    assert comparison.rows[0].loss == pytest.approx(2.0, abs=0.05)
    assert 0 < comparison.rows[0].spread < 0.05


def test_evaluations_far_apart_are_not_joined_by_a_line():
    comparison = compared(run(2.5, steps=4000, eval_every=2000), run(steps=250, eval_every=50))

    assert (comparison.measure, comparison.step) == ("train", 250)


def test_runs_without_a_step_in_common_are_not_compared_at_one():
    comparison = compared(run(steps=100), run(first=300))

    assert (comparison.measure, comparison.step) == (None, None)


# --- the data ---


@pytest.mark.parametrize(
    ("one", "two", "reason"),
    [
        ({"metric": "bpb"}, {}, "unit"),
        ({"in_bits": True}, {}, "bits"),
        ({"vocab_size": 65}, {"vocab_size": 50257}, "vocabulary"),
        ({"dataset": "fineweb", "vocab_size": 50304}, {"dataset": "openwebtext", "vocab_size": 50304}, "data"),
        ({"vocab_size": 256, "train_tokens": 1000}, {"vocab_size": 256, "train_tokens": 9000}, "data"),
        ({"own": started(dataset_fingerprint="a")}, {"own": started(dataset_fingerprint="b")}, "data"),
        ({}, {"loss": lambda step: falling(step) + 6}, "start"),
    ],
)
def test_losses_of_other_data_tokens_or_units_are_not_ranked(one, two, reason):
    comparison = compared(run(2.0, **one), run(2.5, **two))

    assert [(type(finding), finding.reason) for finding in comparison.findings] == [(NotComparable, reason)]
    assert not comparison.ranked
    assert all(row.loss is None and row.difference is None for row in comparison.rows)


def test_the_same_data_under_another_name_are_recognised():
    logged = run(2.0, dataset="shakespeare_char", vocab_size=65)
    ours = run(2.5, dataset="data/shakespeare", vocab_size=65, train_tokens=1_003_854)
    prepared = [run(2.0, dataset=name, own=started(dataset_fingerprint="same")) for name in ("one", "another")]
    padded = run(2.0, vocab_size=50257), run(2.5, vocab_size=50304)
    for runs in ((logged, ours), prepared, padded):
        assert not found(compared(*runs), NotComparable)


def test_logs_that_do_not_name_their_data_are_compared_with_a_warning():
    assert found(compared(run(), run(2.5)), UnknownData)
    assert not found(compared(complete(), complete(2.5)), UnknownData)


# --- all of it ---


def test_runs_of_one_log_that_broke_off_are_left_out():
    runs = [complete(2.0), complete(2.5, dropout=0.1), complete(2.0, n_embd=64, steps=100)]
    analyses = compared(*runs).analyses

    assert compare_equally_long(runs, analyses, "abc").names == ("a", "b")
    assert compare_equally_long(runs[:1], analyses[:1], "a") is None


def test_the_document_names_each_finding():
    document = comparison_json(sweep(), ["runs"])

    assert document["schema"] == "nanoscope.compare/3"
    assert [finding["code"] for finding in document["findings"]] == ["effect"]
    assert document["config"][0]["key"] == "learning_rate"
    assert len(document["rows"]) == 5
