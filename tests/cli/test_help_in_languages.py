"""Help, the first screen and the presets in the user's language, and the way there."""

import re
import subprocess
import sys
import tomllib

import pytest

from nanoscope import cli, messages
from nanoscope.cli.help_text import GLUE, Help
from nanoscope.config import KEYS, TYPES, alternatives
from nanoscope.config_sources import preset_text, presets
from nanoscope.messages import LANGUAGES, RIGHT_TO_LEFT_MARK
from nanoscope.words.language import END_ISOLATE, ISOLATE, Language

SCRIPT = {"ar": "[\u0600-\u06ff]", "hi": "[\u0900-\u097f]"}
HELP = [[], ["--help"], *([command, "--help-all"] for command in cli.COMMANDS), ["train", "--help"], ["presets"]]

# Names, what one types or reads in a file, and terms that stand beside their translation.
NAMES = """
    Adagrad AdamW English GPUs LayerNorm Linear MLflow Muon NaN OpenAI OpenWebText Parquet Python Shakespeare
    TensorBoard Ti nanoGPT nanoscope tensorboardX torch torchrun wandb Weights Biases Hugging Face JSON Lines tiny
    baby macbook trackio
"""
TYPED = """
    any Markdown schema
    False True age ar bash best cpu csv cuda en evaluation failed finished fish gz gzip hi http https inf install jsonl
    k last left locale md mkdir mps name nan openwebtext parquet peak pip platform python resume scratch shakespeare
    stalled state stderr stdin step stopped text threads tsv txt val xz zip zsh
"""
TERMS = """
    attention heads checkpoint checkpoints clipping cosine weight decay eager embedding epoch momentum norm optimizer
    overfitting parameters perplexity port preset prompt shell split token tokens transformer warmup
"""
QUOTED = "I only have a macbook"  # nanoGPT's README
CODE = re.compile(r"[-_/=.:<|~$&()\d]")
# A line of an example or of a preset: only what is said behind its command or setting is language.
COMMAND = re.compile(r"(?:# )? {2,}[a-z].*?(?: {3,}(?P<said>.*))?|\w+ = .*?(?: # (?P<noted>.*))?")


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.run(list(words)) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def english_words(text: str) -> set[str]:
    """The Latin words of an output that are neither names, nor code, nor terms."""
    known = {*cli.COMMANDS, *presets(), *KEYS, *NAMES.split(), *TYPED.split(), *TERMS.split()}
    known |= {str(value) for kind in TYPES.values() for value in alternatives(kind)}
    found = set()
    for line in text.replace(QUOTED, "").splitlines():
        command = COMMAND.fullmatch(line)
        said = (command["said"] or command["noted"] or "") if command else line
        words = (word.strip("()[].,:;'\"!?") for word in re.findall("[!-~]+", said))
        found |= {word for word in words if word[:1].isalpha() and not CODE.search(word) and not word.isupper()}
    return found - known


def test_english_help_has_english_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert english_words(printed(capsys, "eta", "--help")) >= {"Usage", "Estimate", "the", "default"}
    assert "memorise" in english_words(printed(capsys, "presets", "babygpt"))


def test_no_english_is_left_in_help_and_presets(capsys: pytest.CaptureFixture[str]) -> None:
    for code, script in SCRIPT.items():
        for words in HELP:
            text = printed(capsys, *words, "--lang", code)
            assert re.search(script, text)
            assert english_words(text) == set(), words
        for name in presets():
            text = printed(capsys, "presets", name, "--lang", code)
            assert tomllib.loads(text) == tomllib.loads(preset_text(name))
            assert english_words(text) == set()


def test_every_command_of_an_example_can_be_copied(capsys: pytest.CaptureFixture[str]) -> None:
    """It stands in a line of its own in Arabic, and no mark is in that line."""
    for words in HELP[:-1]:
        commands = re.findall(r"^ +(?:nanoscope|torchrun) .*?(?= {3}|$)", printed(capsys, *words), re.MULTILINE)
        lines = {line.strip() for line in printed(capsys, *words, "--lang", "ar").splitlines()}
        wanted = {command.strip() for command in commands} - {"nanoscope --lang ar", "nanoscope --lang hi"}
        assert wanted <= lines


def test_lines_in_arabic_begin_at_the_right_and_their_isolates_are_closed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    for words in HELP:
        for line in printed(capsys, *words, "--lang", "ar").splitlines():
            if re.search(SCRIPT["ar"], line):
                assert line.startswith(RIGHT_TO_LEFT_MARK)
                assert line.count(ISOLATE) == line.count(END_ISOLATE)


def test_names_keep_their_direction_and_the_sentence_its_punctuation() -> None:
    messages.current = Language("ar")
    try:
        text = Help().translated("مثل --field، أو (nanoscope help train). ثم: x.")
    finally:
        messages.current = messages.ENGLISH
    text = text.replace(ISOLATE, "<").replace(END_ISOLATE, ">").replace(GLUE, " ")
    assert text == "مثل <--field>، أو (<nanoscope help train>). ثم: <x>."


def test_every_setting_of_train_is_in_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    for code, script in SCRIPT.items():
        text = printed(capsys, "train", "--help-all", "--lang", code).replace(ISOLATE, "").replace(END_ISOLATE, "")
        for key in KEYS.values():
            entry = re.search(rf"  --{key.name}\b\s+(.+(?:\n\W? {{6,}}.+)*)", text)
            assert entry, key.name
            assert re.search(script, entry[1])
            assert key.default in ("", False) or f": {key.default}]" in entry[1]


def test_the_first_screen_is_in_the_language_asked_for_and_names_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    variables = ("NANOSCOPE_LANG", "LC_ALL", "LC_MESSAGES", "LANG")
    for given, words, code in (
        ({}, ["--lang", "ar"], "ar"),
        ({}, ["--lang=hindi"], "hi"),
        ({"LANG": "hi_IN.UTF-8"}, [], "hi"),
        ({"LC_ALL": "ar_EG.UTF-8", "LANG": "en_US.UTF-8"}, [], "ar"),
        ({"NANOSCOPE_LANG": "ar", "LANG": "hi_IN.UTF-8"}, [], "ar"),
        ({"NANOSCOPE_LANG": "ar"}, ["--lang", "en"], "en"),
        ({"LANG": "C"}, [], "en"),
    ):
        for name in variables:
            monkeypatch.setenv(name, given.get(name, ""))
        text = printed(capsys, *words)
        if code == "en":
            assert text.startswith(cli.PURPOSE)
        else:
            assert re.match(f"{RIGHT_TO_LEFT_MARK}?{SCRIPT[code]}", text)
            assert f"export NANOSCOPE_LANG={code}" in text
        for other, name in LANGUAGES.items():
            assert (re.search(rf"^  nanoscope --lang {other} +{name}$", text, re.MULTILINE) is None) == (other == code)


def test_a_language_that_is_missing_is_refused_with_the_list_of_languages(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--lang", "fr"]) == 2
    error = capsys.readouterr().err
    assert all(name in error for name in LANGUAGES.values())


def test_lang_is_an_option_of_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    for command in cli.COMMANDS:
        assert re.search(r"^  --lang .*\n?.*NANOSCOPE_LANG", printed(capsys, command, "--help"), re.MULTILINE)


def test_lang_is_completed(capsys: pytest.CaptureFixture[str]) -> None:
    script = printed(capsys, "completion", "bash")
    assert script.count('"--lang"') >= len(cli.COMMANDS) - len(cli.HIDDEN)
    assert '("en" "ar" "hi")' in script


def test_english_loads_no_catalogue(child_environment: dict[str, str]) -> None:
    code = """
import sys
from nanoscope.cli import run
for words in ([], ["--help"], ["presets"], ["train", "--help"]):
    run(words)
sys.exit([name for name in sys.modules if name.startswith(("babel", "nanoscope.words", "gettext"))] or 0)
"""
    environment = {**child_environment, "LC_ALL": "C"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
