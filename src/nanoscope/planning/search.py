"""A search for settings that improve a run: `tune` asks for less time, `try` for a lower loss. Imports no torch.

Each question tries changes in one direction for as long as they help, with one measurement each. The best of many
looks good by chance alone, so it is used only if it helps again in new pairs (of processes, or of seeds). The next
question is asked of the run with the changes that were confirmed.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from nanoscope.child import ChildError
from nanoscope.config import TrainConfig
from nanoscope.messages import Message, Shown, verbatim
from nanoscope.paired import Difference, paired, settle

Settings = dict[str, Any]
LOOKS = 3, 5, 8  # pairs that confirm; more only if fewer leave it open

TITLES = {
    "threads": Message("CPU threads"),
    "smaller_micro_batch": Message("Smaller micro-batches"),
    "larger_micro_batch": Message("Larger micro-batches"),
    "dtype": Message("Data type"),
    "eval_batch": Message("Sequences at once in an evaluation"),
    "compile": Message("Compiling"),
    "warm_up": Message("Warm-up"),
    "lower_rate": Message("Lower learning rates"),
    "higher_rate": Message("Higher learning rates"),
    "larger_batch": Message("More tokens per iteration, at equal training time"),
    "smaller_batch": Message("Fewer tokens per iteration, at equal training time"),
    "dropout": Message("Dropout"),
}
ANSWERS = {
    "helps": Message("{label} helps: {amount}"),
    "not_confirmed": Message("nothing to change: {label} looked best, but when repeated: {amount}"),
    "nothing_better": Message("nothing to change: no change is better by more than the noise"),
    "unfinished": Message("not finished: {reason}"),
}


class NoTimeLeftError(Exception):
    """Nothing further can be measured in time."""


@dataclass
class Change:
    settings: Settings
    gain: Difference | None = None
    problem: Shown | None = None
    """Why it could not be measured."""


@dataclass
class Finding:
    """The answer to a question."""

    question: str
    verdict: Literal["helps", "not_confirmed", "nothing_better", "unfinished"] = "unfinished"
    tried: list[Change] = field(default_factory=list)
    best: Change | None = None
    """With the gain of the confirmation, which had no part in choosing it."""


class Search(ABC):
    """`best` is the run with every change that was confirmed."""

    CONFIDENCE: float  # one-sided, at each look
    SIZE: str  # format of a gain
    BETTER: Message
    WORSE: Message

    def __init__(
        self, run: TrainConfig, report: Callable[[Message], None], seconds: float, now: Callable[[], float]
    ) -> None:
        self.run = self.best = run
        self.report, self.now = report, now
        self.deadline = now() + seconds
        self.findings: list[Finding] = []
        self.stopped: Message | None = None

    @abstractmethod
    def changes(self, question: str) -> Iterable[Settings]:
        """What to try on top of `best`, each further in one direction; nothing where there is no question."""

    @abstractmethod
    def gain(self, changed: TrainConfig, pair: int) -> float:
        """What a change of `best` gains. Pair 0 is the first look; every other has to be a new one."""

    @abstractmethod
    def worth(self, question: str) -> float:
        """What gains less is not worth a change."""

    def ask(self, questions: Iterable[str]) -> None:
        for question in questions:
            finding = Finding(question)
            self.findings.append(finding)
            try:
                self._answer(finding)
            except NoTimeLeftError:
                self.stopped = Message("out of time; allow more with --minutes")
            if not finding.tried and finding.verdict != "unfinished":
                self.findings.remove(finding)

    def check_time(self) -> None:
        if self.now() > self.deadline:
            raise NoTimeLeftError

    def _answer(self, finding: Finding) -> None:
        most = 0.0
        for settings in self.changes(finding.question):
            self.check_time()
            self.report(Message("trying {settings}", settings=flags(settings)))
            try:
                gain = self.gain(replace(self.best, **settings), 0)
            except ChildError as error:
                finding.tried.append(Change(settings, problem=error.text))
                break
            finding.tried.append(Change(settings, paired([gain])))
            if gain <= most:
                break
            best, most = settings, gain
        finding.verdict = "nothing_better"
        if not finding.tried or most < (worth := self.worth(finding.question)):
            return
        finding.verdict = "unfinished"
        self.report(Message("confirming {settings}", settings=flags(best)))
        changed = replace(self.best, **best)
        confirmed = settle(lambda pair: self.gain(changed, pair + 1), LOOKS, worth, self.CONFIDENCE)
        finding.best, finding.verdict = Change(best, confirmed), "not_confirmed"
        if confirmed.verdict(worth, self.CONFIDENCE) == "better":
            finding.verdict, self.best = "helps", changed

    def lines(self) -> Iterator[Message]:
        """What was tried and what came of it; lines that belong to the one before begin with spaces."""
        for finding in self.findings:
            yield TITLES[finding.question]
            for each in finding.tried:
                yield verbatim("  {text}", text=Message("{label}: {amount}", **self._words(each)))
            words = self._words(finding.best) if finding.best else {}
            answer = Message(ANSWERS[finding.verdict].template, **words, reason=self.stopped)
            yield verbatim("  {text}", text=answer)

    def _words(self, change: Change) -> dict[str, Shown]:
        """A change and its gain, with the standard error; a single pair has none."""
        label, gain = flags(change.settings), change.gain
        if gain is None:
            return {"label": label, "amount": change.problem or ""}
        size, error = (f"{each:{self.SIZE}}" for each in (abs(gain.mean), gain.error))
        template = self.WORSE if gain.mean < 0 else self.BETTER
        amount = Message(template.template, size=size if gain.pairs == 1 else f"{size} ± {error}")
        return {"label": label, "amount": amount}

    @property
    def settings(self) -> Settings:
        """The changes that were confirmed."""
        return differences(self.best, self.run)

    def document(self) -> dict[str, object]:
        """As JSON (docs/try.md)."""
        stopped = self.stopped and str(self.stopped)
        return {"settings": self.settings, "findings": self.findings, "stopped": stopped}


def differences(config: TrainConfig, run: TrainConfig) -> Settings:
    """The settings in which a configuration differs from a run's."""
    return {key: value for key, value in vars(config).items() if value != getattr(run, key)}


def flags(settings: Settings) -> str:
    """Settings as they are typed."""
    return " ".join(f"--{key}={value}" for key, value in settings.items())
