"""Unpickling plain values only: dictionaries, lists, text and numbers. Nothing in the file is ever run."""

import io
import pickle
import pickletools
from typing import Any

# Tuples are missing on purpose: as keys they can be nested so that a few bytes take years to hash.
ALLOWED = {
    "PROTO", "FRAME", "MARK", "STOP", "POP", "MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT", "GET", "BINGET", "LONG_BINGET",
    "NONE", "NEWTRUE", "NEWFALSE", "INT", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT",
    "UNICODE", "BINUNICODE", "SHORT_BINUNICODE",
    "EMPTY_DICT", "DICT", "SETITEM", "SETITEMS", "EMPTY_LIST", "LIST", "APPEND", "APPENDS",
}  # fmt: skip


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it asks for {f'{module}.{name}'!r}")


def load_plain(content: bytes) -> Any:
    """Return the pickled value; damaged or hostile content may raise any Exception."""
    _check_opcodes(content)
    return _PlainUnpickler(io.BytesIO(content)).load()


def _check_opcodes(content: bytes) -> None:
    """Check all opcodes before the first is executed: some would allocate gigabytes or take years."""
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name in ("GLOBAL", "STACK_GLOBAL"):
            return  # nothing after it is executed: find_class raises, and names what was asked for
        if opcode.name not in ALLOWED:
            raise pickle.UnpicklingError("it holds more than text and numbers")
        # The memo is an array that is as long as its largest index. Integers above 64 bits may have equal hashes.
        limit = len(content) if opcode.name.endswith("PUT") else 2**64
        if isinstance(argument, int) and argument >= limit:
            raise pickle.UnpicklingError("it holds a huge number")
