"""Whether torch's threads spin or sleep while they wait for each other between two operations.

OpenMP has environment variables for it, but they count only if they are set before torch is loaded. It can be changed
later, too. LLVM's and Intel's OpenMP have a function for it. GNU's spins for milliseconds, but only for microseconds
while it manages more threads than there are cores: a few additional threads, which never run, are enough
(benchmarks/LOG.md). Neither changes what is computed.
"""

import ctypes
import sys
import threading
from pathlib import Path

import torch

SPIN_MILLISECONDS = 200  # LLVM's and Intel's default


class Switch:
    """Threads spin until it is told otherwise. It is for the thread that computes, and for the whole process."""

    def __init__(self) -> None:
        self.sleeping = False
        self._library = _openmp()
        self._crowd: _Crowd | None = None

    @property
    def works(self) -> bool:
        return self._library is not None

    def set(self, sleeping: bool) -> bool:
        """Let threads sleep or spin. Returns whether that worked."""
        if sleeping == self.sleeping or self._library is None:
            return sleeping == self.sleeping
        if hasattr(self._library, "kmp_set_blocktime"):
            self._library.kmp_set_blocktime(0 if sleeping else SPIN_MILLISECONDS)
        elif sleeping:
            try:
                self._crowd = _Crowd(self._library)
            except RuntimeError:  # the system refuses new threads
                return False
        elif self._crowd is not None:
            self._crowd.leave()
        self.sleeping = sleeping
        return True


class _Crowd:
    """More threads of GNU's OpenMP than there are cores. All of them wait until they leave."""

    def __init__(self, library: ctypes.CDLL) -> None:
        count = max(library.omp_get_num_procs() - torch.get_num_threads() + 2, 2)
        _check_new_threads(count)  # where there can be none, OpenMP would end the process
        self._library, self._count = library, count
        self._ready, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._stand_by, name="openmp-crowd", daemon=True)
        self._thread.start()
        self._ready.wait()

    def leave(self) -> None:
        self._over.set()
        self._thread.join()  # OpenMP's threads end with the one that they belong to

    def _stand_by(self) -> None:
        parallel = self._library.GOMP_parallel
        parallel.argtypes, parallel.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint], None
        nothing = ctypes.cast(ctypes.CDLL(None).free, ctypes.c_void_p)  # a function that does nothing with NULL
        parallel(nothing, None, self._count, 0)
        self._ready.set()
        self._over.wait()


def _check_new_threads(count: int) -> None:
    """Raise RuntimeError if the system doesn't grant this process so many more threads."""
    over = threading.Event()
    started: list[threading.Thread] = []
    try:
        for _ in range(count):
            thread = threading.Thread(target=over.wait, daemon=True)
            thread.start()
            started.append(thread)
    finally:
        over.set()
        for thread in started:
            thread.join()


def _openmp() -> ctypes.CDLL | None:
    """The OpenMP that torch uses, if it is one that can be changed."""
    files = {"linux": "libtorch_cpu.so", "darwin": "libtorch_cpu.dylib", "win32": "libiomp5md.dll"}
    folder, file = Path(torch.__file__).parent / "lib", files.get(sys.platform)
    # In a library its dependencies are found, too. In the process, one that was preloaded.
    for place in ([None] if sys.platform == "linux" else []) + ([str(folder / file)] if file else []):
        try:
            library = ctypes.CDLL(place)
        except OSError:
            continue
        if hasattr(library, "kmp_set_blocktime") or hasattr(library, "GOMP_parallel"):
            return library
    return None
