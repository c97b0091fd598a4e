import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import any_finding
from nanoscope.analysis import findings
from nanoscope.words.advice import advice
from nanoscope.words.comparing import explanation
from nanoscope.words.language import LANGUAGES, NO_BREAK_SPACE, Language
from nanoscope.words.lines import LineKind, explain_line
from nanoscope.words.sentences import sentence
from nanoscope.words.timing import direction, naive_eta, why
from nanoscope.words.verdicts import verdict_title

SPEAKERS = {code: Language(code) for code in LANGUAGES}
# What a value that was not looked at would leave behind.
RAW = re.compile(r"\bNone\b|\bnan\b|\binf\b|(?<!=)\b(?:True|False)\b|[{}]")
ENGLISH = SPEAKERS["en"]

any_language = st.sampled_from(list(SPEAKERS.values()))
quick = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def said(finding: findings.Finding) -> str:
    return sentence(finding, ENGLISH).replace(NO_BREAK_SPACE, " ")


def reads_well(text: str) -> bool:
    return not RAW.search(text) and "  " not in text


@pytest.mark.parametrize("kind", any_finding.ABOUT_A_RUN, ids=lambda kind: kind.code)
@given(data=st.data(), language=any_language)
@quick
def test_every_finding_about_a_run_can_be_said_whatever_is_missing(kind, data, language):
    finding = data.draw(any_finding.anything(kind))
    assert reads_well(sentence(finding, language))
    if isinstance(finding, findings.Eta):
        assert reads_well(naive_eta(finding, language) + direction(finding, language))
    if kind.code.startswith("verdict."):
        assert reads_well(verdict_title(finding, language))
        assert sentence(finding, language)


@pytest.mark.parametrize("kind", any_finding.ABOUT_COMPARISONS, ids=lambda kind: kind.code)
@given(data=st.data(), language=any_language)
@quick
def test_every_finding_about_several_runs_can_be_said_whatever_is_missing(kind, data, language):
    finding = data.draw(any_finding.of_comparison(kind))
    text = sentence(finding, language, any_finding.RUNS)
    assert text
    if kind is not findings.ConfigDifference:  # settings are quoted as they are: True, None
        assert reads_well(text)


@pytest.mark.parametrize("code", LANGUAGES)
@pytest.mark.parametrize("kind", LineKind.__args__)
def test_every_kind_of_line_is_explained(kind, code):
    line = "iter 10: loss 4.1, time 12.00ms, mfu 3.00%, lr 1e-3, norm 1.0, tok/s 3k, eta 4s"
    assert reads_well(explain_line(kind, line, SPEAKERS[code]))


@pytest.mark.parametrize("code", LANGUAGES)
@pytest.mark.parametrize("action", findings.AdviceAction.__args__)
def test_every_advice_says_what_to_do_and_what_it_brings(action, code):
    bare = advice(findings.Advice(action), SPEAKERS[code])
    gain = advice(findings.Advice(action, saves_s=840.0, of_s=3600.0, loss_gain=0.2), SPEAKERS[code])
    assert bare
    assert gain.startswith(bare)
    assert "14" in gain
    assert "0.20" in gain


def test_fewer_slow_steps_are_had_by_raising_eval_interval():
    text = said(findings.Advice("raise_eval_interval", "eval_interval", 500, 2000, 840.0, 3600.0))
    assert text == "Raise eval_interval from 500 to 2000. Saves about 14 min of 1 h."
    assert advice(findings.Advice("raise_eval_interval"), ENGLISH).startswith("Raise eval_interval")
    assert "ارفع" in advice(findings.Advice("raise_eval_interval"), SPEAKERS["ar"])
    assert "बढ़ाएँ" in advice(findings.Advice("raise_eval_interval"), SPEAKERS["hi"])


def test_a_lower_value_is_called_lower():
    text = advice(findings.Advice("align_log_interval", "log_interval", 200, 100), ENGLISH)
    assert text.startswith("Lower log_interval from 200 to 100.")


def test_overfitting_seen_in_one_evaluation_only_is_not_called_mild():
    finding = findings.Overfitting(None, None, 1.7044, 0.6224, None, None, None, "severe")
    assert verdict_title(finding, ENGLISH) == "Severe overfitting"
    text = sentence(finding, ENGLISH)
    assert "1.7044" in text
    assert "0.6224" in text
    assert "came earlier" in text


def test_the_device_is_said_not_to_explain_a_higher_loss():
    text = explanation(findings.Explanation("device", False, 0, 1, 0.2), ENGLISH, ("laptop", "gpu"))
    assert text.startswith("It is not the device")


def test_mfu_on_a_4070_ti_is_told_from_the_printed_one():
    finding = findings.Mfu(
        0.1107, 0.0999, "wrong_peak", "assumes_other_device", "A100", "RTX 4070 Ti", 80.2, "vendor", 0.43, 0.01
    )
    assert sentence(finding, ENGLISH) == (
        "The printed MFU of 11.1% is measured against the peak of A100, which this is not. "
        "On RTX 4070 Ti (peak 80.2 TFLOPS; vendor) it is 43%."
    )


def test_the_naive_figure_is_given_to_the_second_and_called_what_it_is():
    eta = findings.Eta(1000.0, 900.0, 1100.0, 23571.149, 5900, 0.17, 0, None, 0, None, 0.17, 1, "steady", ())
    assert "6 h 32 min 51 s: too much" in naive_eta(eta, ENGLISH).replace(NO_BREAK_SPACE, " ")
    too_little = findings.Eta(1000.0, 900.0, 1100.0, 500.0, 10, 1.0, 1, 900.0, 0, None, 1.0, 1, "steady", ())
    assert "too little" in naive_eta(too_little, ENGLISH)


def test_a_scenario_is_rounded_to_what_a_supposition_can_say():
    assert said(findings.Scenario(0.2, 1180.0)) == "If a step took 200 ms: 20 min."
    assert said(findings.Scenario(0.15, 885.0)) == "If a step took 150 ms: 15 min."


@pytest.mark.parametrize("cause", findings.Cause.__args__)
def test_every_cause_of_a_slow_step_has_a_reason_of_its_own(cause):
    others = {why((other,), ENGLISH) for other in findings.Cause.__args__ if other != cause}
    assert why((cause,), ENGLISH) not in others
