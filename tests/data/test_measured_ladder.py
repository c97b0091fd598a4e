"""The ladder of a dataset: measured once, kept beside the tokens, measured again only for other data."""

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest

from nanogpt_files import write_dataset
from nanoscope.data import ngrams as module
from nanoscope.data.dataset import Dataset, TokenSplit, open_dataset
from nanoscope.data.ngrams import FILE, ladder_of, measure, stored_ladder
from nanoscope.data.prepare import prepare
from nanoscope.ladder import Ladder


@pytest.fixture
def prepared(tmp_path: Path, text_of) -> Path:
    source = tmp_path / "text.txt"
    source.write_text(text_of("english", 300), "utf-8")
    return prepare([source], tmp_path / "data", tokenizer="char")


def test_prepare_measures_guessing_and_nine_models(prepared: Path) -> None:
    dataset = open_dataset(prepared)
    ladder = stored_ladder(dataset)
    assert ladder is not None
    assert (ladder.unit, len(ladder.losses), ladder.sampled) == ("character", 9, False)
    assert ladder.guessing == pytest.approx(math.log(dataset.vocab_size), abs=1e-6)
    assert ladder.guessing > ladder.losses[0] > ladder.losses[1] > ladder.losses[2]
    assert (ladder.train_tokens, ladder.val_tokens) == tuple(len(dataset.splits[name]) for name in ("train", "val"))


@pytest.mark.parametrize(("tokenizer", "unit"), [("byte", "byte"), ("bpe", "token")])
def test_the_unit_is_what_a_token_is(tmp_path: Path, text_of, tokenizer: str, unit: str) -> None:
    source = tmp_path / "text.txt"
    source.write_text(text_of("hindi", 300), "utf-8")
    dataset = open_dataset(prepare([source], tmp_path / "data", tokenizer=tokenizer, vocab_size=None))
    found = stored_ladder(dataset)
    assert found is not None
    assert found.unit == unit


def test_the_first_token_of_the_split_is_no_target() -> None:
    ids = np.array([0, 1, 1, 1, 1, 1], np.uint16)
    splits = {name: TokenSplit({name: ids}, 2) for name in ("train", "val")}
    found = measure(Dataset(Path(), None, 2, "", splits))  # type: ignore[arg-type]
    (unigram,) = module.probabilities([ids], [ids], 2, 1)
    assert found.losses[0] == pytest.approx(float(-np.log(unigram[1])), abs=1e-6)


def test_of_long_splits_stretches_from_all_over_are_read(prepared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TRAIN_TOKENS", 6400)
    monkeypatch.setattr(module, "VAL_TOKENS", 640)
    found = measure(open_dataset(prepared))
    assert (found.train_tokens, found.val_tokens, found.sampled) == (6400, 640, True)
    assert found.stderr > 0


def test_a_dataset_without_one_is_measured_when_it_is_asked_for(prepared: Path) -> None:
    dataset = open_dataset(prepared)
    before = stored_ladder(dataset)
    (prepared / FILE).unlink()
    assert ladder_of(dataset) == before == stored_ladder(dataset)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"version":1}', b"\xff", b'{"version":1,"fingerprint":"x","ladder":{}}']
)
def test_a_damaged_one_is_measured_again(prepared: Path, content: bytes) -> None:
    dataset = open_dataset(prepared)
    before = stored_ladder(dataset)
    (prepared / FILE).write_bytes(content)
    assert stored_ladder(dataset) is None
    assert ladder_of(dataset) == before


@pytest.mark.parametrize("change", [{"fingerprint": "other data"}, {"version": 99}])
def test_one_of_other_data_or_of_another_version_is_not_used(prepared: Path, change: dict[str, object]) -> None:
    stored = json.loads((prepared / FILE).read_bytes())
    (prepared / FILE).write_text(json.dumps(stored | change), "utf-8")
    assert stored_ladder(open_dataset(prepared)) is None


def test_a_folder_of_nanogpt_gets_one(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    assert isinstance(ladder_of(open_dataset(tmp_path)), Ladder)
    assert (tmp_path / FILE).is_file()


def test_nothing_is_measured_where_it_cannot_be_kept(prepared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (prepared / FILE).unlink()
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    assert ladder_of(open_dataset(prepared)) is None


@pytest.mark.slow
def test_the_figures_for_tiny_shakespeare_are_those_of_the_docs(tmp_path: Path, shakespeare: Path) -> None:
    found = stored_ladder(open_dataset(prepare([shakespeare], tmp_path / "data", tokenizer="char")))
    assert found is not None
    wanted = [3.3473, 2.4835, 2.0381, 1.7190, 1.5611, 1.5226, 1.5165, 1.5192, 1.5220]
    assert found.losses == pytest.approx(wanted, abs=1e-4)
    row = " | ".join(f"{loss:.4f}" for loss in [found.guessing, *wanted])
    assert row in (Path(__file__).parents[2] / "docs/ladder.md").read_text("utf-8")
