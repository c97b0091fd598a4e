"""Resuming a run of nanoGPT from its ckpt.pt: as a checkpoint of ours, with its settings. The file stays as it is."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from nanoscope.config import KEYS, OPTIONS, SHAPE_KEYS, convert
from nanoscope.interop.models import nanogpt_dataset, nanogpt_tokenizer
from nanoscope.interop.nanogpt import read_nanogpt
from nanoscope.model.checkpoint import LoadedCheckpoint, TrainingState

NOT_TAKEN = ("out_dir", "init_from", *OPTIONS)  # about the command, not the run


def nanogpt_run(file: Path) -> tuple[LoadedCheckpoint, dict[str, Any]]:
    """A ckpt.pt as a checkpoint with the optimizer's state, and the settings of its run.

    Its machine's settings are left out: the file may come from a GPU that this machine does not have.
    """
    found = read_nanogpt(file, optimizer=True)
    settings: dict[str, Any] = {}
    for key, value in found.settings.items():
        if key in KEYS and key not in NOT_TAKEN and KEYS[key].metadata["group"] != "machine":
            with suppress(ValueError):  # what can't be read has its default
                settings[key] = convert(key, value)
    settings |= {key: getattr(found.config, key) for key in SHAPE_KEYS if KEYS[key].metadata["recipe"] != "modern"}
    if dataset := nanogpt_dataset(found):
        settings["dataset"] = dataset
    tokenizer, _ = nanogpt_tokenizer(found)
    sequences = found.step * settings.get("batch_size", 12) * settings.get("gradient_accumulation_steps", 40)
    progress = TrainingState(
        step=found.step,
        sequences=sequences,
        best_val_loss=found.val_loss,
        best_step=None if found.val_loss is None else found.step,
    )
    checkpoint = LoadedCheckpoint(
        folder=file,
        model=found.weights,
        optimizer=found.optimizer,
        progress=progress,
        model_config=found.config,
        tokenizer=tokenizer.to_json() if tokenizer else None,
        scaler={},
        run={"evaluation": "random windows"},
    )
    return checkpoint, settings
