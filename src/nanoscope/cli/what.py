"""`nanoscope what`: what a number means."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from nanoscope.cli.logs import PathOrStdin, print_json
from nanoscope.errors import UsageError
from nanoscope.messages import Message

if TYPE_CHECKING:
    from nanoscope.findings.known import Numbers
    from nanoscope.words.concepts import Concept


def what(*words: PathOrStdin, json: bool = False, markdown: bool = False) -> None:
    """Say what a number means, in general or in a run: loss, perplexity, MFU, gradient norm and about 40 others.

    For example:
      nanoscope what
      nanoscope what mfu
      nanoscope what learning rate train.log
      nanoscope what --markdown --lang hi

    Parameters
    ----------
    words
        A concept, as logs, settings or your language call it, and a log or a run to take its numbers from.
        Without any: the list of all concepts.
    json
        Print it as JSON (schema nanoscope.what/1).
    markdown
        Print all concepts as one Markdown page.
    """
    from nanoscope.views import concepts as view
    from nanoscope.views.terminal_page import Page
    from nanoscope.words.concepts import CONCEPTS, NOTHING_KNOWN
    from nanoscope.words.language import choose_language

    page = Page(choose_language())
    concept, numbers = _asked(words) if words else (None, NOTHING_KNOWN)
    if json:
        asked = [concept] if concept else CONCEPTS.values()
        document = view.concepts_document(asked, numbers, page.language)
        print_json(document)
    elif markdown:
        sys.stdout.write(view.concepts_markdown(page.language))
    elif concept:
        view.print_concept(concept, numbers, page)
    else:
        view.print_concepts(page)


def _asked(words: tuple[str, ...]) -> "tuple[Concept, Numbers]":
    """The concept that the words name, and the numbers of the log that follows them."""
    from nanoscope.words.concepts import NOTHING_KNOWN, concept_named, find_concept

    words = words[words[0] == "is" :]  # nanoscope what is mfu
    if len(words) == 1 and Path(words[0]).exists() and not find_concept(words[0]):
        raise UsageError(Message(
            "Which number of {path}? All of them: {command}",
            path=words[0], command=shlex.join(["nanoscope", "explain", words[0], "--teach"]),
        ))  # fmt: skip
    if len(words) == 1 or find_concept(" ".join(words)):
        return concept_named(" ".join(words)), NOTHING_KNOWN
    from nanoscope.api.explaining import explain

    return concept_named(" ".join(words[:-1])), explain(words[-1]).numbers
