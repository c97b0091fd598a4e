"""pybabel finds literals only: a message made of pieces in Python would stay English without anyone noticing."""

import ast
from collections.abc import Iterator
from string import Formatter

import pytest

from messages import FINDINGS, MAKERS, SOURCES

MAKE_TEXTS = {"Message", "joined"}


def calls() -> Iterator[tuple[str, ast.Call]]:
    """Every call that makes a message for commands, and where it stands."""
    for path in sorted(SOURCES.rglob("*.py")):
        if path.relative_to(SOURCES).parts[0] in (*FINDINGS, "errors.py", "messages.py"):  # made of what they are given
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {*MAKERS} - {"say"}:
                yield f"{path.relative_to(SOURCES)}:{node.lineno}: {ast.unparse(node)[:100]}", node


def is_translatable(node: ast.expr) -> bool:
    """A literal, or a text: `Message(…)`, `error.text`, `range.refusal(…)`, or one text or another."""
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
        wrong += [where] if not call.args or not all(map(is_translatable, call.args)) else []
    assert wrong == []


def test_every_placeholder_has_a_value() -> None:
    wrong = []
    for where, call in calls():
        given = {keyword.arg for keyword in call.keywords} | {"n"}
        if isinstance(call.args[0], ast.Constant) and call.keywords and None not in given:
            wanted = {name for _, name, _, _ in Formatter().parse(str(call.args[0].value)) if name is not None}
            wrong += [where] if wanted - given else []
    assert wrong == []


@pytest.mark.parametrize(
    "source", ['JobError(f"{path} is empty")', 'UsageError("no " + name)', "JobError(reason)", 'Message("a".format(b))']
)
def test_a_message_made_in_python_is_not_translatable(source: str) -> None:
    call = ast.parse(source, mode="eval").body
    assert isinstance(call, ast.Call)
    assert not is_translatable(call.args[0])
