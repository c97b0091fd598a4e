"""What the numbers of a page mean: the concepts that its labels open, and no others."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from nanoscope.words.concepts import CONCEPTS, NOTHING_KNOWN
from nanoscope.words.language import Language

# Tiles and evidence name their concept themselves; charts, phases and settings have it by the name the page uses.
BY_NAME = {
    "chart": {
        "loss": "loss", "time_s": "step_time", "lr": "learning_rate", "grad_norm": "gradient_norm", "tok_s": "tokens_s",
        "mfu_pct": "mfu", "memory": "memory", "eta_s": "time_left", "bpb": "bits_per_char", "lr_share": "decay",
    },
    "phase": {"eval": "evaluation", "checkpoint": "checkpoint"},
    "setting": {
        "batch_size": "micro_batch", "gradient_accumulation_steps": "accumulation", "block_size": "context",
        "dropout": "dropout", "seed": "seed", "warmup_iters": "warmup", "grad_clip": "clipping", "dtype": "dtype",
    },
}  # fmt: skip


def concepts_of_names(numbers: dict[str, Any], series: Iterable[str]) -> dict[str, str]:
    """The charts, phases and settings of a run that open a concept: 'chart lr' opens learning_rate."""
    names = {
        "chart": {"loss", numbers["metric"], *("memory" if name.endswith("_gb") else name for name in series)},
        "phase": {name for name, _ in numbers["phases"]},
        "setting": {name for name, _ in numbers["config"]},
    }
    return {
        f"{kind} {name}": concept
        for kind, concepts in BY_NAME.items()
        for name, concept in concepts.items()
        if name in names[kind]
    }


@lru_cache(maxsize=256)
def lesson(key: str, code: str) -> dict[str, str]:
    """What a concept is, whatever the run."""
    taught = vars(CONCEPTS[key].teach(NOTHING_KNOWN, Language(code)))
    return {part: taught[part] for part in ("title", "summary", "example", "normal", "mistake")}
