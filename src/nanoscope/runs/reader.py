"""Reads any log into runs: cleans its lines, finds its format, and repairs what terminals did to its records."""

import re
import sys
from collections import deque
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from nanoscope.errors import JobError, why
from nanoscope.messages import Text
from nanoscope.runs.detect import RECORD_BEGINS, SAMPLE_LINES, find_format
from nanoscope.runs.facts import read_facts
from nanoscope.runs.failures import ErrorFinder
from nanoscope.runs.files import lines_of
from nanoscope.runs.formats.base import Format
from nanoscope.runs.run import Log, Run, Series
from nanoscope.runs.spans import TimeSpans
from nanoscope.runs.text import without_prefix
from nanoscope.runs.trackers import open_log
from nanoscope.runs.wrapping import unwrapped
from nanoscope.suggest import did_you_mean, did_you_mean_run

MAX_WRAPPED = 4  # lines that one record may be broken into

_RESUMING = re.compile(
    r"\bresum(?:ing|ed) (?:training|optimi[sz]ation|run|from|at)\b|\bresuming\b.{0,40}\bstep \d", re.I
)


_LANGUAGE = re.compile(
    r"Unsloth|LLaMA-?Factory|llmtuner|axolotl|CausalLM|SFTTrainer|language model|vocab(?:ulary)?[ _]size"
    r"|\bGPT-?[234]?\b|[Ll]lama|mlx_lm|fairseq|tokenizer"
)
_LEFT_OUT = re.compile(r"\s{0,40}[\[(<]?(?:\.{3,6}|…|⋮|\. \. \.)[\])>]?\s{0,40}")  # a line that stands for many
_LOSS_SCALE = re.compile(r"scaler?\b.{0,60}?\breducing (?:loss scale )?to (\d{1,12}(?:\.\d{1,6})?)")


class LogReader:
    """Reads a log line by line with one format, and repairs what terminals did to its records."""

    def __init__(self, format: Format) -> None:
        self.format = format
        self._errors = ErrorFinder()
        self._rejoined = 0
        self._spans = TimeSpans()
        self._language = False  # something in the log speaks of a language model
        self._wrapped: list[str] = []  # the pieces so far of a record that a terminal may have broken

    def take(self, number: int, line: str) -> None:
        """Read one clean line."""
        self.format.builder.line = number
        kind = self.format.read(line)
        if kind is None:
            kind = self._rejoin(line)
        elif self._wrapped:
            self._wrapped.clear()
        if kind == "step" and line[:1] in "[0123456789":
            self._spans.see(line, self.format.builder.current)
        if kind is None:
            self._read_surroundings(number, line)
        elif "rror" in line:  # the message of a dying job, glued to a record
            self._read_error(number, line)

    def finish(self, source: str, lines: int) -> Log:
        """Return all that was read."""
        builder = self.format.builder
        cut = self._errors.finish()
        if cut:
            builder.error(*cut)
        self.format.end()
        runs = [run for run in builder.finish() if run.steps or run.evals]
        for run in runs:
            self._spans.settle(run)
            self._settle_meaning(run)
        return Log(source, self.format.name if runs else "none", runs, builder.errors, lines, self._rejoined)

    def _settle_meaning(self, run: Run) -> None:
        """Say whether the loss is a language model's, and whose tokens are counted, where the format knows."""
        if run.is_language_model is None:
            says_so = run.traits.trains_language_models or self._language or "vocab_size" in run.config
            run.is_language_model = True if says_so or any(e.metric == "bpb" for e in run.evals) else None
        run.tok_s_per_device = run.tok_s_per_device or run.traits.tok_s_per_device

    def _rejoin(self, line: str) -> str | None:
        """Read a record that a terminal broke into several lines, once its last piece has come."""
        if self._wrapped:
            bare = without_prefix(line)  # every piece of a broken record got a prefix of its own
            pieces = [*self._wrapped, bare]
            for joint, piece in dict.fromkeys((("", line), (" ", line), ("", bare))):
                kind = self.format.read(joint.join([*self._wrapped, piece]))
                if kind is not None:
                    self._rejoined += 1
                    self._wrapped.clear()
                    return kind
            if len(pieces) < MAX_WRAPPED and not RECORD_BEGINS.search(line):
                self._wrapped = pieces
                return None
            self._wrapped.clear()
        if len(line) < 400 and RECORD_BEGINS.search(line):
            self._wrapped = [line]
        return None

    def _read_surroundings(self, number: int, line: str) -> None:
        if not line or line.isspace():
            return
        builder = self.format.builder
        if _LEFT_OUT.fullmatch(line):
            builder.abridged = True
        if not self._language and _LANGUAGE.search(line):
            self._language = True
        if "scal" in line and (scale := _LOSS_SCALE.search(line)) and builder.current and builder.last_step is not None:
            builder.current.series.setdefault("loss_scale", Series()).append(builder.last_step, float(scale[1]))
        if "esum" in line and _RESUMING.search(line):
            builder.boundary(resuming=True)
        elif read_facts(line, builder.facts, builder.typed):
            builder.boundary()
        self._read_error(number, line)

    def _read_error(self, number: int, line: str) -> None:
        error = self._errors.read(line, number)
        if error:
            self.format.builder.error(*error)


def read_lines(lines: Iterable[tuple[int, str]], source: str) -> Log:
    """Read numbered, clean lines of one log."""
    lines = unwrapped(lines)
    sample: deque[tuple[int, str]] = deque(maxlen=SAMPLE_LINES)
    reader = LogReader(find_format(lines, sample))
    last_number = 0
    for last_number, line in chain(sample, lines):
        reader.take(last_number, line)
    return reader.finish(source, last_number)


def read_stream(stream: BinaryIO, source: str) -> Log:
    """Read a log from an open binary stream."""
    return read_lines(lines_of(stream), source)


def read_log(path: str) -> Log:
    """Read a log file, the directory of a run (nanoscope's or a tracker's), or standard input ('-')."""
    if path == "-":
        return read_stream(sys.stdin.buffer, "-")
    file = Path(path)
    if (file / "events.jsonl").is_file():
        file = file / "events.jsonl"
    try:
        if file.name == "events.jsonl" and file.is_file():
            from nanoscope.runs.own import OwnRun  # imported late, like formats/nanoscope.py does

            return OwnRun(file.parent).read(path)
        with open_log(file) as stream:
            return read_stream(stream, path)
    except FileNotFoundError:
        raise JobError("There is no file {path}.{hint}", path=path, hint=_did_you_mean(file)) from None
    except OSError as problem:
        raise JobError("Cannot read {path}: {reason}.", path=path, reason=why(problem)) from None


def _did_you_mean(file: Path) -> Text | str:
    if hint := did_you_mean_run(file):
        return hint
    try:
        names = [entry.name for entry in file.parent.iterdir()]
    except OSError:
        return ""
    return did_you_mean(file.name, names, lambda name: str(file.parent / name))
