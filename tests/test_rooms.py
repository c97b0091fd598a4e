"""The import directions of DESIGN.md hold: data flows from room to room, and no room reaches back.

A room is a package in src/nanoscope. Every import statement counts, also inside functions and under
`if TYPE_CHECKING:`: a room that names a type of another room depends on it. Nor do modules import each other in a
cycle, counted in the same way.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import nanoscope

PACKAGE = Path(nanoscope.__file__).parent

# Which rooms each room may import; "hardware.peaks" allows that module alone. The files at the top of the package
# (config.py, errors.py, paths.py, …) may be imported by every room, and import none.
TOP = "the top-level files"
LOWER_ROOMS = {"data", "hardware", "model", "optim", "generation", "interop"}
ALLOWED: dict[str, set[str]] = {
    TOP: set(),
    "data": set(),
    "hardware": set(),
    "model": set(),
    "optim": {"model"},
    "generation": {"data", "hardware", "model", "interop"},
    "interop": {"data", "model"},
    "training": LOWER_ROOMS | {"runs"},
    "planning": LOWER_ROOMS | {"training", "runs", "findings"},
    "runs": set(),
    "findings": {"runs", "hardware.peaks"},
    "words": {"findings"},
    "views": {"runs", "findings", "words"},
    "api": LOWER_ROOMS | {"training", "planning", "runs", "findings", "words", "views"},
    "cli": LOWER_ROOMS | {"training", "planning", "runs", "findings", "words", "views", "api"},
}

ROOMS_WITHOUT_TORCH = {"runs", "findings", "words", "views"}


@dataclass(frozen=True)
class Import:
    """One imported module. Modules of nanoscope are named without the package: "data.loader"."""

    importer: str
    imported: str
    place: str

    @property
    def is_allowed(self) -> bool:
        here, there = room_of(self.importer), room_of(self.imported)
        version = self.imported == ""  # all that the front door itself defines
        return version or there in (TOP, here) or there in ALLOWED[here] or self.imported in ALLOWED[here]

    def __str__(self) -> str:
        return f"{self.place}: {self.importer} imports {self.imported}"


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def room_of(module: str) -> str:
    """The front door, nanoscope/__init__.py, is part of the API, and __main__.py of the command line."""
    first = module.partition(".")[0]
    return {"": "api", "__main__": "cli"}.get(first) or (first if first in ALLOWED else TOP)


def imported_names(node: ast.AST, path: Path) -> list[str]:
    """The full names of what a statement imports: a module, or a name inside a module."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = node.module or ""
    if node.level:
        folder = path.parents[node.level - 1].relative_to(PACKAGE.parent)
        base = ".".join([*folder.parts, *filter(None, [node.module])])
    return [f"{base}.{alias.name}" for alias in node.names]


def imports_of(path: Path) -> Iterator[Import]:
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        for name in imported_names(node, path):
            place = f"{path.relative_to(PACKAGE.parent).as_posix()}:{getattr(node, 'lineno', 0)}"
            if name.partition(".")[0] == "nanoscope":
                name = name.removeprefix("nanoscope").removeprefix(".")
                while name not in MODULES:  # a function or class: its module
                    name = name.rpartition(".")[0]
            yield Import(module_name(path), name, place)


EVERY_IMPORT = [found for path in MODULES.values() for found in imports_of(path)]
IMPORTS = [found for found in EVERY_IMPORT if found.imported in MODULES]


def test_every_package_is_a_room_of_the_design() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages - {"presets"} == set(ALLOWED) - {TOP}


def test_a_room_imports_only_the_rooms_it_may_know() -> None:
    offending = [str(found) for found in IMPORTS if not found.is_allowed]
    assert not offending, "\n" + "\n".join(offending)


def test_no_modules_import_each_other_in_a_cycle() -> None:
    graph: dict[str, set[str]] = {}
    places: dict[tuple[str, str], str] = {}
    for found in IMPORTS:
        if found.imported != found.importer:
            graph.setdefault(found.importer, set()).add(found.imported)
            places[found.importer, found.imported] = str(found)
    cycle: list[str] = []
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:  # each module of the list is imported by the next one
        cycle = error.args[1]
    assert not cycle, "\n" + "\n".join(places[b, a] for a, b in pairwise(cycle))


def test_rooms_that_explain_logs_never_import_torch() -> None:
    heavy = [
        str(found)
        for found in EVERY_IMPORT
        if room_of(found.importer) in ROOMS_WITHOUT_TORCH and found.imported.partition(".")[0] == "torch"
    ]
    assert not heavy, "\n" + "\n".join(heavy)
