"""The file that tune writes is one that train reads."""

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from made_up_rigs import FACTS
from nanoscope.config_sources import resolve
from nanoscope.errors import UsageError
from nanoscope.hardware.load import Load
from nanoscope.messages import Text
from nanoscope.planning.tuning import Outcome, check_can_tune, in_one_line, with_settings
from nanoscope.planning.tuning_file import check_file, document, remarks, toml, write_file
from nanoscope.planning.tuning_pairs import Gain
from nanoscope.planning.tuning_result import Figures, Trial, Tuned

SPLIT = {"batch_size": 8, "gradient_accumulation_steps": 2, "eval_iters": 40}
QUIET = Load(cores=4, others=0.1)
WHEN = datetime(2026, 1, 2, 3, 4)


def outcome(*words: str, changed: bool = True, others: float = 0.1) -> Outcome:
    default, tuned = Figures(0.1, 0.5, 100.0, 600), Figures(0.08, 0.5, 80.0, 500)
    gain, noise = Gain(0.2, 0.19, 0.21, 3), Text("not faster by more than the noise")
    trials = [
        Trial(SPLIT, gain) if changed else Trial(SPLIT, Gain(0.01, -0.02, 0.04, 8), noise),
        Trial({"threads": 1}, Gain(-0.4, -0.5, -0.3, 1), Text("slower")),
        Trial({"dtype": "bfloat16"}, None, Text("it does not work on this CPU:\n{problem}", problem="SIGILL")),
    ]
    found = Tuned(FACTS, default, 8_000_000_000, trials=trials, seconds=100.0)
    if changed:
        found = replace(found, settings=SPLIT, tuned=tuned, confirmed=gain)
    return Outcome(resolve(words or ["laptop"]), found, (QUIET, Load(4, others)))


def settings_in(text: str, tmp_path: Path) -> dict[str, object]:
    file = tmp_path / "tuned.toml"
    file.write_text(text, "utf-8")
    return resolve([str(file)]).given


def test_train_reads_all_settings_of_the_source_with_the_changes(tmp_path: Path) -> None:
    source = resolve(["laptop", "--max_iters=77"]).given
    assert settings_in(toml(outcome("laptop", "--max_iters=77")), tmp_path) == {**source, **SPLIT}


def test_the_comments_say_what_each_change_gave_and_what_was_not_used() -> None:
    text = toml(outcome(), WHEN)
    assert "a CPU, 4 threads" in text
    assert "2026-01-02 03:04" in text
    assert "batch_size = 8  # was 16" in text
    assert "#   --batch_size=8 --gradient_accumulation_steps=2 --eval_iters=40: 20.0% ± 1.0% shorter" in text
    assert "#   --threads=1: about 40.0% longer (one pair); slower" in text
    assert "#   --dtype=bfloat16: it does not work on this CPU: SIGILL" in text


def test_a_busy_machine_is_named_in_the_file() -> None:
    assert "measured on a quiet machine" in toml(outcome())
    assert "measured on a busy machine: other processes used 2.0 of 4 cores" in toml(outcome(others=2.0))


def test_a_chosen_dtype_is_said_to_round_differently() -> None:
    found = outcome()
    assert not remarks(found)
    chosen = replace(found, tuned=replace(found.tuned, settings={"dtype": "bfloat16"}))
    assert "bfloat16 rounds more than float32" in toml(chosen)


def test_where_nothing_was_faster_the_file_has_the_settings_as_they_were(tmp_path: Path) -> None:
    found = outcome(changed=False)
    assert str(in_one_line(found)) == "the settings are the fastest found"
    assert settings_in(toml(found), tmp_path) == resolve(["laptop"]).given


def test_what_belongs_to_one_run_or_one_invocation_is_left_out(tmp_path: Path) -> None:
    words = ("laptop", "--out_dir=runs/mine", "--max_minutes=3", "--init_from=auto")
    assert not {"out_dir", "max_minutes", "init_from"} & set(settings_in(toml(outcome(*words)), tmp_path))
    assert settings_in(toml(outcome("finetune", changed=False)), tmp_path)["init_from"] == "gpt2"


def test_a_file_of_tune_is_replaced_and_any_other_only_if_told(tmp_path: Path) -> None:
    file = tmp_path / "tuned.toml"
    write_file(file, outcome())
    check_file(file, overwrite=False)
    file.write_text(file.read_text("utf-8") + "seed = 7\n", "utf-8")  # somebody's own by now
    with pytest.raises(UsageError, match="is not as nanoscope tune wrote it"):
        check_file(file, overwrite=False)
    check_file(file, overwrite=True)


def test_a_name_that_train_would_not_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="must end in"):
        check_file(tmp_path / "tuned.txt", overwrite=False)


def test_the_document_has_every_trial_and_no_number_that_json_lacks() -> None:
    found = document(outcome(), ["laptop"], Path("tuned-laptop.toml"))
    assert found["schema"] == "nanoscope.tune/1"
    assert found["settings"] == SPLIT
    assert found["command"] == "nanoscope train tuned-laptop.toml"
    assert [(trial["used"], trial["reason"]) for trial in found["trials"][:2]] == [(True, None), (False, "slower")]
    assert found["trials"][1]["gain"]["low"] is None


def test_train_takes_the_settings_as_if_a_file_had_them() -> None:
    resolved = with_settings(resolve(["laptop", "--seed=5"]), SPLIT)
    assert (resolved.config.batch_size, resolved.config.eval_iters, resolved.config.seed) == (8, 40, 5)
    assert "batch_size" not in resolved.typed


@pytest.mark.parametrize(
    ("word", "message"),
    [("--init_from=resume", "a resumed run keeps its settings"), ("--eval_only=True", "trains nothing")],
)
def test_tuning_is_refused_where_there_is_nothing_to_choose(word: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_can_tune(resolve(["laptop", word]))


def test_a_process_of_torchrun_cannot_tune(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match="torchrun's processes can't tune"):
        check_can_tune(resolve(["laptop"]))
