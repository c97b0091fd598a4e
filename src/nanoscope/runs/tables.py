"""Tables in logs: CSV, tabs, bars, Markdown, HTML or columns of spaces become lines of named values."""

import re

_HEAD = re.compile(r"\b(?:steps?|iter(?:ation)?s?|epochs?)\b", re.IGNORECASE)
_LOSS = re.compile(r"loss|bp[bc]\b|nll|perplexity|\btrain\W{1,12}val(?:id)?\b", re.IGNORECASE)
_CELL = re.compile(
    r"[-+]?[\d.,]{1,20}(?:[eE][-+]?\d{1,3})?(?:%|\s?m?s)?|\d{1,4}(?::\d\d){1,2}"
    r"|(?i:nan|inf|no log|none|null|n/a|-{0,4})"
)
_CELL_TAG = re.compile(r"</t[dh]>\s{0,8}<t[dh][^>]{0,80}>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-z][^<>]{0,200}>", re.IGNORECASE)
_NO_HEAD = re.compile(r"[=:]|\d\.\d|.{400}")
_LOSS_COLUMNS = {"train": "train loss", "val": "val loss", "valid": "val loss"}
_SEPARATORS = (r"\|", r"\t", ",", r"\s{2,}")


class TableHead:
    """Remembers the head of the table that was last seen, and names the cells of its rows."""

    def __init__(self) -> None:
        self._separator = ""
        self._names: list[str] = []

    def row(self, line: str) -> str | None:
        """A row of a table, with the names of the columns before the numbers."""
        if len(line) > 600:
            return None
        if "<t" in line:
            line = _TAG.sub("", _CELL_TAG.sub("\t", line)).strip()
        if _HEAD.search(line) and _LOSS.search(line) and not _NO_HEAD.search(line):
            self._see_head(line)
            return None
        cells = _split(line, self._separator) if self._names else []
        if not cells or len(cells) != len(self._names) or not all(map(_CELL.fullmatch, cells)):
            return None
        return ", ".join(map(": ".join, zip(self._names, cells, strict=True)))

    def _see_head(self, line: str) -> None:
        for separator in _SEPARATORS:
            names = [_LOSS_COLUMNS.get(name.lower(), name) for name in _split(line, separator)]
            if len(names) >= 2 and all(any(map(str.isalpha, name)) for name in names):
                self._separator, self._names = separator, names
                return


def _split(line: str, separator: str) -> list[str]:
    return [cell.strip(' "') for cell in re.split(separator, line.strip("| \r\n"))]
