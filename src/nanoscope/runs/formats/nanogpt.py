"""nanoGPT, old and new, and its forks (llama2.c's trainer among them)."""

import re
from collections.abc import Iterable

from nanoscope.runs.formats.base import Format, Line
from nanoscope.runs.records import CheckpointRecord, EvalRecord, Record, StepRecord
from nanoscope.runs.run import Traits


def _is_whole(evaluation: re.Match[str]) -> bool:
    """Whether the last number of an evaluation is complete: a terminal may have cut it."""
    train, val = evaluation["train_loss"], evaluation["val"]
    missing = len(train.partition(".")[2]) - len(val.partition(".")[2])  # one digit may be a zero that is not printed
    return not (evaluation.end() == len(evaluation.string) and missing >= 2 and val[-1:] in ".0123456789")


_BEFORE_VALUE = r"(?:\s{1,4}|(?=\.\.|…))"  # people who quote a log leave values out: 'train loss..., val loss...'
EVALUATION = Line(
    EvalRecord,
    r"(?i:step)\s{1,8}{step}\s?:\s{0,4}"
    rf"train loss:?{_BEFORE_VALUE}(?P<train_loss>[^\s,]{{1,24}})(?: \([^)]{{1,80}}\) \||,)\s{{0,4}}"
    rf"val loss:?{_BEFORE_VALUE}(?P<val>[^\s,*]{{1,24}})",
    "val loss",
    check=_is_whole,
)
# The line as nanoGPT itself prints it, to the letter: most lines of most logs, so it gets a faster way.
_PLAIN_ITER = re.compile(
    r"iter (\d{1,12}): loss (\d{1,6}\.\d{1,8}), time (\d{1,10}\.\d\d)ms, mfu (-?\d{1,6}\.\d\d)%", re.ASCII
)


class NanoGPT(Format):
    name = "nanogpt"
    traits = Traits(
        trains_language_models=True,
        last_is_total_minus_one=False,
        evaluation_in="same",
        mfu_assumes="A100",
        mfu_is_moving_average=True,
        total_keys=("max_iters",),
    )
    lines = (
        Line(  # typed keys, timestamps or a worker's name may come before the record, other values between its own
            StepRecord,
            r"iter\s{1,8}{step}\s?:\s{0,4}loss\s{1,8}{loss},\s{1,4}(?=(?:.*?\blr:? (?P<lr>[\d.e+-]{1,16}))?)"
            r"(?:[\w ]{1,24}[ :=][\d.e+-]{1,16},\s{1,4}){0,4}"
            r"time\s{1,4}{time_ms}\s?ms(?:,\s{1,4}mfu\s{1,4}{mfu_pct}\s?%)?",
            "iter",
            rest=("tok_s",),
            joined=True,
        ),
        Line(  # the same without its loss, as people quote it; with words before or values behind, it is another's
            StepRecord,
            r"(?<![^\W\d])(?<![^\W\d] )iter\s{1,8}{step}\s?:\s{0,4}(?:(?:loss\s?)?(?:\.{2,3}|…),?\s{1,4})?"
            r"time\s{1,4}{time_ms}\s?ms(?:,\s{1,4}mfu\s{1,4}{mfu_pct}\s?%)?"
            r"(?!\s{0,2}[,;|]\s{0,4}[\w ]{1,24}[ :=]\s?[-\d])",
            "iter",
            joined=True,
        ),
        EVALUATION,
        Line(CheckpointRecord, r"(?i)sav(?:ing|ed)(?: \w{1,12}){0,2} (?:checkpoint|model)\b", "av"),
        Line(StepRecord, r"(?:^|\s){step} \| loss {loss} \| lr {lr} \| {time_ms}ms(?: \| mfu {mfu_pct}%)?", " | loss "),
    )
    header = (
        ("tokens_per_step", r"tokens per iteration will be\s?[:=]?\s?([\d,]+)"),
        ("vocab_size", r"vocab[_ ]size\s?(?:of GPT-2 to|[:=])\s?([\d,]+)"),
        ("train_tokens", r"train has ([\d,]+) tokens"),
    )
    override_prefix = "Overriding:"

    def parse(self, line: str) -> Iterable[Record]:
        records = tuple(super().parse(line))
        if any(isinstance(record, StepRecord) and record.loss != record.loss for record in records):
            self.builder.abridged = True
        return records

    def read(self, line: str) -> str | None:
        found = _PLAIN_ITER.fullmatch(line)
        if found is None:
            return super().read(line)
        step, loss, time_ms, mfu = found.groups()
        self.builder.place(StepRecord(int(step), float(loss), float(time_ms) / 1e3, mfu_pct=float(mfu)))
        return "step"
