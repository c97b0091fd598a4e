"""The two pages: a report is one file that loads nothing else; that of `watch` loads the runs that it shows."""

import base64
import hashlib
import importlib.util
import re
from functools import cache
from html import escape
from pathlib import Path

import msgspec

from nanoscope.views.report.payload import Payload, Words, page_languages

PAGE = Path(__file__).parent.parent / "page"
UPLOT = "uplot.iife.min.js"
# Each imports only from those before it.
MODULES = tuple(
    f"{name}.js" for name in ("view", "dom", "numbers", "plot", "pointer", "figure", "run", "overlay", "report")
)
STYLES = ("uplot.min.css", "style.css")
LIVE_MODULES = (*MODULES, "runs.js", "table.js", "states.js", "dashboard.js")
LIVE_STYLES = (*STYLES, "dashboard.css")
_IMPORT = re.compile(r"^import \{[^}]*\} from \S+;$|^export (?=\w)", re.MULTILINE)

_PAGE = """\
<!doctype html>
<!-- Charts by uPlot, Copyright (c) 2022 Leon Sorokin, MIT License: https://github.com/leeoniya/uPlot -->
<html lang="{language}" dir="{direction}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<link rel="icon" href="data:,">
{styles}
</head>
<body>
<noscript><main><h1>{title}</h1>{summary}</main></noscript>
<script type="application/json" id="payload">{payload}</script>
{scripts}
</body>
</html>
"""


_LIVE_PAGE = """\
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


def render(payload: Payload) -> str:
    """The page as text, to be written as UTF-8."""
    language = payload.languages[payload.language]
    styles = [source(name).read_text("utf-8") for name in STYLES]
    scripts = [source(UPLOT).read_text("utf-8"), joined_modules()]
    policy = (
        f"default-src 'none'; script-src {_hashes(scripts)}; style-src {_hashes(styles)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    title = f"{', '.join(run.name for run in payload.runs[:4])} · {language.labels['report']}"
    return _PAGE.format(
        language=payload.language,
        direction=language.direction,
        policy=policy,
        title=escape(title),
        styles="\n".join(f"<style>{text}</style>" for text in styles),
        summary=_summary(payload.words[payload.language]),
        payload=inert_json(payload),
        scripts="\n".join(f"<script>{text}</script>" for text in scripts),
    )


def render_live(language: str) -> str:
    """The page of `watch`, opening in `language`; the reader can switch."""
    languages = page_languages()
    return _LIVE_PAGE.format(
        language=language,
        direction=languages[language].direction,
        styles="\n".join(f'<link rel="stylesheet" href="/static/{name}">' for name in LIVE_STYLES),
        words=inert_json({"language": language, "languages": languages}),
        scripts="\n".join(f'<link rel="modulepreload" href="/static/{name}">' for name in LIVE_MODULES),
        uplot=UPLOT,
    )


@cache
def static_files() -> dict[str, Path]:
    """The files that the page of `watch` may load, by name."""
    return {name: source(name) for name in (UPLOT, *LIVE_MODULES, *LIVE_STYLES)}


def joined_modules() -> str:
    """The modules as one script: under a policy of hashes, those inside a page cannot import each other."""
    return '"use strict";\n' + "".join(_IMPORT.sub("", source(name).read_text("utf-8")) for name in MODULES)


def source(name: str) -> Path:
    """A script or style of the page."""
    return PAGE / name if (PAGE / name).is_file() else uplot() / name


def uplot() -> Path:
    """The folder of uPlot's files in the package youplot, which is not imported."""
    found = importlib.util.find_spec("youplot")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("No module named 'youplot'", name="youplot")
    return Path(found.origin).parent / "vendor"


def _hashes(texts: list[str]) -> str:
    digests = (hashlib.sha256(text.encode("utf-8")).digest() for text in texts)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode('ascii')}'" for digest in digests)


def inert_json(payload: object) -> str:
    """JSON in which an HTML or script parser finds no markup."""
    text = msgspec.json.encode(payload).decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _summary(words: Words) -> str:
    """Verdicts and advice, for mail viewers that run no scripts."""
    texts = []
    for run in words.runs:
        texts += [verdict.title + verdict.text for verdict in run.verdicts] + run.advice
    return "".join(f"<p>{escape(text)}</p>" for text in texts)
