"""A log format is one file: a test adds one and touches nothing else."""

import subprocess
import sys
from pathlib import Path

FORMAT = """
from nanoscope.runs.formats.base import Format, Line, named
from nanoscope.runs.records import CheckpointRecord, EndRecord, EvalRecord, StepRecord


class Abacus(Format):
    name = "abacus"
    lines = (
        Line(StepRecord, r"bead {step} of {total} = {loss} after {time_ms}", "bead"),
        Line(EvalRecord, r"^checked bead {step}: {val} against {train_loss}", "checked"),
        Line(CheckpointRecord, "frame put away", "frame"),
        Line(EndRecord, "all beads moved", "all beads"),
    )
    record_words = ("bead",)
    settings = named("", rods="n_layer")
    table_rows = (("number of rods", "n_layer"),)
    header = (("tokens_per_step", r"([\\d,]+) beads on a rod"),)
"""
LOG = """--rods=12
1,024 beads on a rod
bead 10 of 40 = 9.5 after 210
bead 20 of 40 = 8.5 after 190
[rank0]: checked bead 20: 8.75 against 8.25
frame put away
bead 30 of 40 = 7.5 after 200
bead 40 of 40 = 6.5 after 200
all beads moved
"""
READ = """
import json, sys
from nanoscope.runs import formats
formats.__path__.append(sys.argv[1])  # as if the file were in the folder
from nanoscope.runs.reader import read_log
log = read_log(sys.argv[2])
(run,) = log.runs
print(json.dumps([
    log.format, list(run.steps.step), list(run.steps.loss), list(run.steps.time_s),
    [(e.step, e.val, e.train_loss) for e in run.evals], [c.step for c in run.checkpoints],
    run.total_steps, run.said_finished, run.config,
]))
"""


def test_a_format_is_added_as_one_file(tmp_path: Path) -> None:
    folder = tmp_path / "formats"
    folder.mkdir()
    (folder / "abacus.py").write_text(FORMAT, "utf-8")
    log = tmp_path / "train.log"
    log.write_text(LOG, "utf-8")

    # A process of its own: which formats there are is looked up once.
    found = subprocess.run(
        [sys.executable, "-c", READ, str(folder), str(log)], capture_output=True, text=True, check=True
    )

    assert found.stdout.strip() == (
        '["abacus", [10, 20, 30, 40], [9.5, 8.5, 7.5, 6.5], [0.21, 0.19, 0.2, 0.2], [[20, 8.75, 8.25]], [20], '
        '40, true, {"n_layer": 12, "tokens_per_step": 1024}]'
    )
