"""What the lines around the records say about a run: its settings, sizes and device."""

import re
from functools import lru_cache

from nanoscope.runs.formats import all_formats
from nanoscope.runs.run import ConfigValue

# nanoscope's settings (which are nanoGPT's) that analysis or comparison uses. Formats add other trainers' names for
# them and settings of their own; any other assignment in a log is ignored.
OWN_SETTINGS = (
    "always_save_checkpoint", "batch_size", "beta2", "bias", "block_size", "compile", "dataset", "decay_lr", "device",
    "dropout", "dtype", "eval_interval", "eval_iters", "grad_clip", "gradient_accumulation_steps", "init_from",
    "learning_rate", "log_interval", "lr_decay_iters", "max_iters", "min_lr", "n_embd", "n_head", "n_layer",
    "optimizer", "seed", "vocab_size", "warmup_iters", "weight_decay",
)  # fmt: skip
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


class _Vocabulary:
    """How settings are written, by all formats together."""

    def __init__(self) -> None:
        formats = all_formats()
        self.settings = {name: name for name in OWN_SETTINGS}
        for format in formats:
            self.settings |= format.settings
        self.table_rows = dict(self.settings)
        for format in formats:
            self.table_rows |= dict(format.table_rows)
        sentences = [sentence for format in formats for sentence in format.header]
        self.any_sentence = re.compile("|".join(pattern for _, pattern in sentences), re.IGNORECASE)
        self.sentences = [(key, re.compile(pattern, re.IGNORECASE)) for key, pattern in sentences]
        self.override_prefixes = tuple(format.override_prefix for format in formats if format.override_prefix)


_vocabulary = lru_cache(maxsize=1)(_Vocabulary)


def read_facts(line: str, facts: dict[str, ConfigValue], typed: set[str]) -> bool:
    """Add the settings in a line to `facts`; return whether a run prints such a line before its first step.

    `typed` are the settings given on a command line: they override a configuration file that is printed later.
    """
    found = False
    row = _TABLE_ROW.match(line) if line.startswith("|") else None
    if row is not None:
        key = _vocabulary().table_rows.get(row[1].strip().lower())
        if key:
            facts[key] = _value(row[2].strip())
            found = key == "parameters"
    elif ("=" in line or ":" in line or "--" in line) and not line.lstrip().startswith("#"):
        found = _read_assignments(line, facts, typed)
    found = _read_sentences(line, facts, typed) or found
    device = _DEVICE_NAME.search(line) if "device_name" not in facts and _DEVICE_HINT.search(line) else None
    if device:
        facts["device_name"] = device.group().strip()
    return found


def _read_assignments(line: str, facts: dict[str, ConfigValue], typed: set[str]) -> bool:
    vocabulary = _vocabulary()
    found = False
    for option, option_text, name, text in _ASSIGNMENT.findall(line):
        key = vocabulary.settings.get((option or name).replace("-", "_"))
        text = option_text or text
        if key is None or text.startswith("-1") or not _plausible(key, text):
            continue
        if option or line.startswith(vocabulary.override_prefixes):
            typed.add(key)
            found = True
        elif key in typed:
            continue
        facts[key] = _value(text)
    return found


def _read_sentences(line: str, facts: dict[str, ConfigValue], typed: set[str]) -> bool:
    vocabulary = _vocabulary()
    if not vocabulary.any_sentence.search(line):
        return False
    found = False
    for key, pattern in vocabulary.sentences:
        match = pattern.search(line)
        size = _size(next(filter(None, match.groups()), "")) if match and key not in typed else None
        if size is not None:
            facts[key] = size
            found = True
    return found


def _size(text: str) -> int | None:
    """The number in '10.65M', '16,384' or '3.49e+09'; None if it is damaged."""
    if "e+" in text.lower():
        return int(float(text))  # the pattern that found it lets nothing else through
    multiple = _MULTIPLES.get(text[-1:].upper(), 1)
    digits = text.rstrip("KMBkmb ").replace(",", "").rstrip(".")
    return int(float(digits) * multiple) if len(digits) < 16 and digits.replace(".", "", 1).isdecimal() else None


def _plausible(key: str, text: str) -> bool:
    """Whether this is a setting's value, and not source code that happens to be in the log."""
    if key == "device":
        return bool(_DEVICE_SETTING.fullmatch(text))
    if _WORDS.fullmatch(key):
        word = text.replace("-", "").replace("_", "")
        return word.isalnum() and not word.isdigit() and text not in ("None", "null", "str", "bool")
    return not isinstance(_value(text), str)


def _value(text: str) -> ConfigValue:
    if text in ("True", "true"):
        return True
    if text in ("False", "false"):
        return False
    try:
        return int(text.replace(",", "").replace("_", ""))
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return text
    return number if number - number == 0 else text
