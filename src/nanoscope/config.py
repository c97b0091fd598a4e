"""What a run is told: one flat, typed TrainConfig with nanoGPT's names, its checks, and how it is written down.

config_sources.py reads it from presets, files and flags.
"""

import dataclasses
import difflib
import json
import re
from dataclasses import dataclass, field, fields
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from nanoscope.errors import UsageError

Auto = Literal["auto"]


def _key(group: str, default: Any, help: str) -> Any:
    return field(default=default, metadata={"group": group, "help": help})


@dataclass(kw_only=True)
class TrainConfig:
    """Every setting of a training run. Defaults are GPT-2 124M's, as nanoGPT has them; a preset replaces many."""

    # fmt: off
    out_dir: str = _key("run", "", "folder of the run; default runs/NAME, NAME being the preset, config file or dataset")
    init_from: str = _key("run", "scratch", "scratch, resume, gpt2[-medium|-large|-xl], or a folder with GPT-2 weights (model.safetensors, config.json)")
    recipe: Literal["modern", "classic"] = _key("run", "modern", "modern: learns several times sooner; classic: GPT-2 as nanoGPT trains it")
    seed: int = _key("run", 1337, "seed of the initial weights, the batches and dropout")
    overwrite: bool = _key("run", False, "start anew in a folder that already holds a run, deleting that run")
    max_minutes: float = _key("run", 0.0, "stop after this many minutes of wall time, with everything saved; 0: no limit")
    on_nan: Literal["stop", "rollback"] = _key("run", "stop", "a loss that is not finite: stop; or rollback to the last checkpoint, leave that batch out, halve the rates, at most 3 times")
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
    bias: bool = _key("model", False, "classic: biases in LayerNorm and Linear layers, as GPT-2 has")
    token_shift: int = _key("model", 0, "modern: each block's input holds a learnt share of so many tokens before; 0: none")
    ngrams: int = _key("model", 4, "modern: the last 2, 3 … so many tokens together have embeddings of their own; 1: none")
    ngram_dropout: float = _key("model", 0.0, "modern: share of these embeddings left out in training; 0.5 where the data is read several times")

    learning_rate: float | Auto = _key("optimizer", "auto", "highest rate of AdamW; auto: 6e-4 for classic, 1e-2 for modern")
    matrix_lr: float = _key("optimizer", 0.02, "modern: highest rate of Muon, which trains the matrices of the blocks")
    table_lr: float = _key("optimizer", 0.3, "modern: highest rate of Adagrad, which trains the tables of the n-grams")
    muon_momentum: float = _key("optimizer", 0.95, "modern: how much of the past a step of Muon holds")
    max_iters: int = _key("optimizer", 600_000, "iterations in all")
    weight_decay: float = _key("optimizer", 0.1, "on matrices, not on vectors or tables")
    beta1: float = _key("optimizer", 0.9, "AdamW")
    beta2: float = _key("optimizer", 0.95, "AdamW")
    grad_clip: float = _key("optimizer", 1.0, "highest gradient norm; 0: no clipping")
    decay_lr: bool = _key("optimizer", True, "warm up, then decay (classic: cosine, modern: linear); False: constant")
    warmup_iters: int | Auto = _key("optimizer", "auto", "iterations of linear warm-up; auto: 2000 for classic, none for modern")
    cooldown: float = _key("optimizer", 0.6, "modern: the last share of the iterations, in which the rates go down")
    lr_decay_iters: int | Auto = _key("optimizer", "auto", "iteration at which min_lr is reached; auto: max_iters")
    min_lr: float | Auto = _key("optimizer", "auto", "lowest learning rate; auto: a tenth of learning_rate, for modern 0")

    device: str = _key("machine", "auto", "auto, cpu, cuda, cuda:1, mps")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = _key("machine", "auto", "number format of the matmuls")
    compile: bool | Auto = _key("machine", "auto", "torch.compile; falls back to eager where it does not work")
    backend: Literal["auto", "gloo", "nccl"] = _key("machine", "auto", "between processes under torchrun; auto: nccl on CUDA, else gloo")
    # fmt: on

    @property
    def decay_iters(self) -> int:
        return self.max_iters if self.lr_decay_iters == "auto" else self.lr_decay_iters

    @property
    def peak_lr(self) -> float:
        if self.learning_rate == "auto":
            return 1e-2 if self.recipe == "modern" else 6e-4
        return self.learning_rate

    @property
    def lowest_lr(self) -> float:
        if self.min_lr == "auto":
            return 0.0 if self.recipe == "modern" else self.peak_lr / 10
        return self.min_lr

    @property
    def warmup(self) -> int:
        if self.warmup_iters == "auto":
            return 0 if self.recipe == "modern" else 2000
        return self.warmup_iters

    @property
    def sequences_per_step(self) -> int:
        return self.batch_size * self.gradient_accumulation_steps

    @property
    def tokens_per_step(self) -> int:
        return self.sequences_per_step * self.block_size


# What a checkpoint fixes: on resume these come from the run, whatever the preset or file says.
SHAPE_KEYS = ("recipe", "block_size", "n_layer", "n_head", "n_embd", "bias", "ngrams", "token_shift")
MODERN_KEYS = ("ngrams", "ngram_dropout", "token_shift", "matrix_lr", "table_lr", "muon_momentum", "cooldown")
KEYS = {item.name: item for item in fields(TrainConfig)}
TYPES = get_type_hints(TrainConfig)

POSITIVE = ("log_interval", "eval_interval", "batch_size", "gradient_accumulation_steps", "block_size", "n_layer", "n_head", "n_embd", "max_iters", "matrix_lr", "table_lr", "ngrams", "cooldown")  # fmt: skip
NOT_NEGATIVE = ("seed", "max_minutes", "patience", "keep_checkpoints", "sample_interval", "token_shift", "weight_decay", "grad_clip")  # fmt: skip


Mistakes = dict[str, str]
"""What is wrong, in words → the key that could not be read because of it: '' for none."""
EVERY_KEY = "*"
RUN_NOTES = "environment"


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
    found += [f"{key} must be at least 0 and below 1, it is {getattr(config, key)}" for key in ("dropout", "ngram_dropout", "beta1", "beta2", "muon_momentum") if not 0 <= getattr(config, key) < 1]  # fmt: skip
    if config.eval_iters != "full" and config.eval_iters <= 0:
        found.append(f"eval_iters must be positive, or 'full', it is {config.eval_iters}")
    if config.lr_decay_iters != "auto" and config.lr_decay_iters <= 0:
        found.append(f"lr_decay_iters must be positive, or 'auto', it is {config.lr_decay_iters}")
    if config.learning_rate != "auto" and config.learning_rate <= 0:
        found.append(f"learning_rate must be positive, or 'auto', it is {config.learning_rate}")
    if config.warmup_iters != "auto" and config.warmup_iters < 0:
        found.append(f"warmup_iters must not be negative, it is {config.warmup_iters}")
    rates_known = not unread & {EVERY_KEY, "min_lr", "learning_rate", "decay_lr"}
    if rates_known and config.decay_lr and config.min_lr != "auto" and not 0 <= config.min_lr <= config.peak_lr:
        found.append(f"min_lr must lie between 0 and learning_rate={config.peak_lr:g}, it is {config.min_lr:g}")
    if EVERY_KEY not in unread:
        found += _wrong_for_recipe(config, unread)
    return found


def _wrong_for_recipe(config: TrainConfig, unread: set[str]) -> list[str]:
    """Settings that the recipe has no use for are refused: what does nothing must not look as if it did something."""
    if config.recipe == "classic":
        changed = [key for key in MODERN_KEYS if getattr(config, key) != KEYS[key].default and key not in unread]
        return [f"{key} is for recipe=modern; this run is classic" for key in changed]
    found = []
    if config.bias:
        found.append("bias=True is for recipe=classic; modern has no biases")
    if config.init_from not in ("scratch", "resume"):
        found.append(f"init_from={config.init_from} needs --recipe=classic: these are weights of GPT-2")
    if not unread & {"n_embd", "n_head"} and config.n_head > 0 and config.n_embd // config.n_head % 2:
        found.append(f"n_embd / n_head must be even for recipe=modern, it is {config.n_embd // config.n_head}")
    if config.cooldown > 1:
        found.append(f"cooldown is a share of the iterations, at most 1, it is {config.cooldown}")
    found += [f"{key} must be at most 8, it is {getattr(config, key)}" for key in ("ngrams", "token_shift") if getattr(config, key) > 8]  # fmt: skip
    return found


LONGEST_TEXT = 4096
LARGEST_INTEGER = 2**63 - 1  # what torch takes
UNWRITABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # in no folder's name and in no file of ours

# --- values ------------------------------------------------------------------------------------------------------


def briefly(text: str) -> str:
    """One short line: what is wrong in a file must not flood the message about it."""
    line = text.splitlines()[0] if text else ""
    return line if len(line) <= 100 else line[:97] + "..."


def put(values: dict[str, Any], key: str, value: Any, origin: str, mistakes: Mistakes) -> None:
    try:
        if key == "overwrite" and not origin.startswith("--"):
            raise ValueError("overwrite deletes a run: it is taken from the command line only")
        values[key] = _converted(key, value)
    except ValueError as error:
        mistakes[
            f"{origin}: {error}" if not origin.startswith("--") else f"{briefly(f'{origin}={value}')}: {error}"
        ] = key


def alternatives(kind: Any) -> list[Any]:
    """The plain types and literal strings that a key may take."""
    if get_origin(kind) in (Union, UnionType):
        return [option for part in get_args(kind) for option in alternatives(part)]
    return list(get_args(kind)) if get_origin(kind) is Literal else [kind]


def _converted(key: str, value: Any) -> Any:
    """The value as the key's type; ValueError says what the key takes."""
    options = alternatives(TYPES[key])
    words = [option for option in options if isinstance(option, str)]
    if value in words and isinstance(value, str):
        return value
    if str in options:
        if not isinstance(value, str):
            raise ValueError(f"takes a text, not {briefly(repr(value))}")
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
