import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from nanoscope.data.prepare import prepare
from pretend_gpu import PretendGPU, install
from small_runs import Folder


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)  # tests run side by side


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    words = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "two", "birds", "fly", "over", "hills"]
    chooser = random.Random(7)
    text = " ".join(chooser.choice(words) for _ in range(3000))
    (tmp_path / "tiny.txt").write_text(text, encoding="utf-8")
    prepare([tmp_path / "tiny.txt"], tmp_path / "data/tiny", tokenizer="char")
    return Folder(tmp_path)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[PretendGPU]:
    with install(monkeypatch) as pretended:
        yield pretended
