"""One or more runs as a self-contained HTML page: it needs no network, no server and no nanoscope."""

from nanoscope.views.report.html import render
from nanoscope.views.report.payload import describe

__all__ = ["describe", "render"]
