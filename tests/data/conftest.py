"""Texts in three scripts, and public files if they can be downloaded."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from nanoscope.data import corpora
from nanoscope.errors import JobError

SENTENCES = {
    "hindi": [
        "सुबह की ठंडी हवा में बच्चे मैदान की ओर दौड़ पड़े।",
        "दादी ने चूल्हे पर रोटियाँ सेंकीं और कहानी शुरू की।",
        "नदी के किनारे पुराना मंदिर है, जहाँ घंटियाँ बजती हैं।",
        "क्या तुम्हें पता है कि मशीन अक्षरों से शब्द कैसे सीखती है?",
        "विद्यार्थी ने पुस्तक खोली और प्रश्न का उत्तर लिखा।",
    ],
    "arabic": [
        "ذَهَبَ الوَلَدُ إِلى المَدْرَسَةِ مُبَكِّرًا وَعادَ مَساءً.",
        "تَعَلَّمَتِ الآلةُ أَنْ تَكْتُبَ الشِّعْرَ حَرْفًا بَعْدَ حَرْفٍ.",
        "في القَرْيَةِ بِئْرٌ قَديمَةٌ يَشْرَبُ مِنْها النّاسُ.",
        "هل رَأَيْتَ القَمَرَ لَيْلَةَ أَمْسِ فَوْقَ البَحْرِ؟",
        "كَتَبَتِ المُعَلِّمَةُ الدَّرْسَ عَلى السَّبّورَةِ.",
    ],
    "english": [
        "The baker's boy didn't see the cart until it was too late.",
        "Rain fell for 40 days; nobody in the valley could say why.",
        "'Bring the lamp,' she said, 'and don't wake the others.'",
        "A map is not the land, but it's a good place to start.",
        "Under the bridge   lay a boat, painted green and white.",
    ],
}


def make_text(language: str, lines: int) -> str:
    """Return sentences of a language in a fixed random order."""
    chooser = random.Random(7)
    return "".join(chooser.choice(SENTENCES[language]) + "\n" for _ in range(lines))


@pytest.fixture(params=sorted(SENTENCES))
def language(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def text_of() -> Callable[[str, int], str]:
    return make_text


@pytest.fixture(scope="session")
def sentences() -> dict[str, list[str]]:
    return SENTENCES


def _obtained(file: corpora.PublicFile) -> Path:
    try:
        return corpora.obtain(file)
    except JobError as error:
        pytest.skip(f"{file.what} is not available: {error}")


@pytest.fixture(scope="session")
def shakespeare() -> Path:
    return _obtained(corpora.SHAKESPEARE)


@pytest.fixture(scope="session")
def gpt2_vocabulary() -> Path:
    pytest.importorskip("tiktoken")
    return _obtained(corpora.GPT2_ENCODER)
