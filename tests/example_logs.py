"""Logs in nanoGPT's shape, with the numbers of the questions that nanoscope was made to answer."""

import math

# 6000 iterations are planned; iteration 100 took 3995.11 ms.
WAITING = "iter 0: loss 10.8721, time 41211.07ms, mfu -100.00%\niter 100: loss 7.0184, time 3995.11ms, mfu 3.02%\n"

# The end of a run on a 4070 Ti, and of one on a laptop.
GPU_END = """\
iter 4980: loss 0.8010, time 33.22ms, mfu 11.07%
iter 4990: loss 0.8212, time 33.23ms, mfu 11.09%
step 5000: train loss 0.6224, val loss 1.7044
iter 5000: loss 0.8236, time 4446.83ms, mfu 9.99%
"""
LAPTOP_END = """\
iter 1980: loss 1.7021, time 116.22ms, mfu 0.01%
iter 1990: loss 1.7104, time 118.90ms, mfu 0.01%
step 2000: train loss 1.7648, val loss 1.8857
iter 2000: loss 1.6958, time 1505.10ms, mfu 0.01%
"""

# How people quote a run when they ask about its slow steps: the usual lines, then the slow ones, without losses …
QUOTED = """\
iter 100: time 168ms
iter 200: time 170ms
...
iter 900: time 168ms

iter 0: time 12543ms
iter 500: time 5985ms
iter 1000: time 5726ms
"""
# … and what comes before those.
QUOTED_EVALUATIONS = """
step 500: train loss..., val loss...
saving checkpoint
iter 500: loss..., time 5985ms

step 1000: train loss..., val loss...
saving checkpoint
iter 1000: loss..., time 5726ms
"""


def spiky() -> str:
    """168 ms a step, but 12543, 5985 and 5726 ms at steps 0, 500 and 1000, and so on."""
    lines = []
    for step in range(0, 10_001, 100):
        loss = 4.0 + 6.9 * math.exp(-step / 700)
        milliseconds = 168.0 + step % 300 / 100
        if step % 500 == 0:
            milliseconds = {0: 12543.49, 500: 5985.31, 1000: 5726.97}.get(step, 5850.0)
            lines.append(f"step {step}: train loss {loss - 0.01:.4f}, val loss {loss:.4f}")
            if step:
                lines.append("saving checkpoint to out")
        mfu = -100.0 if step < 500 else 9.7
        lines.append(f"iter {step}: loss {loss:.4f}, time {milliseconds:.2f}ms, mfu {mfu:.2f}%")
    return "\n".join(lines) + "\n"


def laptop() -> str:
    """2000 steps of a small model on a CPU, to 1.7648 / 1.8857."""
    settings = "device=cpu n_layer=4 n_head=4 n_embd=128 batch_size=12 block_size=64 max_iters=2000 dropout=0.0"
    return _run(
        settings, 768, 2000, 1.7648, 1.8857, best_step=2000, best=1.8857, step_ms=116.0, eval_ms=1505.0, mfu=0.01
    )


def gpu() -> str:
    """5000 steps of nanoGPT's small model on a 4070 Ti, to 0.6224 / 1.7044, with its best (1.4697) at step 1750."""
    settings = "device=cuda n_layer=6 n_head=6 n_embd=384 batch_size=64 block_size=256 max_iters=5000 dropout=0.2"
    head = "NVIDIA GeForce RTX 4070 Ti\n"
    return head + _run(
        settings, 16384, 5000, 0.6224, 1.7044, best_step=1750, best=1.4697, step_ms=33.22, eval_ms=4446.83, mfu=11.07
    )


def _run(
    settings: str, tokens: int, steps: int, train: float, val: float,
    *, best_step: int, best: float, step_ms: float, eval_ms: float, mfu: float,
) -> str:  # fmt: skip
    lines = [f"Overriding: {setting.replace('=', ' = ')}" for setting in settings.split()]
    lines += [f"tokens per iteration will be: {tokens:,}", "found vocab_size = 65 (inside meta.pkl)"]
    for step in range(0, steps + 1, 10):
        falling = 2.4 * math.exp(-step / (steps / 9))
        train_now = train + 0.9 * (1 - step / steps) + falling
        val_now = (
            best + falling * (step < best_step) + (val - best) * max(0, step - best_step) / max(1, steps - best_step)
        )
        evaluates = step % 250 == 0
        if evaluates:
            lines.append(f"step {step}: train loss {train_now if step < steps else train:.4f}, val loss {val_now:.4f}")
            if step and step <= best_step:
                lines.append("saving checkpoint to out-shakespeare-char")
        wobble = 0.03 * math.sin(step)
        time_ms = eval_ms if evaluates else step_ms + step % 3 / 100
        lines.append(f"iter {step}: loss {train_now + 0.1 + wobble:.4f}, time {time_ms:.2f}ms, mfu {mfu:.2f}%")
    return "\n".join(lines) + "\n"
