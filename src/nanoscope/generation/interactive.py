"""A loop of prompts: type the beginning of a text, and the model continues it. The work of `sample --interactive`."""

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import count

from nanoscope.data.tokenizer import Tokenizer
from nanoscope.errors import UsageError
from nanoscope.generation.sampler import Sampling, generate_texts
from nanoscope.messages import Text, on_terminal
from nanoscope.model import LanguageModel

HELP = Text("Type the beginning of a text; an empty line continues the last one. Ctrl-C stops a text, Ctrl-D leaves.")
MARK = "> "


def converse(
    model: LanguageModel, tokenizer: Tokenizer, settings: Sampling, first: str, show: Callable[[str], None]
) -> None:
    """Continue one prompt after another until the input ends. `first`, if any, is the first prompt."""
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        with suppress(ImportError):  # not on Windows, whose console edits lines itself
            import readline  # noqa: F401  gives input() a history and arrow keys
        print(on_terminal(HELP), file=sys.stderr)
    text = ""
    for turn in count():
        prompt = first if turn == 0 and first else _ask(is_terminal)
        if prompt is None:
            break
        begun = prompt or text or "\n"
        pieces: list[str] = []

        def write(piece: str, pieces: list[str] = pieces, continues: bool = not prompt and bool(text)) -> None:
            pieces.append(piece)
            if len(pieces) > 1 or not continues:  # the first piece is the prompt
                show(piece)

        try:
            # Another seed every time: an empty line after the same prompt should not repeat the text.
            generate_texts(model, tokenizer, begun, replace(settings, seed=settings.seed + turn), 1, write)
        except UsageError as error:
            print(f"nanoscope: {on_terminal(error.text)}", file=sys.stderr)
            continue
        except KeyboardInterrupt:
            pass
        text = "".join(pieces)
        show("\n")


def _ask(is_terminal: bool) -> str | None:
    """The next prompt; None at the end of the input."""
    while True:
        try:
            return input(MARK) if is_terminal else input()
        except EOFError:
            if is_terminal:
                print(file=sys.stderr)
            return None
        except KeyboardInterrupt:
            if not is_terminal:
                raise
            print(f"\n{on_terminal(HELP)}", file=sys.stderr)
