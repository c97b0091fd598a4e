"""What a run's own folder tells beyond its log: notes, estimates on the way, environment, samples."""

import re
from array import array
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from nanoscope.runs.events import read_events
from nanoscope.untrusted import printable

NoteKind = Literal["rollback", "out_of_memory", "spike", "slow_step", "asleep", "checkpoint_failed"]

MOST_NOTES = 200
MOST_SAMPLES = 40
SAMPLE_BYTES = 4000
VALUE_CHARACTERS = 200
_KINDS = get_args(NoteKind)
_OF_THE_EVENT = ("event", "t", "time", "version", "run", "config", "first_step")
_SAMPLE = re.compile(r"step-([0-9]{1,12})\.txt")

Setting = tuple[str, str]


@dataclass(eq=False)
class Note:
    """Something that the run noticed by itself, with the numbers it recorded."""

    kind: NoteKind
    step: int
    values: Mapping[str, str | float]


@dataclass(eq=False)
class RunFolderFacts:
    """Everything from the folder of a run that its log's `Run` does not hold."""

    notes: list[Note] = field(default_factory=list)
    # Steps and the time left as it was estimated there; a step that was done again stands here twice.
    eta_steps: "array[int]" = field(default_factory=lambda: array("q"))
    eta_seconds: "array[float]" = field(default_factory=lambda: array("d"))
    config: list[Setting] = field(default_factory=list)
    environment: list[Setting] = field(default_factory=list)
    samples: list[tuple[int, str]] = field(default_factory=list)  # step and text


def read_folder(path: str) -> RunFolderFacts:
    """The facts of a run's folder (or of its events.jsonl); none for any other log."""
    folder = Path(path)
    if folder.name == "events.jsonl":
        folder = folder.parent
    facts = RunFolderFacts()
    if not (folder / "events.jsonl").is_file():
        return facts
    for event in read_events(folder / "events.jsonl"):
        take_event(event, facts)
    facts.samples = read_samples(folder / "samples")
    return facts


def take_event(event: dict[str, Any], facts: RunFolderFacts) -> None:
    """Add what an event tells, in the order in which the events were written."""
    kind, step = event["event"], event.get("step")
    if kind == "start":
        config = event.get("config")
        facts.config = _settings(config if isinstance(config, dict) else {})
        facts.environment = _settings({k: v for k, v in event.items() if k not in _OF_THE_EVENT})
        if not event.get("first_step"):  # a new run in the same file
            facts.notes = []
            del facts.eta_steps[:], facts.eta_seconds[:]
    if type(step) is not int or not 0 <= step < 10**12:
        return
    if kind == "iter":
        if isinstance(eta := _value(event.get("eta_seconds")), float):
            facts.eta_steps.append(step)
            facts.eta_seconds.append(eta)
    elif kind in _KINDS and len(facts.notes) < MOST_NOTES:
        values = {k: shown for k, v in event.items() if (shown := _value(v)) is not None}
        facts.notes.append(Note(kind, step, values))


def _value(value: Any) -> str | float | None:
    if isinstance(value, str):
        return printable(value[:VALUE_CHARACTERS])
    return float(value) if type(value) in (int, float) and abs(value) < 1e30 else None


def _settings(values: dict[str, Any]) -> list[Setting]:
    scalars = {k: v for k, v in values.items() if isinstance(v, str | int | float)}
    return [(printable(k[:60]), printable(str(v)[:VALUE_CHARACTERS])) for k, v in list(scalars.items())[:200]]


def read_samples(folder: Path) -> list[tuple[int, str]]:
    """What the model wrote on the way: plain files with the names that training gives them, spread over the run."""
    found: dict[int, Path] = {}
    if folder.is_symlink():
        return []
    with suppress(OSError):
        for path in folder.iterdir():
            name = _SAMPLE.fullmatch(path.name)
            if name and path.is_file() and not path.is_symlink():
                found[int(name[1])] = path
    steps = sorted(found)
    if len(steps) > MOST_SAMPLES:
        steps = [steps[round(i * (len(steps) - 1) / (MOST_SAMPLES - 1))] for i in range(MOST_SAMPLES)]
    texts = []
    for step in steps:
        with suppress(OSError), found[step].open("rb") as file:
            text = file.read(SAMPLE_BYTES).decode("utf-8", errors="replace").rstrip("\ufffd")
            texts.append((step, printable(text)))
    return texts
