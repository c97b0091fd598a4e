"""The peak matmul speed of known devices (peaks.toml); imports no torch."""

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True)
class Peak:
    """Dense matmul speed of a device, in TFLOPS; None where the device has no such format."""

    name: str
    source: str
    bf16_tflops: float | None = None
    fp16_tflops: float | None = None
    fp32_tflops: float | None = None

    def flops(self, dtype: str) -> float | None:
        """FLOP/s in 'bfloat16', 'float16' or 'float32'."""
        tflops = {"bfloat16": self.bf16_tflops, "float16": self.fp16_tflops, "float32": self.fp32_tflops}[dtype]
        return None if tflops is None else tflops * 1e12


@cache
def known_peaks() -> dict[str, Peak]:
    """Peaks by alias, the longest alias first."""
    rows = tomllib.loads((resources.files("nanoscope.hardware") / "peaks.toml").read_text("utf-8"))["device"]
    by_alias = {alias: Peak(**{k: v for k, v in row.items() if k != "aliases"}) for row in rows for alias in row["aliases"]}
    return dict(sorted(by_alias.items(), key=lambda item: -len(item[0])))


def find_peak(name: str) -> Peak | None:
    """The row for a device named as torch, nvidia-smi or a person names it ('RTX 4070 Ti', '4070ti'), or None.

    A part that the table does not have ('4070 Laptop', 'RTX 4500') is not its neighbour: it is unknown.
    """
    plain = re.sub(r"[^a-z0-9]", "", re.sub(r"\(.*?\)", "", name.lower()))
    plain = re.sub(r"\d+gb(?=$|hbm\d|pcie|sxm)", "", plain)  # memory sizes do not tell cards apart
    for vendor in ("nvidia", "geforce", "tesla", "gpu", "graphics", "card"):
        plain = plain.replace(vendor, "")
    for alias, peak in known_peaks().items():
        rest = plain.removeprefix("apple").removeprefix(alias.removeprefix("apple"))
        if plain.removeprefix("apple").startswith(alias.removeprefix("apple")) and _only_form_factor(rest):
            return peak
    return None


def _only_form_factor(rest: str) -> bool:
    return re.fullmatch(r"(sxm\d?|pcie|hbm\de?|\d+gb|x\d+|nvl)*", rest) is not None
