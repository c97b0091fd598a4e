"""`nanoscope try`: does the advice help this run?"""

from nanoscope.cli.logs import RunPath, latest_run, print_json


def try_(run: RunPath = None, *, minutes: float = 5.0, json: bool = False) -> int:
    """Try what could be changed about a run, in short runs with and without each change, and say what it brings.

    For example:
      nanoscope try runs/laptop
      nanoscope try runs/laptop --minutes 20
      nanoscope try runs/laptop --json > tried.json

    Tries the advice of 'nanoscope explain', other learning rates, more and fewer tokens per iteration, and a warm-up.

    Each change is trained from the same initial weights on the same batches as the run without it, with several
    seeds. The best one is proposed only if it helps again with other seeds; advice that does not help is withdrawn.

    Nothing in the run's folder changes. Ctrl-C prints what is known by then.

    Parameters
    ----------
    run
        The folder of a run. Default: the latest run.
    minutes
        About how long it may take. More time allows longer trials, which say more about a long run.
    json
        Print the results as JSON (schema nanoscope.try/3, see docs/try.md); progress goes to stderr.
    """
    from nanoscope.api.planning import try_ as try_changes

    tried = try_changes(run or latest_run(), minutes=minutes)
    if json:
        print_json(tried.json())
    else:
        print(tried)
    return 0 if tried.complete else 130
