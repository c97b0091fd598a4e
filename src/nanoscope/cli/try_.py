"""`nanoscope try`: does the advice help this run?"""

import sys
from json import dumps
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from nanoscope.cli.completion import complete_path
from nanoscope.errors import UsageError
from nanoscope.messages import Text, on_terminal

if TYPE_CHECKING:
    from nanoscope.planning.trying import Length


def try_(
    run: Annotated[str, Parameter(completer=complete_path)],
    *,
    minutes: float = 5.0,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
) -> int:
    """Try what could be changed about a run, in short runs with and without each change, and say what it brings.

    Examples:

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
        The folder of a run.
    minutes
        About how long it may take. More time allows longer trials, which say more about a long run.
    as_json
        Print the results as JSON (schema nanoscope.try/1, see docs/try.md); progress goes to stderr.
    """
    from nanoscope.planning.trying_report import FATES, document, fate, lines, plan_line, summary
    from nanoscope.planning.trying_run import advice_of, command, find_run, try_run
    from nanoscope.training.console import StageDisplay
    from nanoscope.words.language import choose_language
    from nanoscope.words.sentences import sentence

    if not 0 < minutes < float("inf"):
        raise UsageError("{setting}: must be above 0.", setting=f"--minutes={minutes:g}")
    folder = find_run(run)
    language = choose_language()
    advice = advice_of(folder)

    def start(length: "Length", seconds: float) -> None:
        what = plan_line(length)
        _progress(
            Text("{what}; an iteration takes {seconds:rough}, in all at most about {minutes:g} min",
                 what=what, seconds=seconds, minutes=minutes)
        )  # fmt: skip

    with StageDisplay() as display:
        results = try_run(folder, advice, minutes, start, display.show)
    use = command(folder, results)
    if as_json:
        sys.stdout.write(dumps(document(str(folder), results, advice, use), indent=1, allow_nan=False) + "\n")
    else:
        print(on_terminal(plan_line(results.length)))
        for indent, text in lines(results):
            print(("" if indent else "\n") + "  " * indent + on_terminal(text))
        if advice:
            print("\n" + on_terminal(Text("Advice of explain")))
        for each in advice:
            print("  " + on_terminal(FATES[fate(each, results)]), sentence(each, language))
        print()
        for text in summary(results, use):
            print(on_terminal(text))
    return 130 if results.stopped == Text("interrupted") else 0


def _progress(text: Text) -> None:
    print(on_terminal(text), file=sys.stderr, flush=True)
