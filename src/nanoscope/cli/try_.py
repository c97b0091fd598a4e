"""`nanoscope try`: does the advice help this run?"""

import sys
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from nanoscope.cli.completion import complete_path
from nanoscope.config_sources import read_run_config, resolve
from nanoscope.errors import JobError, UsageError
from nanoscope.messages import Message, on_terminal


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
        Print the results as JSON (schema nanoscope.try/2, see docs/try.md); progress goes to stderr.
    """
    from nanoscope.findings.analyse import analyse
    from nanoscope.hardware.probe import make_cpu_ready
    from nanoscope.runs.reader import read_log
    from nanoscope.training.console import StageDisplay
    from nanoscope.words.language import choose_language
    from nanoscope.words.sentences import sentence

    if not 0 < minutes < float("inf"):
        raise UsageError("{setting}: must be above 0.", setting=f"--minutes={minutes:g}")
    folder, language = _find_run(run), choose_language()
    log = read_log(str(folder))
    advice = analyse(log.runs[-1], log=log).advice if log.runs else ()
    advised = [each.action for each in advice]
    config = resolve([str(folder)]).config
    make_cpu_ready(config.device, config.dtype, training=True)

    from nanoscope.planning.trying import try_run  # loads torch, after the environment is set up
    from nanoscope.planning.trying_report import FATES, command, document, fate, lines

    with StageDisplay() as display:
        trial = try_run(folder, advised, minutes, display.show)
    if as_json:
        found = msgspec.json.encode(document(folder, trial, advised), enc_hook=str)
        sys.stdout.write(msgspec.json.format(found, indent=1).decode() + "\n")
    else:
        for indent, text in lines(trial):
            print(("" if indent else "\n") + "  " * indent + on_terminal(text))
        for each in advice:
            print("  " + on_terminal(FATES[fate(each.action, trial)]), sentence(each, language))
        if (use := command(folder, trial)) is not None:
            print("\n" + on_terminal(Message("Train with what was confirmed:\n  {command}", command=use)))
    return 130 if trial.stopped == Message("interrupted") else 0


def _find_run(name: str) -> Path:
    """The folder of a run of ours. Says what to do where there is none."""
    from nanoscope.runs.reader import read_log

    path = Path(name)
    folder = path.parent if path.name in ("events.jsonl", "console.log", "config.toml") else path
    if (folder / "events.jsonl").is_file() and read_run_config(folder)[0]:
        return folder
    if name != "-" and not path.exists():
        read_log(name)  # which says what is missing, and what may be meant
    raise JobError(
        "{path} is not the folder of a nanoscope run: a log or a checkpoint of nanoGPT doesn't hold the settings "
        "and the text to train it again.\n"
        "Train it with nanoscope (nanoGPT's config files work), then try that run:\n"
        "  nanoscope train config/CONFIG.py && nanoscope try runs/CONFIG",
        path=name,
    )
