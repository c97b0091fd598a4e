"""The file that tune writes is one that train reads."""

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from nanoscope.config_sources import resolve
from nanoscope.errors import UsageError
from nanoscope.messages import Message
from nanoscope.paired import paired
from nanoscope.planning.rig import Facts, Figures
from nanoscope.planning.search import Change, Finding
from nanoscope.planning.tuning import Tuner, check_file, write_file

SPLIT = {"batch_size": 8, "gradient_accumulation_steps": 2, "eval_iters": 40}
GAIN = paired([0.19, 0.20, 0.21])


def tuned(*words: str, changed: bool = True, busy_cores: float = 0.0) -> Tuner:
    found = Tuner(resolve(words or ["laptop"]), 1.0, lambda text: None)
    found.facts, found.default = Facts("cpu", "a CPU, 4 threads", {}), Figures(0.1, 0.5, 100.0)
    found.busy_cores = busy_cores
    best = Change(SPLIT, GAIN)
    found.findings = [
        Finding("threads", "nothing_better", [Change({"threads": 1}, paired([-0.4]))]),
        Finding("smaller_micro_batch", "helps" if changed else "not_confirmed", [Change(SPLIT, paired([0.2]))], best),
        Finding("dtype", "nothing_better", [Change({"dtype": "bfloat16"}, problem=Message("it does not work here"))]),
    ]
    if changed:
        found.best = replace(found.run, **SPLIT)
    return found


def written(tmp_path: Path, found: Tuner, *words: str) -> str:
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
    assert "batch_size = 8\n" in text
    assert "#   --batch_size=8 --gradient_accumulation_steps=2 --eval_iters=40 helps: 20.0% ± 0.6% less time\n" in text
    assert "#   --threads=1: 40.0% more time\n" in text
    assert "#   --dtype=bfloat16: it does not work here\n" in text
    assert "busy machine" not in text


def test_a_busy_machine_is_named_in_the_file(tmp_path: Path) -> None:
    text = written(tmp_path, tuned(busy_cores=2.0))
    assert "measured on a busy machine: other processes used 2.0 cores" in text


def test_where_nothing_was_faster_the_file_has_the_settings_as_they_were(tmp_path: Path) -> None:
    found = tuned(changed=False)
    assert str(found.summary()) == "the settings are the fastest found"
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


def test_the_document_has_every_change_and_no_number_that_json_lacks() -> None:
    found = json.loads(msgspec.json.encode(tuned().document(), enc_hook=str))
    assert (found["schema"], found["settings"]) == ("nanoscope.tune/3", SPLIT)
    assert [each["verdict"] for each in found["findings"]] == ["nothing_better", "helps", "nothing_better"]
    assert found["findings"][0]["tried"][0]["gain"] == {"mean": -0.4, "error": None, "pairs": 1}
