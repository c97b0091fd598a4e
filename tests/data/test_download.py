"""URLs, from a real HTTP server on this machine that can redirect, break off and disappear."""

import io
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from nanoscope.cli import run
from nanoscope.data import download as module
from nanoscope.data.dataset import open_dataset, read_meta
from nanoscope.data.download import download, without_query
from nanoscope.data.prepare import default_folder
from nanoscope.data.sources import Documents
from nanoscope.errors import JobError

BOOK = "".join(f"Chapter {n}: the rain fell on the valley.\n" for n in range(3000)).encode()


class Site:
    """What the server has, and what it was asked for."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {"/book.txt": BOOK}
        self.types: dict[str, str] = {}
        self.redirects: dict[str, str] = {}
        self.break_after: list[int] = []  # bytes sent before the connection breaks, for each of the next answers
        self.length = True
        self.address = ""

    def url(self, path: str) -> str:
        return self.address + path


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path in site.redirects:
                self.send_response(302)
                self.send_header("Location", site.redirects[path])
                self.end_headers()
                return
            if path not in site.files:
                self.send_error(404)
                return
            content = site.files[path]
            self.send_response(200)
            if site.length:
                self.send_header("Content-Length", str(len(content)))
            if path in site.types:
                self.send_header("Content-Type", site.types[path])
            self.end_headers()
            self.wfile.write(content[: site.break_after.pop(0)] if site.break_after else content)

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.chdir(tmp_path)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    site.stop = lambda: (server.shutdown(), server.server_close())  # type: ignore[attr-defined]
    yield site
    site.stop()  # type: ignore[attr-defined]
    thread.join()


def texts(url: str, **options: object) -> list[str]:
    return [piece.text for piece in Documents([url], **options).pieces()]  # type: ignore[arg-type]


def test_a_url_becomes_a_dataset_named_after_the_file(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["prepare", site.url("/book.txt?token=secret")]) == 0
    assert "prepared data/book-char" in capsys.readouterr().out
    dataset = open_dataset("data/book-char")
    assert len(dataset.splits["train"]) + len(dataset.splits["val"]) == len(BOOK)
    assert read_meta(Path("data/book-char")).sources == [site.url("/book.txt")]  # without the token


def test_an_address_without_a_path_is_named_after_its_server() -> None:
    assert default_folder("https://example.org/", "char").as_posix() == "data/example-char"
    assert default_folder("https://example.org/a%20b.jsonl?x=1", "bpe").as_posix() == "data/a-20b-bpe"


def test_a_password_is_not_shown() -> None:
    assert without_query("https://me:secret@example.org/a.txt?key=1#x") == "https://example.org/a.txt"


@pytest.mark.parametrize(
    ("path", "content", "media_type", "expected"),
    [
        ("/a.jsonl", b'{"text": "a"}\n', "application/octet-stream", ["a"]),
        ("/latest", b'{"text": "a"}', "application/json; charset=utf-8", ["a"]),
        ("/latest", b'{"text": "a"}\n{"text": "b"}\n', "", ["a", "b"]),
        ("/2600-0", b"a", "text/plain", ["a"]),
    ],
    ids=["jsonl", "json type", "json lines", "text type"],
)
def test_the_content_is_known_by_the_suffix_or_how_it_begins(
    path: str, content: bytes, media_type: str, expected: list[str], site: Site
) -> None:
    site.files[path] = content
    if media_type:
        site.types[path] = media_type
    assert texts(site.url(path)) == expected


def test_a_redirect_is_followed(site: Site) -> None:
    site.files["/files/a.jsonl"] = b'{"text": "a"}\n'
    site.redirects["/download"] = "/files/a.jsonl"
    assert texts(site.url("/download")) == ["a"]


def test_a_download_that_breaks_off_is_not_kept(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.break_after = [10_000]
    assert run(["prepare", site.url("/book.txt")]) == 1
    message = capsys.readouterr().err
    assert f"Cannot download {site.url('/book.txt')}: the connection broke off." in message
    assert "get the file in another way and give its path" in message
    assert not Path("data").exists()
    assert "".join(texts(site.url("/book.txt"))).encode() == BOOK


def test_a_file_of_unknown_length_is_read_to_its_end(site: Site) -> None:
    site.length = False
    assert "".join(texts(site.url("/book.txt"))).encode() == BOOK


def test_progress_ends_at_one(site: Site) -> None:
    seen: list[float] = []
    download(site.url("/book.txt"), io.BytesIO(), lambda stage, fraction: seen.append(fraction))
    assert seen == sorted(seen)
    assert seen[-1] == 1


def test_a_missing_page_is_named_with_the_answer(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["prepare", site.url("/gone.txt")]) == 1
    assert f"Cannot download {site.url('/gone.txt')}: HTTP Error 404: Not Found." in capsys.readouterr().err


def test_a_server_that_is_not_there_gets_one_message_with_the_way_out(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.stop()  # type: ignore[attr-defined]
    assert run(["prepare", site.url("/book.txt")]) == 1
    message = capsys.readouterr().err
    assert "Connection refused" in message or "Cannot download" in message
    assert "get the file in another way and give its path" in message
    assert len(message.splitlines()) == 2


def test_a_name_that_no_server_has_gets_the_same(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["prepare", "http://no-such-host.invalid/a.txt"]) == 1
    assert "Check the network and the address" in capsys.readouterr().err


def test_a_server_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(module, "TIMEOUT_SECONDS", 0.2)
    silent = socket.create_server(("127.0.0.1", 0))  # accepts connections, and never answers
    with silent, pytest.raises(JobError, match="timed out"):
        download(f"http://127.0.0.1:{silent.getsockname()[1]}/a.txt", io.BytesIO())


def test_a_web_page_is_not_taken_for_text(site: Site) -> None:
    site.files["/blob/a.txt"], site.types["/blob/a.txt"] = b"<html>", "text/html; charset=utf-8"
    with pytest.raises(JobError, match="is a web page, not a text file"):
        texts(site.url("/blob/a.txt"))


def test_an_empty_file_is_refused(site: Site) -> None:
    site.files["/a.txt"] = b""
    with pytest.raises(JobError, match=r"a\.txt is empty"):
        texts(site.url("/a.txt"))
