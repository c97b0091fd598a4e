"""The command line: which commands there are, and how each of them may end.

A command's file is only imported when the command is called, so that `explain` never waits for torch.
"""

import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import NoReturn

from cyclopts import App, CycloptsError, Group

from nanoscope import __version__
from nanoscope.errors import JobError, UsageError

EPILOGUE = """\
Examples:

  nanoscope demo                                   the one-minute tour
  nanoscope train laptop                           train nanoGPT's laptop recipe on Shakespeare
  nanoscope train config/train_shakespeare_char.py --device=cpu --max_iters=500
  nanoscope sample runs/laptop --prompt "ROMEO:"   what does it write by now?

`nanoscope COMMAND --help` tells more. Flags are spelled as in nanoGPT: --batch_size=12 --compile=False.
"""

app = App(
    name="nanoscope",
    help="Train a small GPT on the machine you have, and understand every line the run prints.",
    help_epilogue=EPILOGUE,
    help_format="plaintext",
    version=f"nanoscope {__version__}",
    default_parameter=None,
)


def _register(name: str, help: str) -> None:
    app.command(f"nanoscope.cli.{name}:{name}", name=name, help=help)


_register("demo", "The one-minute tour: prepare, train, sample.")
_register("prepare", "Turn text into token shards that training reads.")
_register("train", "Train a GPT, or go on with a run.")
_register("sample", "Let a trained model write.")


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run one command and exit with its status; a person never sees a traceback."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))
