"""What can be said about a run: every finding is a type, its numbers, and what it says with them.

`analyse()` fills one `Analysis` per run. Its fields are findings, or None where the log does not have the numbers, so
words, views and the JSON schema all read the same figures. Times are in seconds, shares are fractions of 1.
"""

from nanoscope.findings.declared.advice import *  # noqa: F403
from nanoscope.findings.declared.base import *  # noqa: F403
from nanoscope.findings.declared.learning import *  # noqa: F403
from nanoscope.findings.declared.log import *  # noqa: F403
from nanoscope.findings.declared.notes import *  # noqa: F403
from nanoscope.findings.declared.verdicts import *  # noqa: F403
