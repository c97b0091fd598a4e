"""ckpt.pt and meta.pkl files that would run code or exhaust memory: nothing is run, and a message says so."""

import gzip
import io
import os
import pickle
import struct
import subprocess
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nanoscope.data.dataset import open_dataset
from nanoscope.errors import JobError
from nanoscope.interop.nanogpt import read_nanogpt

from .conftest import bounded

ARGUMENTS = {"n_layer": 1, "n_head": 1, "n_embd": 4, "block_size": 4, "bias": False, "vocab_size": 3, "dropout": 0.0}


class Calls:
    """Unpickles as function(*arguments)."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call


def attacks(marker: str) -> dict[str, Any]:
    """Return objects that create the file `marker` when unpickled."""
    make = f"open({marker!r}, 'w').close()"
    nested = OrderedDict(innocent=OrderedDict(weights=[(1, Calls(exec, make))]))
    return {
        "os.system": Calls(os.system, f"echo > {marker}"),
        "builtins.exec": Calls(exec, make),
        "builtins.eval": Calls(eval, make),
        "builtins.open": Calls(open, marker, "w"),
        "subprocess": Calls(subprocess.call, ["touch", marker]),
        "getattr": Calls(getattr, Calls(__import__, "os"), "system"),
        "torch.load": Calls(torch.load, marker),
        "nested in what is allowed": nested,
        "as a key": {Hashable(exec, make): 1},
        "numpy": Calls(np.fromfile, marker),
        "the reduce of a tensor": Calls(torch._utils._rebuild_tensor_v2, Calls(exec, make), 0, (1,), (1,), False, None),
    }


class Hashable(Calls):
    __hash__ = object.__hash__


NAMES = list(attacks(""))


@pytest.fixture
def nanogpt_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "their data"
    folder.mkdir()
    for name in ("train", "val"):
        (folder / f"{name}.bin").write_bytes(np.array([0, 1, 2, 1], "<u2").tobytes())
    return folder


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "MARKER"


def refused(load: Callable[[Path], Any], path: Path, marker: Path) -> str:
    with bounded(), pytest.raises(JobError) as caught:
        load(path)
    assert not marker.exists()
    message = str(caught.value)
    assert len(message.splitlines()) <= 3
    assert len(message) < 1000
    return message


def test_the_attacks_of_this_file_would_work(marker: Path) -> None:
    for name in ("builtins.exec", "builtins.open", "nested in what is allowed", "as a key"):
        with io.BytesIO(pickle.dumps(attacks(str(marker))[name])) as file:
            pickle.load(file)
        assert marker.exists()
        marker.unlink()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_metadata_runs_nothing(name: str, protocol: int, nanogpt_folder: Path, marker: Path) -> None:
    for content in (attacks(str(marker))[name], {"vocab_size": 3, "itos": {0: attacks(str(marker))[name]}}):
        (nanogpt_folder / "meta.pkl").write_bytes(pickle.dumps(content, protocol))
        assert "nothing in it was run" in refused(open_dataset, nanogpt_folder, marker)


OPCODES = {
    "an object of a class": b"(cos\nsystem\nS'touch MARKER'\no.",
    "an instance": b"(S'touch MARKER'\nios\nsystem\n.",
    "a call": b"cos\nsystem\n(S'touch MARKER'\ntR.",
    "a new object": b"\x80\x02cos\nsystem\n)\x81.",
    "an extension": b"\x80\x02\x82\x01.",
    "a persistent id": b"\x80\x02P0\n.",
    "a buffer": b"\x80\x05\x97.",
    "a state": b"\x80\x02}}b.",
    "a memo of 2^31 places": b"\x80\x02]r\xff\xff\xff\x7f.",
    "a text of 2^40 bytes": b"\x80\x04\x8d" + struct.pack("<Q", 2**40) + b"x.",
    "a number of 2^30 bytes": b"\x80\x02\x8b" + struct.pack("<i", 2**30) + b"1.",
    "a frame of 2^50 bytes": b"\x80\x04\x95" + struct.pack("<Q", 2**50) + b"N.",
    "a number of 5000 digits": b"I" + b"9" * 5000 + b"\n.",
    "nested 100,000 times": b"]" * 100_000 + b"a" * 99_999 + b".",
    "keys that take years to hash": b"\x80\x02})q\x00" + b"h\x00h\x00\x86q\x00" * 60 + b"Ns.",
    "nothing": b"",
    "an end without a beginning": b".",
    "what is not there": b"h\x07.",
}


@pytest.mark.parametrize("name", OPCODES)
def test_metadata_of_strange_opcodes_is_refused_at_once(name: str, nanogpt_folder: Path, marker: Path) -> None:
    (nanogpt_folder / "meta.pkl").write_bytes(OPCODES[name])
    refused(open_dataset, nanogpt_folder, marker)


MODULUS = 2**61 - 1  # of Python's hash of integers
EQUAL_HASHES = [b"\x8a\x0c" + (number * MODULUS).to_bytes(12, "little") for number in range(60_000)]


def test_metadata_whose_keys_have_equal_hashes_takes_no_time(nanogpt_folder: Path, marker: Path) -> None:
    (nanogpt_folder / "meta.pkl").write_bytes(b"\x80\x02}(" + b"N".join(EQUAL_HASHES) + b"Nu.")
    refused(open_dataset, nanogpt_folder, marker)


@pytest.mark.parametrize("end_of_key", [b"", b"\x85"], ids=["numbers", "tuples"])
def test_a_checkpoint_whose_keys_have_equal_hashes_takes_no_time(
    tmp_path: Path, marker: Path, end_of_key: bytes
) -> None:
    entries = b"".join(number + end_of_key + b"N" for number in EQUAL_HASHES)
    zipped(b"\x80\x02}(" + entries + b"u.", tmp_path / "ckpt.pt")
    refused(read_nanogpt, tmp_path / "ckpt.pt", marker)


def test_metadata_that_asks_for_a_huge_memo_takes_no_memory(
    nanogpt_folder: Path, extra_megabytes: Callable[..., float]
) -> None:
    (nanogpt_folder / "meta.pkl").write_bytes(b"\x80\x02]r\xff\xff\xff\x3f.")
    imports = "from nanoscope.data.dataset import open_dataset"
    assert extra_megabytes(imports, f"open_dataset({str(nanogpt_folder)!r}); raise JobError('')") < 100


@pytest.mark.slow
def test_an_alphabet_that_repeats_a_long_text_takes_no_memory(
    nanogpt_folder: Path, extra_megabytes: Callable[..., float]
) -> None:
    long = "x" * (6 << 20)
    (nanogpt_folder / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": 1 << 16, "itos": [long] * (1 << 16)}))
    imports = "from nanoscope.data.dataset import open_dataset"
    assert extra_megabytes(imports, f"open_dataset({str(nanogpt_folder)!r}); raise JobError('')") < 100


def test_metadata_of_a_gigabyte_is_not_read(nanogpt_folder: Path, marker: Path) -> None:
    with (nanogpt_folder / "meta.pkl").open("wb") as file:
        file.truncate(1 << 30)
    assert "was not read" in refused(open_dataset, nanogpt_folder, marker)


def legacy(content: Any, path: Path) -> None:
    torch.save(content, path, _use_new_zipfile_serialization=False)


def zipped(content: Any, path: Path, compression: int = zipfile.ZIP_STORED, name: str = "data.pkl") -> None:
    """Write an archive with the layout of torch, with any pickle in it."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr(f"archive/{name}", content if isinstance(content, bytes) else pickle.dumps(content, 2))
        archive.writestr("archive/version", "3\n")
        archive.writestr("archive/byteorder", "little")


WRITERS: dict[str, Callable[[Any, Path], None]] = {
    "torch": torch.save,
    "torch before 1.6": legacy,
    "an archive": zipped,
    "a compressed archive": lambda content, path: zipped(content, path, zipfile.ZIP_DEFLATED),
    "a plain pickle": lambda content, path: path.write_bytes(pickle.dumps(content)) and None,
    "a gzipped pickle": lambda content, path: path.write_bytes(gzip.compress(pickle.dumps(content))) and None,
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("writer", WRITERS)
def test_a_checkpoint_runs_nothing(name: str, writer: str, tmp_path: Path, marker: Path) -> None:
    attack = attacks(str(marker))[name]
    for content in (attack, {"model": {"transformer.wte.weight": attack}, "model_args": ARGUMENTS}):
        WRITERS[writer](content, tmp_path / "ckpt.pt")
        marker.unlink(missing_ok=True)
        assert "nothing in it was run" in refused(read_nanogpt, tmp_path / "ckpt.pt", marker)


@pytest.mark.parametrize("name", sorted(OPCODES))
def test_a_checkpoint_of_strange_opcodes_is_refused_at_once(name: str, tmp_path: Path, marker: Path) -> None:
    zipped(OPCODES[name], tmp_path / "ckpt.pt")
    refused(read_nanogpt, tmp_path / "ckpt.pt", marker)


def test_a_checkpoint_that_expands_to_gigabytes_is_refused_first(tmp_path: Path, marker: Path) -> None:
    with (
        zipfile.ZipFile(tmp_path / "ckpt.pt", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("archive/data.pkl", "w") as member,
    ):
        for _ in range(64):
            member.write(b"N" * (1 << 20))
    assert "larger than the file" in refused(read_nanogpt, tmp_path / "ckpt.pt", marker)


def test_expanded_tensors_are_not_compared_element_by_element(tmp_path: Path, marker: Path) -> None:
    endless = torch.zeros(1, 1).expand(10**9, 10**3)
    weights = {"transformer.wte.weight": endless, "lm_head.weight": endless}
    torch.save({"model": weights, "model_args": ARGUMENTS}, tmp_path / "ckpt.pt")
    assert "larger than the file" in refused(read_nanogpt, tmp_path / "ckpt.pt", marker)


@pytest.mark.parametrize(
    "tensor", [torch.eye(3).to_sparse(), torch.zeros(3, 4, device="meta"), torch.zeros(3, 4, dtype=torch.complex64)]
)
def test_tensors_of_other_kinds_are_refused(tensor: torch.Tensor, tmp_path: Path, marker: Path) -> None:
    torch.save({"model": {"transformer.wte.weight": tensor}, "model_args": ARGUMENTS}, tmp_path / "ckpt.pt")
    refused(read_nanogpt, tmp_path / "ckpt.pt", marker)


ENTRIES = b"".join(struct.pack("<BiB", ord("J"), number, ord("N")) for number in range(20_000))
PAIRS = b"".join(struct.pack("<BiBB", ord("J"), number, ord("N"), 0x86) for number in range(20_000))
NEW_DICTIONARY = b"ccollections\nOrderedDict\n)R"
BOMBS = {  # each is a list, memo 0, of objects that take gigabytes together
    "bytearrays": b"cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85Ra" * 3,
    "tensors": b"ctorch\nFloatTensor\nJ\xff\xff\xff\x7f\x85Ra" * 3,
    "storages": b"ctorch.storage\nUntypedStorage\nJ\xff\xff\xff\x7f\x85Ra" * 3,
    "copies of pairs": b"](" + PAIRS + b"eq\x01a" + b"ccollections\nOrderedDict\nh\x01\x85Ra" * 2000,
    "copies of a list of arguments": b"](](" + PAIRS + b"eeq\x01a" + b"ccollections\nOrderedDict\nh\x01Ra" * 2000,
    "copies of a state": b"}(" + ENTRIES + b"uq\x01a" + (NEW_DICTIONARY + b"h\x01ba") * 2000,
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_checkpoint_of_a_few_bytes_does_not_take_gigabytes(
    name: str, tmp_path: Path, extra_megabytes: Callable[..., float]
) -> None:
    zipped(b"\x80\x02]" + BOMBS[name] + b".", tmp_path / "ckpt.pt")
    imports = "from pathlib import Path; from nanoscope.interop.nanogpt import read_nanogpt"
    assert extra_megabytes(imports, f"read_nanogpt(Path({str(tmp_path / 'ckpt.pt')!r})); raise JobError('')") < 100


def test_a_tensor_that_claims_more_than_the_file_holds_takes_no_memory(
    tmp_path: Path, extra_megabytes: Callable[..., float]
) -> None:
    key = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuJ\xff\xff\xff\x7ftQ"
    tensor = (
        b"ctorch._utils\n_rebuild_tensor_v2\n("
        + key
        + b"K\0J\xff\xff\xff\x7f\x85K\x01\x85\x89"
        + NEW_DICTIONARY
        + b"tR"
    )
    zipped(b"\x80\x02}X\x05\0\0\0model" + tensor + b"s.", tmp_path / "ckpt.pt")
    with zipfile.ZipFile(tmp_path / "ckpt.pt", "a") as archive:
        archive.writestr("archive/data/0", b"\0" * 64)
    imports = "from pathlib import Path; from nanoscope.interop.nanogpt import read_nanogpt"
    assert extra_megabytes(imports, f"read_nanogpt(Path({str(tmp_path / 'ckpt.pt')!r}))") < 100


@pytest.mark.parametrize("name", ["data.pkl", "DATA.PKL", "Data.pkl"])
def test_the_pickle_of_a_checkpoint_is_checked_under_any_name_that_torch_accepts(
    name: str, tmp_path: Path, marker: Path
) -> None:
    zipped(b"\x80\x02cbuiltins\nbytearray\nK\x05\x85R.", tmp_path / "ckpt.pt", name=name)
    assert "it asks for 'builtins.bytearray'" in refused(read_nanogpt, tmp_path / "ckpt.pt", marker)
