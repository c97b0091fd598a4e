"""What each kind of line in a log means, for `explain --annotate`."""

import re
from typing import Literal

from nanoscope.messages import Message
from nanoscope.words.language import Language

LineKind = Literal[
    "step", "eval", "checkpoint", "override", "tokens_per_step", "parameters", "vocabulary", "new_model", "resume",
    "optimizer", "compile", "warning", "traceback", "error",
]  # fmt: skip

LINES: dict[LineKind, Message] = {
    "step": Message("One training step: the weights are updated once."),
    "eval": Message(
        "Evaluation: training stops for a moment, and the loss is averaged over many batches of the training "
        "text and of held-back text (val). Only the second shows what the model can do with new text."
    ),
    "checkpoint": Message(
        "Checkpoint: the model is written to disk, so that the run can be resumed or used from here."
    ),
    "override": Message("A setting given on the command line or in a configuration file replaces the default."),
    "tokens_per_step": Message("Tokens per step: batch size × context length × gradient accumulation × processes."),
    "parameters": Message("The size of the model: how many numbers are trained."),
    "vocabulary": Message(
        "The vocabulary: how many different tokens there are. An untrained model's loss is its logarithm, {formula}.",
        formula="ln(vocab_size)",
    ),
    "new_model": Message("A new model with random weights: it knows nothing yet."),
    "resume": Message("The run goes on from a checkpoint instead of beginning anew."),
    "optimizer": Message("The optimizer: matrices get weight decay, biases and norms do not."),
    "compile": Message(
        "{compile} translates the model into faster code: a slow start, then faster steps.", compile="torch.compile"
    ),
    "warning": Message("A warning: training goes on, but read it once."),
    "traceback": Message("The program failed here; the last line of this block gives the reason."),
    "error": Message("This ended the run."),
}
# The lines around the records; the first pattern that matches gives the kind.
_SURROUNDINGS: tuple[tuple[LineKind, re.Pattern[str]], ...] = (
    ("override", re.compile(r"^overriding\b", re.I)),
    ("tokens_per_step", re.compile(r"tokens per iteration|total (?:desired )?batch size", re.I)),
    ("resume", re.compile(r"\bresum(?:ing|ed) (?:training|run|from|at|optimi)", re.I)),
    ("new_model", re.compile(r"initiali[sz]ing a new model|defaulting to vocab", re.I)),
    ("vocabulary", re.compile(r"vocab[_ ]?size", re.I)),
    ("optimizer", re.compile(r"decayed parameter tensors|fused adamw", re.I)),
    ("parameters", re.compile(r"number of parameters|total parameters|#params|num_parameters", re.I)),
    ("compile", re.compile(r"^\W*compiling\b", re.I)),
    ("traceback", re.compile(r"^\s{0,4}Traceback \(most recent call last\)")),
    ("warning", re.compile(r"\bwarn(?:ing)?\b", re.I)),
)
# The fields of a step line, in the order in which they are explained.
# fmt: off
_FIELDS = {
    r"\bloss\b": Message("{name}: the error on this one batch, so it jumps about; lower is better"),
    r"\b(?:time|dt|step_time)\b|(?<=\d)\s?ms\b": Message("{name}: how long this step took"),
    r"\bmfu\b": Message("{name}: the share of the device's arithmetic peak that is used (nanoGPT assumes an A100)"),
    r"\b(?:lr|learning_rate)\b": Message("{name}: the learning rate, how far each step moves the weights"),
    r"\b(?:grad_)?norm\b": Message("{name}: the length of the gradient; sudden peaks are a sign of instability"),
    r"\b(?:tok|tokens?)/s(?:ec)?\b|\btps\b": Message("{name}: tokens trained on in a second"),
    r"\beta\b": Message("{name}: the time left"),
}
# fmt: on
_TOTALS = re.compile(r"\b(?:train_time|step_avg)\S*")  # over all steps so far


def surrounding_kind(line: str) -> LineKind | None:
    """The kind of a line that is no record; None if it is not explained."""
    return next((kind for kind, pattern in _SURROUNDINGS if pattern.search(line)), None)


def explain_line(kind: LineKind, line: str, language: Language) -> str:
    """What a line of this kind means; the fields of a step line are explained one by one."""
    text = language.render(LINES[kind])
    line = _TOTALS.sub("", line)
    found = ((words, re.search(pattern, line, re.I)) for pattern, words in _FIELDS.items())
    fields = [language.say(words.template, name=match[0].strip()) for words, match in found if match]
    if kind != "step" or not fields:
        return text
    return f"{text} {language.say('; ').join(fields)}{language.say('.')}"
