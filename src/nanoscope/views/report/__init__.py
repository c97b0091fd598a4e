"""A run, or several, as one page that needs nothing else: no network, no server, no nanoscope."""

from nanoscope.views.report.page import render
from nanoscope.views.report.payload import Source, describe

__all__ = ["Source", "describe", "render"]
