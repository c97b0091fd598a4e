"""The sample lines in a trainer's file are read as the file says, and its signs are its own."""

from pathlib import Path

import pytest

import nanoscope.runs.trainers
from nanoscope.findings.analyse import analyse
from nanoscope.runs.run import Traits
from nanoscope.runs.trainers import load
from nanoscope.words.language import Language

FOLDER = Path(nanoscope.runs.trainers.__file__).parent
TRAINERS = dict(zip((file.stem for file in sorted(FOLDER.glob("*.toml"))), load(FOLDER, samples=True), strict=True))
MEANS = {*Traits.__dataclass_fields__} | {
    "saves", "only_evaluates", "evaluation_printed", "repeats_validation", "iterations_per_step", "time_of_line",
    "time_of_step",
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name, trainer in TRAINERS.items() if trainer.sample])
def test_the_samples_are_read_as_their_trainers(read, name) -> None:
    for sample in TRAINERS[name].sample:
        log = read(sample["lines"])
        assert log.format == TRAINERS[name].name
        (run,) = log.runs
        wanted = sample["reads"]
        assert list(run.steps.step) == wanted["steps"]
        assert list(run.steps.loss) == pytest.approx(wanted.get("loss", list(run.steps.loss)), nan_ok=True)
        times = wanted.get("step_seconds", list(run.steps.time_s))
        assert list(run.steps.time_s) == pytest.approx(times, nan_ok=True)
        assert run.total_steps == wanted.get("total", run.total_steps)
        assert [e.val for e in run.evals] == wanted.get("vals", [e.val for e in run.evals])
        assert run.doubts == []


@pytest.mark.parametrize("name", TRAINERS)
def test_a_file_says_nothing_that_is_not_understood(name) -> None:
    assert TRAINERS[name].means.keys() <= MEANS


def test_the_files_hold_no_patterns_and_stay_short() -> None:
    texts = [file.read_text("utf-8") for file in FOLDER.glob("*.toml")]
    assert sum(text.count("\n") for text in texts) <= 1200
    assert not any(sign in text.partition("[[sample]]")[0] for text in texts for sign in (r"\d", "(?:", ".*", "[^"))


def clear_caches() -> None:
    module = nanoscope.runs.trainers
    for cached in (module.trainers, module.vocabulary, module._common_labels):
        cached.cache_clear()


PAGE = Path(__file__).parents[2] / "docs" / "trainers.md"


def test_the_page_about_trainers_has_a_file_that_works(read, tmp_path, monkeypatch) -> None:
    folder = tmp_path / "nanoscope" / "trainers"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text(PAGE.read_text("utf-8").split("```toml\n")[1].split("```")[0], "utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    rounds = "".join(f"round {n}0 ~ cost {4 - n / 9:.2f} ~ pace 0.52 ~ norm 0.9\n" for n in range(1, 9))
    clear_caches()
    log = read("rounds in all: 900\nrows=8\n" + rounds + "RuntimeError: CUDA out of memory.\n")
    analysis = analyse(log.runs[0], log=log)
    (advice,) = analysis.advice
    said = Language("en").render(advice.text(), advice)
    clear_caches()
    assert (analysis.progress.last_step, analysis.progress.total_steps) == (80, 900)
    assert (analysis.timing.typical_s, advice.from_value) == (pytest.approx(0.52), 8)
    assert said.startswith("Halve --rows: the trainer accumulates")


@pytest.mark.parametrize("name", TRAINERS)
def test_advice_only_names_settings_that_there_are(name) -> None:
    assert {setting.partition("=")[0] for setting in TRAINERS[name].flags} <= {*TRAINERS["nanogpt"].kept}


def test_a_trainer_of_ones_own_is_a_file_in_the_configuration_folder(read, tmp_path, monkeypatch) -> None:
    folder = tmp_path / "nanoscope" / "trainers"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text(
        'name = "mine"\nsigns = [["zug", "wert"]]\n[roles]\nzug = "step"\nwert = "loss"\n[means]\nevaluation_in = "none"\n',  # noqa: E501
        "utf-8",
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    clear_caches()
    log = read("".join(f"zug {step} wert {4 - step / 10:.2f}\n" for step in range(10)))
    clear_caches()
    assert log.format == "mine"
    assert list(log.runs[0].steps.step) == list(range(10))
