"""What stands around the rows of a log: settings, saves, ends, errors, resumptions."""

import re
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from nanoscope.runs.failures import ErrorFinder
from nanoscope.runs.roles import SECONDS
from nanoscope.runs.saving import saved_step
from nanoscope.runs.scan import cells
from nanoscope.runs.settings import read_settings
from nanoscope.runs.text import prefix_end
from nanoscope.runs.trainers import vocabulary

_RESUMING = re.compile(
    r"\bresum(?:ing|ed) (?:training|optimi[sz]ation|run|from|at)\b|\bresuming\b.{0,40}\bstep \d", re.I
)
_LANGUAGE = re.compile(
    r"Unsloth|LLaMA-?Factory|llmtuner|axolotl|CausalLM|SFTTrainer|language model|vocab(?:ulary)?[ _]size"
    r"|\bGPT-?[234]?\b|[Ll]lama|mlx_lm|fairseq|tokenizer"
)
_LEFT_OUT = re.compile(r"\s{0,40}[\[(<]?(?:\.{3,6}|…|⋮|\. \. \.)[\])>]?\s{0,40}")  # a line that stands for many
_LOSS_SCALE = re.compile(r"scaler?\b.{0,60}?\breducing (?:loss scale )?to (\d{1,12}(?:\.\d{1,6})?)")
_END = re.compile(
    r"(?i)\b(?:training|train) (?:is |has )?(?:been )?(?:complete[d]?|finished|done)\b(?! \d)"
    r"|^\W{0,8}(?:finished|end of) training\b(?! (?:epoch|step|batch|iter|loop))|\bLoss for final step: "
    r"|Trainer\.fit` stopped: `max_(?:epochs|steps)=\d{1,9}` reached"
)
_EVALUATION_BEGINS = re.compile(
    r"^\W{0,8}(?:\w{1,20}\W{1,4})?(?:val(?:id(?:ation)?)?|eval(?:uation)?|test|dev)\b[^\d]{0,24}:\s{0,4}$", re.I
)
EventKind = Literal["settings", "resume", "saved", "end", "error", "loss_scale", "left_out", "language", "eval_head"]


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
        if not is_record:
            yield from self._read_text(number, line)
        elif (saved := saved_step(line)) is not None:
            yield Event("saved", number, saved)
        error = self._errors.read(line, number)
        if error:
            yield Event("error", error[2], error)

    def _read_text(self, number: int, line: str) -> Iterable[Event]:
        if not self._language and _LANGUAGE.search(line):
            self._language = True
            yield Event("language", number)
        if _LEFT_OUT.fullmatch(line):
            yield Event("left_out", number)
        if "scal" in line and (scale := _LOSS_SCALE.search(line)):
            yield Event("loss_scale", number, float(scale[1]))
        if "esum" in line and _RESUMING.search(line):
            yield Event("resume", number)
        elif settings := read_settings(line):
            yield Event("settings", number, settings)
        if len(line) < 60 and line.rstrip().endswith(":") and _EVALUATION_BEGINS.match(line):
            yield Event("eval_head", number)
        saved = saved_step(line)
        if saved is not None:
            yield Event("saved", number, saved)
        elif _END.search(line) or vocabulary().ends.match(line, prefix_end(line)):
            took = (cell.value * SECONDS[cell.unit] for cell in cells(line) if cell.unit in SECONDS)
            yield Event("end", number, next(took, None))

    def finish(self) -> Iterable[Event]:
        """What was cut."""
        cut = self._errors.finish()
        if cut:
            yield Event("error", cut[2], cut)
