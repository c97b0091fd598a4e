"""`explain`, `eta` and `compare` in an environment that has neither torch nor numpy."""

import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

import example_logs
import nanoscope

NEEDED = ("cyclopts", "rich", "babel", "plotille", "msgspec")

Python = Callable[..., subprocess.CompletedProcess[str]]


def top_level_files(names: tuple[str, ...]) -> set[Path]:
    """The packages and modules of these distributions and their requirements."""
    found: set[Path] = set()
    seen: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            installed = distribution(name)
        except PackageNotFoundError:  # required on another Python or system
            continue
        found |= {
            Path(str(installed.locate_file(file.parts[0]))) for file in installed.files or () if file.parts[0] != ".."
        }
        waiting += [re.split(r"[^\w.-]", text)[0] for text in installed.requires or () if "extra ==" not in text]
    return found


def place(source: Path, folder: Path) -> None:
    target = folder / source.name
    try:
        target.symlink_to(source, target_is_directory=source.is_dir())
    except OSError:  # Windows grants links to few
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Python:
    """Run the interpreter of an isolated environment, in a folder with three logs."""
    folder = tmp_path_factory.mktemp("without-torch")
    builder = venv.EnvBuilder(symlinks=sys.platform != "win32")
    builder.create(folder / "env")
    context = builder.ensure_directories(folder / "env")
    packages = Path(getattr(context, "lib_path", "") or next((folder / "env").rglob("site-packages")))
    for source in (*top_level_files(NEEDED), Path(nanoscope.__file__).parent):
        place(source, packages)
    for name, text in (
        ("gpu", example_logs.gpu()),
        ("laptop", example_logs.laptop()),
        ("waiting", example_logs.WAITING),
    ):
        (folder / f"{name}.log").write_text(text, encoding="utf-8")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [context.env_exec_cmd, "-I", "-X", "utf8", *words]
        return subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", timeout=60)

    return run


@pytest.mark.parametrize("package", ["torch", "numpy"])
def test_the_environment_has_neither_torch_nor_numpy(python: Python, package: str) -> None:
    assert f"No module named '{package}'" in python("-c", f"import {package}").stderr


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("explain", "gpu.log", "--lang=en"), "Severe overfitting"),
        (("explain", "gpu.log", "--lang=ar"), "فرط تخصيص شديد"),
        (("explain", "gpu.log", "--json"), '"overfitting"'),
        (("explain", "gpu.log", "--annotate", "--lang=en"), "One training step:"),
        (("eta", "waiting.log", "--max_iters=6000", "--lang=en"), "6 h 32 min 51 s"),
        (("compare", "laptop.log", "gpu.log", "--lang=en"), "laptop and gpu differ by"),
    ],
)
def test_logs_are_explained_without_torch_and_numpy(python: Python, words: tuple[str, ...], answer: str) -> None:
    done = python("-m", "nanoscope", *words)

    assert done.returncode == 0, done.stderr
    assert answer in done.stdout
