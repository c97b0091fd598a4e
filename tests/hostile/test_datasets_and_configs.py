"""Malicious datasets and configuration files."""

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nanoscope.data.dataset import open_dataset
from nanoscope.errors import JobError

from .conftest import Refuses, bounded

Change = Callable[[dict[str, Any]], Any]


@pytest.fixture
def dataset(small_dataset: Callable[..., Path]) -> Path:
    return small_dataset()


def edited(dataset: Path, **changes: Any) -> dict[str, Any]:
    return {**json.loads((dataset / "meta.json").read_text("utf-8")), **changes}


def refused(dataset: Path) -> str:
    with bounded(), pytest.raises(JobError) as caught:
        open_dataset(dataset)
    assert len(str(caught.value).splitlines()) <= 3
    assert "\x1b" not in str(caught.value)
    return str(caught.value)


def splits(**train: Any) -> dict[str, Any]:
    shard = {"name": "train-00000.bin", "tokens": 10_521}
    meta = {"tokens": 10_521, "characters": 10_521, "bytes": 10_521, "shards": [shard]}
    return {"splits": {"train": {**meta, **train}, "val": meta}}


METAS: dict[str, dict[str, Any]] = {
    "a shard outside": splits(shards=[{"name": "../../../etc/passwd", "tokens": 5}]),
    "a shard by its whole path": splits(shards=[{"name": "/etc/passwd", "tokens": 5}]),
    "a shard with a line break": splits(shards=[{"name": "train-00000.bin\n", "tokens": 5}]),
    "one shard many times": splits(shards=[{"name": "train-00000.bin", "tokens": 10_521}] * 100_000),
    "more tokens than the file": splits(shards=[{"name": "train-00000.bin", "tokens": 2**62}]),
    "a number of tokens without end": splits(shards=[{"name": "train-00000.bin", "tokens": float("inf")}]),
    "no number of tokens": splits(shards=[{"name": "train-00000.bin", "tokens": float("nan")}]),
    "infinitely many characters": splits(characters=float("inf")),
    "characters beyond a float": splits(characters=10**400),
    "characters below zero": splits(characters=-5),
    "a vocabulary of texts": {"vocab_size": "\x1b[2J"},
    "a version to be shown": {"version": "\x1b]0;owned\x07"},
    "a fingerprint of a wrong kind": {"fingerprint": ["../"]},
    "a tokenizer by reference": {"tokenizer": "../../tokenizer.json"},
    "a tokenizer of another kind": {"tokenizer": {"kind": "\x1b[31m" * 1000}},
    "an alphabet of a wrong kind": {"tokenizer": {"kind": "char", "alphabet": ["a", "b"]}},
}


@pytest.mark.parametrize("name", METAS)
def test_a_hostile_meta_json_is_refused(name: str, dataset: Path) -> None:
    (dataset / "meta.json").write_text(json.dumps(edited(dataset, **METAS[name])), "utf-8")
    refused(dataset)


@pytest.mark.parametrize("text", ["", "\x00" * 100, "[" * 200_000, '{"a":' * 200_000, "9" * 100_000, "NaN", "\ud800"])
def test_an_invalid_meta_json_is_refused(text: str, dataset: Path) -> None:
    (dataset / "meta.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    refused(dataset)


def test_an_endless_meta_json_is_not_read(dataset: Path) -> None:
    with (dataset / "meta.json").open("wb") as file:
        file.truncate(1 << 31)
    assert "was not read" in refused(dataset)


def test_the_largest_json_that_is_read_takes_bounded_memory(
    dataset: Path, extra_megabytes: Callable[..., float]
) -> None:
    (dataset / "meta.json").write_bytes(b"[" + b"{}," * (8 * 2**20 // 3 - 10) + b"{}]")
    imports = "from nanoscope.data.dataset import open_dataset"
    assert extra_megabytes(imports, f"open_dataset({str(dataset)!r})") < 300


@pytest.mark.slow
def test_the_largest_vocabulary_takes_bounded_memory(dataset: Path, extra_megabytes: Callable[..., float]) -> None:
    merges = [[n % 256, n // 256] for n in range(65_536)] + [[n, n] for n in range(256, 65_000)]
    tokenizer = {"kind": "bpe", "words": 1, "merges": merges}
    (dataset / "meta.json").write_text(json.dumps(edited(dataset, tokenizer=tokenizer)), "utf-8")
    imports = "from nanoscope.data.dataset import open_dataset"
    assert extra_megabytes(imports, f"open_dataset({str(dataset)!r})") < 300


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs an endless file")
@pytest.mark.parametrize("name", ["meta.json", "train-00000.bin"])
def test_an_endless_file_is_refused(name: str, dataset: Path) -> None:
    (dataset / name).unlink()
    (dataset / name).symlink_to("/dev/zero")
    refused(dataset)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a named pipe")
@pytest.mark.parametrize("name", ["meta.json", "meta.pkl", "train.bin", "val.bin"])
def test_a_pipe_is_not_waited_for(name: str, tmp_path: Path) -> None:
    for file in ("train.bin", "val.bin"):
        (tmp_path / file).write_bytes(np.zeros(4, "<u2").tobytes())
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    if name in ("meta.json", "meta.pkl"):  # as if they were not there
        with bounded():
            assert open_dataset(tmp_path).vocab_size == 50304
    else:
        refused(tmp_path)


def test_token_ids_beyond_the_vocabulary_end_training_with_a_message(tmp_path: Path, refuses: Refuses) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": 3, "itos": {0: "a", 1: "b", 2: "c"}}))
    for name in ("train", "val"):
        (folder / f"{name}.bin").write_bytes(np.full(2000, 60_000, "<u2").tobytes())
    words = ["--n_layer=1", "--n_head=1", "--n_embd=8", "--block_size=8", "--batch_size=1", "--device=cpu"]
    assert "token id 60000" in refuses("train", f"--dataset={folder}", *words)


MAKE = "open('MARKER', 'w').close()"
PROGRAMS = {
    "a call": MAKE,
    "an import": "__import__('os').system('touch MARKER')",
    "an imported module": "import os\nos.system('touch MARKER')",
    "a call as a value": "batch_size = __import__('os').system('touch MARKER')",
    "a call in arithmetic": f"batch_size = 1 + ({MAKE} or 1)",
    "exec": f"exec({MAKE!r})",
    "a comprehension": f"batch_size = [{MAKE} for _ in range(10**9)]",
    "a generator": "batch_size = sum(x for x in iter(int, 1))",
    "a lambda": f"batch_size = (lambda: {MAKE})()",
    "an f-string": "out_dir = f\"{__import__('os').system('touch MARKER')}\"",
    "an f-string with a backslash": "out_dir = f\"{'a'!r:\\n}\"",
    "a decorator": f"@exec({MAKE!r})\ndef f(): pass",
    "a class": f"class A:\n    {MAKE}",
    "a default": f"def f(x={MAKE}): pass",
    "an annotation": f"batch_size: {MAKE} = 5",
    "a walrus": f"batch_size = (x := {MAKE})",
    "a subscript": f"a[{MAKE}] = 5",
    "an attribute": "batch_size = ().__class__.__bases__[0].__subclasses__()",
    "a condition": f"if {MAKE} or True:\n    batch_size = 5",
    "a loop": "while True: pass",
    "a tower of powers": "batch_size = 10**10**10",
    "a shift": "batch_size = 1 << 10**12",
    "a long text": "out_dir = 'a' * 10**12",
    "a list without end": "batch_size = [0] * 10**12",
    "texts that double": "a = 'x' * 1\n" + "out_dir = 'ab'\n" + "out_dir = out_dir + out_dir\n" * 100,
    "numbers that grow": "batch_size = 9\n" + "batch_size = batch_size * batch_size\n" * 100,
    "a number of 10,000 hexadecimal digits": "batch_size = 0x" + "f" * 10_000,
    "a number of 10,000 digits": "batch_size = " + "9" * 10_000,
    "deep brackets": "batch_size = " + "(" * 10_000,
    "deep lists": "batch_size = " + "[" * 150 + "]" * 150,
    "deep signs": "batch_size = " + "-" * 10_000 + "1",
    "deep operators": "batch_size = " + "1+" * 10_000 + "1",
    "deep calls": "batch_size = " + "f(" * 90 + ")" * 90,
    "deep attributes": "batch_size = a" + ".a" * 10_000,
    "deep conditions": "".join(" " * n + "if 1:\n" for n in range(99)),
    "a NUL byte": "batch_size = 5\x00",
    "an encoding": "# -*- coding: rot13 -*-\nbatch_size = 5\nsurprise = 1",
    "an escape sequence": "\x1b]0;owned\x07 = 5",
    "an escape sequence in a text": "recipe = '\\x1b]0;owned\\x07'",
    "a name without end": "a" * 20_000 + " = 5",
    "5,000 mistakes": "".join(f"x{n}=1\n" for n in range(2_500)),
    "a file without end": "# " + "x" * (1 << 20),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_hostile_nanogpt_config_is_read_and_not_run(name: str, tmp_path: Path, refuses: Refuses) -> None:
    (tmp_path / "train_evil.py").write_text(PROGRAMS[name], "utf-8")
    message = refuses("train", "train_evil.py", status=1 if name == "a file without end" else 2)
    assert len(message) < 10_000


TOMLS = {
    "deep arrays": "batch_size = " + "[" * 10_000,
    "deep tables": "a = " + "{a = " * 5_000,
    "dotted keys": "a" + ".a" * 10_000 + " = 1",
    "dotted keys in a table": "x = {a" + ".a" * 10_000 + " = 1}",
    "dotted headers": "[a" + ".a" * 10_000 + "]",
    "many tables": "".join(f"[a{n}]\n" for n in range(2_000)),
    "many keys": "".join(f"x{n}=1\n" for n in range(2_000)),
    "a number of 10,000 digits": "batch_size = " + "9" * 10_000,
    "a number of 10,000 hexadecimal digits": "batch_size = 0x" + "f" * 10_000,
    "a preset of 10,000 digits": "preset = 0x" + "f" * 10_000,
    "a preset elsewhere": 'preset = "../../../etc/passwd"',
    "presets": 'preset = ["laptop", "quick"]',
    "not a number": "batch_size = nan",
    "without end": "learning_rate = inf",
    "a date": "batch_size = 2031-01-01T00:00:00Z",
    "a NUL byte": "batch_size = 5\x00",
    "an escape sequence": '"\\u001b]0;owned\\u0007" = 5',
    "an escape sequence in a text": 'out_dir = "\\u001b]0;owned\\u0007"',
    "a name without end": "a" * 20_000 + " = 5",
    "a text without end": 'recipe = "' + "x" * 20_000 + '"',
    "a file without end": "# " + "x" * (1 << 20),
}


@pytest.mark.parametrize("name", TOMLS)
def test_a_hostile_toml_is_refused(name: str, tmp_path: Path, refuses: Refuses) -> None:
    (tmp_path / "evil.toml").write_text(TOMLS[name], "utf-8")
    message = refuses("train", "evil.toml", status=1 if name == "a file without end" else 2)
    assert len(message) < 10_000


def test_a_config_takes_bounded_memory(tmp_path: Path, extra_megabytes: Callable[..., float]) -> None:
    (tmp_path / "evil.py").write_text("batch_size = [" + "0," * 15_000 + "]", "utf-8")
    imports = "from nanoscope.config_sources import resolve"
    assert extra_megabytes(imports, "resolve(['evil.py'])") < 200
