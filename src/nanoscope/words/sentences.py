"""Any finding about a run as a text."""

from nanoscope.analysis.findings import Finding
from nanoscope.words import advice, efficiency, learning, notes, progress, timing, verdicts
from nanoscope.words.language import Language
from nanoscope.words.templates import Words

MESSAGES: dict[type[Finding], Words] = {
    **learning.MESSAGES,
    **progress.MESSAGES,
    **timing.MESSAGES,
    **efficiency.MESSAGES,
    **verdicts.MESSAGES,
    **notes.MESSAGES,
    **advice.MESSAGES,
}


def sentence(finding: Finding, language: Language) -> str:
    """One or a few sentences, or an empty text where there is nothing to say."""
    return MESSAGES[type(finding)].write(finding, language)
