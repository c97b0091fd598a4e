"""`nanoscope presets`."""

import json
import shutil
import textwrap
from typing import Annotated, Any

from cyclopts import Parameter

from nanoscope.cli.completion import complete_preset
from nanoscope.config_sources import preset_note, preset_size, preset_text, resolve
from nanoscope.config_sources import presets as preset_names
from nanoscope.errors import UsageError
from nanoscope.messages import Text, shown, translator
from nanoscope.suggest import did_you_mean

COLUMNS = ("parameters", "block_size", "max_iters")
FOOTER = Text("Its settings: nanoscope presets NAME. Train it: nanoscope train NAME")
ROW = "{name:<16} {parameters:>10}  {block_size:>10}  {max_iters:>9}  "


def presets(
    name: Annotated[str | None, Parameter(completer=complete_preset)] = None,
    *,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
) -> None:
    """List the presets of `train`: what each is for, its size, and how long it takes.

    Examples:

      nanoscope presets

      nanoscope presets laptop

      nanoscope presets laptop > mine.toml      to edit, and train mine.toml

    Parameters
    ----------
    name
        Print this preset as TOML, with its comment.
    as_json
        Print a JSON list of the presets, or the settings of one as an object.
    """
    names = preset_names()
    if name is None:
        rows = [_row(each) for each in names]
        if as_json:
            print(json.dumps(rows))
        elif translator() is None:
            print(_table(rows))
        else:
            _print_translated(rows)
        return
    if name not in names:
        raise UsageError(f"no preset is named {name!r}.{did_you_mean(name, names)}\nPresets: {', '.join(names)}")
    print(json.dumps(_row(name) | {"settings": resolve([name]).given}) if as_json else preset_text(name).rstrip())


def _row(name: str) -> dict[str, Any]:
    config = resolve([name]).config
    return {
        "name": name,
        "parameters": preset_size(name),
        "block_size": config.block_size,
        "max_iters": config.max_iters,
        "note": preset_note(name),
    }


def _print_translated(rows: list[dict[str, Any]]) -> None:
    from nanoscope.views.terminal_page import Page
    from nanoscope.words.language import choose_language

    headers = [shown(Text("preset")), shown(Text("parameters")), "block_size", "max_iters", shown(Text("what for"))]
    cells = [[*(str(value) for value in row.values())] for row in rows]
    for row in cells:
        *_, note = row
        row[-1] = shown(Text(note))
    page = Page(choose_language())
    page.table(headers, cells, numeric=len(COLUMNS))
    page.line()
    page.paragraph(shown(FOOTER))


def _table(rows: list[dict[str, Any]]) -> str:
    width = max(shutil.get_terminal_size((120, 24)).columns, 80)
    head = ROW.format(name="preset", parameters="parameters", block_size="block_size", max_iters="max_iters")
    lines = [head + "what for"]
    for row in rows:
        label = ROW.format(**row)
        lines.append(textwrap.fill(row["note"], width, initial_indent=label, subsequent_indent=" " * len(label)))
    return "\n".join([*lines, "", FOOTER])
