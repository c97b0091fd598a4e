"""What stands around the rows of a log: settings, saves, ends, errors, resumptions."""

import re
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from nanoscope.runs.failures import ErrorFinder, Failure
from nanoscope.runs.roles import SECONDS
from nanoscope.runs.scan import cells
from nanoscope.runs.settings import read_settings
from nanoscope.runs.text import prefix_end
from nanoscope.runs.trainers import vocabulary

EventKind = Literal["settings", "resume", "saved", "end", "error", "loss_scale", "left_out", "language", "eval_head"]
_SAYS: dict[EventKind, re.Pattern[str]] = {
    "language": re.compile(
        r"Unsloth|LLaMA-?Factory|llmtuner|axolotl|CausalLM|SFTTrainer|language model|vocab(?:ulary)?[ _]size"
        r"|\bGPT-?[234]?\b|[Ll]lama|mlx_lm|fairseq|tokenizer"
    ),
    # A line that stands for many.
    "left_out": re.compile(r"^\s{0,40}[\[(<]?(?:\.{3,6}|…|⋮|\. \. \.)[\])>]?\s{0,40}$"),
    "loss_scale": re.compile(r"scaler?\b.{0,60}?\breducing (?:loss scale )?to (\d{1,12}(?:\.\d{1,6})?)"),
    "resume": re.compile(
        r"\bresum(?:ing|ed) (?:training|optimi[sz]ation|run|from|at)\b|\bresuming\b.{0,40}\bstep \d", re.I
    ),
    "eval_head": re.compile(
        r"^\W{0,8}(?:\w{1,20}\W{1,4})?(?:val(?:id(?:ation)?)?|eval(?:uation)?|test|dev)\b[^\d]{0,24}:\s{0,4}$", re.I
    ),
}
_END = re.compile(
    r"(?i)\b(?:training|train) (?:is |has )?(?:been )?(?:complete[d]?|finished|done)\b(?! \d)"
    r"|^\W{0,8}(?:finished|end of) training\b(?! (?:epoch|step|batch|iter|loop))|\bLoss for final step: "
    r"|Trainer\.fit` stopped: `max_(?:epochs|steps)=\d{1,9}` reached"
)
# Sentences that say that a checkpoint was written, in the words of any trainer.
_SAVING = re.compile(
    r"\bsav(?:ed|ing)\b.{0,60}?\b(?:checkpoint|model|ckpt|snapshot|weights|adapters?|state)"
    r"|\bwr(?:ote|iting|itten) (?:the |a )?(?:\w{1,20} )?(?:checkpoint|model|ckpt|snapshot|weights|state)"
    r" (?:to|at|in)\b"
    r"|\b(?:checkpoint|snapshot|model|weights|adapters?)\b (?:\S{1,80} )?(?:was |has been |is )?(?:saved|written)\b",
    re.IGNORECASE,
)
_SAVED_AT = re.compile(
    r"(?:(?:iter(?:ation)?|step|epoch|update)[ :=#]{1,3}|\bat (?=\d{1,12} (?:iter|step|update))"
    r"|(?:checkpoint|ckpt|step|iter|model)[-_])(\d{1,12})\b",
    re.IGNORECASE,
)
_NOT_SAVING = re.compile(
    r"\b(?:will be|every|not sav|to be saved|load|cannot|can't|fail|error|without|would)\b", re.IGNORECASE
)


class Event(NamedTuple):
    """Something that a line says which is no row."""

    kind: EventKind
    line: int
    what: Any = None
    at: int = 0  # where it stands in the file


class Surroundings:
    """Looks through the lines that are no rows."""

    def __init__(self) -> None:
        self._errors = ErrorFinder()
        self._language = False

    def read(self, number: int, line: str, is_record: bool) -> Iterable[Event]:
        """What a line says; of a record, only what is glued to it."""
        if len(line) <= 400 and _SAVING.search(line) and not _NOT_SAVING.search(line):
            at = _SAVED_AT.search(line)
            yield Event("saved", number, int(at[1]) if at else -1)
        elif not is_record and (_END.search(line) or vocabulary().ends.match(line, prefix_end(line))):
            took = (cell.value * SECONDS[cell.unit] for cell in cells(line) if cell.unit in SECONDS)
            yield Event("end", number, next(took, None))
        if not is_record:
            yield from self._read_text(number, line)
        yield from _failed(self._errors.read(line, number))

    def _read_text(self, number: int, line: str) -> Iterable[Event]:
        for kind, pattern in _SAYS.items():
            found = None if kind == "language" and self._language else pattern.search(line)
            if found:
                self._language = self._language or kind == "language"  # once is enough
                yield Event(kind, number, float(found[1]) if kind == "loss_scale" else None)
        if settings := read_settings(line):
            yield Event("settings", number, settings)

    def finish(self) -> Iterable[Event]:
        """What was cut."""
        return _failed(self._errors.finish())


def _failed(failure: Failure | None) -> list[Event]:
    return [Event("error", failure[2], failure)] if failure else []
