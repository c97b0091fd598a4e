"""The table of peaks: every row makes sense, and a device gets its own row or none."""

import tomllib
from collections import Counter
from importlib import resources
from typing import Any

import pytest

from nanoscope.hardware.peaks import Peak, find_peak, known_peaks

ROWS: list[dict[str, Any]] = tomllib.loads((resources.files("nanoscope.hardware") / "peaks.toml").read_text("utf-8"))[
    "device"
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_a_row_has_a_source_and_plausible_speeds(row: dict[str, Any]) -> None:
    peak = Peak(**{key: value for key, value in row.items() if key != "aliases"})
    assert len(peak.source) > 5
    assert peak.fp32_tflops is not None
    assert 1 < peak.fp32_tflops < 5000
    for half in (peak.bf16_tflops, peak.fp16_tflops):
        assert half is None or peak.fp32_tflops <= half <= 10 * peak.fp32_tflops


def test_no_alias_stands_for_two_devices() -> None:
    counted = Counter(alias for row in ROWS for alias in row["aliases"])
    assert [alias for alias, times in counted.items() if times > 1] == []
    assert len(known_peaks()) == len(counted)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_a_row_is_found_by_each_of_its_aliases(row: dict[str, Any]) -> None:
    for alias in row["aliases"]:
        found = find_peak(alias)
        assert found is not None
        assert found.name == row["name"]


@pytest.mark.parametrize(
    ("reported", "name"),
    [
        ("NVIDIA A100-SXM4-40GB", "NVIDIA A100"),
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100"),
        ("NVIDIA A100-PCIE-40GB", "NVIDIA A100"),
        ("NVIDIA A100 80GB PCIe", "NVIDIA A100"),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H200 / H100 SXM"),
        ("NVIDIA H100 PCIe", "NVIDIA H100 PCIe"),
        ("NVIDIA H200", "NVIDIA H200 / H100 SXM"),
        ("NVIDIA GH200 480GB", "NVIDIA GH200"),
        ("NVIDIA B200", "NVIDIA B200"),
        ("Tesla T4", "NVIDIA T4"),
        ("Tesla V100-SXM2-16GB", "NVIDIA V100"),
        ("Tesla V100-PCIE-32GB", "NVIDIA V100 PCIe"),
        ("Tesla P100-PCIE-16GB", "NVIDIA P100"),
        ("NVIDIA A10G", "NVIDIA A10G"),
        ("NVIDIA A10", "NVIDIA A10"),
        ("NVIDIA L4", "NVIDIA L4"),
        ("NVIDIA RTX A6000", "NVIDIA RTX A6000"),
        ("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090"),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", "NVIDIA GeForce RTX 4070 Ti Super"),
        ("NVIDIA GeForce RTX 3060 Ti", "NVIDIA GeForce RTX 3060 Ti"),
        ("RTX 4070 Ti", "NVIDIA GeForce RTX 4070 Ti"),
        ("4070ti", "NVIDIA GeForce RTX 4070 Ti"),
        ("rtx-3090 24GB", "NVIDIA GeForce RTX 3090"),
        ("GeForce RTX 2080 Ti", "NVIDIA GeForce RTX 2080 Ti"),
        ("Apple M1 Pro", "Apple M1 Pro"),
    ],
)
def test_a_device_is_found_as_torch_or_a_person_names_it(reported: str, name: str) -> None:
    found = find_peak(reported)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    "reported",
    [
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 3080 with Max-Q Design",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "NVIDIA H100 NVL",
        "NVIDIA RTX 6000 Ada Generation",
        "NVIDIA A1000",
        "NVIDIA A100X",
        "NVIDIA GeForce GTX 1080 Ti",
        "Tesla V100S-PCIE-32GB",
        "AMD Radeon RX 7900 XTX",
        "Intel(R) Xeon(R) CPU @ 2.20GHz",
        "AMD EPYC, 2 threads",
        "Apple M9",
        "",
        "GPU",
    ],
)
def test_a_device_that_is_not_in_the_table_is_not_taken_for_its_neighbour(reported: str) -> None:
    assert find_peak(reported) is None


def test_a_dtype_that_a_device_lacks_has_no_peak() -> None:
    turing = find_peak("Tesla T4")
    assert turing is not None
    assert turing.flops("bfloat16") is None
    assert turing.flops("float16") == 65e12
