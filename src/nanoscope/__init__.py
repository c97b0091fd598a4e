"""Train a small GPT on the machine you have, and understand every line the run prints.

>>> import nanoscope
>>> run = nanoscope.train("laptop", max_iters=500)
>>> print(run.explain())
>>> print(run.load().generate("ROMEO:"))

docs/python.md describes what is listed here. Each name is loaded when it is first used: importing nanoscope imports
neither torch nor numpy.
"""

TYPE_CHECKING = False  # type checkers take it for true; importing it would take longer than all the rest

if TYPE_CHECKING:
    from nanoscope.api.comparing import compare as compare
    from nanoscope.api.datasets import prepare as prepare
    from nanoscope.api.evaluating import evaluate as evaluate
    from nanoscope.api.explaining import Explanation as Explanation
    from nanoscope.api.explaining import explain as explain
    from nanoscope.api.frames import frame as frame
    from nanoscope.api.logs import read as read
    from nanoscope.api.models import Model as Model
    from nanoscope.api.models import load as load
    from nanoscope.api.planning import Tried as Tried
    from nanoscope.api.planning import plan as plan
    from nanoscope.api.planning import try_ as try_
    from nanoscope.api.reporting import report as report
    from nanoscope.api.runs import Run as Run
    from nanoscope.api.runs import list_runs as list_runs
    from nanoscope.api.runs import sweep as sweep
    from nanoscope.api.runs import train as train
    from nanoscope.api.shown import Answer as Answer
    from nanoscope.errors import JobError as JobError
    from nanoscope.errors import UsageError as UsageError
    from nanoscope.runs.run import Log as Log
    from nanoscope.version import __version__ as __version__

_PLACES = {
    "api.comparing": ("compare",),
    "api.datasets": ("prepare",),
    "api.evaluating": ("evaluate",),
    "api.explaining": ("Explanation", "explain"),
    "api.frames": ("frame",),
    "api.logs": ("read",),
    "api.models": ("Model", "load"),
    "api.planning": ("Tried", "plan", "try_"),
    "api.reporting": ("report",),
    "api.runs": ("Run", "list_runs", "sweep", "train"),
    "api.shown": ("Answer",),
    "errors": ("JobError", "UsageError"),
    "runs.run": ("Log",),
    "version": ("__version__",),
}
_MODULES = {name: module for module, names in _PLACES.items() for name in names}
__all__ = sorted(_MODULES)

if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module 'nanoscope' has no attribute {name!r}")
        from importlib import import_module

        found = getattr(import_module(f"nanoscope.{_MODULES[name]}"), name)
        globals()[name] = found  # from now on without this function
        return found


def __dir__() -> list[str]:
    return __all__
