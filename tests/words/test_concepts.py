"""What is taught about a number is right, complete and found by any of its names."""

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import known_numbers as known
from nanoscope.errors import UsageError
from nanoscope.findings.known import Numbers, with_derived
from nanoscope.messages import LANGUAGES
from nanoscope.views.concepts import concepts_markdown
from nanoscope.words.concepts import CONCEPTS, concept_named, entries, find_concept, shown_concepts
from nanoscope.words.language import Language

ENGLISH = Language("en")
HOLE = re.compile(r"\bNone\b|\bnan\b|—|[{}]")
NUMBER = r"(\d[\d,]*(?:\.\d+)?)"


def here(key: str, numbers: Numbers) -> str:
    return CONCEPTS[key].teach(numbers, ENGLISH).here


def figures(text: str) -> list[float]:
    return [float(each.replace(",", "")) for each in re.findall(NUMBER, text)]


@pytest.mark.parametrize("code", LANGUAGES)
@pytest.mark.parametrize("numbers", [known.ALL, {}], ids=["all", "none"])
def test_every_concept_fills_without_a_hole(code, numbers):
    for concept in CONCEPTS.values():
        taught = concept.teach(numbers, Language(code))
        for text in (taught.title, taught.summary, taught.normal, taught.mistake):
            assert text
            assert not HOLE.search(text), text
        assert not HOLE.search(taught.here + taught.example)
        assert not (taught.here and taught.example)


@pytest.mark.parametrize("code", LANGUAGES)
def test_the_files_of_all_languages_have_the_same_headings_parts_conditions_and_placeholders(code):
    def outline(code: str) -> dict[str, dict[str, list[tuple[list[str], list[str]]]]]:
        return {
            key: {
                part: [(conditions, sorted(re.findall(r"\{.*?\}", text))) for conditions, text in texts]
                for part, texts in entry.parts.items()
            }
            for key, entry in entries(code).items()
        }

    assert outline(code) == outline("en")
    assert {part for parts in outline(code).values() for part in parts} == {"here", "example", "normal", "mistake"}


def test_a_run_without_numbers_gets_no_sentence_about_itself():
    assert [key for key in CONCEPTS if here(key, {})] == []


@pytest.mark.parametrize("code", LANGUAGES)
def test_a_concept_stays_short(code):
    for concept in CONCEPTS.values():
        taught = concept.teach(known.ALL, Language(code))
        text = " ".join((taught.summary, taught.here, taught.normal, taught.mistake))
        assert len(text) < 1000, concept.key


def test_related_concepts_exist_and_names_are_not_shared():
    names = [name for concept in CONCEPTS.values() for name in (concept.key, *concept.aliases)]
    assert len(names) == len(set(names))
    for concept in CONCEPTS.values():
        assert set(concept.related) <= set(CONCEPTS) - {concept.key}
        assert all(name in known.ALL for name in concept.shown)


@pytest.mark.parametrize(
    ("typed", "key"),
    [
        ("mfu", "mfu"), ("MFU", "mfu"), ("ppl", "perplexity"), ("lr", "learning_rate"),
        ("Learning rate", "learning_rate"), ("learning-rate", "learning_rate"), ("val_loss", "val_loss"),
        ("bpc", "bits_per_char"), ("NaN", "divergence"),
        ("block_size", "context"), ("eta", "time_left"), ("الخسارة", "loss"), ("خسارة", "loss"),
        ("معدل التعلم", "learning_rate"), ("فرط التخصيص", "overfitting"), ("نقطة حفظ", "checkpoint"), ("لأوزان", None),
        ("लॉस", "loss"), ("लर्निंग रेट", "learning_rate"), ("ओवरफिटिंग", "overfitting"), ("ओवरफ़िटिंग", "overfitting"),
        ("टोकन", "token"), ("nonsense", None), ("", None),
    ],
)  # fmt: skip
def test_a_concept_is_found_by_any_of_its_names(typed, key):
    found = find_concept(typed)
    assert (found.key if found else None) == key


def test_a_misspelt_name_gets_the_nearest_one():
    with pytest.raises(UsageError, match="Did you mean nanoscope what perplexity"):
        concept_named("perplexty")


def test_only_numbers_that_a_run_has_are_taught_about_it():
    assert shown_concepts({}) == []
    taught = {concept.key for concept in shown_concepts(known.ALL)}
    assert {"loss", "perplexity", "mfu", "overfitting", "spike", "time_left"} <= taught
    assert not {"temperature", "fine_tuning", "weight_decay"} & taught
    healthy = {
        concept.key
        for concept in shown_concepts({k: v for k, v in known.ALL.items() if k not in ("overfitting", "spike_step")})
    }
    assert not {"overfitting", "spike"} & healthy


# --- the figures ---


@given(loss=st.floats(0.01, 12))
def test_perplexity_and_the_chance_of_the_right_token_are_those_of_the_loss(loss):
    numbers = with_derived({"loss": loss, "perplexity": math.exp(loss)})
    said_loss, perplexity, *_ = figures(here("perplexity", numbers))
    assert math.isclose(perplexity, math.exp(said_loss), rel_tol=0.01)
    chance = figures(here("loss", numbers))[-1] / 100
    assert math.isclose(chance, math.exp(-loss), rel_tol=0.06, abs_tol=0.0001)


@given(loss=st.floats(0.05, 12))
def test_bits_per_character_are_the_loss_over_ln_2(loss):
    numbers = with_derived({"loss": loss, "bits_per_char": loss / math.log(2)})
    said_loss, _, bits = figures(here("bits_per_char", numbers))
    assert math.isclose(bits, said_loss / math.log(2), rel_tol=0.01)


@given(size=st.integers(2, 300_000))
def test_guessing_costs_the_logarithm_of_the_vocabulary(size):
    said_size, guess = figures(here("guessing", with_derived({"vocab_size": size})))
    assert said_size == size
    assert math.isclose(guess, math.log(size), abs_tol=0.006)


@given(val=st.floats(0, 12), train=st.floats(0, 12))
def test_the_gap_is_the_difference_that_it_shows(val, train):
    text = here("gap", with_derived({"val": val, "eval_train": train}))
    said_val, said_train, gap = figures(text)
    assert math.isclose(gap, abs(said_val - said_train), abs_tol=1.1e-4)


@given(batch=st.integers(1, 512), block=st.integers(1, 4096), times=st.integers(1, 64), wrong=st.booleans())
def test_the_tokens_of_a_step_are_multiplied_only_where_the_product_is_right(batch, block, times, wrong):
    product = batch * block * times
    sizes = {"batch_size": batch, "block_size": block, "accumulation": times}
    numbers = with_derived(sizes | {"tokens_per_step": product + wrong})
    said = figures(here("batch", numbers))
    assert said == ([product + 1] if wrong else [batch, block, times, product])


@given(heads=st.integers(1, 32), size=st.integers(1, 256), rest=st.integers(0, 1))
def test_the_width_of_a_head_is_only_given_if_the_heads_divide_the_width(heads, size, rest):
    numbers = with_derived({"n_embd": heads * size + rest, "n_head": heads})
    divides = (heads * size + rest) % heads == 0
    assert bool(here("head", numbers)) == divides
    if divides:
        width, _, said = figures(here("head", numbers))
        assert said == width / heads


def test_every_formula_holds_as_it_is_printed():
    """'12 × 64 × 8 = 6,144': whoever checks it with a calculator finds the same, to the digits shown."""
    formula = re.compile(r"([\d,.e+]+(?: [×/−] [\d,.e+]+)+) = ([\d,.e+]*\d)")
    said = " ".join(here(key, numbers) for key in CONCEPTS for numbers in known.SOME)
    found = set(formula.findall(said))
    assert len(found) >= 8
    for left, right in found:
        python = left.replace(",", "").replace("×", "*").replace("−", "-")
        assert eval(python) == pytest.approx(float(right.replace(",", "")), rel=0.02), (left, right)


def test_examples_are_computed():
    examples = {key: concept.teach({}, ENGLISH).example for key, concept in CONCEPTS.items()}
    assert f"{math.exp(1.5):.2f}" in examples["perplexity"]
    assert f"{1.5 / math.log(2):.2f}" in examples["bits_per_char"]
    assert f"{math.log(50257):.2f}" in examples["guessing"]
    logits = [math.log(p) / 0.5 for p in (0.8, 0.2)]
    first = math.exp(logits[0]) / sum(map(math.exp, logits))
    assert f"{first:.0%}" in examples["temperature"]


def test_the_page_in_the_documentation_is_current():
    page = Path(__file__).parents[2] / "docs" / "concepts.md"
    assert page.read_text("utf-8") == concepts_markdown(ENGLISH), (
        "nanoscope what --markdown --lang en > docs/concepts.md"
    )
