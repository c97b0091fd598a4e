"""`nanoscope demo`: the other commands, one after another."""

import shlex

from nanoscope import cli
from nanoscope.errors import JobError, UsageError
from nanoscope.messages import Message, on_terminal


def demo(*, minutes: float = 1.5) -> int:
    """The one-minute tour: prepare, train, explain, sample, report.

    Downloads and prepares tiny Shakespeare (without a network, Python's own library), trains the preset laptop for at
    most the given minutes, explains the run, samples from it and writes a report. The files are in data/ and runs/demo
    (or runs/demo-2, …: earlier runs stay as they are).

    For example:
      nanoscope demo --minutes=0.5

    Parameters
    ----------
    minutes
        Stop training after this time.
    """
    from nanoscope.training.run_folder import next_free_folder

    if not 0 < minutes < float("inf"):
        raise UsageError("invalid value for --minutes: {minutes} is not a positive number", minutes=minutes)
    _announce(1, Message("Turn text into tokens"), "nanoscope prepare shakespeare")
    corpus = _prepared_corpus()
    folder = next_free_folder("demo")
    folder.release()  # for the run
    run = str(folder.path)
    training = ["laptop", f"--dataset={corpus}", "--tokenizer=char", f"--out_dir={run}", f"--max_minutes={minutes}"]
    steps = {
        Message("Train a GPT on it"): ["train", *training, "--log_interval=100"],
        Message("See what happened"): ["explain", run],
        Message("Let it write"): ["sample", run, "--max_new_tokens=400"],
        Message("Write a report to look at or to send"): ["report", run],
    }
    for number, (title, words) in enumerate(steps.items(), start=2):
        _announce(number, title, shlex.join(["nanoscope", *words]))
        status = cli.call(words)
        if status or not folder.holds_run():
            return status
    _announce(6, Message("Your own text, and all runs in the browser"), "nanoscope train FILE; nanoscope watch")
    return 0


def _announce(number: int, title: Message, command: str) -> None:
    print(
        "\n" + on_terminal(Message("{number}. {title}: {command}", number=number, title=title, command=command)) + "\n"
    )


def _prepared_corpus() -> str:
    """A corpus that is to be had."""
    from nanoscope.data.find import find_dataset

    try:
        find_dataset("shakespeare", "char")
    except JobError as error:
        print(on_terminal(error.text).splitlines()[0])
        print(on_terminal(Message("Using Python's own library instead: {command}", command="nanoscope prepare python")))
        find_dataset("python", "char")
        return "python"
    return "shakespeare"
