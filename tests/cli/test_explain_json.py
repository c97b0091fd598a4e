"""`explain --json` as a program sees it: one document that follows the schema, from a process without torch."""

import json
import subprocess
import sys

import pytest

LOG = "".join(f"iter {s}: loss {4 - s / 500:.4f}, time 100.{s % 7}0ms, mfu 5.00%\n" for s in range(0, 1000, 10))
WITHOUT_TORCH = "import sys; sys.modules['torch'] = None; from nanoscope.cli.explain import explain; "


@pytest.fixture
def explain(child_environment):
    """Run the command in a process in which torch can't be imported."""

    def call(arguments: str, standard_input: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-c", f"{WITHOUT_TORCH}explain({arguments})"],
            input=standard_input,
            capture_output=True,
            env=child_environment,
            timeout=60,
        )

    return call


def no_constants(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def document(done: subprocess.CompletedProcess[bytes]):
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout.decode("utf-8"), parse_constant=no_constants)


def test_a_log_file_becomes_one_document_of_the_schema(explain, tmp_path) -> None:
    path = tmp_path / "train.log"
    path.write_text(LOG, encoding="utf-8")

    found = document(explain(f"{str(path)!r}, json=True, max_iters=2000"))
    assert (found["schema"], found["source"], found["format"]) == ("nanoscope.explain/1", str(path), "nanogpt")
    (run,) = found["runs"]
    assert list(run) == [
        "steps_logged", "first_step", "last_step", "total_steps", "finished", "slow_steps", "evals", "place",
        "checkpoints", "verdicts", "throughput_tok_s", "reading", "step_time_s", "loss", "mfu", "remaining_s",
        "findings", "doubts",
    ]  # fmt: skip
    assert (run["steps_logged"], run["total_steps"], run["finished"]) == (100, 2000, False)
    assert run["remaining_s"]["expected"] == pytest.approx(101, rel=0.02)
    assert run["evals"] is None
    (finding,) = run["findings"]
    assert (finding["code"], finding["confidence"], finding["measure"]) == ("improving", "likely", "train")


def test_standard_input_is_read_for_a_dash(explain) -> None:
    found = document(explain("'-', json=True", LOG.encode("utf-16")))

    assert found["source"] == "-"
    assert found["runs"][0]["steps_logged"] == 100


def test_several_logs_become_a_list(explain, tmp_path) -> None:
    names = []
    for number in (1, 2):
        path = tmp_path / f"{number}.log"
        path.write_text(LOG, encoding="utf-8")
        names.append(str(path))

    assert [d["source"] for d in document(explain(f"*{names!r}, json=True"))] == names


def test_losses_that_are_not_finite_are_null(explain) -> None:
    text = b"iter 0: loss nan, time 9.00ms\niter 1: loss inf, time 9.00ms\n"
    (run,) = document(explain("'-', json=True", text))["runs"]

    assert run["loss"] == {"first": None, "last": None, "min": None, "non_finite_from": 0, "diverged_at": None}
    assert run["verdicts"] == ["non_finite"]


@pytest.mark.parametrize("text", [b"", b"number of parameters: 10.65M\ntorch.OutOfMemoryError: CUDA out of memory.\n"])
def test_a_log_without_training_gives_a_document_without_runs(explain, text) -> None:
    found = document(explain("'-', json=True", text))

    assert (found["format"], found["runs"]) == ("none", [])
    assert [error["kind"] for error in found["errors"]] == (["out_of_memory"] if text else [])
