"""`nanoscope compare`: explain why runs differ."""

from nanoscope.cli.logs import PathOrStdin, print_answer


def compare(*logs: PathOrStdin, json: bool = False) -> None:
    """Compare runs at equal steps, and say what explains the difference.

    For example:
      nanoscope compare laptop.log gpu.log
      nanoscope compare runs/small runs/large --json
      nanoscope compare runs

    Parameters
    ----------
    logs
        Log files or directories of nanoscope runs; a directory that contains runs stands for all of them. Or one log
        that contains several runs.
    json
        Print the comparison as JSON (schema nanoscope.compare/3).
    """
    from nanoscope.api.comparing import compare as compare_logs

    print_answer(compare_logs(logs), json)
