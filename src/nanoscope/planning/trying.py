"""Tries what could be changed about a run: short runs with and without each change, from the same seeds and batches.

Each question is asked of the run with the changes that were confirmed before. Its changes are screened with two seeds;
the best of many looks good by chance alone, so it is proposed only if it helps again with other seeds, and if the
trials are shorter than the run, in runs of another length as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from nanoscope.analysis.findings import Advice
from nanoscope.config import TrainConfig
from nanoscope.messages import Text
from nanoscope.planning.trying_arms import (
    LEARNING,
    Change,
    Question,
    changes,
    evaluating_less,
    further,
    with_length,
)
from nanoscope.planning.trying_lab import Lab, NoTimeLeftError
from nanoscope.planning.trying_statistics import (
    SURE,
    WORTH_SHARE,
    Gain,
    Noise,
    at_full_length,
    gain,
    is_hopeless,
    is_promising,
    judge,
    pooled_noise,
)

SCREENED = 2  # seeds
LOOKS = 3, 5  # seeds of a confirmation; more only if fewer leave it open
ARMS_OF_ALL = (
    45  # about as many arms of one length as all questions take, with confirmations in runs of twice the length
)
LONGER = 2  # times: the length of the runs that confirm, unless the trials are as long as the run already
FEWEST_ITERS = 40  # of a trial: shorter ones say nothing about a run
NEAR_SHARE = 0.05  # of the loss: changes that do worse by more are as noisy as they like
TIME_NOISE = Noise(0.02, 3)  # of a share of time that was measured in pairs
WORTH_TIME = 0.02
AS_MUCH = 0.8  # of the time that another change saves


@dataclass(frozen=True)
class Length:
    """How long trials are, as shares of the run's iterations."""

    iters: int
    confirmed_iters: int
    run_iters: int

    @property
    def is_whole(self) -> bool:
        return self.iters == self.run_iters


def choose_length(run_iters: int, seconds_per_iteration: float, seconds: float) -> Length:
    """The longest trials that fit into the time; whole runs if possible. Fewer than FEWEST_ITERS if nothing fits."""
    fitting = int(seconds / max(ARMS_OF_ALL * seconds_per_iteration, 1e-9))
    if fitting >= run_iters:
        return Length(run_iters, run_iters, run_iters)
    return Length(fitting, min(LONGER * fitting, run_iters), run_iters)


@dataclass
class Tried:
    """A change and what it did, compared with the run without it."""

    change: Change
    gain: Gain
    verdict: str
    """As `judge` says."""


@dataclass
class Finding:
    """The answer to a question."""

    question: Question
    tried: list[Tried] = field(default_factory=list)
    """All changes, as they were screened."""
    best: Change | None = None
    """The change that was confirmed or refuted with other seeds; None if none was promising."""
    confirmed: Gain | None = None
    verdict: str = "nothing_better"
    """helps, fades (only in short runs), not_confirmed, nothing_better, unfinished; saves or no_time_saved."""
    loss: float = 0.0
    """Of the run without the change, in the trials."""
    time_ratio: float = 1.0
    """Of a change that is compared at equal time: how many iterations it has for one of the run."""
    reason: Text | None = None
    """Why it is unfinished."""

    @property
    def is_proposed(self) -> bool:
        return self.verdict in ("helps", "saves")


@dataclass
class Results:
    run: TrainConfig
    length: Length
    findings: list[Finding] = field(default_factory=list)
    proposed: TrainConfig | None = None
    """The run with every change that was confirmed; None without any."""
    arms: int = 0
    problems: dict[str, str] = field(default_factory=dict)
    """Changes in which training broke down."""
    stopped: Text | None = None


class Trial:
    """Asks the questions, one after another."""

    def __init__(self, lab: Lab, length: Length, run: TrainConfig) -> None:
        self._lab, self._length = lab, length
        self._seeds = [run.seed + number for number in range(SCREENED + LOOKS[-1])]
        self._noise: list[list[float]] = []
        self.results = Results(run, length)
        self.standing = run
        """The run with the changes that were confirmed so far."""

    def ask_all(self, advice: Sequence[Advice]) -> Results:
        advised = {each.action for each in advice}
        for each in advice:
            if each.action in ("raise_eval_interval", "lower_eval_iters") and not self.results.stopped:
                self._ask_about_evaluations(each)
        for question in LEARNING:
            if question == "dropout" and not self._length.is_whole:
                continue  # overfitting shows only in runs of the whole length
            found = changes(question, self.standing, advised)
            if found and not self.results.stopped:
                self._ask(question, found)
            elif found:
                self.results.findings.append(Finding(question, verdict="unfinished", reason=self.results.stopped))
        self.results.arms, self.results.problems = self._lab.arms, self._lab.problems
        if any(finding.is_proposed for finding in self.results.findings):
            self.results.proposed = self.standing
        return self.results

    def _ask(self, question: Question, first: list[Change]) -> None:
        finding = Finding(question)
        self.results.findings.append(finding)
        pairs: dict[Change, dict[int, list[float]]] = {change: {} for change in first}
        try:
            self._screen(finding, pairs)
            best = max(finding.tried, key=lambda tried: tried.gain.mean)
            if is_promising(best.gain, finding.loss):
                finding.best, finding.time_ratio = best.change, self._ratio(best.change)
                finding.verdict = "unfinished"
                self._confirm(finding, best)
        except (NoTimeLeftError, KeyboardInterrupt) as why:
            self._stop(finding, why)
            finding.tried = self._tried(pairs, finding.loss) if finding.loss else []
        if finding.is_proposed and finding.best is not None:
            ratio = finding.time_ratio
            changed = finding.best.of(self.standing)
            self.standing = with_length(changed, max(round(ratio * changed.max_iters), 1)) if ratio != 1 else changed

    def _screen(self, finding: Finding, pairs: dict[Change, dict[int, list[float]]]) -> None:
        """Every change with one seed, and beyond the edge if the best is there; those that may be best with another."""
        first, *others = self._seeds[:SCREENED]
        finding.loss = _mean(self._losses(None, first))
        waiting = list(pairs)
        while waiting:
            for change in waiting:
                pairs[change] = {first: self._difference(change, first)}
            finding.tried = self._tried(pairs, finding.loss)
            best = max(finding.tried, key=lambda tried: tried.gain.mean)
            waiting = further(best.change, list(pairs), self.standing) if best.gain.mean > 0 else []
        for seed in others:
            best = max(finding.tried, key=lambda tried: tried.gain.mean)
            for tried in finding.tried:
                if tried is best or not is_hopeless(tried.gain, best.gain):
                    pairs[tried.change][seed] = self._difference(tried.change, seed)
            finding.tried = self._tried(pairs, finding.loss)
        self._noise += _near(pairs, finding.loss)

    def _confirm(self, finding: Finding, best: Tried) -> None:
        """Try the best change again with other seeds, in longer runs if there are any."""
        share = self._length.confirmed_iters / self._length.run_iters
        by_seed: dict[int, list[float]] = {}
        for look in LOOKS:
            for seed in self._seeds[SCREENED : SCREENED + look]:
                if seed not in by_seed:
                    by_seed[seed] = self._difference(best.change, seed, share)
            finding.confirmed = found = self._gain(by_seed, finding.loss)
            verdict = judge(found, finding.loss)
            if verdict != "no_difference" or found.below(SURE) < WORTH_SHARE * finding.loss:
                break
        finding.verdict = "helps" if verdict == "helps" else "not_confirmed"
        length = self._length
        if finding.verdict == "helps" and length.confirmed_iters < length.run_iters:
            growth, whole = length.confirmed_iters / length.iters, length.run_iters / length.iters
            if at_full_length(best.gain.mean, found.mean, growth, whole) < WORTH_SHARE * finding.loss:
                finding.verdict = "fades"

    def _ask_about_evaluations(self, advice: Advice) -> None:
        interval = self.standing.eval_interval
        for change in evaluating_less(
            self.standing, advice.action, advice.to_value, self.standing.max_iters // interval
        ):
            finding = Finding("evaluation", best=change)
            self.results.findings.append(finding)
            iters = max(interval, change.of(self.standing).eval_interval)
            try:
                shares = self._lab.savings(self.standing, change, iters)
            except (NoTimeLeftError, KeyboardInterrupt) as why:
                self._stop(finding, why)
                break
            finding.confirmed = saved = gain(shares, (), TIME_NOISE)
            finding.verdict = "saves" if saved.above(SURE) > WORTH_TIME else "no_time_saved"
            finding.tried = [Tried(change, saved, finding.verdict)]
        saved_by = {
            each.best: each.confirmed.mean
            for each in self.results.findings
            if each.best and each.confirmed and each.verdict == "saves"
        }
        if best := one_of(saved_by):
            self.standing = best.of(self.standing)

    def _stop(self, finding: Finding, why: BaseException) -> None:
        reason = Text("interrupted") if isinstance(why, KeyboardInterrupt) else Text("no time left")
        self.results.stopped = finding.reason = reason
        finding.verdict = "unfinished"

    def _losses(self, change: Change | None, seed: int, share: float | None = None) -> list[float]:
        share = self._length.iters / self._length.run_iters if share is None else share
        if change is None:
            return self._lab.losses(self.standing, share, seed, Text("the run as it is"))
        return self._lab.losses(change.of(self.standing), share * self._ratio(change), seed, change.label)

    def _difference(self, change: Change, seed: int, share: float | None = None) -> list[float]:
        """By window, how much lower the loss is with the change."""
        without, with_it = self._losses(None, seed, share), self._losses(change, seed, share)
        return [one - other for one, other in zip(without, with_it, strict=True)]

    def _ratio(self, change: Change) -> float:
        return self._lab.time_ratio(self.standing, change) if change.equal_time else 1.0

    def _tried(self, pairs: dict[Change, dict[int, list[float]]], loss: float) -> list[Tried]:
        noise = pooled_noise([*self._noise, *_near(pairs, loss)], loss)
        found = [(change, _gain(by_seed, noise)) for change, by_seed in pairs.items() if by_seed]
        return [Tried(change, each, judge(each, loss)) for change, each in found]

    def _gain(self, by_seed: dict[int, list[float]], loss: float) -> Gain:
        return _gain(by_seed, pooled_noise(self._noise, loss))


def one_of(saved_by: dict[Change, float]) -> Change | None:
    """Of changes that save time, the one to make: evaluations that stay as exact as they are, if that saves as much."""
    exact = [change for change in saved_by if "eval_interval" in dict(change.settings)]
    nearly = [change for change in exact if saved_by[change] > AS_MUCH * max(saved_by.values())]
    return next(iter(nearly or sorted(saved_by, key=lambda change: -saved_by[change])), None)


def _gain(by_seed: dict[int, list[float]], noise: Noise) -> Gain:
    by_window = [sum(values) / len(by_seed) for values in zip(*by_seed.values(), strict=True)]
    return gain(list(map(_mean, by_seed.values())), by_window, noise)


def _near(pairs: dict[Change, dict[int, list[float]]], loss: float) -> list[list[float]]:
    """The differences by seed of the changes that do not do much worse: those tell how noisy such runs are."""
    groups = [list(map(_mean, by_seed.values())) for by_seed in pairs.values()]
    return [group for group in groups if group and _mean(group) > -NEAR_SHARE * loss]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def untouched(config: TrainConfig) -> TrainConfig:
    """The settings of arms: those of the run, but compiling would take longer than it saves, once for each arm."""
    return replace(config, compile=False, wandb_log=False, tensorboard=False)
