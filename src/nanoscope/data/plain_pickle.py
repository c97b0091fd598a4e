"""Unpickling plain values only: dictionaries, lists, text and numbers. Nothing in the file is ever run."""

import io
import pickle
import pickletools
import re
from dataclasses import dataclass
from typing import Any

# Tuples are missing on purpose: as keys they can be nested so that a few bytes take years to hash.
ALLOWED = {
    "PROTO",
    "FRAME",
    "MARK",
    "STOP",
    "POP",
    "MEMOIZE",
    "PUT",
    "BINPUT",
    "LONG_BINPUT",
    "GET",
    "BINGET",
    "LONG_BINGET",
    "NONE",
    "NEWTRUE",
    "NEWFALSE",
    "INT",
    "BININT",
    "BININT1",
    "BININT2",
    "LONG1",
    "BINFLOAT",
    "UNICODE",
    "BINUNICODE",
    "SHORT_BINUNICODE",
    "EMPTY_DICT",
    "DICT",
    "SETITEM",
    "SETITEMS",
    "EMPTY_LIST",
    "LIST",
    "APPEND",
    "APPENDS",
}
ALLOWED_WITH_TENSORS = ALLOWED | {
    "GLOBAL",
    "REDUCE",
    "BUILD",
    "BINPERSID",
    "EMPTY_TUPLE",
    "TUPLE",
    "TUPLE1",
    "TUPLE2",
    "TUPLE3",
}
DICTIONARY = "collections OrderedDict"
CALLED = {DICTIONARY, "torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_parameter"}
STORAGE = re.compile(r"torch \w+Storage")
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


@dataclass(slots=True)
class _Object:
    """What is known of an object on the unpickler's stack."""

    called: str = ""
    """The function that it is, or that made it."""
    values: int = 1
    """In a tuple, counting those in the tuples that it holds; 0 for a mark."""
    entries: int = 0
    """In a dictionary or list."""
    is_key: bool = True
    """Whether a dictionary may have it as a key."""


def check_tensors(content: bytes) -> None:
    """Refuse a pickle of tensors and plain values in which a few bytes would take gigabytes or years.

    torch calls nothing that does harm, but what it calls may get any arguments: bytearray(2**31), or a dictionary to
    copy a million times. And a tuple that holds another one twice, which holds another one twice, … takes years to
    hash. Nothing is executed: this follows only how large the objects on the unpickler's stack are.
    """
    stack: list[_Object] = []
    memo: dict[Any, _Object] = {}
    copied = 0
    argument: Any
    for opcode, argument, _ in pickletools.genops(content):
        name = opcode.name
        if name == "GLOBAL" and argument not in CALLED and not STORAGE.fullmatch(argument):
            raise pickle.UnpicklingError(f"it asks for {argument.replace(' ', '.')!r}")
        if name not in ALLOWED_WITH_TENSORS:
            raise pickle.UnpicklingError("it holds more than tensors, text and numbers")
        if name.endswith("GET"):
            stack.append(memo.get(argument) or _Object())
        elif name.endswith("PUT") or name == "MEMOIZE":
            memo[len(memo) if argument is None else argument] = stack[-1]
        elif name == "MARK":
            stack.append(_Object(values=0))
        else:
            taken = _taken(stack, opcode)
            made = _Object(argument if name == "GLOBAL" else "")
            if name == "LONG1":  # a number above 64 bits may have the same hash as many others
                made.is_key = abs(argument) < 2**64
            elif name.startswith("TUPLE"):
                made.values += sum(each.values for each in taken)
                made.is_key = all(each.is_key for each in taken)
            elif name in ("APPEND", "APPENDS", "SETITEM", "SETITEMS"):
                made = taken[0]  # the same object
                made.entries += len(taken) - 1
                if name.startswith("SET") and not all(key.is_key for key in taken[1::2]):
                    raise pickle.UnpicklingError("it holds a huge number")
            elif name == "BUILD":  # copies what it gets
                made, state = taken
                copied += state.entries + state.values
                if made.called != DICTIONARY:
                    raise pickle.UnpicklingError("it holds more than tensors, text and numbers")
            elif name == "REDUCE":
                function, arguments = taken
                made.called = function.called
                called_alone = made.called == DICTIONARY  # with values, it would copy them
                if made.called not in CALLED or arguments.entries or called_alone != (arguments.values == 1):
                    raise pickle.UnpicklingError("it holds more than tensors, text and numbers")
            stack += [made] * len(opcode.stack_after)
            if made.values > MOST_IN_A_TUPLE or copied > len(content):
                raise pickle.UnpicklingError("it holds a huge tuple, or copies")


def _taken(stack: list[_Object], opcode: pickletools.OpcodeInfo) -> list[_Object]:
    """Remove and return what an opcode takes from the stack: a number of objects, and those above the last mark."""
    count, taken = len(opcode.stack_before), []
    if pickletools.markobject in opcode.stack_before:
        while stack[-1].values:
            taken.append(stack.pop())
        stack.pop()
        count = opcode.stack_before.index(pickletools.markobject)
    taken += reversed(stack[len(stack) - count :])
    del stack[len(stack) - count :]
    return taken[::-1]
