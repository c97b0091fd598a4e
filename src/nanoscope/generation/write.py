"""From a run on disk to text on the screen: what `nanoscope sample` does."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

from nanoscope.data.tokenizer import Tokenizer, tokenizer_from_json
from nanoscope.errors import JobError, UsageError
from nanoscope.generation.sampler import Sampling, generate_texts
from nanoscope.hardware.device import decide, look
from nanoscope.hardware.probe import without_what_fails
from nanoscope.model import LanguageModel, build_model
from nanoscope.training.restore import Checkpoint, find_checkpoint, load_model_weights
from nanoscope.training.session import autocast
from nanoscope.untrusted import printable


def write_samples(
    run: Path,
    prompt: str,
    settings: Sampling,
    *,
    count: int,
    checkpoint: str,
    device: str,
    dtype: str,
    as_json: bool,
) -> None:
    """Write `count` texts to standard output; which checkpoint wrote them goes to standard error."""
    if count < 1:
        raise UsageError(f"num_samples must be positive, it is {count}")
    found, problems = find_checkpoint(run, checkpoint)
    for problem in problems:
        print(f"warning: {printable(problem)}", file=sys.stderr)
    tokenizer = tokenizer_of(found)
    text = read_prompt(prompt)
    choice, notes = without_what_fails(decide(device, dtype, False, look()))
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    model = load_model(found).to(choice.device)
    val = found.progress.best_val_loss
    about = f", val loss {val:.4f}" if val is not None and found.progress.best_step == found.progress.step else ""
    print(f"{printable(str(found.folder))} ({found.progress.step} iterations{about})", file=sys.stderr, flush=True)
    stream: Callable[[str], None] = (lambda piece: None) if as_json else _show
    try:
        with autocast(choice):
            texts = generate_texts(model, tokenizer, text, settings, count, stream)
    except RuntimeError as error:
        if "probability tensor" not in str(error):
            raise
        raise JobError(f"{found.folder} cannot write: its weights give probabilities that are no numbers") from None
    if as_json:
        answer = {"checkpoint": str(found.folder), "prompt": text, "samples": texts}
        _show(json.dumps(answer, ensure_ascii=False) + "\n")
        return
    for other in texts[1:]:
        _show("\n---------------\n" + other)
    _show("\n")


def load_model(found: Checkpoint) -> LanguageModel:
    model = build_model(found.model_config)
    load_model_weights(model, found.model)
    return model


def tokenizer_of(found: Checkpoint) -> Tokenizer:
    if found.tokenizer is None:
        raise JobError(f"{found.folder} has no tokenizer: the run was trained on ids whose text nobody knows")
    tokenizer = tokenizer_from_json(found.tokenizer)
    if tokenizer.vocab_size > found.model_config.vocab_size:
        raise JobError(
            f"{found.folder} is not whole: its tokenizer has {tokenizer.vocab_size} tokens, "
            f"its model knows {found.model_config.vocab_size}"
        )
    return tokenizer


def newest_run() -> Path:
    """The run under runs/ that was last written to."""
    runs = [path.parent for path in Path("runs").glob("*/checkpoints") if any(path.glob("step-*"))]
    if not runs:
        raise UsageError(
            "which run? There is none under runs/ yet: nanoscope sample RUN, or first: nanoscope train laptop"
        )
    return max(runs, key=lambda path: (path / "checkpoints").stat().st_mtime)


def read_prompt(prompt: str) -> str:
    """The prompt itself, the text of FILE:path, or standard input for '-'."""
    if prompt != "-" and not prompt.startswith("FILE:"):
        return prompt
    try:
        if prompt == "-":
            return sys.stdin.buffer.read().decode("utf-8-sig").replace("\r\n", "\n")
        return Path(prompt.removeprefix("FILE:")).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"the prompt {prompt} cannot be read: {error}") from None


def _show(text: str) -> None:
    """A terminal is not to be steered by what a model writes; a pipe or a file gets it as it is, like any data."""
    print(printable(text) if sys.stdout.isatty() else text, end="", flush=True)
