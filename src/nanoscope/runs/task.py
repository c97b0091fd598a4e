"""What the first records say about the task: whether the loss is a language model's, smoothed, or a base-2 logarithm,
and which of their columns are not used."""

import math
import re

from nanoscope.runs.fields import Fields, read_fields
from nanoscope.runs.run import Run

MOST_RECORDS = 50  # that are searched
MOST_COLUMNS = 50

_AVERAGE = re.compile(
    r"(?:avg|average|mean|running|smooth\w*)[ _]?(?:train[ _])?loss|loss[ _](?:avg|mean)", re.IGNORECASE
)
_MEDIAN_AND_MEAN = re.compile(r"\bloss: \d[\d.]{0,12} \(\d[\d.]{0,12}\)  ")
# Keras shows the mean since the epoch began; Lightning's 'loss' beside 'v_num' was a mean over the last batches.
_RUNNING_MEAN = re.compile(r"\b\d{1,12}/\d{1,12} (?:\[[=>.]|━|- \d)|[ ,]loss=[^,\]]{1,16}, v_num=")
_LANGUAGE = re.compile(
    r"\bppl\b|perplexity|\bbp[bc]\b|(?<![a-z])tok(?:en)?s?(?![a-z])|\bkt/s|\bwps\b|lm[ _]loss|mlm|language",
    re.IGNORECASE,
)
_OTHER_TASK = re.compile(
    r"loss_(?:box|mask|rpn|objectness|classifier|cls|bbox|dfl|keypoint)|\b(?:box|cls|dfl)_loss\b|acc@?[15]\b|top-?[15]\b|\bm?iou\b|\bdice\b|\bmAP\b|\bwer\b"
    r"|\bcer\b|\bctc|psnr|\bfid\b|acc_seg|\bauc\b|decode\.|\b[dg]_loss\b|\bloss_[dg]\b",
    re.IGNORECASE,
)
# The name of a column before its number: 'acc: ', "'acc': '", or 'acc '.
_COLUMN = re.compile(
    r"(?<!\w)([A-Za-z_][\w./@%-]{0,40}(?: [A-Za-z_][\w./@%-]{0,24}){0,3})['\"]?\s?[:=]\s{0,16}['\"]?[\[(]?$"
    r"|^\W{0,8}(?!(?:after|and|for|from|over|per|than|the|was|with)\s)([A-Za-z_][\w./%-]{2,30})\s{1,8}$"
)
_NO_MEASURE = re.compile(r"v_num|rank|local_rank|pid|gpus?|device|node|seed|line|\S*\.py", re.IGNORECASE)


class Task:
    """Collects the signs in the first records of a log."""

    def __init__(self) -> None:
        self._seen = 0
        self._about_language: bool | None = None
        self._averaged = False
        self._nats = self._bits = 0  # records whose perplexity is a power of e, and of 2
        self._unused: dict[str, None] = {}  # columns, in order of appearance

    def see(self, text: str, fields: Fields) -> None:
        """Look at the text of a record and the values in it."""
        if self._seen >= MOST_RECORDS:
            return
        values = fields.values
        if "loss" in values or "val_loss" in values:
            self._seen += 1
            self._see_columns(text)
        if self._about_language is not False:
            if _OTHER_TASK.search(text) and ("loss" in values or "epoch" in values):
                self._about_language = False
            elif _LANGUAGE.search(text) and not values.keys().isdisjoint(("loss", "val_loss", "ppl")):
                self._about_language = True
        if "loss" in values and any(sign.search(text) for sign in (_AVERAGE, _MEDIAN_AND_MEAN, _RUNNING_MEAN)):
            self._averaged = True
        loss, perplexity = fields.get("loss"), fields.get("ppl")
        if 0.5 < loss < 60 and perplexity > 1:
            self._nats += abs(math.exp(loss) / perplexity - 1) < 0.05
            self._bits += abs(2**loss / perplexity - 1) < 0.05

    def _see_columns(self, text: str) -> None:
        unused: list[str] = []
        read_fields(text, unused)
        for before in unused:
            column = _COLUMN.search(before[-100:])
            name = (column[1] or column[2]) if column else ""
            if name and not _NO_MEASURE.fullmatch(name) and len(self._unused) < MOST_COLUMNS:
                self._unused.setdefault(name)

    def settle(self, run: Run) -> None:
        """Say what was found about a run."""
        if self._about_language is not None:
            run.is_language_model = self._about_language
        run.loss_is_average = self._averaged
        run.unused_columns = tuple(self._unused)
        run.loss_in_bits = self._bits > self._nats
