"""`nanoscope presets`."""

import re
from typing import Annotated, Any

from cyclopts import Parameter

from nanoscope import messages
from nanoscope.cli.completion import complete_preset
from nanoscope.cli.help_text import Help
from nanoscope.cli.logs import print_json
from nanoscope.config_sources import preset_note, preset_size, preset_text, resolve
from nanoscope.config_sources import presets as preset_names
from nanoscope.errors import UsageError
from nanoscope.suggest import did_you_mean

NEXT = """\
  nanoscope presets NAME      the settings of a preset
  nanoscope train NAME        train it"""
ROW = "{name:<16} {parameters:>10}  {block_size:>10}  {max_iters:>9} "


def presets(
    name: Annotated[str | None, Parameter(completer=complete_preset)] = None,
    *,
    json: bool = False,
) -> None:
    """List the presets of `train`: what each is for, its size, and how long it takes.

    For example:
      nanoscope presets
      nanoscope presets laptop
      nanoscope presets laptop > mine.toml      to edit, and train mine.toml

    Parameters
    ----------
    name
        Print this preset as TOML, with its comment.
    json
        Print a JSON list of the presets, or the settings of one as an object.
    """
    names = preset_names()
    if name is None:
        rows = list(map(_row, names))
        if json:
            print_json(rows)
        else:
            print(_table(rows))
    elif name not in names:
        raise UsageError(
            "no preset is named {name!r}.{hint}\nPresets: {names}",
            name=name,
            hint=did_you_mean(name, names),
            names=", ".join(names),
        )
    elif json:
        print_json(_row(name) | {"settings": resolve([name]).given})
    else:
        print(_toml(preset_text(name).rstrip()))


def _row(name: str) -> dict[str, Any]:
    config = resolve([name]).config
    return {
        "name": name,
        "parameters": preset_size(name),
        "block_size": config.block_size,
        "max_iters": config.max_iters,
        "note": preset_note(name),
    }


def _table(rows: list[dict[str, Any]]) -> str:
    help = Help()
    head = {name: name for name in ("parameters", "block_size", "max_iters")} | {"name": "preset", "note": "what for"}
    lines = []
    for row in (head, *rows):
        label = ROW.format(**row)
        lines.append(help.entry(label, help.translated(row["note"]), len(label), indent=""))
    return "\n".join([*lines, "", help.text(NEXT)])


def _toml(text: str) -> str:
    """A preset with its comments in the user's language."""
    if messages.current is messages.ENGLISH:
        return text
    help = Help()
    comment, settings = re.fullmatch(r"((?:#.*\n)*)((?s:.*))", text).groups()  # type: ignore[union-attr]
    note = help.text(re.sub("^# ?", "", comment, flags=re.MULTILINE))
    settings = re.sub("(?<= # ).+", lambda behind: help.translated(behind[0]), settings)
    return "".join(f"# {line}".rstrip() + "\n" for line in note.splitlines()) + settings
