import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from nanoscope.data import dataset as module
from nanoscope.data.dataset import open_dataset
from nanoscope.data.prepare import default_folder, prepare
from nanoscope.data.tokenizer import CharTokenizer, Gpt2Tokenizer
from nanoscope.errors import JobError, UsageError


def ids(dataset, split):
    tokens = dataset.splits[split]
    return tokens.read(0, len(tokens))


def texts(dataset):
    return [dataset.tokenizer.decode(ids(dataset, split)) for split in ("train", "val")]


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        return path

    return write


def test_shakespeare_by_characters_is_nanogpts_dataset(shakespeare, tmp_path):
    dataset = open_dataset(prepare(["shakespeare"], tmp_path / "out", tokenizer="char"))
    assert (len(dataset.splits["train"]), len(dataset.splits["val"]), dataset.vocab_size) == (1_003_854, 111_540, 65)
    text = shakespeare.read_text(encoding="utf-8")
    alphabet = sorted(set(text))
    assert ids(dataset, "train")[:1000].tolist() == [alphabet.index(character) for character in text[:1000]]


def test_shakespeare_with_gpt2_is_nanogpts_dataset(shakespeare, gpt2_vocabulary, tmp_path):
    dataset = open_dataset(prepare(["shakespeare"], tmp_path / "out", tokenizer="gpt2"))
    assert (len(dataset.splits["train"]), len(dataset.splits["val"])) == (301_966, 36_059)


@pytest.mark.parametrize("kind", ["char", "byte", "bpe"])
def test_every_script_is_decoded_to_the_original_text(language, kind, write, text_of, tmp_path):
    text = text_of(language, 300)
    out = prepare([write("a.txt", text)], tmp_path / "out", tokenizer=kind, vocab_size=500 if kind == "bpe" else None)
    dataset = open_dataset(out)
    train, val = texts(dataset)
    assert train == text[: int(len(text) * 0.9)]
    assert train + val == text
    meta = json.loads((out / "meta.json").read_text(encoding="utf-8"))
    assert sum(split["characters"] for split in meta["splits"].values()) == len(text)
    assert sum(split["bytes"] for split in meta["splits"].values()) == len(text.encode())
    tokens = ids(dataset, "train")
    assert tokens.max() < dataset.vocab_size


def test_cutting_the_text_into_batches_does_not_change_its_tokens(write, text_of, tmp_path, monkeypatch):
    text = "  ".join(text_of(name, 30) for name in ("english", "hindi", "arabic")) + "\n\n \n  end  "
    path = write("a.txt", text)
    whole = open_dataset(prepare([path], tmp_path / "whole", tokenizer="bpe", vocab_size=600))
    monkeypatch.setattr(module, "PIECE_CHARACTERS", 40)  # longer than any word
    cut = open_dataset(prepare([path], tmp_path / "cut", tokenizer="bpe", vocab_size=600))
    assert cut.fingerprint == whole.fingerprint
    for split in ("train", "val"):
        assert ids(cut, split).tolist() == ids(whole, split).tolist()


@pytest.mark.parametrize("text", ["x" * 5000, " " * 5000, "न" * 5000, "\n" * 5000])
def test_a_text_without_word_boundaries_is_decoded_to_the_original_text(text, write, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PIECE_CHARACTERS", 64)
    dataset = open_dataset(prepare([write("a.txt", text)], tmp_path / "out", tokenizer="bpe", vocab_size=300))
    assert "".join(texts(dataset)) == text


def test_a_few_documents_are_separated_and_the_end_is_for_validation(write, tmp_path):
    sources = [write("a.txt", "one two " * 20), write("b.txt", "two one " * 20)]
    by_char = open_dataset(prepare(sources, tmp_path / "char", tokenizer="char"))
    assert "".join(texts(by_char)) == "one two " * 20 + "\n" + "two one " * 20 + "\n"
    by_bpe = open_dataset(prepare(sources, tmp_path / "bpe", tokenizer="bpe", vocab_size=300))
    end = by_bpe.tokenizer.end_of_text
    assert [int((ids(by_bpe, split) == end).sum()) for split in ("train", "val")] == [1, 1]
    assert ids(by_bpe, "val")[-1] == end


def test_a_single_text_gets_no_separator(write, tmp_path):
    dataset = open_dataset(prepare([write("a.txt", "abc " * 20)], tmp_path / "out", tokenizer="bpe", vocab_size=300))
    assert dataset.tokenizer.end_of_text not in np.concatenate([ids(dataset, "train"), ids(dataset, "val")])


def test_many_documents_are_split_by_document_whatever_their_order(write, tmp_path):
    rows = [json.dumps({"text": f"document {i} of many"}) for i in range(400)]
    chosen = []
    for name, order in (("a", rows), ("b", rows[::-1])):
        source = write(f"{name}.jsonl", "\n".join(order))
        train, val = texts(open_dataset(prepare([source], tmp_path / name, tokenizer="char", val_fraction=0.25)))
        assert sorted((train + val).splitlines()) == sorted(f"document {i} of many" for i in range(400))
        chosen.append(set(val.splitlines()))
    assert chosen[0] == chosen[1]
    assert 60 < len(chosen[0]) < 140


def test_many_equal_documents_give_both_splits(write, tmp_path):
    source = write("a.jsonl", '{"text": "always the same"}\n' * 200)
    dataset = open_dataset(prepare([source], tmp_path / "out", tokenizer="char"))
    assert len(dataset.splits["val"]) > 100


def test_an_alphabet_beyond_uint16_is_written_as_uint32(write, tmp_path):
    text = "".join(map(chr, range(0x10000, 0x10000 + 70_000)))
    dataset = open_dataset(prepare([write("a.txt", text)], tmp_path / "out", tokenizer="char"))
    assert dataset.splits["train"].read(0, 5).dtype == np.uint32
    assert "".join(texts(dataset)) == text


def test_the_fingerprint_follows_text_and_tokenizer(write, tmp_path, text_of):
    text = text_of("english", 40)
    first, other = write("a.txt", text), write("b.txt", text.replace("lamp", "lump"))
    prints = [
        open_dataset(prepare([source], tmp_path / f"{i}", tokenizer=kind)).fingerprint
        for i, (source, kind) in enumerate([(first, "char"), (first, "char"), (other, "char"), (first, "byte")])
    ]
    assert prints[0] == prints[1]
    assert len(set(prints)) == 3


def test_auto_chooses_by_size(write, tmp_path, monkeypatch):
    monkeypatch.setattr("nanoscope.data.prepare.CHAR_BELOW_BYTES", 100)
    small, large = write("small.txt", "abc " * 20), write("large.txt", "abc " * 30)
    assert open_dataset(prepare([small], tmp_path / "a")).tokenizer.kind == "char"
    assert open_dataset(prepare([large], tmp_path / "b")).tokenizer.kind == "bpe"


@pytest.mark.parametrize("name", ["shakespeare", "shakespeare_char"])
def test_auto_is_the_default_of_a_corpus(name, shakespeare, tmp_path, monkeypatch):
    monkeypatch.setattr("nanoscope.data.prepare.CHAR_BELOW_BYTES", 0)
    assert open_dataset(prepare([name], tmp_path / "out")).tokenizer.kind == "char"


@pytest.mark.parametrize(
    ("source", "name"),
    [("shakespeare_char", "shakespeare"), ("my book.txt", "my-book"), ("a/b.jsonl", "b"), ("texts/", "texts")],
)
def test_a_dataset_is_named_after_its_first_source_and_its_tokenizer(source, name):
    assert default_folder(source, "bpe").as_posix() == f"data/{name}-bpe"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokenizer": "chr"}, "Did you mean char"),
        ({"tokenizer": "char", "vocab_size": 500}, "only for the bpe tokenizer"),
        ({"tokenizer": "bpe", "vocab_size": 256}, "between 257"),
        ({"tokenizer": "bpe", "vocab_size": 10**9}, "between 257"),
        ({"val_fraction": 0.0}, "val_fraction"),
        ({"val_fraction": 1.0}, "val_fraction"),
        ({"val_fraction": float("nan")}, "val_fraction"),
    ],
)
def test_invalid_options_are_usage_errors(options, message, write, tmp_path):
    with pytest.raises(UsageError, match=message):
        prepare([write("a.txt", "text")], tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_a_text_too_short_to_split_is_refused(write, tmp_path):
    with pytest.raises(JobError, match="too short"):
        prepare([write("a.txt", "x")], tmp_path / "out", tokenizer="char")


def test_rows_without_any_text_are_refused(write, tmp_path):
    with pytest.raises(JobError, match="no text"):
        prepare([write("a.jsonl", '{"text": ""}\n{"text": null}\n')], tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl"]


def test_a_prepared_dataset_is_replaced_only_with_overwrite(write, tmp_path):
    out = prepare([write("a.txt", "first text " * 9)], tmp_path / "out", tokenizer="char")
    other = write("b.txt", "another one " * 9)
    with pytest.raises(JobError, match="--overwrite"):
        prepare([other], out, tokenizer="char")
    assert "first" in texts(open_dataset(out))[0]
    prepare([other], out, tokenizer="char", overwrite=True)
    assert "another" in texts(open_dataset(out))[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b.txt", "out"]


def test_a_folder_with_other_things_in_it_is_never_replaced(write, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work", encoding="utf-8")
    with pytest.raises(JobError, match="choose another folder"):
        prepare([write("a.txt", "text " * 9)], tmp_path / "mine", overwrite=True)
    assert (tmp_path / "mine" / "thesis.tex").exists()


def test_an_empty_folder_may_be_filled(write, tmp_path):
    (tmp_path / "out").mkdir()
    open_dataset(prepare([write("a.txt", "text " * 9)], tmp_path / "out"))


def test_an_output_folder_that_cannot_be_made_is_named(write, tmp_path):
    with pytest.raises(JobError, match="could not be written"):
        prepare([write("a.txt", "text " * 9)], write("file", "in the way") / "out")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="needs a user whom permissions stop")
def test_a_read_only_output_folder_is_named(write, tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(JobError, match="Permission denied"):
        prepare([write("a.txt", "text " * 9)], tmp_path / "locked" / "out")


SLOWLY = """
import sys
from pathlib import Path
from nanoscope.data import dataset as module
from nanoscope.data.prepare import prepare
module.PIECE_CHARACTERS = 16  # a write for every word
prepare([sys.argv[1]], Path(sys.argv[2]), tokenizer="char")
"""


@pytest.mark.slow
def test_a_killed_preparation_leaves_no_dataset_and_the_next_one_cleans_up(write, tmp_path):
    source, out = write("a.txt", "some words to go through " * 200_000), tmp_path / "data" / "out"
    process = subprocess.Popen([sys.executable, "-c", SLOWLY, str(source), str(out)])
    try:
        while not list(tmp_path.glob("data/.out.preparing/train-00000.bin")):
            assert process.poll() is None
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait()
    assert sorted(path.name for path in out.parent.iterdir()) == [".out.lock", ".out.preparing"]
    open_dataset(prepare([source], out, tokenizer="char"))
    assert list(out.parent.iterdir()) == [out]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is sent as a signal")
def test_an_interrupted_preparation_leaves_nothing(write, tmp_path):
    source, out = write("a.txt", "some words to go through " * 200_000), tmp_path / "data" / "out"
    process = subprocess.Popen([sys.executable, "-c", SLOWLY, str(source), str(out)], stderr=subprocess.DEVNULL)
    while not list(tmp_path.glob("data/.out.preparing/train-00000.bin")):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait() != 0
    assert list(out.parent.iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="limits are set as on Unix")
def test_a_full_disk_is_reported_and_leaves_nothing(write, tmp_path):
    source, out = write("a.txt", "some words to go through " * 9_000), tmp_path / "data" / "out"
    code = (
        "import resource, sys\nfrom pathlib import Path\nfrom nanoscope.data.prepare import prepare\n"
        "from nanoscope.errors import JobError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try:\n    prepare([sys.argv[1]], Path(sys.argv[2]), tokenizer='char')\n"
        "except JobError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, source, out], capture_output=True, text=True, check=True)
    assert "could not be written" in done.stdout
    assert list(out.parent.iterdir()) == []


def test_of_two_preparations_of_the_same_folder_one_waits(write, tmp_path):
    source, out = write("a.txt", "text " * 9), tmp_path / "[out]"
    done = []
    with module.dataset_folder(out, overwrite=False) as folder:
        (folder / "half").touch()
        thread = threading.Thread(target=lambda: done.append(prepare([source], out)))
        thread.start()
        thread.join(0.5)
        assert (done, list(folder.iterdir())) == ([], [folder / "half"])
        (folder / "half").unlink()
    thread.join()
    assert done == [out]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["[out]", "a.txt"]


def test_a_leftover_of_a_killed_process_is_removed(write, tmp_path):
    leftover = tmp_path / ".out.preparing"
    leftover.mkdir()
    prepare([write("a.txt", "text " * 9)], tmp_path / "out")
    assert not leftover.exists()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory from /proc")
def test_memory_does_not_grow_with_the_text(tmp_path):
    code = (
        "import sys\nfrom pathlib import Path\nfrom nanoscope.data.prepare import prepare\n"
        "prepare([sys.argv[1]], Path(sys.argv[2]), tokenizer='byte')\n"
        "print(Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0])\n"
    )
    peaks = []
    for megabytes in (8, 64):
        source = tmp_path / f"{megabytes}.txt"
        source.write_bytes(b"words and words " * (megabytes << 16))
        arguments = [sys.executable, "-c", code, str(source), str(tmp_path / f"out{megabytes}")]
        peaks.append(int(subprocess.run(arguments, capture_output=True, text=True, check=True).stdout))
    assert peaks[1] < peaks[0] * 1.2


def test_progress_goes_from_reading_to_encoding(write, tmp_path):
    reported = []
    prepare(
        [write("a.txt", "text " * 500_000)],
        tmp_path / "out",
        tokenizer="bpe",
        vocab_size=300,
        on_progress=lambda stage, fraction: reported.append((str(stage), fraction)),
    )
    stages = ["reading", "training the tokenizer", "encoding", "measuring n-gram models"]
    assert list(dict.fromkeys(stage for stage, _ in reported)) == stages
    encoding = [fraction for stage, fraction in reported if stage == "encoding"]
    assert encoding == sorted(encoding)
    assert encoding[-1] == 1.0


def test_the_dataset_has_the_requested_tokenizer(write, tmp_path, gpt2_vocabulary):
    source = write("a.txt", "abcab " * 20)
    assert isinstance(open_dataset(prepare([source], tmp_path / "c", tokenizer="char")).tokenizer, CharTokenizer)
    assert isinstance(open_dataset(prepare([source], tmp_path / "g", tokenizer="gpt2")).tokenizer, Gpt2Tokenizer)


def test_meta_json_lists_the_sources_as_given(write, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("a.txt", "text " * 9)
    prepare(["a.txt"], Path("out"))
    assert json.loads((tmp_path / "out" / "meta.json").read_text(encoding="utf-8"))["sources"] == ["a.txt"]
