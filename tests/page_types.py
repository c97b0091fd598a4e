"""What the server sends, as types for the page's scripts: `python tests/page_types.py` writes payload.d.ts."""

import dataclasses
import types
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from nanoscope.views.dashboard.folder import ListedRun
from nanoscope.views.report.html import PAGE
from nanoscope.views.report.payload import Payload

FILE = PAGE / "payload.d.ts"
PLAIN = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null", Any: "unknown"}


def written(hint: Any, found: dict[str, Any]) -> str:
    """A type in TypeScript; structs that it names are added to `found`."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint in PLAIN:
        return PLAIN[hint]
    if origin is Literal:
        return " | ".join(f'"{part}"' for part in parts)
    if origin in (Union, types.UnionType):
        return " | ".join(dict.fromkeys(written(part, found) for part in parts))
    if origin is dict:
        return f"Record<string, {written(parts[1], found)}>"
    if origin is tuple and parts[-1] is not Ellipsis:
        return f"[{', '.join(written(part, found) for part in parts)}]"
    if origin in (list, tuple):
        inner = written(parts[0], found)
        return f"({inner})[]" if " | " in inner else f"{inner}[]"
    if isinstance(hint, type) and (issubclass(hint, msgspec.Struct) or dataclasses.is_dataclass(hint)):
        found.setdefault(hint.__name__, hint)
        return hint.__name__
    raise TypeError(f"{hint} has no counterpart in TypeScript")


def declarations() -> str:
    """An interface for each struct of the payload and of the list of runs."""
    structs: dict[str, Any] = {each.__name__: each for each in (Payload, ListedRun)}
    texts: dict[str, str] = {}
    while missing := [name for name in structs if name not in texts]:
        for name in missing:
            hints = get_type_hints(structs[name]).items()
            fields = "".join(f"  {key}: {written(hint, structs)};\n" for key, hint in hints)
            texts[name] = f"export interface {name} {{\n{fields}}}\n"
    head = "// Written by tests/page_types.py from the structs of the server.\n\n"
    return head + "\n".join(texts.values())


if __name__ == "__main__":
    FILE.write_text(declarations(), encoding="utf-8")
