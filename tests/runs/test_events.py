"""An event, written as a line and read again, is the event."""

import json
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanoscope.runs.events import (
    EVENTS_VERSION,
    AnyEvent,
    Iter,
    NewerVersionError,
    Number,
    Resume,
    Spike,
    Start,
    decode,
    encode,
)

KINDS: tuple[type[msgspec.Struct], ...] = get_args(AnyEvent)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)
numbers = st.floats(-1e29, 1e29).map(lambda value: float(f"{value:.6g}"))  # as many digits as are written
settings = st.dictionaries(texts, st.none() | st.booleans() | st.integers(-(2**53), 2**53) | numbers | texts)


def values(annotation: Any) -> st.SearchStrategy[Any]:
    """Any value that a field may have."""
    if annotation == Number:
        return numbers
    if get_origin(annotation) is Annotated:
        limits = annotation.__metadata__[0]
        return st.integers(limits.ge, limits.lt - 1)
    if get_origin(annotation) is Literal:
        return st.sampled_from(get_args(annotation))
    if get_origin(annotation) is dict:
        return st.dictionaries(texts, numbers) if float in get_args(get_args(annotation)[1]) else settings
    if annotation is type(None) or annotation in (str, bool, int):
        return {type(None): st.none(), str: texts, bool: st.booleans(), int: st.just(EVENTS_VERSION)}[annotation]
    return st.one_of([values(each) for each in get_args(annotation)])


def any_event(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    fields = get_type_hints(kind, include_extras=True)
    strategies = {name: values(fields[name]) for name in kind.__struct_fields__}
    if kind is Resume:
        for name in ("changed", "for_session"):
            strategies[name] = st.dictionaries(texts, st.tuples(texts, numbers))
    return st.builds(kind, **strategies)


@given(st.one_of([any_event(kind) for kind in KINDS]))
def test_every_event_survives_being_written_and_read(event: AnyEvent) -> None:
    line = encode(event)
    assert decode(line) == event
    assert (line.count("\n"), line[-1]) == (1, "\n")


@given(st.one_of([any_event(kind) for kind in KINDS]))
def test_every_event_is_one_plain_json_object(event: AnyEvent) -> None:
    record = json.loads(encode(event), parse_constant=pytest.fail)
    assert record["event"] == event.__struct_config__.tag
    assert set(record) == {"event", *event.__struct_fields__}


def test_numbers_that_json_does_not_know_are_null() -> None:
    line = encode(Iter(step=1, loss=float("nan"), seconds=float("inf"), lr=1 / 3))
    record = json.loads(line)
    assert (record["loss"], record["seconds"], record["lr"]) == (None, None, 0.333333)


def test_a_name_that_is_no_text_is_written_with_its_bytes_spelled_out() -> None:
    name = b"not-\xff-utf8".decode("utf-8", "surrogateescape")
    assert decode(encode(Start(run=name))) == Start(run="not-\\udcff-utf8")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e38", "1e999"])
def test_numbers_that_other_trainers_write_are_not_finite_ones(number: str) -> None:
    assert decode(f'{{"event": "iter", "step": 3, "loss": {number}}}') == Iter(step=3, loss=None)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[]",
        "null",
        '{"event": "iter", "step": 3, "lo',
        '{"event": "iter", "loss": 1.0}',
        '{"event": "iter", "step": 3}',
        '{"event": "iter", "step": 3.5, "loss": 1.0}',
        '{"event": "iter", "step": 1000000000000, "loss": 1.0}',
        '{"event": "end", "step": 3, "reason": "boredom"}',
        '{"event": "unheard of", "step": 3}',
        '{"step": 3, "loss": 1.0}',
        '{"event": "spike", "step": 3, "loss": NaN, "usual": 1.0}',
        "[" * 100_000,
        '{"event": "iter", "step": ' + "9" * 100_000 + "}",
    ],
)
def test_a_line_that_is_no_event_is_none(line: str) -> None:
    assert decode(line) is None
    assert decode(line.encode()) is None


def test_whatever_precedes_the_line_break_of_another_system_is_read() -> None:
    assert decode(b'{"event": "spike", "step": 3, "loss": 2, "usual": 1}\r') == Spike(step=3, loss=2.0, usual=1.0)


def test_a_newer_version_is_refused_with_what_to_do() -> None:
    with pytest.raises(NewerVersionError, match="pip install --upgrade nanoscope"):
        decode(f'{{"event": "start", "version": {EVENTS_VERSION + 1}}}')


def test_a_newer_version_is_refused_even_if_its_fields_have_changed() -> None:
    with pytest.raises(NewerVersionError):
        decode(f'{{"event": "start", "version": {EVENTS_VERSION + 1}, "config": []}}')


def test_a_start_without_a_version_is_of_the_first() -> None:
    assert decode('{"event": "start"}') == Start()


@given(st.binary(max_size=300))
def test_no_bytes_break_the_reader(line: bytes) -> None:
    decode(line)
    decode(b'{"event": "iter", "step": 1, "loss": ' + line)
