"""`nanoscope demo`: the other commands, one after another."""

import shlex

from nanoscope import cli
from nanoscope.cli.logs import Minutes
from nanoscope.errors import JobError
from nanoscope.messages import Message, on_terminal


def demo(*, minutes: Minutes = 1.5) -> int:
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

    _announce(Message("1. Turn text into tokens: {command}", command="nanoscope prepare shakespeare"))
    corpus = _prepared_corpus()
    folder = next_free_folder("demo")
    folder.release()  # for the run
    run = str(folder.path)
    training = ["laptop", f"--dataset={corpus}", "--tokenizer=char", f"--out_dir={run}", f"--max_minutes={minutes}"]
    for title, words in (
        (Message("2. Train a GPT on it: {command}"), ["train", *training, "--log_interval=100"]),
        (Message("3. See what happened: {command}"), ["explain", run]),
        (Message("4. Let it write: {command}"), ["sample", run, "--max_new_tokens=400"]),
        (Message("5. Write a report to look at or to send: {command}"), ["report", run]),
    ):
        _announce(Message(title.template, command=shlex.join(["nanoscope", *words])))
        status = cli.call(words)
        if status or not folder.holds_run():
            return status
    _announce(
        Message(
            "6. Your own text, and all runs in the browser: {command}", command="nanoscope train FILE; nanoscope watch"
        )
    )
    return 0


def _announce(text: Message) -> None:
    print(f"\n{on_terminal(text)}\n")


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
