"""Finding the dataset that the setting `dataset` names; a known corpus is prepared on first use."""

import shlex
from pathlib import Path

from nanoscope.config import RUN_NOTES
from nanoscope.config_sources import read_run_config
from nanoscope.data.corpora import CORPORA
from nanoscope.data.dataset import is_dataset, open_dataset
from nanoscope.data.download import OnProgress
from nanoscope.data.prepare import default_folder, prepare
from nanoscope.errors import JobError, UsageError
from nanoscope.files import DATA
from nanoscope.messages import Message, on_terminal
from nanoscope.suggest import did_you_mean


def find_dataset(
    name: str, tokenizer: str = "auto", on_progress: OnProgress | None = None, *, run: Path | None = None
) -> Path:
    """Return the folder of a dataset: `name` is a path, a name under data/, or a corpus, which is then prepared.

    `run` is the folder of a run: its dataset is found from any folder, where it was last seen or beside the run.
    """
    if (found := find_prepared(name, tokenizer, run=run)) is not None:
        return found
    corpus, kind = corpus_and_tokenizer(name, tokenizer)
    if corpus not in CORPORA:
        raise missing(name, tokenizer)
    folder = default_folder(corpus, kind)
    text = Message(
        "preparing {corpus} with the {kind} tokenizer in {folder} (on first use)",
        corpus=corpus,
        kind=kind,
        folder=folder,
    )
    print(on_terminal(text), flush=True)
    try:
        prepare([corpus], folder, tokenizer=kind, on_progress=on_progress)
    except JobError:
        if not is_dataset(folder):  # otherwise another process was faster
            raise
    return folder


def find_prepared(name: str, tokenizer: str = "auto", *, run: Path | None = None) -> Path | None:
    """Return the folder of a dataset that is there already, or None. Nothing is prepared."""
    corpus, kind = corpus_and_tokenizer(name, tokenizer)
    places, fingerprint = [Path(name), DATA / name], ""
    if corpus in CORPORA:
        places.append(default_folder(corpus, kind))
    if run and (config := read_run_config(run)[0]).get("dataset") == name:  # else another one was chosen since
        notes = config.get(RUN_NOTES, {})
        places += [above / place for above in run.resolve().parents[:2] for place in (name, DATA / name)]  # moved along
        places += [Path(str(notes["data_folder"]))] if notes.get("data_folder") else []
        fingerprint = notes.get("dataset_fingerprint", "")
    found = [place for place in places if is_dataset(place)]
    if fingerprint and len(found) > 1:  # the run's own data first
        found.sort(key=lambda folder: open_dataset(folder).fingerprint != fingerprint)
    if not found:
        return None
    _check_tokenizer(found[0], tokenizer)
    return found[0]


def corpus_and_tokenizer(name: str, tokenizer: str) -> tuple[str, str]:
    """What the setting `dataset` means: the name of a corpus, if there is one, and its tokenizer."""
    corpus = CORPORA.get(name)
    if corpus is None:
        return name, tokenizer
    return corpus.name, corpus.tokenizer if tokenizer == "auto" else tokenizer


def missing(name: str, tokenizer: str) -> UsageError:
    """The error about a dataset that is not there: how to make it."""
    path = Path(name)
    source, out = (name, path.stem) if path.exists() else ("FILE", path.name)
    option = [] if tokenizer == "auto" else [f"--tokenizer={tokenizer}"]
    command = ["nanoscope", "prepare", source, *option, "--out", f"data/{out}"]
    for script in (path / "prepare.py", DATA / name / "prepare.py"):
        if script.is_file():  # nanoGPT has one in the folder of each dataset
            command = ["python", str(script)]
    known = sorted({*CORPORA, *(folder.name for folder in DATA.glob("*") if is_dataset(folder))})
    return UsageError(
        "There is no dataset {name!r}.{hint}\nAvailable: {known}.\nTo prepare your own text: {command}",
        name=name,
        hint=did_you_mean(path.name, known),
        known=", ".join(known),
        command=shlex.join(command),
    )


def _check_tokenizer(folder: Path, wanted: str) -> None:
    tokenizer = open_dataset(folder).tokenizer if wanted != "auto" else None
    kind = tokenizer.kind if tokenizer else "meta.pkl"
    if wanted not in ("auto", kind):
        raise UsageError(
            "{folder} was prepared with the {kind} tokenizer, not with {wanted}.\n"
            "Omit --tokenizer, or prepare the text again with --tokenizer={wanted} into another folder.",
            folder=folder,
            kind=kind,
            wanted=wanted,
        )
