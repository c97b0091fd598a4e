"""Errors of the file system, damaged folders and races: does a run end with the same weights, or say clearly why not?

python benchmarks/faults.py [--errors 40] [--damages 40] [--races 4] [--seed N]

errors: some file operations in a row fail, with one of seven reasons, at any moment of a run. It must go on, or end
with a message; started again, it must end with the weights of an undisturbed run. damages: a file of a stopped run is
damaged, and the run resumed. races: three processes start one run at the same time. benchmarks/FAULTS.md has figures.
"""

import argparse
import contextlib
import errno
import io
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from safetensors import SafetensorError

from kill_runs import make_folder
from nanoscope import cli
from nanoscope.training import checkpoint
from small_runs import Folder

WORDS = [
    "train", "--dataset=data/tiny", "--device=cpu", "--compile=False", "--dtype=float32", "--threads=1", "--ngrams=1",
    "--n_layer=2", "--n_head=2", "--n_embd=32", "--block_size=16", "--batch_size=4", "--gradient_accumulation_steps=1",
    "--eval_interval=3", "--eval_iters=2", "--sample_interval=5", "--max_iters=12", "--lr_decay_iters=12",
]  # fmt: skip
REASONS = [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT, errno.EACCES, errno.EMFILE, errno.ESTALE]
RUN = "run"


class Faults:
    """Lets the operations from `first` to `last` in the run's folder fail."""

    def __init__(self, reason: int, first: int, last: int) -> None:
        self.reason, self.first, self.last, self.count = reason, first, last, 0

    def check(self, *arguments: Any) -> None:
        paths = [str(word) for word in arguments if isinstance(word, str | Path)]
        if any(RUN in Path(path).parts for path in paths):
            self.count += 1
            if self.first <= self.count < self.last:
                raise OSError(self.reason, os.strerror(self.reason), paths[0])

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        with contextlib.ExitStack() as patches:
            for name in ("open", "rename", "replace", "unlink", "mkdir", "fsync"):
                patches.enter_context(patch.object(os, name, self._failing(getattr(os, name))))
            patches.enter_context(patch.object(io, "open", self._opening(io.open)))
            patches.enter_context(patch.object(checkpoint, "save_file", self._saving(checkpoint.save_file)))
            yield

    def _failing(self, function: Any) -> Any:
        def failing(*arguments: Any, **options: Any) -> Any:
            where = [Path(f"/proc/self/fd/{arguments[0]}").readlink()] if type(arguments[0]) is int else arguments
            self.check(*where)
            return function(*arguments, **options)

        return failing

    def _opening(self, function: Any) -> Any:
        faults = self

        class Log(io.FileIO):
            def write(self, content: Any) -> int:
                faults.check(str(self.name))
                return super().write(content)

        def opening(file: Any, mode: str = "r", buffering: int = -1, *arguments: Any, **options: Any) -> Any:
            if set(mode) & set("wax+"):
                self.check(file)
            return Log(file, mode) if buffering == 0 else function(file, mode, buffering, *arguments, **options)

        return opening

    def _saving(self, function: Any) -> Any:
        def saving(tensors: Any, path: Any, *arguments: Any) -> None:
            try:
                self.check(path)
            except OSError as error:  # as safetensors reports it
                raise SafetensorError(f"Error while serializing: I/O error: (os error {error.errno})") from None
            function(tensors, path, *arguments)

        return saving


def command(folder: Folder, *words: str) -> tuple[int, str]:
    output = io.StringIO()
    with contextlib.chdir(folder.path), contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        return cli.run([*WORDS, f"--out_dir={RUN}", *words]), output.getvalue()


def weights(folder: Folder) -> bytes | None:
    file = folder.path / RUN / "checkpoints/step-000012/model.safetensors"
    return file.read_bytes() if file.is_file() else None


def judged(folder: Folder, right: bytes | None, said: str, status: int, then: str) -> str:
    """The outcome of a trial: `then` if the weights are right."""
    if "This is a bug" in said or "Traceback" in said:
        return "wrong: " + said.strip()[-400:]
    return then if weights(folder) == right else f"refused ({status})" if status else "wrong: other weights"


def try_errors(folder: Folder, right: bytes | None, chooser: random.Random, trials: int) -> Counter[str]:
    results = Counter[str]()
    for trial in range(trials):
        shutil.rmtree(folder.path / RUN, ignore_errors=True)
        first = chooser.randrange(1, 30) if trial % 3 == 0 else chooser.randrange(1, 230)  # a third at the start
        faults = Faults(chooser.choice(REASONS), first, first + chooser.choice([1, 2, 5, 20]))
        with faults.at_work():
            status, said = command(folder)
        result = judged(folder, right, said, status, "went on")
        if result.startswith("refused"):
            again, more = command(folder, "--init_from=auto")
            result = judged(folder, right, more, again, "ended with a message, the same after a restart")
        results[f"{result} [{errno.errorcode[faults.reason]} {first}]" if "wrong" in result else result] += 1
    return results


DAMAGES = ("flip", "truncate", "zero", "delete", "folder", "loop", "NUL tail", "garbage")


def damage(file: Path, how: str, chooser: random.Random) -> None:
    content = file.read_bytes()
    file.unlink()
    if how == "folder":
        file.mkdir()
    elif how == "loop":
        file.symlink_to(file.name)
    elif how != "delete":
        place = chooser.randrange(max(len(content), 1))
        flipped = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :] if content else b""
        left = {"flip": flipped, "truncate": content[:place], "zero": bytes(len(content))}
        left |= {"NUL tail": content + bytes(999), "garbage": chooser.randbytes(place)}
        file.write_bytes(left[how])


def try_damages(folder: Folder, right: bytes | None, chooser: random.Random, trials: int) -> Counter[str]:
    results = Counter[str]()
    shutil.rmtree(folder.path / RUN)
    command(folder, "--max_iters=6")
    stopped = folder.path / "stopped"
    (folder.path / RUN).rename(stopped)
    files = sorted(file.relative_to(stopped) for file in stopped.rglob("*") if file.is_file())
    for trial in range(trials):
        shutil.rmtree(folder.path / RUN, ignore_errors=True)
        shutil.copytree(stopped, folder.path / RUN)
        file, how = chooser.choice(files), DAMAGES[trial % len(DAMAGES)]
        damage(folder.path / RUN / file, how, chooser)
        status, said = command(folder, "--init_from=resume", "--max_iters=12")
        result = judged(folder, right, said, status, "the same")
        results[result if result == "the same" else f"{result} [{how} {file}]"] += 1
    return results


def try_races(folder: Folder, right: bytes | None, trials: int) -> Counter[str]:
    results = Counter[str]()
    for _ in range(trials):
        shutil.rmtree(folder.path / RUN, ignore_errors=True)
        racers = [folder.start(*WORDS, f"--out_dir={RUN}") for _ in range(3)]
        said = ["".join(racer.communicate(timeout=300)) for racer in racers]
        status = sorted(racer.returncode for racer in racers)
        alone = status[0] == 0 and status[1] in (1, 2)
        results[judged(folder, right, "".join(said), status[1], "one trained" if alone else f"wrong: {status}")] += 1
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, number in {"errors": 40, "damages": 40, "races": 4, "seed": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=number)
    options = parser.parse_args()
    chooser = random.Random(options.seed)
    checkpoint.CheckpointWriter.RETRY_SECONDS = 0.01
    with tempfile.TemporaryDirectory(prefix="nanoscope-faults-") as scratch:
        folder = make_folder(Path(scratch), {"NANOSCOPE_CACHE": scratch})
        os.environ.update(folder.extra)
        command(folder)
        right = weights(folder)
        found = {
            "errors": try_errors(folder, right, chooser, options.errors),
            "damages": try_damages(folder, right, chooser, options.damages),
            "races": try_races(folder, right, options.races),
        }
    for name, results in found.items():
        print(f"\n{name}: {results.total()}")
        for result, number in results.most_common():
            print(f"  {number:3d}  {result}")
    return 1 if any("wrong" in result for results in found.values() for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
