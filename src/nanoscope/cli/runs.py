"""`nanoscope runs`: a table of the runs in a folder."""

from pathlib import Path

from nanoscope.cli.logs import check_folder, print_json
from nanoscope.files import RUNS


def runs(
    folder: Path = RUNS,
    *,
    sort: str = "age",
    filter: tuple[str, ...] = (),
    columns: str = "",
    json: bool = False,
) -> None:
    """List the runs of a folder and of the folders in it: state, step, best validation loss, time left, age.

    For example:
      nanoscope runs
      nanoscope runs runs/laptop-sweep --sort val --columns learning_rate,seed
      nanoscope runs --filter state=failed
      nanoscope runs --filter shakespeare --filter 'learning_rate>1e-3' --json

    Parameters
    ----------
    folder
        The directory of the runs.
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

    check_folder(folder, "runs")
    found = list_runs(folder)
    language = choose_language()
    settings = [name.strip() for name in columns.split(",") if name.strip()]
    listed = found
    if found:
        check_settings(settings, found, "--columns")
        listed = sort_runs(filter_runs(found, filter), sort)
    if json:
        print_json(listing_json(folder, listed, settings))
    elif listed:
        print_runs(listed, settings, Page(language))
    else:
        (print_none_matches if found else print_no_runs)(str(folder), Page(language))
