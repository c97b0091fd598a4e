import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from conftest import make_dataset
from nanoscope.data import dataset as module
from nanoscope.data.dataset import open_dataset
from nanoscope.data.find import find_dataset
from nanoscope.data.prepare import prepare
from nanoscope.errors import JobError, UsageError


@pytest.fixture
def prepared(tmp_path, text_of):
    (tmp_path / "a.txt").write_text(text_of("english", 40), encoding="utf-8")
    return prepare([tmp_path / "a.txt"], tmp_path / "prepared", tokenizer="char")


@pytest.fixture
def nanogpt(tmp_path):
    """A folder as nanoGPT's prepare.py for characters writes it."""
    folder = tmp_path / "shakespeare_char"
    folder.mkdir()
    (folder / "train.bin").write_bytes(np.array([0, 1, 2, 1] * 20, "<u2").tobytes())
    (folder / "val.bin").write_bytes(np.array([2, 2, 1, 0], "<u2").tobytes())
    write_pickle(folder, {"vocab_size": 3, "itos": {0: "\n", 1: "a", 2: "ब"}, "stoi": {"\n": 0, "a": 1, "ब": 2}})
    return folder


def write_pickle(folder, content):
    (folder / "meta.pkl").write_bytes(pickle.dumps(content))


def edit_meta(folder, **changes):
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    (folder / "meta.json").write_text(json.dumps(meta | changes), encoding="utf-8")


def test_tokens_are_read_across_shards(tmp_path, text_of, monkeypatch):
    monkeypatch.setattr(module, "SHARD_TOKENS", 100)
    text = text_of("english", 20)
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    dataset = open_dataset(prepare([tmp_path / "a.txt"], tmp_path / "out", tokenizer="char"))
    train = dataset.splits["train"]
    assert len(list(dataset.folder.glob("train-*.bin"))) > 5
    whole = dataset.tokenizer.encode(text)[: len(train)]
    for start, count in ((0, 1), (95, 5), (95, 10), (100, 100), (99, 202), (0, len(train)), (len(train) - 1, 1)):
        assert train.read(start, count).tolist() == whole[start : start + count].tolist()


def test_a_dataset_knows_its_folder_and_vocabulary(prepared):
    dataset = open_dataset(prepared)
    assert (dataset.folder, dataset.vocab_size) == (prepared, dataset.tokenizer.vocab_size)


def test_an_id_beyond_the_vocabulary_is_found_when_it_is_read(prepared):
    path = prepared / "train-00000.bin"
    ids = np.fromfile(path, "<u2")
    ids[100] = 999
    ids.tofile(path)
    train = open_dataset(prepared).splits["train"]
    train.read(0, 100)
    with pytest.raises(JobError, match=r"train-00000\.bin contains the token id 999"):
        train.read(90, 20)


def test_a_shard_that_was_cut_off_is_named(prepared):
    path = prepared / "val-00000.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(JobError, match=r"val-00000\.bin is damaged: it has"):
        open_dataset(prepared)


def test_a_shard_that_is_missing_is_named(prepared):
    (prepared / "train-00000.bin").unlink()
    with pytest.raises(JobError, match=r"train-00000\.bin is damaged: it has 0 bytes"):
        open_dataset(prepared)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"format": "other"}'])
def test_a_meta_json_that_is_not_ours_is_named(prepared, content):
    (prepared / "meta.json").write_bytes(content)
    with pytest.raises(JobError, match=r"meta\.json"):
        open_dataset(prepared)


SHARD = {"name": "train-00000.bin", "tokens": 5}


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"vocab_size": None},
        {"fingerprint": None},
        {"tokenizer": {"kind": "char", "alphabet": "aa"}},
        {"tokenizer": None},
        {"splits": None},
        {"splits": {"train": {}}},
        {"splits": {"train": {"characters": 5, "shards": []}}},
        {"splits": {"train": {"characters": "x", "shards": [SHARD]}}},
        {"splits": {"train": {"characters": 5, "shards": [SHARD | {"tokens": 0}]}}},
        {"splits": {"train": {"characters": 5, "shards": [SHARD | {"tokens": "5"}]}}},
        {"splits": {"train": {"characters": 5, "shards": [SHARD | {"name": "../prepared/train-00000.bin"}]}}},
        {"splits": {"train": {"characters": 5, "shards": [SHARD | {"name": 7}]}}},
    ],
)
def test_a_meta_json_that_was_tampered_with_is_refused(prepared, changes):
    edit_meta(prepared, **changes)
    with pytest.raises(JobError):
        open_dataset(prepared)


def test_a_folder_without_a_dataset_says_how_to_prepare_one(tmp_path):
    with pytest.raises(JobError, match="nanoscope prepare FILE --out"):
        open_dataset(tmp_path)


def test_a_nanogpt_folder_is_read_without_conversion(nanogpt):
    dataset = open_dataset(nanogpt)
    assert (dataset.vocab_size, dataset.tokenizer.kind) == (3, "char")
    assert dataset.tokenizer.decode(dataset.splits["val"].read(0, 4)) == "बबa\n"


def test_a_nanogpt_folder_without_metadata_has_gpt2_ids(nanogpt):
    (nanogpt / "meta.pkl").unlink()
    dataset = open_dataset(nanogpt)
    assert (dataset.vocab_size, dataset.tokenizer.kind) == (50304, "gpt2")


def test_a_nanogpt_folder_with_a_custom_tokenizer_can_be_trained_on(nanogpt):
    write_pickle(nanogpt, {"vocab_size": 3, "itos": {0: "<pad>", 1: "ab", 2: "c"}})
    dataset = open_dataset(nanogpt)
    assert (dataset.vocab_size, dataset.tokenizer) == (3, None)


def test_the_fingerprint_of_a_nanogpt_folder_follows_its_content(nanogpt):
    before = open_dataset(nanogpt).fingerprint
    assert open_dataset(nanogpt).fingerprint == before
    (nanogpt / "val.bin").write_bytes(np.array([2, 2, 1, 1], "<u2").tobytes())
    assert open_dataset(nanogpt).fingerprint != before


class Hostile:
    def __init__(self, proof):
        self.proof = proof

    def __reduce__(self):
        return os.mkdir, (str(self.proof),)


def test_a_hostile_pickle_is_refused_and_nothing_in_it_is_run(nanogpt, tmp_path):
    proof = tmp_path / "it was run"
    pickle.loads(pickle.dumps(Hostile(proof)))
    assert proof.exists()  # the pickle is a dangerous one indeed
    proof.rmdir()
    for content in (Hostile(proof), {"vocab_size": 3, "itos": {0: Hostile(proof)}}):
        write_pickle(nanogpt, content)
        with pytest.raises(JobError, match=r"meta\.pkl is not nanoGPT's metadata .*mkdir"):
            open_dataset(nanogpt)
        assert not proof.exists()


@pytest.mark.parametrize(
    "content", [[], 5, {"vocab_size": "3"}, {"vocab_size": 0}, {"vocab_size": 10**9}, {"itos": 7}, {}]
)
def test_a_damaged_pickle_is_refused(nanogpt, content):
    write_pickle(nanogpt, content)
    with pytest.raises(JobError, match=r"meta\.pkl"):
        open_dataset(nanogpt)


@pytest.mark.parametrize(("name", "content"), [("val.bin", b""), ("train.bin", b"abc"), ("val.bin", None)])
def test_a_damaged_nanogpt_folder_names_the_file(nanogpt, name, content):
    (nanogpt / name).unlink()
    if content is not None:
        (nanogpt / name).write_bytes(content)
    with pytest.raises(JobError, match=name.replace(".", r"\.")):
        open_dataset(nanogpt)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_dataset_is_found_by_its_path_or_by_its_name_under_data(here, prepared, nanogpt):
    assert find_dataset(str(prepared)) == prepared
    (here / "data").mkdir()
    nanogpt.rename(here / "data" / nanogpt.name)
    found = find_dataset("shakespeare_char", tokenizer="char")
    assert open_dataset(found).vocab_size == 3


def test_a_dataset_with_the_wrong_tokenizer_is_refused_and_both_are_named(prepared):
    with pytest.raises(UsageError, match="with the char tokenizer, not with bpe"):
        find_dataset(str(prepared), tokenizer="bpe")


def test_a_known_corpus_is_prepared_on_first_use_and_found_afterwards(here, shakespeare, capsys):
    folder = find_dataset("shakespeare_char")
    assert folder.as_posix() == "data/shakespeare-char"
    assert capsys.readouterr().out.count("\n") == 1
    assert find_dataset("shakespeare") == folder
    assert find_dataset("shakespeare", tokenizer="byte").name == "shakespeare-byte"
    assert capsys.readouterr().out.startswith("preparing shakespeare with the byte tokenizer")


def test_a_text_file_as_dataset_says_how_to_prepare_it(here):
    (here / "book.txt").write_text("text", encoding="utf-8")
    with pytest.raises(UsageError, match=r"nanoscope prepare book\.txt --out data/book"):
        find_dataset("book.txt")


def test_names_are_quoted_in_the_commands_about_a_missing_dataset(here):
    (here / "my book.txt").write_text("text", encoding="utf-8")
    with pytest.raises(UsageError, match=r"nanoscope prepare 'my book\.txt' --out 'data/my book'$"):
        find_dataset("my book.txt")


def test_a_dataset_of_nanogpt_that_is_not_prepared_gets_its_own_script(here):
    with pytest.raises(UsageError, match=r"nanoscope prepare FILE --tokenizer=gpt2 --out data/openwebtext$"):
        find_dataset("openwebtext", "gpt2")
    (here / "data/openwebtext").mkdir(parents=True)
    (here / "data/openwebtext/prepare.py").touch()
    for name in ("openwebtext", "data/openwebtext"):
        with pytest.raises(UsageError, match=r"python data/openwebtext/prepare\.py$"):
            find_dataset(name)


@pytest.fixture
def project(here, small_dataset):
    """A project with a dataset and the config.toml of a run on it, as training writes it; elsewhere is beside it."""
    dataset = open_dataset(small_dataset())
    run = here / "project/runs/mine"
    run.mkdir(parents=True)
    (here / "elsewhere").mkdir()
    (here / "data").rename(here / "project/data")
    folder = here / "project/data/song"
    (run / "config.toml").write_text(
        f'dataset = "data/song"\nout_dir = "runs/mine"\n\n[environment]\ndata_folder = "{folder.as_posix()}"\n'
        f'dataset_fingerprint = "{dataset.fingerprint}"\n',
        "utf-8",
    )
    return here / "project"


def test_the_dataset_of_a_run_is_found_from_another_folder(here, project, monkeypatch):
    monkeypatch.chdir(here / "elsewhere")
    with pytest.raises(UsageError, match="no dataset"):
        find_dataset("data/song")
    for run in (project / "runs/mine", Path("../project/runs/mine")):
        assert find_dataset("data/song", run=run).samefile(project / "data/song")


def test_it_is_found_where_it_was_after_the_run_was_moved(here, project):
    run = (project / "runs/mine").rename(here / "mine")
    assert find_dataset("data/song", run=run).samefile(project / "data/song")


def test_another_dataset_of_the_same_name_is_not_taken_for_the_runs_own(here, project, monkeypatch):
    make_dataset(here / "elsewhere", "something else entirely\n" * 50)
    monkeypatch.chdir(here / "elsewhere")
    assert find_dataset("data/song", run=project / "runs/mine").samefile(project / "data/song")
    assert find_dataset("data/song") == Path("data/song")


def test_another_dataset_that_was_asked_for_is_not_replaced_by_the_runs_own(here, project, monkeypatch):
    make_dataset(here / "elsewhere", name="poems")
    monkeypatch.chdir(here / "elsewhere")
    assert find_dataset("poems", run=project / "runs/mine") == Path("data/poems")


@pytest.mark.parametrize("content", ["", "dataset = [", 'dataset = "data/song"\nout_dir = 5\nenvironment = 3', "\0"])
def test_a_damaged_config_of_a_run_leaves_the_dataset_where_it_is_named(content, project, monkeypatch):
    (project / "runs/mine/config.toml").write_text(content, "utf-8")
    monkeypatch.chdir(project)
    assert find_dataset("data/song", run=project / "runs/mine") == Path("data/song")


def test_an_unknown_dataset_gets_did_you_mean(here, prepared):
    (here / "data").mkdir()
    prepared.rename(here / "data" / "novel")
    for typed, meant in (("nvoel", "novel"), ("shakespere", "shakespeare"), ("data/novle", "novel")):
        with pytest.raises(UsageError, match=f"Did you mean {meant}"):
            find_dataset(typed)
    with pytest.raises(UsageError, match=r"no dataset 'zzz'\.\nAvailable: .*novel"):
        find_dataset("zzz")
