"""Checkpoints that someone has tampered with are refused with one message, before they take memory."""

import contextlib
import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from nanoscope import cli
from nanoscope.checkpoint_files import state_checksum
from nanoscope.files import file_sha256
from nanoscope.model.checkpoint import find_checkpoint

from .conftest import Refuses

Tamper = Callable[[Path], None]


@pytest.fixture
def run(small_run: Path, tmp_path: Path) -> Path:
    """A run with one checkpoint, to be tampered with."""
    shutil.copytree(small_run, tmp_path / "run")
    shutil.copytree(small_run.parent / "data", tmp_path / "data")
    folders = sorted((tmp_path / "run/checkpoints").glob("step-*"))
    for folder in folders[:-1]:
        shutil.rmtree(folder)
    return tmp_path / "run"


def checkpoint_of(run: Path) -> Path:
    return next((run / "checkpoints").glob("step-*"))


def edit_state(run: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change state.json and correct its checksums, as an attacker would."""
    folder = checkpoint_of(run)
    state = json.loads((folder / "state.json").read_text("utf-8"))
    state["sha256"] = {name: file_sha256(folder / name) for name in state["sha256"] if (folder / name).is_file()}
    change(state)
    state["checksum"] = state_checksum(state)
    (folder / "state.json").write_text(json.dumps(state), "utf-8")


def put(*path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(state: dict[str, Any]) -> None:
        for key in path[:-1]:
            state = state[key]
        state[path[-1]] = value

    return change


SHAPES = [
    ("n_layer", 10**12), ("n_layer", 10**30), ("n_layer", 10**5), ("n_layer", 0), ("n_layer", -1), ("n_layer", "1"),
    ("n_layer", True), ("n_layer", None), ("n_layer", 1.0), ("n_layer", [1]), ("n_embd", 10**9), ("n_embd", 2**39),
    ("n_head", 0), ("n_head", 3), ("n_head", 10**6), ("n_head", 16), ("vocab_size", 2**39), ("block_size", 10**12),
    ("block_size", 2**39), ("ngrams", 10**9), ("ngrams", 2**39), ("dropout", "x"), ("dropout", float("nan")),
    ("dropout", 1e308), ("bias", 1), ("recipe", "classic"), ("recipe", "../../evil"), ("recipe", ["modern"]),
    ("extra", 1),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("key", "value"), SHAPES)
def test_a_shape_that_the_weights_do_not_have_is_refused(key: str, value: Any, run: Path, refuses: Refuses) -> None:
    edit_state(run, put("model", key, value=value))
    assert "is incomplete or damaged" in refuses("sample", "run", "--max_new_tokens=1", "--device=cpu")


@pytest.mark.slow
def test_a_huge_shape_takes_no_memory(run: Path, extra_megabytes: Callable[..., float]) -> None:
    edit_state(
        run, put("model", value={"vocab_size": 2**39, "block_size": 2**39, "n_layer": 3, "n_head": 1, "n_embd": 2**39})
    )
    imports = "from pathlib import Path\nfrom nanoscope.model.checkpoint import find_checkpoint"
    assert extra_megabytes(imports, f"find_checkpoint(Path({str(run)!r}))") < 100


PROGRESS = [
    ("step", -1), ("step", "5"), ("step", 2**80), ("step", 1e300), ("step", None), ("step", []), ("sequences", 2**70),
    ("best_val_loss", "\x1b[31m"), ("best_val_loss", float("inf")), ("best_val_loss", {}), ("best_step", "x"),
    ("evaluated_at", 1.5), ("evaluations_since_best", True), ("surprise", 1),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value"), PROGRESS)
def test_progress_of_the_wrong_type_is_refused(key: str, value: Any, run: Path, refuses: Refuses) -> None:
    edit_state(run, put("progress", key, value=value))
    assert "is incomplete or damaged" in refuses("train", "run", "--init_from=resume", "--max_iters=3")


@pytest.mark.parametrize(
    "state",
    [
        "", "null", "[]", "7", '"text"', "{}", "{" * 100_000, "[" * 100_000, '{"version": ' + "9" * 5000 + "}",
        '{"version": 2}', '{"version": "\\u001b]0;owned\\u0007"}', "\x00" * 1000, '{"version": 1, "sha256": [1]}',
        '{"version": 1, "sha256": {}}', '{"version": 1, "sha256": {"model.safetensors": {}}}',
    ],
)  # fmt: skip
def test_an_invalid_state_is_refused(state: str, run: Path, refuses: Refuses) -> None:
    (checkpoint_of(run) / "state.json").write_text(state, "utf-8")
    assert "\x1b" not in refuses("sample", "run")


@pytest.mark.parametrize("key", ["version", "sha256", "model", "progress", "scaler", "run"])
@pytest.mark.parametrize("value", [None, 7, "x", [], [[1]], {"a": [1]}, {"a": {"b": 1}}])
def test_a_part_of_the_state_of_the_wrong_type_is_refused(key: str, value: Any, run: Path, refuses: Refuses) -> None:
    edit_state(run, put(key, value=value))
    refuses("sample", "run")


@pytest.mark.parametrize(
    "name", ["../../../secret", "/etc/passwd", "..", ".", "", "a/b", "con\x00", "x" * 5000, "\x1b[2J"]
)
def test_a_file_name_in_the_state_cannot_leave_the_checkpoint(name: str, run: Path, refuses: Refuses) -> None:
    (run.parent / "secret").write_text("secret", "utf-8")
    edit_state(run, lambda state: state["sha256"].update({name: file_sha256(run.parent / "secret")}))
    assert "\x1b" not in refuses("sample", "run")


def test_weights_without_a_checksum_are_refused(run: Path, refuses: Refuses) -> None:
    edit_state(run, lambda state: state["sha256"].pop("model.safetensors"))
    refuses("sample", "run")


def header(**tensors: Any) -> bytes:
    text = json.dumps(tensors).encode()
    return struct.pack("<Q", len(text)) + text


FLOATS = {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}
TWICE = b'{"a":%s,"a":%s}' % (json.dumps(FLOATS).encode(), json.dumps(FLOATS).encode())
HEADERS = {
    "a header of 2^63 bytes": struct.pack("<Q", 2**63) + b"{}",
    "a header of 100 MB": struct.pack("<Q", 100_000_000) + b"{" + b" " * 1000,
    "a header longer than the file": struct.pack("<Q", 3_000_000) + b"{}",
    "overlapping tensors": header(a=FLOATS, b={**FLOATS, "data_offsets": [8, 24]}) + bytes(24),
    "a hole": header(a=FLOATS, b={**FLOATS, "data_offsets": [32, 48]}) + bytes(48),
    "negative offsets": header(a={**FLOATS, "data_offsets": [-16, 0]}) + bytes(16),
    "offsets beyond the file": header(a={**FLOATS, "data_offsets": [0, 2**40], "shape": [2**38]}),
    "a shape that overflows": header(a={**FLOATS, "shape": [2**33, 2**33]}) + bytes(16),
    "a negative shape": header(a={**FLOATS, "shape": [-2, -2]}) + bytes(16),
    "a shape of texts": header(a={**FLOATS, "shape": ["4"]}) + bytes(16),
    "another type": header(a={**FLOATS, "dtype": "O"}) + bytes(16),
    "a shorter type": header(a={**FLOATS, "dtype": "F64"}) + bytes(16),
    "numbers of four bits": header(a={"dtype": "F4", "shape": [4], "data_offsets": [0, 2]}) + bytes(2),
    "NaN": struct.pack("<Q", 11) + b'{"a": NaN }' + bytes(16),
    "no JSON": struct.pack("<Q", 4) + b"\x80\x04N.",
    "a list": struct.pack("<Q", 2) + b"[]",
    "deep nesting": struct.pack("<Q", 100_000) + b'{"a":' * 20_000,
    "metadata of a wrong kind": header(__metadata__=7),
    "one name twice": struct.pack("<Q", len(TWICE)) + TWICE + bytes(16),
    "no tensor": header(),
    "other tensors": header(a=FLOATS) + bytes(16),
    "nothing": b"",
    "seven bytes": b"\x01" * 7,
    "a pickle": b"\x80\x04cos\nsystem\n(S'touch MARKER'\ntR.",
}  # fmt: skip


RESUME = ("train", "run", "--init_from=resume", "--max_iters=3")


@pytest.mark.parametrize("name", HEADERS)
@pytest.mark.parametrize("file", ["model.safetensors", "optimizer.safetensors"])
def test_a_safetensors_file_that_lies_is_refused(name: str, file: str, run: Path, refuses: Refuses) -> None:
    (checkpoint_of(run) / file).write_bytes(HEADERS[name])
    edit_state(run, lambda state: None)
    if file == "optimizer.safetensors" and name in (
        "no tensor",
        "other tensors",
        "one name twice",
        "numbers of four bits",
    ):
        pytest.skip("a whole file without state of the model's parameters: the optimizer begins anew")
    refuses(*(("sample", "run", "--device=cpu") if file == "model.safetensors" else RESUME))


@pytest.mark.slow
def test_many_empty_tensors_are_refused_at_once(run: Path, refuses: Refuses) -> None:
    tensors = {
        f"blocks.{n}.qkv.weight": {"dtype": "F32", "shape": [0, 0], "data_offsets": [0, 0]} for n in range(40_000)
    }
    (checkpoint_of(run) / "model.safetensors").write_bytes(header(**tensors))
    edit_state(run, put("model", "n_layer", value=40_000))
    refuses("sample", "run")


@pytest.mark.slow
def test_a_safetensors_header_takes_little_memory(run: Path, extra_megabytes: Callable[..., float]) -> None:
    file = checkpoint_of(run) / "model.safetensors"
    file.write_bytes(struct.pack("<Q", 90_000_000) + b'{"a":[' + b"1," * 45_000_000)
    edit_state(run, lambda state: None)
    imports = "from pathlib import Path\nfrom nanoscope.model.checkpoint import find_checkpoint"
    assert extra_megabytes(imports, f"find_checkpoint(Path({str(run)!r}))") < 50


def test_optimizer_state_of_another_shape_is_refused(run: Path, refuses: Refuses) -> None:
    file = checkpoint_of(run) / "optimizer.safetensors"
    save_file({name: torch.zeros(3, 3) for name in load_file(file)}, file)
    edit_state(run, lambda state: None)
    assert "does not fit the model" in refuses("train", "run", "--init_from=resume", "--max_iters=3")


def test_weights_that_are_not_numbers_are_reported(run: Path, refuses: Refuses) -> None:
    file = checkpoint_of(run) / "model.safetensors"
    save_file({name: torch.full_like(tensor, torch.nan) for name, tensor in load_file(file).items()}, file)
    edit_state(run, lambda state: None)
    assert "can't sample" in refuses("sample", "run", "--device=cpu")


TOKENIZERS = [
    "null", "[]", "7", "{}", '{"kind": "char"}', '{"kind": "char", "alphabet": 7}',
    '{"kind": "char", "alphabet": "aa"}', '{"kind": "char", "alphabet": "\\ud800"}', '{"kind": ["char"]}',
    '{"kind": "../../../etc/passwd"}', '{"kind": "\\u001b[2J"}',
    '{"kind": "bpe", "words": 1, "merges": 7}', '{"kind": "bpe", "words": 1, "merges": [[1]]}',
    '{"kind": "bpe", "words": 1, "merges": [[0, 99999999999]]}', '{"kind": "bpe", "words": 1, "merges": [[-1, -1]]}',
    '{"kind": "bpe", "words": 1, "merges": [[0, 0], [0, 0]]}', '{"kind": "bpe", "words": 1, "merges": [["a", "b"]]}',
    '{"kind": "bpe", "words": "(a+)+$", "merges": []}', '{"kind": "bpe", "words": 1, "merges": ' + "[" * 90_000,
    json.dumps({"kind": "bpe", "words": 1, "merges": [[0, 0], *([n, n] for n in range(256, 320))]}),  # 2^64 bytes
    '{"kind": "bpe", "words": 1, "merges": [' + "[0,0]," * 300_000 + "[0,0]]}",
    '{"model": {"type": "BPE", "vocab": {"a": 99999999999999999999}}, "pre_tokenizer": {"pattern": "(a+)+$"}}',
    '{"kind": "byte"}', '{"kind": "gpt2"}',
]  # fmt: skip


@pytest.mark.parametrize("text", TOKENIZERS, ids=lambda text: text[:60])
def test_a_hostile_tokenizer_is_refused(text: str, run: Path, refuses: Refuses) -> None:
    (checkpoint_of(run) / "tokenizer.json").write_text(text, "utf-8")
    edit_state(run, lambda state: None)
    assert "\x1b" not in refuses("sample", "run", "--device=cpu")


@pytest.mark.parametrize("name", ["state.json", "tokenizer.json"])
def test_json_that_is_far_too_large_is_not_read(name: str, run: Path, refuses: Refuses) -> None:
    with (checkpoint_of(run) / name).open("wb") as file:
        file.truncate(64 << 20)
    if name == "tokenizer.json":
        edit_state(run, lambda state: None)
    assert "was not read" in refuses("sample", "run")


@pytest.mark.parametrize(
    "text",
    ["../../elsewhere", "/etc", "step-../x", "step-9999999999", "\x1b[2J", "", "\x00", "step-" + "9" * 90,
     "step-" + "9" * 10_000, "x" * 1_000_000],
)  # fmt: skip
def test_a_pointer_that_leads_elsewhere_is_not_followed(text: str, run: Path, tmp_path: Path) -> None:
    shutil.copytree(checkpoint_of(run), tmp_path / "elsewhere")
    for pointer in ("last", "best"):
        (run / "checkpoints" / pointer).write_text(text, "utf-8")
        assert find_checkpoint(run, pointer)[0].folder == checkpoint_of(run)


@pytest.mark.parametrize("name", ["../../elsewhere", "/etc", "..", "step-1/../../x", ""])
def test_a_checkpoint_of_another_folder_cannot_be_named(name: str, run: Path, refuses: Refuses) -> None:
    shutil.copytree(checkpoint_of(run), run.parent / "elsewhere")
    refuses("sample", "run", f"--checkpoint={name}", status=2)


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_checkpoints_may_lie_on_another_disk(run: Path, tmp_path: Path) -> None:
    (run / "checkpoints").rename(tmp_path / "large disk")
    (run / "checkpoints").symlink_to(tmp_path / "large disk")
    assert find_checkpoint(run)[0].folder.name.startswith("step-")


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs an endless file")
@pytest.mark.parametrize("name", ["state.json", "model.safetensors", "optimizer.safetensors", "tokenizer.json"])
def test_an_endless_file_is_not_read(name: str, run: Path, refuses: Refuses) -> None:
    (checkpoint_of(run) / name).unlink()
    (checkpoint_of(run) / name).symlink_to("/dev/zero")
    refuses(*(RESUME if name == "optimizer.safetensors" else ("sample", "run")))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a named pipe")
@pytest.mark.parametrize("name", ["state.json", "model.safetensors", "tokenizer.json"])
def test_a_pipe_is_not_waited_for(name: str, run: Path, refuses: Refuses) -> None:
    (run / "checkpoints/best").unlink()
    os.mkfifo(run / "checkpoints/best")
    (checkpoint_of(run) / name).unlink()
    os.mkfifo(checkpoint_of(run) / name)
    refuses("sample", "run")


def test_settings_that_point_elsewhere_change_nothing_there(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "precious")
    before = {path: path.read_bytes() for path in (tmp_path / "precious").rglob("*") if path.is_file()}
    text = (run / "config.toml").read_text("utf-8")
    evil = text.replace('out_dir = "run"', 'out_dir = "precious"')
    assert evil.count("precious") == 1
    (run / "config.toml").write_text(evil, "utf-8")
    with contextlib.chdir(tmp_path):
        assert cli.run(["train", "run", "--init_from=resume", "--max_iters=3"]) == 0
    assert {path: path.read_bytes() for path in (tmp_path / "precious").rglob("*") if path.is_file()} == before
