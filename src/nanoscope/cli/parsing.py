"""What is wrong with the words of a command, in nanoscope's own words: the parser's are in English only."""

from typing import get_args

from cyclopts import CoercionError, CycloptsError, MissingArgumentError, RepeatArgumentError, UnknownOptionError
from cyclopts.exceptions import UnusedCliTokensError

from nanoscope.errors import UsageError
from nanoscope.messages import Joined, Text
from nanoscope.suggest import did_you_mean

KINDS = {int: Text("an integer"), float: Text("a number"), bool: Text("True or False")}


def usage_error(error: CycloptsError, command: str) -> UsageError:
    """The error that the user reads instead of the parser's."""
    see = Text("See: nanoscope {command} --help", command=command)
    return UsageError(Joined("\n", [_mistake(error), see]))


def _mistake(error: CycloptsError) -> Text:
    named, token = error.argument.name if error.argument else "", getattr(error, "token", None)
    if error.argument is not None and error.argument.index is not None:
        named = named.lstrip("-").upper()  # as help spells an argument
    option = (token and token.keyword) or named
    match error:
        case UnknownOptionError():
            typed = (error.token.keyword or error.token.value).split("=")[0]
            options = [name for each in error.argument_collection if each.parse for name in each.names]
            return Text(
                "There is no option {typed}.{hint}", typed=typed, hint=did_you_mean(typed, ["--lang", *options])
            )
        case CoercionError() if token is not None:
            choices = [str(choice) for choice in get_args(error.target_type)]
            hint, kind = did_you_mean(token.value, choices), KINDS.get(error.target_type or str)
            wanted = Text("expected {wanted}", wanted=kind or ", ".join(choices))
            return Text(
                "invalid value {value!r} for {option}: {reason}.{hint}",
                value=token.value,
                option=option,
                reason=wanted,
                hint=hint,
            )
        case RepeatArgumentError():
            return Text("{option} was given more than once.", option=option)
        case MissingArgumentError():
            return Text("{option} needs a value.", option=error.keyword or option)
        case UnusedCliTokensError():
            return Text("This command does not take {words}.", words=" ".join(error.unused_tokens or []))
    return Text("This command line can't be read: {reason}", reason=" ".join(str(error).split()))
