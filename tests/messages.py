"""The messages of the source code, as pybabel finds them."""

from pathlib import Path

from babel.messages.extract import extract_from_dir

import nanoscope
from nanoscope.cli.extraction import pieces

SOURCES = Path(nanoscope.__file__).parent
# Messages about findings, and the labels of views.
FINDINGS = {"say": None, "plural": (1, 2), "Message": None, "Plural": (1, 2)}
# Messages of commands: errors, and what the console prints. The Makefile has the same list.
ERRORS = ("JobError", "UsageError", "DoesNotFitError", "LockedError", "OtherVersionError", "NewerVersionError")
TEXTS = {"Text": None, "Count": (1, 2), **dict.fromkeys(ERRORS)}

Messages = set[str | tuple[str, ...]]


def _extract(folder: Path, keywords: dict[str, tuple[int, ...] | None]) -> Messages:
    return {message for _, _, message, _, _ in extract_from_dir(folder, [("**.py", "python")], keywords=keywords)}


def messages_about_findings() -> Messages:
    """Every message of findings, `words` and `views`; one with a plural as both of its forms."""
    rooms = ("findings", "words", "views")
    return set[str | tuple[str, ...]]().union(*(_extract(SOURCES / room, FINDINGS) for room in rooms))


def texts() -> Messages:
    return _extract(SOURCES, TEXTS)


def messages_in_code() -> Messages:
    """All that the catalogues translate."""
    return messages_about_findings() | texts() | set(pieces())
