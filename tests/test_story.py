"""A first evening with nanoscope: every command is one that it printed before, with names and sizes filled in.

The person has a Hindi text and a small machine.
"""

import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SMALL = (
    "--n_layer=1 --n_head=2 --n_embd=32 --block_size=32 --batch_size=4 --eval_iters=8 --eval_interval=20 "
    "--log_interval=10 --device=cpu"
)


def sentences(words: str, count: int, seed: int) -> str:
    """Lines of words in random order: enough for a model to learn the words."""
    chosen = random.Random(seed)
    return "\n".join(" ".join(chosen.choices(words.split(), k=7)) + "।" for _ in range(count))


STORY = sentences("एक राजा था उसकी रानी नदी के पास रहती थी और रात को गाती थी", 600, seed=1)
LETTERS = sentences("प्रिय मित्र आज मैं तुम्हें पत्र लिखता हूँ यहाँ बहुत वर्षा है", 600, seed=2)


class Evening:
    """What was printed so far, and the commands in it."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment
        self.printed = ""

    def command(self, *contains: str, **names: str) -> str:
        """The last printed command that contains these words, with the names that it has as examples replaced."""
        found = re.findall(r"nanoscope [a-z]+ [^\n]*", self.printed)
        fitting = [each for each in found if all(word in each for word in contains)]
        assert fitting, f"no command with {contains} was printed:\n{self.printed}"
        command = re.split(r"  +", fitting[-1])[0].strip()  # an example may have a comment behind it
        for name, replacement in names.items():
            example = name.replace("__", "/")
            assert example in command
            command = command.replace(example, replacement)
        return command

    def type(self, command: str, *, stop_at: str | None = None, status: int = 0) -> str:
        """Run a command, interrupt it at a line that begins with `stop_at`, and return what it printed."""
        words = shlex.split(command)
        assert words[0] == "nanoscope"
        process = subprocess.Popen(
            [sys.executable, "-m", *words], cwd=self.folder, env=self.environment, encoding="utf-8",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if stop_at and line.startswith(stop_at):
                process.send_signal(signal.SIGINT)
                stop_at = None
        process.stdout.close()
        output = "".join(lines)
        assert process.wait(timeout=240) == status, f"{command}\n{output}"
        assert "Traceback" not in output
        self.printed += output
        return output


@pytest.mark.slow
def test_a_laptop_sized_story_from_beginning_to_end(tmp_path: Path, child_environment: dict[str, str]) -> None:
    (tmp_path / "kahani.txt").write_text(STORY, "utf-8")
    (tmp_path / "patra.txt").write_text(LETTERS, "utf-8")
    evening = Evening(tmp_path, {**child_environment, "LC_ALL": "C.UTF-8"})
    evening.type("nanoscope help")

    # Prepare, train, interrupt, resume.
    evening.type("nanoscope prepare kahani.txt")
    first = evening.command("train laptop", "--dataset=data/kahani") + f" {SMALL} --max_iters=100"
    interrupted = evening.type(first, stop_at="iter 40", status=130)
    assert "stopped at iteration" in interrupted
    finished = evening.type(evening.command("--init_from=resume"))
    assert "finished 100 iterations" in finished
    run = evening.command("nanoscope sample").split()[-1]
    assert (tmp_path / run / "checkpoints").is_dir()

    # Fine-tune the model on another text, with other characters.
    evening.type("nanoscope prepare patra.txt")
    evening.type("nanoscope help train")
    tune = evening.command("--init_from=runs/laptop", runs__laptop=run, data__mine="data/patra-char")
    tuned = evening.type(f"{tune} --max_iters=60 --eval_interval=20 --eval_iters=8 --batch_size=4 --device=cpu")
    assert re.search(r"\d+ of the \d+ tokens", tuned), tuned
    tuned_run = evening.command("nanoscope sample").split()[-1]
    assert tuned_run != run

    # Evaluate both, each on the text that it was trained on.
    evening.type("nanoscope help eval")
    evaluate = evening.command("nanoscope eval runs/laptop", runs__laptop="{}")
    for each in (run, tuned_run):
        printed = evening.type(f"{evaluate.format(each)} --json")
        evaluated = json.loads(printed[printed.index("{\n") :])  # after the notes
        (score,) = evaluated["scores"]
        assert score["loss"] < 2.5
        assert score["error"] < 0.1

    # A sweep of three rates, and what it shows.
    evening.type("nanoscope help sweep")
    sweep = evening.command("nanoscope sweep laptop", "--seed")
    swept = re.sub(r"--learning_rate=\S+", "--learning_rate=1e-4,1e-3,1e-2", sweep).replace(" --seed=1,2,3", "")
    ranked = evening.type(f"{swept} --dataset=data/kahani-char {SMALL} --max_iters=40")
    assert "learning_rate" in ranked
    compared = evening.type(evening.command("nanoscope compare", "sweep"))
    assert "learning_rate" in compared

    # And at last: what does it write?
    text = evening.type(f"{evening.command('nanoscope sample', run)} --max_new_tokens=40")
    assert re.search(r"[\u0900-\u097f]", text)
    assert os.fspath(tmp_path) not in evening.command("nanoscope sample", run)
