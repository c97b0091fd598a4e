"""Everything a run needs, put together from its configuration: this is all that start-up does."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from nanoscope.config import TrainConfig
from nanoscope.config_sources import Resolved
from nanoscope.data.corpora import cache_folder
from nanoscope.data.dataset import Dataset, find_dataset, open_dataset
from nanoscope.data.loader import BatchLoader, check_length
from nanoscope.errors import JobError, UsageError
from nanoscope.hardware import device as hardware
from nanoscope.hardware.memory import NO_ROOM_FOR_ONE, check_fits, is_out_of_memory
from nanoscope.hardware.probe import without_what_fails
from nanoscope.interop.huggingface import check_source, load_gpt2
from nanoscope.model import LanguageModel, ModelConfig, Modern, build_model
from nanoscope.model.flops import flops_per_token
from nanoscope.optim.groups import build_optimizer
from nanoscope.training.checkpoint import CheckpointWriter, Progress
from nanoscope.training.distributed import Processes
from nanoscope.training.evaluate import Evaluator
from nanoscope.training.introduction import introduce
from nanoscope.training.logbook import Logbook, check_wandb
from nanoscope.training.pace import Pace
from nanoscope.training.phases import PhaseClock
from nanoscope.training.restore import Checkpoint, find_checkpoint, load_model_weights, load_optimizer
from nanoscope.training.run_folder import Changes, RunFolder, new_run, old_run, resumed_config
from nanoscope.views.progress import StageDisplay, TrainingView

IDS_CHECKED_AT_START = 2**25  # a moment's work; what lies beyond is checked as it is read


@dataclass
class Session:
    """One run at work. `model` is what steps are made with (compiled, distributed); `plain_model` holds the weights."""

    config: TrainConfig
    folder: RunFolder
    processes: Processes
    choice: hardware.Choice
    dataset: Dataset
    plain_model: LanguageModel
    model: nn.Module
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    loader: BatchLoader
    evaluator: Evaluator
    checkpoints: CheckpointWriter
    logbook: Logbook | None
    """None in all processes but the first."""
    clock: PhaseClock
    pace: Pace
    progress: Progress
    flops_per_token: int
    peak_flops: float | None
    saved_at: int | None = None
    parameters: list[nn.Parameter] = field(default_factory=list)
    environment: dict[str, Any] = field(default_factory=dict)

    @property
    def device(self) -> torch.device:
        return torch.device(self.choice.device)

    @property
    def micro_batch(self) -> int:
        """Sequences that go through the model at once."""
        return micro_batch(self.config, self.progress)

    def autocast(self) -> AbstractContextManager[object]:
        return autocast(self.choice)

    def say(self, text: str) -> None:
        if self.logbook is not None:
            self.logbook.line(text)

    def record(self, event: str, **values: Any) -> None:
        if self.logbook is not None:
            self.logbook.events.write(event, **values)


def autocast(choice: hardware.Choice) -> AbstractContextManager[object]:
    """16-bit matmuls where the run wants them; float32 needs nothing."""
    if choice.dtype == "float32":
        return nullcontext()
    return torch.autocast(choice.type, dtype=hardware.DTYPES[choice.dtype])


def start_session(resolved: Resolved, view: Callable[[int, bool], TrainingView], clock: PhaseClock) -> Session:
    """Build the run; every mistake that can be found before the first step is found here."""
    with ExitStack() as on_failure:
        session = _started(resolved, view, clock, on_failure)
        on_failure.pop_all()
        return session


def _started(
    resolved: Resolved, view: Callable[[int, bool], TrainingView], clock: PhaseClock, on_failure: ExitStack
) -> Session:
    check_wandb(resolved.config)
    processes = Processes.from_environment()
    folder, checkpoint, config, changes, notes = _where(resolved, processes, on_failure)
    if checkpoint is None and config.init_from != "scratch":
        check_source(config.init_from)
    local_rank = processes.local_rank if processes.world > 1 else None
    choice = hardware.decide(
        config.device, config.dtype, config.compile, hardware.look(), local_rank,
        planned_steps=config.max_iters,  # not those left: a resumed run does as it did
    )  # fmt: skip
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache_folder() / "inductor"))  # compiled once, not every time
    choice, problems = without_what_fails(choice)
    notes += problems
    if choice.type == "cuda":
        torch.cuda.set_device(choice.device)
        torch.set_float32_matmul_precision("high")  # TF32, as nanoGPT
    if choice.type == "cpu":
        hardware.keep_freed_memory()
    processes.connect(config.backend, choice.type)
    if config.sequences_per_step < processes.world:
        raise UsageError(f"{processes.world} processes cannot share {config.sequences_per_step} sequences an iteration")

    dataset = _dataset(config, processes)
    torch.manual_seed(config.seed)
    if checkpoint is not None:
        notes += _check_data(dataset, checkpoint)
    plain_model, config = _model(config, dataset, checkpoint, torch.device(choice.device))
    if isinstance(plain_model, Modern) and plain_model.ngrams is not None:
        # Processes add up dense gradients only, and a compiled graph has no sparse ones.
        plain_model.ngrams.sparse = choice.type == "cpu" and processes.world == 1 and not choice.compile
    optimizer = build_optimizer(plain_model, config, choice.type)
    scaler = torch.amp.GradScaler(choice.type, enabled=choice.dtype == "float16")
    progress = Progress()
    if checkpoint is not None:
        load_optimizer(optimizer, plain_model, checkpoint.optimizer)
        scaler.load_state_dict(checkpoint.scaler)
        progress = checkpoint.progress

    for name in ("train", "val"):
        check_length(dataset.split(name), name, config.block_size)
        dataset.split(name).read(0, min(len(dataset.split(name)), IDS_CHECKED_AT_START))
    if folder is None:  # only now: a configuration that cannot be trained leaves no folder behind
        folder = new_run(resolved) if processes.first else RunFolder(Path(config.out_dir))
        on_failure.callback(folder.release)
    config = replace(config, out_dir=str(folder.path))
    peak, peak_source = hardware.peak_flops(choice)
    logbook = Logbook(folder, config, view(config.max_iters, True), clock.wall_seconds) if processes.first else None
    parameters = plain_model.parameter_count()
    session = Session(
        config=config,
        folder=folder,
        processes=processes,
        choice=choice,
        dataset=dataset,
        plain_model=plain_model,
        model=plain_model,
        optimizer=optimizer,
        scaler=scaler,
        loader=_loader(config, dataset, progress, processes, choice),
        evaluator=_evaluator(config, dataset, plain_model, processes, choice),
        checkpoints=CheckpointWriter(folder.checkpoints, config.keep_checkpoints),
        logbook=logbook,
        clock=clock,
        pace=Pace(config),
        progress=progress,
        flops_per_token=flops_per_token(plain_model.config, plain_model.multiplied_parameters()),
        peak_flops=peak * processes.world if peak else None,
        saved_at=progress.step if checkpoint is not None else None,
        parameters=list(plain_model.parameters()),
    )
    introduce(session, parameters, peak_source, changes, notes)
    session.model = _distributed(_warmed_up(session), processes, choice)
    return session


def _where(
    resolved: Resolved, processes: Processes, on_failure: ExitStack
) -> tuple[RunFolder | None, Checkpoint | None, TrainConfig, Changes, list[str]]:
    """The run to go on with and its checkpoint, or nothing yet for a new one; the settings, and notes on them."""
    if resolved.config.init_from != "resume":
        return None, None, resolved.config, {}, []
    folder = old_run(resolved, lock=processes.first)
    on_failure.callback(folder.release)
    config, changes, notes = resumed_config(folder, resolved)
    checkpoint, problems = find_checkpoint(folder.path)
    return folder, checkpoint, config, changes, [*problems, *notes]


def _dataset(config: TrainConfig, processes: Processes) -> Dataset:
    """Found, or prepared by the first process while the others wait."""
    kind = "gpt2" if config.tokenizer == "auto" and config.init_from.startswith("gpt2") else config.tokenizer
    folder = None
    if processes.first:
        with StageDisplay() as display:
            folder = find_dataset(config.dataset, kind, display.show)
    processes.wait()
    return open_dataset(folder or find_dataset(config.dataset, kind))


def _check_data(dataset: Dataset, checkpoint: Checkpoint) -> list[str]:
    """A run goes on only with its tokenizer; other data in the same tokens is its owner's choice, and noted."""
    if dataset.tokenizer is not None and checkpoint.tokenizer not in (None, dataset.tokenizer.to_json()):
        before = (checkpoint.tokenizer or {}).get("kind")
        raise UsageError(
            f"the run was trained with another tokenizer ({before}, a vocabulary of "
            f"{checkpoint.model_config.vocab_size}) than that of {dataset.folder} ({dataset.tokenizer.kind}, "
            f"{dataset.vocab_size})\n"
            "The same numbers would mean other texts: a run goes on only with its own tokenizer."
        )
    if checkpoint.run.get("dataset_fingerprint") not in (None, dataset.fingerprint):
        return [f"the data in {dataset.folder} is not what the run was trained on until now"]
    return []


def _model(
    config: TrainConfig, dataset: Dataset, checkpoint: Checkpoint | None, device: torch.device
) -> tuple[LanguageModel, TrainConfig]:
    """The model with its first weights, and the configuration with the shape that it has."""
    weights = None
    needed = dataset.tokenizer.vocab_size if dataset.tokenizer else dataset.vocab_size
    if checkpoint is not None:
        shape, weights = _regularised(checkpoint.model_config, config), checkpoint.model
        if needed > shape.vocab_size:
            raise UsageError(
                f"the run has a vocabulary of {shape.vocab_size}, {dataset.folder} one of {needed}\n"
                "A run goes on only with the tokenizer that it began with."
            )
    elif config.init_from == "scratch":
        shape = ModelConfig(
            vocab_size=padded_vocabulary(dataset.vocab_size), block_size=config.block_size, n_layer=config.n_layer,
            n_head=config.n_head, n_embd=config.n_embd, dropout=config.dropout, bias=config.bias, recipe=config.recipe,
            ngrams=config.ngrams if config.recipe == "modern" else 1, ngram_dropout=config.ngram_dropout,
            token_shift=config.token_shift,
        )  # fmt: skip
    else:
        shape, weights = load_gpt2(config.init_from, block_size=config.block_size, dropout=config.dropout)
        if needed > shape.vocab_size:
            raise UsageError(f"{config.init_from} knows {shape.vocab_size} tokens, {dataset.folder} has {needed}")
    check_fits(shape, device, config.batch_size)
    try:
        model = build_model(shape)
        if weights is not None:
            load_model_weights(model, weights)
        model = model.to(device)
    except (RuntimeError, MemoryError) as error:
        raise JobError(f"a model of this size cannot be made here: {str(error).splitlines()[0]}") from None
    made = {key: getattr(shape, key) for key in ("block_size", "n_layer", "n_head", "n_embd", "bias")}
    return model, replace(config, **made)


def _regularised(shape: ModelConfig, config: TrainConfig) -> ModelConfig:
    """The shape that a checkpoint fixes, with the dropout of this session."""
    return replace(shape, dropout=config.dropout, ngram_dropout=config.ngram_dropout)


def padded_vocabulary(size: int) -> int:
    """Large vocabularies are rounded up to a multiple of 64, which matmuls like (GPT-2: 50257 → 50304, as nanoGPT)."""
    return size if size <= 512 else -(-size // 64) * 64


def micro_batch(config: TrainConfig, progress: Progress) -> int:
    """batch_size, or less where memory did not suffice for that."""
    return min(progress.micro_batch or config.batch_size, config.batch_size)


def _loader(
    config: TrainConfig, dataset: Dataset, progress: Progress, processes: Processes, choice: hardware.Choice
) -> BatchLoader:
    return BatchLoader(
        dataset.split("train"), block_size=config.block_size, sequences_per_step=config.sequences_per_step,
        micro_batch=micro_batch(config, progress), seed=config.seed, order=config.order, first_step=progress.step,
        first_sequence=progress.sequences, rank=processes.rank, world=processes.world, pin_memory=choice.type == "cuda",
    )  # fmt: skip


def _evaluator(
    config: TrainConfig, dataset: Dataset, model: LanguageModel, processes: Processes, choice: hardware.Choice
) -> Evaluator:
    return Evaluator(
        {"train": dataset.split("train"), "val": dataset.split("val")}, block_size=config.block_size,
        windows=None if config.eval_iters == "full" else config.eval_iters * config.batch_size,
        vocab_size=model.config.vocab_size, device=torch.device(choice.device), autocast=lambda: autocast(choice),
        processes=processes,
    )  # fmt: skip


def go_back(session: Session) -> None:
    """Weights, optimizer, scaler and data as the newest whole checkpoint has them."""
    checkpoint, problems = find_checkpoint(session.folder.path)
    for problem in problems:
        session.say(f"note: {problem}")
    session.checkpoints.copied()
    load_model_weights(session.plain_model, checkpoint.model)
    load_optimizer(session.optimizer, session.plain_model, checkpoint.optimizer)
    session.scaler.load_state_dict(checkpoint.scaler)
    session.progress, session.saved_at = checkpoint.progress, checkpoint.progress.step
    session.loader.close()
    session.loader = _loader(session.config, session.dataset, session.progress, session.processes, session.choice)


def _warmed_up(session: Session) -> nn.Module:
    """Compile, and make the first pass: what is slow only once belongs to start-up, not to iteration 0."""
    model: nn.Module = session.plain_model
    if session.choice.compile:
        compiled = cast(nn.Module, torch.compile(session.plain_model))
        try:
            _forward_backward(session, compiled, min(session.config.batch_size, session.config.sequences_per_step))
            model = compiled
        except Exception as error:  # whatever the compiler stumbles over, eager mode can do
            reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
            session.say(f"note: torch.compile does not work here ({reason[:120]}); training goes on in eager mode")
    if model is session.plain_model:
        try:
            _forward_backward(session, model, 1)
        except (RuntimeError, MemoryError) as error:
            raise NO_ROOM_FOR_ONE if is_out_of_memory(error) else error from None
    session.optimizer.zero_grad(set_to_none=True)
    return model


def _forward_backward(session: Session, model: nn.Module, sequences: int) -> None:
    tokens = torch.zeros(sequences, session.config.block_size, dtype=torch.int64, device=session.device)
    with session.autocast():
        loss = model(tokens, tokens)
    loss.backward()
    hardware.synchronize(session.device)


def _distributed(model: nn.Module, processes: Processes, choice: hardware.Choice) -> nn.Module:
    if processes.world == 1:
        return model
    return DistributedDataParallel(
        model, device_ids=[torch.device(choice.device).index] if choice.type == "cuda" else None
    )
