"""Whose peak an MFU was measured against."""

import pytest

import example_logs

ITER = "iter {0}: loss 0.8010, time 33.22ms, mfu {1}%\n"


def test_the_notes_case_of_a_4070_ti_is_measured_against_its_own_peak(explain) -> None:
    mfu = explain("".join(ITER.format(s, "11.07") for s in range(4900, 5000, 10)), device="RTX 4070 Ti").mfu

    assert (mfu.trust, mfu.outcome) == ("wrong_peak", "other_device")
    assert mfu.peak_tflops == 80.2  # dense bfloat16, accumulated in float32
    assert mfu.recomputed == pytest.approx(0.431, abs=0.001)
    assert mfu.peak_source


def test_on_the_assumed_device_the_figure_stands(explain) -> None:
    mfu = explain("".join(ITER.format(s, "41.00") for s in range(100)), device="NVIDIA A100-SXM4-40GB").mfu

    assert mfu.trust == "ok"


def test_more_than_the_peak_is_the_wrong_peak(explain) -> None:
    mfu = explain("".join(ITER.format(s, "148.00") for s in range(100))).mfu

    assert (mfu.trust, mfu.outcome) == ("wrong_peak", "impossible")


def test_minus_a_hundred_and_zero_are_told_apart(explain) -> None:
    for first, rest, printed in (("-100.00", "-100.00", -1), ("0.00", "0.00", 0), ("-100.00", "0.00", 0)):
        mfu = explain("".join(ITER.format(s, rest if s else first) for s in range(100))).mfu

        assert (mfu.trust, mfu.logged, mfu.last) == ("unmeasured", None, printed)
        assert ("printed as 0" in str(mfu.text().parts[0].template)) == (printed == 0)


def test_a_moving_average_that_lags_is_said(explain) -> None:
    values = [42.0] * 40 + [42.0 * 0.9**n for n in range(6)]
    mfu = explain("".join(ITER.format(s, f"{v:.2f}") for s, v in enumerate(values)), device="A100").mfu

    assert (mfu.trust, mfu.settled) == ("smoothing_lag", pytest.approx(0.42, rel=0.01))


def test_evaluations_do_not_pull_the_mfu_of_a_normal_step_down(explain) -> None:
    lines, average = [], None
    for step in range(0, 4000, 10):
        time_s = 5.0 if step % 50 == 0 else 0.1
        now = 0.40 * 0.1 / time_s
        average = now if average is None else 0.9 * average + 0.1 * now
        lines.append(f"iter {step}: loss 0.8010, time {time_s * 1000:.2f}ms, mfu {100 * average:.2f}%\n")
        if step % 50 == 40:
            lines.append(f"step {step + 10}: train loss 0.8, val loss 0.9\n")
    mfu = explain("".join(lines)).mfu

    assert mfu.settled == pytest.approx(0.40, rel=0.02)
    assert mfu.logged < 0.35


def test_the_figures_can_be_computed_from_each_other(explain) -> None:
    mfu = explain("".join(ITER.format(s, "9.10") for s in range(100)), device="RTX 4070 Ti").mfu

    assert mfu.achieved_tflops == pytest.approx(mfu.settled * mfu.assumed_tflops)
    assert mfu.recomputed == pytest.approx(mfu.achieved_tflops / mfu.peak_tflops)


def test_more_than_the_given_device_can_do_is_not_repeated_as_true(explain) -> None:
    mfu = explain("".join(ITER.format(s, "50.00") for s in range(100)), device="RTX 3090").mfu

    assert (mfu.outcome, mfu.recomputed, mfu.believed) == ("impossible", None, None)


@pytest.mark.parametrize(("name", "trust", "share"), [("T4", "wrong_peak", 0.018), ("H100", "ok", None)])
def test_a_peak_that_the_trainer_looked_up_is_believed_only_if_it_fits_the_device(explain, name, trust, share) -> None:
    peak = 989.4e12 if name == "H100" else 100e12
    tok_s = round(0.4 * peak / 1e9) if name == "H100" else round(0.0116 * peak / 1e9)
    shown = 40.0 if name == "H100" else 1.16
    line = "step {0:05d}/02000 (1.00%) | loss: 4.0 | lrm: 1.00 | dt: 500.00ms | tok/sec: {1} | bf16_mfu: {2}\n"
    text = "Estimated FLOPs per token: 1.000000e+09\n" + "".join(line.format(s, tok_s, shown) for s in range(50))
    mfu = explain(text, device=name).mfu

    assert mfu.trust == trust
    if share is not None:
        assert mfu.recomputed == pytest.approx(share, abs=0.02)


def test_arithmetic_achieved_needs_no_mfu_and_no_device(explain) -> None:
    head = "number of parameters: 100.00M\ntokens per iteration will be: 50,000\n"
    achieved = explain(head + "".join(f"iter {s}: loss 0.8010, time 500.00ms\n" for s in range(30))).achieved

    assert achieved.tflops == pytest.approx(6 * 100e6 * 50_000 / 0.5 / 1e12, rel=0.01)
    assert achieved.share is None


def test_a_cpu_has_no_peak_to_recompute_with(explain) -> None:
    mfu = explain("Overriding: device = cpu\n" + "".join(ITER.format(s, "0.01") for s in range(100))).mfu

    assert (mfu.trust, mfu.device, mfu.recomputed) == ("wrong_peak", "cpu", None)


def test_no_mfu_in_the_log_is_no_finding(explain) -> None:
    assert explain("".join(f"iter {s}: loss 0.8010, time 33.22ms\n" for s in range(30))).mfu is None


def test_without_a_device_only_a_plausible_figure_is_believed(explain) -> None:
    for printed, believed in (("9.70", None), ("41.00", pytest.approx(0.41))):
        mfu = explain("".join(ITER.format(s, printed) for s in range(100))).mfu

        assert (mfu.outcome, mfu.believed) == ("unknown", believed)


def test_the_first_fall_of_the_moving_average_at_an_evaluation_is_found(explain) -> None:
    mfu = explain(example_logs.GPU_END).mfu

    assert mfu.fell == (5000, pytest.approx(0.1109), pytest.approx(0.0999))
    assert not mfu.begins_unmeasured


def test_a_placeholder_at_the_start_is_told_from_a_measurement(explain) -> None:
    mfu = explain(example_logs.WAITING).mfu

    assert mfu.begins_unmeasured
    assert mfu.settled == pytest.approx(0.0302)
    assert mfu.fell is None


def test_an_mfu_that_falls_without_an_evaluation_is_not_explained_by_one(explain) -> None:
    text = "".join(ITER.format(step, "11.07" if step < 50 else "9.50") for step in range(0, 100, 10))

    assert explain(text).mfu.fell is None
