"""The peak matmul speed of known devices, from peaks.toml. Imports no torch."""

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True)
class Peak:
    """Dense matmul speed of a device in TFLOPS; None for a dtype that it does not support."""

    name: str
    source: str
    bf16_tflops: float | None = None
    fp16_tflops: float | None = None
    fp32_tflops: float | None = None

    def flops(self, dtype: str) -> float | None:
        """Return FLOP/s in 'bfloat16', 'float16' or 'float32'."""
        tflops = {"bfloat16": self.bf16_tflops, "float16": self.fp16_tflops, "float32": self.fp32_tflops}[dtype]
        return None if tflops is None else tflops * 1e12


# Words in device names that do not affect the speed.
NOISE = re.compile(r"nvidia|geforce|tesla|apple|gpu|graphics|card|\d+g[bi]?b?|hbm3e?|sxm\d?")


@cache
def known_peaks() -> dict[str, Peak]:
    """Return the peaks by alias."""
    rows = tomllib.loads((resources.files("nanoscope.hardware") / "peaks.toml").read_text("utf-8"))["device"]
    return {alias: Peak(**{k: v for k, v in row.items() if k != "aliases"}) for row in rows for alias in row["aliases"]}


def find_peak(name: str) -> Peak | None:
    """Return the row of a device as named by torch, nvidia-smi or a person ('RTX 4070 Ti', '4070ti'), or None.

    Names must match in full: '4070 Laptop' and 'RTX 4500' are not the '4070' and the '4090'.
    """
    words = re.findall(r"[a-z0-9]+", name.lower())
    plain = "".join(word for word in words if not NOISE.fullmatch(word))
    return known_peaks().get(plain) or known_peaks().get(plain.removesuffix("pcie"))
