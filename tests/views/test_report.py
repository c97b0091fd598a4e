import base64
import contextlib
import hashlib
import io
import json
import math
import re
from array import array
from contextlib import redirect_stderr, redirect_stdout
from html.parser import HTMLParser
from pathlib import Path

import pytest

import example_logs
import page_types
from nanoscope import cli
from nanoscope.runs.own import read_samples
from nanoscope.views.report.series import MAX_POINTS, extremes
from nanoscope.words.language import LANGUAGES
from written_runs import HOSTILE, write_run, write_sweep

KILOBYTE = 1000


def report(folder: Path, *words: str, status: int = 0) -> str:
    output = io.StringIO()
    with contextlib.chdir(folder), redirect_stdout(output), redirect_stderr(output):
        assert cli.run(["report", *words]) == status, output.getvalue()
    return output.getvalue()


class Tags(HTMLParser):
    """The tags of a page, as a browser would find them, and the text of its scripts and styles."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {"script": [], "style": []}
        self._in: str | None = None
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._in = tag if tag in self.texts else None

    def handle_endtag(self, tag):
        self._in = None

    def handle_data(self, data):
        if self._in:
            self.texts[self._in].append(data)


def payload_of(file: Path) -> dict:
    found = re.search(r'<script type="application/json" id="payload">(.*?)</script>', file.read_text("utf-8"), re.S)
    return json.loads(found[1])


def numbers(text: str, kind: str = "f") -> list[float]:
    return list(array(kind, base64.b64decode(text)))


@pytest.fixture
def page_of_run(tmp_path):
    write_run(tmp_path / "run", hostile=True)
    report(tmp_path, "run", "--lang", "en")
    return tmp_path / "run/report.html"


def test_a_run_folder_gets_its_report_inside_and_the_output_says_how_to_open_it(tmp_path):
    write_run(tmp_path / "run")
    printed = report(tmp_path, "run")
    assert (tmp_path / "run/report.html").resolve().as_uri() in printed


def test_the_report_of_a_log_is_written_to_the_current_folder_or_to_the_output_option(tmp_path):
    (tmp_path / "train.log").write_text(example_logs.spiky(), "utf-8")
    report(tmp_path, "train.log")
    report(tmp_path, "train.log", "-o", "elsewhere.html")
    assert (tmp_path / "report.html").read_text("utf-8") == (tmp_path / "elsewhere.html").read_text("utf-8")


def test_a_run_of_5000_steps_with_every_series_stays_below_600_kilobytes(tmp_path):
    write_run(tmp_path / "run", steps=5000, slow_every=20)
    report(tmp_path, "run")
    assert 100 * KILOBYTE < (tmp_path / "run/report.html").stat().st_size < 600 * KILOBYTE


def test_nothing_from_the_run_becomes_markup(page_of_run):
    page = Tags(page_of_run.read_text("utf-8"))
    assert [tag for tag, _ in page.tags if tag in ("img", "iframe", "object", "a")] == []
    assert sum(tag == "script" for tag, _ in page.tags) == 3  # the payload, uPlot, the page's own
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)


def test_texts_of_the_run_are_unchanged_except_that_escape_codes_are_visible(page_of_run):
    shown = HOSTILE.replace("\x1b", "␛").replace("\x07", "␇")
    run = payload_of(page_of_run)["runs"][0]
    assert dict(run["config"])["dataset"] == shown
    assert run["samples"][-1] == [300, f"ROMEO, at 300: {shown}"]


def test_unicode_line_separators_are_escaped(page_of_run):
    assert "\u2028" not in page_of_run.read_text("utf-8")
    assert "\u2028" in dict(payload_of(page_of_run)["runs"][0]["config"])["dataset"]


def test_the_policy_allows_exactly_the_scripts_and_styles_of_the_page_and_no_network(page_of_run):
    page = Tags(page_of_run.read_text("utf-8"))
    policy = next(a["content"] for tag, a in page.tags if tag == "meta" and "http-equiv" in a)
    rules = {rule.split()[0]: set(rule.split()[1:]) for rule in policy.split(";")}

    def hashes(texts: list[str]) -> set[str]:
        return {f"'sha256-{base64.b64encode(hashlib.sha256(t.encode()).digest()).decode()}'" for t in texts}

    assert rules["default-src"] == {"'none'"}
    assert rules["script-src"] == hashes(page.texts["script"][1:])
    assert rules["style-src"] == hashes(page.texts["style"])
    assert "connect-src" not in rules
    assert rules["img-src"] == {"data:"}


def test_the_types_of_the_scripts_are_those_of_the_payload():
    assert page_types.FILE.read_text("utf-8") == page_types.declarations()


def test_uplots_license_notice_is_kept(page_of_run):
    assert "Leon Sorokin" in page_of_run.read_text("utf-8")


def test_the_path_of_the_log_is_not_in_the_report(tmp_path):
    (tmp_path / "train.log").write_text(example_logs.spiky(), "utf-8")
    report(tmp_path, str(tmp_path / "train.log"))
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "train.log: 142 lines, format nanogpt" in page
    assert str(tmp_path) not in page


def test_all_languages_are_in_the_file_and_lang_selects_the_first(tmp_path):
    write_run(tmp_path / "run")
    report(tmp_path, "run", "--lang", "ar")
    payload = payload_of(tmp_path / "run/report.html")
    assert payload["language"] == "ar"
    assert set(payload["words"]) == set(LANGUAGES)
    assert payload["languages"]["ar"]["direction"] == "rtl"
    texts = {code: words["runs"][0]["verdicts"][0]["text"] for code, words in payload["words"].items()}
    assert len(set(texts.values())) == 3


def test_a_verdict_ends_with_the_full_stop_of_its_language(tmp_path):
    write_run(tmp_path / "run")
    report(tmp_path, "run", "--lang", "hi")
    verdict = payload_of(tmp_path / "run/report.html")["words"]["hi"]["runs"][0]["verdicts"][0]
    assert verdict["title"].endswith("। ")
    assert f"<p>{verdict['title']}{verdict['text']}" in (tmp_path / "run/report.html").read_text("utf-8")


def test_the_numbers_are_those_of_the_run(tmp_path):
    write_run(tmp_path / "run", steps=200)
    report(tmp_path, "run")
    run = payload_of(tmp_path / "run/report.html")["runs"][0]
    assert run["steps"] == {"first": 0, "every": 1, "count": 200, "each": None}
    assert set(run["series"]) == {"loss", "time_s", "lr", "grad_norm", "tok_s", "mfu_pct", "eta_s"}
    assert numbers(run["series"]["eta_s"]["y"])[100] == pytest.approx(5.0)
    assert len(numbers(run["series"]["time_s"]["y"])) == 198  # the two slow steps are told apart
    assert numbers(run["series"]["mfu_pct"]["y"])[7] == pytest.approx(40.0)
    assert run["evals"][0][2] == pytest.approx(0.02)
    assert dict(map(tuple, run["phases"])) == {"startup": 2.0, "steps": 10.0, "eval": 8.4, "checkpoint": 0.5}


def test_a_series_that_the_log_does_not_print_has_no_chart(tmp_path):
    (tmp_path / "train.log").write_text(example_logs.spiky(), "utf-8")
    report(tmp_path, "train.log")
    run = payload_of(tmp_path / "report.html")["runs"][0]
    assert set(run["series"]) == {"loss", "time_s", "mfu_pct"}


def test_nanogpts_minus_100_percent_of_mfu_is_not_drawn(tmp_path):
    (tmp_path / "train.log").write_text(example_logs.spiky(), "utf-8")
    report(tmp_path, "train.log")
    drawn = numbers(payload_of(tmp_path / "report.html")["runs"][0]["series"]["mfu_pct"]["y"])
    assert min(drawn) > 0
    assert drawn[-1] == pytest.approx(9.7)


def test_every_slow_step_has_its_cause_and_a_sentence_in_each_language(tmp_path):
    (tmp_path / "train.log").write_text(example_logs.spiky(), "utf-8")
    report(tmp_path, "train.log")
    payload = payload_of(tmp_path / "report.html")
    slow = payload["runs"][0]["slow"]
    assert slow[0] == [0, pytest.approx(12.5435), "startup+evaluation"]
    assert {cause for _, _, cause in slow[1:]} == {"evaluation+checkpoint"}
    for words in payload["words"].values():
        assert len(words["runs"][0]["slow"]) == len(slow)
        assert set(words["runs"][0]["causes"]) == {"startup+evaluation", "evaluation+checkpoint"}
    assert "evaluation + checkpoint" in payload["words"]["en"]["runs"][0]["slow"][1]


def test_notes_of_the_run_are_shown_and_explain_its_slow_steps(tmp_path):
    write_run(tmp_path / "run")
    report(tmp_path, "run")
    words = payload_of(tmp_path / "run/report.html")["words"]["en"]["runs"][0]
    assert words["notes"][0] == "At step 150 the loss jumped to 3.5000, where 2.0000 is usual."
    at_50 = next(text for text in words["slow"] if text.startswith("step 50:"))
    assert at_50.endswith("the machine was asleep.")


def test_the_best_validation_is_marked(tmp_path):
    (tmp_path / "gpu.log").write_text(example_logs.gpu(), "utf-8")
    report(tmp_path, "gpu.log")
    run = payload_of(tmp_path / "report.html")["runs"][0]
    assert run["best"] == [1750, pytest.approx(1.4697)]


def test_several_runs_are_compared_and_can_be_overlaid(tmp_path):
    (tmp_path / "gpu.log").write_text(example_logs.gpu(), "utf-8")
    (tmp_path / "laptop.log").write_text(example_logs.laptop(), "utf-8")
    report(tmp_path, "laptop.log", "gpu.log")
    payload = payload_of(tmp_path / "report.html")
    comparison = payload["words"]["en"]["comparison"]
    assert [run["name"] for run in payload["runs"]] == ["laptop", "gpu"]
    assert comparison["settings"]["headers"] == ["", "laptop", "gpu"]
    assert [line[0] for line in comparison["measures"]["rows"]] == ["gpu", "laptop"]
    assert [run["tokens_per_step"] for run in payload["runs"]] == [768, 16384]
    for run in payload["runs"]:
        times = [seconds for _, seconds in run["clock"]]
        assert times == sorted(times)
        assert len(times) > 5


def test_runs_are_called_by_their_names_however_long(tmp_path):
    names = ["a-laptop-with-a-long-name", "gpu"]
    for name in names:
        (tmp_path / f"{name}.log").write_text(example_logs.laptop(), "utf-8")
    report(tmp_path, *(f"{name}.log" for name in names))
    payload = payload_of(tmp_path / "report.html")
    assert [run["name"] for run in payload["runs"]] == names
    comparison = payload["words"]["en"]["comparison"]
    assert comparison["key"] == []
    assert comparison["settings"]["headers"] == ["", *names]


def test_the_settings_that_differ_come_with_their_values(tmp_path):
    write_sweep(tmp_path / "sweep")
    report(tmp_path, "sweep", "-o", "sweep.html")
    payload = payload_of(tmp_path / "sweep.html")
    assert [each["key"] for each in payload["settings"]] == ["learning_rate"]
    assert sorted(set(payload["settings"][0]["values"])) == [3e-4, 1e-3, 1e-2]
    results = {run["name"]: run["result"] for run in payload["runs"]}
    assert results["lr0.01_s2"] is None  # its loss became NaN
    assert min(result for result in results.values() if result) == results["lr0.001_s1"]


def test_tiles_and_time_left_are_those_of_explain(tmp_path):
    lines = [f"iter {i}: loss {3 - i / 200:.4f}, time 30.00ms, mfu 1.00%" for i in range(200)]
    (tmp_path / "half.log").write_text("\n".join(lines), "utf-8")
    report(tmp_path, "half.log", "--max_iters", "400", "--lang", "en")
    tiles = {tile["key"]: tile for tile in payload_of(tmp_path / "report.html")["words"]["en"]["runs"][0]["tiles"]}
    output = io.StringIO()
    with contextlib.chdir(tmp_path), redirect_stdout(output):
        assert cli.run(["explain", "half.log", "--max_iters", "400", "--json"]) == 0
    left = json.loads(output.getvalue())["runs"][0]["remaining_s"]
    assert tiles["left"]["seconds"] == pytest.approx(left["expected"])
    assert (tiles["step"]["value"], tiles["step"]["unit"]) == ("199", "/ 400")
    assert tiles["loss"]["label"] == "Training loss"


def test_downsampling_keeps_the_lowest_and_the_highest_of_every_stretch():
    values = [math.sin(i / 50) for i in range(100_000)]
    values[31_337], values[77_777], values[50_000] = 99.0, -99.0, math.nan
    kept = extremes(values, MAX_POINTS)
    assert len(kept) <= MAX_POINTS
    assert {0, 31_337, 77_777, 99_999} <= set(kept)
    assert kept == sorted(kept)


def test_a_long_run_is_thinned_to_means_with_the_lowest_and_highest_value(tmp_path):
    lines = [f"iter {i}: loss {2 + i % 3 / 100:.4f}, time 30.{i % 9}0ms, mfu 1.00%" for i in range(20_000)]
    lines[12_345] = "iter 12345: loss 7.5000, time 30.00ms, mfu 1.00%"
    (tmp_path / "long.log").write_text("\n".join(lines), "utf-8")
    report(tmp_path, "long.log")
    run = payload_of(tmp_path / "report.html")["runs"][0]
    loss = {name: numbers(text) for name, text in run["series"]["loss"].items() if text}
    steps = run["steps"]
    at = (12_345 - steps["first"]) / steps["every"]
    assert len(loss["y"]) == steps["count"] <= MAX_POINTS / 2
    assert loss["high"].index(max(loss["high"])) == pytest.approx(at, abs=1)
    assert max(loss["high"]) == pytest.approx(7.5)
    assert sum(loss["y"]) / len(loss["y"]) == pytest.approx(2.01 + 5.49 / 20_000, abs=1e-4)


def test_only_regular_sample_files_are_read_and_only_their_beginning(tmp_path):
    run = write_run(tmp_path / "run")
    (tmp_path / "secret.txt").write_text("secret", "utf-8")
    with contextlib.suppress(OSError):  # Windows grants links to few
        (run / "samples/step-000007.txt").symlink_to(tmp_path / "secret.txt")
    (run / "samples/notes.txt").write_text("not a sample", "utf-8")
    (run / "samples/step-000100.txt").write_text("é" * 100_000, "utf-8")
    samples = dict(read_samples(run / "samples"))
    assert set(samples) == {0, 100, 300}
    assert set(samples[100]) == {"é"}
    assert len(samples[100]) < 10_000


def test_events_that_are_not_valid_are_skipped(tmp_path):
    run = write_run(tmp_path / "run")
    report(tmp_path, "run")
    before = payload_of(run / "report.html")
    with (run / "events.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"event": "spike", "step": "x"}\n{"event": "spike", "step": 5, "loss": {}, "usual": 1e999}\n')
        file.write('{"event": "iter", "step": -1, "eta_seconds": []}\n')
        file.write('{"event": "slow_step", "step": 9, "cause": 3}\n[]\n{"ev')
    report(tmp_path, "run")
    after = payload_of(run / "report.html")
    assert after["runs"] == before["runs"]
    assert [words["runs"][0]["notes"] for words in after["words"].values()] == [
        words["runs"][0]["notes"] for words in before["words"].values()
    ]


def test_a_log_without_training_and_an_unwritable_output_are_reported(tmp_path):
    (tmp_path / "empty.log").write_text("nothing here\n", "utf-8")
    assert "No training step was found in empty.log" in report(tmp_path, "empty.log", status=1)
    write_run(tmp_path / "run")
    assert "Can't write" in report(tmp_path, "run", "-o", "no/such/folder.html", status=1)


def test_a_log_that_counts_epochs_becomes_a_page(tmp_path: Path) -> None:
    losses = [(2.1, 2.0), (1.6, 1.7), (1.3, 1.6), (1.1, 1.65)]
    lines = [f"Epoch {n}/4\n100/100 - 9s - loss: {a} - val_loss: {b}\n" for n, (a, b) in enumerate(losses, start=1)]
    (tmp_path / "keras.log").write_text("".join(lines), encoding="utf-8")
    report(tmp_path, "keras.log")
    assert payload_of(tmp_path / "report.html")["runs"][0]["best"] == [3, 1.6]
