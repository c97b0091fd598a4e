"""The HTML shell of the dashboard: labels in every language, and modules that fetch the runs and fill it."""

from functools import cache
from pathlib import Path

from nanoscope.views.report import html as report
from nanoscope.views.report.payload import page_languages

MODULES = (*report.MODULES, "runs.js", "table.js", "states.js", "dashboard.js")
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
{scripts}
</head>
<body>
<noscript><main><p>nanoscope watch needs JavaScript.</p></main></noscript>
<script type="application/json" id="words">{words}</script>
<script src="/static/{uplot}"></script>
<script type="module" src="/static/dashboard.js"></script>
</body>
</html>
"""


@cache
def scripts_and_styles() -> dict[str, Path]:
    """The files that the page may load, by name."""
    return {name: report.source(name) for name in (report.UPLOT, *MODULES, *STYLES)}


def page(language: str) -> str:
    """The page, opening in `language`; the reader can switch."""
    languages = page_languages()
    return _PAGE.format(
        language=language,
        direction=languages[language].direction,
        styles="\n".join(f'<link rel="stylesheet" href="/static/{name}">' for name in STYLES),
        words=report.inert_json({"language": language, "languages": languages}),
        scripts="\n".join(f'<link rel="modulepreload" href="/static/{name}">' for name in MODULES),
        uplot=report.UPLOT,
    )
