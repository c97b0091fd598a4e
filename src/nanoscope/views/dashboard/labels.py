"""Labels of the dashboard around its reports."""

from nanoscope.views.report.labels import labels as report_labels
from nanoscope.views.runs import state_labels
from nanoscope.words.language import Language


def labels(language: Language) -> dict[str, str]:
    """Every label, those of the report included, under the name that the page's scripts use."""
    say = language.say
    return {
        **report_labels(language),
        "watch": say("Training runs"),
        **{str(state): label for state, label in state_labels(language).items()},
        "no_runs": say("No runs yet. A run appears here as soon as it starts: {command}", command="nanoscope train"),
        "compare_with": say("show beside others: {name}", name="{name}"),
        "left": say("{time} left", time="{time}"),
        "connected": say("connected"),
        "lost": say("connection lost, trying again"),
        "explain_log": say("Explain a log"),
        "paste": say("Paste a training log here, or drop a file anywhere on this page."),
        "choose_file": say("or choose a file"),
        "max_iters": say("planned steps, if the log does not say"),
        "device": say("device, if the log does not say"),
        "explain": say("Explain"),
        "pasted": say("pasted log"),
        "download": say("Download the report"),
        "sampling": say("What does it write by now?"),
        "prompt": say("begin with"),
        "write": say("Write"),
        "stop": say("Stop"),
        "loading": say("reading …"),
        "error_gone": say("This run is no longer there."),
        "error_no_training": say("No training step was found in it: there is nothing to show yet."),
        "error_too_large": say("The log is too large for this page. For large ones: {command}",
                               command="nanoscope explain FILE"),
        "error_busy": say("Another text is being written."),
        "error_sample": say("It could not write:"),
        "error_bad_request": say("Invalid request: planned steps must be a whole number."),
        "error_failed": say("The server could not answer."),
    }  # fmt: skip
