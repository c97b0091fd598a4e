"""Lines that a terminal broke at its width are put together again."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice, pairwise

SAMPLE = 600  # lines looked at for the width
LEAST_WIDTH, MOST_WIDTH = 28, 260
LEAST_FULL = 4  # lines of exactly that width
MOST_PIECES = 12
KNOWN_BEGINNING = 3  # lines that begin alike
MOST_BEGINNINGS = 1000

_BEGINNING = re.compile(
    r"\W{0,4}(?:iter|step|epoch|batch)\w{0,8}[\s:=#\[]{0,8}\d|(?:\w{1,12} )?(?:eval|train|val|sav|loss)", re.IGNORECASE
)

NumberedLine = tuple[int, str]


def unwrapped(lines: Iterable[NumberedLine], joined: Callable[[], None]) -> Iterator[NumberedLine]:
    """The lines as they were before a terminal broke them; most logs are passed on as they are.

    `joined` is called for each line that was put together.
    """
    lines = iter(lines)
    head = list(islice(lines, SAMPLE))
    width = wrap_width([line for _, line in head])
    everything = chain(head, lines)
    return _joined(everything, width, joined) if width else everything


def wrap_width(lines: list[str]) -> int | None:
    """The width at which lines were broken: many have exactly this length, none is longer, and what follows them
    is no beginning of a line."""
    lengths = Counter(len(line) for line in lines)
    width = max(lengths, default=0)
    if not LEAST_WIDTH <= width <= MOST_WIDTH or lengths[width] < LEAST_FULL:
        return None
    pairs = list(pairwise(lines))
    beginnings = Counter(_shape(b) for a, b in pairs if len(a) != width)
    full = [(a, b) for a, b in pairs if len(a) == width and not _ends_whole(a) and b.strip()]
    broken = sum(_goes_on(a, b) and _shape(a) != _shape(b) and beginnings[_shape(b)] < 2 for a, b in full)
    return width if broken >= LEAST_FULL and broken > 0.6 * len(full) else None


def _goes_on(line: str, following: str) -> bool:
    """Whether the end of one line and the beginning of the next look like the middle of something."""
    if "%|" in line:
        return not line.rstrip().endswith("]")
    if _BEGINNING.match(following):
        return False
    last, first = line[-1], following[0]
    if last in " =:,([{|/-_'\"" or first in " .,;:)]}=%/_'|" or first.islower():
        return True
    return first.isdigit() and (last.isdigit() or last == ".")


def _shape(line: str) -> str:
    """How a line begins, whatever its numbers are."""
    return re.sub(r"\d+", "0", line.lstrip()[:16])[:12]


def _ends_whole(line: str) -> bool:
    """Whether a line as wide as the terminal ends there: a progress bar or a ruler fills the width."""
    if "%|" in line:
        return line.rstrip().endswith("]")
    return len(set(line)) <= 3 or (line.rstrip().endswith("}") and line.count("{") == line.count("}"))


def _joined(lines: Iterable[NumberedLine], width: int, joined: Callable[[], None]) -> Iterator[NumberedLine]:
    number = 0
    pieces: list[str] = []
    beginnings: Counter[str] = Counter()  # how lines begin that follow a line that was not broken
    for at, line in lines:
        shape = _shape(line)
        if pieces and beginnings[shape] >= KNOWN_BEGINNING and shape.strip():
            yield number, "".join(pieces)  # it was exactly as long as the terminal is wide
            pieces = []
        if not pieces:
            number = at
            if len(beginnings) < MOST_BEGINNINGS or shape in beginnings:
                beginnings[shape] += 1
        pieces.append(line)
        if len(line) != width or _ends_whole(line) or len(pieces) >= MOST_PIECES:
            if len(pieces) > 1:
                joined()
            yield number, "".join(pieces)
            pieces = []
    if pieces:
        yield number, "".join(pieces)
