"""Unpickling plain values only: dictionaries, lists, text, numbers and None for tensors. Nothing in a file is run."""

import io
import pickle
import re
from typing import Any, ClassVar

# In pickle's Python version, each takes as much memory as it has bytes; the one in C allocates whatever a file claims.
OPCODES = (
    b"\x80\x95(0."  # frames, marks, the end
    b"pqr\x94ghj"  # the memo
    b"N\x88\x89IJKM\x8aGVX\x8c"  # numbers and text
    b"]lae)t\x85\x86\x87}su"  # lists, tuples, dictionaries
    b"c\x93RbQ"  # what torch.save needs; find_class allows only that
)
OF_TENSORS = re.compile(r"collections\.OrderedDict|torch\._utils\._rebuild_(tensor_v2|parameter)|torch\.\w+Storage")
MOST_ATTRIBUTES = 16


class _Dictionary(dict[Any, Any]):
    """Takes no key whose hash may take years: a tuple may be nested, and many integers above 64 bits have one hash."""

    def __init__(self) -> None:
        super().__init__()  # a dictionary that is made by a call is empty: no entries are copied again and again

    def __setitem__(self, key: Any, value: Any) -> None:
        if not (type(key) is str or (type(key) is int and abs(key) < 2**63)):
            raise pickle.UnpicklingError("it has a key that is neither text nor a small number")
        super().__setitem__(key, value)

    def __setstate__(self, state: Any) -> None:
        if len(state) > MOST_ATTRIBUTES:
            raise pickle.UnpicklingError("it copies")


def _add_dictionary(unpickler: Any) -> None:
    unpickler.append(_Dictionary())


class _PlainUnpickler(pickle._Unpickler):
    dispatch: ClassVar = {
        **{code: pickle._Unpickler.dispatch[code] for code in OPCODES},
        b"}"[0]: _add_dictionary,
    }

    def find_class(self, module: str, name: str) -> Any:
        wanted = f"{module}.{name}"
        if not OF_TENSORS.fullmatch(wanted):
            raise pickle.UnpicklingError(f"it asks for {wanted!r}")
        return _Dictionary if name == "OrderedDict" else None if name.endswith("Storage") else lambda *_: None

    def persistent_load(self, pid: Any) -> None:
        """Check the description of a storage: torch looks it up by its name."""
        if not all(isinstance(part, str | int | None) for part in pid):
            raise pickle.UnpicklingError("it holds more than tensors, text and numbers")


def load_plain(content: bytes) -> Any:
    """Return the pickled value, with None instead of tensors; damaged or hostile content may raise any Exception."""
    try:
        return _PlainUnpickler(io.BytesIO(content)).load()
    except KeyError:  # of the dispatch
        raise pickle.UnpicklingError("it holds more than text and numbers") from None
