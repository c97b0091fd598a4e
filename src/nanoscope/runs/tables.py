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
_LOSS_COLUMNS = {"train": "train loss", "val": "val loss", "valid": "val loss"}
_DIGIT = re.compile(r"\d")
_COLUMNS = re.compile(r"\s{2,}")


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
        if not _DIGIT.search(line) or (self._names and _is_head(line)):
            self._see_head(line)
            return None
        if not self._names:
            if not _is_head(line):
                return None
            self._see_head(line)
            return None
        cells = _split(line, self._separator)
        if len(cells) != len(self._names) or not all(map(_CELL.fullmatch, cells)):
            return None
        named = [
            f"{name}: {cell}"
            for name, cell in zip(self._names, cells, strict=True)
            if cell[:1].isdigit() or cell[:1] in "-+." or cell.lower() in ("nan", "inf")
        ]
        return ", ".join(named) if len(named) >= 2 else None

    def _see_head(self, line: str) -> None:
        if not _is_head(line):
            return
        for separator in ("|", "\t", ",", "  "):
            names = [_LOSS_COLUMNS.get(name.lower(), name) for name in _split(line, separator)]
            if len(names) >= 2 and all(names) and sum(any(c.isalpha() for c in name) for name in names) == len(names):
                if all(len(name) < 40 and ":" not in name and "=" not in name for name in names):
                    self._separator, self._names = separator, names
                return


def _is_head(line: str) -> bool:
    return len(line) < 400 and bool(_HEAD.search(line) and _LOSS.search(line)) and not re.search(r"[=:]|\d\.\d", line)


def _split(line: str, separator: str) -> list[str]:
    if separator == "  ":
        return _COLUMNS.split(line.strip())
    if separator not in line:
        return []
    text = line.strip().strip("|") if separator == "|" else line.strip("\r\n ") if separator == "\t" else line.strip()
    return [cell.strip().strip('"') for cell in text.split(separator)]
