"""`nanoscope sample`, on a real run of two iterations."""

import json
import shutil
from pathlib import Path

import pytest

from conftest import Nanoscope
from nanoscope import cli
from nanoscope.errors import JobError
from nanoscope.generation.write import _show, read_prompt

SHORT = ("--max_new_tokens=20", "--device=cpu")


@pytest.fixture
def sampled(small_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """`sample ARGUMENTS` in the folder above the run, in this process: exit status, standard output and error."""
    monkeypatch.chdir(small_run.parent)

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = cli.run(["sample", *words])
        return status, *capsys.readouterr()

    return run


@pytest.mark.slow
def test_the_text_goes_to_standard_output_and_what_wrote_it_to_standard_error(
    nanoscope: Nanoscope, small_run: Path
) -> None:
    done = nanoscope("sample", "run", "--prompt", "-", *SHORT, cwd=small_run.parent, input="row, ")
    assert done.returncode == 0
    assert done.stdout.startswith("row, ")
    assert len(done.stdout) == len("row, ") + 20 + 1
    assert done.stdout.endswith("\n")
    assert "step-000002 (2 iterations" in done.stderr


def test_the_prompt_may_come_from_a_file(sampled, tmp_path: Path) -> None:
    (tmp_path / "begin.txt").write_text("gently ", "utf-8")
    status, out, _ = sampled("run", f"--prompt=FILE:{tmp_path / 'begin.txt'}", *SHORT)
    assert status == 0
    assert out.startswith("gently ")


def test_json_has_the_checkpoint_the_prompt_and_every_text(sampled) -> None:
    status, out, _ = sampled("run", "--json", "--prompt=row", "--num_samples=3", *SHORT)
    document = json.loads(out)
    assert status == 0
    assert Path(document["checkpoint"]).name == "step-000002"
    assert document["prompt"] == "row"
    assert len(set(document["samples"])) == 3
    assert all(len(text) == 23 and text.startswith("row") for text in document["samples"])


def test_what_is_streamed_is_what_json_has(sampled) -> None:
    _, out, _ = sampled("run", "--prompt=row", "--num_samples=2", *SHORT)
    _, document, _ = sampled("run", "--prompt=row", "--num_samples=2", "--json", *SHORT)
    assert out == "\n---------------\n".join(json.loads(document)["samples"]) + "\n"


def test_the_same_seed_writes_the_same_text(sampled) -> None:
    first, again, other = (sampled("run", f"--seed={seed}", *SHORT)[1] for seed in (1, 1, 2))
    assert first == again != other


def test_flags_may_be_spelled_with_dashes_and_as_nanogpt_spells_them(sampled) -> None:
    status, out, _ = sampled("--out_dir=run", "--start=row", "--max-new-tokens=4", "--top-k=3", "--device=cpu")
    assert status == 0
    assert len(out) == len("row") + 4 + 1


def test_without_any_run_one_is_asked_for(sampled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    status, _, err = sampled()
    assert status == 2
    assert "nanoscope train laptop" in err


def test_a_prompt_may_begin_with_a_dash(sampled) -> None:
    _, _, err = sampled("run", "--prompt", "-row", *SHORT)
    assert "does not know '-'" in err


def test_a_checkpoint_may_be_named_by_its_folder(sampled) -> None:
    status, _, err = sampled("run/checkpoints/step-000002", *SHORT)
    assert status == 0
    assert "step-000002" in err


def test_without_a_run_the_newest_under_runs_is_taken(sampled, small_run: Path, tmp_path: Path, monkeypatch) -> None:
    shutil.copytree(small_run, tmp_path / "runs/mine")
    monkeypatch.chdir(tmp_path)
    status, _, err = sampled(*SHORT)
    assert status == 0
    assert Path("runs/mine/checkpoints").as_posix() in err.replace("\\", "/")


def test_characters_outside_the_vocabulary_are_explained(sampled) -> None:
    status, _, err = sampled("run", "--prompt=naïe ☃", *SHORT)
    assert status == 2
    assert "does not know 'ï' '☃'" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "status", "part"),
    [
        (["run", "--temperature=-1"], 2, "temperature"),
        (["run", "--temperature=nan"], 2, "temperature"),
        (["run", "--top_p=0"], 2, "top_p"),
        (["run", "--top_k=-1"], 2, "top_k"),
        (["run", "--max_new_tokens=0"], 2, "max_new_tokens"),
        (["run", "--num_samples=0"], 2, "num_samples"),
        (["run", "--seed=99999999999999999999"], 2, "seed"),
        (["run", "--dtype=int8"], 2, "invalid dtype 'int8'"),
        (["run", "--device=gpu"], 2, "invalid device 'gpu'"),
        (["run", "other"], 2, "other"),
        (["missing"], 2, "missing"),
        (["data"], 2, "data"),
        (["run", "--checkpoint=step-000009"], 2, "it has step-000002"),
        (["run", "--checkpoint=../../etc"], 2, "it has step-000002"),
        (["run", "--prompt=FILE:missing.txt"], 1, "missing.txt"),
    ],
)
def test_a_mistake_gets_one_message_and_no_text(words: list[str], status: int, part: str, sampled) -> None:
    found, out, err = sampled(*words)
    assert (found, out) == (status, "")
    assert part in err
    assert "nanoscope: unexpected" not in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"n_embd": 16', '"n_embd": 32'),
        ('"n_layer": 1', '"n_layer": 2'),
        ('"n_layer": 1', '"n_layer": "one"'),
        ("{", "["),
    ],
)
def test_a_checkpoint_that_contradicts_itself_is_a_failed_job(
    old: str, new: str, sampled, small_run: Path, tmp_path: Path
) -> None:
    shutil.copytree(small_run, tmp_path / "run")
    state = tmp_path / "run/checkpoints/step-000002/state.json"
    assert old in state.read_text("utf-8")
    state.write_text(state.read_text("utf-8").replace(old, new, 1), "utf-8")
    status, out, err = sampled(str(tmp_path / "run"), *SHORT)
    assert (status, out) == (1, "")
    assert "step-000002" in err
    assert "nanoscope: unexpected" not in err


def test_a_prompt_file_may_have_a_byte_order_mark_and_must_be_utf8(tmp_path: Path) -> None:
    (tmp_path / "begin.txt").write_bytes(b"\xef\xbb\xbfTo be")
    assert read_prompt(f"FILE:{tmp_path / 'begin.txt'}") == "To be"
    (tmp_path / "begin.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(JobError, match="cannot read the prompt"):
        read_prompt(f"FILE:{tmp_path / 'begin.txt'}")


def test_what_a_model_writes_cannot_steer_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    _show("a\x1b[31m\r\x07\x9b2J\tb\n")
    assert capsys.readouterr().out == "a␛[31m␍␇\ufffd2J\tb\n"
