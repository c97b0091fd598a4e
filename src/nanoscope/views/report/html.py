"""Renders a payload as one HTML file that contains its scripts, styles and numbers, and loads nothing else."""

import base64
import hashlib
import importlib.util
import json
from html import escape
from pathlib import Path
from typing import Any

from nanoscope.errors import JobError

HERE = Path(__file__).parent
# In the order in which they are loaded, here and in the dashboard. uPlot's file contains its license notice.
SCRIPTS = (
    "uPlot.iife.js", "view.js", "dom.js", "lesson.js", "format.js", "series.js", "plot.js", "paint.js", "pointer.js",
    "export.js", "figure.js", "toolbar.js", "run.js", "overlay.js", "report.js",
)  # fmt: skip
STYLES = ("uPlot.min.css", "style.css")

_PAGE = """\
<!doctype html>
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


def render(payload: dict[str, Any]) -> str:
    """The page as text, to be written as UTF-8."""
    words = payload["words"][payload["language"]]
    styles, scripts = ([source(name).read_text("utf-8") for name in names] for names in (STYLES, SCRIPTS))
    policy = (
        f"default-src 'none'; script-src {_hashes(scripts)}; style-src {_hashes(styles)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    title = f"{', '.join(run['name'] for run in payload['runs'][:4])} · {words['labels']['report']}"
    return _PAGE.format(
        language=payload["language"],
        direction=words["direction"],
        policy=policy,
        title=escape(title),
        styles="\n".join(f"<style>{text}</style>" for text in styles),
        summary=_summary(words),
        payload=inert_json(payload),
        scripts="\n".join(f"<script>{text}</script>" for text in scripts),
    )


def source(name: str) -> Path:
    """A script or style of the page."""
    return HERE / name if (HERE / name).is_file() else uplot() / name


def uplot() -> Path:
    """The folder of uPlot's files in the package uplot-python. Importing the package would take seconds."""
    found = importlib.util.find_spec("uplot")
    for place in found.submodule_search_locations or () if found else ():
        if (Path(place) / "static" / "uPlot.iife.js").is_file():
            return Path(place) / "static"
    raise JobError("The charts of a report need the package uplot-python.\nInstall it: pip install 'nanoscope[web]'")


def _hashes(texts: list[str]) -> str:
    digests = (hashlib.sha256(text.encode("utf-8")).digest() for text in texts)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode('ascii')}'" for digest in digests)


def inert_json(payload: dict[str, Any]) -> str:
    """JSON in which an HTML or script parser finds no markup."""
    text = json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode("utf-8", errors="replace").decode("utf-8")


def _summary(words: dict[str, Any]) -> str:
    """Verdicts and advice, for mail viewers that run no scripts."""
    texts = []
    for run in words["runs"]:
        texts += [verdict["title"] + verdict["text"] for verdict in run["verdicts"]]
        texts += run["advice"]
    return "".join(f"<p>{escape(text)}</p>" for text in texts)
