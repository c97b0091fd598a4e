"""`eval` on a terminal: a table of the models, the best first, and how far they are apart."""

from nanoscope.findings.scores import Scores
from nanoscope.messages import NOTHING, printable
from nanoscope.views.terminal_page import Page


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
    rows = [
        [
            printable(score.name),
            NOTHING if score.step is None else str(score.step),
            language.loss(score.loss) + ("" if score.error is None else f" ± {language.loss(score.error)}"),
            *(
                language.significant(value, 4)
                for value in (score.perplexity, score.bits_per_character, score.bits_per_byte)
            ),
        ]
        for score in scores.scores
    ]
    page.table(headers, rows, numeric=range(1, len(headers)))
    page.line()
    for difference in scores.differences:
        page.paragraph(language.render(difference.text(), difference), bullet="- ")
    for score in scores.scores:
        if not score.complete:
            page.paragraph(language.render(score.unfinished(), score), style="bold")
    page.paragraph(language.render(scores.notes(), scores), style="dim")
