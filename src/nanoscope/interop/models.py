"""Opening a model, whoever trained it: a run of nanoscope, nanoGPT's ckpt.pt, or GPT-2's weights."""

import os
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nanoscope.checkpoint_files import BEST, NANOGPT, STATE, WEIGHTS, checkpoint_folders
from nanoscope.config_sources import is_run, resolve
from nanoscope.data.dataset import is_dataset, open_dataset, read_meta_pickle
from nanoscope.data.prepare import default_folder
from nanoscope.data.tokenizer import Gpt2Tokenizer, Tokenizer, tokenizer_from_json
from nanoscope.errors import JobError, UsageError
from nanoscope.files import DATA, RUNS
from nanoscope.interop import huggingface
from nanoscope.interop.nanogpt import read_nanogpt
from nanoscope.messages import Message, Shown, joined
from nanoscope.model import LanguageModel, ModelConfig, build_model
from nanoscope.model.checkpoint import LoadedCheckpoint, find_checkpoint
from nanoscope.model.weights import load_model_weights
from nanoscope.suggest import did_you_mean, did_you_mean_run

GPT2_SIZES = (50257, 50304)  # GPT-2's vocabulary, as it is and padded


@dataclass(frozen=True)
class OpenedModel:
    """A model with what is known about it. `build` makes it ready to use."""

    name: str
    folder: Path
    """Where its weights are."""
    config: ModelConfig
    weights: dict[str, Tensor] = field(repr=False)
    tokenizer: Tokenizer | None = None
    tokenizer_problem: Shown = ""
    """Why the tokenizer is None, if it is."""
    step: int | None = None
    val_loss: float | None = None
    run: Path | None = None
    """The folder of the run of nanoscope that it belongs to."""
    dataset: str = ""
    """The setting `dataset` of its training, if known."""
    problems: list[Message] = field(default_factory=list)
    """Damage met on the way: what was used instead."""

    def build(self, device: str | torch.device = "cpu") -> LanguageModel:
        model = build_model(self.config)
        load_model_weights(model, self.weights)
        return model.to(device)

    def describe(self) -> Shown:
        """Where it is, and how far it was trained."""
        facts = [] if self.step is None else [Message("{step:d} iterations", step=self.step)]
        facts += [] if self.val_loss is None else [Message("val loss {loss:.4f}", loss=self.val_loss)]
        return (
            Message("{folder} ({facts})", folder=self.folder, facts=joined(", ", facts)) if facts else str(self.folder)
        )

    def known_tokenizer(self) -> Tokenizer:
        """The tokenizer; JobError if there is none."""
        if self.tokenizer is None:
            raise JobError(
                "the tokenizer of {folder} is unknown: {reason}",
                folder=self.folder,
                reason=self.tokenizer_problem,
            )
        return self.tokenizer


def open_model(source: str | Path, checkpoint: str = BEST) -> OpenedModel:
    """Open a model. `checkpoint` (best, last or a name such as step-000500) selects one of a run's checkpoints."""
    text, path = os.fspath(source), Path(source)
    if not os.path.exists(text):  # noqa: PTH110  Path raises for an impossible name
        if text in huggingface.NAMES:
            return _open_gpt2(text)
        raise _not_a_model(text)
    if path.name == WEIGHTS:
        path = path.parent
    if path.is_file():
        return _open_nanogpt(path)
    if (path / WEIGHTS).is_file() and (path / huggingface.CONFIG).is_file():
        return _open_gpt2(str(path))
    if is_ours(path):
        return _open_ours(path, checkpoint)
    if (path / NANOGPT).is_file():
        return _open_nanogpt(path / NANOGPT)
    if (path / "checkpoints").is_dir() or (path / "config.toml").is_file():
        find_checkpoint(path, checkpoint)  # says that there is none
    raise _not_a_model(text)


def open_models(sources: Sequence[str], checkpoint: str = BEST) -> list[OpenedModel]:
    """Open several models, or all runs in a folder. Models of the same name are named by their paths."""
    paths: list[str] = []
    for source in sources:
        inside = [] if is_ours(Path(source)) else sorted(Path(source).glob("*/checkpoints"))
        paths += [str(folder.parent) for folder in inside if is_ours(folder)] or [source]
    models = [open_model(path, checkpoint) for path in paths]
    names = [model.name for model in models]
    return [
        model if names.count(model.name) == 1 else replace(model, name=path)
        for model, path in zip(models, paths, strict=True)
    ]


def is_ours(folder: Path) -> bool:
    """Whether a folder holds a run of nanoscope with checkpoints, a checkpoint, or just its weights."""
    files = any((folder / name).is_file() for name in (STATE, WEIGHTS))
    return files or bool(checkpoint_folders(folder / "checkpoints") or checkpoint_folders(folder))


def _not_a_model(text: str) -> UsageError:
    runs = [folder.parent.as_posix() for folder in RUNS.glob("*/checkpoints")]
    return UsageError(
        "{path} is not a model.{hint}\nExpected a run, one of its checkpoints, nanoGPT's ckpt.pt, a folder with "
        "GPT-2's model.safetensors and config.json, or {names}.",
        path=text,
        hint=did_you_mean_run(text) or did_you_mean(text, [*huggingface.NAMES, *runs], shlex.quote),
        names=", ".join(huggingface.NAMES),
    )


def _open_ours(path: Path, checkpoint: str) -> OpenedModel:
    found, problems = find_checkpoint(path, checkpoint, optimizer=False)
    vocab_size = found.model_config.vocab_size
    run, settings = _run_of(found.folder)
    tokenizer = None if found.tokenizer is None else tokenizer_from_json(found.tokenizer)
    if tokenizer is not None and tokenizer.vocab_size > vocab_size:
        raise JobError(
            "{folder} is damaged: its tokenizer has {tokens} tokens, its model {vocab_size}",
            folder=found.folder,
            tokens=tokenizer.vocab_size,
            vocab_size=vocab_size,
        )
    whole = path.absolute()
    name = f"{whole.parents[1].name}/{whole.name}" if whole.parent.name == "checkpoints" else whole.name
    return replace(
        _opened(name, found),
        tokenizer=tokenizer,
        tokenizer_problem=Message("its training data had none"),
        run=run,
        dataset=str(settings.get("dataset", "")),
        problems=problems,
    )


def _opened(name: str, found: LoadedCheckpoint) -> OpenedModel:
    progress = found.progress
    val_loss = progress.best_val_loss if progress.best_step == progress.step else None
    return OpenedModel(name, found.folder, found.model_config, found.model, step=progress.step, val_loss=val_loss)


def _run_of(folder: Path) -> tuple[Path | None, dict[str, Any]]:
    """The run that a checkpoint belongs to, and its settings, as far as they are known."""
    for place in (folder, folder.parent, folder.parent.parent):
        if is_run(place):
            with suppress(UsageError, JobError):
                return place, resolve([str(place)]).given
            return place, {}
    return None, {}


def _open_nanogpt(file: Path) -> OpenedModel:
    found, settings = read_nanogpt(file)
    dataset = nanogpt_dataset(file, settings)
    tokenizer, problem = nanogpt_tokenizer(file, dataset, found.model_config.vocab_size)
    name = file.absolute().parent.name if file.name == NANOGPT else file.name
    return replace(_opened(name, found), tokenizer=tokenizer, tokenizer_problem=problem, dataset=dataset)


def nanogpt_dataset(file: Path, settings: dict[str, Any]) -> str:
    """The dataset that a ckpt.pt was trained on: its folder if it is there, else its name, "" if unknown."""
    name = settings.get("dataset")
    if not isinstance(name, str) or not re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)*", name):
        return ""
    beside = _data_beside(file) / name
    return str(beside) if is_dataset(beside) and not is_dataset(DATA / name) else name


def _data_beside(file: Path) -> Path:
    """The folder data/ of the project that has out-NAME/ckpt.pt."""
    return file.absolute().parents[1] / DATA


def nanogpt_tokenizer(file: Path, dataset: str, size: int) -> tuple[Tokenizer | None, str]:
    """The tokenizer of a ckpt.pt, which does not hold it: of the dataset it was trained on, else GPT-2's.

    Returns it with "", or None with the reason.
    """
    places = [file.parent]
    if dataset:
        places += [Path(dataset), DATA / dataset, _data_beside(file) / dataset, default_folder(dataset, "char")]
    for folder in places:
        meta, tokenizer = folder / "meta.pkl", None
        if meta.is_file():
            tokenizer, _ = read_meta_pickle(meta)
        elif is_dataset(folder):
            tokenizer = open_dataset(folder).tokenizer
        if tokenizer is not None and tokenizer.vocab_size == size:
            return tokenizer, ""
    if size in GPT2_SIZES:
        return Gpt2Tokenizer(), ""
    wanted = DATA / (dataset or "NAME") / "meta.pkl"
    return None, f"the meta.pkl of its {size} tokens is neither in {wanted} nor beside {file}"


def _open_gpt2(source: str) -> OpenedModel:
    config, weights = huggingface.load_gpt2(source)
    tokenizer = Gpt2Tokenizer() if config.vocab_size in GPT2_SIZES else None
    return OpenedModel(
        name=Path(source).name,
        folder=Path(source),
        config=config,
        weights=weights,
        tokenizer=tokenizer,
        tokenizer_problem=Message("its {n} tokens are not GPT-2's", n=config.vocab_size),
    )
