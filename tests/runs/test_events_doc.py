"""docs/events.md documents every event and field, and its example of another trainer works."""

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from msgspec import NODEFAULT, Struct, structs

from nanoscope import cli
from nanoscope.runs.events import AnyEvent, Event
from nanoscope.runs.reader import read_log
from nanoscope.runs.summary import summary_of

DOC = (Path(__file__).parents[2] / "docs/events.md").read_text("utf-8")
KINDS: tuple[type[Struct], ...] = get_args(AnyEvent)


def section_of(kind: type[Struct]) -> str:
    """The part of the documentation about an event: a section of its own, or a row of the table of notes."""
    name = str(kind.__struct_config__.tag)
    row = re.search(rf"^\| `{name}` \| .*$", DOC, re.MULTILINE)
    section = re.search(rf"^### `{name}`\n(.*?)(?=^##)", DOC, re.MULTILINE | re.DOTALL)
    found = section or row
    assert found is not None, f"{name} is not documented"
    return found[0]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.__struct_config__.tag))
def test_every_field_of_an_event_is_documented_and_marked_if_it_is_required(kind: type[Struct]) -> None:
    section = section_of(kind)
    for field in structs.fields(kind):
        if field.name in Event.__struct_fields__:
            continue
        required = field.default is NODEFAULT and field.default_factory is NODEFAULT
        assert f"`{field.name}`" in section
        assert (f"`{field.name}` ●" in section) == required, field.name


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of the trainer in the documentation."""
    code = re.search(r"^```python\n(.*?)^```", DOC, re.MULTILINE | re.DOTALL)
    assert code is not None
    assert "nanoscope" not in code[1]
    place = tmp_path_factory.mktemp("elsewhere")
    subprocess.run([sys.executable, "-c", code[1]], cwd=place, check=True, timeout=120)
    return place / "runs/mine"


def test_the_example_is_read_whole(folder: Path) -> None:
    (run,) = read_log(str(folder)).runs
    assert (len(run.steps), [e.step for e in run.evals], run.said_finished) == (200, [0, 50, 100, 150, 200], True)


def test_the_example_is_explained(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["explain", str(folder), "--lang=en"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "200" in text
    assert "What to do" in text or "Validation" in text


def test_the_example_gets_its_report(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["report", str(folder)]) == 0
    assert "mine" in (folder / "report.html").read_text("utf-8")


def test_the_example_is_listed_as_finished(folder: Path) -> None:
    found = summary_of(folder)
    assert (found.state, found.step, found.total) == ("finished", 200, 200)
    assert found.val == pytest.approx(1.6 + 2.5 * 0.98**200)
