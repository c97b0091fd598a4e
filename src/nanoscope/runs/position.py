"""Where training is, according to the values of a line: its step, or its epoch, or a batch of its epoch."""

import re
from typing import Literal, NamedTuple

from nanoscope.runs.fields import Fields
from nanoscope.runs.run import MISSING, ConfigValue

MOST_EPOCHS = 10**6
# '120: loss …', '120 | loss …', '[120]: loss=…', '[100 | 120.5]': a step that no word names.
_BARE_STEP = re.compile(r"^\s{0,8}(?:\[\s{0,8}(\d{1,12})(?:\s?\|\s?[\d.]{1,16})?\]|(\d{1,12})\s?[|:,])[\s:]")
_EPOCH_AND_BATCH = re.compile(r"^\s{0,8}\[(\d{1,6}),\s{1,8}(\d{1,9})\]\s")  # '[1,  2000] loss: 2.173'


class Position(NamedTuple):
    """A step of the run, or an epoch of it. `epoch` is set only where step numbers may restart with it."""

    unit: Literal["step", "epoch"]
    number: int
    total: int | None = None
    epoch: float = MISSING


class Positions:
    """Finds the position of each line, and remembers how this trainer counts."""

    def __init__(self) -> None:
        self.epochs: int | None = None  # how many there will be
        self.heading_epoch = MISSING  # of the last heading: lines below it do not repeat it
        self.first_epoch: int | None = None  # 0 or 1
        self._before: tuple[float, int] | None = None  # epoch and step of the last line with both
        self._restarts: bool | None = None  # whether steps restart with every epoch

    def find(self, text: str, fields: Fields) -> Position | None:
        """The position of a line; None if it has none."""
        self.epochs = fields.totals.get("epoch", self.epochs)
        epoch = fields.get("epoch")
        whole = epoch if epoch == epoch and epoch.is_integer() else self.heading_epoch
        if "step" in fields:
            step, total = int(fields.get("step")), fields.total
            inside = whole if fields.epoch_first else self.heading_epoch
            if inside == inside and total:
                total = self._total(total, inside, step, said_together="epoch" in fields)
            return Position("step", step, total, inside)
        if "batch" in fields or fields.pair:
            return self._batch(fields, whole)
        if epoch == epoch:
            return Position("epoch", int(epoch), fields.totals.get("epoch")) if epoch.is_integer() else None
        both = _EPOCH_AND_BATCH.match(text)
        if both:
            return Position("step", int(both[2]), None, float(both[1]))
        bare = _BARE_STEP.match(text)
        if bare:
            return Position("step", int(bare[1] or bare[2]), None, self.heading_epoch)
        if fields.first is not None and "loss" in fields:
            return Position("step", fields.first, None, self.heading_epoch)
        return None

    def unrolled(self, epoch: int, batch: int, batches: int) -> tuple[int, int | None]:
        """Step and total of a batch of an epoch."""
        if self.first_epoch is None or epoch < self.first_epoch:
            self.first_epoch = min(epoch, 1)
        done = epoch - self.first_epoch
        total = self.epochs * batches if self.epochs and self.epochs > done else None
        return done * batches + batch, total

    def take_setting(self, epochs: ConfigValue | None) -> None:
        """Use the number of epochs among the settings, if no line says it."""
        if self.epochs is None and isinstance(epochs, int) and 0 < epochs < MOST_EPOCHS:
            self.epochs = epochs

    def _batch(self, fields: Fields, epoch: float) -> Position:
        if "batch" in fields:
            batch, batches = int(fields.get("batch")), fields.totals.get("batch")
        else:
            batch, batches = fields.pair or (0, None)
        if batches and epoch == epoch:
            return Position("step", *self.unrolled(int(epoch), batch, batches))
        return Position("step", batch, None if "batch" in fields else batches, epoch)

    def _total(self, total: int, epoch: float, step: int, said_together: bool) -> int | None:
        """The steps of all epochs, from the N of 'step 5/N': it may be of one epoch or of all."""
        before, self._before = self._before, (epoch, step)
        if before and epoch > before[0]:
            self._restarts = step <= before[1]
        if self._restarts is False:
            return total
        known = said_together or self._restarts
        return total * self.epochs if known and self.epochs else None
