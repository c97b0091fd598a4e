"""kill -9, twelve times, aimed at every weak moment of a run. benchmarks/soak.py does it for hours."""

import random
from pathlib import Path

import pytest

from kill_runs import Configuration, make_folder, torment

pytestmark = pytest.mark.slow

COMMON = {
    "dataset": "data/tiny", "device": "cpu", "compile": False, "n_layer": 2, "n_head": 2, "n_embd": 32,
    "block_size": 16, "max_iters": 30, "eval_interval": 2, "eval_iters": 2, "log_interval": 1, "sample_interval": 20,
}  # fmt: skip
MODERN = {"recipe": "modern", "order": "random", "batch_size": 4, "gradient_accumulation_steps": 1, "dropout": 0.2,
          "keep_checkpoints": 1}  # fmt: skip
CLASSIC = {"recipe": "classic", "order": "epochs", "batch_size": 2, "gradient_accumulation_steps": 3, "dropout": 0.0,
           "learning_rate": 1e-2, "warmup_iters": 2}  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "aims"),
    [
        (MODERN, ["start", "half-written", "renamed", "best", "iteration", "end"]),
        (CLASSIC, ["half-written", "last", "any moment", "iteration", "half-written", "end"]),
    ],
    ids=["modern", "classic"],
)
def test_a_run_killed_six_times_ends_exactly_like_an_undisturbed_one(
    settings: dict[str, object], aims: list[str], tmp_path: Path
) -> None:
    folder = make_folder(tmp_path, {"NANOSCOPE_CACHE": str(tmp_path / "cache")})
    ordeal = torment(folder, Configuration({**COMMON, **settings}), aims, random.Random(5))
    assert ordeal.wrong == []
    assert len(ordeal.kills) == 6, ordeal.kills
    assert ordeal.losses_compared >= 45
