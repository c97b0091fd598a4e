"""The first that is said and written about a run: its lines on the console, its start event, its config.toml."""

import dataclasses
import os
import platform
import shlex
from typing import TYPE_CHECKING

import torch

from nanoscope import __version__
from nanoscope.config import to_toml
from nanoscope.errors import JobError
from nanoscope.training.run_folder import Changes

if TYPE_CHECKING:
    from nanoscope.training.session import Session


def introduce(session: "Session", parameters: int, peak_source: str, changes: Changes, notes: list[str]) -> None:
    """The first lines of a run, its start event and its config.toml."""
    config, dataset = session.config, session.dataset
    tokenizer = dataset.tokenizer.kind if dataset.tokenizer else "unknown tokenizer"
    train, val = len(dataset.split("train")), len(dataset.split("val"))
    session.say(f"nanoscope {__version__}: {session.folder.path}")
    session.say(f"in the browser: nanoscope watch {shlex.quote(str(session.folder.path.parent))}")
    session.say(f"device: {session.choice.reasons}")
    session.say(
        f"data: {dataset.folder}, {train:,} train and {val:,} val tokens, vocabulary {dataset.vocab_size} ({tokenizer})"
    )
    session.say(f"number of parameters: {parameters / 1e6:.2f}M")
    session.say(f"tokens per iteration will be: {config.tokens_per_step:,}")
    for note in [*notes, *(f"{key} is {now} from now on, it was {before}" for key, (before, now) in changes.items())]:
        session.say(f"note: {note}")
    if session.logbook is None:
        return
    environment = {
        "nanoscope": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "device": session.choice.device,
        "device_name": session.choice.device_name,
        "dtype": session.choice.dtype,
        "compiled": session.choice.compile,
        "processes": session.processes.world,
        "peak_flops": session.peak_flops or 0.0,
        "peak_source": peak_source,
        "dataset_fingerprint": dataset.fingerprint,
        "parameters": parameters,
    }
    session.environment = environment
    write_config(session)
    session.record(
        "start", version=1, run=session.folder.path.name, config=dataclasses.asdict(config), **environment,
        tokens_per_step=config.tokens_per_step, first_step=session.progress.step, vocab_size=dataset.vocab_size,
        train_tokens=train, val_tokens=val,
    )  # fmt: skip
    if session.progress.step:
        session.say(f"resuming at iteration {session.progress.step}")
        session.record("resume", step=session.progress.step, changed=changes)


def write_config(session: "Session", *, if_missing: bool = False) -> None:
    """config.toml, with the versions and the machine; again if somebody has deleted it."""
    file = session.folder.path / "config.toml"
    if if_missing and file.exists():
        return
    aside = file.with_name(f".config.{os.getpid()}.tmp")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(to_toml(session.config, {"environment": session.environment}), "utf-8")
        aside.replace(file)
    except OSError as error:
        aside.unlink(missing_ok=True)
        if not if_missing:
            raise JobError(f"{file} cannot be written: {error.strerror}") from None
