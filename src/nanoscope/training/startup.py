"""Start-up: `start_session` lists its steps. They find every mistake that can be found before the first iteration."""

import dataclasses
import platform
from contextlib import ExitStack
from dataclasses import replace

import msgspec
import torch

from nanoscope.config import TrainConfig
from nanoscope.config_sources import Resolved
from nanoscope.data.corpora import CORPORA
from nanoscope.data.dataset import Dataset, open_dataset
from nanoscope.data.find import find_dataset
from nanoscope.data.loader import check_length
from nanoscope.data.ngrams import ladder_of, stored_ladder
from nanoscope.errors import JobError, why
from nanoscope.hardware.memory import available_bytes
from nanoscope.messages import Text
from nanoscope.model.checkpoint import LoadedCheckpoint, TrainingState
from nanoscope.runs.events import Note, Resume, Start
from nanoscope.training.checkpoint import CheckpointWriter
from nanoscope.training.console import StageDisplay
from nanoscope.training.distributed import Processes
from nanoscope.training.engine import Engine
from nanoscope.training.evaluate import Evaluator
from nanoscope.training.forecast import first_seconds, warnings
from nanoscope.training.initial_model import initial_model
from nanoscope.training.machine import choose_machine
from nanoscope.training.pace import Pace
from nanoscope.training.phases import PhaseClock
from nanoscope.training.reporter import Reporter, Sink, Terminal, open_sinks
from nanoscope.training.resume import (
    Origin,
    check_data,
    find_origin,
    new_folder,
    schedule_notes,
    settled,
    unfinished,
    update_records,
)
from nanoscope.training.run_folder import RunFolder
from nanoscope.training.session import Books, Session, open_loader
from nanoscope.training.trackers import check_trackers, open_trackers
from nanoscope.version import __version__

IDS_CHECKED_AT_START = 2**25  # takes a moment; the rest is checked as it is read


def start_session(resolved: Resolved, terminal: Terminal, clock: PhaseClock) -> Session:
    with ExitStack() as resources:
        resolved = settled(resolved)
        processes = Processes.from_environment()
        origin = find_origin(resolved, processes, resources)
        check_trackers(origin.config)
        resources.callback(torch.set_num_threads, torch.get_num_threads())
        cpu_dtype = origin.resumed.cpu_dtype if origin.resumed else None
        machine, notes = choose_machine(origin.config, processes, cpu_dtype)
        dataset = open_data(origin, processes, "tokenizer" in resolved.typed)
        notes += check_data(dataset, origin.checkpoint) + check_ladder(dataset)
        torch.manual_seed(origin.config.seed)
        model, config, more = initial_model(
            origin.config, dataset, machine, checkpoint=origin.checkpoint, weights=origin.weights
        )
        notes += more
        engine = Engine(config, model, machine, origin.checkpoint.progress.micro_batch if origin.checkpoint else 0)
        if origin.checkpoint is not None:
            engine.restore(origin.checkpoint)
        check_tokens(dataset, config.block_size)
        folder = origin.folder or new_folder(resolved, processes, resources)  # not before: mistakes leave no folder
        notes += unfinished(resolved, folder) if origin.folder is None else []
        config = replace(config, out_dir=str(folder.path))
        sinks: list[Sink] = [terminal] if processes.first else []
        if processes.first and not (config.eval_only and origin.resumed):  # an evaluation leaves no trace in a run
            try:
                sinks = [*open_sinks(folder, terminal, clock.wall_seconds), *open_trackers(folder, config)]
            except OSError as error:
                file = error.filename or folder.path
                raise JobError("can't write {file}: {reason}", file=file, reason=why(error)) from None
        books = Books(Reporter(folder, *sinks), clock, Pace(config, clock))
        session = assemble(config, folder, dataset, engine, books, origin.checkpoint)
        session.resumed = origin.resumed
        resources.callback(books.reporter.close)
        resources.callback(lambda: session.loader.close())  # whichever loader it has by then
        introduce(session, origin.checkpoint, origin.notes + notes)
        if origin.checkpoint is not None and not config.eval_only:
            session.set_aside_damaged(origin.checkpoint)
        prepare_first_step(session)
        session.resources = resources.pop_all()
    return session


def open_data(origin: Origin, processes: Processes, tokenizer_typed: bool) -> Dataset:
    """Open the dataset. If it isn't prepared yet, the first process prepares it while the others wait.

    A known corpus is read with the kind of tokenizer that the weights were trained with, unless another was typed.
    """
    config, kind, resumed = origin.config, str(origin.config.tokenizer), origin.resumed
    own = resumed is not None and "dataset" not in resumed.changed | resumed.for_session
    run = origin.folder.path if origin.folder and own else None
    if origin.weights is not None and not tokenizer_typed:
        known = origin.weights.tokenizer if config.dataset in CORPORA else None
        kind = known.kind if known else "auto"
    folder = None
    if processes.first:
        with StageDisplay() as display:
            folder = find_dataset(config.dataset, kind, display.show, run=run)
            ladder_of(open_dataset(folder), display.show)  # measured now if the data was prepared by something else
    processes.wait()
    return open_dataset(folder or find_dataset(config.dataset, kind, run=run))


def check_ladder(dataset: Dataset) -> list[str]:
    if stored_ladder(dataset) is not None:
        return []
    return [
        Text(
            "val losses are not compared with n-gram models: {folder} can't be written to, to keep theirs",
            folder=dataset.folder,
        )
    ]


def check_tokens(dataset: Dataset, block_size: int) -> None:
    """Refuse splits that are too short, or whose first tokens are not in the vocabulary."""
    for name in ("train", "val"):
        split = dataset.split(name)
        check_length(split, name, block_size)
        split.read(0, min(len(split), IDS_CHECKED_AT_START))


def assemble(
    config: TrainConfig,
    folder: RunFolder,
    dataset: Dataset,
    engine: Engine,
    books: Books,
    checkpoint: LoadedCheckpoint | None,
) -> Session:
    machine, state = engine.machine, checkpoint.progress if checkpoint else TrainingState()
    writer = CheckpointWriter(folder, config.keep_checkpoints)
    writer.saved_step = state.step if folder.holds_run() else None
    evaluator = Evaluator(
        {name: dataset.split(name) for name in ("train", "val")},
        block_size=config.block_size,
        windows=None if config.eval_iters == "full" else config.eval_iters * config.batch_size,
        vocab_size=engine.plain_model.config.vocab_size,
        device=machine.device,
        autocast=machine.autocast,
        processes=machine.processes,
        batch=config.eval_batch_size,
    )
    loader = open_loader(config, dataset, state, machine)
    session = Session(config, folder, machine, dataset, loader, evaluator, engine, state, writer, books)
    engine.notify = session.note_smaller_micro_batch
    return session


def introduce(session: Session, checkpoint: LoadedCheckpoint | None, notes: list[str]) -> None:
    """Emit the first events and write config.toml. All of that is on the disk before the first iteration."""
    resumed, emit = session.resumed, session.books.reporter.emit
    session.start = start_event(session)
    emit(session.start, *(Note(text=note) for note in notes))
    if session.machine.processes.first and not session.read_only:
        session.write_config()
    if resumed is not None and checkpoint is not None:
        records = update_records(checkpoint, session.config, session.evaluation)
        emit(Resume(step=session.state.step, changed=resumed.changed, for_session=resumed.for_session))
        emit(*(Note(text=text) for text in records), *schedule_notes(resumed, session.state))


def start_event(session: Session) -> Start:
    config, dataset, choice = session.config, session.dataset, session.machine.choice
    peak_flops, peak_source = session.machine.peak
    return Start(
        run=session.folder.path.name,
        config=dataclasses.asdict(config),
        nanoscope=__version__,
        torch=str(torch.__version__),
        python=platform.python_version(),
        platform=platform.platform(),
        device=choice.device,
        device_name=choice.device_name,
        device_reasons=choice.reasons,
        dtype=choice.dtype,
        compiled=choice.compile,
        processes=session.machine.processes.world,
        peak_flops=peak_flops or 0.0,
        peak_source=peak_source,
        data_folder=str(dataset.folder),
        dataset_fingerprint=dataset.fingerprint,
        tokenizer=dataset.tokenizer.kind if dataset.tokenizer else None,
        parameters=session.engine.plain_model.parameter_count(),
        tokens_per_step=config.tokens_per_step,
        first_step=session.state.step,
        vocab_size=dataset.vocab_size,
        train_tokens=len(dataset.split("train")),
        val_tokens=len(dataset.split("val")),
        ladder=stored_ladder(dataset),
    )


def prepare_first_step(session: Session) -> None:
    """Warm up, and say what the run is in for. An evaluation alone needs neither."""
    if session.config.eval_only or session.state.step >= session.config.max_iters:
        return
    reporter = session.books.reporter
    measured = session.engine.warm_up(session.state.step)
    if measured.compile_problem is not None:
        problem = measured.compile_problem[:120]
        text = Text("torch.compile does not work here ({problem}); training continues in eager mode", problem=problem)
        reporter.emit(Note(text=text))
    config, pace, step, available = (
        session.config,
        session.books.pace,
        session.state.step,
        available_bytes(session.machine.device),
    )
    pace.guess = first_seconds(session.engine, session.evaluator, measured)
    expected = pace.forecast(step, evaluated=session.state.evaluated_at == step)
    epochs_per_step = config.tokens_per_step / len(session.dataset.split("train"))
    micro_batch = session.engine.micro_batch
    expected = msgspec.structs.replace(
        expected,
        epochs_per_step=epochs_per_step,
        epochs=(step + expected.steps) * epochs_per_step,
        memory_bytes=measured.memory.total(micro_batch),
        memory_available=available,
    )
    found = warnings(config, expected, measured.memory, micro_batch, session.machine.processes.world)
    reporter.emit(expected, *(Note(text=text, level="warning") for text in found))
