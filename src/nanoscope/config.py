"""The settings of a training run: one flat TrainConfig with nanoGPT's names, and the checks on it.

Each setting is declared once, with its group, default, help, range, and how long it holds if it is typed on a resume.
config_sources.py reads settings from presets, files and flags.
"""

import json
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, Literal, NamedTuple, get_args, get_type_hints

from nanoscope.errors import UsageError
from nanoscope.messages import Message, Shown, joined
from nanoscope.suggest import did_you_mean

Auto = Literal["auto"]


class Range(NamedTuple):
    """The numbers that a setting accepts."""

    description: Message
    contains: Callable[[float], bool]

    def refusal(self, key: str, value: object, words: Iterable[str] = ()) -> Message:
        """The mistake of a value that is not such a number; `words` are accepted too."""
        wanted = _either([self.description, *words])
        return Message("{key} must be {range}, got {value}", key=key, range=wanted, value=value)


POSITIVE = Range(Message("positive"), lambda number: number > 0)
NOT_NEGATIVE = Range(Message("0 or greater"), lambda number: number >= 0)
FRACTION = Range(Message("at least 0 and less than 1"), lambda number: 0 <= number < 1)


def _setting(
    group: str,
    default: Any,
    help: str,
    accepts: Range | None = None,
    recipe: str = "",
    holds: Literal["run", "invocation"] = "run",
) -> Any:
    """One setting. `recipe` names the only recipe that uses it, `holds` how long a value counts, typed on a resume.

    run: for good. It says what the run computes, measures or keeps, and config.toml records it.
    invocation: for this invocation only. It says how the run is carried out: where, and how often it reports.
    """
    help += f" (only for recipe={recipe})" if recipe else ""
    metadata = {"group": group, "help": help, "accepts": accepts, "recipe": recipe, "holds": holds}
    return field(default=default, metadata=metadata)


_run, _evaluation, _data, _model, _optimizer = (
    partial(_setting, group) for group in ("run", "evaluation", "data", "model", "optimizer")
)
_machine = partial(_setting, "machine", holds="invocation")
_command = partial(_setting, "command", holds="invocation")  # options of the command: config.toml never has them


@dataclass(kw_only=True)
class TrainConfig:
    """Every setting of a training run. The defaults are nanoGPT's, for GPT-2 124M; a preset replaces many of them."""

    # fmt: off
    out_dir: str = _run("", "run folder; default: runs/NAME, where NAME is the preset, config file or dataset")
    init_from: str = _run("scratch", "scratch; resume (continue a run); auto (resume if there is a checkpoint, else begin); or weights to begin a new run with: a run, one of its checkpoints, nanoGPT's ckpt.pt, gpt2, gpt2-medium, gpt2-large, gpt2-xl, or a folder with GPT-2 weights (model.safetensors, config.json)")
    recipe: Literal["modern", "classic"] = _run("modern", "modern learns several times faster; classic is GPT-2 as nanoGPT trains it")
    seed: int = _run(1337, "random seed of the initial weights, the batches and dropout", NOT_NEGATIVE)
    on_nan: Literal["stop", "rollback"] = _run("stop", "if the loss is not finite: stop, or rollback to the last checkpoint, skip the batch and halve the learning rates, at most 3 times")
    log_interval: int = _run(1, "print every N iterations", POSITIVE, holds="invocation")
    wandb_log: bool = _run(False, "also log to Weights & Biases (requires: pip install wandb)")
    wandb_project: str = _run("", "Weights & Biases project; default: nanoscope")
    wandb_run_name: str = _run("", "Weights & Biases run name; default: the name of the run folder")
    tensorboard: bool = _run(False, "also log to the folder tensorboard in the run folder (requires: pip install tensorboardX)")

    overwrite: bool = _command(False, "delete the run in out_dir and start a new one")
    max_minutes: float = _command(0.0, "save and stop after N minutes of wall time; 0: no limit", NOT_NEGATIVE)
    eval_only: bool = _command(False, "evaluate once and exit; changes nothing in a run")

    eval_interval: int = _evaluation(2000, "evaluate every N iterations", POSITIVE, holds="invocation")
    eval_iters: int | Literal["full"] = _evaluation(200, "batches per split in an evaluation, always the same ones; full: the whole split", POSITIVE)
    eval_batch_size: int | Auto = _evaluation("auto", "sequences at once in an evaluation; changes its speed, not its result", POSITIVE, holds="invocation")
    patience: int = _evaluation(0, "stop after N evaluations without a lower validation loss; 0: never", NOT_NEGATIVE, holds="invocation")
    always_save_checkpoint: bool = _evaluation(True, "save at every evaluation; False: only when the validation loss improves")
    keep_checkpoints: int = _evaluation(2, "number of latest checkpoints to keep in addition to the best; 0: all", NOT_NEGATIVE)
    sample_interval: int = _evaluation(0, "write a sample every N iterations; 0: never", NOT_NEGATIVE, holds="invocation")

    dataset: str = _data("openwebtext", "folder of a prepared dataset, its name under data/, or a known corpus (shakespeare, python)")
    tokenizer: Literal["auto", "char", "byte", "gpt2", "bpe"] = _data("auto", "char, byte, gpt2 or bpe, for a corpus that is prepared on first use; auto: the dataset's own")
    order: Literal["random", "epochs"] = _data("random", "random: windows at random positions, as in nanoGPT; epochs: every window once per epoch, shuffled")
    batch_size: int = _data(12, "sequences per micro-batch", POSITIVE)
    gradient_accumulation_steps: int = _data(5 * 8, "micro-batches per iteration, over all processes", POSITIVE)
    block_size: int = _data(1024, "context length in tokens", POSITIVE)

    n_layer: int = _model(12, "number of transformer blocks", POSITIVE)
    n_head: int = _model(12, "number of attention heads", POSITIVE)
    n_embd: int = _model(768, "embedding width, a multiple of n_head", POSITIVE)
    dropout: float = _model(0.0, "dropout probability; 0 for pre-training, 0.1 or more for small data or fine-tuning", FRACTION)
    bias: bool = _model(False, "biases in LayerNorm and Linear layers, as in GPT-2", recipe="classic")
    token_shift: int = _model(0, "mix a learned share of the previous N tokens into the input of each layer; 0: none", Range(Message("between 0 and 8"), lambda number: 0 <= number <= 8), "modern")
    ngrams: int = _model(4, "length of the longest n-gram that has its own embedding; 1: none", Range(Message("positive and at most 8"), lambda number: 0 < number <= 8), "modern")
    ngram_dropout: float = _model(0.0, "dropout probability of the n-gram embeddings; 0.5 if the data is read several times", FRACTION, "modern")

    learning_rate: float | Auto = _optimizer("auto", "peak learning rate of AdamW; auto: 6e-4 for classic, 1e-2 for modern", POSITIVE)
    lr_scale: float = _optimizer(1.0, "multiplies every learning rate, for example to resume with lower ones", POSITIVE)
    matrix_lr: float = _optimizer(0.02, "peak learning rate of Muon, which trains the matrices of the blocks", POSITIVE, "modern")
    table_lr: float = _optimizer(0.3, "peak learning rate of Adagrad, which trains the n-gram embeddings", POSITIVE, "modern")
    output_lr: float = _optimizer(0.0, "peak learning rate of the output layer with Adagrad, which then also trains the token embeddings; 0: AdamW trains both, 0.1 suits BPE", NOT_NEGATIVE, "modern")
    muon_momentum: float = _optimizer(0.95, "momentum of Muon", FRACTION, "modern")
    max_iters: int = _optimizer(600_000, "total number of iterations", POSITIVE)
    weight_decay: float = _optimizer(0.1, "weight decay of matrices; biases, norms and modern's tables do not decay", NOT_NEGATIVE)
    beta1: float = _optimizer(0.9, "AdamW's beta1", FRACTION)
    beta2: float = _optimizer(0.95, "AdamW's beta2", FRACTION)
    grad_clip: float = _optimizer(1.0, "maximum gradient norm; 0: no clipping", NOT_NEGATIVE)
    decay_lr: bool = _optimizer(True, "warm up and decay the learning rate (classic: cosine, modern: linear); False: constant")
    warmup_iters: int | Auto = _optimizer("auto", "iterations of linear warm-up; auto: 2000 for classic, 0 for modern", NOT_NEGATIVE)
    cooldown: float = _optimizer(0.6, "the learning rate decays over this last share of the iterations", Range(Message("positive and at most 1"), lambda number: 0 < number <= 1), "modern")
    lr_decay_iters: int | Auto = _optimizer("auto", "iteration at which the learning rate reaches min_lr; auto: max_iters", POSITIVE)
    min_lr: float | Auto = _optimizer("auto", "final learning rate; auto: a tenth of learning_rate for classic, 0 for modern")

    device: str = _machine("auto", "auto, cpu, cuda, cuda:N or mps")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = _machine("auto", "data type of matrix multiplications: auto, float32, bfloat16 or float16")
    compile: bool | Auto = _machine("auto", "use torch.compile; falls back to eager mode if it fails")
    threads: int | Auto = _machine("auto", "CPU threads; auto: one for each core that may be used, or what OMP_NUM_THREADS says", Range(Message("positive and at most 1024"), lambda number: 0 < number <= 1024))
    backend: Literal["auto", "gloo", "nccl"] = _machine("auto", "communication between the processes of torchrun: gloo or nccl; auto: nccl on CUDA, else gloo")
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
    def eval_windows(self) -> int | None:
        """Of each split, in an evaluation; None: all."""
        return None if self.eval_iters == "full" else self.eval_iters * self.batch_size

    @property
    def sequences_per_step(self) -> int:
        return self.batch_size * self.gradient_accumulation_steps

    @property
    def tokens_per_step(self) -> int:
        return self.sequences_per_step * self.block_size


# Fixed by a checkpoint: a resumed run keeps these, whatever the preset or file says.
SHAPE_KEYS = ("recipe", "block_size", "n_layer", "n_head", "n_embd", "bias", "ngrams", "token_shift")
KEYS = {item.name: item for item in fields(TrainConfig)}
TYPES = get_type_hints(TrainConfig)
OPTIONS = tuple(name for name, item in KEYS.items() if item.metadata["group"] == "command")
REMOVED: tuple[str, ...] = ("waiting",)  # settings of earlier versions: config.toml may have them, and they are ignored
RUN_NOTES = "environment"  # the table that a run adds to its config.toml; it holds no settings
LAST_NOTE = "data_folder"  # the last line of that table: where it is missing, the end of the file is

LARGEST_INTEGER = 2**63 - 1  # of torch
UNWRITABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # in folder names and in config.toml


def without_options(values: dict[str, Any]) -> dict[str, Any]:
    """The settings of a run, without the options of the command that trained it."""
    return {key: value for key, value in values.items() if key not in OPTIONS}


def alternatives(kind: Any) -> list[Any]:
    """Return the plain types and literal strings that a key accepts."""
    return [option for part in get_args(kind) or [kind] for option in get_args(part) or [part]]


def convert(key: str, value: Any) -> Any:
    """A value from a flag or file as the type of its setting. ValueError says what the setting accepts."""
    options, words = alternatives(TYPES[key]), _words(key)
    if str in options:
        if not isinstance(value, str):
            raise ValueError(Message("expected a text"))
        if not value and KEYS[key].default:
            raise ValueError(Message("must not be empty"))
        if UNWRITABLE.search(value):
            raise ValueError(Message("must not contain line breaks, control characters or broken characters"))
        return value
    text = str(value).strip()
    if isinstance(value, str) and text in words:
        return text
    if bool in options and text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        if kind in options:
            with suppress(ValueError, OverflowError):
                return _number(text, kind)
    names = {bool: Message("True or False"), int: Message("an integer"), float: Message("a number")}
    listed = _either([names.get(option, option) for option in options])
    raise ValueError(Message("expected {listed}.{hint}", listed=listed, hint=did_you_mean(text, words)))


def _number(text: str, kind: type[int | float]) -> int | float:
    """Integers may be written 5e3 and 2000.0, too."""
    try:
        number: int | float = int(text)
    except ValueError:
        number = float(text)
    if kind(number) != number or abs(number) > (LARGEST_INTEGER if kind is int else sys.float_info.max):
        raise ValueError(text)
    return kind(number)


def _words(key: str) -> list[str]:
    return [option for option in alternatives(TYPES[key]) if isinstance(option, str)]


def _either(options: list[Any]) -> Message:
    return Message("{one} or {other}", one=options[0], other=options[1]) if len(options) == 2 else joined(", ", options)


MOST_MISTAKES = 20  # with more, it is the wrong file


@dataclass
class Mistakes:
    """What is wrong with a configuration. All mistakes are collected, then reported in one message."""

    messages: list[Message] = field(default_factory=list)
    notes: list[Shown] = field(default_factory=list)
    """Warnings that stop nothing."""
    changes: list[Shown] = field(default_factory=list)
    """What a source changes besides its own settings."""

    def add(self, message: Message) -> None:
        if len(self.messages) == MOST_MISTAKES:
            message = Message("too many mistakes, the rest was not read")
        if message not in self.messages:
            self.messages.append(message)
        if len(self.messages) > MOST_MISTAKES:
            self.raise_them()

    def raise_them(self) -> None:
        """UsageError with all of them, if there are any."""
        if not self.messages:
            return
        first, *more = self.messages
        several = Message(
            "{n} mistake in the configuration:\n- {listed}",
            "{n} mistakes in the configuration:\n- {listed}",
            n=len(self.messages),
            listed=joined("\n- ", self.messages),
        )
        raise UsageError(several if more else first)


def build(values: dict[str, Any], mistakes: Mistakes | None = None) -> TrainConfig:
    """Build a valid TrainConfig, or raise one UsageError that lists every mistake, including earlier ones.

    Settings are compared with each other only when each of them could be read and is in its range.
    """
    mistakes = mistakes or Mistakes()
    config = TrainConfig(**values)
    for key, item in KEYS.items():
        accepts, value = item.metadata["accepts"], getattr(config, key)
        if accepts is not None and not isinstance(value, str) and not accepts.contains(value):
            mistakes.add(accepts.refusal(key, value, _words(key)))
    if not mistakes.messages:
        _check_together(config, mistakes)
    mistakes.raise_them()
    return config


def _check_together(config: TrainConfig, mistakes: Mistakes) -> None:
    """Refuse settings that contradict each other, or have no effect: those must not look as if they had one."""
    for key, item in KEYS.items():
        only_for = item.metadata["recipe"]
        if only_for not in ("", config.recipe) and getattr(config, key) != item.default:
            mistakes.add(
                Message(
                    "{key} has no effect with recipe={recipe}; it is only for recipe={only_for}",
                    key=key,
                    recipe=config.recipe,
                    only_for=only_for,
                )
            )
    if config.overwrite and config.init_from in ("resume", "auto"):
        mistakes.add(
            Message(
                "overwrite=True would delete the run that init_from={init_from} resumes: leave one out",
                init_from=config.init_from,
            )
        )
    if config.decay_lr and config.min_lr != "auto" and not 0 <= config.lowest_lr <= config.peak_lr:
        mistakes.add(
            Message(
                "min_lr must be between 0 and learning_rate={peak_lr:g}, got {lowest_lr:g}",
                peak_lr=config.peak_lr,
                lowest_lr=config.lowest_lr,
            )
        )
    channels, rest = divmod(config.n_embd, config.n_head)
    if rest:
        mistakes.add(
            Message(
                "n_embd={n_embd} is not divisible by n_head={n_head}; use n_embd={near}",
                n_embd=config.n_embd,
                n_head=config.n_head,
                near=max(round(config.n_embd / config.n_head), 1) * config.n_head,
            )
        )
    elif channels % 2 and config.recipe == "modern":
        mistakes.add(Message("n_embd / n_head must be even for recipe=modern, got {channels}", channels=channels))


def refuse_changes(typed: dict[str, Any], own: dict[str, Any], model: str) -> None:
    """Raise UsageError for typed settings that contradict what a trained model has."""
    refused = [key for key in SHAPE_KEYS if key in own and typed.get(key, own[key]) != own[key]]
    if "output_lr" in own and bool(typed.get("output_lr", own["output_lr"])) != bool(own["output_lr"]):
        refused.append("output_lr")  # decides which optimizer trains the vocabulary
    if refused:
        raise UsageError(
            "{typed} was typed, but {model} has {own}\n"
            "A model keeps its shape and its optimizers: leave that out, or train from scratch.",
            typed=", ".join(f"{key}={typed[key]}" for key in refused),
            model=model,
            own=", ".join(f"{key}={own[key]}" for key in refused),
        )


def to_toml(settings: dict[str, Any]) -> str:
    """Return the settings of a run as TOML that `nanoscope train` can read, with the table RUN_NOTES at the end."""
    lines = ["# The resolved settings of this run. Resume with: nanoscope train THIS_FOLDER --init_from=resume"]
    lines += [f"{key} = {toml_value(value)}" for key, value in settings.items() if key != RUN_NOTES]
    lines += ["", f"[{RUN_NOTES}]", *(f"{key} = {toml_value(value)}" for key, value in settings[RUN_NOTES].items())]
    return "\n".join(lines) + "\n"


def toml_value(value: Any) -> str:
    """A setting as TOML."""
    # JSON strings, numbers and booleans are valid TOML, except for DEL, which TOML wants escaped.
    return json.dumps(str(value) if value is None else value, ensure_ascii=False, default=str).replace(
        "\x7f", "\\u007f"
    )
