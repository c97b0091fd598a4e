"""Numbers of one log that do not fit together."""

import pytest


def kinds(analysis) -> list[str]:
    return [mismatch.kind for mismatch in analysis.mismatches]


def test_a_step_that_reads_most_of_the_data_names_the_setting_behind_it(explain, nanogpt_log) -> None:
    settings = {"gradient_accumulation_steps": 40, "batch_size": 16, "block_size": 1024}
    header = ["train has 1,003,854 tokens", *(f"Overriding: {name} = {value}" for name, value in settings.items())]
    (mismatch,) = explain(nanogpt_log(header=header)).mismatches

    assert (mismatch.kind, mismatch.value) == ("step_of_data", 655_360)
    assert mismatch.share == pytest.approx(0.65, abs=0.01)
    assert (mismatch.setting, mismatch.setting_value) == ("gradient_accumulation_steps", 40)


def test_the_size_of_a_well_known_text_is_known_by_its_name(explain, nanogpt_log) -> None:
    settings = {"dataset": "shakespeare_char", "batch_size": 64, "block_size": 4096}
    header = [f"Overriding: {name} = {value}" for name, value in settings.items()]

    assert kinds(explain(nanogpt_log(header=header))) == ["step_of_data"]


def test_a_usual_step_of_a_small_text_is_no_finding(explain, nanogpt_log) -> None:
    header = ["train has 1,003,854 tokens", "Overriding: batch_size = 64", "Overriding: block_size = 256"]

    assert kinds(explain(nanogpt_log(header=header))) == []


@pytest.mark.parametrize(("tok_s", "found"), [(8000, []), (1000, ["tokens_and_time"])])
def test_tokens_a_second_must_make_the_tokens_of_a_step(explain, tok_s, found) -> None:
    line = "step {0:05d}/02000 (1.00%) | loss: 4.0 | lrm: 1.00 | dt: 500.00ms | tok/sec: {1} | bf16_mfu: 0.00\n"
    analysis = explain("Total batch size: 4,000\n" + "".join(line.format(s, tok_s) for s in range(50)))

    assert kinds(analysis) == found


def test_a_batch_of_one_device_is_multiplied_by_the_devices_that_the_speed_shows(explain) -> None:
    line = "step {0:05d}/02000 (1.00%) | loss: 4.0 | lrm: 1.00 | dt: 500.00ms | tok/sec: 32,768 | bf16_mfu: 0.00\n"
    header = "Overriding: batch_size = 4\nOverriding: block_size = 1024\n"
    analysis = explain(header + "".join(line.format(s) for s in range(50)))

    assert analysis.progress.tokens_per_step == 16_384
    assert kinds(analysis) == []
