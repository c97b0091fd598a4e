"""`nanoscope what`, and `explain --teach`."""

import json

import pytest

import example_logs
from nanoscope import cli


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "gpu.log"
    path.write_text(example_logs.gpu(), "utf-8")
    return str(path)


def said(capsys, *words: str) -> str:
    assert cli.run(["what", *words]) == 0
    return capsys.readouterr().out


def test_without_a_name_it_lists_the_concepts_and_says_how_to_go_on(capsys):
    text = said(capsys, "--lang", "en")
    assert text.count("\n- ") + 1 > 40
    assert "nanoscope what perplexity train.log" in " ".join(text.split())


def test_a_concept_is_explained_with_the_numbers_of_a_log(capsys, log):
    assert "The best of this run was" in said(capsys, "val", "loss", log, "--lang", "en")


def test_a_number_that_the_log_does_not_have_is_not_invented(capsys, log):
    assert "The log has no number for it." in said(capsys, "temperature", log, "--lang", "en")


def test_names_and_answers_are_in_the_readers_language(capsys):
    for code, name in (("ar", "فرط التخصيص"), ("hi", "ओवरफ़िटिंग")):
        text = said(capsys, *name.split(), "--lang", code)
        assert name in text
        assert "Often" not in text


def test_json_has_the_parts_of_a_concept(capsys, log):
    document = json.loads(said(capsys, "perplexity", log, "--json", "--lang", "en"))
    (concept,) = document["concepts"]
    assert document["schema"] == "nanoscope.what/1"
    assert concept["key"] == "perplexity"
    assert "exp(" in concept["here"]
    assert len(json.loads(said(capsys, "--json"))["concepts"]) > 40


def test_an_unknown_name_gets_a_suggestion_and_the_way_to_the_list(capsys):
    assert cli.run(["what", "warmupp", "--lang", "en"]) == 2
    error = capsys.readouterr().err
    assert "Did you mean nanoscope what warmup?" in error
    assert "All of them: nanoscope what" in error


def test_a_log_alone_is_answered_with_the_command_that_teaches_it(capsys, log):
    assert cli.run(["what", log, "--lang", "en"]) == 2
    assert "--teach" in capsys.readouterr().err


def test_explain_teaches_each_number_of_the_run_once(capsys, log):
    assert cli.run(["explain", log, "--teach", "--lang", "en"]) == 0
    report, _, lessons = capsys.readouterr().out.partition("What these numbers mean")
    assert "Learning" in report
    for title in ("Loss. ", "Perplexity. ", "Validation loss. ", "Step time. "):
        assert lessons.count(f"\n{title}") == 1
    assert "Temperature" not in lessons


def test_explain_does_not_teach_without_a_report(capsys, log):
    for other in ("--json", "--annotate"):
        assert cli.run(["explain", log, "--teach", other, "--lang", "en"]) == 2
        assert "nanoscope what" in capsys.readouterr().err
