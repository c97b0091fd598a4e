"""The file system fails while a run starts. benchmarks/faults.py lets it fail at any moment."""

import errno
import shutil
from pathlib import Path

import pytest

from benchmarks.faults import RUN, Faults, command
from kill_runs import make_folder
from nanoscope.training.checkpoint import CheckpointWriter

pytestmark = pytest.mark.slow


def test_it_goes_on_or_ends_with_a_message_that_is_no_bug_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CheckpointWriter, "RETRY_SECONDS", 0.01)
    folder = make_folder(tmp_path, {})
    messages = []
    for first in range(1, 28, 2):
        shutil.rmtree(tmp_path / RUN, ignore_errors=True)
        with Faults(errno.ENOSPC, first, first + 2).at_work():
            status, said = command(folder, "--max_iters=2", "--lr_decay_iters=2")
        assert status in (0, 1), said
        assert "This is a bug" not in said
        if status:
            messages.append(said)
    assert messages
    assert all("No space left on device" in said for said in messages)
