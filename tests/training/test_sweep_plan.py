"""Which runs a sweep consists of, before any of them is trained."""

from pathlib import Path

import pytest

from nanoscope.errors import JobError, UsageError
from nanoscope.training.sweep_plan import Sweep, open_record, plan_sweep


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(sweep: Sweep) -> list[str]:
    return [run.name for run in sweep.runs]


def test_settings_with_several_values_are_combined() -> None:
    sweep = plan_sweep(["laptop", "--learning_rate=1e-3,1e-2", "--max_iters=50", "--seed", "1,2"])
    assert names(sweep) == ["lr=0.001,seed=1", "lr=0.001,seed=2", "lr=0.01,seed=1", "lr=0.01,seed=2"]
    assert {run.config.max_iters for run in sweep.runs} == {50}
    assert sweep.folder == Path("runs/laptop-sweep")
    assert sweep.runs[2].words == ("laptop", "--learning_rate=1e-2", "--max_iters=50", "--seed=1")


def test_a_value_spelled_in_two_ways_is_one_run() -> None:
    assert names(plan_sweep(["--learning_rate=1e-3,0.001,2e-3"])) == ["lr=0.001", "lr=0.002"]


def test_a_flag_that_is_given_twice_counts_as_it_was_given_last() -> None:
    assert names(plan_sweep(["--seed=1", "--seed=3,4"])) == ["seed=3", "seed=4"]


def test_words_and_switches_can_be_varied() -> None:
    sweep = plan_sweep(["--order=random,epochs", "--decay_lr=True,False"])
    assert names(sweep)[:2] == ["order=random,decay_lr=True", "order=random,decay_lr=False"]


def test_a_text_is_split_only_in_brackets() -> None:
    assert names(plan_sweep(["--dataset=[data/a,data/b]"])) == ["dataset=a", "dataset=b"]
    assert {run.config.dataset for run in plan_sweep(["--dataset=a,b", "--seed=1,2"]).runs} == {"a,b"}


def test_presets_can_be_varied() -> None:
    sweep = plan_sweep(["laptop,quick", "--seed=1,2"])
    assert names(sweep)[0] == "config=laptop,seed=1"
    assert sweep.runs[0].config.max_iters != sweep.runs[3].config.max_iters


def test_names_are_safe_whatever_the_values_are() -> None:
    assert names(plan_sweep(["--dataset=[a b/c*?d,../../x;y]"])) == ["dataset=c-d", "dataset=x-y"]


def test_values_whose_names_would_be_the_same_are_refused() -> None:
    with pytest.raises(UsageError, match="two runs would be called dataset=a"):
        plan_sweep(["--dataset=[one/a,two/a]"])


def test_a_random_choice_is_repeatable_and_a_larger_one_contains_it() -> None:
    words = ["--learning_rate=1e-4,1e-3,1e-2", "--seed=1,2,3,4"]
    few = names(plan_sweep(words, 4))
    assert few == names(plan_sweep(words, 4))
    assert len(set(few)) == 4
    assert names(plan_sweep(words, 9))[:4] == few
    assert len(plan_sweep(words, 100).runs) == 12


def test_a_range_is_drawn_from_evenly_on_a_logarithmic_scale() -> None:
    words = ["--learning_rate=1e-4..1e-2", "--n_layer=1..8"]
    runs = plan_sweep(words, 200).runs
    rates = [run.config.peak_lr for run in runs]
    assert min(rates) >= 1e-4
    assert max(rates) <= 1e-2
    assert 70 < sum(rate < 1e-3 for rate in rates) < 130
    assert {run.config.n_layer for run in runs} == set(range(1, 9))
    assert names(plan_sweep(words, 5)) == [run.name for run in runs[:5]]


@pytest.mark.parametrize(
    ("words", "count", "message"),
    [
        (["laptop"], None, "no setting has several values"),
        (["--learning_rate=1e-4..1e-2"], None, "--random 10"),
        (["--learning_rate=1e-2..1e-4"], 3, "from a positive number to a larger one"),
        (["--seed=" + ",".join(map(str, range(1001)))], None, "that is 1,001 runs"),
        (["--seed=1,2"], 0, "between 1 and 1,000"),
        (["--seed=1,2", "--overwrite=True"], None, "a sweep deletes nothing"),
        (["--seed=1,2", "--init_from=resume"], None, "the same command again resumes a sweep"),
    ],
)
def test_a_mistake_is_answered_with_the_way_out(words: list[str], count: int | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plan_sweep(words, count)


def test_the_mistakes_of_all_combinations_are_reported_together() -> None:
    with pytest.raises(UsageError) as caught:
        plan_sweep(["--learning_rate=-1,abc,1e-3", "--n_head=3", "--n_embd=32,64", "--lerning_rate=1"])
    text = str(caught.value)
    for part in ("got -1.0", "'abc'", "n_embd=32 is not", "n_embd=64 is not", "Did you mean --learning_rate?"):
        assert text.count(part) == 1, part


# --- the record ---


def test_the_same_sweep_is_continued_with_what_is_known_about_its_runs() -> None:
    sweep = plan_sweep(["--seed=1,2"])
    record = open_record(sweep, "the command")
    record.failed["seed=1"] = 'out of "memory"\n'
    record.write()
    again = open_record(plan_sweep(["--seed=1,2"]), "the command")
    assert again.failed == {"seed=1": 'out of "memory"\n'}


def test_more_values_extend_a_sweep() -> None:
    open_record(plan_sweep(["--seed=1,2"]), "").write()
    assert open_record(plan_sweep(["--seed=2,3"]), "").swept == {"seed": [1, 2, 3]}


@pytest.mark.parametrize(
    ("words", "difference"),
    [
        (["--seed=1,2", "--max_iters=7"], "max_iters=1000 there, 7 here"),
        (["--seed=1,2", "--learning_rate=1,2"], "it varies seed, this one seed, learning_rate"),
    ],
)
def test_a_folder_with_another_sweep_is_refused(words: list[str], difference: str) -> None:
    open_record(plan_sweep(["--seed=1,2", "--max_iters=1000"]), "").write()
    with pytest.raises(UsageError, match=difference) as caught:
        open_record(plan_sweep(["--max_iters=1000", *words]), "")
    assert "--out_dir=runs/laptop-sweep-2" in str(caught.value)


def test_a_record_that_cannot_be_read_is_not_overwritten(here: Path) -> None:
    (here / "runs/laptop-sweep").mkdir(parents=True)
    (here / "runs/laptop-sweep/sweep.toml").write_text("[settings", "utf-8")
    with pytest.raises(JobError, match="cannot be read"):
        open_record(plan_sweep(["--seed=1,2"]), "")
