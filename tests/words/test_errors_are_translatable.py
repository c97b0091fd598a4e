"""pybabel finds literals only: a message made of pieces in Python would stay English without anyone noticing."""

import ast
from collections.abc import Iterator
from string import Formatter

import pytest

from messages import SOURCES, TEXTS, texts

MAKE_TEXTS = {"Text", "Count", "Joined"}


def calls() -> Iterator[tuple[str, ast.Call]]:
    """Every call in the source that makes a message, and where it stands. Rich's Text is another."""
    for path in sorted(SOURCES.rglob("*.py")):
        source = path.read_text("utf-8")
        if path == SOURCES / "errors.py" or "from rich.text import Text" in source:  # the first: of what it was given
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in TEXTS:
                yield f"{path.relative_to(SOURCES)}:{node.lineno}: {ast.unparse(node)[:100]}", node


def is_translatable(node: ast.expr) -> bool:
    """A literal, or a text: `Text(…)`, `error.text`, `range.refusal(…)`, or one text or another."""
    match node:
        case ast.Constant(str()):
            return True
        case ast.Call(ast.Name(name)):
            return name in MAKE_TEXTS
        case ast.Attribute(attr="text" | "template") | ast.Call(ast.Attribute(attr="refusal")):
            return True
        case ast.Name(name) | ast.Attribute(attr=name) | ast.Subscript(ast.Name(name)):
            return name.isupper()  # a constant, whose own literals are looked at where it is defined
        case ast.IfExp(_, one, other):
            return all(is_translatable(each) or isinstance(each, ast.Name) for each in (one, other))
    return False


def test_messages_are_literals_with_placeholders() -> None:
    wrong = []
    for where, call in calls():
        messages = call.args[:2] if "Count(" in where else call.args[:1]
        wrong += [where] if not messages or not all(map(is_translatable, messages)) else []
    assert wrong == []


def test_pybabel_finds_every_message() -> None:
    """It overlooks a call among the arguments of another."""
    found = {id if isinstance(id, str) else id[0] for id in texts()}
    literals = ((where, call.args[0]) for where, call in calls())
    assert [where for where, text in literals if isinstance(text, ast.Constant) and text.value not in found] == []


def test_every_placeholder_has_a_value() -> None:
    wrong = []
    for where, call in calls():
        given = {keyword.arg for keyword in call.keywords} | {"n"}
        if isinstance(call.args[0], ast.Constant) and call.keywords and None not in given:
            wanted = {name for _, name, _, _ in Formatter().parse(str(call.args[0].value)) if name is not None}
            wrong += [where] if wanted - given else []
    assert wrong == []


@pytest.mark.parametrize(
    "source", ['JobError(f"{path} is empty")', 'UsageError("no " + name)', "JobError(reason)", 'Text("a".format(b))']
)
def test_a_message_made_in_python_is_not_translatable(source: str) -> None:
    call = ast.parse(source, mode="eval").body
    assert isinstance(call, ast.Call)
    assert not is_translatable(call.args[0])
