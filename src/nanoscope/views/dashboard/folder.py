"""The folder that is watched: which runs are in it now. It is only read, never written."""

import threading
import time
from pathlib import Path

from nanoscope.runs.glance import Glance, find_runs, glance, is_plain_file, newest_first, version_of
from nanoscope.untrusted import printable

SEARCH_SECONDS = 3.0  # between two searches for new runs; known ones are checked with every request
MAX_RUNS = 2000


class WatchedFolder:
    """The runs below `root`. Safe to use from several threads."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._paths: dict[str, Path] = {}
        self._glances: dict[str, Glance] = {}
        self._searched = -SEARCH_SECONDS
        self._lock = threading.Lock()

    def look(self) -> list[Glance]:
        """The runs as they are now: live ones first, then the newest."""
        with self._lock:
            self._search()
            glances = [self._glance(name, path) for name, path in self._paths.items()]
        return newest_first(each for each in glances if each is not None)[:MAX_RUNS]

    def label(self, name: str) -> str:
        """The name to show; if the watched folder is itself a run, the folder's name."""
        return printable(self.root.name if name == "." else name)

    def path(self, name: str) -> Path | None:
        """The folder of a listed run. A name is looked up, never turned into a path."""
        with self._lock:
            if name not in self._paths:
                self._search(at_once=True)
            path = self._paths.get(name)
        return path if path and is_plain_file(path / "events.jsonl") else None

    def _search(self, at_once: bool = False) -> None:
        now = time.monotonic()
        if at_once or now - self._searched >= SEARCH_SECONDS:
            self._paths = find_runs(self.root)
            self._glances = {name: each for name, each in self._glances.items() if name in self._paths}
            self._searched = now

    def _glance(self, name: str, path: Path) -> Glance | None:
        try:
            version = version_of(path)
        except OSError:
            return None  # deleted in the meantime
        known = self._glances.get(name)
        if known is None or known.version != version or known.state == "live":  # its process may have ended
            known = self._glances[name] = glance(name, path, version)
        return known
