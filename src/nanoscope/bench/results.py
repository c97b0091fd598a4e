"""What the bench found, for people: a table on the terminal, and a Markdown file that keeps rows measured earlier."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nanoscope.errors import JobError

NANOGPT = "nanoGPT"


@dataclass(frozen=True)
class Figure:
    """One line of the table: which keys of the result it shows, and what is asked of it."""

    row: str
    what: str
    value: str
    """Its key; nanoGPT's is the same with _nanogpt before the unit."""
    unit: str
    against: str = NANOGPT
    at_least: float | None = None
    aim: float | None = None
    judged: str = ""
    """The key that the targets are about: the ratio, which has to be higher, unless another is named: lower."""

    @property
    def key(self) -> str:
        return self.value.removesuffix("_" + UNIT_KEYS.get(self.unit, self.unit))

    @property
    def lower_wins(self) -> bool:
        return bool(self.judged)

    def of(self, result: dict[str, Any], part: str = "") -> float | None:
        """The value that is judged, or its _low or _high."""
        found = result.get((self.judged or f"{self.key}_ratio") + part)
        return None if found is None else float(found)

    def verdict(self, result: dict[str, Any]) -> str:
        found, reached = self.of(result), str(result.get(f"{self.key}_reached", ""))
        if self.at_least is None:
            return ""
        if found is None or (reached and reached.split(" of ")[0] != reached.split(" of ")[1]):
            return "not reached" + (f" ({reached} seeds)" if reached else "")
        for target, words in ((self.aim, "aim reached"), (self.at_least, "reached")):
            if target is not None and (found <= target if self.lower_wins else found >= target):
                return words
        return "not reached"


UNIT_KEYS = {"s": "seconds", "min": "minutes", "MB": "added_mb", "MB/s": "mb_per_second", "× median": "times",
             "of a synchronous save": "held_up_share"}  # fmt: skip

FIGURES = [
    Figure("peak", "matmul, float32, GFLOPS", "peak_gflops_float32", "", ""),
    Figure("peak", "matmul, bfloat16, GFLOPS", "peak_gflops_bfloat16", "", ""),
    Figure("time_to_loss", "whole command to nanoGPT's final val loss", "time_to_loss_seconds", "s",
           "nanoGPT's README CPU command", 5, 10),
    Figure("babygpt", "whole command to val loss 1.4697", "babygpt_minutes", "min",
           "nanoGPT's baby GPT, iteration × 5000", 20, 10, "babygpt_minutes"),
    *(Figure("step", f"step, {shape}", f"step_{key}_ms", "ms", "nanoGPT eager", 1.3, 1.6)
      for key, shape in (("4x128", "4×128 12×64"), ("6x384", "6×384 16×256"), ("12x768", "12×768 1×512"))),
    *(Figure("step_compiled", f"compiled step, {shape}", f"step_compiled_{key}_ms", "ms", "nanoGPT compiled", 1.0, 1.2)
      for key, shape in (("4x128", "4×128 12×64"), ("6x384", "6×384 16×256"), ("12x768", "12×768 1×512"))),
    Figure("sample", "1,000 tokens, 6×384", "sample_seconds", "s", "nanoGPT's generate", 8, 20),
    Figure("sample16", "16 × 1,000 tokens, 6×384", "sample16_seconds", "s", "16 × one nanoGPT sample", 20, 60),
    *(Figure("checkpoint", f"training held up by a save, {key.replace('x', '×')}", f"checkpoint_{key}_held_up_share",
             "of a synchronous save", "a synchronous save", 0.10, 0.03, f"checkpoint_{key}_held_up_share")
      for key in ("4x128", "6x384")),
    Figure("evaluation", "evaluation, 4×128, 2 × 20 × 12×64", "evaluation_seconds", "s", "estimate_loss", 1.5, 3),
    Figure("evaluation", "evaluation, 6×384, 2 × 5 × 16×256", "evaluation_6x384_seconds", "s", "estimate_loss", 1.5, 3),
    Figure("memory", "memory of a step, 6×384 16×256", "memory_added_mb", "MB", NANOGPT, 1.0, 1.25),
    Figure("neighbours", "step after evaluation and save", "neighbours_times", "× median", "the run's median step",
           1.1, 1.0, "neighbour_step_ratio"),
    Figure("prepare", "20 MB of text, char", "prepare_mb_per_second", "MB/s", "nanoGPT's prepare.py"),
]  # fmt: skip


def machine_line(facts: dict[str, Any]) -> str:
    return (
        f"{facts['cpu']}, {facts['threads']} threads, {facts['platform']}, Python {facts['python']}, "
        f"torch {facts['torch']}, nanoscope {facts['nanoscope']}"
    )


def number(value: float | None, unit: str = "") -> str:
    """Three digits that count."""
    if value is None:
        return ""
    shown = f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
    return f"{shown} {unit}".strip()


def table(result: dict[str, Any]) -> str:
    """For a terminal: what was measured, on both sides, with targets where there is a ratio."""
    lines = [("", "nanoscope", "nanoGPT", "ratio (low to high)", "at least, aim")]
    for figure in _measured(result):
        ratio, low, high = (result.get(f"{figure.key}_ratio{part}") for part in ("", "_low", "_high"))
        spread = "" if ratio is None else f"{number(ratio)} ({number(low)} to {number(high)})"
        judged = figure.of(result) is not None and figure.at_least is not None
        targets = f"{_target(figure, figure.at_least)}, {_target(figure, figure.aim)}: {figure.verdict(result)}"
        lines.append((figure.what, number(result[figure.value], figure.unit), number(result.get(_their_key(figure)),
                      figure.unit), spread, targets if judged else ""))  # fmt: skip
    widths = [max(len(line[column]) for line in lines) for column in range(5)]
    shown = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    failed = [f"not measured: {key[:-7]}: {why}" for key, why in result.items() if key.endswith("_failed")]
    return "\n".join([machine_line(result), "", *shown, *failed])


def _measured(result: dict[str, Any]) -> list[Figure]:
    return [figure for figure in FIGURES if figure.value in result]


def _their_key(figure: Figure) -> str:
    return f"{figure.key}_nanogpt{figure.value.removeprefix(figure.key)}"


def _target(figure: Figure, target: float | None) -> str:
    return "" if target is None else f"{'≤' if figure.lower_wins else '≥'} {target:g}"


# --- the file ----------------------------------------------------------------------------------------------------


def write_markdown(path: Path, facts: dict[str, Any], rows: dict[str, dict[str, Any]], command: str) -> None:
    """Put these rows into the file, and into results.json beside it, among those that were measured before."""
    store = path.with_name("results.json")
    try:
        kept: dict[str, Any] = json.loads(store.read_text("utf-8")) if store.is_file() else {}
        date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        for name, result in rows.items():
            kept[name] = {"date": date, "command": f"{command} --only {name}", "facts": facts, "result": result}
        path.parent.mkdir(parents=True, exist_ok=True)
        store.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", "utf-8")
        path.write_text(markdown(kept), "utf-8")
    except (OSError, ValueError) as error:
        raise JobError(f"{path} could not be written: {error}") from None


def markdown(kept: dict[str, Any]) -> str:
    """The whole file from the rows that are kept."""
    lines = [
        "# Measured",
        "",
        "Written by `make bench` (`nanoscope bench --markdown`); each row can be measured again with its own command.",
        "nanoscope and nanoGPT take turns in processes of their own; a ratio is the median over the turns (in brackets",
        "the lowest and the highest), above 1 where nanoscope is better. Validation losses of both are nanoscope's,",
        "over the whole split, in the same windows.",
        "",
        "| what | against | at least | aim | measured | nanoscope | nanoGPT | |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    merged = {key: value for row in kept.values() for key, value in row["result"].items()}
    lines += [_markdown_line(figure, merged) for figure in _measured(merged)]
    lines += ["", "| row | command | measured | machine |", "| --- | --- | --- | --- |"]
    machines = list(dict.fromkeys(machine_line(row["facts"]) for row in kept.values()))
    for name, row in kept.items():
        machine = machines.index(machine_line(row["facts"])) + 1
        failed = row["result"].get(f"{name}_failed")
        note = f" (not measured: {' '.join(failed.split())})" if failed else ""
        lines.append(f"| {name} | `{row['command']}` | {row['date']}{note} | {machine} |")
    lines += ["", *(f"Machine {place}: {line}." for place, line in enumerate(machines, start=1))]
    if notes := [note for name, row in kept.items() if (note := _note(name, row["result"]))]:
        lines += ["", *notes]
    return "\n".join(lines) + "\n"


def _markdown_line(figure: Figure, result: dict[str, Any]) -> str:
    found, low, high = (figure.of(result, part) for part in ("", "_low", "_high"))
    percent = figure.judged.endswith("share")
    shown = [f"{100 * value:.1f} %" if percent else number(value) for value in (found, low, high) if value is not None]
    measured = shown[0] + (f" ({shown[1]} to {shown[2]})" if len(shown) == 3 else "") if shown else ""
    their = number(result.get(_their_key(figure)), figure.unit)
    cells = [figure.what, figure.against, _target(figure, figure.at_least), _target(figure, figure.aim),
             measured, number(result[figure.value], figure.unit), their, figure.verdict(result)]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _note(name: str, result: dict[str, Any]) -> str:
    """The seeds one by one, where a row has seeds."""
    losses = result.get(f"{name}_losses")
    if not losses:
        return ""
    told = f"{name}: val losses of seeds 1 to {len(losses)}: {', '.join(f'{loss:.4f}' for loss in losses)}"
    if target := result.get(f"{name}_target"):
        told += f"; at or below {target:.4f}: {result[f'{name}_reached']}"
    if values := result.get(f"{name}_values") or result.get(f"{name}_values_minutes"):
        unit = "minutes" if f"{name}_values_minutes" in result else "ratios"
        told += f"; {unit}: {', '.join(number(value) for value in values)}"
    return told + "."
