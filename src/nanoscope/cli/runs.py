"""`nanoscope runs`: a table of the runs in a folder."""

import shlex
import sys
from json import dumps
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from nanoscope.errors import JobError, UsageError
from nanoscope.files import RUNS


def runs(
    folder: Annotated[Path | None, Parameter(show_default=False)] = None,
    *,
    sort: str = "age",
    filter: Annotated[tuple[str, ...], Parameter(show_default=False)] = (),
    columns: str = "",
    json: bool = False,
) -> None:
    """List the runs of a folder and of the folders in it: state, step, best validation loss, time left, age.

    Examples:

      nanoscope runs

      nanoscope runs runs/laptop-sweep --sort val --columns learning_rate,seed

      nanoscope runs --filter state=failed

      nanoscope runs --filter shakespeare --filter 'learning_rate>1e-3' --json

    Parameters
    ----------
    folder
        The directory of the runs; default: runs.
    sort
        name, state, step, val, age, left, or a setting; with '-' in front, in reverse (--sort=-val).
    filter
        A text in the name, a state (state=failed), or a condition on a setting, step or val (n_layer=4, val<1.5).
        Given several times, all must hold.
    columns
        Settings to show, separated by commas.
    json
        Print one JSON document (schema nanoscope.runs/1, see docs/sweeps.md).
    """
    from nanoscope.runs.listing import check_settings, filter_runs, list_runs, listing_json, sort_runs
    from nanoscope.views.runs import print_no_runs, print_none_matches, print_runs
    from nanoscope.views.terminal_page import Page
    from nanoscope.words.language import choose_language

    language = choose_language()
    if folder is not None and folder.is_file():
        raise UsageError(
            "{folder} is a file: {command} takes a directory.\nFor a log: nanoscope explain {quoted}",
            folder=folder, quoted=shlex.quote(str(folder)), command="runs",
        )  # fmt: skip
    if folder is not None and not folder.is_dir():
        raise JobError(
            "There is no directory {folder}.\nGive the directory of your runs: nanoscope {command} DIR",
            folder=folder,
            command="runs",
        )
    root = folder or RUNS
    found = list_runs(root)
    settings = [name.strip() for name in columns.split(",") if name.strip()]
    listed = found
    if found:
        check_settings(settings, found, "--columns")
        listed = sort_runs(filter_runs(found, filter), sort)
    if json:
        sys.stdout.write(dumps(listing_json(root, listed, settings), indent=1, allow_nan=False) + "\n")
    elif listed:
        print_runs(listed, settings, Page(language))
    else:
        (print_none_matches if found else print_no_runs)(str(root), Page(language))
