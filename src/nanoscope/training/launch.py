"""From a resolved configuration to an exit status: `start` makes a run ready, `launch` trains it.

Start-up finds every mistake that can be found before the first iteration.
"""

import dataclasses
import platform
import shlex
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from signal import Signals

import msgspec
import torch

from nanoscope.checkpoint_files import LAST, read_pointer
from nanoscope.config_sources import Resolved
from nanoscope.data.corpora import CORPORA
from nanoscope.data.dataset import Dataset, open_dataset
from nanoscope.data.find import find_dataset
from nanoscope.data.ngrams import ladder_of, stored_ladder
from nanoscope.errors import JobError
from nanoscope.hardware.device import peak_flops
from nanoscope.hardware.memory import available_bytes
from nanoscope.messages import Message, Shown, joined, on_terminal
from nanoscope.model.checkpoint import LoadedCheckpoint, TrainingState
from nanoscope.runs.console import resume_command
from nanoscope.runs.events import End, Note, Resume, Start
from nanoscope.training.console import open_terminal, stages
from nanoscope.training.distributed import Processes, is_another_gone
from nanoscope.training.engine import Engine, WarmUp
from nanoscope.training.evaluate import Data
from nanoscope.training.forecast import first_seconds, warnings
from nanoscope.training.initial_model import initial_model
from nanoscope.training.machine import choose_machine
from nanoscope.training.phases import PhaseClock
from nanoscope.training.reporter import Reporter, Sink, Terminal, open_sinks
from nanoscope.training.resume import (
    NothingToTrainError,
    StartPoint,
    check_data,
    find_start_point,
    flags_to_continue,
    new_folder,
    schedule_notes,
    stopped_run,
    update_records,
)
from nanoscope.training.run import Run
from nanoscope.training.run_folder import writing
from nanoscope.training.stopping import StopRequest
from nanoscope.training.trackers import requested
from nanoscope.training.trainer import train
from nanoscope.version import __version__

IDS_CHECKED_AT_START = 2**25  # takes a moment; the rest is checked as it is read


def start(resolved: Resolved, terminal: Terminal, clock: PhaseClock, resources: ExitStack) -> tuple[Run, Engine, Data]:
    """A run that is ready for its first iteration. `resources` closes its files, its threads and its lock."""
    processes = Processes.from_environment()
    begin = find_start_point(resolved, processes, resources)
    checkpoint, resumed = begin.checkpoint, begin.resumed
    state = checkpoint.progress if checkpoint else TrainingState()
    trackers = requested(begin.config)
    resources.callback(torch.set_num_threads, torch.get_num_threads())
    machine, notes = choose_machine(begin.config, processes, resumed.cpu_dtype if resumed else None)
    dataset = open_data(begin, processes, "tokenizer" in resolved.typed)
    notes += check_data(dataset, checkpoint)
    torch.manual_seed(begin.config.seed)
    model, config, more = initial_model(begin.config, dataset, machine, checkpoint=checkpoint, weights=begin.weights)
    engine = Engine(config, model, machine, state.micro_batch)
    if checkpoint is not None:
        engine.restore(checkpoint)
    data = Data(config, dataset, machine, model.config.vocab_size, state)
    resources.callback(data.close)
    for split in data.evaluator.splits.values():
        split.read(0, min(len(split), IDS_CHECKED_AT_START))  # refuses ids that are not in the vocabulary
    folder = begin.folder or new_folder(resolved, processes, resources)  # not before: mistakes leave no folder
    more += [] if begin.folder else stopped_run(resolved, folder)
    with writing(folder.given):
        sinks: list[Sink] = [terminal] if processes.first else []
        if processes.first and not (config.eval_only and resumed):  # an evaluation leaves no trace in a run
            sinks = [*open_sinks(folder, terminal), *(tracker(folder.path) for tracker in trackers)]
        reporter = Reporter(folder, clock, *sinks)
        resources.callback(reporter.close)
        run = Run(replace(config, out_dir=str(folder.path)), folder, data, state, reporter, clock, resumed)
        prepare_first_step(run, engine, data, checkpoint, begin.notes + notes + more)
    return run, engine, data


def open_data(begin: StartPoint, processes: Processes, tokenizer_typed: bool) -> Dataset:
    """Open the dataset. If it isn't prepared yet, the first process prepares it while the others wait.

    A known corpus is read with the kind of tokenizer that the weights were trained with, unless another was typed.
    """
    config, kind, resumed = begin.config, str(begin.config.tokenizer), begin.resumed
    own = resumed is not None and "dataset" not in resumed.changed | resumed.for_session
    run = begin.folder.path if begin.folder and own else None
    if begin.weights is not None and not tokenizer_typed:
        known = begin.weights.tokenizer if config.dataset in CORPORA else None
        kind = known.kind if known else "auto"
    folder = None
    if processes.first:
        with stages() as show:
            folder = find_dataset(config.dataset, kind, show, run=run)
            ladder_of(open_dataset(folder), show)  # measured now if the data was prepared by something else
    processes.wait()
    return open_dataset(folder or find_dataset(config.dataset, kind, run=run))


def prepare_first_step(
    run: Run, engine: Engine, data: Data, checkpoint: LoadedCheckpoint | None, notes: list[Shown]
) -> None:
    """Warm up, then emit the first events and write config.toml: all of that is on the disk before iteration 0.

    An evaluation alone needs no warm-up.
    """
    machine, training = engine.machine, not run.config.eval_only and run.state.step < run.config.max_iters

    if machine.choice.compile and training:
        run.reporter.progress(Message("compiling the model"))
    warmed_up = engine.warm_up(run.state.step) if training else None
    run.start = start_event(run, engine, data)
    run.reporter.emit(run.start, *(Note(text=note) for note in notes))
    if run.processes.first and not run.read_only:
        run.write_config()
    if checkpoint is not None and run.resumed is not None:
        records = update_records(checkpoint, run.config, run.evaluation)
        run.reporter.emit(Resume(step=run.state.step, changed=run.resumed.changed, for_session=run.resumed.for_session))
        run.reporter.emit(*(Note(text=text) for text in records), *schedule_notes(run.resumed, run.state))
    run.note_micro_batch(engine.micro_batch)
    if warmed_up is not None:
        report_forecast(run, engine, data, warmed_up)


def report_forecast(run: Run, engine: Engine, data: Data, warmed_up: WarmUp) -> None:
    """Report what the run will take, with warnings where that is absurd."""
    if warmed_up.compile_problem is not None:
        problem = warmed_up.compile_problem[:120]
        text = Message(
            "torch.compile does not work here ({problem}); training continues in eager mode", problem=problem
        )
        run.reporter.emit(Note(text=text))
    run.pace.guess = first_seconds(engine, data.evaluator, warmed_up)
    step, epochs = run.state.step, run.config.tokens_per_step / len(data.dataset.splits["train"])
    expected = run.pace.forecast(step, evaluated=run.state.evaluated_at == step)
    expected = msgspec.structs.replace(
        expected,
        epochs_per_step=epochs,
        epochs=(step + expected.steps) * epochs,
        memory_bytes=warmed_up.memory.total(engine.micro_batch),
        memory_available=available_bytes(engine.device),
    )
    found = warnings(run.config, expected, warmed_up.memory, engine.micro_batch, run.processes.world)
    run.reporter.emit(expected, *(Note(text=text, level="warning") for text in found))


def start_event(run: Run, engine: Engine, data: Data) -> Start:
    dataset, machine = data.dataset, engine.machine
    flops, source = peak_flops(machine.choice)
    return Start(
        run=run.folder.path.name,
        config=dataclasses.asdict(run.config),
        nanoscope=__version__,
        torch=str(torch.__version__),
        python=platform.python_version(),
        platform=platform.platform(),
        device=machine.choice.device,
        device_name=machine.choice.device_name,
        device_reasons=joined(", ", machine.choice.reasons),
        dtype=machine.choice.dtype,
        compiled=engine.compiled,
        processes=run.processes.world,
        peak_flops=(flops or 0.0) * machine.processes.world,
        peak_source=source,
        data_folder=str(dataset.folder),
        dataset_fingerprint=dataset.fingerprint,
        tokenizer=dataset.tokenizer.kind if dataset.tokenizer else None,
        parameters=engine.plain_model.parameter_count(),
        tokens_per_step=run.config.tokens_per_step,
        first_step=run.state.step,
        vocab_size=dataset.vocab_size,
        train_tokens=len(dataset.splits["train"]),
        val_tokens=len(dataset.splits["val"]),
        ladder=stored_ladder(dataset),
    )


Closing = Callable[[str], Sequence[Shown]]
"""Returns what to print after the run in a folder has finished: its verdict, which is not training's to give."""


def launch(resolved: Resolved, clock: PhaseClock, closing: Closing) -> int:
    """Train and return the exit status: 0, or 128 + the number of the signal that stopped the run."""
    try:
        run, end = train_run(resolved, clock, closing)
    except NothingToTrainError:
        return 0
    except RuntimeError as error:
        if not is_another_gone(error):
            raise
        raise JobError("another process of this run has ended; its own message says why") from None
    status = 128 + Signals[end.signal] if end.signal else 0
    run.processes.leave(status)
    return status


def train_run(resolved: Resolved, clock: PhaseClock, closing: Closing) -> tuple[Run, End]:
    """Train from the first iteration to the last, or to the signal that asks to stop.

    Raises NothingToTrainError, after it was said, if the run is as far as it should go.
    """
    # Until training begins there is nothing to save, so a signal ends the process at once.
    stop, first = StopRequest(), Processes.from_environment().first
    terminal = open_terminal(stop)
    with ExitStack() as resources:
        try:
            run, engine, data = start(resolved, terminal, clock, resources)
        except NothingToTrainError as reason:
            for line in reason.args if first else ():
                terminal.line(on_terminal(line))
            if first and reason.finished:
                _print_closing(terminal, closing, reason.folder)
            raise
        stop.at_once = run.processes.world == 1
        with stop, resources:  # which are closed before a signal ends the process again
            end = train(run, engine, data, stop)
            _check(run, end)
    if first and end.reason == "finished" and end.step:
        _print_closing(terminal, closing, str(run.folder.path))
    return run, end


def _print_closing(terminal: Terminal, closing: Closing, folder: str) -> None:
    with suppress(Exception):  # all is saved: nothing that is said about a run may fail it
        for line in closing(folder):
            terminal.line(on_terminal(line))


def _check(run: Run, end: End) -> None:
    """Raise JobError if the loss was not finite, or if the last checkpoint could not be saved."""
    folder, last = str(run.folder.path), read_pointer(run.folder.checkpoints, LAST)
    kept = Message("Nothing was saved before that")
    command = shlex.join(["nanoscope", "train", folder, "--init_from=auto"])  # the log stays, and is continued
    if last:
        kept = Message("The last good checkpoint, {last}, is intact", last=last)
        flags = flags_to_continue(run.config, run.for_session, "interrupted")  # not further than it should go
        command = resume_command(folder, flags)
    if end.reason == "non_finite":
        raise JobError(
            "the loss is not finite at iteration {step}: training stopped without saving\n"
            "{kept}. Try lower learning rates: {command}",
            step=end.step,
            kept=kept,
            command=f"{command} --lr_scale={run.config.lr_scale / 10:g}",
        )
    if run.processes.first and end.step > 0 and end.saved_step != end.step and end.reason != "eval_only":
        raise JobError(
            "the last checkpoint could not be saved\n{kept}. Make room, then: {command}", kept=kept, command=command
        )
