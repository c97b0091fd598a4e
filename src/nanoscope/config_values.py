"""Values of settings as they come from flags and files: converted to the type of their key, or refused."""

import math
import re
from typing import Any

from nanoscope.config import KEYS, TYPES, Mistakes, alternatives
from nanoscope.errors import why
from nanoscope.messages import Joined, Text
from nanoscope.suggest import did_you_mean

LONGEST_TEXT = 4096
LARGEST_INTEGER = 2**63 - 1  # of torch
UNWRITABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # in folder names and in config.toml


def briefly(text: str) -> str:
    """Return the first line, shortened: a bad file must not flood the message about it."""
    line = text.splitlines()[0] if text else ""
    return line if len(line) <= 100 else line[:97] + "..."


def quoted(value: Any) -> Text | str:
    """Return a value as it is quoted in a message."""
    try:
        return briefly(repr(value))
    except ValueError:  # Python refuses to print an integer with thousands of digits
        return Text("a huge number")


def put(values: dict[str, Any], key: str, value: Any, mistakes: Mistakes, *, file: Text | str = "") -> None:
    """Convert a value to the type of its key and store it. `file` names where it was read; without it: a flag."""
    try:
        if key == "overwrite" and file:
            raise ValueError(Text("only the command line may set it, because it deletes a run"))
        values[key] = _converted(key, value)
    except ValueError as error:
        wrong = {"value": quoted(value), "name": key if file else f"--{key}", "reason": why(error)}
        mistake = Text("invalid value {value} for {name}: {reason}", **wrong)
        mistakes.add(Joined(": ", [file, mistake]) if file else mistake, key)


def _converted(key: str, value: Any) -> Any:
    """Return the value as the type of the key; ValueError says what the key accepts."""
    options = alternatives(TYPES[key])
    words = [option for option in options if isinstance(option, str)]
    if isinstance(value, str) and value in words:
        return value
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        raise ValueError(Text("the text is too long"))
    if str in options:
        return _text(value, may_be_empty=not KEYS[key].default)
    text = str(value).strip()
    if bool in options and text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind, convert in ((int, _integer), (float, _finite)):
        if kind in options and not isinstance(value, bool):
            try:
                return convert(text)
            except (ValueError, OverflowError):
                pass
    names = {bool: Text("True or False"), int: Text("an integer"), float: Text("a number")}
    wanted = [*(names[option] for option in options if option in names), *words]
    listed = Text("{one} or {other}", one=wanted[0], other=wanted[1]) if len(wanted) == 2 else Joined(", ", wanted)
    raise ValueError(Text("expected {listed}.{hint}", listed=listed, hint=did_you_mean(text, words)))


def _text(value: Any, may_be_empty: bool) -> str:
    if not isinstance(value, str):
        raise ValueError(Text("expected a text"))
    if not value and not may_be_empty:
        raise ValueError(Text("must not be empty"))
    if UNWRITABLE.search(value):
        raise ValueError(Text("must not contain line breaks, control characters or broken characters"))
    return value


def _integer(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = int(float(text))  # 5e3 and 2000.0 are integers too
        if number != float(text):
            raise
    if abs(number) > LARGEST_INTEGER:
        raise ValueError(text)
    return number


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number
