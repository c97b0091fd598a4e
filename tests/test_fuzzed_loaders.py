"""Ten thousand damaged files through the loaders: each is read, or refused with a clear message.

Each file is a valid one with a few random changes. A number makes it, which a failure tells: `mutated(kind, number)`.
"""

import contextlib
import io
import json
import pickle
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from nanoscope.checkpoint_files import state_checksum
from nanoscope.config_sources import resolve
from nanoscope.data.dataset import open_dataset
from nanoscope.data.tokenizer import tokenizer_from_json
from nanoscope.errors import JobError, UsageError
from nanoscope.interop.huggingface import load_gpt2
from nanoscope.messages import printable
from nanoscope.model import GPT, ModelConfig
from nanoscope.model.checkpoint import find_checkpoint, load_checkpoint

pytestmark = pytest.mark.slow

SLOWEST_SECONDS = 10  # of one file: generous for a busy machine, and nothing beside what has no bound
MOST_EXTRA_MEGABYTES = 400

NANOGPT_CONFIG = """\
# train a miniature character-level model
import time
out_dir = 'out-shakespeare-char'
wandb_run_name = 'ft-' + str(time.time())
eval_interval = 250  # often
dataset = 'shakespeare_char'
gradient_accumulation_steps = 1
batch_size = 64
block_size = 16 * 16
n_layer = 6
n_head = 6
n_embd = 384
dropout = 0.2
learning_rate = 1e-3
max_iters = 5000
lr_decay_iters = 5000
min_lr = 1e-3 / 10
beta2 = 0.99
always_save_checkpoint = False
"""

HOSTILE_VALUES: list[Any] = [
    None, True, False, "", "x", "../../etc/passwd", "\x1b[2J", "\x00", "\ud800", "9" * 5000, "A" * 10_000, [], [[]],
    [1] * 1000, {}, {"a": {"b": {}}}, 0, -1, 1, 2**31, 2**63, 10**18, 10**300, 10**400, 0.5, -0.0, 1e308, 5e-324,
    float("inf"), float("-inf"), float("nan"),
]  # fmt: skip
HOSTILE_BYTES = [
    b"\x00", b"\xff\xfe", b"\x1b[2J", b"[" * 3000, b"{" * 3000, b"(" * 300, b'"', b"'", b"\\", b"\n", b"=", b"9" * 5000,
    b"1e999", b"-", b"0x" + b"f" * 5000, b"NaN", b"null", b"a." * 300, b"\xf0\x9f\x92\xa9", b"\xed\xa0\x80",
    b"__import__('os')", b"10**10**10", b"#", b"'''", b"{}", b"[]", b",", b":", b"\r", b"cos\nsystem\n",
    b"R.", b"\x80\x04", b"lambda: ",
]  # fmt: skip


def changed_json(value: Any, chooser: random.Random) -> Any:
    """Return a copy in which one value, at any depth, is replaced, removed, duplicated or nested deeply."""
    if isinstance(value, dict | list) and value and chooser.random() < 0.85:
        copy = dict(value) if isinstance(value, dict) else list(value)
        place = chooser.choice(list(copy)) if isinstance(copy, dict) else chooser.randrange(len(copy))
        what = chooser.random()
        if what < 0.1:
            del copy[place]
        elif what < 0.2 and isinstance(copy, dict):
            copy[chooser.choice(["", "../x", "\x1b", "extra", "__class__", "x" * 300])] = copy.pop(place)
        elif what < 0.25 and isinstance(copy, list):
            copy = copy * chooser.choice([2, 100])
        else:
            copy[place] = changed_json(copy[place], chooser)
        return copy
    if chooser.random() < 0.1:
        for _ in range(chooser.choice([10, 150])):
            value = [value]
        return value
    if isinstance(value, int | float) and abs(value) < 1e300 and chooser.random() < 0.4:
        return value * chooser.choice([-1, 2, 10**6, 10**12, 0.5]) + chooser.choice([-1, 0, 1])
    return chooser.choice(HOSTILE_VALUES)


def changed_bytes(content: bytes, chooser: random.Random) -> bytes:
    """Return the content with a few bytes flipped, removed, inserted, swapped, or with its end cut off."""
    damaged = bytearray(content)
    for _ in range(chooser.choice([1, 1, 2, 5])):
        at = chooser.randrange(len(damaged) + 1)
        what = chooser.randrange(6)
        if what == 0 and at < len(damaged):
            damaged[at] ^= 1 << chooser.randrange(8)
        elif what == 1:
            del damaged[at:]
        elif what == 2:
            del damaged[at : at + chooser.choice([1, 4, 40])]
        elif what == 3:
            damaged[at:at] = chooser.choice(HOSTILE_BYTES)
        elif what == 4:
            damaged[at : at + 8] = chooser.randbytes(8)
        else:
            other = chooser.randrange(len(damaged) + 1)
            damaged[at:at] = damaged[other : other + 60]
    return bytes(damaged)


@pytest.fixture(scope="module")
def originals(small_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write one valid file of each kind, in the folders where their loaders look for them."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("fuzzed")
    shutil.copytree(small_run.parent / "data" / "song", folder / "ours")
    (folder / "theirs").mkdir()
    for name in ("train", "val"):
        (folder / f"theirs/{name}.bin").write_bytes(np.array([0, 1, 2, 1], "<u2").tobytes())
    characters = "\n abcdefgh"
    meta = {
        "vocab_size": len(characters),
        "itos": dict(enumerate(characters)),
        "stoi": {c: i for i, c in enumerate(characters)},
    }
    (folder / "theirs/meta.pkl").write_bytes(pickle.dumps(meta))
    checkpoints = sorted((small_run / "checkpoints").glob("step-*"))
    shutil.copytree(checkpoints[-1], folder / "run/checkpoints/step-000002")
    (folder / "run/checkpoints/last").write_text("step-000002\n", "utf-8")
    (folder / "config.toml").write_bytes((small_run / "config.toml").read_bytes())
    (folder / "train_char.py").write_text(NANOGPT_CONFIG, "utf-8")
    merges = {"kind": "bpe", "words": 1, "merges": [[104, 101], [108, 108], [256, 257], [258, 111]]}
    (folder / "tokenizer.json").write_text(json.dumps(merges), "utf-8")
    shape = {"n_layer": 1, "n_head": 2, "n_embd": 8, "vocab_size": 11}
    weights = GPT(ModelConfig(block_size=6, bias=True, **shape)).state_dict()  # type: ignore[arg-type]
    (folder / "gpt2").mkdir()
    named = {
        name.removeprefix("transformer."): tensor.clone()
        for name, tensor in weights.items()
        if name != "lm_head.weight"
    }
    turned = {
        n: t.t().contiguous() if n.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")) else t
        for n, t in named.items()
    }
    save_file(turned, folder / "gpt2/model.safetensors")
    (folder / "gpt2/config.json").write_text(json.dumps({**shape, "n_positions": 6, "model_type": "gpt2"}), "utf-8")
    return folder


def resolved(path: Path) -> None:
    resolve([str(path)])


def loaded_tokenizer(path: Path) -> None:
    tokenizer = tokenizer_from_json(json.loads(path.read_bytes()))
    assert tokenizer.decode(tokenizer.encode("hello, world")) if tokenizer.kind != "char" else True


def loaded_gpt2(path: Path) -> None:
    load_gpt2(str(path.parent))


class Kind:
    def __init__(self, path: str, load: Callable[[Path], Any], count: int, only_json: bool = False) -> None:
        self.path, self.load, self.count, self.only_json = path, load, count, only_json


KINDS = {
    "toml": Kind("config.toml", resolved, 2000),
    "nanogpt config": Kind("train_char.py", resolved, 2000),
    "meta.json": Kind("ours/meta.json", lambda path: open_dataset(path.parent), 1500),
    "meta.pkl": Kind("theirs/meta.pkl", lambda path: open_dataset(path.parent), 1500),
    "state.json": Kind("run/checkpoints/step-000002/state.json", lambda path: load_checkpoint(path.parent), 1000),
    "last": Kind("run/checkpoints/last", lambda path: find_checkpoint(path.parents[1]), 200),
    "tokenizer.json": Kind("tokenizer.json", loaded_tokenizer, 1000, only_json=True),
    "config.json": Kind("gpt2/config.json", loaded_gpt2, 500),
    "safetensors": Kind("gpt2/model.safetensors", loaded_gpt2, 500),
}  # fmt: skip


def mutated(original: bytes, kind: str, number: int) -> bytes:
    chooser = random.Random(f"{kind} {number}")
    if original.startswith(b"{") and (chooser.random() < 0.6 or KINDS[kind].only_json):
        value = json.loads(original)
        for _ in range(chooser.choice([1, 1, 2, 4])):
            value = changed_json(value, chooser)
        if kind == "state.json" and isinstance(value, dict):  # as somebody would who means harm
            value["checksum"] = state_checksum(value)
        return json.dumps(value).encode()
    if kind in ("toml", "nanogpt config") and chooser.random() < 0.5:  # another value in a line that stays one
        lines = original.decode().splitlines()
        for _ in range(chooser.choice([1, 2, 4])):
            at = chooser.randrange(len(lines))
            value = chooser.choice(HOSTILE_VALUES)
            text = json.dumps(value) if kind == "toml" else repr(value) if value != 10**400 else "10**400"
            lines[at] = f"{lines[at].partition('=')[0] or 'x'}= {text}"
        return "\n".join(lines).encode("utf-8", "replace")
    return changed_bytes(original, chooser)


@contextlib.contextmanager
def bounded_memory() -> Iterator[None]:
    """Make allocations beyond the bound fail, where the system supports it."""
    if sys.platform != "linux":
        yield
        return
    import resource

    now = int(Path("/proc/self/statm").read_text("utf-8").split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + (MOST_EXTRA_MEGABYTES << 20), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_are_read_or_refused_with_a_message(kind: str, originals: Path) -> None:
    path, load = originals / KINDS[kind].path, KINDS[kind].load
    original = path.read_bytes()
    load(path)  # the file is a valid one to begin with
    refused = 0
    try:
        for number in range(KINDS[kind].count):
            path.write_bytes(mutated(original, kind, number))
            began = time.thread_time()
            try:
                with bounded_memory(), contextlib.redirect_stderr(io.StringIO()):
                    load(path)
            except (JobError, UsageError) as error:
                refused += 1
                message = printable(str(error))
                assert message, f"{kind} {number} is refused without a word"
                assert len(message) < 10_000, f"{kind} {number} floods the screen"
            except Exception as error:
                raise AssertionError(f"{kind} {number}: {type(error).__name__}: {error!s:.300}") from error
            assert time.thread_time() - began < SLOWEST_SECONDS, f"{kind} {number} takes too long"
    finally:
        path.write_bytes(original)
    # A pointer that leads nowhere is passed over: the newest checkpoint is taken.
    assert kind == "last" or refused > KINDS[kind].count // 10, "many changes do harm, or nothing was changed"


def test_they_are_ten_thousand() -> None:
    assert sum(kind.count for kind in KINDS.values()) >= 10_000
