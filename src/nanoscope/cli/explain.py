"""`nanoscope explain`: what a training log says, and what it means."""

import sys
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from nanoscope.cli.logs import PathOrStdin, Steps, logs_named, print_json, read_named
from nanoscope.errors import JobError, UsageError
from nanoscope.messages import joined
from nanoscope.suggest import did_you_mean

if TYPE_CHECKING:
    from nanoscope.api.explaining import Explanation
    from nanoscope.findings.analyse import Options
    from nanoscope.words.language import Language

ANY = "any"  # of --fail_on


def explain(
    *logs: PathOrStdin,
    annotate: bool = False,
    teach: bool = False,
    json: bool = False,
    max_iters: Steps = None,
    device: str | None = None,
    fail_on: str | None = None,
) -> None:
    """Explain training logs: speed, slow steps, time left, learning, and what to do next.

    For example:
      nanoscope explain train.log
      nanoscope explain logs runs/laptop      a line about each of several logs
      pbpaste | nanoscope explain --lang hi
      nanoscope explain train.log --annotate
      nanoscope explain train.log --teach
      nanoscope explain train.log --json --fail_on=any

    Parameters
    ----------
    logs
        Log files, runs (of nanoscope, W&B, MLflow, TensorBoard or trackio), folders of them, or '-' for standard input.
        Default: standard input if something is piped in, else the latest run.
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
    from nanoscope.api.explaining import Explanation
    from nanoscope.findings.analyse import Options
    from nanoscope.words.language import choose_language

    unwanted = _verdict_codes(fail_on)
    options, language = Options(max_iters, device), choose_language()
    if teach and (json or annotate):
        raise UsageError(
            "--teach adds to the report, which {other} does not print.\nThe concepts alone: {command}",
            other="--json" if json else "--annotate",
            command="nanoscope what --json" if json else "nanoscope what",
        )
    given = logs_named(logs)
    if annotate:
        explained = {path: _annotated(path, options, language) for path in given}
    else:
        explained = {path: Explanation(log, language, options) for named in given for path, log in read_named(named)}
    if json:
        documents = [each.json() for each in explained.values()]
        print_json(documents if len(documents) > 1 else documents[0])
    elif not annotate:
        _print(explained, teach, language)
    codes = {path: sorted(_codes(each, unwanted)) for path, each in explained.items()}
    wrong = [f"{path}: {', '.join(each)}" for path, each in codes.items() if each]
    if wrong:
        raise JobError(joined("\n", wrong))


def _print(explained: "dict[str, Explanation]", teach: bool, language: "Language") -> None:
    """Each log in full; of several, a line each."""
    from nanoscope.runs.load_many import names_of
    from nanoscope.views.concepts import print_lessons
    from nanoscope.views.terminal import print_how_to_go_on, runs_table
    from nanoscope.views.terminal_page import Page

    page = Page(language)
    if len(explained) > 1 and not teach:
        runs_table(names_of(list(explained)), [each.analysis for each in explained.values()], page)
        return
    for each in explained.values():
        each.print_to(page)
        if teach:
            print_lessons(each.numbers, page)
        else:
            print_how_to_go_on(page)


def _verdict_codes(text: str | None) -> set[str]:
    """The verdicts that --fail_on names."""
    from nanoscope.findings.declared import Verdict

    known = {ANY, *(kind.code for kind in Verdict.__subclasses__())}
    named = {word.strip().replace("-", "_") for word in (text or "").split(",") if word.strip()}
    for name in sorted(named - known):
        raise UsageError(
            "--fail_on: there is no verdict {name!r}.{hint}\nVerdicts: {known}",
            name=name,
            hint=did_you_mean(name, known),
            known=", ".join(sorted(known)),
        )
    return named


def _codes(explanation: "Explanation", wanted: set[str]) -> set[str]:
    """The verdicts about any run of a log that --fail_on names."""
    verdicts = [each for analysis in explanation.analyses or [explanation.analysis] for each in analysis.verdicts]
    return {each.code for each in verdicts if each.code in wanted or (ANY in wanted and each.tone == "bad")}


def _annotated(path: str, options: "Options", language: "Language") -> "Explanation":
    """Print the log with explanations: its lines are read once to understand them, and once to print them."""
    from nanoscope.api.explaining import Explanation
    from nanoscope.runs.reader import read_log, read_stream
    from nanoscope.runs.text import clean_lines
    from nanoscope.runs.trackers import open_lines
    from nanoscope.views.annotate import print_annotated
    from nanoscope.views.terminal_page import Page

    files = [Path(path) / name for name in ("console.log", "events.jsonl")]  # of a run: its events are not for people
    source = next((str(file) for file in files if file.is_file()), path)
    with sys.stdin.buffer if path == "-" else open_lines(Path(source)) as stream:
        text = stream.read()
    shown = read_stream(BytesIO(text), source, keep_rows=True)
    log = shown if path == "-" else read_log(source)
    log.shown = shown.shown
    explanation = Explanation(log, language, options)
    print_annotated(clean_lines(BytesIO(text)), log, explanation.analyses, Page(language))
    return explanation
