"""Any finding about a run as a text."""

from nanoscope.findings.declared import Finding, Verdict
from nanoscope.words.language import Language


def sentence(finding: Finding, language: Language) -> str:
    """One or a few sentences, or an empty text where there is nothing to say."""
    return language.render(finding.text(), finding)


def verdict_title(verdict: Verdict, language: Language) -> str:
    """The verdict in a few words, for headings and tables, with how sure it is."""
    return language.render(verdict.heading(), verdict)
