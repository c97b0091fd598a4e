"""What is to be planned: the configuration that the words of a command mean, the model, the data, and where it stands.

Nothing is downloaded, prepared or written.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nanoscope.config import TrainConfig, build
from nanoscope.config_sources import Resolved, resolve
from nanoscope.data.corpora import CORPORA
from nanoscope.data.dataset import open_dataset
from nanoscope.data.find import corpus_and_tokenizer, find_prepared, missing
from nanoscope.data.loader import check_length
from nanoscope.data.prepare import BPE_VOCAB_SIZE
from nanoscope.errors import UsageError
from nanoscope.model import ModelConfig
from nanoscope.training.initial_model import config_for_weights, new_shape
from nanoscope.training.resume import continue_run, open_weights, resolve_init_from
from nanoscope.training.run_folder import RunFolder

# Vocabulary, training and validation tokens of datasets that are not prepared yet.
KNOWN_SIZES = {
    ("shakespeare", "char"): (65, 1_003_854, 111_540),
    ("shakespeare", "byte"): (256, 1_003_854, 111_540),
    ("shakespeare", "gpt2"): (50257, 301_966, 36_059),
    ("openwebtext", "gpt2"): (50257, 9_035_582_198, 4_434_897),  # as nanoGPT's README counts them
}
VOCABULARIES = {"byte": 256, "gpt2": 50257, "bpe": BPE_VOCAB_SIZE}
GPT2_SHAPES = {
    "gpt2": (12, 12, 768),
    "gpt2-medium": (24, 16, 1024),
    "gpt2-large": (36, 20, 1280),
    "gpt2-xl": (48, 25, 1600),
}


@dataclass(frozen=True)
class Data:
    """The dataset: `folder` is None if it is not prepared here; its sizes are None where nothing is known of them."""

    name: str
    folder: Path | None
    vocab_size: int
    train_tokens: int | None
    val_tokens: int | None


@dataclass(frozen=True)
class Request:
    config: TrainConfig
    name: str
    shape: ModelConfig
    data: Data
    done: int = 0
    """Iterations that a run has done already."""

    @property
    def eval_windows(self) -> int:
        """Of one evaluation, both splits together."""
        most = self.config.eval_windows
        sizes = filter(None, (self.data.train_tokens, self.data.val_tokens))
        return sum(min(most or tokens, (tokens - 1) // self.config.block_size) for tokens in sizes) or 2 * (most or 0)


def understand(words: Sequence[str]) -> Request:
    """What the words mean: presets, config files and settings as for `train`. A run means what is left of it."""
    resolved = resolve(words)
    out_dir, typed = resolved.config.out_dir, resolved.typed
    if out_dir and not {"out_dir", "init_from"} & typed.keys() and RunFolder(Path(out_dir)).holds_run():
        resolved = replace(resolved, config=build({**resolved.given, "init_from": "resume"}))
    resolved = resolve_init_from(resolved)
    name, done, run = resolved.name, 0, None
    if resolved.config.init_from == "resume":
        resumed = continue_run(resolved)
        config, done, run = resumed.config, resumed.step, resumed.folder.path
        name = run.name
    else:
        config = with_shape_of_weights(resolved)
    if run and done >= config.max_iters:
        raise UsageError(
            "{run} has done its {n:,} iterations\nTo plan a longer run, use --max_iters={more}",
            run=run,
            n=done,
            more=2 * done,
        )
    data = _data(config, run)
    return Request(config, name, new_shape(config, data.vocab_size), data, done)


def with_shape_of_weights(resolved: Resolved) -> TrainConfig:
    """The configuration with the shape of the weights that the run begins with, if it begins with any."""
    config, init_from = resolved.config, resolved.config.init_from
    if init_from in GPT2_SHAPES:
        layers, heads, width = GPT2_SHAPES[init_from]
        return replace(config, recipe="classic", bias=True, n_layer=layers, n_head=heads, n_embd=width)
    return config if init_from == "scratch" else config_for_weights(resolved, open_weights(config))[0]


def _data(config: TrainConfig, run: Path | None) -> Data:
    folder = find_prepared(config.dataset, config.tokenizer, run=run)
    if folder is not None:
        dataset = open_dataset(folder)
        for name in ("train", "val"):
            check_length(dataset.splits[name], name, config.block_size)
        sizes = (len(dataset.splits["train"]), len(dataset.splits["val"]))
        return Data(str(folder), folder, dataset.vocab_size, *sizes)
    corpus, kind = corpus_and_tokenizer(config.dataset, config.tokenizer)
    if (corpus, kind) in KNOWN_SIZES:
        return Data(corpus, None, *KNOWN_SIZES[corpus, kind])
    if kind not in VOCABULARIES or (corpus not in CORPORA and config.tokenizer == "auto"):
        raise missing(config.dataset, config.tokenizer)
    return Data(corpus, None, VOCABULARIES[kind], None, None)
