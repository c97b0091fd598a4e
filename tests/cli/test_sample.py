"""`nanoscope sample`, on a real run of two iterations."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import nanogpt_files
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


def test_a_prompt_may_begin_with_a_dash(sampled) -> None:
    _, _, err = sampled("run", "--prompt", "-row", *SHORT)
    assert "does not know '-'" in err


def test_a_checkpoint_may_be_named_by_its_folder(sampled) -> None:
    status, _, err = sampled("run/checkpoints/step-000002", *SHORT)
    assert status == 0
    assert "step-000002" in err


def test_characters_outside_the_vocabulary_are_explained(sampled) -> None:
    status, _, err = sampled("run", "--prompt=naïe ☃", *SHORT)
    assert status == 2
    assert "does not know 'ï' '☃'" in err
    assert "Traceback" not in err


def test_a_mistake_gets_one_message_and_no_text(sampled) -> None:
    for words, status, part in (
        ("run --temperature=-1", 2, "temperature"),
        ("run --temperature=nan", 2, "temperature"),
        ("run --top_p=0", 2, "top_p"),
        ("run --top_k=-1", 2, "top_k"),
        ("run --max_new_tokens=0", 2, "max_new_tokens"),
        ("run --num_samples=0", 2, "num_samples"),
        ("run --seed=99999999999999999999", 2, "seed"),
        ("run --dtype=int8", 2, "invalid dtype 'int8'"),
        ("run --device=gpu", 2, "invalid device 'gpu'"),
        ("run other", 2, "other"),
        ("missing", 2, "missing"),
        ("data", 2, "data"),
        ("run --checkpoint=step-000009", 2, "it has step-000002"),
        ("run --checkpoint=../../etc", 2, "it has step-000002"),
        ("run --prompt=FILE:missing.txt", 1, "missing.txt"),
        ("run --interactive --json", 2, "one text at a time"),
        ("run --interactive --num_samples=2", 2, "one text at a time"),
        ("run --interactive --prompt=-", 2, "one text at a time"),
    ):
        found, out, err = sampled(*words.split())
        assert (found, out) == (status, ""), words
        assert part in err
        assert "nanoscope: unexpected" not in err
        assert "Traceback" not in err


def test_a_checkpoint_that_contradicts_itself_is_a_failed_job(sampled, small_run: Path, tmp_path: Path) -> None:
    state = Path(shutil.copytree(small_run, tmp_path / "run")) / "checkpoints/step-000002/state.json"
    whole = state.read_text("utf-8")
    for old, new in (
        ('"n_embd": 16', '"n_embd": 32'),
        ('"n_layer": 1', '"n_layer": 2'),
        ('"n_layer": 1', '"n_layer": "one"'),
        ("{", "["),
    ):
        assert old in whole
        state.write_text(whole.replace(old, new, 1), "utf-8")
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


def test_without_the_optimizer_there_is_still_a_text(sampled, small_run: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(small_run, tmp_path / "run"))
    (run / "checkpoints/step-000002/optimizer.safetensors").unlink()
    status, out, err = sampled(str(run), *SHORT)
    assert (status, len(out)) == (0, 22)
    assert "warning" not in err


def test_nanogpts_checkpoint_writes_a_text(sampled, tmp_path: Path, monkeypatch) -> None:
    nanogpt_files.write_dataset(tmp_path / "data/hamlet")
    nanogpt_files.write_checkpoint(tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    for words in (["out"], ["out/ckpt.pt"], ["--out_dir=out", "--init_from=resume"]):
        status, out, err = sampled(*words, "--start=to be", *SHORT)
        assert status == 0, err
        assert out.startswith("to be")
        assert "ckpt.pt (20 iterations, val loss 2.5000)" in err


def test_init_from_names_a_model_as_in_nanogpt(sampled) -> None:
    status, _, err = sampled("--init_from=gpt-2")
    assert status == 2
    assert "gpt-2 is not a model. Did you mean gpt2?" in err
    assert "name one model, not run and gpt2" in sampled("run", "--init_from=gpt2")[2]


# --- interactive ---


def typed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_each_line_of_the_input_is_continued(sampled, monkeypatch: pytest.MonkeyPatch) -> None:
    typed(monkeypatch, "row\nboat\n")
    status, out, _ = sampled("run", "--interactive", "--max_new_tokens=5", "--temperature=0", "--device=cpu")
    assert status == 0
    first, second = (part for part in out.split("\n") if part.startswith(("row", "boat")))
    assert (len(first), len(second)) == (8, 9)


def test_an_empty_line_continues_the_text(sampled, monkeypatch: pytest.MonkeyPatch) -> None:
    greedy = ("--temperature=0", "--device=cpu")
    typed(monkeypatch, "row\n\n")
    _, twice, _ = sampled("run", "--interactive", "--max_new_tokens=5", *greedy)
    _, once, _ = sampled("run", "--prompt=row", "--max_new_tokens=10", *greedy)
    assert twice[: len("row") + 5] + twice[len("row") + 6 : -1] == once[:-1]


def test_a_prompt_with_unknown_characters_does_not_end_the_loop(sampled, monkeypatch: pytest.MonkeyPatch) -> None:
    typed(monkeypatch, "☃\nrow\n")
    status, out, err = sampled("run", "--interactive", *SHORT)
    assert status == 0
    assert "does not know '☃'" in err
    assert out.startswith("row")


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
def test_on_a_terminal_ctrl_c_stops_the_text_and_ctrl_d_leaves(small_run: Path, child_environment) -> None:
    master, slave = os.openpty()
    command = [sys.executable, "-m", "nanoscope", "sample", "run", "--interactive", "--max_new_tokens=1000000"]
    process = subprocess.Popen(
        [*command, "--device=cpu"], cwd=small_run.parent, env=child_environment, stdin=slave, stdout=slave,
        stderr=slave, start_new_session=True,
    )  # fmt: skip
    os.close(slave)
    seen = ""

    def wait_for(text: str) -> None:
        nonlocal seen
        while text not in seen:
            seen += os.read(master, 1 << 16).decode("utf-8", "replace")
        seen = seen.partition(text)[2]

    try:
        wait_for("> ")
        os.write(master, b"row\n")
        wait_for("row")  # the echo
        wait_for("row")  # the text
        process.send_signal(signal.SIGINT)
        wait_for("> ")
        os.write(master, b"\x04")
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        os.close(master)
