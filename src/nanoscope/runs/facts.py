"""What the lines around the records tell: settings, sizes, devices, and what went wrong."""

import re
from dataclasses import dataclass, field

from nanoscope.runs.run import ConfigValue, ErrorKind

# Settings that analysis or comparison uses; other assignments in a log are not looked at.
KNOWN_SETTINGS = frozenset(
    [
        "max_iters",
        "max_steps",
        "num_iterations",
        "total_steps",
        "train_steps",
        "eval_interval",
        "eval_every",
        "val_loss_every",
        "eval_iters",
        "log_interval",
        "batch_size",
        "block_size",
        "n_layer",
        "n_head",
        "n_embd",
        "dropout",
        "learning_rate",
        "min_lr",
        "warmup_iters",
        "warmup_steps",
        "lr_decay_iters",
        "weight_decay",
        "gradient_accumulation_steps",
        "dtype",
        "device",
        "compile",
        "dataset",
        "always_save_checkpoint",
        "bias",
        "vocab_size",
        "device_batch_size",
        "total_batch_size",
        "max_seq_len",
        "depth",
        "seed",
        "beta2",
        "grad_clip",
        "init_from",
        "optimizer",
        "precision",
        "train_num_batches",
        "num_layers",
        "model_dim",
        "sequence_length",
        "world_size",
        "micro_batch_size",
        "global_batch_size",
        "save_interval",
        "save_every",
        "checkpoint_every",
        "sample_every",
        "eval_steps",
        "save_steps",
        "logging_steps",
        "steps",
        "training_steps",
        "model_type",
        "decay_lr",
        "iterations",
    ]
)
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
    "train_num_batches": "train_num_batches",
    "val_loss_every": "eval_interval",
    "checkpoint_every": "checkpoint_every",
    "device": "device",
    "precision": "dtype",
}

_NAME = r"([a-z][a-z0-9]{0,20}(?:[_-][a-z0-9]{1,20}){0,5})"
_TEXT = r"['\"]?([^\s'\",;)}#|]{1,80})"
_ASSIGNMENT = re.compile(rf"--{_NAME}(?:=|\s{{1,4}}){_TEXT}|(?<![\w-]){_NAME}['\"]?\s{{0,30}}[=:]\s{{0,4}}{_TEXT}")
_TABLE_ROW = re.compile(r"^\|\s{0,4}([A-Za-z_][\w ()]{1,40}?)\s{1,40}\|\s{0,4}([^|]{1,80}?)\s{1,80}\|$")
_SIZES = (
    ("parameters", re.compile(r"(?:number of (?:trainable )?parameters|model #params|total parameters|num_parameters)\s?[:=]\s?([\d.,]+)\s?([KMB]?)", re.I)),
    ("tokens_per_step", re.compile(r"(?:tokens per iteration will be|total desired batch size|total batch size)\s?[:=]?\s?([\d,]+)()", re.I)),
    ("vocab_size", re.compile(r"(?:vocab[_ ]size|number of unique characters in the vocabulary)\s?(?:of GPT-2 to|[:=])\s?([\d,]+)()", re.I)),
    ("vocab_size", re.compile(r"data has [\d,]+ characters, ([\d,]+)() unique", re.I)),
    ("train_tokens", re.compile(r"data has ([\d,]+)() characters", re.I)),
    ("train_tokens", re.compile(r"(?:train has|loaded) ([\d,]+)() tokens", re.I)),
    ("max_iters", re.compile(r"(?:Calculated number of iterations[^:]{0,60}|Total optimization steps|Using user-provided number of iterations)\s?[:=]\s?([\d,]+)()", re.I)),
    ("max_iters", re.compile(r"\btotal steps ([\d,]+)() ?\(warmup", re.I)),
)  # fmt: skip
_DEVICE = re.compile(
    r"\b(?:NVIDIA|Tesla|GeForce|Quadro|AMD Instinct|AMD Radeon) (?:GeForce |Graphics Device )?(?:(?:RTX|GTX|TITAN|RX|PRO|Quadro)\s?)*"
    r"[A-Z]{0,3}\d{1,4}[A-Z]{0,3}(?:[ -](?:Ti|SUPER|Super|Laptop|Ada|SXM\d?|PCI[Ee]|XTX|XT|NVL))*(?:-?\s?\d{2,3}\s?GB)?"
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


_BLANK = ("None", "null", "int", "float", "str", "bool")


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
    elif "=" in line or ":" in line or "--" in line:
        for option, option_text, name, text in _ASSIGNMENT.findall(line):
            name, text = (option or name).replace("-", "_"), option_text or text
            if name not in KNOWN_SETTINGS or text in _BLANK or text.startswith("-1"):
                continue
            key = _SAME.get(name, name)
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
            if size and digits.replace(".", "", 1).isdigit() and key not in typed:
                facts[key] = int(float(digits) * {"K": 1e3, "M": 1e6, "B": 1e9, "": 1}[size.group(2).upper()])
                found = True
    device = _DEVICE.search(line) if "device_name" not in facts and _DEVICE_HINT.search(line) else None
    if device:
        facts.setdefault("device_name", device.group().strip())
    return found


_EXCEPTION = re.compile(
    r"(?:^|[\]:] )((?:[A-Za-z_]\w{0,60}\.){0,6}[A-Z]\w{0,60}(?:Error|Exception|Interrupt|Exit|Failure))(?::\s?(.{0,300})|\s?$)"
)
_KILLED = re.compile(
    r"slurmstepd: error: .{0,200}(?:CANCELLED|TIME LIMIT|oom|Exceeded|KILLED).{0,200}"
    r"|^(?:\S{0,80}: line \d{1,6}:\s{1,8})?(?:\d{1,9} )?(?:zsh: )?killed\b.{0,120}"
    r"|\b(?:Segmentation fault|Bus error)\b.{0,80}|.{0,80}\boom-kill.{0,120}|srun: error: .{0,80}Out Of Memory.{0,80}"
    r"|\bSIG(?:KILL|SEGV|TERM|BUS)\b.{0,120}|^(?:Terminated|Aborted)\b.{0,60}|\bexit(?:ed with)? (?:code|status):? 1(?:37|43)\b.{0,60}",
    re.IGNORECASE,
)
_C_ERROR = re.compile(
    r"^\[(?:CUDA|NCCL|CUBLAS|CUDNN|MPI) ERROR\]|^Error: Failed to |^(?:CUDA|NCCL) (?:error|failure)\b", re.I
)
_OUT_OF_MEMORY = re.compile(
    r"out of memory|OutOfMemory|MemoryError|oom-kill|(?:can't|cannot) allocate memory|alloc(?:ate|ation) .{0,40}failed",
    re.I,
)
_CONSEQUENCES = ("ChildFailedError", "CalledProcessError", "SignalException")
_HINTS = re.compile(
    r"rror|ERROR|xception|illed|nterrupt|CANCEL|fault|emory|SIG[KSTB]|erminated|Abort|\^C|Exit|ailure|oom|exit|raceback"
)


@dataclass
class ErrorFinder:
    """Finds what ended a run among the lines that are no records; one entry a cause, not one a rank or traceback."""

    found: list[tuple[int, ErrorKind, str]] = field(default_factory=list)
    _in_traceback: bool = False
    _chained: bool = False
    _c_error: str = ""
    _last_line: int = -1000

    def read(self, line: str, number: int) -> bool:
        """Look at one line; whether it told of a new error."""
        if self._c_error:  # a C program says where on one line and what on the next
            line, self._c_error = f"{self._c_error} {line.strip()}", ""
            return self._add(number - 1, "out_of_memory" if _OUT_OF_MEMORY.search(line) else "exception", line[:300])
        if not _HINTS.search(line):
            return False
        if line.lstrip("[]:rank0123456789 ").startswith("Traceback (most recent call last)"):
            self._in_traceback = True
            return False
        if "During handling of the above exception" in line or "direct cause of the following exception" in line:
            self._chained = True
            return False
        if line.strip() == "^C":
            return self._add(number, "interrupted", "^C")
        if _C_ERROR.match(line):
            if line.rstrip().endswith(":"):
                self._c_error = line.strip()
                return False
            return self._add(
                number, "out_of_memory" if _OUT_OF_MEMORY.search(line) else "exception", line.strip()[:300]
            )
        exception = _EXCEPTION.search(line) if not line.startswith("  ") else None
        if exception and (self._in_traceback or exception.start() == 0 or "rank" in line[:12]):
            return self._add_exception(number, line, exception)
        killed = _KILLED.search(line)
        if killed:
            return self._add(number, "out_of_memory" if _OUT_OF_MEMORY.search(line) else "killed", killed.group())
        if "CUDA out of memory" in line or "CUDA error: out of memory" in line:
            return self._add(number, "out_of_memory", line.strip()[:300])
        return False

    def _add_exception(self, number: int, line: str, exception: re.Match[str]) -> bool:
        self._in_traceback = False
        chained, self._chained = self._chained, False
        name = exception.group(1)
        if chained or (self.found and name.endswith(_CONSEQUENCES)):
            return False
        if name.endswith("KeyboardInterrupt"):
            return self._add(number, "interrupted", exception.group().lstrip("]: "))
        kind: ErrorKind = "out_of_memory" if _OUT_OF_MEMORY.search(line) else "exception"
        return self._add(number, kind, exception.group().lstrip("]: "))

    def _add(self, number: int, kind: ErrorKind, message: str) -> bool:
        message = message.strip()
        near = number - self._last_line < 400
        self._last_line = number
        for _, known_kind, known in self.found[-8:]:
            # The same exception of every rank, a second Ctrl-C, the echo of a kill: one cause.
            if known == message or (near and kind == known_kind != "exception"):
                return False
        self.found.append((number, kind, message))
        return True
