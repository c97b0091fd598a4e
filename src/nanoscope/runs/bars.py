"""Progress bars: where they stand, of how much, how fast, and the values behind them.

A bar's percentage is a position, never a loss; so a line with a bar is read here and nowhere else.
"""

import re
from dataclasses import dataclass

from nanoscope.runs.fields import Fields, number, read_fields

_CLOCK = r"(?:\d{1,4}:)?\d{1,4}:\d\d(?:\.\d{1,3})?"
_TQDM = re.compile(
    rf"(?P<before>[^\r]{{0,120}}?)(?:\b\d{{1,3}}%\s?(?:\|[^|]{{0,300}}\||(?=\s\d)))\s{{0,4}}"
    rf"(?P<at>[\d.]{{1,12}}[kM]?)/(?P<of>[\d.]{{1,12}}[kM]?) \[(?P<elapsed>{_CLOCK})<(?P<left>{_CLOCK}|\?)"
    r"(?:,\s{1,4}(?P<rate>[\d.]{1,12}|\?)\s?(?P<unit>[A-Za-z]{1,10}/[A-Za-z]{1,10}))?(?:,\s?(?P<postfix>[^\]]{0,600}))?\]?"
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
    r"^\s{0,12}(?P<epoch>\d{1,5})/(?P<epochs>\d{1,5})\s{1,12}[\d.]{1,8}G\s{1,12}(?P<loss>[\d.]{1,12})\s[\d.\s]{1,120}:"
    r"\s{0,4}\d{1,3}%\s?(?:\|[^|]{0,300}\||[━╸╺─]{1,200})\s{0,4}(?P<at>\d{1,12})/(?P<of>\d{1,12})"
    rf"(?: \[(?P<elapsed>{_CLOCK})<| [\d.]{{1,12}}(?:it/s|s/it) (?P<seconds>[\d.]{{1,12}})s)?"
)
_ANY = re.compile(
    r"%\s?\||━|\d% \d{1,12}/\d|\[\s{0,8}\d{1,12}/\d{1,12} \d|Progress on:|^\s{0,8}\d{1,12}/\d{1,12} (?:\[[=>.]|- )"
)
_NOT_TRAINING = re.compile(
    r"\b(?:download|load|map|filter|tokeniz|process|generat|validat|valid|val|eval|test|predict|sanity|cach|extract|group"
    r"|sampl|prepar|encod|pack|saving|upload|fetch|convert|quantiz|calibrat|read|creat|writing|inference|infer)",
    re.IGNORECASE,
)


@dataclass(eq=False, repr=False)
class Bar:
    """One state of a progress bar."""

    position: int
    total: int
    heading: Fields  # the values before the bar ('Epoch 3: ')
    values: Fields  # the values behind it
    elapsed_s: float | None = None
    left_s: float | None = None
    seconds_per_step: float | None = None
    trains: bool = True  # not a download, an evaluation or the like
    of_epoch: bool = False  # Keras: it shows one epoch, and its values are means since that epoch began
    names_itself: bool = False  # it says that it shows training
    epochs_from_zero: bool = False


def read_bars(line: str) -> list[Bar]:
    """The bars in a line; a log that lost its carriage returns may have several."""
    if not _ANY.search(line):
        return []
    yolo = _YOLO.match(line)
    if yolo:
        return [_yolo_bar(yolo)]
    for pattern in (_TQDM, _RICH, _LEVANTER, _NOTEBOOK):
        found = [_bar(match) for match in pattern.finditer(line)]
        if found:
            return [bar for bar in found if bar is not None]
    keras = _KERAS.match(line)
    return [_keras_bar(keras)] if keras else []


def hides_bar(line: str) -> bool:
    """Whether the line is a bar or a piece of one, so that its percentage is nothing to read."""
    return "%|" in line or ("it/s" in line and "[00:" in line)


def _bar(match: re.Match[str]) -> Bar | None:
    parts = match.groupdict()
    heading = (parts.get("before") or "").strip()
    unit, rate = parts.get("unit") or "", parts.get("rate") or ""
    per_second = unit.endswith("/s")
    speed = number(rate)
    seconds = (1 / speed if per_second else speed) if speed > 0 else None
    counts_steps = (
        unit in ("", "it/s", "s/it") or unit.startswith(("step", "batch", "iter")) or unit.endswith(("step", "batch"))
    )
    position, total = _count(parts["at"]), _count(parts["of"])
    if position is None or total is None:
        return None
    headed, values = read_fields(heading), read_fields(parts.get("postfix") or "")
    for name, value in headed.values.items():
        if name not in ("epoch", "step"):
            values.values.setdefault(name, value)
    if match.re is _RICH and "epoch" in headed.totals:
        headed.totals["epoch"] += 1  # its bars count from 0 to N − 1, and show N − 1
    return Bar(
        position,
        total,
        headed,
        values,
        _seconds(parts.get("elapsed")),
        _seconds(parts.get("left")),
        seconds,
        trains=counts_steps and ("loss" in headed or not _NOT_TRAINING.search(heading)),
        epochs_from_zero=match.re is _RICH,
        names_itself=bool(re.search(r"train|epoch|step|iter|fit", heading, re.IGNORECASE)),
    )


def _keras_bar(match: re.Match[str]) -> Bar:
    values = read_fields(match["postfix"])
    position, total = int(match["at"]), int(match["of"])
    bar = Bar(position, total, read_fields(""), values, of_epoch=True)
    if position < total:  # what is printed in place of the epoch's time is the time left
        bar.left_s = values.values.pop("eta_s", values.values.pop("time_s", None))
    return bar


def _yolo_bar(match: re.Match[str]) -> Bar:
    """A bar that shows one epoch; its first number behind the memory is a loss (that of the boxes)."""
    heading, values = Fields(), Fields({"loss": number(match["loss"])})
    heading.values["epoch"], heading.totals["epoch"] = float(match["epoch"]), int(match["epochs"])
    elapsed = _seconds(match["elapsed"]) if match["elapsed"] else number(match["seconds"] or "")
    if elapsed is not None and elapsed > 0:
        values.values["time_s"] = elapsed
    return Bar(int(match["at"]), int(match["of"]), heading, values, of_epoch=True, names_itself=True)


def _count(text: str) -> int | None:
    multiple = {"k": 1e3, "M": 1e6}.get(text[-1:], 1)
    digits = text.rstrip("kM")
    return round(float(digits) * multiple) if digits.replace(".", "", 1).isdecimal() else None


def _seconds(text: str | None) -> float | None:
    if not text or not text[0].isdigit():
        return None
    seconds = 0.0
    for part in text.split(":"):
        seconds = 60 * seconds + float(part)
    return seconds
