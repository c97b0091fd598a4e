"""The folders nanoscope uses by default."""

import os
from pathlib import Path

RUNS = Path("runs")  # one folder per training run
DATA = Path("data")  # one folder per prepared dataset


def cache_folder() -> Path:
    """Return the folder for downloads, probe results and compiled code: NANOSCOPE_CACHE or the user's cache folder."""
    import platformdirs  # imported late: `explain` also runs without it

    return Path(os.environ.get("NANOSCOPE_CACHE") or platformdirs.user_cache_dir("nanoscope"))
