"""What the lines around the records say about a run: its settings, sizes and device."""

import re
from typing import NamedTuple

from nanoscope.runs.run import ConfigValue
from nanoscope.runs.scan import Cell, cells, number
from nanoscope.runs.trainers import vocabulary

# The settings whose values are words; all others are numbers.
_WORDS = re.compile(r"dtype|dataset|model_type|optimizer|init_from|compile|bias|decay_lr|always_save_checkpoint")
_DEVICE_SETTING = re.compile(r"(?:cpu|cuda|mps|xpu)(?::\d+)?")

_NAME = r"([a-z][a-z0-9]{0,20}(?:[_-][a-z0-9]{1,20}){0,5})"
_TEXT = r"['\"]?([^\s'\",;)}#|]{1,80})"
_SETTING = re.compile(  # '--name=value', a row of a table, 'name = value' and 'name: value'
    rf"--{_NAME}(?:=|\s{{1,4}}){_TEXT}"
    rf"|^\|\s{{0,4}}([A-Za-z_][\w ()]{{1,40}}?)\s{{1,40}}\|\s{{0,4}}{_TEXT}\s{{1,80}}\|$"
    rf"|(?<![\w-]){_NAME}['\"]?\s{{0,30}}[=:]\s{{0,4}}{_TEXT}"
)
# What makes a device another one than that of the same number.
_KIND = r"(?:Ti|SUPER|Super|D|Laptop|Ada|Blackwell|SXM\d?|PCI[Ee]|XTX|XT|NVL|HBM\d?e?|MIG|with Max-Q)\b"
_DEVICE_NAME = re.compile(
    r"\b(?:NVIDIA|Tesla|GeForce|Quadro|AMD Instinct|AMD Radeon) (?:GeForce )?"
    r"(?:(?:RTX|GTX|TITAN|RX|PRO|Quadro)\s?){0,3}[A-Z]{0,3}\d{1,4}[A-Z]{0,3}"
    rf"(?:[ -]{_KIND})*(?:-?\s?\d{{1,3}}\s?GB)?(?: {_KIND})*"
    rf"|\bApple M\d(?: (?:Pro|Max|Ultra))?|\b[RG]TX \d{{4}}(?: {_KIND})*\b"
)
_DEVICE_HINT = re.compile(r"NVIDIA|Tesla|GeForce|Quadro|AMD|Apple M|[RG]TX")
_MULTIPLES = {"K": 1e3, "M": 1e6, "B": 1e9}


class Settings(NamedTuple):
    """What a line says about a run."""

    facts: dict[str, ConfigValue]
    typed: set[str]  # given on a command line: they override a configuration file that is printed later
    begins: bool  # whether a run prints such a line before its first step

    def add_to(self, facts: dict[str, ConfigValue], typed: set[str]) -> None:
        """Add them to those of earlier lines, of which the `typed` ones hold."""
        typed |= self.typed
        device = facts.get("device_name")  # the first one holds
        facts |= {key: value for key, value in self.facts.items() if key in self.typed or key not in typed}
        if device:
            facts["device_name"] = device


def read_settings(line: str) -> Settings | None:
    """The settings and facts in a line."""
    words, lowered = vocabulary(), line.lower()
    facts: dict[str, ConfigValue] = {key: True for key, text in words.says if text in line}
    typed, begins = set(), False
    for option, typed_text, row, cell_text, name, text in _SETTING.findall(line) if line[:1] != "#" else ():
        key = words.settings.get((option or row.lower() or name).replace("-", "_"), "")
        value = _value(key, typed_text or cell_text or text)
        if value is not None:
            facts[key] = value
            begins = begins or key == "parameters"
            if option or line.startswith(words.override_prefixes):
                typed.add(key)
    for cell in cells(line) if any(word in lowered for word in words.sentence_words) else ():
        sentence = next((key for label, after, key in words.sentences if _fits(cell, label, after, line)), None)
        count = cell.value * _MULTIPLES.get(cell.unit.upper(), 1.0)
        if sentence and sentence not in typed and not cell.part and 0 < count < 1e16:
            facts[sentence], begins = int(count), True
    device = _DEVICE_NAME.search(line) if _DEVICE_HINT.search(line) else None
    if device:
        facts["device_name"] = device.group().strip()
    return Settings(facts, typed, begins or bool(typed)) if facts else None


def _fits(cell: Cell, label: str, after: str, line: str) -> bool:
    """Whether a sentence of a trainer has this number: 'tokens per iteration will be: 16,384'."""
    return f" {cell.label}".endswith(f" {label}") and line[cell.end :].lstrip().startswith(after)


def _value(key: str, text: str) -> ConfigValue | None:
    """The value of a setting; None if it is none of ours, or source code that happens to be in the log."""
    if not key or text.startswith("-1"):
        return None
    if key == "device":
        return text if _DEVICE_SETTING.fullmatch(text) else None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if _WORDS.fullmatch(key):
        word = text.replace("-", "").replace("_", "")
        return text if word.isalnum() and not word.isdigit() and text not in ("None", "null", "str", "bool") else None
    digits, value = text.replace(",", ""), number(text)
    return None if value - value else int(digits) if digits.isdecimal() else value
