"""`nanoscope.report`: runs as an HTML page. The command writes the same."""

from pathlib import Path

from nanoscope.api.logs import Source, paths_of
from nanoscope.api.logs import warn as python_warning
from nanoscope.errors import JobError, why
from nanoscope.findings.analyse import Options
from nanoscope.runs.load_many import Warn, trained_runs
from nanoscope.views.report import describe, render
from nanoscope.words.language import choose_language


def report(
    *logs: Source,
    out: Source | None = None,
    lang: str | None = None,
    max_iters: int | None = None,
    device: str | None = None,
    warn: Warn = python_warning,
) -> Path:
    """Write an HTML page about one or more runs, and return its path.

    >>> nanoscope.report("runs/laptop")
    >>> nanoscope.report("laptop.log", "gpu.log", out="both.html", lang="ar")

    Without `out` it is report.html in the run's folder, or in the current one for a log. `warn` gets a sentence for
    each run that is left out.
    """
    paths = paths_of(logs)
    page = render(describe(trained_runs(paths, warn), Options(max_iters, device), choose_language(lang).code))
    inside = len(paths) == 1 and Path(paths[0]).is_dir()
    file = Path(out) if out else (Path(paths[0]) if inside else Path()) / "report.html"
    try:
        file.write_text(page, encoding="utf-8", newline="\n")
    except OSError as error:
        raise JobError(
            "Can't write {file}: {reason}\nChoose another file with {option}",
            file=file,
            reason=why(error),
            option="--out",
        ) from None
    return file
