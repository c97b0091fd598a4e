"""`nanoscope demo`: the other commands, one after another."""

from nanoscope.errors import JobError, UsageError
from nanoscope.messages import Message, on_terminal

WHAT_YOU_HAVE = Message("""\
6. What you have now
   {data}  the tokens
   {config}  all settings           {events}  all events, for programs
   {log}  the training output    {checkpoints}  the model
Next: nanoscope watch
      nanoscope prepare FILE""")


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
    if not 0 < minutes < float("inf"):
        raise UsageError("invalid value for --minutes: {minutes} is not a positive number", minutes=minutes)

    from nanoscope.cli.explain import explain
    from nanoscope.cli.report import report
    from nanoscope.config_sources import resolve
    from nanoscope.data.find import find_dataset
    from nanoscope.generation.sampler import Sampling
    from nanoscope.generation.write import write_samples
    from nanoscope.training.launch import launch
    from nanoscope.training.phases import PhaseClock
    from nanoscope.training.run_folder import next_free_folder
    from nanoscope.views.closing import closing_lines

    print(on_terminal(Message("1. Turn text into tokens: {command}", command="nanoscope prepare shakespeare")))
    corpus = "shakespeare"
    try:
        find_dataset(corpus, "char")
    except JobError as error:
        print(f"   {on_terminal(error.text).splitlines()[0]}")
        print(
            on_terminal(Message("   Using Python's own library instead: {command}", command="nanoscope prepare python"))
        )
        corpus = "python"
    data = find_dataset(corpus, "char")

    folder = next_free_folder("demo")
    folder.release()  # for the run
    run = str(folder.path)
    words = ["laptop", f"--dataset={corpus}", "--tokenizer=char", f"--out_dir={run}"]
    words += [f"--max_minutes={minutes}", "--log_interval=100"]
    print("\n" + on_terminal(Message("2. Train a GPT on it: {command}", command=f"nanoscope train {' '.join(words)}")))
    resolved = resolve(words)
    status = launch(resolved, PhaseClock(), closing_lines)
    if status or not folder.holds_run():
        return status

    print("\n" + on_terminal(Message("3. See what happened: {command}", command=f"nanoscope explain {run}")) + "\n")
    explain(run)

    print("\n" + on_terminal(Message("4. Let it write: {command}", command=f"nanoscope sample {run}")))
    write_samples(
        folder.path, "\n", Sampling(max_new_tokens=400), count=1, checkpoint="best", device="auto", dtype="auto",
        as_json=False,
    )  # fmt: skip

    command = f"nanoscope report {run}"
    print("\n" + on_terminal(Message("5. Write a report to look at or to send: {command}", command=command)))
    report(run)

    files = {"config": "config.toml", "events": "events.jsonl", "log": "console.log", "checkpoints": "checkpoints/"}
    paths = {name: f"{run}/{file}" for name, file in files.items()}
    print("\n" + on_terminal(Message(WHAT_YOU_HAVE.template, data=f"{data}/", **paths)))
    return 0
