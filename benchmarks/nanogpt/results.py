"""The results: a table for the terminal, and a Markdown file that keeps rows measured earlier."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.nanogpt import elsewhere
from nanoscope.errors import JobError

UNITS = {
    "ms": "ms",
    "seconds": "s",
    "minutes": "min",
    "added_mb": "MB",
    "mb_per_second": "MB/s",
    "times": "× median",
}


@dataclass(frozen=True)
class Figure:
    """One line of the table: which keys of the result it shows, and its targets."""

    what: str
    against: str
    key: str
    unit: str
    at_least: float | None = None
    aim: float | None = None
    judged: str = ""
    """The key that the targets are for, lower is better. By default the ratio, where higher is better."""

    def cells(self, result: dict[str, Any]) -> tuple[str, ...]:
        """One cell for each of COLUMNS."""
        judged = self.judged or f"{self.key}_ratio"
        found = [result[judged + part] for part in ("", "_low", "_high") if judged + part in result]
        shown = [number(value) for value in found]
        spread = f" ({shown[1]} to {shown[2]})" if len(shown) == 3 else ""
        ours, theirs = (result.get(f"{self.key}{side}_{self.unit}") for side in ("", "_nanogpt"))
        sign = "≤" if self.judged else "≥"
        targets = ["" if target is None else f"{sign} {target:g}" for target in (self.at_least, self.aim)]
        unit = UNITS.get(self.unit, "")
        verdict = "" if self.at_least is None else self._verdict(found[0] if found else None, result)
        return (self.what, self.against, *targets, "".join(shown[:1]) + spread, number(ours, unit),
                number(theirs, unit), verdict)  # fmt: skip

    def _verdict(self, found: float | None, result: dict[str, Any]) -> str:
        reached, _, runs = str(result.get(f"{self.key}_reached", "")).partition(" of ")
        if reached != runs:
            return f"not reached ({reached} of {runs} seeds)"
        if found is None:
            return ""
        for target, words in ((self.aim, "aim reached"), (self.at_least, "reached")):
            if target is not None and (found <= target if self.judged else found >= target):
                return words
        return "not reached"


COLUMNS = ("what", "against", "at least", "aim", "measured", "nanoscope", "nanoGPT", "")
SHAPES = {"4x128": "4×128 12×64", "6x384": "6×384 16×256", "12x768": "12×768 1×512"}
FIGURES = [
    Figure("matmul, float32, GFLOPS", "", "peak", "gflops_float32"),
    Figure("matmul, bfloat16, GFLOPS", "", "peak", "gflops_bfloat16"),
    Figure("whole command to nanoGPT's final val loss", "nanoGPT's README CPU command",
           "time_to_loss", "seconds", 5, 10),
    Figure("whole command to val loss 1.4697", "nanoGPT's baby GPT: its iteration × 2000, extrapolated",
           "babygpt", "minutes", 10, 5, "babygpt_minutes"),
    *(Figure(f"step, {shape}", "nanoGPT eager", f"step_{key}", "ms", least, 2.0)
      for (key, shape), least in zip(SHAPES.items(), (1.3, 1.5, 1.3), strict=True)),
    *(Figure(f"step in float32, {shape}", "nanoGPT eager", f"step_float32_{key}", "ms", least, 2.0)
      for (key, shape), least in zip(SHAPES.items(), (1.3, 1.5, 1.3), strict=True)),
    *(Figure(f"step compiled, {shape}", "nanoGPT compiled", f"step_compiled_{key}", "ms", 1.2, 1.5)
      for key, shape in SHAPES.items()),
    *(Figure(f"step compiled in float32, {shape}", "nanoGPT compiled", f"step_compiled_float32_{key}", "ms", 1.2, 1.5)
      for key, shape in SHAPES.items()),
    Figure("1,000 tokens, 6×384, context 256", "nanoGPT's generate", "sample", "seconds", 8, 20),
    Figure("16 × 1,000 tokens at once", "nanoGPT's generate × 16", "sample16", "seconds", 20, 60),
    Figure("evaluation, 4×128, 2 × 20 × 12×64", "nanoGPT's estimate_loss", "evaluation", "seconds", 1.5, 3),
    Figure("evaluation, 6×384, 2 × 5 × 16×256", "nanoGPT's estimate_loss", "evaluation_6x384", "seconds", 1.5, 3),
    Figure("evaluation in float32, 4×128", "nanoGPT's estimate_loss", "evaluation_float32", "seconds", 1.5, 3),
    Figure("evaluation in float32, 6×384", "nanoGPT's estimate_loss", "evaluation_float32_6x384", "seconds", 1.5, 3),
    Figure("memory of a step, 6×384 16×256", "nanoGPT", "memory", "added_mb", 1.0, 1.25),
    Figure("step after an evaluation and a save", "the run's median step", "neighbours", "times", 1.1, 1.0,
           "neighbour_step_ratio"),
    Figure("20 MB of text to characters", "nanoGPT's prepare.py", "prepare", "mb_per_second"),
]  # fmt: skip


def number(value: float | None, unit: str = "") -> str:
    """Three significant digits."""
    if value is None:
        return ""
    shown = f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
    return f"{shown} {unit}".strip()


def _lines(result: dict[str, Any]) -> list[tuple[str, ...]]:
    return [COLUMNS, *(figure.cells(result) for figure in FIGURES if f"{figure.key}_{figure.unit}" in result)]


def _elsewhere_lines(result: dict[str, Any]) -> list[tuple[str, ...]]:
    """The table of the other texts, or nothing if none was measured."""
    keys = [key.removesuffix("_what") for key in result if key.startswith("elsewhere_") and key.endswith("_what")]
    return [elsewhere.COLUMNS, *(line for key in keys for line in elsewhere.lines(result, key))] if keys else []


def _machine(facts: dict[str, Any]) -> str:
    versions = f"Python {facts['python']}, torch {facts['torch']}, nanoscope {facts['nanoscope']}"
    return f"{facts['cpu']}, {facts['threads']} threads, {facts['platform']}, {versions}, {facts['dtype']}"


def table(result: dict[str, Any]) -> str:
    """The table for a terminal."""
    lines = [(what, *rest) for what, _, *rest in _lines(result)]  # 'against' is for readers of the file
    shown: list[str] = []
    for part in (lines, _elsewhere_lines(result)):
        if len(part) > 1:
            widths = [max(map(len, column)) for column in zip(*part, strict=True)]
            shown += ["  ".join(map(str.ljust, line, widths)).rstrip() for line in part]
    failed = [f"not measured: {key[:-7]}: {why}" for key, why in result.items() if key.endswith("_failed")]
    return "\n".join([_machine(result), "", *shown, *failed])


def write_markdown(path: Path, facts: dict[str, Any], rows: dict[str, dict[str, Any]], command: str) -> None:
    """Update these rows in the file, and in results.json next to it; keep the others, and the file's later sections."""
    store = path.with_name("results.json")
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    try:
        kept: dict[str, Any] = json.loads(store.read_text("utf-8")) if store.is_file() else {}
        for name, result in rows.items():
            if f"{name}_failed" in result:
                continue  # keep the earlier figures
            kept[name] = {"date": date, "command": f"{command} --only {name}", "facts": facts, "result": result}
        text = markdown(kept) + _later_sections(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        store.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", "utf-8")
        path.write_text(text, "utf-8")
    except OSError as error:
        raise JobError(f"can't write {path}: {error}") from None
    except (ValueError, LookupError, TypeError, AttributeError):
        raise JobError(f"{store} is damaged\nDelete it, and measure all rows again.") from None


def _later_sections(path: Path) -> str:
    """What others wrote into the file: everything from its first second-level heading."""
    _, heading, rest = path.read_text("utf-8").partition("\n## ") if path.is_file() else ("", "", "")
    return heading + rest


def markdown(kept: dict[str, Any]) -> str:
    """The tables of all rows."""
    result = {key: value for row in kept.values() for key, value in row["result"].items()}
    machines = list(dict.fromkeys(_machine(row["facts"]) for row in kept.values()))
    rows = [("row", "command", "measured", "machine")]
    for name, row in kept.items():
        rows.append((name, f"`{row['command']}`", row["date"], str(machines.index(_machine(row["facts"])) + 1)))
    return f"""\
# Measured

Written by `make bench NANOGPT=PATH`; each row can be measured again with its own command. nanoscope and nanoGPT take
turns, each in processes of its own. 'measured' is the median ratio over the turns (lowest to highest in brackets),
above 1 where nanoscope is better, unless the target says ≤. nanoscope trains with the dtype that it chooses for the
machine (below), unless a row says float32; nanoGPT always uses float32 on a CPU. nanoscope evaluates the validation
losses of both in float32, over the whole split in the same windows.

{_markdown_table(_lines(result))}
{_elsewhere(result)}
{_markdown_table(rows)}

{"".join(f"Machine {place}: {line}.  " for place, line in enumerate(machines, start=1)).rstrip()}
{"".join(_seeds(name, row["result"]) for name, row in kept.items())}"""


def _elsewhere(result: dict[str, Any]) -> str:
    if not (lines := _elsewhere_lines(result)):
        return ""
    return f"""
On other texts. The presets' settings were chosen on texts that are not among these (LOG.md). nanoGPT's README CPU
command runs before and after ours; its seed is fixed. nanoscope evaluates all models on the same
{elsewhere.WINDOWS:,} windows of {elsewhere.BLOCK_SIZE} tokens, or on the whole validation split if it is smaller.
'sooner': nanoGPT's seconds by those of the seeds that reached its loss, median (lowest to highest), whole commands.

{_markdown_table(lines)}
"""


def _markdown_table(lines: Sequence[tuple[str, ...]]) -> str:
    rows = [lines[0], ("---",) * len(lines[0]), *lines[1:]]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _seeds(name: str, result: dict[str, Any]) -> str:
    """The runs one by one, for a row with seeds."""
    if f"{name}_losses" not in result:
        return ""
    runs = zip(result[f"{name}_losses"], result[f"{name}_runs"], strict=True)
    target = f", target {result[f'{name}_target']:.4f}" if f"{name}_target" in result else ""
    runs_by_seed = (f"seed {seed}: {loss:.4f} in {number(time)}" for seed, (loss, time) in enumerate(runs, start=1))
    return f"\n{name} (val loss, {'minutes' if name == 'babygpt' else 'seconds'}{target}): {'; '.join(runs_by_seed)}.\n"
