"""Under --lang ar and --lang hi no error has English words left, but for names, code and the glossary's Latin terms."""

import re
from pathlib import Path

import pytest

from messages import FINDINGS, SOURCES
from mistakes import FAILED_JOB, FILES, WRONG_USAGE
from nanoscope import cli
from nanoscope.cli.extraction import messages_in
from nanoscope.config import KEYS
from nanoscope.config_sources import presets
from nanoscope.data.corpora import CORPORA
from nanoscope.findings.declared import Verdict
from nanoscope.hardware.device import DTYPES
from nanoscope.runs.listing import FIELDS, STATES
from nanoscope.words.language import Language
from written_runs import write_run

LANGUAGES = ["ar", "hi"]

# What one types: a command up to the end of its line, options, settings, file names, variables, what stands for a name.
CODE = re.compile(
    r"(?:nanoscope|pip|python|zstd) (?:[!-~]+ ?)+|--?\w[\w.]*(?:[=/][^\s،؛]+)?|\w+=[^\s،؛]+|[\w/]*\.\w+\b|"
    r"'[^']*'|\b[A-Z_]{2,}\d*\b|\w+_\w+"
)
TERMS = {
    # products and formats
    "nanoscope", "nanoGPT", "nanoGPT's", "GPT", "Python", "python", "torch", "Apple", "Hugging", "Face", "GitHub",
    "Raw", "MLflow", "TensorBoard", "Parquet", "tensorboard", "zip", "tar", "zstd", "gzip", "pandas", "pyarrow",
    "tiktoken", "trackio", "uplot", "Shakespeare", "tiny", "pip", "wheel", "GiB", "kB", "Lines",
    "wandb", "login", "Ctrl", "matmul", "Triton", "eager", "compiled", "swapping", "threads", "epochs", "ms",
    # the glossary's
    "token", "tokens", "tokenizer", "tokenizers", "checkpoint", "checkpoints", "preset", "presets", "parameters",
    "micro", "batch", "optimizer", "NaN", "logits", "tensors", "merges", "merge", "patience", "binary", "driver", "id",
    "seed", "activations", "parameter", "warmup", "overhead",
    # values and names that one types
    "auto", "cpu", "cuda", "mps", "char", "byte", "bpe", "gpt2", "utf", "cp1252", "overwrite", "temperature", "http",
    "uint16", "table", "sweep", "eta", "explain", "compare", "True", "False", "dtype", "laptop", "shakespeare",
    "spin", "sleep", "stdin", "epoch", "torchrun", "config", "any",
}  # fmt: skip


NAMES = {
    *presets(),
    *CORPORA,
    *KEYS,
    *STATES,
    *FIELDS,
    *cli.COMMANDS,
    *DTYPES,
    "val",
    "train",
    "full",
    "frame",
}
NAMES |= {kind.code for kind in Verdict.__subclasses__()}
TOMLLIB = re.compile(r"Invalid value \(at line \d+, column \d+\)")  # a reason that another library gives stays as it is


def english_left(text: str, allowed: set[str]) -> list[str]:
    text = TOMLLIB.sub("", text)
    words = re.findall(r"[A-Za-z][A-Za-z0-9']*", CODE.sub(" ", re.sub("[\u2066-\u2069\u200e\u200f]", "", text)))
    return [word for word in words if len(word) > 1 and word not in allowed]


@pytest.mark.parametrize("code", LANGUAGES)
def test_no_message_of_the_catalogues_has_english_left(code: str) -> None:
    language, left = Language(code), {}
    paths = [path for path in SOURCES.rglob("*.py") if path.relative_to(SOURCES).parts[0] not in FINDINGS]
    for _, function, message in (each for path in paths for each in messages_in(path.read_text("utf-8"))):
        one, many = message if function == "ngettext" else (message[-1], None)
        for n in (1, 2, 5, 11, 100) if many else (1,):
            translated = re.sub(r"\{[^}]*\}", "", language.translate(one, many, n))
            if words := english_left(translated, TERMS | NAMES):
                left[one] = words
    assert left == {}


def files(folder: Path) -> None:
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    (folder / "folder").mkdir()
    (folder / "folder/picture.png").write_bytes(b"\x89PNG\0")
    (folder / "records.jsonl").write_text('{"words": "some text"}\n', "utf-8")
    (folder / "cells.csv").write_text('body,number\n"a long text",1\n', "utf-8")
    (folder / "archive.tar").write_bytes(b"x")
    (folder / "text.zst").write_bytes(b"x")
    (folder / "binary.log").write_bytes(b"\0\1\2")
    (folder / "paper.pdf").write_bytes(b"%PDF-1.7")
    (folder / "notes.log").write_text("nothing of interest\n", "utf-8")
    (folder / "settings.toml").write_text('batch_sise = 3\npreset = "labtop"\n[model]\nn_layer = 2\n', "utf-8")
    (folder / "helpers.py").write_text(
        "learning_rat = 1\nfor x in range(3): pass\nbatch_size = unknown_name\n", "utf-8"
    )
    write_run(folder / "runs/good", steps=3)
    (folder / "runs/good/config.toml").write_text("", "utf-8")


CASES = [
    *(words for words, _ in (*WRONG_USAGE.values(), *FAILED_JOB.values())),
    ["trian"], ["laptop"], ["--hlep"], ["notes.log"], ["bench"], ["train", "--lr=1"],
    ["explain", "binary.log"], ["explain", "paper.pdf"],
    ["explain", "missing.log"], ["explain", "good"], ["explain", "folder"], ["explain", "notes.log", "--max_iters=0"],
    ["explain", "notes.log", "--fail_on=bad"], ["explain", "--jsn", "notes.log"], ["eta", "notes.log"],
    ["eta", "notes.log", "good.txt"], ["eta", "notes.log", "--step_time=0"], ["eta", "notes.log", "--max_iters=few"],
    ["compare"], ["compare", "runs/good"], ["compare", "notes.log"], ["report", "notes.log"],
    ["report", "runs/good", "--out=missing/page.html"], ["runs", "good.txt"], ["runs", "missing"],
    ["runs", "--filter=state=runing"], ["runs", "--filter=n_layr>2"], ["runs", "--columns=n_layr"],
    ["runs", "--sort"], ["watch", "--port=70000"], ["watch", "missing"], ["watch", "good.txt"],
    ["watch", "--token=x"], ["watch", "--notify=http://"], ["demo", "--minutes=0"],
    ["presets", "labtop"], ["completion"], ["sample", "one", "--out_dir=two"], ["sample", "--seed=1", "--seed=2"],
    ["sample", "--max_new_tokens=0"], ["eval", "--split=tset"], ["prepare", "folder"],
    ["prepare", "folder", "--ext=py"], ["prepare", "good.txt", "--ext=py"], ["prepare", "records.jsonl"],
    ["prepare", "cells.csv"], ["prepare", "archive.tar"], ["prepare", "text.zst"], ["prepare", "runs/good"],
    ["prepare", "good.txt", "--encoding=utf9"], ["prepare", "good.txt", "--vocab_size=9"],
    ["prepare", "good.txt", "--val_fraction=2"], ["prepare", "good.txt", "--tokenizer=bpe", "--vocab_size=9"],
    ["prepare", "shakespear"], ["prepare", "good.txt", "--out=folder"], ["train", "settings.toml"],
    ["train", "helpers.py"], ["train", "notes.log"], ["train", "folder"], ["train", "max_iters=3"],
    ["train", "--max_iters"], ["train", "--n_embd=130", "--dropout=2", "--ngrams=9", "--compile=maybe"],
    ["train", "laptop-classic", "--ngrams=3"], ["train", "--overwrite=True", "--init_from=resume"],
    ["train", "--eval_iters=0"], ["train", "--dataset="], ["sweep", "laptop"],
    ["sweep", "laptop", "--learning_rate=1e-4..1e-2"], ["sweep", "laptop", "--learning_rate=2..1", "--random=3"],
    ["sweep", "laptop", "--n_layr=1,2"], ["sweep", "laptop", "--seed=1,2", "--jobs=0"],
    ["sweep", "laptop", "--seed=1,2", "--overwrite"],
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("place")
    files(place)
    return place


@pytest.mark.parametrize("code", LANGUAGES)
def test_no_error_has_english_left(
    code: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    contents = {path: path.read_text("latin-1") for path in folder.iterdir() if path.is_file()}
    for words in CASES:
        assert cli.run([*words, "--lang", code]) in (1, 2), words
        said = capsys.readouterr().err
        quoted = [
            *words,
            *(path.name for path in folder.rglob("*")),
            *(contents.get(folder / word, "") for word in words),
        ]
        typed = {part for each in quoted for part in re.findall(r"[A-Za-z0-9]+", each)}
        assert not english_left(said, TERMS | NAMES | typed), (words, said)
        assert "�" not in said
