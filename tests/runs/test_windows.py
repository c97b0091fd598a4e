import json
import os

import pytest

from nanoscope.runs.windows import FOLDER, decode_windows, encode_windows, read_windows

GOOD = encode_windows(120, 64, [0, 3, 7], [2.5, 1.25, 3.0])


def test_what_is_written_is_read_back():
    windows = decode_windows(GOOD)
    assert windows is not None
    assert (windows.step, windows.block_size) == (120, 64)
    assert windows.losses == {0: 2.5, 3: 1.25, 7: 3.0}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        GOOD[:-1],
        GOOD + b"x",
        b"[1]" + GOOD[GOOD.index(b"\n") :],
        json.dumps({"step": 1, "block_size": 64, "windows": -1}).encode() + b"\n",
        json.dumps({"step": "1", "block_size": 64, "windows": 0}).encode() + b"\n",
        encode_windows(1, 64, [0], [float("nan")]),
        b"[" * 5000 + b"\n",
    ],
)
def test_a_damaged_file_is_nothing(content):
    assert decode_windows(content) is None


def test_a_run_without_such_files_or_with_damaged_ones_has_what_is_left(tmp_path):
    assert read_windows(tmp_path) == []
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "last.bin").write_bytes(GOOD)
    (tmp_path / FOLDER / "best.bin").write_bytes(b"damaged")
    assert [windows.step for windows in read_windows(tmp_path)] == [120]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path):
    (tmp_path / FOLDER).mkdir()
    os.mkfifo(tmp_path / FOLDER / "last.bin")
    assert read_windows(tmp_path) == []
