"""What a sweep consists of: its settings with several values, its runs, and the file that records it. No torch here."""

import itertools
import json
import math
import random
import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nanoscope.config import KEYS, TYPES, InvalidConfigError, TrainConfig, alternatives
from nanoscope.config_sources import Resolved, presets, resolve
from nanoscope.errors import JobError, UsageError, why
from nanoscope.files import write_atomically
from nanoscope.messages import Joined, Text
from nanoscope.paths import RUNS
from nanoscope.untrusted import read_small

RECORD = "sweep.toml"
MOST_RUNS = 1000
MOST_COMBINATIONS = 1_000_000  # from which --random chooses
MOST_MISTAKES = 20
LONGEST_NAME = 100  # characters of a folder's name
SHORT_KEYS = {"learning_rate": "lr", "weight_decay": "wd", "batch_size": "bs"}
NOT_SWEPT = ("out_dir", "overwrite")
_RANGE = re.compile(r"([-+.\deE]+?)\.\.([-+.\deE]+)")
_UNSAFE = re.compile(r"[^\w.+=,-]+")


@dataclass(frozen=True)
class Axis:
    """A setting, or a config, with the words for each of its values; or a range that values are drawn from."""

    key: str  # "" for a config
    words: tuple[str, ...] = ()
    range: tuple[float, float] | None = None

    def draw(self, chooser: random.Random) -> str:
        """One of the values; of a range, one drawn log-uniformly and rounded to three digits."""
        if self.range is None:
            return chooser.choice(self.words)
        low, high = self.range
        value = min(max(math.exp(chooser.uniform(math.log(low), math.log(high))), low), high)
        is_integer = float not in alternatives(TYPES[self.key])
        return f"--{self.key}={round(value) if is_integer else f'{value:.3g}'}"


@dataclass(frozen=True)
class PlannedRun:
    name: str
    folder: Path
    words: tuple[str, ...]  # the arguments of `nanoscope train`
    settings: dict[str, Any]  # those that the sweep varies
    config: TrainConfig = field(repr=False)

    @property
    def total_steps(self) -> int:
        return self.config.max_iters


@dataclass(frozen=True)
class Sweep:
    folder: Path
    runs: tuple[PlannedRun, ...]
    settings: dict[str, Any]
    """What all runs have in common: what makes it the same sweep."""
    swept: dict[str, list[Any]]


def plan_sweep(words: Sequence[str], count: int | None = None) -> Sweep:
    """All combinations, or `count` of them by a seeded choice. Raises UsageError with the mistakes of all runs."""
    axes = _axes(words)
    out_dir = next((axis.words[0].partition("=")[2] for axis in axes if axis.key == "out_dir"), "")
    axes = [axis for axis in axes if axis.key not in NOT_SWEPT]
    resolved = _resolve_all(_combinations(axes, count))
    if all(len(axis.words) == 1 for axis in axes):
        raise UsageError(
            "no setting has several values, so there is nothing to sweep\n"
            "Separate them by commas, texts in brackets: --learning_rate=1e-3,1e-2 --dataset=[one,two]\n"
            "For one run: nanoscope train"
        )
    folder = Path(out_dir or RUNS / _common_name([each.name for _, each in resolved]))
    runs: dict[str, PlannedRun] = {}
    for chosen, each in resolved:
        settings = _varied_settings(axes, chosen, each)
        run = PlannedRun(_folder_name(settings), folder / _folder_name(settings), chosen, settings, each.config)
        if runs.setdefault(run.name, run).settings != settings:  # 1e-3 and 0.001 are one value, and one run
            raise UsageError(
                "two runs would be called {name}: their values differ too little to name folders", name=run.name
            )
    swept = {key: list(dict.fromkeys(run.settings[key] for run in runs.values())) for key in settings}
    configs = [asdict(run.config) for run in runs.values()]
    common = {key: value for key, value in configs[0].items() if all(config[key] == value for config in configs)}
    return Sweep(folder, tuple(runs.values()), _without(common, *swept, *NOT_SWEPT), swept)


# --- the command line ---


def _axes(words: Iterable[str]) -> list[Axis]:
    axes: dict[str, Axis] = {}  # a flag that is given twice counts as it was given last
    for number, (key, text) in enumerate(_flags(list(words))):
        if key is None:
            names = text.split(",")
            known = len(names) > 1 and all(name in presets() or Path(name).exists() for name in names)
            axes[f"config {number}"] = Axis("", tuple(names) if known else (text,))
        elif key in NOT_SWEPT and key != "out_dir":
            raise UsageError("a sweep deletes nothing: leave --overwrite out, or delete the folder of a run yourself")
        elif key == "init_from" and text in ("resume", "auto"):
            raise UsageError("leave --init_from={text} out: the same command again resumes a sweep", text=text)
        elif parsed := _range(key, text):
            axes[key] = Axis(key, range=parsed)
        else:
            axes[key] = Axis(key, tuple(f"--{key}={value}" for value in _values(key, text)))
    return list(axes.values())


def _flags(words: list[str]) -> Iterable[tuple[str | None, str]]:
    """Configs (key None) and flags, in the spellings that `train` accepts."""
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            yield None, word
            continue
        key, equals, text = word.lstrip("-").partition("=")
        if not equals:
            text = words.pop(0) if words and not words[0].startswith("--") else "True"
        yield key.replace("-", "_"), text


def _values(key: str, text: str) -> list[str]:
    """Numbers and fixed words are separated by commas; texts, which may contain some, only in [brackets]."""
    if text.startswith("[") and text.endswith("]"):
        values = text[1:-1].split(",")
    elif key in KEYS and str not in alternatives(TYPES[key]):
        values = text.split(",")
    else:
        return [text]
    return [value.strip() for value in values if value.strip()] or [text]


def _range(key: str, text: str) -> tuple[float, float] | None:
    match = _RANGE.fullmatch(text.strip("[]"))
    if match is None or key not in KEYS or not {int, float} & set(alternatives(TYPES[key])):
        return None
    try:
        low, high = float(match[1]), float(match[2])
    except ValueError:
        return None
    if not 0 < low < high < math.inf:
        raise UsageError("--{key}={text}: a range goes from a positive number to a larger one", key=key, text=text)
    return low, high


# --- the runs ---


def _combinations(axes: Sequence[Axis], count: int | None) -> list[tuple[str, ...]]:
    """The words of each run. A larger `count` keeps the runs of a smaller one and adds to them."""
    total = math.prod(len(axis.words) for axis in axes)
    ranges = [axis.key for axis in axes if axis.range]
    if count is None:
        if ranges:
            raise UsageError("--{key} is a range: say how many runs to draw, for example --random 10", key=ranges[0])
        if total > MOST_RUNS:
            raise UsageError(
                "that is {total:,} runs, more than {most:,}\nChoose some of them: --random 20",
                total=total, most=MOST_RUNS,
            )  # fmt: skip
        return list(itertools.product(*(axis.words for axis in axes)))
    if not 1 <= count <= MOST_RUNS:
        raise UsageError("--random={count}: must be between 1 and {most:,}", count=count, most=MOST_RUNS)
    chooser = random.Random(0)
    if not ranges:
        if total > MOST_COMBINATIONS:
            raise UsageError(
                "that is a choice from {total:,} runs, more than {most:,}",
                total=total, most=MOST_COMBINATIONS,
            )  # fmt: skip
        chosen = list(itertools.product(*(axis.words for axis in axes)))
        chooser.shuffle(chosen)
        return chosen[:count]
    drawn: dict[tuple[str, ...], None] = {}
    for _ in range(100 * count):  # a narrow range may not have as many
        if len(drawn) == count:
            break
        drawn[tuple(axis.draw(chooser) for axis in axes)] = None
    return list(drawn)


def _resolve_all(combinations: Sequence[tuple[str, ...]]) -> list[tuple[tuple[str, ...], Resolved]]:
    found: list[tuple[tuple[str, ...], Resolved]] = []
    mistakes: dict[Text, None] = {}
    for words in combinations:
        try:
            found.append((words, resolve(words)))
        except UsageError as error:
            mistakes |= dict.fromkeys(error.mistakes if isinstance(error, InvalidConfigError) else [error.text])
            if len(mistakes) >= MOST_MISTAKES:
                break
    if mistakes:
        raise UsageError(
            "nothing was started, because of mistakes in the settings:\n- {listed}",
            listed=Joined("\n- ", itertools.islice(mistakes, MOST_MISTAKES)),
        )
    return found


def _common_name(names: Sequence[str]) -> str:
    """'laptop-sweep' for laptop-one and laptop-two, which differ in their data."""
    parts = zip(*(name.split("-") for name in names), strict=False)
    common = [each[0] for each in itertools.takewhile(lambda each: len(set(each)) == 1, parts)]
    return "-".join([*common, "sweep"])


def _without(values: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in keys}


def _varied_settings(axes: Sequence[Axis], words: Sequence[str], resolved: Resolved) -> dict[str, Any]:
    """The settings that the sweep varies, as this run has them."""
    pairs = [(axis, word) for axis, word in zip(axes, words, strict=True) if len(axis.words) != 1]
    return {
        axis.key or "config": getattr(resolved.config, axis.key) if axis.key else Path(word).stem
        for axis, word in pairs
    }


def _folder_name(settings: Mapping[str, Any]) -> str:
    """'lr=0.001,seed=1': readable, stable and safe on every file system."""
    parts = (f"{SHORT_KEYS.get(key, key)}={_written(value)}" for key, value in settings.items())
    return _UNSAFE.sub("-", ",".join(parts))[:LONGEST_NAME].strip(".-") or "run"


def _written(value: Any) -> str:
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return Path(value).name if isinstance(value, str) and "/" in value else str(value)


# --- the record ---


@dataclass
class Record:
    """sweep.toml: what the sweep is, and which of its runs failed or were given up."""

    path: Path
    settings: dict[str, Any]
    swept: dict[str, list[Any]]
    command: str
    failed: dict[str, str] = field(default_factory=dict)
    hopeless: dict[str, str] = field(default_factory=dict)

    def write(self) -> None:
        tables = {"settings": self.settings, "swept": self.swept, "failed": self.failed, "hopeless": self.hopeless}
        lines = ["# A sweep. Its command, given again, continues it.", f"command = {_toml(self.command)}"]
        for name, values in tables.items():
            lines += ["", f"[{name}]"]
            lines += [f"{key if key.isidentifier() else _toml(key)} = {_toml(v)}" for key, v in values.items()]
        write_atomically(self.path, "\n".join(lines) + "\n")


def open_record(sweep: Sweep, command: str) -> Record:
    """The record of this sweep, with the outcomes so far. Refuses a folder that holds another sweep."""
    path = sweep.folder / RECORD
    record = Record(path, sweep.settings, sweep.swept, command)
    if not path.exists():
        return record
    try:
        known = tomllib.loads(read_small(path).decode("utf-8"))
        settings, swept = dict(known["settings"]), dict(known["swept"])
        record.failed, record.hopeless = dict(known.get("failed", {})), dict(known.get("hopeless", {}))
    except (OSError, ValueError, KeyError, TypeError, RecursionError, JobError) as error:
        raise JobError(
            "{path} cannot be read: {reason}\nUse another folder: --out_dir=FOLDER", path=path, reason=why(error)
        ) from None
    differences = [
        Text("{setting} there, {here} here", setting=f"{key}={value}", here=sweep.settings[key])
        for key, value in settings.items()
        if sweep.settings.get(key, value) != value  # a newer nanoscope may have more settings
    ]
    if set(swept) != set(sweep.swept):
        varied = Text("it varies {keys}, this one {here}", keys=", ".join(swept), here=", ".join(sweep.swept))
        differences.insert(0, varied)
    if differences:
        raise UsageError(
            "{folder} holds another sweep: {differences}\nUse another folder: --out_dir={quoted}",
            folder=sweep.folder, differences=Joined("; ", differences[:4]), quoted=shlex.quote(f"{sweep.folder}-2"),
        )  # fmt: skip
    record.swept = {key: list(dict.fromkeys([*values, *sweep.swept[key]])) for key, values in swept.items()}
    return record


def _toml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
