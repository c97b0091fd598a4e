"""What a checkpoint costs in total: training paused, slower steps while it is written, and reading it back.

    python benchmarks/checkpoints.py [--only 4x128] [--rounds N] [--json]

A lap of N steps that starts with a save is compared with a lap of N steps without one, run just before it. The
difference is the total cost; a save that isn't on disk at the end of its lap is waited for. Ways to save:

    at once         training waits while the files are written, synced, read back and compared
    two at once     the same, with one thread per file (what nanoscope did until it stopped reading back)
    not read back   written and synced, and hashed from memory (what nanoscope does)
    from a buffer   the file is built in memory and hashed twice, before writing and after reading back
    by a thread     copied while training waits, then written and read back by a thread at full speed
    paced           copied by a thread during the next forward pass, then written and read back in pieces of 256 KB
                    with long rests between them (what nanoscope did until November 2026)
"""

import argparse
import hashlib
import json
import os
import shutil
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save, save_file
from torch import Tensor

from nanoscope.model import GPT, ModelConfig

State = dict[str, dict[str, Tensor]]
"""File name → its tensors by name."""
CONTEXT = 64
CHUNK_BYTES = 1 << 18
REST_FACTOR = 32


@dataclass(frozen=True)
class Size:
    name: str
    n_layer: int
    n_embd: int
    vocab_size: int
    batch_size: int
    steps: int
    """Of a lap. Few, because two laps differ by chance; enough to contain a save by a thread."""
    paced_steps: int
    rounds: int


SIZES = [
    Size("4x128", 4, 128, 65, batch_size=12, steps=8, paced_steps=40, rounds=25),
    Size("6x384", 6, 384, 65, batch_size=4, steps=15, paced_steps=40, rounds=12),
    Size("12x768", 12, 768, 50304, batch_size=1, steps=10, paced_steps=20, rounds=5),
]


class AtOnce:
    name = "at once"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.parts: dict[str, float] = defaultdict(float)

    def save(self, state: State) -> None:
        for file, tensors in state.items():
            self.write(self.folder / file, tensors)

    def before_update(self) -> None:
        """Called before the optimizer changes anything."""

    def wait(self) -> None:
        """Returns when the checkpoint is on disk."""

    def write(self, path: Path, tensors: dict[str, Tensor]) -> None:
        with self.part("write"):
            save_file(tensors, path, {"format": "pt"})
        with path.open("rb+") as file:
            with self.part("sync"):
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # to read from the disk
            with self.part("read and hash"):
                hashlib.file_digest(file, "sha256")
        with self.part("compare"):
            found = load_file(path)
            assert all(np.array_equal(in_bytes(found[name]), in_bytes(tensors[name])) for name in tensors)

    def part(self, name: str) -> "Part":
        return Part(self.parts, name)


class Part:
    """Adds the seconds of a `with` block to a table."""

    def __init__(self, parts: dict[str, float], name: str) -> None:
        self.parts, self.name = parts, name

    def __enter__(self) -> None:
        self.began = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        self.parts[self.name] += time.perf_counter() - self.began


class TwoAtOnce(AtOnce):
    name = "two at once"

    def save(self, state: State) -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda item: self.write(self.folder / item[0], item[1]), state.items()))


class NotReadBack(AtOnce):
    name = "not read back"

    def write(self, path: Path, tensors: dict[str, Tensor]) -> None:
        with self.part("write"):
            save_file(tensors, path, {"format": "pt"})
        with path.open("rb+") as file:
            with self.part("sync"):
                os.fsync(file.fileno())
            with self.part("hash"):
                hashlib.file_digest(file, "sha256")


class FromBuffer(AtOnce):
    name = "from a buffer"

    def save(self, state: State) -> None:
        for name, tensors in state.items():
            write_and_verify(self.folder / name, [save(tensors, {"format": "pt"})], lambda seconds, count: None)


class ByThread(AtOnce):
    name = "by a thread"
    thread: threading.Thread | None = None
    copies: State | None = None
    """Kept, so that only the first save has to get memory for it."""

    def save(self, state: State) -> None:
        for source, copy in self.pairs(state):
            copy.copy_(source)
        assert self.copies is not None
        self.thread = threading.Thread(target=super().save, args=(self.copies,))
        self.thread.start()

    def wait(self) -> None:
        if self.thread is not None:
            self.thread.join()

    def pairs(self, state: State) -> list[tuple[Tensor, Tensor]]:
        if self.copies is None:
            self.copies = {file: {name: torch.empty_like(t) for name, t in ts.items()} for file, ts in state.items()}
        return [(t, self.copies[file][name]) for file, tensors in state.items() for name, t in tensors.items()]


class Paced(ByThread):
    """Rests 32 times as long as it works, but `rest_seconds` in total at most."""

    name = "paced"

    def __init__(self, folder: Path, rest_seconds: float) -> None:
        super().__init__(folder)
        self.rest_seconds = rest_seconds
        self.copied, self.hurry = threading.Event(), threading.Event()

    def save(self, state: State) -> None:
        self.copied.clear()
        self.hurry.clear()
        self.thread = threading.Thread(target=self.work, args=(self.pairs(state),))
        self.thread.start()

    def before_update(self) -> None:
        if self.thread is not None:
            self.copied.wait()

    def wait(self) -> None:
        self.hurry.set()
        super().wait()

    def work(self, pairs: list[tuple[Tensor, Tensor]]) -> None:
        for source, copy in pairs:
            np.copyto(copy.numpy(), source.numpy())  # in this thread alone, unlike torch
        self.copied.set()
        assert self.copies is not None
        rest_per_byte = self.rest_seconds / (2 * sum(copy.nbytes for _, copy in pairs))
        for name, tensors in self.copies.items():
            pieces = (
                piece
                for tensor in tensors.values()
                for piece in np.array_split(in_bytes(tensor), max(1, tensor.nbytes // CHUNK_BYTES))
            )
            write_and_verify(
                self.folder / name,
                pieces,
                lambda worked, count: self.hurry.wait(min(REST_FACTOR * worked, rest_per_byte * count)),
            )


def write_and_verify(path: Path, pieces: Iterable[Any], rest: Callable[[float, int], object]) -> None:
    written, found = hashlib.sha256(), hashlib.sha256()
    with path.open("wb") as file:
        for piece in pieces:
            began = time.thread_time()
            written.update(piece)
            file.write(piece)
            rest(time.thread_time() - began, len(piece))
        file.flush()
        os.fsync(file.fileno())
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        began = time.thread_time()
        while piece := file.read(CHUNK_BYTES):
            found.update(piece)
            rest(time.thread_time() - began, len(piece))
            began = time.thread_time()
    assert found.digest() == written.digest()


def in_bytes(tensor: Tensor) -> Any:
    return tensor.reshape(-1).view(torch.uint8).numpy()


class Training:
    """Steps of a model on random tokens, like the trainer's."""

    def __init__(self, size: Size) -> None:
        torch.manual_seed(1)
        self.size = size
        self.model = GPT(
            ModelConfig(
                vocab_size=size.vocab_size, block_size=CONTEXT, n_layer=size.n_layer, n_head=size.n_embd // 32,
                n_embd=size.n_embd,
            )
        )  # fmt: skip
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.tokens = torch.randint(size.vocab_size, (size.batch_size, CONTEXT + 1))

    def step(self, before_update: Callable[[], None]) -> None:
        loss = self.model(self.tokens[:, :-1], self.tokens[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        before_update()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def state(self) -> State:
        names = {parameter: name for name, parameter in self.model.named_parameters()}
        moments = {f"{names[p]}.{key}": value for p, s in self.optimizer.state.items() for key, value in s.items()}
        return {"model.safetensors": {n: p.detach() for p, n in names.items()}, "optimizer.safetensors": moments}


def lap(training: Training, steps: int, way: AtOnce | None = None) -> tuple[float, float]:
    """Milliseconds of a lap, and how long training was paused in it."""
    paused_ms = 0.0

    def paused_for(action: Callable[..., None], *arguments: object) -> None:
        nonlocal paused_ms
        began = time.perf_counter()
        action(*arguments)
        paused_ms += 1000 * (time.perf_counter() - began)

    began = time.perf_counter()
    if way is not None:
        paused_for(way.save, training.state())
    for _ in range(steps):
        training.step(lambda: None if way is None else paused_for(way.before_update))
    if way is not None:
        paused_for(way.wait)
    return 1000 * (time.perf_counter() - began), paused_ms


def measure(size: Size, rounds: int, folder: Path) -> dict[str, Any]:
    training = Training(size)
    lap(training, size.steps)
    lap_ms, _ = lap(training, size.paced_steps)
    at_once = AtOnce(folder)
    paced = Paced(folder, rest_seconds=lap_ms / 2000)  # as if every lap began with a save
    ways = [at_once, TwoAtOnce(folder), NotReadBack(folder), FromBuffer(folder), ByThread(folder), paced]
    step_ms: list[float] = []
    costs: dict[str, list[float]] = {way.name: [] for way in ways}
    paused: dict[str, list[float]] = {way.name: [] for way in ways}
    for turn in range(rounds + 1):
        for way in ways:
            steps = size.paced_steps if way is paced else size.steps
            without, _ = lap(training, steps)
            with_save, paused_ms = lap(training, steps, way)
            if turn:  # the first save of each kind gets memory that is kept
                step_ms.append(without / steps)
                costs[way.name].append(with_save - without)
                paused[way.name].append(paused_ms)
    return {
        "size": size.name,
        "megabytes": sum(t.nbytes for tensors in training.state().values() for t in tensors.values()) / 1e6,
        "step_ms": median(step_ms),
        "rounds": rounds,
        "ways": {
            name: {
                "cost_ms": median(found),
                "low_ms": sorted(found)[len(found) // 4],
                "high_ms": sorted(found)[-1 - len(found) // 4],
                "paused_ms": median(paused[name]),
            }
            for name, found in costs.items()
        },
        "parts_ms": {name: 1000 * seconds / (rounds + 1) for name, seconds in at_once.parts.items()},
    }


def table(found: dict[str, Any]) -> str:
    rows = [
        f"  {name:14} {way['cost_ms']:7.0f} ms in total ({way['low_ms']:.0f} to {way['high_ms']:.0f}), "
        f"paused {way['paused_ms']:.0f} ms"
        for name, way in found["ways"].items()
    ]
    parts = ", ".join(f"{name} {ms:.0f} ms" for name, ms in found["parts_ms"].items())
    title = f"{found['size']}, {found['megabytes']:.1f} MB, {found['step_ms']:.1f} ms a step, {found['rounds']} rounds"
    return "\n".join([title, *rows, f"  (at once: {parts})"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=[size.name for size in SIZES])
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    results = []
    for size in SIZES:
        if options.only in (None, size.name):
            folder = Path(tempfile.mkdtemp(prefix="checkpoints-", dir="."))
            try:
                results.append(measure(size, options.rounds or size.rounds, folder))
            finally:
                shutil.rmtree(folder)
            if not options.json:
                print(table(results[-1]), flush=True)
    if options.json:
        print(json.dumps({"threads": torch.get_num_threads(), "torch": torch.__version__, "results": results}))


if __name__ == "__main__":
    main()
