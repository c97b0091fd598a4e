"""What a run is told: one flat, typed TrainConfig with nanoGPT's names, and the sources it is read from.

Later sources win: defaults → preset → config file (TOML, or nanoGPT's .py read without running it) → --key=value.
All mistakes of all sources are collected and told in one message.
"""

import ast
import dataclasses
import difflib
import json
import operator
import os
import re
import time
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from importlib import resources
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from nanoscope.errors import JobError, UsageError

Auto = Literal["auto"]
DEFAULT_PRESET = "laptop"


def _key(group: str, default: Any, help: str) -> Any:
    return field(default=default, metadata={"group": group, "help": help})


@dataclass(kw_only=True)
class TrainConfig:
    """Every setting of a training run. Defaults are nanoGPT's (GPT-2 124M); a preset replaces many of them."""

    # fmt: off
    out_dir: str = _key("run", "", "folder of the run; default runs/NAME, NAME being the preset, config file or dataset")
    init_from: str = _key("run", "scratch", "scratch, resume, gpt2[-medium|-large|-xl], or a folder with GPT-2 weights (model.safetensors, config.json)")
    recipe: Literal["classic"] = _key("run", "classic", "classic: GPT-2 as nanoGPT trains it")
    seed: int = _key("run", 1337, "seed of the initial weights, the batches and dropout")
    overwrite: bool = _key("run", False, "start anew in a folder that already holds a run, deleting that run")
    max_minutes: float = _key("run", 0.0, "stop after this many minutes of wall time, with everything saved; 0: no limit")
    log_interval: int = _key("run", 1, "a line every so many iterations")
    wandb_log: bool = _key("run", False, "also log to Weights & Biases (needs: pip install wandb)")
    wandb_project: str = _key("run", "owt", "its project")
    wandb_run_name: str = _key("run", "gpt2", "its run name")

    eval_interval: int = _key("evaluation", 2000, "evaluate every so many iterations")
    eval_iters: int | Literal["full"] = _key("evaluation", 200, "batches per split and evaluation, always the same windows; full: the whole split")
    eval_only: bool = _key("evaluation", False, "evaluate once and stop")
    patience: int = _key("evaluation", 0, "stop after so many evaluations without a better val loss; 0: never")
    always_save_checkpoint: bool = _key("evaluation", True, "save at every evaluation, not only at a better val loss")
    keep_checkpoints: int = _key("evaluation", 2, "newest checkpoints to keep besides the best; 0: all")
    sample_interval: int = _key("evaluation", 0, "write a sample every so many iterations; 0: never")

    dataset: str = _key("data", "openwebtext", "a prepared folder, a name under data/, or a known corpus (shakespeare, python)")
    tokenizer: Literal["auto", "char", "byte", "gpt2", "bpe"] = _key("data", "auto", "for a corpus prepared on first use; auto: the dataset's own")
    order: Literal["random", "epochs"] = _key("data", "random", "random: crops anywhere, as nanoGPT; epochs: each window once, shuffled, then again")
    batch_size: int = _key("data", 12, "sequences in a micro-batch")
    gradient_accumulation_steps: int = _key("data", 5 * 8, "micro-batches in an iteration, over all processes")
    block_size: int = _key("data", 1024, "tokens of context")

    n_layer: int = _key("model", 12, "transformer blocks")
    n_head: int = _key("model", 12, "attention heads")
    n_embd: int = _key("model", 768, "width, a multiple of n_head")
    dropout: float = _key("model", 0.0, "0 for pre-training; 0.1 or more for small data or fine-tuning")
    bias: bool = _key("model", False, "biases in LayerNorm and Linear layers, as GPT-2 has")

    learning_rate: float = _key("optimizer", 6e-4, "highest learning rate")
    max_iters: int = _key("optimizer", 600_000, "iterations in all")
    weight_decay: float = _key("optimizer", 0.1, "on matrices, not on vectors")
    beta1: float = _key("optimizer", 0.9, "AdamW")
    beta2: float = _key("optimizer", 0.95, "AdamW")
    grad_clip: float = _key("optimizer", 1.0, "highest gradient norm; 0: no clipping")
    decay_lr: bool = _key("optimizer", True, "warm up, then cosine decay; False: constant")
    warmup_iters: int = _key("optimizer", 2000, "iterations of linear warm-up")
    lr_decay_iters: int | Auto = _key("optimizer", "auto", "iteration at which min_lr is reached; auto: max_iters")
    min_lr: float | Auto = _key("optimizer", "auto", "lowest learning rate; auto: a tenth of learning_rate")

    device: str = _key("machine", "auto", "auto, cpu, cuda, cuda:1, mps")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = _key("machine", "auto", "number format of the matmuls")
    compile: bool | Auto = _key("machine", "auto", "torch.compile; falls back to eager where it does not work")
    backend: Literal["auto", "gloo", "nccl"] = _key("machine", "auto", "between processes under torchrun; auto: nccl on CUDA, else gloo")
    # fmt: on

    @property
    def decay_iters(self) -> int:
        return self.max_iters if self.lr_decay_iters == "auto" else self.lr_decay_iters

    @property
    def lowest_lr(self) -> float:
        return self.learning_rate / 10 if self.min_lr == "auto" else self.min_lr

    @property
    def sequences_per_step(self) -> int:
        return self.batch_size * self.gradient_accumulation_steps

    @property
    def tokens_per_step(self) -> int:
        return self.sequences_per_step * self.block_size


# What a checkpoint fixes: on resume these come from the run, whatever the preset or file says.
SHAPE_KEYS = ("recipe", "block_size", "n_layer", "n_head", "n_embd", "bias")
KEYS = {item.name: item for item in fields(TrainConfig)}
TYPES = get_type_hints(TrainConfig)

POSITIVE = ("log_interval", "eval_interval", "batch_size", "gradient_accumulation_steps", "block_size", "n_layer", "n_head", "n_embd", "max_iters", "learning_rate")  # fmt: skip
NOT_NEGATIVE = ("seed", "max_minutes", "patience", "keep_checkpoints", "sample_interval", "weight_decay", "grad_clip", "warmup_iters")  # fmt: skip


Mistakes = dict[str, str]
"""What is wrong, in words → the key that could not be read because of it: '' for none."""
EVERY_KEY = "*"
RUN_NOTES = "environment"


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


def build(values: dict[str, Any], mistakes: Mistakes | None = None) -> TrainConfig:
    """A checked TrainConfig; every mistake, those found earlier too, is told in one UsageError."""
    mistakes = mistakes or {}
    config = TrainConfig(**values)
    told = [*mistakes, *_contradictions(config, unread=set(mistakes.values()))]
    if told:
        lines = "\n".join(f"- {mistake}" for mistake in told)
        raise UsageError(told[0] if len(told) == 1 else f"{len(told)} mistakes in the configuration:\n{lines}")
    return config


def _contradictions(config: TrainConfig, unread: set[str]) -> list[str]:
    """What no run could be made of, although each value has the right type.

    A key whose value could not be read has its default here, so it is not compared with others.
    """
    found = [
        f"{key} must be positive, it is {getattr(config, key)}" for key in POSITIVE if not getattr(config, key) > 0
    ]
    found += [f"{key} must not be negative, it is {getattr(config, key)}" for key in NOT_NEGATIVE if not getattr(config, key) >= 0]  # fmt: skip
    if not unread & {EVERY_KEY, "n_embd", "n_head"} and config.n_head > 0 and config.n_embd % config.n_head:
        near = max(round(config.n_embd / config.n_head), 1) * config.n_head
        found.append(f"n_embd={config.n_embd} is not divisible by n_head={config.n_head}; n_embd={near} would be")
    if not 0 <= config.dropout < 1:
        found.append(f"dropout must be at least 0 and below 1, it is {config.dropout}")
    found += [f"{key} must be at least 0 and below 1, it is {getattr(config, key)}" for key in ("beta1", "beta2") if not 0 <= getattr(config, key) < 1]  # fmt: skip
    if config.eval_iters != "full" and config.eval_iters <= 0:
        found.append(f"eval_iters must be positive, or 'full', it is {config.eval_iters}")
    if config.lr_decay_iters != "auto" and config.lr_decay_iters <= 0:
        found.append(f"lr_decay_iters must be positive, or 'auto', it is {config.lr_decay_iters}")
    rates_known = not unread & {EVERY_KEY, "min_lr", "learning_rate", "decay_lr"}
    if rates_known and config.decay_lr and config.min_lr != "auto" and not 0 <= config.min_lr <= config.learning_rate:
        found.append(f"min_lr must lie between 0 and learning_rate={config.learning_rate:g}, it is {config.min_lr:g}")
    return found


# --- sources -----------------------------------------------------------------------------------------------------


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
            _put(typed, key, text, f"--{key}", mistakes)
        elif words and not words[0].startswith("--"):
            _put(typed, key, words.pop(0), f"--{key}", mistakes)
        elif bool in _alternatives(TYPES[key]):
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
            f"there is no preset or config file named {source!r}{did_you_mean(source, presets())}\nPresets: {', '.join(presets())}"
        )
    try:
        text = path.read_text(encoding="utf-8-sig")
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
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # tomllib also lets through what int() and a deep nesting raise
        raise UsageError(f"{origin} is not valid TOML: {_briefly(str(error))}") from None
    values: dict[str, Any] = {}
    for key, value in data.items():
        if key == "preset":
            if value not in presets():
                mistakes[f"{origin}: no preset named {value!r}{did_you_mean(str(value), presets())}"] = EVERY_KEY
            else:
                values = _from_toml(_preset_text(value), f"preset {value}", mistakes) | values
        elif key == RUN_NOTES:
            continue  # what to_toml adds to a run's settings
        elif key not in KEYS:
            hint = "; keys stand alone, in no [table]" if isinstance(value, dict) else did_you_mean(key, KEYS)
            mistakes[f"{origin}: unknown key {key}{hint}"] = ""
        else:
            _put(values, key, value, f"{origin}: {key}", mistakes)
    return values


LONGEST_TEXT = 4096
LARGEST_INTEGER = 2**63 - 1  # what torch takes
UNWRITABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # in no folder's name and in no file of ours

ARITHMETIC: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.UAdd: operator.pos, ast.USub: operator.neg,
}  # fmt: skip


def _from_nanogpt(text: str, origin: str, mistakes: Mistakes) -> dict[str, Any]:
    """nanoGPT's config/*.py, read as data: assignments of literals and plain arithmetic; nothing is executed."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"{origin} is not valid Python: {_briefly(str(error))}") from None
    # What such a file leaves out means what nanoGPT's train.py means by it.
    values: dict[str, Any] = {"recipe": "classic", "lr_decay_iters": 600_000, "min_lr": 6e-5}
    known: dict[str, Any] = {}  # names this file has assigned: lr_decay_iters = max_iters
    for statement in tree.body:
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
            mistakes[f"{where}: {key} = {_shortened(statement.value)} is not read: {error}"] = key
            continue
        if key in KEYS:
            _put(values, key, value, f"{where}: {key}", mistakes)
        else:
            mistakes[f"{where}: unknown key {key}{did_you_mean(key, KEYS)}"] = ""
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
        raise ValueError(f"{node.id} has no value yet")
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
        return _briefly(ast.unparse(node))
    except RecursionError:
        return "a deeply nested expression"


def _briefly(text: str) -> str:
    """One short line: what is wrong in a file must not flood the message about it."""
    line = text.splitlines()[0] if text else ""
    return line if len(line) <= 100 else line[:97] + "..."


# --- values ------------------------------------------------------------------------------------------------------


def _put(values: dict[str, Any], key: str, value: Any, origin: str, mistakes: Mistakes) -> None:
    try:
        values[key] = _converted(key, value)
    except ValueError as error:
        mistakes[
            f"{origin}: {error}" if not origin.startswith("--") else f"{_briefly(f'{origin}={value}')}: {error}"
        ] = key


def _alternatives(kind: Any) -> list[Any]:
    """The plain types and literal strings that a key may take."""
    if get_origin(kind) in (Union, UnionType):
        return [option for part in get_args(kind) for option in _alternatives(part)]
    return list(get_args(kind)) if get_origin(kind) is Literal else [kind]


def _converted(key: str, value: Any) -> Any:
    """The value as the key's type; ValueError says what the key takes."""
    options = _alternatives(TYPES[key])
    words = [option for option in options if isinstance(option, str)]
    if value in words and isinstance(value, str):
        return value
    if str in options:
        if not isinstance(value, str):
            raise ValueError(f"takes a text, not {_briefly(repr(value))}")
        if not value and KEYS[key].default:
            raise ValueError("must not be empty")
        if UNWRITABLE.search(value):
            raise ValueError("the text has line breaks, control characters or broken characters")
        return value
    text = str(value).strip()
    if bool in options and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if not isinstance(value, bool):
        for kind in (int, float):
            if kind in options:
                try:
                    return _whole(text) if kind is int else _finite(float(text))
                except (ValueError, OverflowError):
                    pass
    names = {bool: "True or False", int: "a whole number", float: "a number"}
    wanted = [names[option] for option in options if option in names] + words
    close = difflib.get_close_matches(text, words, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise ValueError(f"takes {' or '.join(wanted) if len(wanted) < 3 else ', '.join(wanted)}{hint}")


def _whole(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = int(float(text))  # 5e3 and 2000.0 are whole numbers too
        if number != float(text):
            raise
    if abs(number) > LARGEST_INTEGER:
        raise ValueError(text)
    return number


def _finite(number: float) -> float:
    if number != number or number in (float("inf"), float("-inf")):
        raise ValueError(number)
    return number


def did_you_mean(word: str, options: Iterable[str], prefix: str = "") -> str:
    """'; did you mean X?' if there is a likely X, else nothing."""
    close = difflib.get_close_matches(word, list(options), n=1, cutoff=0.6)
    return f"; did you mean {prefix}{close[0]}?" if close else ""


# --- writing -----------------------------------------------------------------------------------------------------


def to_toml(config: TrainConfig, notes: dict[str, dict[str, Any]]) -> str:
    """The resolved configuration as a TOML file that `nanoscope train` reads back; notes become tables."""
    lines = [
        "# Every setting of this run, as it was resolved. `nanoscope train THIS_FOLDER --init_from=resume` goes on."
    ]
    lines += [
        f"{key} = {_toml_value(value)}" for key, value in dataclasses.asdict(config).items() if key != "overwrite"
    ]
    for table, values in notes.items():
        lines += ["", f"[{table}]", *(f"{key} = {_toml_value(value)}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def _toml_value(value: Any) -> str:
    # A JSON string, number or boolean is a TOML one, but for DEL, which TOML wants escaped.
    return json.dumps(str(value) if value is None else value, ensure_ascii=False).replace("\x7f", "\\u007f")
