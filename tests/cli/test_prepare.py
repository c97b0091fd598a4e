import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time

import pytest

from nanoscope.cli import run
from nanoscope.data.dataset import open_dataset

TEXT = "नदी के किनारे पुराना मंदिर है। The rain fell on the valley for forty days.\n" * 50


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my book.txt").write_text(TEXT, encoding="utf-8")
    return tmp_path


def test_prepare_says_where_the_dataset_is_and_what_to_type_next(here, capsys):
    assert run(["prepare", "my book.txt"]) == 0
    out = capsys.readouterr().out
    assert "data/my-book-char" in out
    assert "nanoscope train laptop --dataset=data/my-book-char" in out
    assert f"{int(len(TEXT) * 0.9):,} train" in out
    assert open_dataset(here / "data" / "my-book-char").tokenizer.kind == "char"


def test_json_prints_one_object(here, capsys):
    assert run(["prepare", "my book.txt", "--tokenizer=bpe", "--vocab_size=400", "--out=out/x", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    dataset = open_dataset(summary["dataset"])
    assert (summary["vocab_size"], summary["train_tokens"]) == (dataset.vocab_size, len(dataset.splits["train"]))
    assert summary["fingerprint"] == dataset.fingerprint


def test_a_mistake_gets_one_message_and_its_exit_status(here, capsys):
    (here / "empty.txt").write_bytes(b"")
    (here / "latin.txt").write_bytes(b"caf\xe9")
    for words, status, message in (
        ([], 2, "Nothing to prepare"),
        (["nowhere.txt"], 1, "no file or folder 'nowhere.txt'"),
        (["shakespear"], 1, "Did you mean the corpus shakespeare"),
        (["empty.txt"], 1, "empty.txt is empty"),
        (["latin.txt"], 1, "latin.txt is not UTF-8: byte 3"),
        (["my book.txt", "--tokenizer=bep"], 2, "Did you mean bpe"),
        (["my book.txt", "--val_fraction=2"], 2, "val_fraction"),
        (["my book.txt", "--vocabsize=300"], 2, "vocab_size"),
        (["my book.txt", "--out=my book.txt/x"], 1, "could not be written"),
    ):
        assert run(["prepare", *words]) == status
        error = capsys.readouterr().err
        assert message in error
        assert "Traceback" not in error
        assert len(error.splitlines()) <= 3


def test_a_text_on_which_nothing_can_be_trained_is_refused(here, capsys):
    (here / "tiny.txt").write_text("hello", "utf-8")
    assert run(["prepare", "tiny.txt"]) == 1
    assert "too short to train on" in capsys.readouterr().err
    assert not list(here.glob("data/*"))


def test_the_next_command_of_a_very_short_text_says_which_block_size_it_allows(here, capsys):
    (here / "short text.txt").write_text(TEXT[:200], "utf-8")
    assert run(["prepare", "short text.txt", "--out=data/short text", "--json"]) == 0
    program, *words = shlex.split(json.loads(capsys.readouterr().out)["next"])
    assert (program, run([*words, "--max_iters=1"])) == ("nanoscope", 1)
    assert "Use --block_size=19 or less" in capsys.readouterr().err


def test_a_text_of_ordinary_length_gets_no_warning(here, capsys):
    assert run(["prepare", "my book.txt", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["warnings"] == []
    assert summary["next"] == "nanoscope train laptop --dataset=data/my-book-char"


def test_a_vocabulary_smaller_than_asked_for_is_said(here, capsys):
    assert run(["prepare", "my book.txt", "--tokenizer=bpe", "--vocab_size=5000"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"warning: the vocabulary has \d+ tokens instead of 5,000", out)


def test_skipped_files_are_said_with_the_reason(here, capsys):
    (here / "texts").mkdir()
    (here / "my book.txt").rename(here / "texts/book.txt")
    (here / "texts/image.png").write_bytes(b"x")
    assert run(["prepare", "texts", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["skipped_files"], summary["warnings"]) == (1, ["skipped files: 1 .png"])


def test_a_second_preparation_needs_overwrite(here, capsys):
    assert run(["prepare", "my book.txt"]) == 0
    assert run(["prepare", "my book.txt"]) == 1
    assert "--overwrite" in capsys.readouterr().err
    assert run(["prepare", "my book.txt", "--overwrite"]) == 0


def test_several_sources_become_one_dataset(here, capsys):
    (here / "more.jsonl").write_text('{"body": "abc"}\n{"body": "def"}\n', encoding="utf-8")
    assert run(["prepare", "my book.txt", "more.jsonl", "--field=body", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["documents"] == 3


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is sent as a signal")
def test_ctrl_c_cleans_up_and_ends_with_130(here):
    (here / "long.txt").write_text("".join(f"word{i} " for i in range(3_000_000)), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "nanoscope", "prepare", "long.txt", "--tokenizer=bpe", "--out=data/x"],
        stderr=subprocess.PIPE,
        text=True,
    )
    while not list(here.glob("data/.x.preparing/*")):  # Ctrl-C inside an import, before that, leaves an empty folder
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in error
    assert list((here / "data").iterdir()) == []
