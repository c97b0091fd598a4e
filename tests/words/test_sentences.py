import pytest

from nanoscope.findings import compare as compared
from nanoscope.findings import declared, eta, mfu, slow, timing
from nanoscope.findings.compare.effects import Effect, Measured
from nanoscope.findings.compare.runs import Compared
from nanoscope.messages import LANGUAGES, NO_BREAK_SPACE
from nanoscope.words.language import Language
from nanoscope.words.sentences import sentence, verdict_title

ENGLISH = Language("en")
FOR_COMPARISONS = (
    compared.ComparisonRow,
    compared.ConfigDifference,
    Compared,
)


def english(finding: declared.Finding) -> str:
    return sentence(finding, ENGLISH).replace(NO_BREAK_SPACE, " ")


def test_every_finding_about_a_run_has_a_text():
    others = {*declared.Finding.__subclasses__(), mfu.Mfu} - {declared.Verdict, mfu.OnDevice, *FOR_COMPARISONS}
    for kind in {*declared.Verdict.__subclasses__(), *others}:
        assert kind.TEXT is not None or "text" in vars(kind), kind
    for kind in declared.Verdict.__subclasses__():
        assert "TITLE" in vars(kind) or "title" in vars(kind), kind


def test_every_finding_about_several_runs_has_its_messages():
    for kind in {*Compared.__subclasses__(), *Measured.__subclasses__()} - {Measured}:
        assert kind.TEXT is not None or {"text", "said"} & {*vars(kind)}, kind


def test_every_cause_has_a_name():
    assert set(slow.CAUSES) == set(slow.Cause.__args__)


def test_fewer_slow_steps_are_had_by_raising_eval_interval():
    advice = declared.Advice("raise_eval_interval", "eval_interval", 500, 2000, 840.0, 3600.0)
    assert english(advice) == "Raise eval_interval from 500 to 2000. Saves about 14 min of 1 h."
    assert "ارفع" in sentence(advice, Language("ar"))
    assert "बढ़ा" in sentence(advice, Language("hi"))


def test_a_lower_value_is_called_lower():
    text = english(declared.Advice("align_log_interval", "log_interval", 200, 100))
    assert text.startswith("Lower log_interval from 200 to 100: ")


def test_overfitting_seen_in_one_evaluation_only_is_not_called_mild():
    finding = declared.Overfitting(None, None, 1.7044, 0.6224, None, None, None, "severe")
    assert verdict_title(finding, ENGLISH) == "Severe overfitting (likely)"
    text = english(finding)
    assert "1.7044" in text
    assert "0.6224" in text
    assert "doesn't show when it was best" in text


def effect(verdict: str, confidence: str, noise_from: str | None = None) -> Effect:
    return Effect(
        setting="dropout", values=("0", "0.1"), losses=(2.0, 2.0123), runs=((0,), (1,)), measure="val", step=100,
        verdict=verdict, best=0, difference=0.01234, noise=0.0031, noise_from=noise_from, ties=(), edge=None, fixed=(),
        among=(), seed_differs=False, confidence=confidence,
    )  # type: ignore[arg-type]  # fmt: skip


def said(finding: Compared) -> str:
    return ENGLISH.render(finding.said(("a", "b")), finding)


def test_a_difference_is_written_with_as_many_decimals_as_its_error():
    assert said(effect("differs", "sure", "windows")) == (
        "dropout makes the difference (validation loss at step 100): 2.0000 with 0, 2.0123 with 0.1. Best: 0. "
        "From best to worst: 0.012 ± 0.003, compared window by window."
    )


def test_the_wording_follows_the_confidence():
    def begins(verdict, confidence):
        return said(effect(verdict, confidence)).split(" (")[0]

    assert begins("differs", "sure") == "dropout makes the difference"
    assert begins("differs", "likely") == "dropout most likely makes the difference"
    assert begins("models", "likely") == "The models differ"
    assert begins("models", "hint") == "dropout is the only difference that the logs show"
    assert begins("unclear", "hint") == "dropout may make a difference"


def test_the_mfu_on_a_4070_ti_is_given_beside_the_printed_one():
    finding = mfu.Mfu(
        logged=0.0999,
        settled=0.1107,
        last=0.0999,
        outcome="other_device",
        assumed_device="A100",
        assumed_tflops=312.0,
        achieved_tflops=34.54,
        device="RTX 4070 Ti",
        peak_tflops=80.2,
        peak_dtype="bfloat16",
        peak_source="vendor",
        recomputed=0.4307,
        lags=False,
    )
    assert english(finding) == (
        "Achieved 34.5 TFLOP/s = MFU 11.1% × 312 TFLOP/s, the peak of A100, which the trainer assumes. "
        "On RTX 4070 Ti (peak 80.2 TFLOPS, bfloat16; vendor) that is 43%."
    )


def test_the_naive_figure_is_given_to_the_second_and_called_what_it_is():
    left = eta.Eta(1000.0, 900.0, 1100.0, 23571.149, 5900, 0.17, 0, None, 0, None, ())
    assert "6 h 32 min 51 s: too much" in ENGLISH.render(left.naive(), left).replace(NO_BREAK_SPACE, " ")
    too_little = eta.Eta(1000.0, 900.0, 1100.0, 500.0, 10, 1.0, 1, 900.0, 0, None, ())
    assert "too little" in ENGLISH.render(too_little.naive(), too_little)


def test_other_step_times_are_one_sentence_with_rounded_times():
    times = eta.Scenario(0.2, 1180.0), eta.Scenario(0.15, 885.0)
    left = eta.Eta(1000.0, 900.0, 1100.0, 500.0, 5900, 0.3, 0, None, 0, None, times)
    said = ENGLISH.render(left.other_step_times()).replace(NO_BREAK_SPACE, " ")
    assert said == "At other step times: 20 min at 200 ms a step · 15 min at 150 ms a step."


@pytest.mark.parametrize("cause", slow.Cause.__args__)
def test_every_cause_of_a_slow_step_has_a_reason_of_its_own(cause):
    group = slow.SlowGroup((cause,), 1, 0, None, 2.0, 1.0, 2.0)
    others = {group.reason((other,)).template for other in slow.Cause.__args__ if other != cause}
    assert group.reason((cause,)).template not in others


def test_a_message_names_the_fields_that_fill_it_and_how_they_are_written():
    group = slow.SlowGroup(("evaluation", "checkpoint"), 1, 5000, None, 4.44683, 4.4, 133.9)
    assert english(group) == "evaluation + checkpoint: step 5000 took 4.45 s (134× a normal step)."


def test_slow_steps_that_follow_each_other_come_at_no_period():
    def group(period):
        return english(slow.SlowGroup(("startup",), 2, 0, period, 12.1, 23.7, 47.0))

    assert group(10).startswith("start-up: 2 slow steps, every 10 steps, 12.1 s each ")
    assert group(1) == group(None)
    assert group(1).startswith("start-up: 2 slow steps, 12.1 s each ")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("phase", ["evaluation", "checkpoint", "sample"])
def test_the_time_of_a_single_one_is_not_given_again_as_the_total(phase, language):
    text = sentence(timing.PhaseCost(phase, 1, 17.2, 17.2, 0.085), Language(language))
    assert text.count("17.2") == 1
    assert "8.5%" in text


@pytest.mark.parametrize(
    ("steps", "low_s", "unit", "said"), [(3, 8.0, "step", False), (20, 9.0, "step", False), (20, 8.0, "step", True),
                                         (3, 8.0, "epoch", True)],
)  # fmt: skip
def test_the_spread_is_put_down_to_the_clock_only_where_it_is_shown(steps, low_s, unit, said):
    step = timing.NormalStep(8.5, low_s, 9.0, 8.5, steps, None, False, 1.0, None, "printed", None, unit=unit)
    assert ("8 s to 9 s" in english(step)) == said
    assert ("The spread is only that of its clock" in english(step)) == said


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("from_start", "recovered"), [(False, False), (True, False), (False, True)])
def test_a_loss_that_is_not_a_number_is_not_said_twice(from_start, recovered, language):
    verdict = declared.NonFinite(425, from_start, recovered, None, 2.5, confidence="sure")
    title, said = verdict_title(verdict, Language(language)), sentence(verdict, Language(language))
    assert title.lower() not in said.lower()
