"""Any finding at all, for hypothesis: built from the type hints, so that new fields are covered without a word."""

import types
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from nanoscope.analysis import findings

RUNS = ("laptop", "gpu", "cluster")
FLOATS = st.floats(-5, 1e6) | st.sampled_from([0.0, 1e-5, 0.03322, 3.99511, float("nan"), float("inf")])


def anything(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a type hint, None and numbers that are not finite among them."""
    if hint is type(None):
        return st.none()
    if get_origin(hint) in (Union, types.UnionType):
        return st.one_of([anything(choice) for choice in get_args(hint)])
    if get_origin(hint) is Literal:
        return st.sampled_from(get_args(hint))
    if get_origin(hint) is tuple:
        return st.lists(anything(get_args(hint)[0]), max_size=3).map(tuple)
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        return st.builds(hint, **{field.name: anything(hints[field.name]) for field in fields(hint)})
    simple = {bool: st.booleans(), int: st.integers(0, 10**7), float: FLOATS, str: st.sampled_from(["A100", "generic"])}
    return simple[hint]


def of_comparison(kind: type[findings.Finding]) -> st.SearchStrategy[Any]:
    """A finding about RUNS, whose indices and numbers of values fit them."""
    index = st.integers(0, len(RUNS) - 1)
    hints = get_type_hints(kind)
    special = {"run": index, "other": index, "best": st.none() | index}
    if "values" in hints:
        value = anything(get_args(hints["values"])[0])
        special["values"] = st.tuples(*[value] * len(RUNS))
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    return st.builds(kind, **{n: special[n] if n in special else anything(hints[n]) for n in names})


ABOUT_COMPARISONS: Sequence[type[findings.Finding]] = (
    findings.ComparisonRow,
    findings.ConfigDifference,
    findings.Explanation,
    findings.Continued,
)
ABOUT_A_RUN = [kind for kind in findings.Finding.__subclasses__() if kind not in ABOUT_COMPARISONS]
