"""Small real runs: a text of a few thousand characters, a model of a few thousand weights, real processes."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

from nanoscope import cli

TINY = [
    "--dataset=data/tiny", "--n_layer=2", "--n_head=2", "--n_embd=32", "--block_size=16", "--batch_size=4",
    "--gradient_accumulation_steps=1", "--max_iters=20", "--eval_interval=10", "--eval_iters=4", "--log_interval=1",
    "--learning_rate=1e-2", "--warmup_iters=2", "--device=cpu", "--compile=False", "--out_dir=run",
]  # fmt: skip
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")


@dataclass
class Folder:
    """A working directory with a prepared dataset in it, and the program."""

    path: Path
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        threads = {"OMP_NUM_THREADS": "1"}  # tests run side by side
        return {key: value for key, value in os.environ.items() if key != "RANK"} | threads | self.extra

    def start(self, *words: str, module: tuple[str, ...] = (), **options: object) -> subprocess.Popen[str]:
        command = [sys.executable, *module, "-m", "nanoscope", *words]
        return subprocess.Popen(
            command, cwd=self.path, env=self.environment, text=True, encoding="utf-8", stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options,
        )  # type: ignore[call-overload]  # fmt: skip

    def process(self, *words: str, module: tuple[str, ...] = (), status: int = 0, timeout: float = 240) -> str:
        """The program in a process of its own; its whole output."""
        process = self.start(*words, module=module)
        out, err = process.communicate(timeout=timeout)
        assert process.returncode == status, f"exit status {process.returncode}\n{out}\n{err}"
        assert "Traceback" not in out + err
        return out + err

    def run(self, *words: str, status: int = 0) -> str:
        """The same in this process: importing torch once for all tests, not once for each."""
        output = io.StringIO()
        with contextlib.chdir(self.path), redirect_stdout(output), redirect_stderr(output):
            found = cli.run(list(words))
        assert found == status, f"exit status {found}\n{output.getvalue()}"
        return output.getvalue()

    def train(self, *words: str, status: int = 0) -> str:
        return self.run("train", *TINY, *words, status=status)

    def events(self, run: str = "run", kind: str | None = None) -> list[dict[str, object]]:
        lines = (self.path / run / "events.jsonl").read_text("utf-8").splitlines()
        return [event for event in map(json.loads, lines) if kind in (None, event["event"])]

    def losses(self, run: str = "run") -> dict[int, float]:
        """Loss by step; where a step was done twice, the later one."""
        return {event["step"]: event["loss"] for event in self.events(run, "iter")}  # type: ignore[misc]

    def evaluations(self, run: str = "run") -> dict[int, tuple[float, float]]:
        return {e["step"]: (e["train_loss"], e["val_loss"]) for e in self.events(run, "eval")}  # type: ignore[misc]

    def weights(self, step: int, run: str = "run") -> bytes:
        return (self.path / run / f"checkpoints/step-{step:06d}/model.safetensors").read_bytes()

    def interrupt_after(self, line: str, *words: str, number: int = signal.SIGINT) -> tuple[int, str]:
        """Start training, send a signal when a line begins with `line`; exit status and the whole output."""
        process = self.start("train", *TINY, *words)
        seen = []
        assert process.stdout is not None
        for text in process.stdout:
            seen.append(text)
            if text.startswith(line):
                process.send_signal(number)
                break
        out, err = process.communicate(timeout=120)
        return process.returncode, "".join(seen) + out + err
