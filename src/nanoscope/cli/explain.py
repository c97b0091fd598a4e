"""`nanoscope explain`: what a training log says, and what it means."""

import sys
from json import dumps
from typing import Annotated

from cyclopts import Parameter

from nanoscope.errors import UsageError


def explain(
    *logs: str,
    json: bool = False,
    max_iters: Annotated[
        int | None, Parameter(help="steps the run is to have, if the log does not say")
    ] = None,
    device: Annotated[
        str | None, Parameter(help="what it ran on ('RTX 4070 Ti'), if the log does not say")
    ] = None,
) -> None:
    """Explain training logs: speed, slow steps, time left, learning, and what to do.

    Parameters
    ----------
    logs
        Log files, directories of nanoscope runs, or '-' for standard input.
    json
        Print the findings for programs (schema nanoscope.explain/1; several logs give a list).
    """
    from nanoscope.analysis.analyse import Options
    from nanoscope.analysis.schema import explain_json
    from nanoscope.runs.reader import read_log

    if not logs:
        raise UsageError("Which log? Give a file, a run's directory, or '-' to read standard input.")
    if max_iters is not None and max_iters <= 0:
        raise UsageError(f"--max_iters={max_iters}: a run has at least one step.")
    options = Options(max_iters, device)
    documents = [explain_json(read_log(log), options) for log in logs]
    sys.stdout.write(
        dumps(documents if len(documents) > 1 else documents[0], indent=1, allow_nan=False) + "\n"
    )
