"""The messages of the source code, as pybabel finds them."""

from pathlib import Path

from babel.messages.extract import extract_from_dir

import nanoscope

KEYWORDS = {"say": None, "plural": (1, 2), "Say": None, "Plural": (1, 2)}


def messages_in_code() -> set[str | tuple[str, ...]]:
    """Every message of `words` and `views`; one with a plural as both of its forms."""
    found = set()
    for room in ("words", "views"):
        folder = Path(nanoscope.__file__).parent / room
        for _, _, message, _, _ in extract_from_dir(folder, [("**.py", "python")], keywords=KEYWORDS):
            found.add(message)
    return found
