"""The table that an agent of autoresearch keeps of its experiments: one run a row."""

from pathlib import Path

import pytest

from nanoscope.runs.reader import read_log

HEAD = "commit\tval_bpb\tmemory_gb\tstatus\tdescription"
ROWS = (
    "a1b2c3d\t0.997900\t44.0\tkeep\tbaseline",
    "b2c3d4e\t0.993200\t44.2\tkeep\tincrease LR to 0.04, step 7",
    "c3d4e5f\t1.005000\t44.0\tdiscard\tswitch to GeLU",
    "d4e5f60\t0.000000\t0.0\tcrash\tdouble model width (OOM)",
)


def write(folder: Path, *lines: str) -> str:
    (folder / "results.tsv").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return str(folder / "results.tsv")


def test_each_experiment_is_a_run_with_its_result_and_what_it_tried(tmp_path: Path) -> None:
    log = read_log(write(tmp_path, HEAD, *ROWS))

    assert (log.format, log.lines) == ("autoresearch", 5)
    assert [[(e.metric, e.val) for e in run.evals] for run in log.runs] == [
        [("bpb", 0.9979)], [("bpb", 0.9932)], [("bpb", 1.005)],
    ]  # fmt: skip
    assert [run.config["description"] for run in log.runs][1:] == ["increase LR to 0.04, step 7", "switch to GeLU"]
    assert [(e.line, e.kind, e.message) for e in log.errors] == [(5, "exception", "d4e5f60: double model width (OOM)")]


@pytest.mark.parametrize(
    "lines",
    [
        (HEAD,),
        (HEAD.replace("val_bpb", "val_accuracy"), *ROWS),
        (HEAD, "a1b2c3d\tnan\t44.0\tkeep\tbaseline", "torn\t0.9", "\t\t\t\t"),
    ],
)
def test_what_is_no_result_is_no_run(tmp_path: Path, lines: tuple[str, ...]) -> None:
    assert read_log(write(tmp_path, *lines)).runs == []
