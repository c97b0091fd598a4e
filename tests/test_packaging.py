"""The wheel works without the source tree, and no module imports more than it needs."""

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from conftest import TINY_MODEL, DatasetFactory
from nanoscope.config_sources import presets

ROOT = Path(__file__).parents[1]

# The packages of the extras except 'train', and those that are used only if they are installed.
OPTIONAL = ["tiktoken", "pyarrow", "wandb", "tensorboardX", "tensorboard", "pandas"]

MODULES = sorted(
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "src/nanoscope").rglob("*.py")
    if path.name != "__main__.py"
)

# These compute with torch; all others must not import it.
TORCH_ROOMS = (
    "model",
    "optim",
    "training",
    "generation",
    "interop",
    "hardware.device",
    "hardware.memory",
    "planning",
    "data.loader",
)
LIGHT = [name for name in MODULES if not name.removeprefix("nanoscope.").startswith(TORCH_ROOMS)]

BLOCKED = f"""
import importlib, sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {OPTIONAL!r}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Blocker())
"""

WITHOUT_OPTIONAL = f"""{BLOCKED}
for name in {MODULES!r}:
    importlib.import_module(name)
"""

WITHOUT_TORCH = f"""
import importlib, sys
for name in {LIGHT!r}:
    importlib.import_module(name)
    if "torch" in sys.modules:
        sys.exit(name + " imports torch")
"""


def run_python(code: str, environment: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=cwd, capture_output=True, text=True, encoding="utf-8"
    )


@pytest.mark.slow
def test_no_module_imports_an_optional_package_when_it_is_loaded(
    child_environment: dict[str, str], tmp_path: Path
) -> None:
    assert {"nanoscope.cli", "nanoscope.training.trainer", "nanoscope.data.readers"} <= set(MODULES)
    done = run_python(WITHOUT_OPTIONAL, child_environment, tmp_path)
    assert done.returncode == 0, done.stderr


def test_what_explains_a_log_never_imports_torch(child_environment: dict[str, str], tmp_path: Path) -> None:
    assert {"runs", "findings", "words", "views", "cli", "config"} <= {name.split(".")[1] for name in LIGHT[1:]}
    done = run_python(WITHOUT_TORCH, child_environment, tmp_path)
    assert done.returncode == 0, done.stderr


# --- the wheel ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that is built from the sdist, as those do who install from it."""
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling, which builds the wheel, is not installed")
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder)]
    done = subprocess.run(build, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    (sdist,) = folder.glob("nanoscope-*.tar.gz")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(folder)]
    done = subprocess.run([*pip, "wheel", *options, str(sdist)], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("nanoscope-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    options = ["--no-deps", "--no-index", "--target", str(folder)]
    done = subprocess.run([*pip, "install", *options, str(wheel)], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_the_wheel_has_every_file_of_the_package_and_no_other(wheel: Path) -> None:
    sources = ROOT / "src"
    expected = {
        path.relative_to(sources).as_posix()
        for path in (sources / "nanoscope").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == expected
    assert "nanoscope/presets/laptop.toml" in packed
    assert "nanoscope/hardware/peaks.toml" in packed


@pytest.mark.slow
def test_the_installed_wheel_trains_without_the_source_tree(
    installed: Path, child_environment: dict[str, str], small_dataset: DatasetFactory, tmp_path: Path
) -> None:
    small_dataset()
    environment = {**child_environment, "PYTHONPATH": str(installed)}
    where = run_python("import nanoscope; print(nanoscope.__file__)", environment, tmp_path)
    assert Path(where.stdout.strip()).is_relative_to(installed)
    words = ["train", "laptop", "--dataset=data/song", *TINY_MODEL, "--max_iters=2", "--device=cpu"]
    done = subprocess.run(
        [sys.executable, "-m", "nanoscope", *words],
        env=environment, cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "finished 2 iterations" in done.stdout
    assert (tmp_path / "runs/laptop-song/checkpoints/last").is_file()


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="the script is a program of its own on Windows")
def test_the_installed_script_is_the_same_program(
    installed: Path, child_environment: dict[str, str], tmp_path: Path
) -> None:
    environment = {**child_environment, "PYTHONPATH": str(installed)}
    by_script, by_module = (
        subprocess.run(
            [sys.executable, *how, "train", "--help"], env=environment, cwd=tmp_path, capture_output=True, text=True
        )
        for how in ([str(installed / "bin/nanoscope")], ["-m", "nanoscope"])
    )
    assert (by_script.returncode, by_script.stderr) == (0, "")
    assert by_script.stdout == by_module.stdout
    assert "laptop" in by_script.stdout


@pytest.mark.slow
def test_the_installed_peaks_and_presets_are_read(
    installed: Path, child_environment: dict[str, str], tmp_path: Path
) -> None:
    code = "from nanoscope.config_sources import presets; from nanoscope.hardware.peaks import find_device\n"
    code += "print(*presets(), find_device('a100').name)"
    done = run_python(code, {**child_environment, "PYTHONPATH": str(installed)}, tmp_path)
    assert done.stdout.split() == [*presets(), "NVIDIA", "A100"]


# --- an empty environment ----------------------------------------------------------------------------------------

LOG = "".join(f"iter {n}: loss {4 - n / 100:.4f}, time 24.10ms, mfu 1.20%\n" for n in range(0, 100, 10))
MOST_MEGABYTES = 170  # with pip; numpy and Babel take 105 of them


@pytest.fixture(scope="module")
def analyst(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with nothing but what `pip install nanoscope` brings; the folder of its programs."""
    folder = tmp_path_factory.mktemp("analyst")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    pip = [str(programs / "python"), "-m", "pip", "--disable-pip-version-check", "--no-input"]
    options = ["--quiet", "--constraint", str(ROOT / "constraints.txt")]
    done = subprocess.run([*pip, "install", *options, str(wheel)], capture_output=True, text=True, cwd=folder)
    if "No matching distribution" in done.stderr:
        pytest.skip("no package index can be reached from here")
    assert done.returncode == 0, done.stdout + done.stderr
    assert subprocess.run([*pip, "check"], capture_output=True).returncode == 0
    return programs


def in_empty_environment(programs: Path, cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(programs / "nanoscope"), *words],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )


@pytest.mark.slow
def test_the_analyst_installs_small_and_without_torch(analyst: Path) -> None:
    files = [path for path in analyst.parent.rglob("*") if path.is_file() and not path.is_symlink()]
    assert not [path for path in files if path.parts[-2] == "torch"]
    assert sum(path.stat().st_blocks * 512 for path in files) / 2**20 <= MOST_MEGABYTES


@pytest.mark.slow
def test_the_analyst_explains_reports_and_prepares(analyst: Path, tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(LOG, encoding="utf-8")
    explained = in_empty_environment(analyst, tmp_path, "explain", "train.log")
    assert explained.returncode == 0, explained.stderr
    assert "24.1 ms" in explained.stdout
    reported = in_empty_environment(analyst, tmp_path, "report", "train.log", "-o", "page.html")
    assert reported.returncode == 0, reported.stderr
    assert "uPlot" in (tmp_path / "page.html").read_text(encoding="utf-8")
    prepared = in_empty_environment(analyst, tmp_path, "prepare", "train.log")
    assert prepared.returncode == 0, prepared.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", ["train laptop", "plan laptop", "sample runs/laptop", "eval runs/laptop", "tune", "demo"]
)
def test_a_command_that_trains_says_what_to_install(analyst: Path, tmp_path: Path, words: str) -> None:
    done = in_empty_environment(analyst, tmp_path, *words.split())
    assert done.returncode == 1
    assert "pip install 'nanoscope[train]'" in done.stderr
    assert "Traceback" not in done.stderr
