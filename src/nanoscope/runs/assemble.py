"""Runs from rows and events, in the order of the file: next, copy, resume, new run, two runs in one file."""

import math
import re
from array import array
from typing import Any, Literal

from nanoscope.runs.builder import RunBuilder
from nanoscope.runs.columns import Tables
from nanoscope.runs.meaning import SAME_VAL, Rows, Understanding, understand
from nanoscope.runs.records import CheckpointRecord, Clock, EndRecord, EvalRecord, StepRecord
from nanoscope.runs.run import LINE_BITS, MISSING, LineRows, Log, Run, Series, Traits
from nanoscope.runs.scan import LEFT_OUT, label_of
from nanoscope.runs.settings import read_settings
from nanoscope.runs.surroundings import Event

SERIES = {
    "bar_left": 1.0,
    "loss_scale": 1.0,
    "memory_gb": 1.0,
    "memory_mb": 1e-3,
    "data_s": 1.0,
    "eta_s": 1.0,
    "lr_share": 1.0,
}
_SAME_SERIES = {"memory_mb": "memory_gb", "bar_left": "eta_s"}
BULK = 16
_LANGUAGE = re.compile(r"\b(?:ppl|perplexity|bp[bc]|tok(?:en)?s?|kt/s|wps|lm loss|mlm|language)\b")
_OTHER_TASK = re.compile(
    r"loss (?:box|mask|rpn|objectness|classifier|cls|bbox|dfl|keypoint)|\b(?:box|cls|dfl) loss\b"
    r"|acc ?[15]\b|top ?[15]\b|\bm?iou\b|\bdice\b|\bmap\b|\bwer\b|\bcer\b|\bctc|psnr|\bfid\b|acc seg|\bauc\b|decode "
    r"|\b[dg] loss\b|\bloss [dg]\b"
)
_NO_MEASURE = re.compile(r"v_num|rank|local_rank|pid|gpus?|device|node|seed|line|\S*\.py", re.IGNORECASE)
_AVERAGE = re.compile(r"(?:avg|average|mean|running|smooth\w*) (?:train )?loss|loss (?:avg|mean)")


class Assembler:
    """Places what the rows and events of a log say."""

    def __init__(self, found: Tables) -> None:
        settings: dict[str, Any] = {}
        for event in found.events:
            if event.kind == "settings":
                read_settings(event.what, settings, set())
        self.found = found
        self.meaning = meaning = understand(found, settings)
        trainer = meaning.trainer
        self.format = trainer.name if trainer else "generic"
        self.builder = RunBuilder(self.format, trainer.traits if trainer else Traits())
        self.language = False
        self.last_val = MISSING

    def runs(self) -> list[Run]:
        rows = self.meaning.rows
        main = max((each for each in rows if each.trains), key=lambda each: len(each.table), default=None)
        stops: list[tuple[int, Any, int]] = [(event.at, event, 0) for event in self.found.events]
        for each in rows:
            if each is not main:
                stops += [(at, each, index) for index, at in enumerate(each.table.at)]
        stops.sort(key=lambda stop: stop[0])
        before = self.meaning.trainer and self.meaning.trainer.means.get("evaluation_printed") == "before"
        self.leads = before or _evaluations_lead(rows)
        self.waiting: list[EvalRecord] = []
        done = 0
        for at, what, index in stops:
            if main is not None and done < len(main.table) and main.table.at[done] < at:
                done = self._place_until(main, done, at)
            self.builder.line = at >> LINE_BITS
            if isinstance(what, Event):
                self._event(what)
            else:
                self._row(what, index)
        if main is not None:
            self._place_until(main, done, 1 << 62)
        last = self.builder.last_step
        for evaluation in self.waiting:
            evaluation.step = None if last is None else last + 1
            self.builder.place(evaluation)
        return [run for run in self.builder.finish() if run.steps or run.evals]

    # --- rows ---

    def _place_until(self, rows: Rows, start: int, until: int) -> int:
        """Place the rows before a place in the file."""
        places = rows.table.at
        end = start
        count = len(places)
        while end < count and places[end] < until:
            end += 1
        at = start
        while at < end:
            if end - at >= BULK and at > 0 and self._place_many(rows, at, end):
                break
            self.builder.line = places[at] >> LINE_BITS
            self._row(rows, at)
            at += 1
            if end - at >= BULK and at - start < 4:
                continue
        return end

    def _place_many(self, rows: Rows, start: int, end: int) -> bool:
        if rows.steps is None or rows.evaluates or rows.clock is not None or rows.epoch is not None or self.waiting:
            return False
        if (
            any(rows.table.get(role) for role in ("tok_s", "tok_s_each", *SERIES))
            or rows.time is None
            or rows.loss is None
        ):
            return False
        columns: list[Any] = [rows.steps[start:end], rows.loss.values[start:end], rows.time[start:end]]
        if not math.isfinite(sum(columns[1]) + sum(columns[2])):
            return False
        missing = array("d", [MISSING]) * (end - start)
        rest = [
            column.values[start:end] if (column := rows.table.get(role)) else missing for role in ("lr", "grad_norm")
        ]
        mfu = rows.table.get("mfu_pct")
        rest += [missing, mfu.values[start:end] if mfu else missing]
        return self.builder.place_next_steps(*(column.tolist() for column in (*columns, *rest)))

    def _row(self, rows: Rows, index: int) -> None:
        if rows.ends:
            self._summary(rows, index)
            return
        if rows.trains and not (rows.loss is not None and rows.loss.values[index] != rows.loss.values[index]):
            self._step(rows, index)
        if rows.evaluates:
            self._evaluation(rows, index)

    def _summary(self, rows: Rows, index: int) -> None:
        """The last line of a run; its time is used where no step has one."""
        run, seconds = self.builder.current, rows.table.get("bare_elapsed")
        if run and run.steps and seconds and not any(time > 0 for time in run.steps.time_s):
            run.steps.time_s[-1] = seconds.values[index] / max(1, run.last_step or 1)
            run.time_source, run.time_spans_steps = "cumulative", True
        self.builder.place(EndRecord())

    def _step(self, rows: Rows, index: int) -> None:
        assert rows.steps is not None
        table = rows.table

        def value(*roles: str) -> float:
            column = table.get(*roles)
            return column.values[index] * column.factor if column else MISSING

        clock = None
        if rows.clock is not None and rows.clock[index] == rows.clock[index]:
            clock = Clock(
                rows.clock[index], rows.source, rows.resolution_s, rows.starts_with_run and rows.steps[index] <= 100_000
            )
        extra = {}
        for name, factor in SERIES.items():
            column = table.get(name)
            if column and math.isfinite(column.values[index]):
                extra[_SAME_SERIES.get(name, name)] = column.values[index] * column.factor * factor
        total = rows.total
        if total is None and rows.totals is not None and math.isfinite(rows.totals.values[index]):
            total = int(rows.totals.values[index])
        loss = rows.loss.values[index] if rows.loss else MISSING
        loss = MISSING if loss == LEFT_OUT else loss
        for evaluation in self.waiting:
            evaluation.step = rows.steps[index] if self.leads or rows.steps[index] > 1 else 0
        record = StepRecord(
            rows.steps[index],
            loss,
            rows.time[index] if rows.time is not None else MISSING,
            _finite(value("lr")),
            value("grad_norm"),
            _finite(value("tok_s", "tok_s_each")),
            _finite(value("mfu_pct")),
            clock,
            total,
            rows.epoch.values[index] if rows.epoch else MISSING,
            extra or None,
        )
        for evaluation in self.waiting:
            self.builder.place(evaluation)
        self.waiting.clear()
        self.builder.abridged = self.builder.abridged or (loss != loss and self.format == "nanogpt")
        self.builder.place(record)

    def _evaluation(self, rows: Rows, index: int) -> None:
        assert rows.val is not None
        if (
            rows.only_last
            and index + 1 < len(rows.table)
            and rows.table.at[index + 1] - rows.table.at[index] < (3 << LINE_BITS)
        ):
            return
        val = rows.val.values[index]
        if val != val or (rows.repeats_val and abs(val - self.last_val) < SAME_VAL):
            return
        self.last_val = val
        val = val if val > LEFT_OUT else MISSING
        train = rows.loss.values[index] if rows.loss else None
        train = None if train == LEFT_OUT else train
        error = rows.table.part_of(rows.val, "error") if rows.val in rows.table.columns else None
        took = rows.table.get("eval_s")
        seconds = took.values[index] * took.factor if took else None
        step = None
        if rows.steps is not None and not rows.trains:
            step = rows.steps[index]
        elif rows.trains:
            step = self.builder.last_step
        clock = None
        if not rows.trains and (elapsed := rows.table.get("elapsed_s", "bare_elapsed")):
            clock = Clock(elapsed.values[index] * elapsed.factor)
        evaluation = EvalRecord(
            step, val, train, rows.metric, seconds, error.values[index] if error else None, clock, rows.total
        )
        if step is None and (self.leads or self.builder.last_step is None):
            self.waiting = [evaluation]
        else:
            self.builder.place(evaluation)

    # --- events ---

    def _event(self, event: Event) -> None:
        builder = self.builder
        if event.kind == "settings":
            if read_settings(event.what, builder.facts, builder.typed):
                builder.boundary()
        elif event.kind == "resume":
            builder.boundary(resuming=True)
        elif event.kind == "error":
            builder.error(*event.what)
        elif event.kind == "saved":
            self._saved(event.what)
        elif event.kind == "end":
            builder.place(EndRecord())
        elif event.kind == "left_out":
            builder.abridged = True
        elif event.kind == "language":
            self.language = True
        elif event.kind == "loss_scale" and builder.current and builder.last_step is not None:
            builder.current.series.setdefault("loss_scale", Series()).append(builder.last_step, event.what)

    def _saved(self, step: int) -> None:
        run, last = self.builder.current, self.builder.last_step
        if step < 0 and run is not None and run.said_finished:
            return  # the final model
        counts_alike = step >= 0 and (last is None or step <= 2 * last + 2)
        self.builder.place(CheckpointRecord(step if counts_alike else None))


def _finite(value: float) -> float:
    return value if value - value == 0 else MISSING


def _evaluations_lead(rows: list[Rows]) -> bool:
    """Whether evaluations without a step are printed before the step that they belong to: those steps are then
    multiples of one interval."""
    places = sorted(
        at for each in rows if each.evaluates and not each.trains and each.steps is None for at in each.table.at
    )
    if not places:
        return False
    steps = sorted(
        (at, step)
        for each in rows
        if each.trains and each.steps
        for at, step in zip(each.table.at, each.steps, strict=True)
    )
    before, after, index = [], [], 0
    for at in places:
        while index < len(steps) and steps[index][0] < at:
            index += 1
        if index and index < len(steps):
            before.append(steps[index - 1][1])
            after.append(steps[index][1])
    if steps and steps[0][0] > places[0] and steps[0][1] == 0:
        return True
    if len(set(after)) < 2:
        return bool(after) and after[0] % 5 == 0 != before[0] % 5
    return math.gcd(*after) > max(1, math.gcd(*before))


def _count_tokens(run: Run, meaning: Understanding) -> None:
    """Tokens a step, where a row says how many were seen."""
    for rows in meaning.rows:
        seen = rows.table.get("tokens_seen") if rows.trains else None
        if seen is not None and rows.steps and len(rows.steps) > 1 and rows.steps[-1] > rows.steps[-2]:
            each = (seen.values[-1] - seen.values[-2]) / (rows.steps[-1] - rows.steps[-2])
            if 1 <= each < math.inf and "tokens_per_step" not in run.config:
                run.config["tokens_per_step"] = round(each)


def _is_mean(rows: Rows) -> bool:
    """Whether the printed loss is smoothed: torchvision's meters, Lightning's bar, Keras's."""
    table = rows.table
    meter = (
        rows.loss is not None
        and rows.loss.part == ""
        and rows.loss in table.columns
        and table.part_of(rows.loss, "mean")
    )
    return bool(meter and table.head.startswith("epoch")) or (table.bar is not None and "v_num" in table.unused)


def _settle(run: Run, meaning: Understanding, language: bool) -> None:
    """What the rows as a whole say about a run."""
    tables = [rows.table for rows in meaning.rows if rows.trains or rows.evaluates]
    labels = " | ".join(
        {c.label for t in tables for c in t.columns} | {label_of(name) for t in tables for name in t.unused}
    )
    run.unit = meaning.unit
    run.doubts = meaning.doubts
    run.steps_are_lines = meaning.steps_are_lines
    if run.unit == "epoch":
        run.total_steps = run.total_steps or meaning.epochs
        said = run.config.get("epochs")
        if run.total_steps is None and isinstance(said, int):
            run.total_steps = said
    if not run.traits.trains_language_models:
        if _OTHER_TASK.search(labels):
            run.is_language_model = False
        elif _LANGUAGE.search(labels):
            run.is_language_model = True
    if run.is_language_model is None:
        says_so = run.traits.trains_language_models or language or "vocab_size" in run.config
        run.is_language_model = True if says_so or any(e.metric == "bpb" for e in run.evals) else None
    _count_tokens(run, meaning)
    each = any(t.get("tok_s_each") for t in tables) and not any(t.get("tok_s") for t in tables)
    run.tok_s_per_device = run.traits.tok_s_per_device or each
    run.loss_is_average = (
        meaning.averaged or bool(_AVERAGE.search(labels)) or any(_is_mean(rows) for rows in meaning.rows if rows.trains)
    )
    unused = dict.fromkeys(name for t in tables for name in t.unused if not _NO_MEASURE.fullmatch(name))
    run.unused_columns = tuple(unused)[:50]
    run.time_spans_steps = run.time_spans_steps or any(rows.spans for rows in meaning.rows)
    for rows in meaning.rows:
        if rows.trains and rows.loss and (ppl := rows.table.get("ppl")):
            pairs = [(a, b) for a, b in zip(rows.loss.values, ppl.values, strict=True) if 0.5 < a < 60 and b > 1][:50]
            nats = sum(abs(math.exp(a) / b - 1) < 0.05 for a, b in pairs)
            run.loss_in_bits = sum(abs(2**a / b - 1) < 0.05 for a, b in pairs) > nats


def _line_rows(meaning: Understanding, found: Tables) -> list[LineRows]:
    lines = []
    for rows in meaning.rows:
        mfu = rows.table.get("mfu_pct")
        if rows.trains or rows.evaluates:
            kind: Literal["step", "eval"] = "step" if rows.trains else "eval"
            lines.append(LineRows(kind, rows.table.at, rows.steps, mfu.values if mfu else None))
    saved = array("q", (event.at for event in found.events if event.kind == "saved"))
    return [*lines, LineRows("checkpoint", saved)]


def assemble(found: Tables, source: str, keep_rows: bool) -> Log:
    """The log that these tables are of; with `keep_rows` it says what each line is."""
    assembler = Assembler(found)
    runs = assembler.runs()
    for run in runs:
        _settle(run, assembler.meaning, assembler.language)
    lines = _line_rows(assembler.meaning, found) if keep_rows else []
    name = assembler.format if runs else "none"
    return Log(source, name, runs, assembler.builder.errors, found.lines, found.rejoined, lines)
