"""Sentences that say that a checkpoint was written, in the words of any trainer."""

import re

_SAVING = re.compile(
    r"\bsav(?:ed|ing)\b.{0,60}?\b(?:checkpoint|model|ckpt|snapshot|weights|adapters?|state)"
    r"|\bwr(?:ote|iting|itten) (?:the |a )?(?:\w{1,20} )?(?:checkpoint|model|ckpt|snapshot|weights|state)"
    r" (?:to|at|in)\b"
    r"|\b(?:checkpoint|snapshot|model|weights|adapters?)\b (?:\S{1,80} )?(?:was |has been |is )?(?:saved|written)\b",
    re.IGNORECASE,
)
_SAVED_AT = re.compile(
    r"(?:iter(?:ation)?|step|epoch|update)[ :=#]{1,3}(\d{1,12})\b|\bat (\d{1,12}) (?:iter|step|update)"
    r"|(?:checkpoint|ckpt|step|iter|model)[-_](\d{1,12})\b",
    re.IGNORECASE,
)
_NOT_SAVING = re.compile(
    r"\b(?:will be|every|not sav|to be saved|load|cannot|can't|fail|error|without|would)\b", re.IGNORECASE
)


def saved_step(line: str) -> int | None:
    """The step in the sentence; -1 if it names none; None if nothing was saved."""
    if len(line) > 400 or not _SAVING.search(line) or _NOT_SAVING.search(line):
        return None
    at = _SAVED_AT.search(line)
    return next((int(part) for part in at.groups() if part), -1) if at else -1
