"""What limits the speed of an iteration, judged by what was measured."""

from dataclasses import dataclass
from statistics import median
from typing import Literal

from nanoscope.messages import Text
from nanoscope.planning.steps import StepTimes

Limit = Literal["arithmetic", "memory", "overhead", "data"]

DATA_SHARE = 0.1  # of an iteration spent waiting for batches
OVERHEAD_SHARE = 0.25  # of a pass that does not depend on the number of sequences
BUSY_SHARE = 0.4  # of the peak of large matmuls, above which little else can be going on


@dataclass(frozen=True)
class Judgement:
    limit: Limit
    reason: Text


def judge(times: StepTimes, step_seconds: float, block_size: int) -> Judgement:
    """The first of these that holds: data, overhead, arithmetic; else memory bandwidth, by exclusion."""
    waiting = median(times.data_seconds) / step_seconds
    if waiting > DATA_SHARE:
        return Judgement("data", Text("{share:.0%} of an iteration is waiting for batches", share=waiting))
    whole = times.micro_seconds(times.micro_batch)
    fixed = None
    if times.half_seconds:
        half = times.micro_batch // 2
        per_sequence = (whole - median(times.half_seconds)) / (times.micro_batch - half)
        fixed = max(whole - times.micro_batch * per_sequence, 0.0) / whole
        if fixed > OVERHEAD_SHARE:
            return Judgement(
                "overhead",
                Text(
                    "{share:.0%} of the time of a forward and backward pass does not depend on its number of sequences",
                    share=fixed,
                ),
            )
    tokens_per_second = times.micro_batch * block_size / whole
    used = times.flops_per_token * tokens_per_second / times.peak_flops if times.peak_flops else None
    if used is None:
        return Judgement(
            "arithmetic", Text("the peak of this device is unknown; the time of a pass grows with its sequences")
        )
    if used >= BUSY_SHARE:
        return Judgement("arithmetic", Text("passes reach {share:.0%} of the peak of large matmuls", share=used))
    return Judgement(
        "memory",
        Text(
            "passes reach only {share:.0%} of the peak of large matmuls, and their time grows with their sequences: "
            "most of it goes into moving activations and weights",
            share=used,
        ),
    )
