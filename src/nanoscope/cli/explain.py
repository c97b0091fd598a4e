"""`nanoscope explain`: what a training log says, and what it means."""

import sys
from io import BytesIO
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from nanoscope.cli.logs import LogPath, check_logs, check_max_iters
from nanoscope.errors import JobError, UsageError
from nanoscope.messages import Message, joined
from nanoscope.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nanoscope.findings.analyse import Analysis, Options
    from nanoscope.views.terminal_page import Page


ANY = "any"  # of --fail_on


def explain(
    *logs: LogPath,
    annotate: bool = False,
    teach: bool = False,
    json: bool = False,
    max_iters: int | None = None,
    device: str | None = None,
    fail_on: str | None = None,
) -> None:
    """Explain training logs: speed, slow steps, time left, learning, and what to do next.

    Examples:

      nanoscope explain train.log

      pbpaste | nanoscope explain - --lang hi

      nanoscope explain train.log --annotate

      nanoscope explain train.log --teach

      nanoscope explain train.log --json --fail_on=any

    Parameters
    ----------
    logs
        Log files, runs (of nanoscope, W&B, MLflow, TensorBoard or trackio), or '-' for standard input.
    annotate
        Print the log with explanations: each kind of line where it first appears, and every slow step.
    teach
        Also say what the numbers mean: each concept with this run's numbers, what is normal, and what is often misread.
    json
        Print the findings as JSON (schema nanoscope.explain/1; a list for several logs).
    max_iters
        Number of steps the run will take, if the log doesn't say.
    device
        What it runs on ('RTX 4070 Ti'), if the log doesn't say.
    fail_on
        Exit with status 1 if one of these verdicts is found, as in 'error,non_finite'; 'any' is every bad one. For CI.
    """
    from nanoscope.findings.analyse import Options

    check_logs(logs, explain)
    check_max_iters(max_iters)
    unwanted = _verdict_codes(fail_on)
    options = Options(max_iters, device)
    if teach and (json or annotate):
        raise UsageError(Message(
            "--teach adds to the report, which {other} does not print.\nThe concepts alone: {command}",
            other="--json" if json else "--annotate", command="nanoscope what --json" if json else "nanoscope what",
        ))  # fmt: skip
    found: dict[str, Sequence[Analysis]] = {}
    if json:
        found = _print_json(logs, options)
    else:
        from nanoscope.views.terminal_page import Page
        from nanoscope.words.language import choose_language

        page = Page(choose_language())
        for number, path in enumerate(logs):
            if number:
                page.line()
            found[path] = _annotate(path, options, page) if annotate else _report(path, options, page, teach)
    codes = {path: sorted(_unwanted(analyses, unwanted)) for path, analyses in found.items()}
    wrong = [f"{path}: {', '.join(each)}" for path, each in codes.items() if each]
    if wrong:
        more = [Message("and {n} more log", "and {n} more logs", n=len(wrong) - 2)] if len(wrong) > 2 else []
        raise JobError(joined("\n", [*wrong[:2], *more]))


def _verdict_codes(text: str | None) -> set[str]:
    """The verdicts that --fail_on names."""
    from nanoscope.findings.declared import Verdict

    known = {ANY, *(kind.code for kind in Verdict.__subclasses__())}
    named = {word.strip().replace("-", "_") for word in (text or "").split(",") if word.strip()}
    for name in sorted(named - known):
        raise UsageError(
            "--fail_on: there is no verdict {name!r}.{hint}\nVerdicts: {known}",
            name=name, hint=did_you_mean(name, known), known=", ".join(sorted(known)),
        )  # fmt: skip
    return named


def _unwanted(analyses: "Sequence[Analysis]", codes: set[str]) -> set[str]:
    """Those of the verdicts that --fail_on names."""
    verdicts = [verdict for analysis in analyses for verdict in analysis.verdicts]
    return {v.code for v in verdicts if v.code in codes or (ANY in codes and v.tone == "bad")}


def _print_json(logs: "Sequence[str]", options: "Options") -> "dict[str, Sequence[Analysis]]":
    from nanoscope.findings.analyse import analyse, analyse_nothing
    from nanoscope.findings.schema import explain_json
    from nanoscope.runs.reader import read_log

    documents = []
    found: dict[str, Sequence[Analysis]] = {}
    for path in logs:
        log = read_log(path)
        analyses = [analyse(run, options, log) for run in log.runs]
        documents.append(explain_json(log, analyses))
        found[path] = analyses or [analyse_nothing(log, options)]
    text = dumps(documents if len(documents) > 1 else documents[0], indent=1, allow_nan=False)
    sys.stdout.write(text + "\n")
    return found


def _report(path: str, options: "Options", page: "Page", teach: bool) -> "Sequence[Analysis]":
    from nanoscope.api.explaining import Explanation
    from nanoscope.runs.reader import read_log

    explanation = Explanation(read_log(path), page.language, options)
    explanation.print_to(page)
    if teach:
        from nanoscope.views.concepts import print_lessons

        print_lessons(explanation.numbers, page)
    else:
        from nanoscope.views.terminal import print_how_to_go_on

        print_how_to_go_on(page)
    return explanation.analyses or [explanation.analysis]


def _annotate(path: str, options: "Options", page: "Page") -> "Sequence[Analysis]":
    """Read the log twice: first to understand it, then to print it."""
    from nanoscope.findings.analyse import analyse, analyse_nothing
    from nanoscope.runs.reader import read_log, read_stream
    from nanoscope.runs.text import clean_lines
    from nanoscope.runs.trackers import open_lines
    from nanoscope.views.annotate import print_annotated

    again: BinaryIO
    if path == "-":
        pasted = sys.stdin.buffer.read()
        log, again = read_stream(BytesIO(pasted), path, keep_rows=True), BytesIO(pasted)
    else:
        console = Path(path) / "console.log"  # of a run: its events are not for people
        path = str(console) if console.is_file() else path
        log = read_log(path)
        events = Path(path) / "events.jsonl"
        with open_lines(events if events.is_file() else Path(path)) as stream:
            log.rows = read_stream(stream, path, keep_rows=True).rows
        again = open_lines(events if events.is_file() else Path(path))
    analyses = [analyse(run, options, log) for run in log.runs]
    with again:
        print_annotated(clean_lines(again), log, analyses, page)
    return analyses or [analyse_nothing(log, options)]
