"""The table of devices: every row makes sense, and a device gets its own row or none."""

import re
import tomllib
from importlib import resources
from itertools import pairwise
from typing import Any

import pytest

from nanoscope.errors import UsageError
from nanoscope.hardware.peaks import all_devices, find_device, known_devices, named_device

GROUPS: list[dict[str, Any]] = tomllib.loads((resources.files("nanoscope.hardware") / "peaks.toml").read_text("utf-8"))[
    "group"
]
ROWS = [(group, row) for group in GROUPS for row in group["devices"]]
CLOCKS = re.compile(r"(\d+) cores × 2 × ([\d.]+) GHz")


def test_the_table_has_the_devices_people_train_on() -> None:
    assert len({row["name"] for _, row in ROWS}) >= 60
    assert len(all_devices()) == len(ROWS)


@pytest.mark.parametrize(("group", "row"), ROWS, ids=lambda each: each["name"])
def test_a_row_has_a_source_and_plausible_figures(group: dict[str, Any], row: dict[str, Any]) -> None:
    assert len(row["source"]) > 5
    assert 60 < row["bandwidth_gb_s"] <= 8000
    sizes = row["sizes_gb"]
    assert sizes == sorted(sizes)
    assert all(1 < size <= 512 for size in sizes)
    full, halves = row.get("fp32_tflops"), [row.get("bf16_tflops"), row.get("fp16_tflops")]
    assert full is None or 1 < full <= 1250
    assert all(half is None or full is None or full <= half <= 17 * full for half in halves)
    assert 0.5 <= row.get("lowest_power", 1) <= 1
    assert ("lowest_power" in row) == ("Laptop" in row["name"])


@pytest.mark.parametrize(("group", "row"), ROWS, ids=lambda each: each["name"])
def test_a_row_follows_from_its_cores_and_the_ratios_of_its_architecture(
    group: dict[str, Any], row: dict[str, Any]
) -> None:
    """Data centre GPUs clock their tensor cores differently, so their figures are those of the data sheets."""
    cores = CLOCKS.search(row["source"])
    if cores is not None:
        plain = int(cores[1]) * 2 * float(cores[2]) / 1000
        assert row["fp32_tflops"] == pytest.approx(group["tf32_per_fp32"] * plain, rel=0.005)
    if "half_per_fp32" in group:
        ratio = group["half_per_fp32"] / group["tf32_per_fp32"]
        assert row["fp16_tflops"] == pytest.approx(ratio * row["fp32_tflops"], rel=0.005)
        assert row.get("bf16_tflops", row["fp16_tflops"]) == row["fp16_tflops"]


def test_a_laptop_part_is_slower_than_the_card_of_the_same_number() -> None:
    laptops = [device for device in all_devices() if device.name.endswith("Laptop")]
    assert len(laptops) >= 15
    for laptop in laptops:
        card = find_device(laptop.name.removesuffix(" Laptop"))
        if card is None:  # there is no such card
            assert laptop.name.removesuffix(" Laptop")[-7:] in ("3050 Ti", "TX 4050")
            continue
        assert laptop.bandwidth_gb_s <= card.bandwidth_gb_s
        low = laptop.fp32_tflops * laptop.lowest_power
        assert low < card.fp32_tflops  # the RTX 3060 Laptop has more cores than the card: at full power it is on a par
        assert laptop.fp32_tflops < 1.04 * card.fp32_tflops


@pytest.mark.parametrize(
    ("faster", "slower"),
    [*pairwise(["5090", "5080", "5070 Ti", "5070", "5060 Ti", "5060", "5050"]),
     *pairwise(["4090", "4080 SUPER", "4080", "4070 Ti SUPER", "4070 Ti", "4070 SUPER", "4070", "4060 Ti", "4060"]),
     *pairwise(["3090 Ti", "3090", "3080 Ti", "3080", "3070 Ti", "3070", "3060 Ti", "3060", "3050"]),
     *pairwise(["GB200", "B200", "B100", "H100", "A100", "V100", "T4"]),
     *pairwise(["M1 Ultra", "M1 Max", "M1 Pro", "M1"]), *pairwise(["M4 Max", "M4 Pro", "M4"])],
)  # fmt: skip
def test_the_order_within_a_family_is_the_makers(faster: str, slower: str) -> None:
    first, second = named_device(faster), named_device(slower)
    assert first.fp16_tflops > second.fp16_tflops


def test_no_alias_stands_for_two_devices_that_a_size_does_not_tell_apart() -> None:
    for alias, rows in known_devices().items():
        assert len({row.name for row in rows}) == 1, alias
        sizes = [size for row in rows for size in row.sizes_gb]
        assert len(sizes) == len(set(sizes)), alias


@pytest.mark.parametrize(("group", "row"), ROWS, ids=lambda each: each["name"])
def test_a_row_is_found_by_each_of_its_aliases_and_by_its_full_name(group: dict[str, Any], row: dict[str, Any]) -> None:
    sizes = row["sizes_gb"]
    for name in (*row["aliases"], row["name"]):
        found = find_device(f"{name} {sizes[-1]}GB")
        assert found is not None
        assert (found.name, found.sizes_gb, found.source) == (row["name"], (sizes[-1],), row["source"])


@pytest.mark.parametrize(
    ("reported", "label"),
    [
        ("NVIDIA A100-SXM4-40GB", "NVIDIA A100 40GB"),
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB"),
        ("NVIDIA A100-PCIE-40GB", "NVIDIA A100 PCIe 40GB"),
        ("NVIDIA A100 80GB PCIe", "NVIDIA A100 PCIe 80GB"),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB"),
        ("NVIDIA H100 PCIe", "NVIDIA H100 PCIe 80GB"),
        ("NVIDIA H100 NVL", "NVIDIA H100 NVL 94GB"),
        ("NVIDIA H200", "NVIDIA H200 141GB"),
        ("NVIDIA GH200 480GB", "NVIDIA GH200 96GB"),
        ("NVIDIA GH200 144G HBM3e", "NVIDIA GH200 144GB"),
        ("NVIDIA B200", "NVIDIA B200 180GB"),
        ("NVIDIA GB200", "NVIDIA GB200 186GB"),
        ("Tesla T4", "NVIDIA T4 16GB"),
        ("Tesla P4", "NVIDIA P4 8GB"),
        ("Tesla P40", "NVIDIA P40 24GB"),
        ("Tesla V100-SXM2-16GB", "NVIDIA V100 16GB"),
        ("Tesla V100-SXM2-32GB", "NVIDIA V100 32GB"),
        ("Tesla V100-PCIE-32GB", "NVIDIA V100 PCIe 32GB"),
        ("Tesla V100S-PCIE-32GB", "NVIDIA V100S 32GB"),
        ("Tesla P100-SXM2-16GB", "NVIDIA P100 16GB"),
        ("Tesla P100-PCIE-16GB", "NVIDIA P100 PCIe 16GB"),
        ("NVIDIA A10G", "NVIDIA A10G 24GB"),
        ("NVIDIA A10", "NVIDIA A10 24GB"),
        ("NVIDIA A40", "NVIDIA A40 48GB"),
        ("NVIDIA L4", "NVIDIA L4 24GB"),
        ("NVIDIA L40", "NVIDIA L40 48GB"),
        ("NVIDIA L40S", "NVIDIA L40S 48GB"),
        ("NVIDIA RTX A4000", "NVIDIA RTX A4000 16GB"),
        ("NVIDIA RTX A5000", "NVIDIA RTX A5000 24GB"),
        ("NVIDIA RTX A6000", "NVIDIA RTX A6000 48GB"),
        ("NVIDIA RTX 5000 Ada Generation", "NVIDIA RTX 5000 Ada 32GB"),
        ("NVIDIA RTX 6000 Ada Generation", "NVIDIA RTX 6000 Ada 48GB"),
        ("Quadro RTX 5000", "NVIDIA Quadro RTX 5000 16GB"),
        ("Quadro RTX 8000", "NVIDIA Quadro RTX 8000 48GB"),
        ("NVIDIA TITAN RTX", "NVIDIA TITAN RTX 24GB"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "NVIDIA RTX PRO 6000 Blackwell 96GB"),
        ("NVIDIA GeForce RTX 5090", "NVIDIA GeForce RTX 5090 32GB"),
        ("NVIDIA GeForce RTX 5090 Laptop GPU", "NVIDIA GeForce RTX 5090 Laptop 24GB"),
        ("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090 24GB"),
        ("NVIDIA GeForce RTX 4090 D", "NVIDIA GeForce RTX 4090 D 24GB"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GeForce RTX 4090 Laptop 16GB"),
        ("NVIDIA GeForce RTX 4070 SUPER", "NVIDIA GeForce RTX 4070 SUPER 12GB"),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", "NVIDIA GeForce RTX 4070 Ti SUPER 16GB"),
        ("NVIDIA GeForce RTX 4060 Ti", "NVIDIA GeForce RTX 4060 Ti 8GB"),
        ("NVIDIA GeForce RTX 3060", "NVIDIA GeForce RTX 3060 12GB"),
        ("NVIDIA GeForce RTX 3060 Ti", "NVIDIA GeForce RTX 3060 Ti 8GB"),
        ("NVIDIA GeForce RTX 3060 Laptop GPU", "NVIDIA GeForce RTX 3060 Laptop 6GB"),
        ("GeForce RTX 2080 Ti", "NVIDIA GeForce RTX 2080 Ti 11GB"),
        ("NVIDIA GeForce GTX 1660 SUPER", "NVIDIA GeForce GTX 1660 SUPER 6GB"),
        ("NVIDIA GeForce GTX 1660", "NVIDIA GeForce GTX 1660 6GB"),
        ("GeForce GTX 1060 3GB", "NVIDIA GeForce GTX 1060 3GB"),
        ("GeForce GTX 1060 6GB", "NVIDIA GeForce GTX 1060 6GB"),
        ("NVIDIA TITAN Xp", "NVIDIA TITAN Xp 12GB"),
        ("AMD Instinct MI300X", "AMD Instinct MI300X 192GB"),
        ("AMD Instinct MI250X", "AMD Instinct MI250X 64GB"),
        ("AMD Radeon RX 7900 XTX", "AMD Radeon RX 7900 XTX 24GB"),
        ("Apple M1 Pro", "Apple M1 Pro 16GB"),
        ("Apple M2 Pro GPU", "Apple M2 Pro 16GB"),
        ("RTX 4070 Ti", "NVIDIA GeForce RTX 4070 Ti 12GB"),
        ("4070ti", "NVIDIA GeForce RTX 4070 Ti 12GB"),
        ("rtx-3090 24GB", "NVIDIA GeForce RTX 3090 24GB"),
        ("RTX 4060 Ti 16 GB", "NVIDIA GeForce RTX 4060 Ti 16GB"),
        ("3080 12gb", "NVIDIA GeForce RTX 3080 12GB"),
        ("TPU v5e", "Google TPU v5e 16GB"),
    ],
)
def test_a_device_is_found_as_torch_or_a_person_names_it(reported: str, label: str) -> None:
    found = find_device(reported)
    assert found is not None
    assert found.label == label


@pytest.mark.parametrize(
    "reported",
    [
        "NVIDIA GeForce RTX 3080 with Max-Q Design",
        "NVIDIA GeForce RTX 4050",
        "NVIDIA GeForce RTX 5090 D",
        "NVIDIA GeForce RTX 3090 12GB",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "NVIDIA A100-SXM-64GB",
        "NVIDIA RTX 6000",
        "RTX 5000",
        "NVIDIA A1000",
        "NVIDIA A100X",
        "NVIDIA A800-SXM4-80GB",
        "NVIDIA H20",
        "NVIDIA L2",
        "AMD Radeon RX 7900 XT",
        "Intel(R) Xeon(R) CPU @ 2.20GHz",
        "AMD EPYC, 2 threads",
        "Apple M9",
        "",
        "GPU",
        "16GB",
    ],
)
def test_a_device_that_is_not_in_the_table_is_not_taken_for_its_neighbour(reported: str) -> None:
    assert find_device(reported) is None


def test_a_dtype_that_a_device_lacks_has_no_peak() -> None:
    assert named_device("Tesla T4").flops("bfloat16") is None
    assert named_device("Tesla T4").flops("float16") == 65e12
    assert named_device("GTX 1080").flops("float16") is None  # 1/64 of float32


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("RTX 4071", "RTX 4070"), ("RX 4070", "RTX 4070"), ("H101", "H100"), ("RTX 3060 16GB", "RTX 3060"),
     ("GeForce 4070 Tii", "NVIDIA GeForce RTX 4070 Ti")],
)  # fmt: skip
def test_a_mistyped_device_gets_the_nearest_name(typed: str, meant: str) -> None:
    with pytest.raises(UsageError, match=rf"unknown device '{typed}'. Did you mean {meant}"):
        named_device(typed)
