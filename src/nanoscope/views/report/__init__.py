"""One or more runs as a self-contained HTML page: it needs no network, no server and no nanoscope."""

from nanoscope.views.report.html import render
from nanoscope.views.report.payload import Source, describe

__all__ = ["Source", "describe", "render"]
