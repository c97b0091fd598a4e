"""A resume with another max_iters says what happens to the learning rate, and which flags avoid it."""

import re
import shutil

import pytest

from nanoscope.config import TrainConfig
from nanoscope.optim.schedule import learning_rate
from small_runs import Folder

pytestmark = pytest.mark.slow

NOTE = re.compile(
    r"the learning rate goes from (\S+) to (\S+) here: .* from (\d+) to (\d+), where it will be (\S+)\. .*?(--\S+)"
)
CLASSIC = ["--recipe=classic", "--warmup_iters=0", "--min_lr=1e-3"]


def rates(folder: Folder, run: str = "run") -> dict[int, float]:
    return {event["step"]: event["lr"] for event in folder.events(run, "iter")}  # type: ignore[misc]


def note(out: str) -> tuple[float, float, int, int, float, str]:
    found = NOTE.search(out)
    assert found, out
    then, here, old_end, new_end, last, flag = found.groups()
    return float(then), float(here), int(old_end), int(new_end), float(last), flag


def test_a_finished_classic_run_jumps_up_unless_it_keeps_its_schedule(folder: Folder) -> None:
    folder.train(*CLASSIC)
    out = folder.run("train", "run", "--init_from=resume", "--max_iters=40")
    *told, flag = note(out)
    assert told == [0.001, 0.0055, 20, 40, 0.001]
    assert flag == "--lr_decay_iters=20"
    assert rates(folder)[20] == pytest.approx(0.0055)
    assert rates(folder)[39] == pytest.approx(0.001, rel=0.1)


def test_the_flag_of_the_classic_note_keeps_the_lowest_rate(folder: Folder) -> None:
    folder.train(*CLASSIC)
    out = folder.run("train", "run", "--init_from=resume", "--max_iters=40", "--lr_decay_iters=20")
    assert NOTE.search(out) is None
    assert {rates(folder)[step] for step in range(20, 40)} == {0.001}


def test_a_finished_modern_run_begins_anew_and_is_offered_lower_rates(folder: Folder) -> None:
    folder.train()
    out = folder.run("train", "run", "--init_from=resume", "--max_iters=40")
    *told, flag = note(out)
    assert told == [0, 0.00833, 20, 40, 0]
    assert flag == "--lr_scale=0.1"
    assert rates(folder)[20] == pytest.approx(0.00833, rel=1e-3)


def test_the_flag_of_the_modern_note_cools_down_from_a_tenth(folder: Folder) -> None:
    folder.train()
    out = folder.run("train", "run", "--init_from=resume", "--max_iters=40", "--lr_scale=0.1")
    assert "to 0.000833 here" in out
    found = [rates(folder)[step] for step in range(20, 40)]
    assert found[0] == pytest.approx(0.000833, rel=1e-3)
    assert found == sorted(found, reverse=True)
    folder.run("train", "run", "--init_from=resume", "--max_iters=60")  # it holds for good
    assert rates(folder)[40] == pytest.approx(0.1 * learning_rate(40, TrainConfig(max_iters=60)), rel=1e-3)


@pytest.mark.parametrize("recipe", [CLASSIC, []], ids=["classic", "modern"])
def test_the_flag_for_a_run_in_the_middle_of_its_decay_avoids_the_jump(folder: Folder, recipe: list[str]) -> None:
    folder.train(*recipe, "--max_iters=15", "--lr_decay_iters=20")
    config = folder.path / "run/config.toml"  # now as if it had been stopped at 15 of 20
    text = config.read_text("utf-8").replace("max_iters = 15", "max_iters = 20")
    config.write_text(text.replace("lr_decay_iters = 20", 'lr_decay_iters = "auto"'), encoding="utf-8")
    shutil.copytree(folder.path / "run", folder.path / "other")
    then, here, *_, flag = note(folder.run("train", "run", "--init_from=resume", "--max_iters=60"))
    assert rates(folder)[15] == pytest.approx(here, rel=0.01)
    out = folder.run("train", "other", "--init_from=resume", "--max_iters=60", flag)
    assert NOTE.search(out) is None
    assert rates(folder, "other")[15] == pytest.approx(then, rel=0.01)
    assert then < here


def test_a_rate_that_stays_zero_is_warned_about(folder: Folder) -> None:
    folder.train("--lr_decay_iters=20")
    out = folder.run("train", "run", "--init_from=resume", "--max_iters=30")
    assert "warning: the learning rate is 0 from iteration 20 on, so the model won't change" in out
    assert "--lr_decay_iters=30" in out


def test_a_schedule_that_does_not_change_needs_no_note(folder: Folder) -> None:
    folder.train("--lr_decay_iters=100")
    out = folder.run("train", "run", "--init_from=resume", "--max_iters=30")
    assert "learning rate" not in out
