"""The HTML shell of the dashboard: labels in every language, and scripts that fetch the runs and fill it."""

from functools import cache
from pathlib import Path

from nanoscope.messages import LANGUAGES
from nanoscope.views.dashboard.labels import labels
from nanoscope.views.report import html as report
from nanoscope.words.language import Language

HERE = Path(__file__).parent
SCRIPTS = (*report.SCRIPTS, "runs.js", "table.js", "states.js", "paste.js", "dashboard.js")
STYLES = (*report.STYLES, "dashboard.css")

_PAGE = """\
<!doctype html>
<html lang="{language}" dir="{direction}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>nanoscope</title>
<link rel="icon" href="data:,">
{styles}
</head>
<body>
<noscript><main><p>nanoscope watch needs JavaScript.</p></main></noscript>
<script type="application/json" id="words">{words}</script>
{scripts}
</body>
</html>
"""


@cache
def scripts_and_styles() -> dict[str, Path]:
    """The files that the page may load, by name."""
    folders = (report.uplot(), report.HERE, HERE)
    return {name: next(f / name for f in folders if (f / name).is_file()) for name in (*SCRIPTS, *STYLES)}


def page(language: str) -> str:
    """The page, opening in `language`; the reader can switch."""
    words = {code: _words(Language(code)) for code in LANGUAGES}
    return _PAGE.format(
        language=language,
        direction=words[language]["direction"],
        styles="\n".join(f'<link rel="stylesheet" href="/static/{name}">' for name in STYLES),
        words=report.inert_json({"language": language, "words": words}),
        scripts="\n".join(f'<script src="/static/{name}"></script>' for name in SCRIPTS),
    )


def _words(language: Language) -> dict[str, object]:
    return {
        "name": LANGUAGES[language.code],
        "direction": "rtl" if language.right_to_left else "ltr",
        "labels": labels(language),
    }
