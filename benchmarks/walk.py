"""What a pasted line walks through: the files and functions of nanoscope that `explain` enters for a short log.

python -m benchmarks.walk [LOG] [--verbose]

Counted on the second `explain` of a process: the first also loads modules, catalogues and trainers' descriptions.
"""

import argparse
import contextlib
import io
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

import nanoscope
from nanoscope.cli.explain import explain

PACKAGE = str(Path(nanoscope.__file__).parent)
EXAMPLE = Path(__file__).parents[1] / "docs/examples/nanogpt.log"


def walk(log: Path) -> Counter[tuple[str, str]]:
    """How often each function is entered, by file and name; those inside functions count with these."""
    entered: Counter[tuple[str, str]] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            entered[code.co_filename, code.co_qualname.partition(".<locals>")[0]] += 1

    for profile in (None, note):
        with contextlib.redirect_stdout(io.StringIO()):
            sys.setprofile(profile)
            try:
                explain(str(log))
            finally:
                sys.setprofile(None)
    return entered


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", nargs="?", type=Path, default=EXAMPLE)
    parser.add_argument("--verbose", action="store_true", help="list them")
    options = parser.parse_args()
    entered = walk(options.log)
    files = Counter(file for file, _ in entered)
    print(f"{len(files)} files, {len(entered)} functions, {entered.total()} calls")
    for file, functions in sorted(files.items()) if options.verbose else ():
        names = ", ".join(name for where, name in sorted(entered) if where == file)
        print(f"{Path(file).relative_to(PACKAGE)} ({functions}): {names}")


if __name__ == "__main__":
    main()
