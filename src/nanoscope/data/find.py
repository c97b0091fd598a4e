"""Finding the dataset that the setting `dataset` names; a known corpus is prepared on first use."""

from pathlib import Path

from nanoscope.data.corpora import ALIASES, CORPORA
from nanoscope.data.dataset import is_dataset, open_dataset
from nanoscope.data.prepare import OnProgress, default_folder, prepare
from nanoscope.errors import JobError, UsageError
from nanoscope.paths import DATA
from nanoscope.suggest import did_you_mean


def find_dataset(name: str, tokenizer: str = "auto", on_progress: OnProgress | None = None) -> Path:
    """Return the folder of a dataset: `name` is a path, a name under data/, or a corpus, which is then prepared."""
    for folder in (Path(name), DATA / name):
        if is_dataset(folder):
            _check_tokenizer(folder, tokenizer)
            return folder
    corpus, kind = ALIASES.get(name) or (name, tokenizer)
    if tokenizer not in ("auto", kind):
        raise UsageError(f"{name} means {corpus} with the {kind} tokenizer; for {tokenizer} use --dataset={corpus}.")
    if corpus in CORPORA:
        return _prepare_known(corpus, CORPORA[corpus].tokenizer if kind == "auto" else kind, on_progress)
    path = Path(name)
    if path.exists():
        raise UsageError(
            f"{name} is not a prepared dataset. Prepare it, then train on the result:\n"
            f"  nanoscope prepare {name} --out data/{path.stem}\n  --dataset=data/{path.stem}"
        )
    prepared = [folder.name for folder in DATA.glob("*") if is_dataset(folder)]
    known = sorted({*CORPORA, *ALIASES, *prepared})
    raise UsageError(
        f"There is no dataset {name!r}.{did_you_mean(path.name, known)}\n"
        f"Available: {', '.join(known)}.\n"
        f"To prepare your own text: nanoscope prepare FILE --out data/{path.name}"
    )


def _check_tokenizer(folder: Path, wanted: str) -> None:
    if wanted == "auto":
        return
    tokenizer = open_dataset(folder).tokenizer
    kind = tokenizer.kind if tokenizer else "an unknown"
    if kind != wanted:
        raise UsageError(
            f"{folder} was prepared with the {kind} tokenizer, not with {wanted}.\n"
            f"Omit --tokenizer, or prepare the text again with --tokenizer={wanted} into another folder."
        )


def _prepare_known(corpus: str, kind: str, on_progress: OnProgress | None) -> Path:
    folder = default_folder(corpus, kind)
    if not is_dataset(folder):
        print(f"preparing {corpus} with the {kind} tokenizer in {folder} (on first use)", flush=True)
        try:
            prepare([corpus], folder, tokenizer=kind, on_progress=on_progress)
        except JobError:
            if not is_dataset(folder):  # otherwise another process was faster
                raise
    return folder
