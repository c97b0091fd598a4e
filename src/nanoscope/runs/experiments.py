"""Tables of experiments, as an agent of autoresearch keeps them in results.tsv: one run a row, with its result."""

import re
from collections.abc import Iterable
from typing import Literal

from nanoscope.messages import printable
from nanoscope.runs.run import Evaluation, Log, LoggedError, Run, Traits

MOST_ROWS = 2000
CELL_CHARACTERS = 200
_HEAD = re.compile(r"commit\tval_(bpb|loss)\t\w+\tstatus\tdescription\s*")
_ROW = re.compile(r"([^\t]*)\t(\d{1,9}\.\d{1,12})\t[^\t]*\t([^\t]*)\t([^\t]*?)[\r\n]*")


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
        elif (row := _ROW.fullmatch(line)) and len(log.runs) < MOST_ROWS:
            commit, value, status, description = (printable(cell[:CELL_CHARACTERS]) for cell in row.groups())
            if status == "crash":
                log.errors.append(LoggedError(log.lines, "exception", f"{commit}: {description}", None))
                continue
            evaluation = Evaluation(0, float(value), metric=metric)
            traits = Traits(trains_language_models=True)
            log.runs.append(Run(log.format, traits, evals=[evaluation], config={"description": description}))
    return log
