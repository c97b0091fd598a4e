"""The places a configuration is read from: presets, TOML, nanoGPT's config/*.py, the command line.

Later sources win: defaults → preset → config file → --key=value. All mistakes of all sources are told in one message.
"""

import ast
import operator
import os
import time
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from nanoscope.config import (
    EVERY_KEY,
    KEYS,
    LARGEST_INTEGER,
    LONGEST_TEXT,
    RUN_NOTES,
    TYPES,
    Mistakes,
    TrainConfig,
    alternatives,
    briefly,
    build,
    put,
)
from nanoscope.errors import JobError, UsageError, did_you_mean
from nanoscope.untrusted import read_small

DEFAULT_PRESET = "laptop"
CONFIG_LIMIT_BYTES = 256 << 10
MOST_MISTAKES = 20  # in one file: whoever has made more has given the wrong file
MOST_DOTS = 200  # in a line of TOML: dotted keys, of which we have none, cost the square of their length


@dataclass
class Resolved:
    """The configuration, and what was given rather than left at its default."""

    config: TrainConfig
    name: str
    """What the run is called unless out_dir says otherwise."""
    typed: dict[str, Any]
    """The --key=value flags alone: they win over what a resumed run had."""
    given: dict[str, Any]
    """Preset, files and flags together."""


def resolve(words: Iterable[str]) -> Resolved:
    """A configuration from what follows `nanoscope train`: presets and config files, then flags.

    >>> resolve(["laptop", "--max_iters=500"]).config.max_iters
    500
    """
    sources, typed, mistakes = _parse_words(list(words))
    given: dict[str, Any] = {}
    for source in sources or [DEFAULT_PRESET]:
        try:
            given |= _with_its_tokenizer(_read_source(source, mistakes))
        except UsageError as error:
            mistakes[str(error)] = EVERY_KEY
    given |= _with_its_tokenizer(typed)
    config = build(given, mistakes)
    name = Path(sources[-1] if sources else DEFAULT_PRESET).stem.removeprefix("train_")
    if "dataset" in typed:
        name += "-" + Path(config.dataset).name
    return Resolved(config, name, typed, given)


def _with_its_tokenizer(values: dict[str, Any]) -> dict[str, Any]:
    """Whoever names another dataset means that dataset's tokenizer, not the one of the preset's dataset."""
    return {"tokenizer": "auto", **values} if "dataset" in values else values


def _parse_words(words: list[str]) -> tuple[list[str], dict[str, Any], Mistakes]:
    """Sources, flags and mistakes in what was typed; `--key=value`, `--key value` and a bare boolean `--key`."""
    sources: list[str] = []
    typed: dict[str, Any] = {}
    mistakes: Mistakes = {}
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            sources.append(word)
            continue
        key, equals, text = word.lstrip("-").partition("=")
        key = key.replace("-", "_")
        if key not in KEYS:
            mistakes[f"unknown flag --{key}{did_you_mean(key, KEYS, '--')}"] = ""
            if not equals and words and not words[0].startswith("-"):
                words.pop(0)
        elif equals:
            put(typed, key, text, f"--{key}", mistakes)
        elif words and not words[0].startswith("--"):
            put(typed, key, words.pop(0), f"--{key}", mistakes)
        elif bool in alternatives(TYPES[key]):
            typed[key] = True
        else:
            mistakes[f"--{key} needs a value: --{key}={KEYS[key].default or 'TEXT'}"] = key
    return sources, typed, mistakes


def _read_source(source: str, mistakes: Mistakes) -> dict[str, Any]:
    """The values of a preset, of a config file, or of a run's folder."""
    path = Path(source)
    if source in presets():
        return _from_toml(_preset_text(source), f"preset {source}", mistakes)
    if os.path.isfile(path / "config.toml"):  # noqa: PTH113  a run's folder, wherever it has been moved to
        return _read_source(str(path / "config.toml"), mistakes) | {"out_dir": source}
    if not os.path.isfile(path):  # noqa: PTH113  False for a name that is no name, where Path.is_file raises
        if path.suffix in (".py", ".toml") or "/" in source or "\\" in source or os.path.exists(path):  # noqa: PTH110
            what = "is a folder without config.toml" if os.path.isdir(path) else "does not exist"  # noqa: PTH112
            raise UsageError(f"config {source} {what}\nPresets: {', '.join(presets())}")
        raise UsageError(
            f"there is no preset or config file named {source!r}{did_you_mean(source, presets())}\n"
            f"Presets: {', '.join(presets())}"
        )
    try:
        text = read_small(path, CONFIG_LIMIT_BYTES).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"config {source} cannot be read: {error}") from None
    if path.suffix == ".py":
        return _from_nanogpt(text, source, mistakes)
    if path.suffix == ".toml":
        return _from_toml(text, source, mistakes)
    raise UsageError(f"config {source} is neither .toml nor nanoGPT's .py")


def presets() -> list[str]:
    """The names of the presets that come with nanoscope."""
    names = (item.name for item in resources.files("nanoscope.presets").iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def _preset_text(name: str) -> str:
    return (resources.files("nanoscope.presets") / f"{name}.toml").read_text(encoding="utf-8")


def preset_note(name: str) -> str:
    """The first line of a preset's note: what it is for."""
    return _preset_text(name).splitlines()[0].removeprefix("# ")


def _from_toml(text: str, origin: str, mistakes: Mistakes) -> dict[str, Any]:
    try:
        if any(line.count(".") > MOST_DOTS for line in text.split("\n")):
            raise ValueError("a line of dots")
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # tomllib also lets through what int() and a deep nesting raise
        raise UsageError(f"{origin} is not valid TOML: {briefly(str(error))}") from None
    values: dict[str, Any] = {}
    for key, value in data.items():
        if _too_many(mistakes, origin):
            break
        if key == "preset":
            if not isinstance(value, str) or value not in presets():
                hint = did_you_mean(value, presets()) if isinstance(value, str) else ""
                named = "a number" if isinstance(value, int) else briefly(repr(value))  # of any length: no repr of it
                mistakes[f"{origin}: no preset named {named}{hint}"] = EVERY_KEY
            else:
                values = _from_toml(_preset_text(value), f"preset {value}", mistakes) | values
        elif key == RUN_NOTES:
            continue  # what to_toml adds to a run's settings
        elif key not in KEYS:
            hint = "; keys stand alone, in no [table]" if isinstance(value, dict) else did_you_mean(key, KEYS)
            mistakes[f"{origin}: unknown key {briefly(key)}{hint}"] = ""
        elif isinstance(value, str) and len(value) > LONGEST_TEXT:
            mistakes[f"{origin}: {key}: the text is too long"] = key
        else:
            put(values, key, value, f"{origin}: {key}", mistakes)
    return values


ARITHMETIC: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.UAdd: operator.pos, ast.USub: operator.neg,
}  # fmt: skip


def _from_nanogpt(text: str, origin: str, mistakes: Mistakes) -> dict[str, Any]:
    """nanoGPT's config/*.py, read as data: assignments of literals and plain arithmetic; nothing is executed."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"{origin} is not valid Python: {briefly(str(error))}") from None
    # What such a file leaves out means what nanoGPT's train.py means by it.
    values: dict[str, Any] = {"recipe": "classic", "lr_decay_iters": 600_000, "min_lr": 6e-5}
    known: dict[str, Any] = {}  # names this file has assigned: lr_decay_iters = max_iters
    for statement in tree.body:
        if _too_many(mistakes, origin):
            break
        where = f"{origin}, line {statement.lineno}"
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue  # a docstring
        if isinstance(statement, ast.Import) and [name.name for name in statement.names] == ["time"]:
            continue  # nanoGPT's finetune_shakespeare.py wants it for the name of its run; see _literal
        if not (
            isinstance(statement, ast.Assign)
            and len(statement.targets) == 1
            and isinstance(statement.targets[0], ast.Name)
        ):
            mistakes[f"{where}: only plain assignments are read, not '{_shortened(statement)}'"] = ""
            continue
        key = statement.targets[0].id
        try:
            known[key] = value = _literal(statement.value, known)
        except (ValueError, TypeError, ZeroDivisionError, OverflowError, RecursionError) as error:
            mistakes[f"{where}: {briefly(key)} = {_shortened(statement.value)} is not read: {error}"] = key
            continue
        if key in KEYS:
            put(values, key, value, f"{where}: {key}", mistakes)
        else:
            mistakes[f"{where}: unknown key {briefly(key)}{did_you_mean(key, KEYS)}"] = ""
    return values


def _literal(node: ast.expr, known: dict[str, Any]) -> Any:
    """The value of an expression; each is small, so that no chain of lines can fill the memory."""
    value = _evaluated(node, known)
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        raise ValueError("the text is too long")
    if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        raise ValueError("the number is too large")
    return value


def _evaluated(node: ast.expr, known: dict[str, Any]) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float | str):
        return node.value
    if isinstance(node, ast.Name) and node.id in known:
        return known[node.id]
    if isinstance(node, ast.Name):
        raise ValueError(f"{briefly(node.id)} has no value yet")
    if isinstance(node, ast.UnaryOp) and type(node.op) in ARITHMETIC:
        return ARITHMETIC[type(node.op)](_number(_literal(node.operand, known)))
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        left, right = _literal(node.left, known), _literal(node.right, known)
        if isinstance(node.op, ast.Add) and isinstance(left, str) and isinstance(right, str):
            return left + right
        return ARITHMETIC[type(node.op)](_number(left), _number(right))
    if isinstance(node, ast.Call) and _shortened(node) == "str(time.time())":
        return str(time.time())
    raise ValueError("only literals and + - * / of them are")


def _number(value: Any) -> Any:
    if isinstance(value, bool | str):
        raise ValueError("arithmetic is for numbers")
    return value


def _shortened(node: ast.AST) -> str:
    try:
        return briefly(ast.unparse(node))
    except (RecursionError, ValueError):  # ValueError: a number of thousands of digits
        return "an expression"


def _too_many(mistakes: Mistakes, origin: str) -> bool:
    if len(mistakes) < MOST_MISTAKES:
        return False
    mistakes[f"{origin}: the rest was not read"] = EVERY_KEY
    return True
