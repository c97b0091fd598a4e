"""Known devices: their peak matmul speed, memory and bandwidth, from peaks.toml. Imports no torch."""

import re
import tomllib
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, Literal

from nanoscope.errors import UsageError
from nanoscope.suggest import did_you_mean


@dataclass(frozen=True)
class KnownDevice:
    """One row. Speeds are of dense matmuls, in TFLOPS; None for a dtype that the device lacks or is too slow in."""

    name: str
    aliases: tuple[str, ...]
    """How it is written without vendor, memory size, spaces and signs."""
    kind: Literal["cuda", "mps", "tpu"]
    source: str
    sizes_gb: tuple[int, ...]
    """Memory sizes that it is sold with, the smallest first; only one if the name said which."""
    bandwidth_gb_s: float
    bf16_tflops: float | None = None
    fp16_tflops: float | None = None
    fp32_tflops: float | None = None
    lowest_power: float = 1.0
    """The share of these speeds that is left at the lowest power limit of a laptop part."""

    @property
    def memory_gb(self) -> int:
        return self.sizes_gb[0]

    @property
    def label(self) -> str:
        """The name with the size of its memory, which tells rows of the same name apart."""
        return f"{self.name} {self.memory_gb}GB"

    def flops(self, dtype: str) -> float | None:
        """Return FLOP/s in 'bfloat16', 'float16' or 'float32'."""
        tflops = {"bfloat16": self.bf16_tflops, "float16": self.fp16_tflops, "float32": self.fp32_tflops}[dtype]
        return None if tflops is None else tflops * 1e12


# Words in device names that do not affect the speed. 480 GB is what torch calls GH200: the memory of its CPU.
NOISE = re.compile(r"nvidia|geforce|tesla|apple|amd|google|gpu|graphics|card|480gb|hbm\d?e?|sxm\d?")
MEMORY = re.compile(r"(\d+)(?:g|gb|gib)")


@cache
def known_devices() -> dict[str, list[KnownDevice]]:
    """Return the rows by alias: several where only the size of the memory tells them apart."""
    groups = tomllib.loads((resources.files("nanoscope.hardware") / "peaks.toml").read_text("utf-8"))["group"]
    found: dict[str, list[KnownDevice]] = {}
    for group in groups:
        for row in group["devices"]:
            lists: dict[str, Any] = {key: tuple(row.pop(key)) for key in ("aliases", "sizes_gb")}
            device = KnownDevice(kind=group["kind"], **row, **lists)
            for alias in device.aliases:
                found.setdefault(alias, []).append(device)
    return found


def all_devices() -> list[KnownDevice]:
    """Return every row once, in the order of the table."""
    return list(dict.fromkeys(device for rows in known_devices().values() for device in rows))


def find_device(name: str) -> KnownDevice | None:
    """Return the row of a device as named by torch, nvidia-smi or a person ('RTX 4070 Ti', '4070ti'), or None.

    Names must match in full: 'RTX 4500' and '4070 SUPER' are not the '4090' and the '4070'. A size of memory that the
    device is not sold with makes it another device.
    """
    written = re.sub(r"(\d) (gi?b)\b", r"\1\2", name.lower())
    words = [word for word in re.findall(r"[a-z0-9]+", written) if not NOISE.fullmatch(word)]
    sizes = [int(found[1]) for word in words if (found := MEMORY.fullmatch(word))]
    plain = "".join(word for word in words if not MEMORY.fullmatch(word))
    rows = known_devices().get(plain, [])
    if not sizes:
        return rows[0] if rows else None
    fitting = [row for row in rows if set(sizes) == {sizes[0]} and sizes[0] in row.sizes_gb]
    return replace(fitting[0], sizes_gb=(sizes[0],)) if fitting else None


def named_device(name: str) -> KnownDevice:
    """Return the row of a device that somebody typed; UsageError if there is none."""
    if (found := find_device(name)) is not None:
        return found
    labels = {row.name: row.label for row in all_devices()}  # a bare name, or one with a size
    names = [re.sub(r"^(NVIDIA |AMD |Google )?(GeForce |Instinct |Radeon )?", "", each) for each in labels]
    hint = did_you_mean(name, [*names, *labels, *labels.values()])
    raise UsageError(
        "unknown device {name!r}.{hint}\n`nanoscope plan --all_devices` lists the {count} that are known.",
        name=name,
        hint=hint,
        count=len(all_devices()),
    )
