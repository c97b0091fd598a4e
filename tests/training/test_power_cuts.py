"""The power fails, forty times at moments spread over a run's life. benchmarks/power_cuts.py tries more."""

import random
from collections import Counter
from pathlib import Path

import pytest

from kill_runs import make_folder
from power_cuts import outcome, recorded

pytestmark = pytest.mark.slow

SETTINGS = {
    "device": "cpu", "compile": False, "dtype": "float32", "threads": 1, "recipe": "modern", "ngrams": 1, "n_layer": 1,
    "n_head": 2, "n_embd": 16, "block_size": 16, "batch_size": 4, "gradient_accumulation_steps": 1, "dropout": 0.2,
    "max_iters": 6, "eval_interval": 2, "eval_iters": 2, "sample_interval": 4, "keep_checkpoints": 1,
}  # fmt: skip


def test_a_run_ends_with_the_same_weights_whenever_the_power_fails(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, {"NANOSCOPE_CACHE": str(tmp_path / "cache")})
    recording = recorded(folder, SETTINGS, random.Random(3))
    some = recording.cuts[:: len(recording.cuts) // 40]
    assert {cut.phase for cut in recording.cuts} == {
        "starting", "training", "saving", "pointers", "pruning", "ending",
    }  # fmt: skip
    results = [(cut, *outcome(recording, cut)) for cut in some]
    assert [(cut.operation, cut.way, problem) for cut, _, problem in results if problem] == []
    assert Counter(result for _, result, _ in results).keys() >= {"resumed", "begun anew"}
    assert len(results) >= 40
