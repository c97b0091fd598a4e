"""What is wrong with the words of a command, in nanoscope's own words: the parser's are in English only."""

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


def _mistake(error: CycloptsError) -> Message:
    named, token = error.argument.name if error.argument else "", getattr(error, "token", None)
    if error.argument is not None and error.argument.index is not None:
        named = named.lstrip("-").upper()  # as help spells an argument
    option = (token and token.keyword) or named
    match error:
        case UnknownOptionError():
            typed = (error.token.keyword or error.token.value).split("=")[0]
            options = [name for each in error.argument_collection if each.parse for name in each.names]
            return Message(
                "There is no option {typed}.{hint}", typed=typed, hint=did_you_mean(typed, ["--lang", *options])
            )
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
        case ValidationError() if error.argument:
            return Message("{setting}: must be above 0.", setting=f"{option}={error.argument.tokens[-1].value}")
        case RepeatArgumentError():
            return Message("{option} was given more than once.", option=option)
        case MissingArgumentError():
            return Message("{option} needs a value.", option=error.keyword or option)
        case UnusedCliTokensError():
            return Message("This command does not take {words}.", words=" ".join(error.unused_tokens or []))
    return Message("This command line can't be read: {reason}", reason=" ".join(str(error).split()))
