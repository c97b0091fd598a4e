"""Whose peak an MFU was measured against."""

import pytest

ITER = "iter {0}: loss 0.8010, time 33.22ms, mfu {1}%\n"


def test_the_notes_case_of_a_4070_ti_is_measured_against_its_own_peak(explain) -> None:
    mfu = explain("".join(ITER.format(s, "11.07") for s in range(4900, 5000, 10)), device="RTX 4070 Ti").mfu

    assert mfu.trust == "wrong_peak"
    assert mfu.reason == "assumes_other_device"
    assert mfu.peak_tflops == 80.2  # dense bfloat16, accumulated in float32
    assert mfu.recomputed == pytest.approx(0.431, abs=0.001)
    assert mfu.peak_source


def test_on_the_assumed_device_the_figure_stands(explain) -> None:
    mfu = explain("".join(ITER.format(s, "41.00") for s in range(100)), device="NVIDIA A100-SXM4-40GB").mfu

    assert mfu.trust == "ok"


def test_more_than_the_peak_is_the_wrong_peak(explain) -> None:
    mfu = explain("".join(ITER.format(s, "148.00") for s in range(100))).mfu

    assert (mfu.trust, mfu.reason) == ("wrong_peak", "above_one")


@pytest.mark.parametrize("printed", ["-100.00", "0.00"])
def test_minus_a_hundred_and_zero_are_not_measured(explain, printed) -> None:
    mfu = explain("".join(ITER.format(s, printed) for s in range(100))).mfu

    assert mfu.trust == "unmeasured"
    assert mfu.logged is None


def test_a_moving_average_that_lags_is_said(explain) -> None:
    values = [42.0] * 40 + [42.0 * 0.9**n for n in range(6)]
    mfu = explain("".join(ITER.format(s, f"{v:.2f}") for s, v in enumerate(values)), device="A100").mfu

    assert mfu.trust == "smoothing_lag"
    assert mfu.lag == pytest.approx(0.42 * (1 - 0.9**5), rel=0.05)


def test_a_cpu_has_no_peak_to_recompute_with(explain) -> None:
    mfu = explain("Overriding: device = cpu\n" + "".join(ITER.format(s, "0.01") for s in range(100))).mfu

    assert (mfu.trust, mfu.device, mfu.recomputed) == ("wrong_peak", "cpu", None)


def test_no_mfu_in_the_log_is_no_finding(explain) -> None:
    assert explain("".join(f"iter {s}: loss 0.8010, time 33.22ms\n" for s in range(30))).mfu is None


@pytest.mark.parametrize(("printed", "trust"), [("9.70", "wrong_peak"), ("41.00", "ok")])
def test_without_a_device_only_a_plausible_figure_is_believed(explain, printed, trust) -> None:
    mfu = explain("".join(ITER.format(s, printed) for s in range(100))).mfu

    assert (mfu.trust, mfu.reason) == (trust, "device_unknown")
