"""What many tests need: a small dataset, and nanoscope itself in a process of its own."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("no deadline", deadline=None)  # the machine may be busy
settings.load_profile("no deadline")

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch loads: tests run side by side, and wait for each other

# Whoever started us may ignore signals (a shell's '&', nohup), and children would inherit that.
for name in ("SIGINT", "SIGHUP"):
    if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) is signal.SIG_IGN:
        signal.signal(getattr(signal, name), signal.default_int_handler)

SOURCES = Path(__file__).parents[1] / "src"
SONG = "".join(f"Verse {n}: row, row, row your boat gently down the stream.\n" for n in range(200))

Nanoscope = Callable[..., subprocess.CompletedProcess[str]]
DatasetFactory = Callable[..., Path]


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for the whole session, also over the workers of pytest-xdist: a corpus is fetched once at most."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "nanoscope-cache"


@pytest.fixture(scope="session")
def child_environment(shared_cache: Path) -> dict[str, str]:
    """The environment of a child process: these sources, the shared cache, and one thread (tests run side by side)."""
    path = os.pathsep.join(filter(None, [str(SOURCES), os.environ.get("PYTHONPATH", "")]))
    return {
        **os.environ,
        "PYTHONPATH": path,
        "NANOSCOPE_CACHE": str(shared_cache),
        "OMP_NUM_THREADS": "1",
        "PYTHONIOENCODING": "utf-8",
    }


@pytest.fixture(scope="session")
def nanoscope(child_environment: dict[str, str]) -> Nanoscope:
    """Run `python -m nanoscope ARGUMENTS` in a real process; its standard input is empty unless `input` is given."""

    def run(
        *arguments: str | Path,
        cwd: Path,
        input: str | None = None,
        env: dict[str, str] | None = None,
        timeout: float = 120,
    ) -> subprocess.CompletedProcess[str]:
        given = {"stdin": subprocess.DEVNULL} if input is None else {"input": input}
        return subprocess.run(
            [sys.executable, "-m", "nanoscope", *map(str, arguments)],
            cwd=cwd,
            env={**child_environment, **(env or {})},
            capture_output=True,
            encoding="utf-8",
            timeout=timeout,
            **given,  # type: ignore[call-overload]
        )

    return run


@pytest.fixture(scope="session")
def fake_cuda(tmp_path_factory: pytest.TempPathFactory) -> None:
    """CUDA tensors without data and without a GPU (fake_devices)."""
    from fake_devices import allow_fake_cuda

    allow_fake_cuda(tmp_path_factory.mktemp("guard"))


def make_dataset(folder: Path, text: str = SONG, tokenizer: str = "char", name: str = "song") -> Path:
    """Prepare `text` in folder/data/name."""
    from nanoscope.data.prepare import prepare

    source = folder / f"{name}.txt"
    source.write_text(text, "utf-8")
    out = folder / "data" / name
    prepare([str(source)], out, tokenizer=tokenizer, vocab_size=300 if tokenizer == "bpe" else None)
    return out


@pytest.fixture
def small_dataset(tmp_path: Path) -> DatasetFactory:
    """A factory of prepared datasets in tmp_path/data: small_dataset(text, tokenizer, name) → its folder."""

    def make(text: str = SONG, tokenizer: str = "char", name: str = "song") -> Path:
        return make_dataset(tmp_path, text, tokenizer, name)

    return make


TINY_MODEL = ("--n_layer=1", "--n_head=2", "--n_embd=16", "--block_size=32", "--batch_size=4", "--eval_iters=1")


@pytest.fixture(scope="session")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of two iterations on SONG; not to be changed."""
    from nanoscope import cli

    folder = tmp_path_factory.mktemp("small-run")
    make_dataset(folder)
    with contextlib.chdir(folder):
        words = ["train", "--dataset=data/song", *TINY_MODEL, "--max_iters=2", "--out_dir=run", "--device=cpu"]
        assert cli.run(words) == 0
    return folder / "run"
