"""What can be said about a run: every finding is a type, its numbers, and what it says with them.

`analyse()` fills one `Analysis` per run. Its fields are findings, or None where the log does not have the numbers, so
words, views and the JSON schema all read the same figures. Times are in seconds, shares are fractions of 1.
"""

from nanoscope.analysis.findings.advice import *  # noqa: F403
from nanoscope.analysis.findings.analysis import *  # noqa: F403
from nanoscope.analysis.findings.base import *  # noqa: F403
from nanoscope.analysis.findings.comparison import *  # noqa: F403
from nanoscope.analysis.findings.efficiency import *  # noqa: F403
from nanoscope.analysis.findings.learning import *  # noqa: F403
from nanoscope.analysis.findings.log import *  # noqa: F403
from nanoscope.analysis.findings.notes import *  # noqa: F403
from nanoscope.analysis.findings.timing import *  # noqa: F403
from nanoscope.analysis.findings.verdicts import *  # noqa: F403
