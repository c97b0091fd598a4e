"""Tables of experiments, as an agent of autoresearch keeps them in results.tsv: one run a row, with its result."""

import re
from collections.abc import Iterable
from typing import Literal

from nanoscope.messages import printable
from nanoscope.runs.run import Evaluation, Log, LoggedError, Run, Traits

MOST_ROWS = 2000
CELL_CHARACTERS = 200
_HEAD = re.compile(r"commit\tval_(bpb|loss)\t\w+\tstatus\tdescription\s*")


def is_table_of_experiments(head: str) -> bool:
    """Whether a log that begins with this line is one."""
    return _HEAD.fullmatch(head) is not None


def read_experiments(lines: Iterable[tuple[int, str]], source: str) -> Log:
    """The experiments that ended, and those that broke as errors."""
    log = Log(source, "autoresearch", [], [], 0)
    metric: Literal["loss", "bpb"] = "loss"
    for log.lines, line in lines:
        if found := _HEAD.fullmatch(line):
            metric = "bpb" if found[1] == "bpb" else "loss"
            continue
        cells = [printable(cell[:CELL_CHARACTERS]) for cell in line.strip("\r\n").split("\t")]
        if len(cells) != 5 or len(log.runs) >= MOST_ROWS or not re.fullmatch(r"\d{1,9}\.\d{1,12}", cells[1]):
            continue
        commit, value, _, status, description = cells
        if status == "crash":
            log.errors.append(LoggedError(log.lines, "exception", f"{commit}: {description}", None))
        else:
            log.runs.append(Run(log.format, Traits(trains_language_models=True), config={"description": description}))
            log.runs[-1].evals.append(Evaluation(0, float(value), metric=metric))
    return log
