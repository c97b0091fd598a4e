"""Whether two runs learn from the same data: by fingerprint, size and vocabulary, and by name if nothing else tells.

Only losses of the same data, tokens and units can be ranked.
"""

import math
from collections.abc import Sequence
from itertools import combinations

from nanoscope.analysis.compare.side import Side
from nanoscope.analysis.findings import Data, NotComparable, SameData, UnknownData

# Of tokenizers that many datasets share: the same vocabulary does not make them the same data.
COMMON_VOCABULARIES = {256, 257, 30522, 32000, 32768, 50257, 50304, 65536, 100277, 128256, 151936}
PADDING = 128  # vocabularies are often rounded up to a multiple of this
SAME_SIZE = 0.001
OTHER_START = 0.5  # nats between the losses of two untrained models: other vocabularies


def comparable_groups(sides: Sequence[Side], same_log: bool) -> tuple[list[list[Side]], list[Data]]:
    """The runs whose losses can be held against each other, and what that rests on."""
    groups: list[list[Side]] = []
    found: list[Data] = []
    for side in sides:
        for group in groups:
            if _obstacle(group[0], side) is None:
                group.append(side)
                break
        else:
            found.extend(o for group in groups[:1] if (o := _obstacle(group[0], side)))
            groups.append([side])
    told: set[tuple[str, str]] = set()
    for group in groups:
        for one, two in combinations(group, 2):
            same = _same_by_evidence(one, two)
            if same and same.names not in told:
                told.add(same.names)
                found.append(same)
        if len(group) > 1 and not same_log and not _is_known(group):
            found.append(UnknownData(tuple(side.place for side in group), confidence="hint"))
    return groups, found


def _obstacle(one: Side, two: Side) -> NotComparable | None:
    """Why the losses of two runs cannot be ranked; None if nothing speaks against it."""

    def because(reason: str, a: object, b: object, sure: bool = True) -> NotComparable:
        confidence = "sure" if sure else "likely"
        return NotComparable(one.place, two.place, reason, (str(a), str(b)), confidence=confidence)  # type: ignore[arg-type]

    units = _unit(one), _unit(two)
    if None not in units and units[0] != units[1]:
        return because("unit", *units)
    prints = _fingerprint(one), _fingerprint(two)
    if all(prints) and prints[0] == prints[1]:
        return None
    vocabularies = _size(one, "vocab_size"), _size(two, "vocab_size")
    if vocabularies[0] and vocabularies[1] and not _same_vocabulary(vocabularies[0], vocabularies[1]):
        return because("vocabulary", *vocabularies)
    names = _name(one), _name(two)
    if all(prints):
        return because("data", *(names if names[0] != names[1] else ("", "")))
    sizes = _size(one, "train_tokens"), _size(two, "train_tokens")
    if sizes[0] and sizes[1]:
        return None if math.isclose(sizes[0], sizes[1], rel_tol=SAME_SIZE) else because("size", *sizes)
    if names[0] and names[1] and names[0] != names[1] and not _same_by_evidence(one, two):
        return because("data", *names, sure=False)
    starts = _start(one), _start(two)
    if not all(vocabularies) and starts[0] and starts[1] and abs(starts[0] - starts[1]) > OTHER_START:
        return because("start", f"{starts[0]:.2f}", f"{starts[1]:.2f}", sure=False)
    return None


def _same_by_evidence(one: Side, two: Side) -> SameData | None:
    """Whether runs that name their data differently learn from the same."""
    names = _name(one), _name(two)
    if not names[0] or not names[1] or names[0] == names[1]:
        return None
    vocabulary = _size(one, "vocab_size")
    prints = _fingerprint(one), _fingerprint(two)
    if all(prints):
        same = prints[0] == prints[1]
        return SameData(one.place, two.place, names, "fingerprint", vocabulary, confidence="sure") if same else None
    if not vocabulary or vocabulary != _size(two, "vocab_size"):
        return None
    sizes = _size(one, "train_tokens"), _size(two, "train_tokens")
    if sizes[0] and sizes[1]:
        same = math.isclose(sizes[0], sizes[1], rel_tol=SAME_SIZE)
        return SameData(one.place, two.place, names, "size", vocabulary, confidence="sure") if same else None
    if vocabulary in COMMON_VOCABULARIES:
        return None
    # As many different characters, by chance, in two texts: possible, but rare.
    related = names[0].startswith(names[1]) or names[1].startswith(names[0])
    return SameData(one.place, two.place, names, "vocabulary", vocabulary, confidence="likely" if related else "hint")


def _is_known(group: Sequence[Side]) -> bool:
    """Whether something says what each run learns from; a vocabulary of characters is nearly a fingerprint."""
    vocabularies = {_size(side, "vocab_size") for side in group}
    if len(vocabularies) == 1 and not vocabularies & {None, *COMMON_VOCABULARIES}:
        return True
    return all(_name(side) or _fingerprint(side) or _size(side, "train_tokens") for side in group)


def _unit(side: Side) -> str | None:
    return side.analysis.evals.metric if side.analysis.evals else None


def _fingerprint(side: Side) -> str | None:
    return side.run.details.start.dataset_fingerprint if side.run.details else None


def _name(side: Side) -> str:
    return str(side.settings.get("dataset", "")).replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]


def _size(side: Side, key: str) -> int | None:
    value = side.settings.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _same_vocabulary(one: int, two: int) -> bool:
    low, high = sorted((one, two))
    return low == high or (high % 64 == 0 and high - low < PADDING and low > PADDING)


def _start(side: Side) -> float | None:
    """The loss before training, where the log begins with it."""
    run = side.run
    if run.begins_with_resume or "init_from" in side.settings:
        return None
    if run.evals and run.evals[0].step == 0 and run.evals[0].metric == "loss":
        return run.evals[0].val if math.isfinite(run.evals[0].val) else None
    if run.steps and run.steps.step[0] <= 1 and math.isfinite(run.steps.loss[0]):
        return run.steps.loss[0]
    return None
