"""`eval` on a terminal: a table of the models, the best first, and how far they are apart."""

from nanoscope.findings.scores import Score, Scores
from nanoscope.messages import NOTHING, printable
from nanoscope.views.terminal_page import Page
from nanoscope.words.language import Language


def print_scores(scores: Scores, page: Page) -> None:
    """Print the scores of one or more models."""
    language = page.language
    say = language.say
    page.paragraph(language.render(scores.scope(), scores), style="dim")
    page.line()
    headers = [
        say("model"),
        say("step"),
        say("loss"),
        say("perplexity"),
        say("bits per character"),
        say("bits per byte"),
    ]
    page.table(headers, [_row(score, language) for score in scores.scores], numeric=range(1, len(headers)))
    page.line()
    for difference in scores.differences:
        page.paragraph(language.render(difference.text(), difference), bullet="- ")
    for score in scores.scores:
        if not score.complete:
            page.paragraph(language.render(score.unfinished(), score), style="bold")
    page.paragraph(language.render(scores.notes(), scores), style="dim")


def _row(score: Score, language: Language) -> list[str]:
    loss = language.loss(score.loss)
    return [
        printable(score.name),
        NOTHING if score.step is None else str(score.step),
        loss if score.error is None else f"{loss} ± {language.loss(score.error)}",
        language.significant(score.perplexity, 4),
        language.significant(score.bits_per_character, 4),
        language.significant(score.bits_per_byte, 4),
    ]
