"""What is wrong with the words of a command, in nanoscope's own words: the parser's are in English only."""

from inspect import signature
from typing import get_args

from cyclopts import (
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownOptionError,
    ValidationError,
)
from cyclopts.exceptions import UnusedCliTokensError

from nanoscope.errors import UsageError
from nanoscope.messages import Message, joined
from nanoscope.suggest import did_you_mean

KINDS = {int: Message("an integer"), float: Message("a number"), bool: Message("True or False")}


def usage_error(error: CycloptsError, command: str) -> UsageError:
    """The error that the user reads instead of the parser's."""
    see = Message("See: nanoscope {command} --help", command=command)
    return UsageError(joined("\n", [_mistake(error), see]))


def is_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


def _mistake(error: CycloptsError) -> Message:
    argument, token = error.argument, getattr(error, "token", None)
    is_positional = argument is not None and argument.index is not None
    named = argument.name if argument else ""
    option = (token and token.keyword) or (named.lstrip("-").upper() if is_positional else named)  # as help spells it
    match error:
        case UnknownOptionError():
            return _unknown_option(error.token.keyword or error.token.value, error)
        case ValidationError() if argument:
            words = [each.value for each in argument.tokens]
            if is_positional:
                return _unknown_option(next(filter(is_option, words)), error)
            return Message("{setting}: must be above 0.", setting=f"{option}={words[-1]}")
        case CoercionError() if token is not None:
            choices, typed = [str(choice) for choice in get_args(error.target_type)], token.value
            if not choices:
                kind = KINDS[error.target_type or int]
                return Message(
                    "invalid value {value!r} for {option}: expected {wanted}.", value=typed, option=option, wanted=kind
                )
            return Message(
                "invalid value {value!r} for {option}.{hint} Valid values: {choices}",
                value=typed,
                option=option,
                hint=did_you_mean(typed, choices),
                choices=", ".join(choices),
            )
        case RepeatArgumentError():
            return Message("{option} was given more than once.", option=option)
        case MissingArgumentError():
            return Message("{option} needs a value.", option=error.keyword or option)
        case UnusedCliTokensError():
            return Message("This command does not take {words}.", words=" ".join(error.unused_tokens or []))
    return Message("This command line can't be read: {reason}", reason=" ".join(str(error).split()))


def _unknown_option(word: str, error: CycloptsError) -> Message:
    typed = word.split("=")[0]
    known = signature(error.target).parameters.values() if error.target else ()
    options = [f"--{each.name}" for each in known if each.kind is each.KEYWORD_ONLY]
    return Message("There is no option {typed}.{hint}", typed=typed, hint=did_you_mean(typed, ["--lang", *options]))
