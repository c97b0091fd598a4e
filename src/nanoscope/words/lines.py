"""What each kind of line in a log means, for `explain --annotate`."""

import re
from typing import Literal

from nanoscope.words.language import Language

LineKind = Literal[
    "step",
    "eval",
    "checkpoint",
    "override",
    "tokens_per_step",
    "parameters",
    "vocabulary",
    "new_model",
    "resume",
    "optimizer",
    "compile",
    "warning",
    "traceback",
    "error",
]

# The lines around the records; the first pattern that is found tells the kind.
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
_FIELDS = (
    ("loss", re.compile(r"\bloss\b", re.I)),
    ("time", re.compile(r"\b(?:time|dt|step_avg|step_time|train_time)\b|\d\s?ms\b", re.I)),
    ("mfu", re.compile(r"\bmfu\b", re.I)),
    ("lr", re.compile(r"\b(?:lr|lrm|learning_rate)\b", re.I)),
    ("norm", re.compile(r"\b(?:grad_)?norm\b", re.I)),
    ("rate", re.compile(r"\b(?:tok|tokens?)/s(?:ec)?\b|\btps\b", re.I)),
    ("eta", re.compile(r"\beta\b", re.I)),
)


def surrounding_kind(line: str) -> LineKind | None:
    """What a line that is no record is about."""
    return next((kind for kind, pattern in _SURROUNDINGS if pattern.search(line)), None)


def explain_line(kind: LineKind, line: str, language: Language) -> str:
    """What such a line says; a step line is explained field by field."""
    say = language.say
    match kind:
        case "step":
            return _fields(line, language)
        case "eval":
            return say(
                "Evaluation: training stops for a moment, and the loss is averaged over many batches of the training "
                "text and of held-back text (val). Only the second shows what the model can do with new text."
            )
        case "checkpoint":
            return say("Checkpoint: the model is written to disk, so that the run can be resumed or used from here.")
        case "override":
            return say("A setting given on the command line or in a configuration file replaces the default.")
        case "tokens_per_step":
            return say("Tokens per step: batch size × context length × gradient accumulation × processes.")
        case "parameters":
            return say("The size of the model: how many numbers are trained.")
        case "vocabulary":
            return say(
                "The vocabulary: how many different tokens there are. An untrained model's loss is its logarithm, "
                "{formula}.",
                formula="ln(vocab_size)",
            )
        case "new_model":
            return say("A new model with random weights: it knows nothing yet.")
        case "resume":
            return say("The run goes on from a checkpoint instead of beginning anew.")
        case "optimizer":
            return say("The optimizer: matrices get weight decay, biases and norms do not.")
        case "compile":
            return say(
                "{compile} translates the model into faster code: a slow start, then faster steps.",
                compile="torch.compile",
            )
        case "warning":
            return say("A warning: training goes on, but read it once.")
        case "traceback":
            return say("The program failed here; the last line of this block gives the reason.")
        case "error":
            return say("This ended the run.")


def _fields(line: str, language: Language) -> str:
    say = language.say
    texts = {
        "loss": say("loss: the error on this one batch, so it jumps about; lower is better"),
        "time": say("time: how long this step took"),
        "mfu": say("MFU: the share of the device's arithmetic peak that is used (nanoGPT assumes an A100)"),
        "lr": say("lr: the learning rate, how far each step moves the weights"),
        "norm": say("norm: the length of the gradient; sudden peaks are a sign of instability"),
        "rate": say("tok/s: tokens trained on in a second"),
        "eta": say("eta: the time left"),
    }
    parts = [texts[name] for name, pattern in _FIELDS if pattern.search(line)]
    text = say("One training step: the weights are updated once.")
    return text + (" " + say("; ").join(parts) + say(".") if parts else "")
