"""`nanoscope explain`: what a training log says, and what it means."""

import sys
from io import BytesIO
from json import dumps
from pathlib import Path

from nanoscope.cli.logs import LogPath, check_logs, check_max_iters


def explain(
    *logs: LogPath,
    lang: str | None = None,
    annotate: bool = False,
    json: bool = False,
    max_iters: int | None = None,
    device: str | None = None,
) -> None:
    """Explain training logs: speed, slow steps, time left, learning, and what to do.

    Examples:

      nanoscope explain train.log

      pbpaste | nanoscope explain - --lang hi

      nanoscope explain train.log --annotate

    Parameters
    ----------
    logs
        Log files, directories of nanoscope runs, or '-' for standard input.
    lang
        en, ar or hi; the language of your locale unless given.
    annotate
        Print the log itself, with each kind of line explained where it first appears.
    json
        Print the findings for programs (schema nanoscope.explain/1; several logs give a list).
    max_iters
        Steps the run is to have, if the log does not say.
    device
        What it ran on ('RTX 4070 Ti'), if the log does not say.
    """
    from nanoscope.analysis.analyse import Options, analyse, log_errors
    from nanoscope.runs.reader import read_log, read_stream
    from nanoscope.words.language import choose_language

    check_logs(logs, explain)
    check_max_iters(max_iters)
    options = Options(max_iters, device)
    if json:
        from nanoscope.analysis.schema import explain_json

        documents = [explain_json(read_log(log), options) for log in logs]
        text = dumps(documents if len(documents) > 1 else documents[0], indent=1, allow_nan=False)
        sys.stdout.write(text + "\n")
        return

    from nanoscope.views.page import Page

    page = Page(choose_language(lang))
    for number, path in enumerate(logs):
        if number:
            page.line()
        if not annotate:
            from nanoscope.views.terminal import print_report

            log = read_log(path)
            analyses = [analyse(run, options, log) for run in log.runs]
            print_report(log, analyses, log_errors(log.errors), page)
            continue

        from nanoscope.runs.text import clean_lines
        from nanoscope.views.annotate import print_annotated

        pasted = BytesIO(sys.stdin.buffer.read()) if path == "-" else None  # read twice
        log = read_stream(pasted, path) if pasted else read_log(path)
        analyses = [analyse(run, options, log) for run in log.runs]
        if pasted:
            pasted.seek(0)
            print_annotated(clean_lines(pasted), log, analyses, page)
        else:
            file = Path(path) / "events.jsonl" if Path(path).is_dir() else Path(path)
            with file.open("rb") as stream:
                print_annotated(clean_lines(stream), log, analyses, page)
