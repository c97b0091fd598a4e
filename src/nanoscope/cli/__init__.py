"""The command line: its commands, and the exit status and message of each way they can end.

A command's module is imported only when the command is called, so that `explain` never waits for torch.
"""

import os
import shlex
import shutil
import sys
import tempfile
import traceback
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TextIO

from cyclopts import App, CycloptsError, Parameter

from nanoscope import messages
from nanoscope.cli.languages import EnglishHelp, help_writer, other_languages, with_language
from nanoscope.errors import JobError, UsageError
from nanoscope.interrupts import INTERRUPTED, exit_quietly
from nanoscope.messages import Message, to_print
from nanoscope.suggest import did_you_mean
from nanoscope.version import __version__

if TYPE_CHECKING:
    from rich.console import Console

PURPOSE = "Train a small GPT on the machine you have, and understand every line the run prints."

EXAMPLES = """\
Examples:
  nanoscope demo                                    the one-minute tour
  nanoscope train laptop                            a minute without a GPU
  nanoscope prepare book.txt                        your own text: then train laptop --dataset=data/book-char
  nanoscope train config/train_shakespeare_char.py --device=cpu --max_iters=500
  nanoscope sample runs/laptop --prompt "ROMEO:"    text from the trained model
  nanoscope eval runs/laptop runs/other             which model is better, and is that more than noise?
  nanoscope explain train.log                       any training log, or a run: what happened?
  nanoscope report runs/laptop                      the same as an HTML page with charts
  nanoscope watch                                   all runs in the browser, live
"""

EPILOGUE = f"""\
{EXAMPLES}
Run 'nanoscope COMMAND --help' for the options of a command.
Flags are spelled as in nanoGPT: --batch_size=12 --compile=False"""

FIRST_SCREEN = f"""\
{PURPOSE}

{EXAMPLES}
  nanoscope help                                    all commands
  nanoscope help train                              the options of one
  nanoscope presets                                 the presets of train"""

COMMANDS = {
    "demo": "The one-minute tour: prepare, train, explain, sample, report.",
    "prepare": "Turn text into token shards that training reads.",
    "plan": "What a run will take before you start it: memory, time, disk.",
    "tune": "Find the fastest way to train on this machine: batch split, dtype, compiling, threads.",
    "train": "Train a GPT, or resume a run.",
    "sample": "Generate text with a trained model.",
    "eval": "Measure how well models predict a text, and which is better.",
    "explain": "Explain a training log or a run: speed, slow steps, time left, learning, advice.",
    "what": "What a number means: loss, perplexity, MFU and about 40 others, with a run's own numbers.",
    "eta": "How long is left?",
    "try": "Try what could be changed about a run, in short paired runs: what helps, and by how much?",
    "compare": "Why do two runs differ?",
    "report": "Write an HTML page about one or more runs: charts, explanations, advice.",
    "runs": "List the runs of a folder: state, step, best loss, time left.",
    "sweep": "Train one run for each combination of settings, and rank them.",
    "watch": "Show the runs of a folder live in your browser, and explain any log pasted there.",
    "bench": "Measure how fast this machine trains.",
    "presets": "List the presets of train, or print one.",
    "completion": "Print the script that completes commands, options and runs in your shell.",
    "help": "Show the help of a command.",
}
EXTRAS = {
    **dict.fromkeys(("torch", "safetensors", "tokenizers", "huggingface_hub"), "train"),
    **dict.fromkeys(("pyarrow", "tiktoken"), "data"),
    "tensorboard": "tensorboard",
}
"""Package → the extra of pyproject.toml that brings it."""
HELP_COLUMNS = 136  # the longest line of a docstring behind the name of its option
TRAINING = ("demo", "plan", "tune", "train", "sample", "eval", "try", "sweep", "bench")  # they need torch
OWN_HELP = ("train",)  # its options are the settings of the configuration
COMPLETE = "__complete"  # what a completion script calls


def _app(called: str = "", *, completing: bool = False) -> App:
    writer = help_writer()
    app = App(
        name="nanoscope",
        help=PURPOSE,
        help_epilogue=f"{writer.text(EPILOGUE)}\n\n{other_languages()}" if called.startswith("-") else None,
        help_format="plaintext",
        help_formatter="plain" if isinstance(writer, EnglishHelp) else writer,
        version=f"nanoscope {__version__}",
        # Flags keep nanoGPT's underscores, and booleans have no second form (--no-…).
        default_parameter=Parameter(name_transform=lambda name: name, negative=()),
        result_action="return_value",
        suppress_keyboard_interrupt=False,  # run() reports it
    )
    for number, (name, summary) in enumerate(COMMANDS.items()):
        function = f"{name}_" if iskeyword(name) else name
        module = f"nanoscope.cli.{'completion' if completing and name in OWN_HELP else function}"
        loaded = completing or (name == called and name not in OWN_HELP)
        app.command(
            with_language(getattr(import_module(module), function)) if loaded else f"{module}:{function}",
            name=name,
            sort_key=number,
            help=None if name == called else summary,  # the called one shows its docstring
            help_flags=[] if name in OWN_HELP else app.help_flags,
        )
    return app


def completing_app() -> App:
    """Return the commands as completion sees them: the settings of `train` are its options."""
    return _app(completing=True)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run one command and exit with its status. Users never see a traceback."""
    try:
        status = run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:  # another one, while the first was reported
        status = INTERRUPTED
    exit_quietly(status)
    sys.exit(status)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit status: 0 success, 1 failure, 2 invalid usage."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a Windows console or LANG=C may not encode '±' or Hindi
            stream.reconfigure(errors="replace", **_utf8_if_unset(stream.encoding))
    words, wanted = _without_language([_underscored(word) for word in arguments])
    called = words[0] if words else ""
    before = os.environ.get(messages.VARIABLE)
    try:
        _choose_language(wanted)
        if called == COMPLETE:
            completing_app()(arguments, exit_on_error=False, print_error=False)
            return 0
        status = call(words)
        sys.stdout.flush()
        return status
    except (JobError, UsageError) as error:
        return _fail(error.text, error.exit_status)
    except CycloptsError as error:
        from nanoscope.cli.parsing import usage_error

        return _fail(usage_error(error, called).text, 2)
    except KeyboardInterrupt:
        return _fail(Message("interrupted"), INTERRUPTED)
    except ModuleNotFoundError as error:
        return _fail(_missing_package(error), 1)
    except (BrokenPipeError, SystemExit):  # '| head' has read enough; rich turns that into an exit
        _discard_output(sys.stdout, sys.stderr)
        return 0
    except Exception as error:
        return _fail(_bug_report(error), 1)
    finally:
        messages.use(None)
        if wanted is not None:
            os.environ.pop(messages.VARIABLE)
            if before is not None:
                os.environ[messages.VARIABLE] = before


def call(words: list[str]) -> int:
    """Call one command in the language in use, and return its status."""
    if not words:
        print(help_writer().text(FIRST_SCREEN), other_languages(), sep="\n\n")
        return 0
    called = words[0]
    if called not in (*COMMANDS, "--help", "-h", "--version"):
        raise _unknown_command(words)
    if called in TRAINING and find_spec("torch") is None and not {"--help", "-h"} & set(words):
        raise ModuleNotFoundError("No module named 'torch'", name="torch")  # before anything is prepared or written
    status = _app(called)(words, console=_help_console(words), exit_on_error=False, print_error=False)
    return int(status or 0)


def _without_language(words: list[str]) -> tuple[list[str], str | None]:
    """Take --lang, which every command has, out of the words: what is left, and the language."""
    kept: list[str] = []
    wanted = None
    rest = iter(words)
    for word in rest:
        if word == "--":
            return [*kept, word, *rest], wanted
        if word == "--lang":
            wanted = next(rest, "")
        elif word.startswith("--lang="):
            wanted = word.removeprefix("--lang=")
        else:
            kept.append(word)
    return kept, wanted


def _choose_language(wanted: str | None) -> None:
    """Show texts in the language asked for, also those of the processes that this one starts."""
    if wanted is not None:
        os.environ[messages.VARIABLE] = wanted or messages.NO_VALUE
    named = os.environ.get(messages.VARIABLE)
    if (messages.language_code(named) if named else messages.language_of_locale()) != "en":
        from nanoscope.words.language import choose_language

        messages.use(choose_language())
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # a pipe on Windows may not encode Arabic
                stream.reconfigure(encoding="utf-8")


def _unknown_command(words: list[str]) -> UsageError:
    """The error about a first word that is no command: perhaps it was left out before a preset or a path."""
    from nanoscope.config_sources import presets

    called, path = words[0], Path(words[0])
    if called.startswith("-"):
        options = ("--help", "--version")
        hint = did_you_mean(called, options)
        return UsageError("there is no option {called}.{hint}\nSee: nanoscope --help", called=called, hint=hint)
    meant = ""
    if called in presets() or (path.suffix in (".py", ".toml") and path.is_file()):
        meant = "train"
    elif path.is_file() or (path / "events.jsonl").is_file():
        meant = "explain"
    hint = did_you_mean(called, COMMANDS)
    if meant:
        hint = Message(" Did you mean: {command}", command=shlex.join(["nanoscope", meant, *words]))
    return UsageError(
        "there is no command {called!r}.{hint}\nCommands: {commands}",
        called=called, hint=hint, commands=", ".join(COMMANDS),
    )  # fmt: skip


def _help_console(words: list[str]) -> "Console | None":
    """Where help is printed: wide enough for its examples, so that a narrow terminal or a pipe breaks no command."""
    if not {"--help", "-h"} & set(words):
        return None
    from rich.console import Console

    return Console(width=max(HELP_COLUMNS, shutil.get_terminal_size().columns))


def _utf8_if_unset(encoding: str | None) -> dict[str, str]:
    return {"encoding": "utf-8"} if (encoding or "").lower() in ("ascii", "ansi_x3.4-1968", "us-ascii") else {}


def _underscored(word: str) -> str:
    """Accept --batch-size=12 as --batch_size=12; values keep their dashes."""
    if not word.startswith("--") or len(word) < 3:
        return word
    key, equals, value = word.partition("=")
    return "--" + key[2:].replace("-", "_") + equals + value


def _fail(message: Message, status: int) -> int:
    """Print the message. In a right-to-left language every line begins with a mark of that direction."""
    mark = "\u200f" if messages.right_to_left() else ""
    first, *rest = to_print(message).splitlines() or ["failed"]
    try:
        print(f"{mark}nanoscope: {first}", *(f"{mark}  {line}" for line in rest), sep="\n", file=sys.stderr)
    except OSError:  # '2>&1 | head' has read enough
        _discard_output(sys.stderr)
    return status


def _discard_output(*streams: TextIO) -> None:
    """Send what is left in the buffers to nowhere: the interpreter flushes them when it exits."""
    for stream in streams:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _missing_package(error: ModuleNotFoundError) -> Message:
    """The message about a package that is not installed: the line that installs the extra which brings it."""
    package = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(package)
    if extra is None:
        return _bug_report(error)
    return Message(
        "this command needs the package {package}, which is not installed.\nInstall it: {command}",
        package=package,
        command=f"pip install 'nanoscope[{extra}]'",
    )


def _bug_report(error: Exception) -> Message:
    """The message about an unexpected exception. Its details go to a file, not to the screen."""
    if os.environ.get("NANOSCOPE_DEBUG"):
        traceback.print_exc()
    unexpected = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    try:
        handle, name = tempfile.mkstemp(prefix="nanoscope-error-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"nanoscope {__version__}, python {sys.version}, {sys.platform}\n{sys.argv}\n\n")
            traceback.print_exc(file=file)
    except OSError:  # a full disk may be the cause of it all
        return Message(
            "unexpected {error}\nThis is a bug in nanoscope, or in what it runs on.\n"
            "NANOSCOPE_DEBUG=1 prints the details; please attach them to your report.",
            error=unexpected,
        )
    return Message(
        "unexpected {error}\nThis is a bug in nanoscope, or in what it runs on. Details are in {file}\n"
        "Please attach that file to your report; NANOSCOPE_DEBUG=1 prints them here.",
        error=unexpected, file=name,
    )  # fmt: skip
