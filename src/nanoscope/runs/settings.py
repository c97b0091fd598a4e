"""What the lines around the records say about a run: its settings, sizes and device."""

import re

from nanoscope.runs.run import ConfigValue
from nanoscope.runs.scan import Cell, cells
from nanoscope.runs.trainers import vocabulary

# The settings whose values are words; all others are numbers.
_WORDS = re.compile(r"dtype|dataset|model_type|optimizer|init_from|compile|bias|decay_lr|always_save_checkpoint")
_DEVICE_SETTING = re.compile(r"(?:cpu|cuda|mps|xpu)(?::\d+)?")

_NAME = r"([a-z][a-z0-9]{0,20}(?:[_-][a-z0-9]{1,20}){0,5})"
_TEXT = r"['\"]?([^\s'\",;)}#|]{1,80})"
_ASSIGNMENT = re.compile(rf"--{_NAME}(?:=|\s{{1,4}}){_TEXT}|(?<![\w-]){_NAME}['\"]?\s{{0,30}}[=:]\s{{0,4}}{_TEXT}")
_TABLE_ROW = re.compile(r"^\|\s{0,4}([A-Za-z_][\w ()]{1,40}?)\s{1,40}\|\s{0,4}([^|]{1,80}?)\s{1,80}\|$")
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


def read_settings(line: str, facts: dict[str, ConfigValue], typed: set[str]) -> bool:
    """Add the settings in a line to `facts`; return whether a run prints such a line before its first step.

    `typed` are the settings given on a command line: they override a configuration file that is printed later.
    """
    found = False
    row = _TABLE_ROW.match(line) if line.startswith("|") else None
    if row is not None:
        key = vocabulary().table_rows.get(row[1].strip().lower())
        if key:
            facts[key] = _value(row[2].strip())
            found = key == "parameters"
    elif ("=" in line or ":" in line or "--" in line) and not line.lstrip().startswith("#"):
        found = _read_assignments(line, facts, typed)
    found = _read_sentences(line, facts, typed) or found
    for key, text in vocabulary().says:
        if text in line:
            facts[key] = True
    device = _DEVICE_NAME.search(line) if "device_name" not in facts and _DEVICE_HINT.search(line) else None
    if device:
        facts["device_name"] = device.group().strip()
    return found


def _read_assignments(line: str, facts: dict[str, ConfigValue], typed: set[str]) -> bool:
    words = vocabulary()
    found = False
    for option, option_text, name, text in _ASSIGNMENT.findall(line):
        key = words.settings.get((option or name).replace("-", "_"))
        text = option_text or text
        if key is None or text.startswith("-1") or not _plausible(key, text):
            continue
        if option or line.startswith(words.override_prefixes):
            typed.add(key)
            found = True
        elif key in typed:
            continue
        facts[key] = _value(text)
    return found


def _read_sentences(line: str, facts: dict[str, ConfigValue], typed: set[str]) -> bool:
    """Numbers whose labels a trainer's file names: 'tokens per iteration will be: 16,384'."""
    sentences = vocabulary().sentences
    lowered = line.lower()
    if not any(word in lowered for word in vocabulary().sentence_words):
        return False
    found = False
    for cell in cells(line):
        key = next((key for label, after, key in sentences if _fits(cell, label, after, line)), None)
        value = cell.value * _MULTIPLES.get(cell.unit.upper(), 1.0)
        if key and key not in typed and not cell.part and 0 < value < 1e16:
            facts[key] = int(value)
            found = True
    return found


def _fits(cell: Cell, label: str, after: str, line: str) -> bool:
    return (cell.label == label or cell.label.endswith(" " + label)) and line[cell.end :].lstrip().startswith(after)


def _plausible(key: str, text: str) -> bool:
    """Whether this is a setting's value, and not source code that happens to be in the log."""
    if key == "device":
        return bool(_DEVICE_SETTING.fullmatch(text))
    if _WORDS.fullmatch(key):
        word = text.replace("-", "").replace("_", "")
        return word.isalnum() and not word.isdigit() and text not in ("None", "null", "str", "bool")
    return not isinstance(_value(text), str)


def _value(text: str) -> ConfigValue:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            number = kind(text.replace(",", "") if kind is int else text)
        except ValueError:
            continue
        return number if number - number == 0 else text
    return text
