"""Progress bars as rows: where they stand, of how much, how fast, and the values around them.

A bar's percentage is a position, never a loss; so a line with a bar is read here and nowhere else.
"""

import re
from typing import NamedTuple

from nanoscope.runs.scan import Cell, cells, label_of, number

_CLOCK = r"(?:\d{1,4}:)?\d{1,4}:\d\d(?:\.\d{1,3})?"
_TQDM = re.compile(
    rf"(?P<before>[^\r]{{0,120}}?)(?:\b\d{{1,3}}%\s?(?:\|[^|]{{0,300}}\||(?=\s\d)))\s{{0,4}}"
    rf"(?P<at>[\d.]{{1,12}}[kM]?)/(?P<of>[\d.]{{1,12}}[kM]?) \[(?P<elapsed>{_CLOCK})<(?P<left>{_CLOCK}|\?)"
    r"(?:,\s{1,4}(?P<rate>[\d.]{1,12}|\?)\s?(?P<unit>[A-Za-z]{1,10}/[A-Za-z]{1,10}))?(?:,\s?(?P<postfix>[^\]]{0,600}))?\]?"
)
# '120it [03:20,  1.66s/it]' has no end.
_ENDLESS = re.compile(
    rf"(?P<before>[^\r]{{0,120}}?)\b(?P<at>\d{{1,12}})it \[(?P<elapsed>{_CLOCK})"
    r"(?:,\s{1,4}(?P<rate>[\d.]{1,12}|\?)\s?(?P<unit>it/s|s/it))?(?:,\s?(?P<postfix>[^\]]{0,600}))?\]"
)
# Hugging Face in a notebook: '[ 500/1000 05:00 < 05:01, 1.66 it/s, Epoch 1/2]'.
_NOTEBOOK = re.compile(
    rf"\[\s{{0,8}}(?P<at>\d{{1,12}})/(?P<of>\d{{1,12}}) (?P<elapsed>{_CLOCK})(?:\s?<\s?(?P<left>{_CLOCK}))?"
    r"(?:, (?P<rate>[\d.]{1,12}) (?P<unit>it/s|s/it))?(?:, (?P<postfix>Epoch [^\]]{1,40}))?\]"
)
# Levanter: 'Progress on:train 1.23kit/50.0kit rate:2.4it/s remaining:5:38:03 elapsed:08:32 postfix:loss=3.45'.
_LEVANTER = re.compile(
    r"(?P<before>Progress on:\w{1,20}) (?P<at>[\d.]{1,12}[kM]?)it/(?P<of>[\d.]{1,12}[kM]?)it"
    rf" rate:(?P<rate>[\d.]{{1,12}})(?P<unit>it/s|s/it) remaining:(?P<left>{_CLOCK}) elapsed:(?P<elapsed>{_CLOCK})"
    r"(?: postfix:(?P<postfix>.{0,300}))?"
)
# Rich's bar, which Lightning uses too: 'Epoch 0/4 ━━━╸ 120/500 0:00:12 • 0:00:38 10.01it/s v_num: 0 train_loss: 2.31'.
_RICH = re.compile(
    rf"(?P<before>[^━╸╺]{{0,80}}?)\s?[━╸╺]{{2,200}}\s{{1,4}}(?P<at>\d{{1,12}})/(?P<of>\d{{1,12}})\s{{1,4}}"
    rf"(?P<elapsed>{_CLOCK}) • (?P<left>{_CLOCK}|-:--:--)\s{{1,4}}"
    r"(?P<rate>[\d.]{1,12})\s?(?P<unit>it/s|s/it)(?P<postfix>.{0,300})"
)
# Keras: '120/1563 [=>....] - ETA: 45s - loss: 3.1', '1563/1563 ━━━━ 67s 43ms/step - loss: 2.48 - val_loss: 2.11'.
_KERAS = re.compile(
    r"^\s{0,8}(?P<at>\d{1,12})/(?P<of>\d{1,12}) (?:\[[=>.\s]{2,200}\]|[━╸╺]{2,200}|(?=- \d))\s{0,4}"
    r"(?P<postfix>.{0,600})$"
)
# Ultralytics: '3/100  6.73G  1.081  0.47  1.08  10  640: 100%|███| 16/16 [00:05<…', or '… 100% ━━━ 16/16 3.1it/s 5.2s'.
_YOLO = re.compile(
    r"^\s{0,12}(?P<epoch>\d{1,5}/\d{1,5})\s{1,12}[\d.]{1,8}G\s{1,12}(?P<loss>[\d.]{1,12})\s[\d.\s]{1,120}:"
    r"\s{0,4}\d{1,3}%\s?(?:\|[^|]{0,300}\||[━╸╺─]{1,200})\s{0,4}(?P<at>\d{1,12})/(?P<of>\d{1,12})"
    rf"(?: \[(?P<elapsed>{_CLOCK})<| [\d.]{{1,12}}(?:it/s|s/it) (?P<seconds>[\d.]{{1,12}})s)?"
)
_ANY = re.compile(
    r"%\s?\||━|\d% \d{1,12}/\d|\[\s{0,8}\d{1,12}/\d{1,12} \d|Progress on:|\dit \[\d"
    r"|^\s{0,8}\d{1,12}/\d{1,12} (?:\[[=>.]|- )"
)
_COUNTS_STEPS = re.compile(r"^(?:step|batch|iter)|(?:step|batch)$")


class Bar(NamedTuple):
    """One state of a progress bar: its name ('' if it has none; 'keras' shows one epoch), its cells, and its end."""

    name: str
    cells: list[Cell]
    end: int


def read_bars(line: str) -> list[Bar]:
    """The bars in a line: without its carriage returns a log may have several."""
    if not _ANY.search(line):
        return []
    for pattern in (_YOLO, _TQDM, _RICH, _LEVANTER, _NOTEBOOK, _ENDLESS, _KERAS):
        found = [_bar(match) for match in pattern.finditer(line)]
        if found:
            return found
    return []


def _bar(match: re.Match[str]) -> Bar:
    """A bar with its own cells in a fixed order, and those around it."""
    names = ("before", "at", "of", "elapsed", "left", "rate", "unit", "postfix")
    parts = {name: text or "" for name, text in match.groupdict().items()}
    heading, at, of, elapsed, left, rate, unit, postfix = (parts.get(name, "") for name in names)
    if match.re is _YOLO:
        postfix = f"epoch {parts['epoch']} loss {parts['loss']} time {elapsed or parts['seconds'] + 's'}"
    name = "keras" if match.re in (_YOLO, _KERAS) else label_of(re.sub(r"[\d.]+", " ", heading))[:60]
    label = "bar" if unit in ("", "it/s", "s/it") or _COUNTS_STEPS.search(unit) else f"bar {unit}"
    if unit.endswith("/s"):
        rate = repr(1 / value) if (value := number(rate)) > 0 else ""
    own = [
        Cell(label, "", "", _plain(at), 0, 0),
        Cell(label, "", "of", _plain(of), 0, 0),
        Cell("bar elapsed", "", "duration", elapsed, 0, 0),
        Cell("bar left", "", "duration", left, 0, 0),
        Cell("bar pace", "", "", rate, 0, 0),
    ]
    around = [cell for cell in cells(heading) if cell.label] + cells(postfix)
    return Bar(f"rich {name}" if match.re is _RICH else name, own + around, match.end())


def _plain(text: str) -> str:
    """A count without its k or M."""
    multiple = {"k": 1e3, "M": 1e6}.get(text[-1:])
    digits = text.rstrip("kM")
    return str(round(float(digits) * multiple)) if multiple and digits.replace(".", "", 1).isdecimal() else text
