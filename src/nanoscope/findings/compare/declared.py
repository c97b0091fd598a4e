"""Several runs side by side: what differs, by how much, and what that rests on."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from nanoscope.findings.analyse import Analysis
from nanoscope.findings.declared.base import Confidence, Finding
from nanoscope.messages import Message, Said, sentences, verbatim

MOST_LOSSES = 8  # that a sentence lists; of more it gives the best and the worst, and a table has them all
LossMeasure = Literal["val", "train"]
NoiseSource = Literal["windows", "errors", "scatter"]
Setting = tuple[str, str]  # name and value


class ComparisonRow(Finding):
    """A run at the step at which all are compared, or repeats of the same settings; the lowest loss first."""

    runs: tuple[int, ...]  # the lowest loss first
    steps: int
    loss: float | None  # of repeats, the mean; None: not finite, or nothing to compare it with
    spread: float | None  # of repeats, the standard deviation
    difference: float | None  # to the first row, and the error of the two models' evaluations
    difference_error: float | None
    best_val: float | None
    metric: Literal["loss", "bpb"]
    step_seconds: float | None
    wall_seconds: float | None
    settings: tuple[Setting, ...]  # in which it differs from the first row
    ranked: bool  # whether its loss can be held against that of the first row


class ConfigDifference(Finding):
    """A setting that is not the same in all runs."""

    key: str
    values: tuple[str | int | float | bool | None, ...]


class Compared(Finding):
    """Base of what is said about several runs. Runs are numbers: their places in the comparison."""

    confidence: Confidence = field(default="likely", kw_only=True)

    def said(self, names: Sequence[str]) -> Said:
        """One or a few sentences about runs of these names."""
        return self.text()


class NotComparable(Compared):
    """The losses of `run` and `other` are not of the same data, tokenizer or unit."""

    run: int
    other: int
    reason: Literal["unit", "vocabulary", "data", "start"]
    values: tuple[str, ...]  # what differs, where it can be told

    def said(self, names: Sequence[str]) -> Said:
        runs = {"run": names[self.run], "other": names[self.other]}
        match self.reason:
            case "unit":
                return Message(
                    "The losses of {run} and {other} can't be compared: one is in bits per byte, the other per token.",
                    **runs,
                )
            case "vocabulary":
                return Message(
                    "The losses of {run} and {other} can't be compared: their vocabularies have {one} and {two} "
                    "tokens.",
                    **runs,
                    one=self.values[0],
                    two=self.values[1],
                )
            case "data":
                return Message(
                    "The losses of {run} and {other} can't be compared: they learn from different data.", **runs
                )
            case "start":
                return Message(
                    "The losses of {run} and {other} probably can't be compared: they begin at {one} and {two}, so "
                    "their vocabularies or initial weights differ.",
                    **runs,
                    one=self.values[0],
                    two=self.values[1],
                )


class UnknownData(Compared):
    """The logs do not say what the runs learn from."""

    runs: tuple[int, ...]

    TEXT = Message(
        "The logs don't say what the runs learn from. Their losses can be compared only if it is the same text and "
        "tokenizer."
    )


class Effect(Compared):
    """These runs differ in one setting and in nothing else that matters to what is learnt.

    `losses` are those of the `values`, averaged over the runs that have that value; None: not finite. The verdict is
    `models` where the two models differ, but repeats would have to show that it is the setting which does that.
    """

    setting: str
    values: tuple[str, ...]
    losses: tuple[float | None, ...]
    runs: tuple[tuple[int, ...], ...]
    measure: LossMeasure
    step: int | None  # at which the losses are compared; None: each at its own end
    verdict: Literal["differs", "models", "unclear", "within_noise"]
    best: int  # index into `values`
    difference: float  # between the best and the worst finite loss
    noise: float | None  # what the verdict rests on: the error of that difference, or the assumed spread of seeds
    noise_from: NoiseSource | Literal["repeats", "seeds"] | None
    ties: tuple[str, ...]  # other values that are as good as the best one, within the noise
    edge: Literal["low", "high", "inside"] | None  # where the best lies in the range tried
    fixed: tuple[Setting, ...]  # other settings of these runs, where they vary in the comparison
    among: tuple[int, ...]  # these runs, where others are compared too and no setting of these tells which
    seed_differs: bool  # as well, and no run was repeated

    def said(self, names: Sequence[str]) -> Said:
        return sentences(
            _with(self.fixed),
            bool(self.among) and Message("Among {runs}:", runs=_listed([names[run] for run in self.among])),
            self._cause(),
            self.seed_differs and Message("The seed differs, too."),
            self._size(),
            bool(self.ties) and Message("Equally good within the error: {ties}.", ties=_listed(self.ties)),
            self.edge == "inside" and Message("The best lies inside the range tried."),
            self.edge in ("low", "high") and Message("The best lies at the end of the range tried."),
        )

    def _cause(self) -> Said:
        shown = {"where": _where(self), "losses": self._losses(), "best": self.values[self.best]}
        if self.confidence == "hint" and self.verdict in ("differs", "models"):
            return Message(
                "{setting} is the only difference that the logs show ({where}): {losses}. They don't show everything, "
                "so the cause may be another.",
                **shown,
            )
        match self.verdict:
            case "differs" if self.confidence == "sure":
                return Message("{setting} makes the difference ({where}): {losses}. Best: {best}.", **shown)
            case "differs":
                return Message("{setting} most likely makes the difference ({where}): {losses}. Best: {best}.", **shown)
            case "models":
                return Message(
                    "The models differ ({where}; {setting}): {losses}. Whether {setting} does that, only repeats with "
                    "other seeds would show.",
                    **shown,
                )
            case "unclear":
                return Message("{setting} may make a difference ({where}): {losses}.", **shown)
            case "within_noise":
                return Message("{setting} makes no difference beyond the noise ({where}): {losses}.", **shown)

    def _losses(self) -> Said:
        shown: Sequence[int] = range(len(self.losses))
        if len(shown) > MOST_LOSSES:
            finite = sorted((loss, index) for index, loss in enumerate(self.losses) if loss is not None)
            shown = [finite[0][1], finite[-1][1]]
        return _listed([self._loss(index) for index in shown])

    def _loss(self, index: int) -> Message:
        loss, value = self.losses[index], self.values[index]
        if loss is None:
            return Message("not finite with {value}", value=value)
        return Message("{loss:loss} with {value}", loss=loss, value=value)

    def _size(self) -> Said:
        size = verbatim("{size:with_error}", size=(self.difference, self.noise))
        match self.noise_from:
            case "windows":
                return Message("From best to worst: {size}, compared window by window.", size=size)
            case "repeats":
                return Message("From best to worst: {size}, judged by the repeats.", size=size)
            case "errors":
                return Message("From best to worst: {size}, by the errors of the evaluations.", size=size)
            case "scatter":
                return Message("From best to worst: {size}, by the scatter of the losses.", size=size)
            case "seeds" if self.noise is not None:
                return Message(
                    "From best to worst: {size}. There are too few repeats to know what another seed would change; it "
                    "is assumed to be {noise:significant2}.",
                    size=_apart(self.difference),
                )
        return None


class Repeats(Compared):
    """Runs of the same settings: the noise against which all else is judged."""

    runs: tuple[int, ...]
    differ: Literal["seed", "nothing"]  # nothing: nothing in the logs tells them apart
    mean: float
    spread: float  # standard deviation
    low: float
    high: float
    measure: LossMeasure
    step: int | None
    fixed: tuple[Setting, ...]
    unexplained: Literal["settings", "some_settings", "no_settings"] | None  # that the logs show

    @property
    def count(self) -> int:
        return len(self.runs)

    def text(self) -> Said:
        return sentences(_with(self.fixed), self._spread(), self._unexplained())

    def _spread(self) -> Said:
        values = {"where": _where(self), "size": verbatim("{size:with_error2}", size=(self.mean, self.spread))}
        if self.differ == "seed":
            return Message(
                "{n} repeat with another seed ({where}): {size}, between {low:loss} and {high:loss}.",
                "{n} repeats with other seeds ({where}): {size}, between {low:loss} and {high:loss}.",
                n=self.count,
                **values,
            )
        return Message(
            "{n} run that the logs can't tell apart ({where}): {size}, between {low:loss} and {high:loss}.",
            "{n} runs that the logs can't tell apart ({where}): {size}, between {low:loss} and {high:loss}.",
            n=self.count,
            **values,
        )

    def _unexplained(self) -> Said:
        match self.unexplained:
            case "settings":
                return Message("Unexplained: their settings are the same.")
            case "some_settings":
                return Message("Unexplained: the settings that the logs show are the same.")
            case "no_settings":
                return Message("Unexplained: the logs don't show the settings.")
            case None:
                return None


class Identical(Compared):
    """Runs whose losses agree to the last digit: whatever was changed between them had no effect."""

    runs: tuple[int, ...]
    settings: tuple[str, ...]  # the known ones that differ
    knows_settings: bool  # whether the logs show all of them
    loss: float
    measure: LossMeasure
    step: int | None

    @property
    def count(self) -> int:
        return len(self.runs)

    def text(self) -> Said:
        same = Message(
            "{n} run is identical to the digit ({where}: {loss:loss}).",
            "{n} runs are identical to the digit ({where}: {loss:loss}).",
            n=self.count,
            where=_where(self),
        )
        if self.settings:
            return sentences(same, Message("So {settings} changes nothing here.", settings=_listed(self.settings)))
        if self.knows_settings:
            return sentences(same, Message("Their settings are the same as well: the run can be repeated exactly."))
        return sentences(same, Message("If a setting was changed between them, it changes nothing."))


class Confounded(Compared):
    """Several settings differ between `run` and `other`, so none of them can be named as the cause."""

    run: int
    other: int
    settings: tuple[str, ...]
    difference: float | None  # loss of `run` minus loss of `other`
    measure: LossMeasure | None
    step: int | None
    tell_apart: tuple[Setting, ...]  # `run` again with one of these values would tell
    device_differs: bool

    def said(self, names: Sequence[str]) -> Said:
        run, values = names[self.run], _assigned(self.tell_apart)
        return sentences(
            self._differ(run, names[self.other]),
            len(self.tell_apart) == 1
            and Message("A run like {run}, but with {next}, would tell.", run=run, next=values),
            len(self.tell_apart) > 1
            and Message("Runs like {run}, each with one of {next}, would tell.", run=run, next=values),
            self.device_differs
            and Message(
                "It is not the device: with the same settings and as many steps a CPU learns as well as a GPU, only "
                "more slowly."
            ),
        )

    def _differ(self, run: str, other: str) -> Said:
        shown = {"run": run, "other": other, "settings": _listed(self.settings)}
        if self.difference is None:
            return Message("{run} and {other} differ in several settings: {settings}.", **shown)
        return Message(
            "{run} and {other} differ by {size} ({where}). Several settings differ: {settings}. These runs can't tell "
            "which one matters.",
            **shown,
            size=_apart(self.difference),
            where=_where(self),
        )


@dataclass(eq=False, repr=False)
class Comparison:
    """Several runs side by side."""

    names: tuple[str, ...]
    analyses: tuple[Analysis, ...]
    findings: tuple[Compared, ...]
    rows: tuple[ComparisonRow, ...]
    config: tuple[ConfigDifference, ...]
    ranked: bool  # whether the losses are of the same data, tokens and unit
    measure: LossMeasure | None  # of the losses in the rows; None: the runs have no measure and step in common
    step: int | None


def _with(fixed: Sequence[Setting]) -> Said:
    return Message("With {fixed}:", fixed=_assigned(fixed)) if fixed else None


def _where(finding: Effect | Repeats | Identical | Confounded) -> Message:
    """Where losses are compared."""
    if finding.step is None:
        return Message("last validation loss") if finding.measure == "val" else Message("last training loss")
    if finding.measure == "val":
        return Message("validation loss at step {step:plain}")
    return Message("training loss at step {step:plain}")


def _apart(difference: float) -> Message:
    return verbatim("{size:significant2}", size=abs(difference))


def _assigned(settings: Sequence[Setting]) -> Message:
    return _listed([f"{key}={value}" for key, value in settings])


def _listed(items: Sequence[str | Message]) -> Message:
    return verbatim("{items:listed}", items=items)
