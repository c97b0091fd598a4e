"""Labels of the dashboard around its reports."""

from nanoscope.views.report.labels import labels as report_labels
from nanoscope.views.runs import state_labels
from nanoscope.words.language import Language


def labels(language: Language) -> dict[str, str]:
    """Every label, those of the report included, under the name that the page's scripts use."""
    say = language.say
    return {
        **report_labels(language),
        **_table(language),
        **_states(language),
        **_keys(language),
        "watch": say("Training runs"),
        **{str(state): label for state, label in state_labels(language).items()},
        "parts": say("Parts of the page"),
        "tab_charts": say("Charts"),
        "tab_findings": say("Findings"),
        "tab_runs": say("Runs"),
        "connecting": say("connecting …"),
        "connected": say("live"),
        "lost": say("no answer, trying again"),
        "notify": say("Notify me when a run breaks, stalls or ends"),
        "notify_me": say("Notify me"),
        "notify_denied": say("The browser does not allow notifications"),
        "copy": say("Copy"),
        "copy_link": say("Copy link"),
        "explain_log": say("Explain a log"),
        "paste": say("Paste a training log here, or drop a file anywhere on this page."),
        "choose_file": say("Choose a file"),
        "max_iters": say("planned steps, if the log does not say"),
        "device": say("device, if the log does not say"),
        "explain": say("Explain"),
        "empty_paste": say("Nothing was pasted. Paste the lines that your trainer prints, or choose its log file."),
        "remove": say("Remove"),
        "download": say("Report"),
        "sampling": say("What does it write by now?"),
        "prompt": say("begin with"),
        "write": say("Write"),
        "stop": say("Stop"),
        "sample_loading": say("loading the model …"),
        "loading": say("reading …"),
        "error_gone": say("This run is no longer there."),
        "error_no_training": say("No training step was found in it: there is nothing to show yet."),
        "error_too_large": say("The log is too large for this page. For large ones: {command}",
                               command="nanoscope explain FILE"),
        "error_crowded": say("Too many logs are being sent at once, or this one too slowly. Try again."),
        "error_busy": say("Another text is being written."),
        "error_sample": say("It could not write:"),
        "error_bad_request": say("Invalid request: planned steps must be a whole number."),
        "error_failed": say("The server could not answer."),
    }  # fmt: skip


def _table(language: Language) -> dict[str, str]:
    say = language.say
    return {
        "search": say("Find a run, or setting=value"),
        "filter": say("Filter by state"),
        "group_by": say("Group by"),
        "group_none": say("No groups"),
        "group_folder": say("Folders"),
        "settings_columns": say("Columns"),
        "show": say("Show"),
        "show_all": say("Show all"),
        "show_none": say("None"),
        "hide": say("Hide"),
        "unhide": say("Show again"),
        "chip_all": say("All"),
        "chip_live": say("Live"),
        "chip_finished": say("Finished"),
        "chip_stopped": say("Stopped"),
        "chip_failed": say("Failed"),
        "chip_log": say("Logs"),
        "chip_hidden": say("Hidden"),
        "column_shown": say("shown"),
        "column_run": say("Run"),
        "column_val": say("Val"),
        "column_best": say("Best"),
        "column_at": say("at step"),
        "column_speed": "tok/s",
        "column_hide": say("hide"),
        "sort_newest": say("Newest first"),
        "sort_by": say("Sort by this"),
        "mean_spread": say("mean of the best validation losses, and their spread"),
        "count_failed": say("{n} failed", n="{n}"),
        "count_shown": say("{runs} runs · {shown} shown", runs="{runs}", shown="{shown}"),
        "count_newest": say(
            "the newest {runs} of {total} runs · {shown} shown", runs="{runs}", total="{total}", shown="{shown}"
        ),
        "best_of": say("The best {shown} of {total} runs, by loss, are shown.", shown="{shown}", total="{total}"),
        "compare_with": say("show beside others: {name}", name="{name}"),
    }


def _states(language: Language) -> dict[str, str]:
    say = language.say
    return {
        "state_log": say("pasted log"),
        "state_unreadable": say("cannot be read"),
        "last_line": say("last line {time} ago", time="{time}"),
        "starting_title": say("Starting."),
        "starting_text": say("Its charts appear here with the first step."),
        "compiling_title": say("Compiling."),
        "compiling_text": say("The first step comes when this is done."),
        "stalled_title": say("No line for {time}.", time="{time}"),
        "stalled_text": say("Usual reasons: sleep, a full disk, another program. Check that its process still runs."),
        "nan_title": say("The loss is not a number since step {step}.", step="{step}"),
        "failed_title": say("It ended with an error."),
        "failed_text": say("The findings below say what is known about it."),
        "stopped_title": say("Stopped at step {step}.", step="{step}"),
        "stopped_text": say("To go on:"),
        "unreadable_title": say("This run cannot be read."),
        "unreadable_text": say("Its file of events is damaged, empty or not readable for this user."),
        "gone_title": say("No answer since {time}.", time="{time}"),
        "gone_text": say(
            "The charts are from then; training itself may go on. If the server was stopped, start it again:"
        ),
        "try_now": say("Try now"),
        "missing_title": say("This run is not in the folder."),
        "missing_text": say("It was moved, renamed or deleted, or the address is wrong."),
        "show_another": say("Show another run"),
        "nothing_shown": say("No run is shown. Choose one in the table."),
        "empty_title": say("No run here yet"),
        "empty_text": say("A run appears by itself as soon as it starts."),
        "empty_or": say("Or explain a log that you have:"),
    }  # fmt: skip


def _keys(language: Language) -> dict[str, str]:
    say = language.say
    return {
        "keys": say("Keys"),
        "key_search": say("search"),
        "key_down": say("next run"),
        "key_up": say("previous run"),
        "key_open": say("open the run"),
        "key_select": say("show it beside the others, or no longer"),
        "key_hide": say("hide the run"),
        "key_refresh": say("refresh"),
        "key_drawer": say("open the list, or its settings"),
        "key_help": say("this list"),
        "key_close": say("close, or clear the search"),
    }
