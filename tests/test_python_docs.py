"""docs/python.md and docs/nanoscope.ipynb run as they are."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def matches(shown: str, printed: str) -> bool:
    """Whether the output is as shown; '…' stands for anything, and as a line of its own for any number of lines."""
    lines = shown.splitlines(keepends=True)
    pattern = "".join("(?:.*\n)*?" if line == "…\n" else re.escape(line).replace("…", ".*") for line in lines)
    return re.fullmatch(pattern, printed) is not None


@pytest.mark.slow
def test_the_examples_of_the_page_print_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    printed = ""
    for kind, text in BLOCK.findall((DOCS / "python.md").read_text("utf-8")):
        if kind == "text":
            assert matches(text, printed), f"shown:\n{text}\nprinted:\n{printed}"
            continue
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(text, "docs/python.md", "exec"), names)
        printed = output.getvalue()
        printed += "" if printed.endswith("\n") or not printed else "\n"


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(DOCS / "nanoscope.ipynb", as_version=4)
    kept = [kinds_of_output(cell) for cell in notebook.cells]
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert [kinds_of_output(cell) for cell in notebook.cells] == kept
    assert any("text/html" in output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", ()))


def kinds_of_output(cell: Any) -> set[str]:
    return {output.output_type for output in cell.get("outputs", ())}
