"""What the lines around the records tell of a run: its settings, sizes and device."""

import re

from nanoscope.runs.run import ConfigValue

# Settings that analysis or comparison uses; other assignments in a log are not looked at.
KNOWN_SETTINGS = frozenset(
    {
        "always_save_checkpoint", "batch_size", "beta2", "bias", "block_size", "checkpoint_every", "compile",
        "dataset", "decay_lr", "depth", "device", "device_batch_size", "dropout", "dtype", "eval_every",
        "eval_interval", "eval_iters", "eval_steps", "global_batch_size", "grad_clip",
        "gradient_accumulation_steps", "init_from", "iterations", "learning_rate", "log_interval",
        "logging_steps", "lr_decay_iters", "max_iters", "max_seq_len", "max_steps", "micro_batch_size",
        "min_lr", "model_dim", "model_type", "n_embd", "n_head", "n_layer", "num_iterations", "num_layers",
        "optimizer", "precision", "sample_every", "save_every", "save_interval", "save_steps", "seed",
        "sequence_length", "steps", "total_batch_size", "total_steps", "train_num_batches", "train_steps",
        "training_steps", "val_loss_every", "vocab_size", "warmup_iters", "warmup_steps", "weight_decay",
        "world_size",
    }
)  # fmt: skip
_SAME = {
    "num_layers": "n_layer",
    "model_dim": "n_embd",
    "max_seq_len": "block_size",
    "sequence_length": "block_size",
    "num_layers l": "n_layer",
    "num_heads nh": "n_head",
    "channels c": "n_embd",
    "sequence length t": "block_size",
    "micro batch size b": "batch_size",
    "total batch size": "tokens_per_step",
    "vocab_size v": "vocab_size",
    "learning rate (lr)": "learning_rate",
    "warmup iterations": "warmup_iters",
    "num_parameters": "parameters",
    "val_loss_every": "eval_interval",
    "precision": "dtype",
}

_NAME = r"([a-z][a-z0-9]{0,20}(?:[_-][a-z0-9]{1,20}){0,5})"
_TEXT = r"['\"]?([^\s'\",;)}#|]{1,80})"
_ASSIGNMENT = re.compile(rf"--{_NAME}(?:=|\s{{1,4}}){_TEXT}|(?<![\w-]){_NAME}['\"]?\s{{0,30}}[=:]\s{{0,4}}{_TEXT}")
_TABLE_ROW = re.compile(r"^\|\s{0,4}([A-Za-z_][\w ()]{1,40}?)\s{1,40}\|\s{0,4}([^|]{1,80}?)\s{1,80}\|$")
_SIZES = tuple(
    (key, re.compile(pattern, re.IGNORECASE))
    for key, pattern in (
        (
            "parameters",
            r"(?:number of (?:trainable )?|total |num_|model #)param(?:eter)?s\s?[:=]\s?([\d.,]+)\s?([KMB]?)",
        ),
        ("tokens_per_step", r"(?:tokens per iteration will be|total (?:desired )?batch size)\s?[:=]?\s?([\d,]+)()"),
        ("vocab_size", r"vocab[_ ]size\s?(?:of GPT-2 to|[:=])\s?([\d,]+)()"),
        ("vocab_size", r"number of unique characters in the vocabulary\s?:\s?([\d,]+)()"),
        ("vocab_size", r"data has [\d,]+ characters, ([\d,]+)() unique"),
        ("train_tokens", r"data has ([\d,]+)() characters"),
        ("train_tokens", r"(?:train has|loaded) ([\d,]+)() tokens"),
        ("max_iters", r"number of iterations(?: from [^:]{1,40})?\s?[:=]\s?([\d,]+)()"),
        ("max_iters", r"Total optimization steps\s?[:=]\s?([\d,]+)()"),
        ("max_iters", r"\btotal steps ([\d,]+)() ?\(warmup"),
    )
)
_DEVICE = re.compile(
    r"\b(?:NVIDIA|Tesla|GeForce|Quadro|AMD Instinct|AMD Radeon) (?:GeForce )?"
    r"(?:(?:RTX|GTX|TITAN|RX|PRO|Quadro)\s?){0,3}[A-Z]{0,3}\d{1,4}[A-Z]{0,3}"
    r"(?:[ -](?:Ti|SUPER|Super|Laptop|Ada|SXM\d?|PCI[Ee]|XTX|XT|NVL))*(?:-?\s?\d{2,3}\s?GB)?"
    r"|\bApple M\d(?: (?:Pro|Max|Ultra))?|\bRTX \d{4}(?: Ti)?(?: SUPER)?\b"
)

_SIZE_HINT = re.compile(r"param|tokens|batch size|vocab|data has|iterations|steps", re.IGNORECASE)
_DEVICE_HINT = re.compile(r"NVIDIA|Tesla|GeForce|Quadro|AMD|Apple M|RTX")


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
        return float(text)
    except ValueError:
        return text


# The settings whose values are words; all others are numbers.
_WORDS = re.compile(r"dtype|dataset|model_type|optimizer|init_from|compile|bias|decay_lr|always_save_checkpoint")
_DEVICES = re.compile(r"(?:cpu|cuda|mps|xpu)(?::\d+)?")


def _plausible(key: str, text: str) -> bool:
    """Whether this is a setting's value, and not source code that happens to be in the log."""
    if key == "device":
        return bool(_DEVICES.fullmatch(text))
    if _WORDS.fullmatch(key):
        word = text.replace("-", "").replace("_", "")
        return word.isalnum() and not word.isdigit() and text not in ("None", "null", "str", "bool")
    return not isinstance(_value(text), str)


def read_facts(line: str, facts: dict[str, ConfigValue], typed: set[str]) -> bool:
    """Take the settings of a line into `facts`; whether it is one that a run prints before its first step.

    `typed` are those given on a command line: they win over a configuration file that is printed later.
    """
    found = False
    row = _TABLE_ROW.match(line) if line.startswith("|") else None
    if row is not None:
        name = row.group(1).strip().lower()
        key = _SAME.get(name, name if name in KNOWN_SETTINGS else None)
        if key:
            facts[key] = _value(row.group(2).strip())
            found = key == "parameters"
    elif ("=" in line or ":" in line or "--" in line) and not line.lstrip().startswith("#"):
        for option, option_text, name, text in _ASSIGNMENT.findall(line):
            name, text = (option or name).replace("-", "_"), option_text or text
            key = _SAME.get(name, name)
            if name not in KNOWN_SETTINGS or text.startswith("-1") or not _plausible(key, text):
                continue
            if option or line.startswith("Overriding:"):
                typed.add(key)
                found = True
            elif key in typed:
                continue
            facts[key] = _value(text)
    if _SIZE_HINT.search(line):
        for key, pattern in _SIZES:
            size = pattern.search(line)
            digits = size.group(1).replace(",", "").rstrip(".") if size else ""
            if size and len(digits) < 16 and digits.replace(".", "", 1).isdecimal() and key not in typed:
                facts[key] = int(float(digits) * {"K": 1e3, "M": 1e6, "B": 1e9, "": 1}[size.group(2).upper()])
                found = True
    device = _DEVICE.search(line) if "device_name" not in facts and _DEVICE_HINT.search(line) else None
    if device:
        facts.setdefault("device_name", device.group().strip())
    return found
