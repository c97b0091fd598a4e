"""Sampling from a model on disk to standard output, once or in a loop of prompts: the work of `nanoscope sample`."""

import json
import sys
from contextlib import suppress
from dataclasses import replace
from itertools import count as numbers
from pathlib import Path

from nanoscope.config import POSITIVE
from nanoscope.data.tokenizer import Tokenizer
from nanoscope.errors import JobError, UsageError, why
from nanoscope.generation.sampler import DEFAULT_PROMPT, Sampling, generate_pieces
from nanoscope.hardware.device import autocast, set_up_device
from nanoscope.interop.models import open_model
from nanoscope.messages import Message, on_terminal, printable
from nanoscope.model import LanguageModel

HELP = Message(
    "Type the beginning of a text; an empty line continues the last one. Ctrl-C stops a text, Ctrl-D leaves."
)
MARK = "> "


def write_samples(
    source: str | Path,
    prompt: str,
    settings: Sampling,
    *,
    count: int,
    checkpoint: str,
    device: str,
    dtype: str,
    as_json: bool,
    interactive: bool = False,
) -> None:
    """Write `count` texts to standard output, and which checkpoint wrote them to standard error."""
    if count < 1:
        raise UsageError(POSITIVE.refusal("num_samples", count))
    if interactive and (as_json or count > 1 or prompt == "-"):
        raise UsageError("--interactive writes one text at a time: leave out --json, --num_samples and --prompt -")
    found = open_model(source, checkpoint)
    for problem in found.problems:
        print(on_terminal(Message("warning: {text}", text=problem)), file=sys.stderr)
    tokenizer = found.known_tokenizer()
    text = read_prompt(prompt)
    choice, notes = set_up_device(device, dtype)
    for note in notes:
        print(on_terminal(Message("note: {text}", text=note)), file=sys.stderr)
    model = found.build(choice.device)
    print(on_terminal(found.describe()), file=sys.stderr, flush=True)
    texts = [""] * count
    with autocast(choice):
        if interactive:
            converse(model, tokenizer, settings, "" if text == DEFAULT_PROMPT else text)
            return
        for number, piece in generate_pieces(model, tokenizer, text, settings, count):
            texts[number] += piece
            if number == 0 and not as_json:  # the first as it is written, the others when it has ended
                _show(piece)
    if as_json:
        result = {"checkpoint": str(found.folder), "prompt": text, "samples": texts}
        _show(json.dumps(result, ensure_ascii=False) + "\n")
    else:
        _show("".join("\n---------------\n" + other for other in texts[1:]) + "\n")


def converse(model: LanguageModel, tokenizer: Tokenizer, settings: Sampling, first: str) -> None:
    """Continue one prompt after another until the input ends. `first`, if any, is the first prompt."""
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        with suppress(ImportError):  # not on Windows, whose console edits lines itself
            import readline  # noqa: F401  gives input() a history and arrow keys
        print(on_terminal(HELP), file=sys.stderr)
    text = ""
    for turn in numbers():
        prompt = first if turn == 0 and first else _ask(is_terminal)
        if prompt is None:
            break
        pieces: list[str] = []
        # Another seed every time: an empty line after the same prompt should not repeat the text.
        seeded = replace(settings, seed=settings.seed + turn)
        try:
            for _, piece in generate_pieces(model, tokenizer, prompt or text or "\n", seeded, 1):
                pieces.append(piece)
                if len(pieces) > 1 or prompt or not text:  # the first piece is the prompt
                    _show(piece)
        except UsageError as error:
            print(f"nanoscope: {on_terminal(error.text)}", file=sys.stderr)
            continue
        except KeyboardInterrupt:
            pass
        text = "".join(pieces)
        _show("\n")


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


def read_prompt(prompt: str) -> str:
    """Return the prompt, the text of the file in FILE:path, or standard input for '-'."""
    if prompt != "-" and not prompt.startswith("FILE:"):
        return prompt
    try:
        if prompt == "-":
            return sys.stdin.buffer.read().decode("utf-8-sig").replace("\r\n", "\n")
        return Path(prompt.removeprefix("FILE:")).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise JobError("cannot read the prompt {prompt}: {reason}", prompt=prompt, reason=why(error)) from None


def _show(text: str) -> None:
    """Print text of a model; control characters are escaped on a terminal and kept in pipes and files."""
    print(printable(text) if sys.stdout.isatty() else text, end="", flush=True)
