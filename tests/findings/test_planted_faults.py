"""Faults planted in real runs are found, and nothing is wrong with healthy ones, at any point of them.

`python benchmarks/planted.py` trains the same runs and prints what is said about each.
"""

from pathlib import Path

import pytest

from benchmarks.planted import FAULTS, HEALTHY, Planted, said_about, shuffled, text_of_python, train

FINE = {"completed", "improving", "too_short"}  # verdicts that name no problem

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("planted")


@pytest.fixture(scope="module")
def text() -> str:
    return shuffled(text_of_python())


QUICK = {"quick", "laptop-classic, shallow"}  # of the healthy runs, those that every test run can afford


def names(runs: list[Planted]) -> list[object]:
    takes_long = [run.is_healthy and run.name not in QUICK for run in runs]
    return [
        pytest.param(run, id=run.name, marks=pytest.mark.soak if long else ())
        for run, long in zip(runs, takes_long, strict=True)
    ]


@pytest.mark.parametrize("run", names(FAULTS))
def test_a_planted_fault_is_named(run: Planted, folder: Path, text: str) -> None:
    (said,) = said_about(run, train(run, folder, text))
    assert said.codes & run.found_by, said.verdicts


@pytest.mark.parametrize("run", names(HEALTHY))
def test_nothing_is_wrong_with_a_healthy_run(run: Planted, folder: Path, text: str) -> None:
    for said in said_about(run, train(run, folder, text)):
        verdicts = {verdict.partition(" ")[0] for verdict in said.verdicts if not verdict.endswith("(hint)")}
        assert verdicts <= FINE | {"slowing_down"}, f"after {said.cut:.0%}"  # slower: the machine's other work
