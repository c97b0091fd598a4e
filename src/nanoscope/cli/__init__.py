"""The command line: its commands, and the exit status and message of each way they can end.

A command's module is imported only when the command is called, so that `explain` never waits for torch.
"""

import os
import shlex
import sys
import tempfile
import traceback
from collections.abc import Container
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path
from typing import Any, NoReturn, TextIO

from cyclopts import App, CycloptsError, Group, Parameter

from nanoscope import messages
from nanoscope.errors import JobError, UsageError
from nanoscope.interrupts import INTERRUPTED, exit_quietly
from nanoscope.messages import Message, to_print
from nanoscope.suggest import did_you_mean
from nanoscope.version import __version__

PURPOSE = "Train a small GPT on the machine you have, and understand every line the run prints."

GROUPS = {
    "Start": {
        "demo": "The one-minute tour: prepare, train, explain, sample, report.",
        "prepare": "Turn text into token shards that training reads.",
        "train": "Train a GPT: from a preset, or on your own text.",
        "resume": "Train a run on from its last checkpoint: the latest run, or the one you name.",
        "sample": "Generate text with a trained model.",
    },
    "Look": {
        "explain": "Explain a training log or a run: speed, slow steps, time left, learning, advice.",
        "runs": "List the runs of a folder: state, step, best loss, time left.",
        "watch": "Show the runs of a folder live in your browser, and explain any log pasted there.",
        "report": "Write an HTML page about one or more runs: charts, explanations, advice.",
        "compare": "Why do two runs differ?",
        "eval": "Measure how well models predict a text, and which is better.",
        "eta": "How long is left?",
        "what": "What a number means: loss, perplexity, MFU and about 40 others, with a run's own numbers.",
    },
    "Improve": {
        "plan": "What a run will take before you start it: memory, time, disk.",
        "tune": "Find the fastest way to train on this machine: batch split, dtype, compiling, threads.",
        "try": "Try what could be changed about a run, in short paired runs: what helps, and by how much?",
        "sweep": "Train one run for each combination of settings, and rank them.",
    },
    "Tools": {
        "presets": "List the presets of train, or print one.",
        "completion": "Print the script that completes commands, options and runs in your shell.",
        "help": "Show the help of a command.",
    },
}
COMMANDS = {name: summary for commands in GROUPS.values() for name, summary in commands.items()}
HIDDEN = ("completion",)
EXAMPLES = """\
Examples:
  nanoscope demo                       the one-minute tour
  nanoscope train book.txt             a GPT that writes like your own text
  nanoscope explain train.log          any training log, or a run: what happened?"""
EPILOGUE = f"""\
{EXAMPLES}

Run 'nanoscope COMMAND --help' for the options of a command.

Flags are spelled as in nanoGPT: --batch_size=12 --compile=False"""
NEXT = """\
  nanoscope help                       what each command does
  nanoscope help train                 the options of one"""
MEANT = {"bench": ("tune", "--bench"), "teach": ("explain", "--teach")}
"""Words that are no commands, and the command and option that do it."""
EXTRAS = {
    **dict.fromkeys(("torch", "safetensors", "tokenizers", "huggingface_hub"), "train"),
    **dict.fromkeys(("pyarrow", "tiktoken"), "data"),
    "tensorboard": "tensorboard",
}
"""Package → the extra of pyproject.toml that brings it."""
TRAINING = ("demo", "plan", "tune", "train", "resume", "sample", "eval", "try", "sweep")  # they need torch
HELP, HELP_ALL = ("--help", "-h"), "--help_all"
COMPLETE = "__complete"  # what a completion script calls


def app(shown: Container[str] = (), *, everything: bool = False) -> App:
    """All commands. Those `shown`, for help or completion, have the options that they parse themselves."""
    from nanoscope.cli.help_text import LANGUAGE, Help, with_options

    found = App(
        name="nanoscope",
        help=PURPOSE,
        help_format="plaintext",
        help_formatter=Help(),
        version=f"nanoscope {__version__}",
        # Flags keep nanoGPT's underscores, and booleans have no second form (--no-…).
        default_parameter=Parameter(name_transform=lambda name: name, negative=()),
        result_action="return_value",
        suppress_keyboard_interrupt=False,  # run() reports it
    )
    found["--help"].show = found["--version"].show = False
    for number, (title, commands) in enumerate(GROUPS.items()):
        group = Group(title, sort_key=number)
        for name, summary in commands.items():
            function = f"{name}_" if iskeyword(name) else name
            module = f"nanoscope.cli.{function}"
            command: Any = f"{module}:{function}"
            if name in shown:
                command = getattr(import_module(module), function)
                if name in ("train", "resume"):
                    command = import_module("nanoscope.cli.train").with_settings(command, everything)
                command = with_options(command, {"lang": LANGUAGE})
            found.command(
                command,
                name=name,
                group=group,
                sort_key=list(COMMANDS).index(name),
                help=None if name in shown else summary,  # its docstring
                show=name not in HIDDEN,
            )
    return found


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
        if hasattr(stream, "reconfigure"):  # a pipe on Windows or LANG=C may not encode '±' or Hindi
            stream.reconfigure(encoding="utf-8", errors="replace")
    words, wanted = _without_language([_underscored(word) for word in arguments])
    called = words[0] if words else ""
    before = os.environ.get(messages.VARIABLE, "")
    try:
        _choose_language(wanted)
        if called == COMPLETE:
            app(COMMANDS, everything=True)(arguments, exit_on_error=False, print_error=False)
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
    except (BrokenPipeError, SystemExit):  # '| head' has read enough; rich turns that into an exit
        _discard_output(sys.stdout, sys.stderr)
        return 0
    except Exception as error:
        return _fail(_unexpected(error), 1)
    finally:
        messages.current = messages.ENGLISH
        os.environ[messages.VARIABLE] = before


def call(words: list[str]) -> int:
    """Call one command in the language in use, and return its status."""
    if not words:
        print(_first_screen())
        return 0
    called = words[0]
    if called not in (*COMMANDS, *HELP, "--version"):
        raise _unknown_command(words)
    asked = {*HELP, HELP_ALL} & set(words)
    if called in TRAINING and find_spec("torch") is None and not asked:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")  # before anything is prepared or written
    commands = app([called] if asked else (), everything=HELP_ALL in asked)
    status = commands([called, HELP[0]] if asked else words, exit_on_error=False, print_error=False)
    if called in HELP:
        print(_closing(EPILOGUE))
    return int(status or 0)


def _closing(examples: str) -> str:
    from nanoscope.cli.help_text import Help, other_languages

    return f"{Help().text(examples)}\n\n{other_languages()}"


def _first_screen() -> str:
    """What it is, the commands by name, and the first things to type."""
    from nanoscope.cli.help_text import Help

    help = Help()
    groups = [
        help.entry(help.translated(title), ", ".join(name for name in names if name not in HIDDEN), 12)
        for title, names in GROUPS.items()
    ]
    return "\n\n".join([help.text(PURPOSE), "\n".join(groups), _closing(f"{EXAMPLES}\n{NEXT}")])


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

        messages.current = choose_language()


def _unknown_command(words: list[str]) -> UsageError:
    """The error about a first word that is no command: perhaps it was left out before a preset or a path."""
    from nanoscope.config_sources import presets

    called, path, rest = words[0], Path(words[0]), words[1:]
    if called.startswith("-"):
        hint = did_you_mean(called, (HELP[0], "--version"))
        return UsageError("there is no option {called}.{hint}\nSee: nanoscope --help", called=called, hint=hint)
    meant: list[str] = []
    if path.suffix == ".py" and path.stem in COMMANDS:  # of nanoGPT
        meant = [path.stem, *rest]
    elif called in MEANT:
        command, option = MEANT[called]
        meant = [command, *rest, option]
    elif called in presets() or (path.suffix in (".py", ".toml") and path.is_file()):
        meant = ["train", *words]
    elif path.is_file() or (path / "events.jsonl").is_file():
        meant = ["explain", *words]
    hint = did_you_mean(called, COMMANDS)
    if meant:
        hint = Message(" Did you mean: {command}", command=shlex.join(["nanoscope", *meant]))
    return UsageError(
        "there is no command {called!r}.{hint}\nCommands: {commands}",
        called=called,
        hint=hint,
        commands=", ".join(COMMANDS),
    )


def _underscored(word: str) -> str:
    """Accept --batch-size=12 as --batch_size=12; values keep their dashes."""
    if not word.startswith("--") or len(word) < 3:
        return word
    key, equals, value = word.partition("=")
    return "--" + key[2:].replace("-", "_") + equals + value


def _fail(message: Message, status: int) -> int:
    """Print the message. In a right-to-left language every line begins with a mark of that direction."""
    mark = "\u200f" if messages.current.right_to_left else ""
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


def _unexpected(error: Exception) -> Message:
    """The message about a package that is missing, or about a bug, whose details go to a file and not to the screen."""
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if package in EXTRAS:
        return Message(
            "this command needs the package {package}, which is not installed.\nInstall it: {command}",
            package=package,
            command=f"pip install 'nanoscope[{EXTRAS[package]}]'",
        )
    if os.environ.get("NANOSCOPE_DEBUG"):
        traceback.print_exc()
    details: Message | str = Message("NANOSCOPE_DEBUG=1 prints them")
    with suppress(OSError):  # a full disk may be the cause of it all
        handle, details = tempfile.mkstemp(prefix="nanoscope-error-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"nanoscope {__version__}, python {sys.version}, {sys.platform}\n{sys.argv}\n\n")
            traceback.print_exc(file=file)
    return Message(
        "unexpected {error}\nThis is a bug in nanoscope, or in what it runs on. Details, for your report: {details}",
        error=f"{type(error).__name__}: {' '.join(str(error).split())[:200]}",
        details=details,
    )
