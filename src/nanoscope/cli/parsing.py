"""What is wrong with the words of a command, in nanoscope's own words: the parser's are in English only."""

from typing import Literal, get_args, get_origin

from cyclopts import CoercionError, CycloptsError, MissingArgumentError, RepeatArgumentError, UnknownOptionError
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
    match error:
        case UnknownOptionError():
            typed = (error.token.keyword or error.token.value).split("=")[0]
            options = [name for each in error.argument_collection if each.parse for name in each.names]
            return Message(
                "There is no option {typed}.{hint}", typed=typed, hint=did_you_mean(typed, ["--lang", *options])
            )
        case CoercionError() if error.token is not None:
            return _invalid_value(error, error.token.value)
        case RepeatArgumentError():
            return Message("{option} was given more than once.", option=error.token.keyword or _name(error))
        case MissingArgumentError() if error.keyword or _name(error).startswith("-"):
            return Message("{option} needs a value.", option=error.keyword or _name(error))
        case MissingArgumentError():
            return Message("{argument} is missing.", argument=_name(error))
        case UnusedCliTokensError():
            return Message("This command does not take {words}.", words=" ".join(error.unused_tokens or []))
    return Message("This command line can't be read: {reason}", reason=" ".join(str(error).split()))


def _invalid_value(error: CoercionError, value: str) -> Message:
    option, kind = (error.token and error.token.keyword) or _name(error), error.target_type
    if get_origin(kind) is Literal:
        choices = [str(choice) for choice in get_args(kind)]
        return Message(
            "invalid value {value!r} for {option}.{hint} Valid values: {choices}",
            value=value, option=option, hint=did_you_mean(value, choices), choices=", ".join(choices),
        )  # fmt: skip
    if wanted := KINDS.get(kind) if kind else None:
        return Message(
            "invalid value {value!r} for {option}: expected {wanted}.", value=value, option=option, wanted=wanted
        )
    return Message("invalid value {value!r} for {option}.", value=value, option=option)


def _name(error: CycloptsError) -> str:
    """The option, or the argument as help spells it."""
    name = error.argument.name if error.argument is not None else ""
    return name if name.startswith("--") and not _is_positional(error) else name.lstrip("-").upper()


def _is_positional(error: CycloptsError) -> bool:
    return error.argument is not None and error.argument.index is not None
