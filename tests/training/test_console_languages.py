"""What commands print in Arabic and in Hindi is not English; logs, and the lines that programs read, are."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import SONG, make_dataset
from nanoscope import messages
from nanoscope.hardware.probe import ProbeResult, cpu_name
from nanoscope.messages import Message, joined, on_terminal
from nanoscope.runs import events as e
from nanoscope.runs.console import ENDINGS, SLOW_CAUSES, console_lines
from nanoscope.words.language import ISOLATE, RIGHT_TO_LEFT_MARK, Language
from small_runs import TINY, Folder

TRANSLATED = ("ar", "hi")
MACHINE_READ = re.compile(
    r"(iter|step) \d+: |saving checkpoint to |number of parameters: |tokens per iteration will be: |settings: "
    r"|nanoscope [\d.]+: "
)
COMMAND = re.compile(r"nanoscope (?:prepare|train|explain|sample|report|watch|compare|presets|sweep)\b[^\u2069\n]*")
CODE = re.compile(r"\S*[/=_.\d]\S*|'[^'\n]*'|--\w+|Ctrl-\w")
NAMES = {
    "nanoscope", "CUDA", "MPS", "GPU", "CPU", "GFLOPS", "MFU", "cpu", "char", "eager", "compiled", "compile", "threads",
    "token", "tokens", "tokenizer", "epochs", "checkpoint", "checkpoints", "perplexity", "preset", "parameters",
    "matmul", "micro", "batch", "patience", "swapping", "GB", "kB", "ms", "laptop", "modern", "val", "train", "NAME",
    "ar", "hi", "SIGINT", "sweep", "seed", "device", "auto", "Python", "torch", "Linux", "NaN",
    "gram",
}  # fmt: skip


def english_words(text: str) -> set[str]:
    """The Latin words of an output that are neither names, nor terms, nor code."""
    lines = [line for line in text.splitlines() if not MACHINE_READ.match(line)]
    rest = CODE.sub(" ", COMMAND.sub(" ", "\n".join(lines)))
    return set(re.findall(r"[A-Za-z]{2,}", rest)) - NAMES


@pytest.fixture(params=TRANSLATED)
def language(request: pytest.FixtureRequest) -> Iterator[Language]:
    messages.current = Language(request.param)
    yield Language(request.param)
    messages.current = messages.ENGLISH


EVENTS: list[e.AnyEvent] = [
    e.Start(
        run="run", nanoscope="1.0", config={}, device_name="", peak_flops=1e9, peak_source="", data_folder="data/x",
        train_tokens=5, val_tokens=5, device_reasons="",
    ),
    e.Forecast(steps=5, step_seconds=0.1),
    e.Forecast(steps=5, step_seconds=0.1, measured=5, seconds=500.0, seconds_low=4.0, seconds_high=7200.0, epochs=1.0,
               epochs_per_step=0.1, memory_bytes=10**9, memory_available=10**10),
    e.Resume(step=5),
    e.Resume(step=5, changed={"max_iters": (5, 9)}, for_session={"device": ("auto", "cpu")}),
    e.Sample(step=5, seconds=1.0, path="samples/a.txt", beginning="some words"),
    e.Rollback(step=5, to=3, lr_factor=0.5, count=1, limit=3),
    e.OutOfMemory(step=5, micro_batch=4, micro_batch_before=8),
    e.Spike(step=5, loss=9.0, usual=2.0, score=9.0),
    *(e.SlowStep(step=5, seconds=2.0, usual=0.1, cause=cause) for cause in SLOW_CAUSES),
    e.Asleep(step=5, seconds=90.0),
    e.CheckpointFailed(step=5, message="ENOSPC_"),
    e.NonFinite(step=5),
    *(e.End(reason=reason, step=5, wall_seconds=9.0, phases={"step": 8.0, "other": 1.0}, best_val_loss=1.0, best_step=5,
            saved_step=5, signal="SIGINT") for reason in ENDINGS),
    e.End(reason="interrupted", step=0),
]  # fmt: skip


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_no_event_is_shown_in_english(event: e.AnyEvent, language: Language) -> None:
    for line in console_lines(event, "runs/run"):
        assert not english_words(on_terminal(line)), line
        assert on_terminal(line) != line or MACHINE_READ.match(line)


def test_a_right_to_left_line_begins_with_a_mark_and_isolates_its_values(language: Language) -> None:
    shown = on_terminal(Message("watch in the browser: {command}", command="nanoscope watch runs"))
    assert shown.startswith(RIGHT_TO_LEFT_MARK) == language.right_to_left
    assert (f"{ISOLATE}nanoscope watch runs" in shown) == language.right_to_left


def test_a_value_from_a_file_of_others_cannot_steer_the_terminal(language: Language) -> None:
    hostile = "\x1b[2J\u202e\u2069"
    parts = joined(", ", [hostile, Message("{folder} ({facts})", folder=Path(hostile), facts=hostile)])
    shown = on_terminal(Message("note: {text}", text=parts))
    assert not re.search("[\x1b\u202e]", shown)
    assert shown.count(ISOLATE) == shown.count("\u2069")


def test_a_note_is_english_in_the_events_and_translated_on_the_terminal(language: Language) -> None:
    note = e.Note(text=Message("measuring n-gram models"))
    assert json.loads(e.encode(note))["text"] == "measuring n-gram models"
    (line,) = console_lines(note)
    assert str(line) == "note: measuring n-gram models"
    assert not english_words(on_terminal(line))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Folder, dict[str, str]]:
    """A folder with the same run in three languages, and what training printed."""
    path = tmp_path_factory.mktemp("languages")
    make_dataset(path, name="tiny")
    folder, printed = Folder(path), {}
    for code in ("en", *TRANSLATED):
        words = [
            "--max_iters=4",
            "--eval_interval=2",
            "--sample_interval=2",
            "--eval_iters=1",
            f"--out_dir=runs/{code}",
        ]
        printed[code] = folder.train(*words, "--lang", code)
        printed[code] += folder.run("train", f"runs/{code}", "--init_from=resume", "--max_iters=6", f"--lang={code}")
    return folder, printed


def without_numbers(text: str) -> list[str]:
    """Lines whose times, rates and names of runs are left out: they differ from run to run."""
    text = re.sub(r"runs/\w+", "runs/RUN", re.sub(r"[\d.]+\w*%?", "N", text))
    return [re.sub(r"\((?:\w+ N(?:, )?)+\)", "(SHARES)", line) for line in text.splitlines() if "slept" not in line]


@pytest.mark.slow
@pytest.mark.parametrize("code", TRANSLATED)
def test_training_prints_no_english_around_the_lines_that_programs_read(trained, code: str) -> None:
    _, printed = trained
    samples = re.compile(r"'.*'|\".*\"")  # what the model wrote
    assert not english_words(samples.sub("", printed[code]).replace(cpu_name(), ""))
    shapes = {each: [line for line in printed[each].splitlines() if MACHINE_READ.match(line)] for each in ("en", code)}
    assert len(shapes["en"]) > 12
    assert without_numbers("\n".join(shapes[code])) == without_numbers("\n".join(shapes["en"]))


@pytest.mark.slow
@pytest.mark.parametrize("code", TRANSLATED)
def test_the_log_and_the_events_of_a_run_are_english_whatever_the_terminal_shows(trained, code: str) -> None:
    folder, _ = trained
    log = (folder.path / f"runs/{code}/console.log").read_text("utf-8")
    english = (folder.path / "runs/en/console.log").read_text("utf-8")
    assert not re.search("[\u0600-\u06ff\u0900-\u097f\u200f\u2068]", log)
    notes = {"note: iteration", "note: loss"}  # of a busy machine
    kept = [[line for line in without_numbers(each) if not line.startswith(tuple(notes))] for each in (log, english)]
    assert kept[0] == kept[1]
    assert (folder.path / f"runs/{code}/events.jsonl").read_text("utf-8").isascii()
    found, known = (
        json.loads(folder.run("explain", f"runs/{each}/console.log", "--json", "--lang", each)) for each in (code, "en")
    )
    assert found["format"] == "nanoscope"
    facts = ("steps_logged", "last_step", "total_steps", "finished", "loss")
    assert [[run[key] for key in facts] for run in found["runs"]] == [
        [run[key] for key in facts] for run in known["runs"]
    ]


@pytest.mark.slow
@pytest.mark.parametrize("code", TRANSLATED)
@pytest.mark.parametrize(
    "words",
    [
        ["prepare", "tiny.txt", "--out", "data/again", "--overwrite"],
        ["sample", "runs/en", "--prompt", "1", "--max_new_tokens=1", "--temperature=0"],
        ["eval", "runs/en", "--windows=2"],
        ["runs", "runs"],
        ["sweep", "laptop", *TINY, "--seed=1,2", "--out_dir=runs/many", "--dry_run"],
        ["train", "runs/en", "--init_from=resume"],
        ["report", "runs/en"],
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_no_command_prints_english(trained, code: str, words: list[str]) -> None:
    folder, _ = trained
    out = folder.run(*words, "--lang", code)
    assert not english_words(out) - {"en", "tiny", "txt"}, out


@pytest.mark.parametrize("code", TRANSLATED)
def test_bench_prints_no_english(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nanoscope.planning.bench.measure_peak", lambda *_, **__: 5e9)
    monkeypatch.setattr("nanoscope.planning.bench.probe_cpu_dtype", lambda dtype: ProbeResult("", {}, 76.0))
    monkeypatch.setattr("nanoscope.hardware.device.cpu_name", lambda: "CPU")
    out = Folder(tmp_path).run("tune", "--bench", "quick", "--n_layer=1", "--device=cpu", "--lang", code)
    assert "76" in out
    first, *rest = out.splitlines()
    assert not english_words("\n".join(line for line in [first, *rest] if "torch" not in line)), out
    assert "\ufffd" not in out


def test_the_song_is_english() -> None:
    assert {"row", "boat"} <= english_words(SONG)
