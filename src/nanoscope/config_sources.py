"""The sources of a configuration: presets, TOML files, nanoGPT's config/*.py and the command line.

Later sources win: defaults, preset, config file, --key=value. The mistakes of all sources are reported together.
"""

import ast
import operator
import os
import re
import shlex
import time
import tomllib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

from nanoscope.checkpoint_files import NANOGPT, checkpoint_folders, saved_settings
from nanoscope.config import (
    KEYS,
    LAST_NOTE,
    RUN_NOTES,
    TYPES,
    Mistakes,
    TrainConfig,
    alternatives,
    build,
    without_per_invocation,
)
from nanoscope.config_values import LARGEST_INTEGER, LONGEST_TEXT, briefly, put, quoted
from nanoscope.errors import JobError, UsageError, why
from nanoscope.files import read_small
from nanoscope.messages import Text
from nanoscope.suggest import did_you_mean

DEFAULT_PRESET = "laptop"
CONFIG_LIMIT_BYTES = 256 << 10
MOST_MISTAKES = 20  # per file: with more, it is the wrong file
MOST_NOTES = 100
MISSPELT = 0.8  # similarity of a name to a setting (difflib) from which on it is taken for a misspelling
MOST_DOTS = 200  # per line of TOML: parsing a dotted key, which no setting has, takes quadratic time


@dataclass
class Resolved:
    """A configuration, and which of its values were given rather than defaults."""

    config: TrainConfig
    name: str
    """The name of the run unless out_dir sets another."""
    typed: dict[str, Any]
    """Only the --key=value flags: they override the settings of a resumed run."""
    given: dict[str, Any]
    """Preset, files and flags together."""
    begin_from: str = "scratch"
    """The init_from of a run that init_from=auto begins: the one of preset and files."""
    notes: list[str] = field(default_factory=list)
    """Warnings about the sources."""
    changes: list[str] = field(default_factory=list)
    """What the recipe of a later source changes in a new run."""
    source: str = ""
    """The last preset, file or folder."""

    @property
    def named(self) -> str:
        """NANOGPT or "checkpoints", if the source names which of two runs in one folder is meant."""
        path = Path(self.source)
        return path.name if path.name in (NANOGPT, "checkpoints") and os.path.exists(path) else ""  # noqa: PTH110


def resolve(words: Iterable[str]) -> Resolved:
    """Build the configuration from the arguments of `nanoscope train`: presets, config files and flags.

    >>> resolve(["laptop", "--max_iters=500"]).config.max_iters
    500
    """
    mistakes = Mistakes()
    sources, typed = _parse_words(list(words), mistakes)
    given: dict[str, Any] = {}
    for source in sources or [DEFAULT_PRESET]:
        try:
            given = over(given, _read_source(source, mistakes), mistakes.changes)
        except UsageError as error:
            mistakes.add_source(error.text)
    begin_from = given.get("init_from", "scratch")
    given = over(given, typed, mistakes.changes)
    config = build(given, mistakes)
    if config.init_from == "scratch" and (theirs := next(filter(_holds_nanogpt, sources), "")):
        raise UsageError(
            "{theirs} holds a checkpoint of nanoGPT\nContinue it: nanoscope train {quoted} --init_from=resume. "
            "Or begin a new run with its weights: nanoscope train PRESET --init_from={quoted}",
            theirs=theirs,
            quoted=shlex.quote(theirs),
        )
    name = Path(sources[-1] if sources else DEFAULT_PRESET).stem.removeprefix("train_")
    if "dataset" in typed:
        name += "-" + Path(config.dataset).name
    begin_from = "scratch" if begin_from in ("auto", "resume") else begin_from
    source = sources[-1] if sources else ""
    return Resolved(config, name, typed, given, begin_from, mistakes.notes, mistakes.changes, source)


def read_run_config(run: Path) -> tuple[dict[str, Any], Text | None]:
    """The settings of a run with the table RUN_NOTES: those of config.toml or, if that is not whole, a checkpoint's.

    The second value is a note that says so. Without RUN_NOTES, the settings are not known, or not all of them.
    """
    config: dict[str, Any] = {}
    with suppress(OSError, ValueError, JobError, RecursionError):
        config = _parsed(read_small(run / "config.toml", CONFIG_LIMIT_BYTES).decode("utf-8-sig"))
    notes = config.get(RUN_NOTES, {})
    if not isinstance(notes, dict):
        config = notes = {}
    if LAST_NOTE in notes:
        return config, None
    saved, name = saved_settings(run)
    if not isinstance(saved.get(RUN_NOTES), dict):
        return config, None  # of an earlier version
    note = Text(
        "{file} is missing or damaged: the settings are those of checkpoint {name}", file=run / "config.toml", name=name
    )
    return saved, note


def is_run(folder: Path) -> bool:
    """Whether a run has left something in a folder that only makes sense with its settings."""
    return os.path.isfile(folder / "events.jsonl") or bool(checkpoint_folders(folder / "checkpoints"))  # noqa: PTH113


def _run_settings(run: Path, mistakes: Mistakes) -> dict[str, Any]:
    """Never takes a config.toml that has lost its lines for one with default settings."""
    found, note = read_run_config(run)
    mistakes.notes += [note] if note else []
    if RUN_NOTES in found:
        return _settings(found, str(run / "config.toml"), mistakes)
    values = {} if is_run(run) else _read_source(str(run / "config.toml"), mistakes)
    if not values and not mistakes.messages:
        raise UsageError(
            "the settings of {run} are lost: its config.toml is missing, empty or damaged, and no checkpoint holds "
            "them\nPut config.toml back if you have a copy. Or begin a new run; --init_from={quoted} begins it with "
            "this run's weights, if any were saved.",
            run=run,
            quoted=shlex.quote(str(run)),
        )
    return values


def _holds_nanogpt(source: str) -> bool:
    """Whether a source is a checkpoint of nanoGPT, or its folder, without settings."""
    folder = Path(source)
    if folder.name == NANOGPT and os.path.isfile(folder):  # noqa: PTH113
        return True
    found = os.path.isfile(folder / NANOGPT) and not os.path.isfile(folder / "config.toml")  # noqa: PTH113
    return found and source not in presets() and not checkpoint_folders(folder / "checkpoints")


def over(earlier: dict[str, Any], later: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """The settings of two sources, of which the later wins. Adds a note on what else changes with a recipe.

    A dataset has its own tokenizer, and a recipe its own learning rates: those of an earlier source were for another.
    """
    if "dataset" in later:
        later = {"tokenizer": "auto", **later}
    before = TrainConfig(**earlier)
    if not earlier or later.get("recipe", before.recipe) == before.recipe:
        return earlier | later
    both = {key: value for key, value in earlier.items() if not _belongs_to_recipe(key)} | later
    now = TrainConfig(**both)
    changes = [
        f"{key}: {old} → {new}"
        for key, item in KEYS.items()
        if _belongs_to_recipe(key) and key not in later
        if (old := _in_effect(key, before)) != (new := _in_effect(key, now))
        if not item.metadata["recipe"] or earlier.get(key, item.default) != item.default
    ]
    if changes:
        notes.append(
            Text(
                "recipe={recipe} instead of {other} also changes {changes}",
                recipe=now.recipe,
                other=before.recipe,
                changes=", ".join(changes),
            )
        )
    return both


def _belongs_to_recipe(key: str) -> bool:
    metadata = KEYS[key].metadata
    return bool(metadata["recipe"]) or (metadata["group"] == "optimizer" and key != "max_iters")


def _in_effect(key: str, config: TrainConfig) -> str:
    if KEYS[key].metadata["recipe"] not in ("", config.recipe):
        return "–"
    auto = {"learning_rate": config.peak_lr, "min_lr": config.lowest_lr, "warmup_iters": config.warmup}
    value = auto.get(key, getattr(config, key))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _parse_words(words: list[str], mistakes: Mistakes) -> tuple[list[str], dict[str, Any]]:
    """Split the arguments into sources and flags: `--key=value`, `--key value`, or just `--key` for a boolean."""
    sources: list[str] = []
    typed: dict[str, Any] = {}
    while words:
        word = words.pop(0)
        key, equals, text = word.lstrip("-").partition("=")
        key = key.replace("-", "_")
        if not word.startswith("-"):
            if equals and not os.path.exists(word):  # noqa: PTH110
                hint = did_you_mean(key, KEYS, partial(_flag, text))
                mistakes.add(Text("{word!r} is neither a preset nor a config file.{hint}", word=word, hint=hint))
            else:
                sources.append(word)
            continue
        if key not in KEYS:
            mistakes.add(Text("unknown flag --{key}.{hint}", key=key, hint=did_you_mean(key, KEYS, "--{}".format)))
            if not equals and words and not words[0].startswith("-"):
                words.pop(0)
        elif equals:
            put(typed, key, text, mistakes)
        elif words and not words[0].startswith("--"):
            put(typed, key, words.pop(0), mistakes)
        elif bool in alternatives(TYPES[key]):
            typed[key] = True
        else:
            mistakes.add(
                Text(
                    "--{key} needs a value, for example {example}",
                    key=key,
                    example=_flag(KEYS[key].default or "TEXT", key),
                ),
                key,
            )
    return sources, typed


def _flag(value: object, key: str) -> str:
    return f"--{key}={value}"


def _read_source(source: str, mistakes: Mistakes) -> dict[str, Any]:
    """Return the values of a preset, a config file or a run folder."""
    path = Path(source)
    if source in presets():
        return _from_toml(preset_text(source), Text("preset {name}", name=source), mistakes)
    # os.path returns False for an impossible name, where the methods of Path raise.
    if _holds_nanogpt(source):  # its settings are in there; reading them takes torch
        return {"recipe": "classic", "out_dir": str(path.parent) if path.name == NANOGPT else source}
    if path.name == "checkpoints" and os.path.isdir(path):  # noqa: PTH112
        return _read_source(str(path.parent), mistakes)
    if os.path.isfile(path / "config.toml") or (os.path.isdir(path) and is_run(path)):  # noqa: PTH112, PTH113
        saved = without_per_invocation(_run_settings(path, mistakes))
        return saved | {"out_dir": source}  # the run may have been moved
    if not os.path.isfile(path):  # noqa: PTH113
        known = ", ".join(presets())
        if os.path.isdir(path):  # noqa: PTH112
            raise UsageError(
                "config {source} is a folder without config.toml\nPresets: {known}", source=source, known=known
            )
        if path.suffix in (".py", ".toml") or "/" in source or "\\" in source:
            raise UsageError("config {source} does not exist\nPresets: {known}", source=source, known=known)
        raise UsageError(
            "no preset or config file is named {source!r}.{hint}\nPresets: {known}",
            source=source,
            hint=did_you_mean(source, presets()),
            known=known,
        )
    try:
        text = read_small(path, CONFIG_LIMIT_BYTES).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise JobError("cannot read config {source}: {reason}", source=source, reason=why(error)) from None
    if path.suffix == ".py":
        return _from_nanogpt(text, source, mistakes)
    if path.suffix == ".toml":
        return _from_toml(text, source, mistakes)
    name = shlex.quote(source)
    raise UsageError(
        "config {source} is neither a .toml file nor a .py file of nanoGPT\n"
        "If it is a text: nanoscope prepare {name}. If it is a log: nanoscope explain {name}",
        source=source,
        name=name,
    )


def presets() -> list[str]:
    """Return the names of the presets that come with nanoscope."""
    names = (item.name for item in resources.files("nanoscope.presets").iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def preset_text(name: str) -> str:
    """Return a preset as TOML, with its comment."""
    return (resources.files("nanoscope.presets") / f"{name}.toml").read_text(encoding="utf-8")


def preset_note(name: str) -> str:
    """Return the first line of a preset's comment, which says what it is for."""
    return preset_text(name).splitlines()[0].removeprefix("# ")


def preset_size(name: str) -> str:
    """Return the number of parameters that a preset's comment names: 7.1M."""
    found = re.search(r"([\d.]+M) parameters", preset_text(name))
    return found[1] if found else ""


def _from_toml(text: str, file: Text | str, mistakes: Mistakes) -> dict[str, Any]:
    try:
        data = _parsed(text)
    except (ValueError, RecursionError) as error:  # tomllib lets errors of int() and of deep nesting through
        raise UsageError("{file} is not valid TOML: {reason}", file=file, reason=_reason(error)) from None
    return _settings(data, file, mistakes)


def _parsed(text: str) -> dict[str, Any]:
    if any(line.count(".") > MOST_DOTS for line in text.split("\n")):
        raise ValueError(Text("a line has too many dots"))
    return tomllib.loads(text)


def _settings(data: dict[str, Any], file: Text | str, mistakes: Mistakes) -> dict[str, Any]:
    preset: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for key, value in data.items():
        if _too_many(mistakes, file):
            break
        if key == "preset":
            if isinstance(value, str) and value in presets():
                preset = _from_toml(preset_text(value), Text("preset {name}", name=value), mistakes)
            else:
                hint = did_you_mean(value, presets()) if isinstance(value, str) else ""
                mistakes.add_source(
                    Text("{file}: no preset is named {value}.{hint}", file=file, value=quoted(value), hint=hint)
                )
        elif key in KEYS:
            put(values, key, value, mistakes, file=file)
        elif key != RUN_NOTES:
            in_table = Text(" Settings belong at the top level, not in a [table].")
            hint = in_table if isinstance(value, dict) else did_you_mean(key, KEYS)
            mistakes.add(Text("{file}: unknown key {key}.{hint}", file=file, key=briefly(key), hint=hint))
    return over(preset, values, mistakes.changes)


ARITHMETIC: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}


def _from_nanogpt(text: str, file: str, mistakes: Mistakes) -> dict[str, Any]:
    """Read nanoGPT's config/*.py as data: assignments of literals and plain arithmetic. Nothing is executed."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UsageError("{file} is not valid Python: {reason}", file=file, reason=_reason(error)) from None
    values: dict[str, Any] = {}
    assigned: dict[str, Any] = {}  # so that names can be used: lr_decay_iters = max_iters
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    for statement in tree.body:
        if _too_many(mistakes, file):
            break
        where = Text("{file}, line {line}", file=file, line=str(statement.lineno))
        match statement:
            case ast.Expr(ast.Constant()) | ast.Import([ast.alias("time", None)]):
                continue  # a docstring; finetune_shakespeare.py imports time for the name of its run
            case ast.Assign([ast.Name(key)]):
                try:
                    assigned[key] = _literal(statement.value, assigned)
                except (ValueError, TypeError, ZeroDivisionError, OverflowError, RecursionError) as error:
                    mistakes.add(
                        Text(
                            "{where}: cannot read {statement}: {reason}",
                            where=where,
                            statement=f"{briefly(key)} = {_source(statement.value)}",
                            reason=why(error),
                        ),
                        key,
                    )
                    continue
                if key in KEYS:
                    put(values, key, assigned[key], mistakes, file=where)
                elif key not in used:
                    _report_unknown(key, where, mistakes)
            case _:
                mistakes.add(
                    Text("{where}: only plain assignments are read, not '{code}'", where=where, code=_source(statement))
                )
    # Settings that such a file leaves out have the defaults of nanoGPT's train.py.
    return over({"recipe": "classic", "lr_decay_iters": 600_000, "min_lr": 6e-5}, values, [])


def _report_unknown(key: str, where: Text, mistakes: Mistakes) -> None:
    """Refuse what looks like a misspelt setting. Other names are helpers of the file's author, and noted."""
    if did_you_mean(key, KEYS, cutoff=MISSPELT):
        mistakes.add(
            Text("{file}: unknown key {key}.{hint}", file=where, key=briefly(key), hint=did_you_mean(key, KEYS))
        )
    else:
        mistakes.notes.append(
            Text(
                "{where}: {key} is not a setting, and was ignored.{hint}",
                where=where,
                key=briefly(key),
                hint=did_you_mean(key, KEYS),
            )
        )


def _literal(node: ast.expr, assigned: dict[str, Any]) -> Any:
    """Return the value of an expression. Each value is small, so that no chain of lines can fill the memory."""
    value = _evaluated(node, assigned)
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        raise ValueError(Text("the text is too long"))
    if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        raise ValueError(Text("the number is too large"))
    return value


def _evaluated(node: ast.expr, assigned: dict[str, Any]) -> Any:
    match node:
        case ast.Constant(bool() | int() | float() | str() as value):
            return value
        case ast.Name(name):
            if name not in assigned:
                raise ValueError(Text("{name} has no value yet", name=briefly(name)))
            return assigned[name]
        case ast.UnaryOp(op, operand) if type(op) in ARITHMETIC:
            return ARITHMETIC[type(op)](_number(_literal(operand, assigned)))
        case ast.BinOp(left, op, right) if type(op) in ARITHMETIC:
            a, b = _literal(left, assigned), _literal(right, assigned)
            if isinstance(op, ast.Add) and isinstance(a, str) and isinstance(b, str):
                return a + b
            return ARITHMETIC[type(op)](_number(a), _number(b))
        case ast.Call() if _source(node) == "str(time.time())":
            return str(time.time())
    raise ValueError(Text("only literals and + - * / are read"))


def _number(value: Any) -> Any:
    if isinstance(value, bool | str):
        raise ValueError(Text("arithmetic needs numbers"))
    return value


def _reason(error: Exception) -> Text | str:
    reason = why(error)
    return briefly(reason) if isinstance(reason, str) else reason


def _source(node: ast.AST) -> str:
    try:
        return briefly(ast.unparse(node))
    except (RecursionError, ValueError):  # ValueError: an integer with thousands of digits
        return "an expression"


def _too_many(mistakes: Mistakes, file: Text | str) -> bool:
    if len(mistakes.messages) < MOST_MISTAKES and len(mistakes.notes) < MOST_NOTES:
        return False
    mistakes.add_source(Text("{file}: too many mistakes, the rest was not read", file=file))
    return True
