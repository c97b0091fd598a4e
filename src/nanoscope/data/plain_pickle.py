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


MOST_IN_A_TUPLE = 10_000


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


def check_tuples(content: bytes) -> None:
    """Refuse a pickle with tuples of more than a few thousand values, counting those in the tuples that they hold.

    A tuple that holds another one twice, which holds another one twice, … takes years to hash. Nothing is executed:
    this follows only how large the objects on the unpickler's stack are.
    """
    stack: list[int] = []  # values in a tuple, 1 for other objects, 0 for a mark
    memo: dict[Any, int] = {}
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name.endswith("GET"):
            stack.append(memo.get(argument, 1))
        elif opcode.name.endswith("PUT") or opcode.name == "MEMOIZE":
            memo[len(memo) if argument is None else argument] = stack[-1]
        elif opcode.name == "MARK":
            stack.append(0)
        else:
            taken = _taken(stack, opcode)
            size = 1 + sum(taken) if opcode.name.startswith("TUPLE") else 1
            stack += [size] * len(opcode.stack_after)
            if size > MOST_IN_A_TUPLE or opcode.name == "DUP":
                raise pickle.UnpicklingError("it holds a huge tuple")


def _taken(stack: list[int], opcode: pickletools.OpcodeInfo) -> list[int]:
    """Remove and return what an opcode takes from the stack: a number of objects, and those above the last mark."""
    count, taken = len(opcode.stack_before), []
    if pickletools.markobject in opcode.stack_before:
        while stack[-1]:
            taken.append(stack.pop())
        count -= 1  # the mark is left, and what the opcode takes below it
    taken += stack[len(stack) - count :]
    del stack[len(stack) - count :]
    return taken
