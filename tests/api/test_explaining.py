"""`nanoscope.explain` and `nanoscope.compare` say what the commands say."""

import json
import re
from pathlib import Path

import pytest

import nanoscope
from conftest import Nanoscope

EXAMPLE = Path(__file__).parents[2] / "docs/examples/nanogpt.log"
HOSTILE = "<script>alert(1)</script>"


def run_folder(folder: Path, name: str, losses: list[float], config: str = "") -> Path:
    """A run in which every tenth step was evaluated."""
    path = folder / name
    path.mkdir()
    events = [f'{{"event":"start","version":1,"run":"{name}","config":{{"max_iters":100{config}}}}}']
    for place, loss in enumerate(losses):
        events.append(f'{{"event":"iter","step":{10 * place},"loss":{loss},"seconds":0.01}}')
        events.append(f'{{"event":"eval","step":{10 * place},"val_loss":{loss + 0.1},"val_stderr":0.01}}')
    (path / "events.jsonl").write_text("\n".join(events) + "\n", "utf-8")
    return path


def test_the_text_is_that_of_the_command(nanoscope: Nanoscope, tmp_path: Path) -> None:
    import nanoscope as api

    lang = "ar"
    printed = nanoscope("explain", EXAMPLE, "--lang", lang, cwd=tmp_path, env={"COLUMNS": "100"}).stdout
    report, _, how_to_go_on = printed.strip("\n").rpartition("\n\n")
    assert str(api.explain(EXAMPLE, lang=lang)) == report
    assert "--teach" in how_to_go_on


def test_the_json_is_that_of_the_command(nanoscope: Nanoscope, tmp_path: Path) -> None:
    import nanoscope as api

    printed = nanoscope("explain", EXAMPLE, "--json", cwd=tmp_path).stdout
    assert api.explain(str(EXAMPLE)).json() == json.loads(printed)


def test_findings_are_typed_and_have_sentences() -> None:
    explanation = nanoscope.explain(EXAMPLE, lang="en")
    (verdict,) = explanation.verdicts
    assert (verdict.code, verdict.confidence) == ("improving", "sure")
    assert verdict in explanation.findings
    assert "fell from 2.3141" in explanation.sentence(verdict)
    assert {"normal_step", "eta", "evaluations"} <= {finding.code for finding in explanation.findings}
    assert repr(explanation) == f"<Explanation of {EXAMPLE}: improving>"


def test_what_the_log_does_not_say_can_be_added() -> None:
    assert nanoscope.explain(EXAMPLE, max_iters=9000).analysis.progress.total_steps == 9000


def test_in_a_notebook_it_is_html_with_its_colors_and_charts_in_the_direction_of_its_language() -> None:
    page = nanoscope.explain(EXAMPLE, lang="en")._repr_html_()
    assert page.startswith('<pre lang="en" dir="ltr"')
    assert re.search(r"<span style=\"color: #\w+;[^>]*font-weight: bold\">Still improving</span>", page)
    assert "⠉" in page
    assert '<pre lang="ar" dir="rtl"' in nanoscope.explain(EXAMPLE, lang="ar")._repr_html_()


def test_whatever_a_log_says_is_escaped_in_html(tmp_path: Path) -> None:
    lines = [f"iter {step}: loss {4 - step / 100:.4f}, time 5.00ms" for step in range(0, 100, 10)]
    (tmp_path / f"{HOSTILE.replace('/', '_')}.log").write_text(
        "\n".join([*lines, f"RuntimeError: {HOSTILE} & more"]), "utf-8"
    )
    page = nanoscope.explain(next(tmp_path.iterdir()), lang="en")._repr_html_()
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in page


def test_a_log_without_training_says_so() -> None:
    explanation = nanoscope.explain("nothing\nto see\n", lang="en")
    assert [verdict.code for verdict in explanation.verdicts] == ["no_training"]
    assert "<pre" in explanation._repr_html_()


def test_a_comparison_names_the_runs_and_shows_a_table(tmp_path: Path) -> None:
    logs = [run_folder(tmp_path, "low", [3, 2.5, 2.2, 2.1]), run_folder(tmp_path, "high", [3, 2.8, 2.6, 2.5])]
    comparison = nanoscope.compare(logs, lang="en")
    assert comparison.found.names == ("low", "high")
    assert "Best validation loss: low (2.2000)" in str(comparison)
    assert comparison.json()["schema"].startswith("nanoscope.compare/")
    assert comparison.found.findings


def test_a_folder_of_runs_is_compared_without_those_that_have_nothing(tmp_path: Path) -> None:
    for name, losses in {"low": [3, 2.5, 2.2], "high": [3, 2.8, 2.6], "empty": []}.items():
        run_folder(tmp_path, name, losses)
    comparison = nanoscope.compare(tmp_path, lang="en")
    assert set(comparison.found.names) == {"low", "high"}
    assert [text.partition(":")[0] for text in comparison.notes] == [f"skipped {tmp_path / 'empty'}"]


def test_html_of_a_comparison_escapes_names_and_settings(tmp_path: Path) -> None:
    hostile = f',"optimizer":"{HOSTILE}"'
    logs = [run_folder(tmp_path, "<b>a", [3, 2.5, 2.2], hostile), run_folder(tmp_path, "b", [3, 2.8, 2.6])]
    page = nanoscope.compare(logs, lang="en")._repr_html_()
    assert "<script" not in page
    assert "<b>" not in page
    assert "&lt;b&gt;a" in page


def test_fewer_than_two_runs_cannot_be_compared(tmp_path: Path) -> None:
    for logs in ([], [run_folder(tmp_path, "one", [3, 2])]):
        with pytest.raises(nanoscope.UsageError):
            nanoscope.compare(logs)


def test_a_concept_is_taught_with_the_numbers_of_the_run() -> None:
    explanation = nanoscope.explain(EXAMPLE, lang="en")
    assert "exp(" in explanation.concept("ppl").here
