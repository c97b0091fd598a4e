"""Folders of runs as training would have left them, written in a moment."""

import math
from pathlib import Path

from nanoscope.runs.events import EventWriter

HOSTILE = (
    '</script><script>window.hacked = 1</script><img src=x onerror="window.hacked=2">'
    " '\"` \u2028\u2029 \x1b[31mred\x1b]0;title\x07"
)


def write_run(folder: Path, steps: int = 300, *, hostile: bool = False, slow_every: int = 100) -> Path:
    """A run with evaluations every 50 steps, its best at two thirds, a slow step now and then, notes and samples."""
    folder.mkdir(parents=True, exist_ok=True)
    text = HOSTILE if hostile else "plain"
    events = EventWriter(folder / "events.jsonl")
    config = {"max_iters": steps, "batch_size": 12, "block_size": 64, "dataset": text, "learning_rate": 1e-3}
    events.write(
        "start", version=1, run="run", config=config, device="cpu", platform=text, first_step=0, parameters=795904,
        tokens_per_step=768, vocab_size=65,
    )  # fmt: skip
    best = 2 * steps // 3
    for step in range(steps + 1):
        if step % max(steps // 20, 1) == 0:
            val = 1.5 + 2.5 * math.exp(-6 * step / steps) + max(0, step - best) / steps
            events.write(
                "eval", step=step, train_loss=val - 0.1 - step / steps, val_loss=val, val_stderr=0.02, seconds=0.4
            )
        if step == steps:
            break
        slow = step % slow_every == slow_every // 2
        events.write(
            "iter", step=step, loss=1.0 + 3 * math.exp(-6 * step / steps) + 0.05 * math.sin(step), lr=1e-3,
            seconds=2.5 if slow else 0.05 + step % 7 / 1e4, grad_norm=1 + step % 5 / 10, mfu=0.4,
            tokens_per_second=15000.0, eta_seconds=(steps - step) * 0.05,
        )  # fmt: skip
    events.write("spike", step=steps // 2, loss=3.5, usual=2.0, score=9.0)
    events.write("slow_step", step=slow_every // 2, seconds=2.5, usual=0.05, cause="asleep")
    events.write("checkpoint_failed", step=steps // 2, message=text)
    phases = {"startup": 2.0, "step": steps * 0.05, "eval": 8.4, "checkpoint": 0.5}
    events.write("end", reason="finished", step=steps, wall_seconds=sum(phases.values()), phases=phases)
    events.file.close()
    (folder / "samples").mkdir(exist_ok=True)
    for step in (0, steps):
        (folder / f"samples/step-{step:06d}.txt").write_text(f"ROMEO, at {step}: {text}", "utf-8")
    return folder
