"""The file that tune writes is one that train reads."""

import json
from pathlib import Path

import msgspec
import pytest

from nanoscope.config_sources import resolve
from nanoscope.errors import UsageError
from nanoscope.messages import Message
from nanoscope.paired import paired
from nanoscope.planning.rig import Facts, Figures
from nanoscope.planning.tuning import Trial, Tuned
from nanoscope.planning.tuning_file import check_file, document, in_one_line, with_settings, write_file

SPLIT = {"batch_size": 8, "gradient_accumulation_steps": 2, "eval_iters": 40}
GAIN = paired([0.19, 0.20, 0.21])


def tuned(*, changed: bool = True, **fields: object) -> Tuned:
    trials = [
        Trial(SPLIT, GAIN, None if changed else Message("not confirmed")),
        Trial({"threads": 1}, paired([-0.4]), Message("slower")),
        Trial({"dtype": "bfloat16"}, reason=Message("it does not work here")),
    ]
    settings = {"settings": SPLIT, "gain": GAIN} if changed else {}
    return Tuned(Facts("cpu", "a CPU, 4 threads", {}), Figures(0.1, 0.5, 100.0), trials=trials, **(settings | fields))  # type: ignore[arg-type]


def written(tmp_path: Path, found: Tuned, *words: str) -> str:
    write_file(tmp_path / "tuned.toml", resolve(words or ["laptop"]), found)
    return (tmp_path / "tuned.toml").read_text("utf-8")


def settings_in(tmp_path: Path) -> dict[str, object]:
    return resolve([str(tmp_path / "tuned.toml")]).given


def test_train_reads_all_settings_of_the_source_with_the_changes(tmp_path: Path) -> None:
    source = resolve(["laptop", "--max_iters=77"]).given
    written(tmp_path, tuned(), "laptop", "--max_iters=77")
    assert settings_in(tmp_path) == {**source, **SPLIT}


def test_the_comments_say_what_each_change_gave_and_what_was_not_used(tmp_path: Path) -> None:
    text = written(tmp_path, tuned())
    assert "a CPU, 4 threads" in text
    assert "batch_size = 8  # was 16" in text
    assert "# --batch_size=8 --gradient_accumulation_steps=2 --eval_iters=40: 20.0% ± 0.6% less time\n" in text
    assert "# --threads=1: 40.0% more time; slower\n" in text
    assert "# --dtype=bfloat16: it does not work here\n" in text
    assert "busy machine" not in text


def test_a_busy_machine_and_another_dtype_are_named_in_the_file(tmp_path: Path) -> None:
    text = written(tmp_path, tuned(busy_cores=2.0, settings={"dtype": "bfloat16"}))
    assert "measured on a busy machine: other processes used 2.0 cores" in text
    assert "bfloat16 rounds more than float32" in text


def test_where_nothing_was_faster_the_file_has_the_settings_as_they_were(tmp_path: Path) -> None:
    found = tuned(changed=False)
    assert str(in_one_line(found)) == "the settings are the fastest found"
    written(tmp_path, found)
    assert settings_in(tmp_path) == resolve(["laptop"]).given


def test_what_belongs_to_one_run_or_one_invocation_is_left_out(tmp_path: Path) -> None:
    written(tmp_path, tuned(), "laptop", "--out_dir=runs/mine", "--max_minutes=3", "--init_from=auto")
    assert not {"out_dir", "max_minutes", "init_from"} & set(settings_in(tmp_path))
    written(tmp_path, tuned(changed=False), "finetune")
    assert settings_in(tmp_path)["init_from"] == "gpt2"


def test_a_file_is_replaced_only_if_told(tmp_path: Path) -> None:
    file = tmp_path / "tuned.toml"
    check_file(file, overwrite=False)
    written(tmp_path, tuned())
    with pytest.raises(UsageError, match=r"exists\nChoose another name"):
        check_file(file, overwrite=False)
    check_file(file, overwrite=True)
    with pytest.raises(UsageError, match="must end in"):
        check_file(tmp_path / "tuned.txt", overwrite=False)


def test_the_document_has_every_trial_and_no_number_that_json_lacks() -> None:
    found = json.loads(msgspec.json.encode(document(tuned(), ["laptop"], Path("tuned-laptop.toml")), enc_hook=str))
    assert (found["schema"], found["settings"]) == ("nanoscope.tune/2", SPLIT)
    assert [trial["reason"] for trial in found["trials"]] == [None, "slower", "it does not work here"]
    assert found["trials"][1]["gain"] == {"mean": -0.4, "error": None, "pairs": 1}


def test_train_takes_the_settings_as_if_a_file_had_them() -> None:
    resolved = with_settings(resolve(["laptop", "--seed=5"]), tuned())
    assert (resolved.config.batch_size, resolved.config.eval_iters, resolved.config.seed) == (8, 40, 5)
    assert "batch_size" not in resolved.typed
