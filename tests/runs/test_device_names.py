"""The device that a log names: its whole name, since a part of it may be that of another device."""

import pytest

from nanoscope.hardware.peaks import find_device
from nanoscope.runs.settings import read_settings


@pytest.mark.parametrize(
    ("line", "label"),
    [
        ("GPU 0: NVIDIA GeForce RTX 4070 Laptop GPU (UUID: GPU-1)", "NVIDIA GeForce RTX 4070 Laptop 8GB"),
        ("running on an RTX 4070 Laptop GPU", "NVIDIA GeForce RTX 4070 Laptop 8GB"),
        ("|   0  NVIDIA GeForce RTX 4090 D      Off |", "NVIDIA GeForce RTX 4090 D 24GB"),
        ("my card is an RTX 4070 Super, 12 GB", "NVIDIA GeForce RTX 4070 SUPER 12GB"),
        ("device: GTX 1660", "NVIDIA GeForce GTX 1660 6GB"),
        ("GeForce GTX 1060 3GB", "NVIDIA GeForce GTX 1060 3GB"),
        ("using NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB"),
        ("using NVIDIA A100 80GB PCIe", "NVIDIA A100 PCIe 80GB"),
        ("NVIDIA RTX 6000 Ada Generation, 49140 MiB", "NVIDIA RTX 6000 Ada 48GB"),
        ("UserWarning: Tesla T4 does not support bfloat16", "NVIDIA T4 16GB"),
    ],
)
def test_the_whole_name_is_read(line: str, label: str) -> None:
    settings = read_settings(line)
    assert settings is not None
    found = find_device(str(settings.facts["device_name"]))
    assert found is not None
    assert found.label == label


@pytest.mark.parametrize("line", ["GeForce RTX 2070 with Max-Q Design", "NVIDIA A100-SXM4-40GB MIG 1g.5gb"])
def test_a_part_of_a_device_is_not_taken_for_the_whole(line: str) -> None:
    settings = read_settings(line)
    assert settings is not None
    assert find_device(str(settings.facts["device_name"])) is None
