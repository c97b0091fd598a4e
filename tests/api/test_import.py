"""`import nanoscope` is quick, complete and typed."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import nanoscope

STUB = Path(nanoscope.__file__).with_suffix(".pyi")


def test_importing_loads_neither_torch_nor_numpy_nor_any_room(child_environment: dict[str, str]) -> None:
    code = "import sys; before = set(sys.modules); import nanoscope; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], env=child_environment, capture_output=True, text=True)
    assert done.stdout.split() == ["nanoscope"]


def test_reading_and_explaining_a_log_never_load_torch(child_environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("iter 0: loss 4.0, time 1.00ms\niter 1: loss 3.0, time 1.00ms\n", "utf-8")
    code = (
        "import sys, nanoscope; nanoscope.explain('train.log')._repr_html_(); print('numpy' in sys.modules);"
        "nanoscope.read('train.log').runs[0].steps; nanoscope.list_runs('.'); print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=child_environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.split() == ["False", "False"], done.stderr


def test_every_listed_name_exists_and_is_documented() -> None:
    assert dir(nanoscope) == sorted(nanoscope.__all__)
    for name in set(nanoscope.__all__) - {"__version__"}:
        assert getattr(nanoscope, name).__doc__


def test_type_checkers_see_the_same_names_in_the_same_places() -> None:
    imports = [node for node in ast.parse(STUB.read_text("utf-8")).body if isinstance(node, ast.ImportFrom)]
    typed = {alias.asname: node.module for node in imports for alias in node.names}
    assert typed == nanoscope._PLACES  # type: ignore[attr-defined]
    assert STUB.with_name("py.typed").is_file()


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        nanoscope.trian  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.slow
def test_mypy_checks_the_users_of_the_interface(tmp_path: Path) -> None:
    source = tmp_path / "user.py"
    source.write_text(
        "import nanoscope\n"
        "text: str = nanoscope.load('runs/a').generate('x')\n"
        "texts: list[str] = nanoscope.load('runs/a').samples('x', 2)\n"
        "run: nanoscope.Run = nanoscope.train('laptop', max_iters=5)\n"
        "wrong: int = nanoscope.explain('log').verdicts\n"
        "loss: str = nanoscope.evaluate('runs/a').found.scores[0].step\n"
        "nanoscope.trian\n",
        "utf-8",
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(source)]
    root = STUB.parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    places = [int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line]
    assert sorted(set(places)) == [5, 6, 7], done.stdout
