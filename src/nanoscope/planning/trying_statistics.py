"""What a few paired runs show: the gain, its error, and whether that is more than noise. Pure functions.

Two arms of a seed have the same initial weights and batches, so they are compared pair by pair. A rerun with another
seed differs by more than an evaluation's windows say, so the error comes from the spread between seeds, and that of
the windows, which all seeds share, is added. A few seeds alone tell little about their spread: that of all pairs
measured so far is used beside it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from nanoscope.estimates import standard_error

USUAL_SHARE = 0.005  # of the loss: the spread of paired differences before any was measured; 0.002 to 0.04 were seen
USUAL_WEIGHT = 3  # degrees of freedom that this guess counts for
MOST_WEIGHT = 8  # and the spread of other pairs
WORTH_SHARE = 0.005  # of the loss: what gains less is not worth a change
SURE = 0.995  # one-sided, at each look: at most five changes are confirmed in a trial, with up to three looks each
LIKELY = 0.95


@dataclass(frozen=True)
class Noise:
    """The standard deviation of a paired difference between runs of one seed, and how well it is known."""

    deviation: float
    freedom: float


@dataclass(frozen=True)
class Gain:
    """By how much the validation loss is lower with a change; negative if it is higher."""

    mean: float
    error: float
    freedom: float
    seeds: int

    def above(self, confidence: float) -> float:
        """The gain is larger than this, so sure."""
        return self.mean - self._width(confidence)

    def below(self, confidence: float) -> float:
        return self.mean + self._width(confidence)

    def _width(self, confidence: float) -> float:
        return t_quantile(confidence, self.freedom) * self.error


def t_quantile(confidence: float, freedom: float) -> float:
    """Student's t (the expansion of Cornish and Fisher: within 2 % from 3 degrees of freedom on)."""
    z = NormalDist().inv_cdf(confidence)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / freedom**power for power, term in enumerate(terms, start=1))


def pooled_noise(groups: Sequence[Sequence[float]], loss: float) -> Noise:
    """The noise of paired differences, each group those of one change; `loss` is the usual size of a loss."""
    squares, freedom = USUAL_WEIGHT * (USUAL_SHARE * loss) ** 2, float(USUAL_WEIGHT)
    for differences in groups:
        middle = sum(differences) / max(len(differences), 1)
        squares += sum((each - middle) ** 2 for each in differences)
        freedom += max(len(differences) - 1, 0)
    return Noise(math.sqrt(squares / freedom), min(freedom, MOST_WEIGHT))


def gain(differences: Sequence[float], by_window: Sequence[float], noise: Noise) -> Gain:
    """From the differences of each seed, and the mean ones of each window in the order of the text."""
    count = len(differences)
    mean = sum(differences) / count
    squares = sum((each - mean) ** 2 for each in differences)
    shared = (noise.freedom * noise.deviation**2 + squares) / (noise.freedom + count - 1)
    own = squares / (count - 1) if count > 1 else 0.0
    windows = (standard_error(by_window) or 0.0) if by_window else 0.0
    error = math.sqrt(max(shared, own) / count + windows**2)  # one that is less steady than the others counts as such
    return Gain(mean, error, noise.freedom + count - 1, count)


def judge(found: Gain, loss: float) -> str:
    """helps, worse, too_small (a gain that is no noise, but not worth a change), no_difference (nothing to see)."""
    if found.below(SURE) < 0:
        return "worse"
    if found.above(SURE) > 0:
        return "helps" if found.mean >= WORTH_SHARE * loss else "too_small"
    return "no_difference"


def is_promising(found: Gain, loss: float) -> bool:
    """Whether a change deserves the runs that would confirm it."""
    return found.mean > WORTH_SHARE * loss / 2 and found.below(LIKELY) > WORTH_SHARE * loss


def is_hopeless(found: Gain, best: Gain) -> bool:
    """Whether more seeds would not make this the best."""
    return found.below(SURE) < best.above(SURE)


def at_full_length(short: float, longer: float, growth: float, full_growth: float) -> float:
    """The gain at the run's own length, if it goes on changing as it did between two lengths; never larger than it was.

    `growth` is the ratio of the two lengths, `full_growth` that of the run's length to the shorter one.
    """
    if short <= 0 or longer <= 0:
        return min(short, longer)
    if longer >= short:
        return longer
    return float(short * (longer / short) ** (math.log(full_growth) / math.log(growth)))
