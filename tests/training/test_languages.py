"""Text in Hindi and in Arabic: prepared, trained on and written again, and still text."""

import json
import random
import unicodedata

import pytest

from small_runs import TINY, Folder

pytestmark = pytest.mark.slow

SENTENCES = {
    "hindi": [
        "मॉडल हर चरण में थोड़ा और सीखता है।",
        "क्या हम कल सुबह नदी के किनारे चलेंगे?",
        "किताब की दुकान बाज़ार के दूसरे छोर पर है।",
        "बच्चों ने मिट्टी से एक छोटा-सा घर बनाया।",
        "बारिश के बाद आसमान बिल्कुल साफ़ हो गया।",
    ],
    "arabic": [
        "يَتعلَّم النموذجُ شيئًا جديدًا في كلّ خطوة.",
        "هل نذهب غدًا إلى السوق القديم؟",
        "قرأتُ الكتابَ مرّتين ولم أفهم خاتمته.",
        "بعد المطر صارت السماء صافيةً تمامًا.",
        "يعمل المهندسون على تحسين سرعة التدريب.",
    ],
}


@pytest.mark.parametrize("tokenizer", ["char", "bpe"])
@pytest.mark.parametrize("language", SENTENCES)
def test_a_text_goes_through_prepare_train_and_sample_and_comes_back_as_text(
    folder: Folder, language: str, tokenizer: str
) -> None:
    chooser = random.Random(3)
    text = "\n".join(chooser.choice(SENTENCES[language]) for _ in range(600))
    (folder.path / "text.txt").write_text(text, encoding="utf-8")
    vocabulary = ["--vocab_size", "400"] if tokenizer == "bpe" else []
    folder.run("prepare", "text.txt", "--out", "data/text", "--tokenizer", tokenizer, *vocabulary)
    folder.run("train", *TINY, "--dataset=data/text", "--max_iters=150", "--log_interval=50", "--eval_interval=75")
    prompt = SENTENCES[language][0][:9]
    out = folder.run("sample", "run", "--prompt", prompt, "--max_new_tokens=200", "--seed=4", "--json")
    (sample,) = json.loads(next(line for line in out.splitlines() if line.startswith("{")))["samples"]
    assert sample.startswith(prompt)
    letters = [character for character in sample if unicodedata.category(character)[0] in "LM"]
    script = {"hindi": "DEVANAGARI", "arabic": "ARABIC"}[language]
    assert len(letters) > 60
    assert all(script in unicodedata.name(letter) for letter in letters)
    assert sample.count("\ufffd") <= (0 if tokenizer == "char" else 3)  # bytes of a BPE may stop within a letter
    losses = folder.losses()
    assert losses[100] < losses[0] - 1
