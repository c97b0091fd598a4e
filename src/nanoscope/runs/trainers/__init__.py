"""Trainers as data: what no consistency can tell about their numbers, one TOML file each.

`signs` are lists of labels, all of which stand in one line of that trainer; with '=', these and no others. A number
without a label is named by its unit ('# ms'). `means` are its traits, and what else it means by its numbers.
`settings` and `sentences` are its names for our settings: as in `--depth=12`, and as the label of a number ('train
has # tokens'). `ends` is how lines begin that only come when training is over. `roles` are meanings of labels that
are this trainer's own. The samples are tests. Files in the user's configuration folder (nanoscope/trainers) are read
too.
"""

import os
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from nanoscope.runs.run import Traits


class Trainer(NamedTuple):
    """One trainer's file."""

    name: str
    means: dict[str, Any]
    signs: Sequence[Sequence[str]] = ()
    settings: Mapping[str, str | list[str]] = {}
    sentences: Mapping[str, str | list[str]] = {}
    kept: Sequence[str] = ()  # settings that go by their own names
    roles: Mapping[str, str] = {}
    flags: Mapping[str, str] = {}
    ends: Sequence[str] = ()
    overrides: str = ""  # how a line begins that repeats a setting given on the command line
    says: Mapping[str, str] = {}  # setting = text that a log has where it is true
    sample: Sequence[Mapping[str, Any]] = ()

    @property
    def traits(self) -> Traits:
        return Traits(**{name: value for name, value in self.means.items() if name in Traits.__dataclass_fields__})


class Vocabulary:
    """How settings are written, by all trainers together: forks keep their origin's habits."""

    def __init__(self, trainers: list[Trainer]) -> None:
        self.settings: dict[str, str] = {}
        sentences: dict[str, str] = {}
        for trainer in trainers:
            self.settings |= {name: name for name in trainer.kept}
            for theirs, ours in ((self.settings, trainer.settings), (sentences, trainer.sentences)):
                for key, names in ours.items():
                    theirs.update(dict.fromkeys([names] if isinstance(names, str) else names, key))
        # The label of a number, what stands behind it ('train has # tokens'), and the setting.
        self.sentences = [(*map(str.strip, f"{label}#".split("#")[:2]), key) for label, key in sentences.items()]
        self.sentence_words = tuple({label.split()[-1] for label, _, _ in self.sentences})
        self.override_prefixes = tuple(trainer.overrides for trainer in trainers if trainer.overrides)
        self.says = [item for trainer in trainers for item in trainer.says.items()]
        self.labels = {label for trainer in trainers for label in trainer.roles}  # whose meaning only a trainer tells
        ends = (re.escape(end).replace(r"\#", r"[\d,.]{1,20}") for trainer in trainers for end in trainer.ends)
        self.ends = re.compile("|".join(ends))


def load(folder: Path, samples: bool = False) -> list[Trainer]:
    """The trainers described in a folder."""
    found = []
    for file in sorted(folder.glob("*.toml")):
        text = file.read_text("utf-8")
        found.append(Trainer(**{"means": {}} | tomllib.loads(text if samples else text.partition("[[sample]]")[0])))
    return found


@lru_cache(maxsize=1)
def trainers() -> list[Trainer]:
    """All trainers, the user's own first."""
    configured = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return [*load(Path(configured) / "nanoscope" / "trainers"), *load(Path(__file__).parent)]


@lru_cache(maxsize=1)
def vocabulary() -> Vocabulary:
    return Vocabulary(trainers())


def flag(trainer: str, setting: str) -> str:
    """What a setting of ours ('batch_size', 'grad_clip=1.0') is called on this trainer's command line; empty if it has
    none."""
    flags = {ours: theirs for each in trainers() if each.name == trainer for ours, theirs in each.flags.items()}
    name, equals, value = setting.partition("=")
    theirs = flags.get(name, name)
    return flags[setting] if setting in flags else theirs and theirs + equals + value


def trainers_of(labels: set[str], saves: bool) -> set[str]:
    """The trainers whose signs are all among the labels of a line: those of the most telling signs, which are labels
    that few trainers print."""
    common = _common_labels()
    fitting = [
        (sum(1 / common[label] for label in signs), trainer.name)
        for trainer in trainers()
        for signs in trainer.signs
        if (not saves or trainer.means.get("saves") is not False)
        and (labels | {"="} if labels == {*signs} - {"="} else labels).issuperset(signs)
    ]
    best, _ = max(fitting, default=(0.0, ""))
    return {name for score, name in fitting if score == best}


@lru_cache(maxsize=1)
def _common_labels() -> Counter[str]:
    return Counter(label for trainer in trainers() for label in {label for signs in trainer.signs for label in signs})
