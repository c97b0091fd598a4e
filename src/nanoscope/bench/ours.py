"""What is measured of nanoscope, in a child process: python -m nanoscope.bench.ours TASK JSON.

Steps, evaluations and saves are those of a real run: the same session and the same loop. torch is imported inside
the tasks: memory is counted from there on, and one of them must set the environment before.
"""

import hashlib
import os
import platform
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from nanoscope import __version__
from nanoscope.bench.laps import Laps, answer, peak_resident_mb, resident_mb
from nanoscope.config import build
from nanoscope.config_sources import Resolved
from nanoscope.errors import JobError
from nanoscope.hardware.probe import probe_cpu_dtype
from nanoscope.training.phases import PhaseClock
from nanoscope.training.run_folder import read_pointer
from nanoscope.training.stopping import StopRequest
from nanoscope.views.progress import PlainView

if TYPE_CHECKING:
    from torch import Tensor

    from nanoscope.training.session import Session

NEVER = 10**9


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    import torch

    from nanoscope.hardware.device import look

    facts = look()
    return {
        "cpu": facts.cpu_name,
        "threads": facts.cpu_threads,
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "nanoscope": __version__,
    }


def peak(dtype: str) -> dict[str, Any]:
    """GFLOPS of a matmul; None where the CPU cannot do it, or only so slowly that measuring would take seconds."""
    if dtype != "float32":
        found = probe_cpu_dtype(dtype)
        if not found.works or (found.times_float32 or NEVER) > 10:
            return {"gflops": None}
        os.environ.update(found.environment)
    import torch

    from nanoscope.hardware.device import DTYPES, measure_peak

    flops = measure_peak(torch.device("cpu"), DTYPES[dtype])
    return {"gflops": flops and flops / 1e9}


def step(shape: dict[str, Any], dataset: str, seconds: float) -> dict[str, Any]:
    """The times of training steps, and the memory that the process took over what it had with torch alone."""
    import torch  # noqa: F401

    before_mb = resident_mb()
    session = _session(shape, dataset)
    laps = Laps(seconds)
    _train(session, laps.mark)
    return {"ms": laps.ms, "added_mb": peak_resident_mb() - before_mb}


def evaluation(shape: dict[str, Any], dataset: str, eval_iters: int) -> dict[str, Any]:
    session = _session(shape, dataset, eval_iters=eval_iters)
    session.loader.close()
    session.evaluator.evaluate(session.plain_model)  # warm-up
    began = time.perf_counter()
    session.evaluator.evaluate(session.plain_model)
    return {"seconds": time.perf_counter() - began}


def checkpoint(shape: dict[str, Any], dataset: str, seconds: float, quiet_steps: int) -> dict[str, Any]:
    """How long a save holds training up, and how long the same bytes take when training waits for them.

    blocked_ms: training stands still, in save() and before the next optimizer step. held_up_ms: that, and what the
    iterations until the checkpoint is on disk take longer than the quiet ones between, by their medians.
    """
    from nanoscope.training.saving import save

    session = _session(shape, dataset)
    copied = session.checkpoints.copied
    laps: dict[str, list[float]] = {"quiet": [], "writing": []}
    blocked_ms: list[float] = []
    now, quiet_laps, mark, began = "quiet", 0, time.perf_counter(), time.perf_counter()

    def stand_still(action: Callable[[], None]) -> None:
        start = time.perf_counter()
        action()
        if blocked_ms:
            blocked_ms[-1] += 1000 * (time.perf_counter() - start)

    def between() -> bool:
        nonlocal now, quiet_laps, mark
        laps[now].append(1000 * (time.perf_counter() - mark))
        quiet_laps = quiet_laps + 1 if now == "quiet" else 0
        if now == "writing" and read_pointer(session.folder.checkpoints, "last") == f"step-{session.saved_at:06d}":
            now = "quiet"
        elif quiet_laps == quiet_steps:
            now = "writing"
            blocked_ms.append(0.0)
            stand_still(lambda: save(session))
        mark = time.perf_counter()
        return now == "quiet" and mark - began > seconds

    session.checkpoints.copied = lambda: stand_still(copied)  # type: ignore[method-assign]
    _train(session, between)
    if not blocked_ms:
        raise JobError(f"{seconds:.0f} s were not enough for {quiet_steps} iterations")
    slower_ms = median(laps["writing"]) - median(laps["quiet"])
    return {
        "blocked_ms": median(blocked_ms),
        "held_up_ms": median(blocked_ms) + slower_ms * len(laps["writing"]) / len(blocked_ms),
        "synchronous_ms": median(_save_and_wait(session, Path("synchronous")) for _ in range(5)),
        "saves": len(blocked_ms),
    }


def sample(shape: dict[str, Any], tokens: int, streams: int) -> dict[str, Any]:
    import torch

    from nanoscope.generation.sampler import Sampling, generate
    from nanoscope.model import GPT, ModelConfig

    sizes = {key: value for key, value in shape.items() if key != "batch_size"}
    model = GPT(ModelConfig(vocab_size=65, recipe="classic", **sizes))
    prompt = torch.zeros(streams, 1, dtype=torch.int64)
    for count in (10, tokens):  # the first few warm up
        began = time.perf_counter()
        for _ in generate(model, prompt, Sampling(max_new_tokens=count, temperature=0.8, top_k=200), 65):
            pass
    return {"seconds": time.perf_counter() - began}


def loss(dataset: str, block_size: int, run: str | None = None, nanogpt: str | None = None) -> dict[str, Any]:
    """The loss over the whole validation split, for a run's last checkpoint or for nanoGPT's: the same windows."""
    import torch

    from nanoscope.data.dataset import open_dataset
    from nanoscope.generation.write import load_model
    from nanoscope.interop.nanogpt import load_nanogpt
    from nanoscope.training.distributed import Processes
    from nanoscope.training.evaluate import Evaluator
    from nanoscope.training.restore import find_checkpoint

    model = load_nanogpt(nanogpt) if nanogpt else load_model(find_checkpoint(Path(run or ""))[0])
    if model.config.block_size < block_size:
        raise JobError(f"a context of {model.config.block_size} cannot be compared over windows of {block_size}")
    evaluator = Evaluator(
        {"val": open_dataset(dataset).split("val")}, block_size=block_size, windows=None,
        vocab_size=model.config.vocab_size, device=torch.device("cpu"), autocast=nullcontext, processes=Processes(),
    )  # fmt: skip
    found = evaluator.evaluate(model)
    assert found is not None
    return {"loss": found["val"].loss, "windows": found["val"].windows}


def _session(shape: dict[str, Any], dataset: str, *, eval_iters: int = 1) -> "Session":
    """A run of the classic recipe on the CPU, as `nanoscope train` starts it, that evaluates and saves only if told."""
    from nanoscope.training.session import start_session

    values = {"recipe": "classic", "device": "cpu", "dtype": "float32", "gradient_accumulation_steps": 1}
    values |= {"dataset": dataset, "out_dir": "run", "overwrite": True, "compile": False, "eval_iters": eval_iters}
    values |= {"max_iters": NEVER, "eval_interval": NEVER, **shape}
    session = start_session(
        Resolved(build(values), "run", {}, values), lambda total, first: PlainView(silent=True), PhaseClock()
    )
    session.progress.evaluated_at = 0  # so that the loop begins with a step
    return session


class _Enough(Exception):  # noqa: N818  no error
    """Ends the training loop without the save that a run's end brings."""


class _Between(StopRequest):
    """The loop asks before each iteration whether to stop: the moment to look at the clock, to save, or to leave."""

    def __init__(self, session: "Session", enough: Callable[[], bool]) -> None:
        super().__init__()
        self.session, self.enough, self.asked_at = session, enough, -1

    @property
    def requested(self) -> bool:
        step = self.session.progress.step
        if step != self.asked_at and self.enough():
            raise _Enough
        self.asked_at = step
        return False


def _train(session: "Session", enough: Callable[[], bool]) -> None:
    """The real loop, with `enough` called between iterations until it says so."""
    from nanoscope.training.trainer import train

    try:
        train(session, _Between(session, enough))
    except _Enough:
        session.loader.close()


def _save_and_wait(session: "Session", folder: Path) -> float:
    """Milliseconds for the state as safetensors, with checksums, on disk: what a checkpoint holds, while all wait."""
    from safetensors.torch import save_file

    folder.mkdir(exist_ok=True)
    names: dict[Tensor, str] = {parameter: name for name, parameter in session.plain_model.named_parameters()}
    began = time.perf_counter()
    weights = {name: parameter.detach() for parameter, name in names.items()}
    moments = {
        f"{names[parameter]}.{key}": value
        for parameter, values in session.optimizer.state.items()
        for key, value in values.items()
    }
    for name, tensors in (("model", weights), ("optimizer", moments)):
        path = folder / f"{name}.safetensors"
        save_file(tensors, path)
        with path.open("rb+") as file:
            hashlib.file_digest(file, "sha256")
            os.fsync(file.fileno())
    return 1000 * (time.perf_counter() - began)


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "machine": machine,
    "peak": peak,
    "step": step,
    "evaluation": evaluation,
    "checkpoint": checkpoint,
    "sample": sample,
    "loss": loss,
}

if __name__ == "__main__":
    answer(TASKS)
