"""The README tells the truth: what it shows of `explain` is what `explain` prints."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_answer_in_the_readme_is_the_answer_of_explain(nanoscope) -> None:
    (shown,) = re.findall(
        r"```\n\$ nanoscope explain (docs/examples/\S+)\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL
    )
    printed = nanoscope("explain", str(ROOT / shown[0]), "--lang", "en", cwd=ROOT, env={"COLUMNS": "100"}).stdout

    position = 0
    for excerpt in shown[1].split("…\n"):
        found = printed.find(excerpt, position)
        assert found >= 0, excerpt
        position = found + len(excerpt)


def test_every_file_that_the_docs_link_to_is_there() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"""(?:\]\(|src=")([^)#"]+)[)"]""", page.read_text("utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
