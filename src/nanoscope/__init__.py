"""Train a small GPT on the machine you have, and understand every line the run prints.

>>> import nanoscope
>>> run = nanoscope.train("laptop", max_iters=500)
>>> print(run.explain())
>>> print(run.load().generate("ROMEO:"))

docs/python.md describes what __init__.pyi lists. Each name is loaded when it is first used: importing nanoscope imports
neither torch nor numpy.
"""


def _places() -> dict[str, str]:
    """The module of each name, from the imports of the stub beside this file."""
    with open(f"{__file__}i", encoding="utf-8") as stub:  # noqa: PTH123  pathlib would take longer than all the rest
        return {words[3]: words[1] for words in map(str.split, stub) if words[0] == "from"}


_PLACES = _places()
__all__ = sorted(_PLACES)


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'nanoscope' has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(_PLACES[name]), name)
    globals()[name] = found  # from now on without this function
    return found


def __dir__() -> list[str]:
    return __all__
