"""The "did you mean" hint at the end of an error message."""

import shlex
from collections.abc import Callable, Iterable
from pathlib import Path

from nanoscope.files import RUNS
from nanoscope.messages import Message

SYNONYMS = {
    "lr": "learning_rate",
    "wd": "weight_decay",
    "bs": "batch_size",
    "steps": "max_iters",
    "epochs": "max_iters",
    "iterations": "max_iters",
    "context": "block_size",
    "seq_len": "block_size",
    "gpu": "device",
    "cuda": "device",
    "resume": "init_from=resume",
    "output": "out",
    "out_dir": "out",
    "layers": "n_layer",
    "heads": "n_head",
}
"""Words of other tools, and what they are called here."""


def did_you_mean(
    word: str, choices: Iterable[str], show: Callable[[str], object] = str, *, cutoff: float = 0.6
) -> Message | str:
    """Return `" Did you mean X?"` for the choice closest to a misspelt word, or `""` if none is close.

    The hint follows a full stop. `show` formats the suggestion, for example by adding the dashes of a flag. `cutoff` is
    the least similarity, from 0 to 1.
    """
    from difflib import get_close_matches  # imported late: few commands end with a spelling mistake

    names = {choice.lstrip("-"): choice for choice in choices}  # equal dashes make no two options alike
    name, value = SYNONYMS.get(word.lstrip("-"), "").partition("=")[::2]
    if name in names:
        return _hint(f"{show(names[name])}={value}" if value else show(names[name]))
    close = get_close_matches(name or word.lstrip("-"), list(names), n=1, cutoff=cutoff)
    return _hint(show(names[close[0]])) if close else ""


def did_you_mean_run(name: str | Path) -> Message | str:
    """Return `" Did you mean runs/NAME?"` if there is such a run, which is called by its name alone."""
    folder = RUNS / name
    return _hint(shlex.quote(str(folder))) if (folder / "events.jsonl").is_file() else ""


def _hint(meant: object) -> Message:
    return Message(" Did you mean {meant}?", meant=meant)
