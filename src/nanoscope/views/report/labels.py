"""Labels of the report page: headings, chart titles, table columns, controls."""

from nanoscope.views.concepts import part_names
from nanoscope.words.language import Language

# Plural forms, as browsers name them, with a number that takes each of them in every language that has it.
PLURAL_FORMS = {"zero": 0, "one": 1, "two": 2, "few": 3, "many": 11, "other": 100.5}


def labels(language: Language) -> dict[str, str]:
    """Every label, under the name that the page's scripts use."""
    say = language.say
    return {
        "report": say("Training report"),
        "language": say("Language"),
        "theme": say("Light or dark"),
        **_controls(language),
        **{f"lesson_{part}": name for part, name in part_names(language).items()},
        **_states(language),
        # the parts of a page
        "verdict": say("Verdict"),
        "why": say("Why"),
        "advice": say("What to do"),
        "errors": say("Errors in the log"),
        "notes": say("Noted by the run"),
        "config": say("Configuration"),
        "environment": say("Environment"),
        "samples": say("What it wrote on the way"),
        "setting": say("setting"),
        "value": say("value"),
        "runs": say("Each run by itself"),
        "count_runs": say("{n} runs", n="{n}"),
        # charts
        "loss": say("Loss"),
        "bpb": say("Bits per byte"),
        "batches": say("training batches"),
        "raw": say("single batches"),
        "train": say("training loss, evaluated"),
        "val": say("validation loss"),
        "stderr": say("standard error"),
        "best_short": say("best"),
        "best_val": say("best validation loss"),
        "if_continues": say("if it continues"),
        "guessing": say("guessing"),
        "failure_nan": "NaN",
        "failure_diverged": say("Diverged"),
        "nan_from": say("not a number from step {step}", step="{step}"),
        "between": say("between evaluations"),
        "clip": say("clipped at"),
        "time_s": say("Step time"),
        "normal": say("normal step"),
        "cause": say("cause"),
        "overlay": say("Runs overlaid"),
        "val_short": say("Validation"),
        "train_short": say("Training"),
        "lr": say("Learning rate"),
        "grad_norm": say("Gradient norm"),
        "tok_s": say("Tokens per second"),
        "mfu_pct": say("MFU"),
        "eta_s": say("Time left, as estimated on the way"),
        "series_data_s": say("Waiting for data"),
        "series_loss_scale": say("Loss scale"),
        "series_lr_share": say("Share of the full learning rate"),
        "group_memory": say("Memory"),
        "group_utilisation": say("Utilisation"),
        "short_memory_gb": say("process"),
        "short_gpu_peak_gb": say("GPU, peak"),
        "short_gpu_gb": "GPU",
        "short_cpu_pct": "CPU",
        "short_gpu_pct": "GPU",
        "phases": say("Where the time went"),
        "startup": say("start-up"),
        "data": say("waiting for data"),
        "steps": say("training steps"),
        "eval": say("evaluation"),
        "checkpoint": say("checkpoint"),
        "sample": say("samples"),
        "other": say("other work"),
        # along x, and units
        "step": say("step"),
        "tokens": say("tokens"),
        "time": say("time"),
        "epochs": say("epochs"),
        "count_tokens": say("{n} tokens", n="{n}"),
        "count_epochs": say("{n} epochs", n="{n}"),
        "separator": say("; "),
        "days": say("days"),
        "hours": say("hours"),
        "minutes": say("minutes"),
        "seconds": say("seconds"),
        "milliseconds": say("ms"),
        "thousands": say("thousand"),
        "millions": say("million"),
        "billions": say("billion"),
        **{
            f"unit_{unit}_{form}": language.isolate(language.unit(unit, n))
            for unit in ("d", "h", "min", "s", "ms")
            for form, n in PLURAL_FORMS.items()
        },
    }  # fmt: skip


def _controls(language: Language) -> dict[str, str]:
    say = language.say
    return {
        "toolbar": say("Charts"),
        "smoothing": say("Smoothing"),
        "x_axis": say("Horizontal axis"),
        "y_axis": say("Vertical axis"),
        "linear": say("Linear"),
        "log": say("Log"),
        "by_step": say("Step"),
        "by_tokens": say("Tokens"),
        "by_time": say("Time"),
        "by_epochs": say("Epochs"),
        "leave_start": say("Leave out start"),
        "zoom_in": say("Zoom in"),
        "zoom_out": say("Zoom out"),
        "reset": say("Reset"),
        "legend": say("Lines of this chart"),
        "take_away": say("Save or show the numbers"),
        "table": say("The numbers"),
        "close": say("Close"),
        "resume": say("Resume command"),
        "differences": say("Differences"),
        "copied": say("Copied"),
        "chart": say(
            "{title}, a chart. Arrow keys read its values, plus and minus zoom, Escape shows all of it.",
            title="{title}",
        ),
    }


def _states(language: Language) -> dict[str, str]:
    say = language.say
    return {
        "state": say("State"),
        "state_live": say("Training"),
        "state_starting": say("Starting"),
        "state_stalled": say("Stalled"),
        "state_finished": say("Finished"),
        "state_stopped": say("Stopped"),
        "state_failed": say("Failed"),
        "state_unfinished": say("Unfinished"),
        "state_gone": say("Server gone"),
        "done_about": say("done about {time}", time="{time}"),
    }
