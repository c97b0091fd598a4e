"""Finding the dataset that the setting `dataset` names; a known corpus is prepared on first use."""

import shlex
from pathlib import Path

from nanoscope.config import RUN_NOTES
from nanoscope.config_sources import read_run_config
from nanoscope.data.corpora import ALIASES, CORPORA
from nanoscope.data.dataset import is_dataset, open_dataset
from nanoscope.data.download import OnProgress
from nanoscope.data.prepare import default_folder, prepare
from nanoscope.errors import JobError, UsageError
from nanoscope.files import DATA
from nanoscope.messages import Text, on_terminal
from nanoscope.suggest import did_you_mean

NANOGPT_TOKENIZERS = {"openwebtext": "gpt2"}  # of the datasets that nanoGPT prepares and nanoscope does not


def find_dataset(
    name: str, tokenizer: str = "auto", on_progress: OnProgress | None = None, *, run: Path | None = None
) -> Path:
    """Return the folder of a dataset: `name` is a path, a name under data/, or a corpus, which is then prepared.

    `run` is the folder of a run: its dataset is found from any folder, also if the project was moved.
    """
    if (found := find_prepared(name, tokenizer, run=run)) is not None:
        return found
    corpus, kind = corpus_and_tokenizer(name, tokenizer)
    if tokenizer not in ("auto", kind):
        raise UsageError(
            "{name} means {corpus} with the {kind} tokenizer; for {tokenizer} use --dataset={corpus}.",
            name=name,
            corpus=corpus,
            kind=kind,
            tokenizer=tokenizer,
        )
    if corpus in CORPORA:
        return _prepare_known(corpus, kind, on_progress)
    raise missing(name, tokenizer)


def find_prepared(name: str, tokenizer: str = "auto", *, run: Path | None = None) -> Path | None:
    """Return the folder of a dataset that is there already, or None. Nothing is prepared."""
    corpus, kind = corpus_and_tokenizer(name, tokenizer)
    known = corpus in CORPORA and tokenizer in ("auto", kind)
    own = [default_folder(corpus, kind)] if known else []
    folders = [Path(name), DATA / name]
    found = [folder for folder in folders if is_dataset(folder)]
    if run is not None:
        found = _of_run(run, name, folders + own)
    if found:
        _check_tokenizer(found[0], tokenizer)
    return next((folder for folder in found + own if is_dataset(folder)), None)


def corpus_and_tokenizer(name: str, tokenizer: str) -> tuple[str, str]:
    """What the setting `dataset` means: the name of a corpus, if there is one, and its tokenizer."""
    corpus, kind = ALIASES.get(name) or (name, tokenizer)
    if corpus in CORPORA and kind == "auto":
        kind = CORPORA[corpus].tokenizer
    return corpus, kind


def _of_run(run: Path, name: str, folders: list[Path]) -> list[Path]:
    """Return those places that hold a dataset, those with the run's own data first.

    Each folder is looked for here, where the run was started if it is still there, and where its data was last seen.
    """
    config, _ = read_run_config(run)
    if config.get("dataset") != name:  # another one was chosen since
        config = {}
    notes = config.get(RUN_NOTES, {})
    out_dir, here = Path(str(config.get("out_dir", ""))), run.resolve()
    places = [*folders]
    if out_dir.parts and not out_dir.is_absolute() and here.parts[-len(out_dir.parts) :] == out_dir.parts:
        places += [here.parents[len(out_dir.parts) - 1] / folder for folder in folders]
    if notes.get("data_folder"):
        places.append(Path(str(notes["data_folder"])))
    found = [place for place in places if is_dataset(place)]
    if len(found) < 2:
        return found
    return sorted(found, key=lambda folder: open_dataset(folder).fingerprint != notes.get("dataset_fingerprint"))


def missing(name: str, tokenizer: str) -> UsageError:
    """The error about a dataset that is not there: how to make it."""
    path = Path(name)
    kind = NANOGPT_TOKENIZERS.get(path.name, "auto") if tokenizer == "auto" else tokenizer
    option = "" if kind == "auto" else f" --tokenizer={kind}"
    command = f"nanoscope prepare FILE{option} --out {shlex.quote(f'data/{path.name}')}"
    for script in (path / "prepare.py", DATA / name / "prepare.py"):
        if script.is_file():  # nanoGPT has one in the folder of each dataset
            return UsageError(
                "The dataset {name!r} is not prepared yet. Its own script does it: python {script}\n"
                "To prepare your own text: {command}",
                name=name,
                script=shlex.quote(str(script)),
                command=command,
            )
    if path.exists():
        out = shlex.quote(f"data/{path.stem}")
        return UsageError(
            "{name} is not a prepared dataset. Prepare it, then train on the result:\n  {command}\n  --dataset={out}",
            name=name,
            command=f"nanoscope prepare {shlex.quote(name)}{option} --out {out}",
            out=out,
        )
    prepared = [folder.name for folder in DATA.glob("*") if is_dataset(folder)]
    known = sorted({*CORPORA, *ALIASES, *prepared})
    return UsageError(
        "There is no dataset {name!r}.{hint}\nAvailable: {known}.\nTo prepare your own text: {command}",
        name=name,
        hint=did_you_mean(path.name, known),
        known=", ".join(known),
        command=command,
    )


def _check_tokenizer(folder: Path, wanted: str) -> None:
    if wanted == "auto":
        return
    tokenizer = open_dataset(folder).tokenizer
    if tokenizer is None:
        raise UsageError(
            "{folder} was prepared with an unknown tokenizer, not with {wanted}.\n"
            "Omit --tokenizer, or prepare the text again with --tokenizer={wanted} into another folder.",
            folder=folder,
            wanted=wanted,
        )
    if tokenizer.kind != wanted:
        raise UsageError(
            "{folder} was prepared with the {kind} tokenizer, not with {wanted}.\n"
            "Omit --tokenizer, or prepare the text again with --tokenizer={wanted} into another folder.",
            folder=folder,
            kind=tokenizer.kind,
            wanted=wanted,
        )


def _prepare_known(corpus: str, kind: str, on_progress: OnProgress | None) -> Path:
    folder = default_folder(corpus, kind)
    if not is_dataset(folder):
        text = Text(
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
