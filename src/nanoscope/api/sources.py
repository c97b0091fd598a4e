"""What a log may be given as."""

import os
from io import BytesIO

from nanoscope.runs.reader import read_log, read_stream
from nanoscope.runs.run import Log

Source = str | os.PathLike[str]
"""A log file, the folder of a run (nanoscope's, W&B's, MLflow's or TensorBoard's), a `Run`, or the text of a log."""


def read_source(source: Source) -> Log:
    """Read a log. A string of several lines is the log itself."""
    text = os.fspath(source)
    return read_stream(BytesIO(text.encode()), "pasted text") if "\n" in text else read_log(text)
