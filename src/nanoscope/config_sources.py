"""The sources of a configuration: presets, TOML files, nanoGPT's config/*.py and the command line.

Later sources win: defaults, preset, config file, --key=value. The mistakes of all sources are reported together.
"""

import ast
import operator
import os
import re
import shlex
import tomllib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from nanoscope.checkpoint_files import NANOGPT, checkpoint_folders, saved_settings
from nanoscope.config import (
    KEYS,
    LAST_NOTE,
    REMOVED,
    RUN_NOTES,
    TYPES,
    Mistakes,
    TrainConfig,
    alternatives,
    build,
    convert,
    without_options,
)
from nanoscope.errors import JobError, UsageError, why
from nanoscope.files import read_small
from nanoscope.messages import Message, Shown, joined
from nanoscope.suggest import did_you_mean

DEFAULT_PRESET = "laptop"
CONFIG_LIMIT_BYTES = 32 << 10  # tomllib takes 3 s for a dotted key of that length, in quadratic time


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
    notes: list[Shown] = field(default_factory=list)
    """Warnings about the sources."""
    changes: list[Shown] = field(default_factory=list)
    """What the recipe of a later source changes in a new run."""
    nanogpt: Path | None = None
    """The checkpoint of nanoGPT itself, rather than its folder, if the last source is one."""


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
            given = merged(given, _read_source(source, mistakes), mistakes.changes)
        except UsageError as error:
            mistakes.add(error.text)
    begin_from = given.get("init_from", "scratch")
    given = merged(given, typed, mistakes.changes)
    config = build(given, mistakes)
    if config.init_from == "scratch" and (held := next(filter(_holds_nanogpt, sources), "")):
        raise UsageError(
            "{path} holds a checkpoint of nanoGPT\nContinue it: nanoscope train {quoted} --init_from=resume. "
            "Or begin a new run with its weights: nanoscope train PRESET --init_from={quoted}",
            path=held,
            quoted=shlex.quote(held),
        )
    source = sources[-1] if sources else ""
    name = Path(source or DEFAULT_PRESET).stem.removeprefix("train_")
    if "dataset" in typed:
        name += "-" + Path(config.dataset).name
    nanogpt = Path(source) if _is_nanogpt(source) else None
    begin_from = "scratch" if begin_from in ("auto", "resume") else begin_from
    return Resolved(config, name, typed, given, begin_from, mistakes.notes, mistakes.changes, nanogpt)


def _parse_words(words: list[str], mistakes: Mistakes) -> tuple[list[str], dict[str, Any]]:
    """Split the arguments into sources and flags: `--key=value`, `--key value`, or just `--key` for a boolean."""
    sources: list[str] = []
    typed: dict[str, Any] = {}
    while words:
        word = words.pop(0)
        key, equals, text = word.lstrip("-").partition("=")
        key = key.replace("-", "_")
        if not word.startswith("-"):
            sources.append(word)
            continue
        if not equals and words and not words[0].startswith("--"):
            text = words.pop(0)
        elif not equals and bool in alternatives(TYPES.get(key)):
            text = "True"
        _put(typed, key, text, mistakes)
    return sources, typed


def _put(values: dict[str, Any], key: str, value: Any, mistakes: Mistakes, file: Shown = "") -> None:
    """Store a value as the type of its key. `file` names where it was read; without it: a flag."""
    if key not in KEYS:
        mistake = Message("unknown flag --{key}.{hint}", key=key, hint=did_you_mean(key, KEYS, "--{}".format))
        if file:
            in_table = Message(" Settings belong at the top level, not in a [table].")
            hint = in_table if isinstance(value, dict) else did_you_mean(key, KEYS)
            mistake = Message("{file}: unknown key {key}.{hint}", file=file, key=_shown(key), hint=hint)
        mistakes.add(mistake)
        return
    try:
        if key == "overwrite" and file:
            raise ValueError(Message("only the command line may set it, because it deletes a run"))
        values[key] = convert(key, value)
    except ValueError as error:
        wrong = {"value": _shown(value, repr), "name": key if file else f"--{key}", "reason": why(error)}
        mistake = Message("invalid value {value} for {name}: {reason}", **wrong)
        mistakes.add(joined(": ", [file, mistake]) if file else mistake)


def merged(earlier: dict[str, Any], later: dict[str, Any], notes: list[Shown]) -> dict[str, Any]:
    """The settings of two sources, of which the later wins. Adds a note on what else changes with a recipe.

    A dataset has its own tokenizer, and a recipe its own learning rates: those of an earlier source were for another.
    """
    if "dataset" in later:
        later = {"tokenizer": "auto", **later}
    before = earlier.get("recipe", KEYS["recipe"].default)
    now = later.get("recipe", before)
    if now == before:
        return earlier | later
    dropped = {key: value for key, value in earlier.items() if _belongs_to_recipe(key)}
    kept = {key: value for key, value in earlier.items() if key not in dropped} | later
    unused = [f"{key}={value}" for key, value in dropped.items() if key not in later and value != KEYS[key].default]
    if unused:
        text = Message("not used with recipe={recipe}: {settings}", recipe=now, settings=", ".join(unused))
        notes.append(text)
    return kept


def _belongs_to_recipe(key: str) -> bool:
    metadata = KEYS[key].metadata
    return bool(metadata["recipe"]) or (metadata["group"] == "optimizer" and key != "max_iters")


def _read_source(source: str, mistakes: Mistakes) -> dict[str, Any]:
    """The settings of a preset, a config file or a run's folder."""
    path = Path(source)
    if source in presets():
        return _from_toml(preset_text(source), Message("preset {name}", name=source), mistakes)
    # os.path returns False for an impossible name, where the methods of Path raise.
    if _holds_nanogpt(source):  # its settings are in there; reading them takes torch
        return {"recipe": "classic", "out_dir": str(path.parent) if path.name == NANOGPT else source}
    if os.path.isfile(path / "config.toml") or (os.path.isdir(path) and is_run(path)):  # noqa: PTH112, PTH113
        return run_settings(path, mistakes) | {"out_dir": source}  # the run may have been moved
    if os.path.isfile(path) and path.suffix in (".py", ".toml"):  # noqa: PTH113
        try:
            text = read_small(path, CONFIG_LIMIT_BYTES).decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise JobError("cannot read config {source}: {reason}", source=source, reason=why(error)) from None
        return (_from_nanogpt if path.suffix == ".py" else _from_toml)(text, source, mistakes)
    setting = source.partition("=")[0]
    raise UsageError(
        "{source!r} is no preset, config file (.toml or nanoGPT's .py) or run.{hint}\n"
        "Presets: {known}. A text: nanoscope prepare FILE. A log: nanoscope explain FILE",
        source=source,
        hint=did_you_mean(setting, presets()) or did_you_mean(setting, KEYS, "--{}".format),
        known=", ".join(presets()),
    )


def run_settings(run: Path, mistakes: Mistakes) -> dict[str, Any]:
    """The settings of a run. Never takes a config.toml that has lost its lines for one with default settings."""
    found, note = read_run_config(run)
    mistakes.notes += [note] if note else []
    if RUN_NOTES in found:
        return without_options(_settings(found, str(run / "config.toml"), mistakes))
    values = {} if is_run(run) else _read_source(str(run / "config.toml"), mistakes)
    if not values and not mistakes.messages:
        raise UsageError(
            "the settings of {run} are lost: its config.toml is missing, empty or damaged, and no checkpoint holds "
            "them\nPut config.toml back if you have a copy. Or begin a new run; --init_from={quoted} begins it with "
            "this run's weights, if any were saved.",
            run=run,
            quoted=shlex.quote(str(run)),
        )
    return without_options(values)


def read_run_config(run: Path) -> tuple[dict[str, Any], Message | None]:
    """The settings of a run with the table RUN_NOTES: those of config.toml or, if that is not whole, a checkpoint's.

    The second value is a note that says so. Without RUN_NOTES, the settings are not known, or not all of them.
    """
    config: dict[str, Any] = {}
    with suppress(OSError, ValueError, JobError, RecursionError):
        config = tomllib.loads(read_small(run / "config.toml", CONFIG_LIMIT_BYTES).decode("utf-8-sig"))
    notes = config.get(RUN_NOTES, {})
    if not isinstance(notes, dict):
        config = notes = {}
    if LAST_NOTE in notes:
        return config, None
    saved, name = saved_settings(run)
    if not isinstance(saved.get(RUN_NOTES), dict):
        return config, None  # of an earlier version
    note = Message(
        "{file} is missing or damaged: the settings are those of checkpoint {name}", file=run / "config.toml", name=name
    )
    return saved, note


def is_run(folder: Path) -> bool:
    """Whether a run has left something in a folder that only makes sense with its settings."""
    return os.path.isfile(folder / "events.jsonl") or bool(checkpoint_folders(folder / "checkpoints"))  # noqa: PTH113


def _is_nanogpt(source: str) -> bool:
    return Path(source).name == NANOGPT and os.path.isfile(source)  # noqa: PTH113


def _holds_nanogpt(source: str) -> bool:
    """Whether a source is a checkpoint of nanoGPT, or its folder, without settings."""
    folder = Path(source)
    if _is_nanogpt(source):
        return True
    found = os.path.isfile(folder / NANOGPT) and not os.path.isfile(folder / "config.toml")  # noqa: PTH113
    return found and source not in presets() and not checkpoint_folders(folder / "checkpoints")


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


def _from_toml(text: str, file: Shown, mistakes: Mistakes) -> dict[str, Any]:
    return _settings(_parsed(tomllib.loads, text, file, "TOML"), file, mistakes)


def _parsed(parse: Callable[[str], Any], text: str, file: Shown, language: str) -> Any:
    try:
        return parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # tomllib lets those of int() through
        raise UsageError(
            "{file} is not valid {language}: {reason}", file=file, language=language, reason=_shown(error)
        ) from None


def _settings(data: dict[str, Any], file: Shown, mistakes: Mistakes) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in data.items():
        if key not in (RUN_NOTES, *REMOVED):
            _put(values, key, value, mistakes, file)
    return values


ARITHMETIC: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}


def _from_nanogpt(text: str, file: str, mistakes: Mistakes) -> dict[str, Any]:
    """Read nanoGPT's config/*.py as data: assignments of literals and plain arithmetic. Nothing is executed."""
    values: dict[str, Any] = {}
    for statement in _parsed(ast.parse, text, file, "Python").body:
        where = Message("{file}, line {line}", file=file, line=str(statement.lineno))
        match statement:
            # finetune_shakespeare.py names its run after the time, with an expression; here the folder names it.
            case (
                ast.Expr(ast.Constant())
                | ast.Import([ast.alias("time", None)])
                | ast.Assign([ast.Name("wandb_run_name")], ast.BinOp())
            ):
                continue
            case ast.Assign([ast.Name(key)], expression):
                try:
                    found = _value(expression)
                except (ValueError, TypeError, ArithmeticError, RecursionError):
                    pass
                else:
                    _put(values, key, found, mistakes, where)
                    continue
        reason, code = Message("only literals and + - * / are read"), _shown(statement, ast.unparse)
        mistakes.add(Message("{where}: cannot read {statement}: {reason}", where=where, statement=code, reason=reason))
    # Settings that such a file leaves out have the defaults of nanoGPT's train.py.
    return merged({"recipe": "classic", "lr_decay_iters": 600_000, "min_lr": 6e-5}, values, [])


def _value(node: ast.expr) -> Any:
    """The value of a literal, or of arithmetic with numbers."""
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        numbers = _value(node.left), _value(node.right)
        if {*map(type, numbers)} <= {int, float}:
            return ARITHMETIC[type(node.op)](*numbers)
    return ast.literal_eval(node)


def _shown(value: Any, render: Callable[[Any], str] = str) -> str:
    """The first line of a value, shortened: a bad file must not flood the message about it."""
    try:
        line = (render(value).splitlines() or [""])[0]
    except (RecursionError, ValueError):  # ValueError: an integer with thousands of digits
        return "…"
    return line if len(line) <= 100 else line[:97] + "..."
