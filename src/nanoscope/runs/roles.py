"""What a label and a unit stand for: the role that a column may have, if its numbers behave accordingly."""

import re
from functools import cache, lru_cache
from typing import Literal, NamedTuple

SECONDS = {"ms": 1e-3, "us": 1e-6, "µs": 1e-6, "s": 1.0, "sec": 1.0, "secs": 1.0, "seconds": 1.0, "second": 1.0}
SECONDS |= {"min": 60.0, "minutes": 60.0, "mins": 60.0, "m": 60.0, "h": 3600.0, "hour": 3600.0, "hours": 3600.0}
_MULTIPLES = {"k": 1e3, "K": 1e3, "M": 1e6, "m": 1e6, "B": 1e9, "b": 1e9, "G": 1e9}
_GIGABYTES = {"GB": 1.0, "GiB": 1.0, "MB": 1e-3, "MiB": 1 / 1024, "G": 1.0, "M": 1e-3}

UnitKind = Literal["", "s", "s/step", "tok/s", "samples/s", "steps/s", "bytes", "multiple", "other"]

# Labels, as words in lower case between single spaces.
_STEP = (
    r"^(?!.*\bloss\b).*(?<!\S)"
    r"(?:global ?|train(?:ing)? |completed |current ?|optimi[sz]er |forward |num |trainer/global )?"
    r"(?:steps?|iters?|iterations?|it|updates?|itr)(?: number| train)?$"
)
_LOSS = (
    r"loss(?: (?:total|train|training|val|valid|validation|test|eval|curr|value|avg|mean|is|now|so far|step|epoch"
    r"|reached))*$"
)
# Words before 'loss' that do not make it one of several parts.
_WHOLE = (
    r"(?:train|training|tr|total|avg|average|mean|batch|step|epoch|lm|mlm|running|reduced|current|cur|final|global|eval"
    r"|iter|the|and|with|nll|language model|model|ce|cross entropy|rank 0|optimizer|smoothed|raw|info|in|at)"
)
_VALIDATION = r"(?:^| )(?:val|valid|validate|validation|test|testing|eval|evaluation|dev|heldout)(?: |$)"
_TRAINING = r"(?:^| )(?:train|training|tr)(?: |$)"
_PER_STEP = r"(?:step|iter|iteration|it|batch|update|epoch)"
_TIME = (
    rf"(?:^| )(?:(?:{_PER_STEP} )?(?:time|dt)|iter dt|dt|time ?taken|seconds?|sec|secs|dur|duration|took"
    r"|takes|speed|run"
    rf"|step timing in s|s/step|s/it|(?:time|seconds?|secs?|s)(?: per | ?/ ?){_PER_STEP})$"
)
_ELAPSED = (
    r"(?:^| )(?:total|elapsed|train|wall|cumulative|running|epoch|training)(?: (?:train(?:ing)? )?)?"
    r"(?:time|clock|runtime|s|sec|seconds|wall)?(?: so far)?$"
)
_TIME_IN = r"(?:dt|time)(?: per (?:iteration|step|iter))? "  # followed by the unit
_LEFT = r"(?:^| )(?:eta|left|remaining|remain|epoch time left)(?: time)?(?: s| sec| seconds)?$"
_TOKENS_PER_SECOND = (
    r"(?:tok(?:en)?s? ?(?:/| per |p) ?s(?:ec(?:ond)?)?|tps|wps|tok s|throughput|tokens? s|total tokens per second)"
)
_EACH_DEVICE = r"(?: ?(?:/| per |per)? ?(?:device|gpu|chip|rank))$"
_MEMORY = (
    r"(?:^| )(?:(?:max |peak |gpu |cuda |vram )*(?:mem|memory|vram)(?: (?:used|allocated|reserved|usage|gb|gib))?)$"
)


class Meaning(NamedTuple):
    """What a number is if its label and unit match; None for numbers that only look like one of the others."""

    name: str | None
    label: str = ""  # a pattern; the empty one matches every label
    unit: tuple[UnitKind, ...] = ()  # none: any unit
    also: str = ""  # another pattern that the label must match
    factor: float = 1.0  # to the base unit, where the label names a unit


_DURATION: tuple[UnitKind, ...] = ("s", "s/step")
MEANINGS = (  # the first that matches counts
    # The unit decides, with the help of the label.
    Meaning("tok_s_each", rf"{_EACH_DEVICE}", ("tok/s",)),
    Meaning("tok_s", unit=("tok/s",)),
    Meaning("steps_s", unit=("steps/s",)),
    Meaning("samples_s", unit=("samples/s",)),
    Meaning("eta_s", _LEFT, _DURATION),
    Meaning("data_s", r"\b(?:data|dataload(?:er|ing)?|fetch)\b", _DURATION),
    Meaning("eval_s", r"\b(?:eval|val|valid|validation|evaluation)\b", _DURATION),
    Meaning(None, r"\b(?:left|remaining)\b|\b(?:avg|average)$|\b(?:forward|backward|optim)", _DURATION),
    Meaning("time_s", r"(?:^| )batch cost$", _DURATION),
    Meaning("elapsed_s", _ELAPSED, _DURATION),
    Meaning("time_s", rf"^$|{_TIME}", _DURATION),
    Meaning("time_s", unit=("s/step",)),
    Meaning(None, unit=_DURATION),
    Meaning("memory_gb", rf"{_MEMORY}|(?:^| )(?:used|allocated|reserved)$", ("bytes", "multiple")),
    Meaning(None, unit=("bytes",)),
    # The label decides.
    Meaning(
        "total", r"(?:^| )(?:total|max|num(?:ber of)?) (?:train(?:ing)? |optimi[sz]ation )?(?:steps|iters|iterations)$"
    ),
    Meaning("tokens_seen", r"(?:^| )(?:num (?:input )?tokens(?: seen)?|tokens seen|trained tokens|total tokens)$"),
    Meaning("global_step", r"(?:^| )(?:num updates|global ?step(?:/max steps)?|trainer/global step|current ?steps?)$"),
    Meaning("step", _STEP),
    Meaning("batch", r"(?:^| )(?:batch|mini ?batch|batch i(?:n)?d(?:e)?x)$"),
    Meaning("epoch", r"^(?!.*\bloss\b).*(?<!\S)(?:epoch|epochs|ep)(?: train| val)?$"),
    Meaning("eval_s", r"(?:^| )(?:eval|val|validation|evaluation) (?:run)?time$"),
    Meaning("loss_scale", r"(?:^| )(?:loss scal(?:e|ing)|grad scale)$"),
    Meaning(None, rf"(?:scal(?:e|ing)|aux|best|min |lowest|balanc|router|std|delta|last|smooth|total train).*{_LOSS}"),
    Meaning(None, _LOSS, unit=("other",)),  # a percentage is not a loss
    Meaning("val_loss", rf"{_VALIDATION}.*{_LOSS}|{_LOSS}", also=_VALIDATION),
    Meaning("loss", rf"^(?:{_WHOLE} )*{_LOSS}"),
    Meaning("part_loss", rf"^(?:\S+ ){{0,3}}\S{{0,24}}{_LOSS}"),
    Meaning(None, r"^loss (?:weight|coef|fn|type|scal)"),
    Meaning("part_loss", r"^loss(?: \w+){1,2}$|^l (?:pix|total|percep|rec|adv|[dg])(?:$| )"),
    Meaning("loss", r"(?:^| )(?:nll|xent|cross entropy)$"),
    Meaning(None, r"\b(?:best|minimum|lowest)\b.*(?:bp[bc]|ppl|perplexity)$"),
    Meaning("val_bpb", r"(?:^| )bp[bc]$", also=_VALIDATION),
    Meaning("bpb", r"(?:^| )bp[bc]$"),
    Meaning("val_loss", r"(?:^| )(?:val|valid|validation)$"),
    Meaning("bare_train", r"(?:^| )train$"),
    Meaning("val_ppl", r"(?:^| )(?:ppl|perplexity)$", also=_VALIDATION),
    Meaning("ppl", r"(?:^| )(?:ppl|perplexity)$"),
    Meaning("lr", r"(?:^| )(?:lr|lrate)(?: 0)?$|learning ?rate$"),
    Meaning("lr_share", r"(?:^| )lrm$"),  # of its full value
    Meaning("grad_norm", r"(?:^| )gnorm$|grad(?:ient)? ?norm$|^norm$"),
    Meaning("tok_s_each", rf"{_TOKENS_PER_SECOND}{_EACH_DEVICE}"),
    Meaning("tok_s", rf"{_TOKENS_PER_SECOND}$"),
    Meaning("tok_s", r"(?:^| )kt/s$", factor=1e3),
    Meaning("mfu_pct", r"mfu"),
    Meaning("steps_s", rf"(?:^| )(?:{_PER_STEP}(?:e?s)?(?:/| per )s(?:ec(?:ond)?)?|ups|train steps per second)$"),
    Meaning("samples_s", r"(?:samples?|examples?|images?|sentences?|seqs?|sequences?)(?: ?/ ?| per )s(?:ec(?:ond)?)?$"),
    Meaning(None, r"(?: ?/ ?| per )s(?:ec(?:ond)?)?$"),
    Meaning(None, r"(?:forward|backward|optim\w*)(?: step)? time$"),
    Meaning("bare_time", r"^time/(?:batch|step|iter)$"),
    Meaning(None, r"\btime/(?:epoch|batch|sample|token)"),  # Composer's counters
    Meaning("bare_time", r"(?:^| )batch (?:t|cost)$"),
    Meaning("data_s", r"(?:^| )(?:data(?: time| t| cost)?|data ?load(?:ing)?(?: time)?|fetch data)$"),
    Meaning("time_s", rf"{_TIME_IN}ms$|(?:^| )ms(?:/| per ){_PER_STEP}$", factor=1e-3),
    Meaning("bare_time", rf"{_TIME_IN}s(?:ec)?$"),
    Meaning("elapsed_s", _TIME, unit=("",), also=_ELAPSED),
    Meaning("eta_s", r"(?:^| )(?:remaining|eta) s(?:ec(?:onds)?)?$"),
    Meaning("bare_time", _TIME, unit=("",)),
    Meaning("bare_elapsed", _ELAPSED, also=r"time|elapsed|clock|wall"),
    Meaning("memory_gb", rf"{_MEMORY}", also=r"gi?b$"),
    Meaning("memory_gb", _MEMORY, factor=1e-3),  # a number without a unit is in MB
)
MOST_WORDS = 6  # of a label; more are a sentence
COUNTERS = ("global_step", "step", "batch", "pair", "first")
# What never has a unit: in 'norm 1.31 tok/s 5200', the unit is the name of the next value.
WITHOUT_UNIT = frozenset(
    ("loss", "val_loss", "part_loss", "grad_norm", "lr", "loss_scale", "ppl", "tok_s", "tok_s_each", "steps_s", "step")
)


def _unit(text: str) -> tuple[UnitKind, float]:
    """What kind of unit this is, and the factor to the base unit."""
    base, slash, each = text.partition("/")
    base = base.strip()
    if "tok" in text or "tps" in text:
        return "tok/s", _MULTIPLES.get(text[0], 1.0)
    if base in SECONDS:
        return "s/step" if slash else "s", SECONDS[base] / (int(each) if each.isdigit() else 1)  # '58.7s/10 iters'
    if slash:
        return ("steps/s" if base.startswith(("it", "step", "batch")) else "samples/s"), 1.0
    if text.endswith("B") and text in _GIGABYTES:
        return "bytes", _GIGABYTES[text]
    if text in _MULTIPLES:
        return "multiple", _MULTIPLES[text]
    return "other" if text else "", 1.0


@lru_cache(maxsize=1)
def _compiled_meanings() -> list[tuple[Meaning, re.Pattern[str], re.Pattern[str]]]:
    return [(meaning, re.compile(meaning.label), re.compile(meaning.also)) for meaning in MEANINGS]


@cache
def _any_meaning(kind: UnitKind) -> re.Pattern[str]:
    """What every label of a number with such a unit matches, if it has a meaning: a log may have very many others."""
    labels = (meaning.label for meaning in MEANINGS if not meaning.unit or kind in meaning.unit)
    return re.compile("|".join(f"(?:{label})" for label in labels))


@lru_cache(maxsize=4096)
def role_of(label: str, unit: str) -> tuple[str, float] | None:
    """What a labelled number may be, and the factor to its base unit (seconds, tokens per second, per cent, GB)."""
    kind, factor = _unit(unit)
    if label.count(" ") > MOST_WORDS or not _any_meaning(kind).search(label):
        return None
    for meaning, pattern, also in _compiled_meanings():
        if (not meaning.unit or kind in meaning.unit) and pattern.search(label) and also.search(label):
            name = meaning.name
            if name is None:
                return None
            if name == "val_loss" and _nearest_is_training(label):
                name = "loss"  # 'eval: train loss'
            if kind == "multiple" and name == "memory_gb":
                factor = _GIGABYTES.get(unit, 1.0)
            elif kind == "multiple" and "loss" in name:  # '32k' tokens per second, but not a loss of '2.1 M'
                factor = 1.0
            return name, meaning.factor * factor
    return None


def _nearest_is_training(label: str) -> bool:
    """Whether the last word before 'loss' that says which loss it is says training."""
    head = label[: label.rfind("loss")]
    training = [match.end() for match in re.finditer(_TRAINING, head)]
    validation = [match.end() for match in re.finditer(_VALIDATION, head)]
    return bool(training) and max(training) > max(validation, default=-1)


def is_validation(label: str) -> bool:
    """Whether a label speaks of validation."""
    return re.search(_VALIDATION, label) is not None
