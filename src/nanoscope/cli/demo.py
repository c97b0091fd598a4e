"""`nanoscope demo`: the other commands, one after another."""

from nanoscope.errors import JobError, UsageError
from nanoscope.messages import shown


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
    from nanoscope.runs.console import resume_command
    from nanoscope.training.launch import launch
    from nanoscope.training.phases import PhaseClock
    from nanoscope.training.run_folder import unused

    print("1. Turn text into tokens: nanoscope prepare shakespeare")
    corpus = "shakespeare"
    try:
        find_dataset(corpus, "char")
    except JobError as error:
        print(
            f"   {shown(error.text).splitlines()[0]}\n   Using Python's own library instead: nanoscope prepare python"
        )
        corpus = "python"
    data = find_dataset(corpus, "char")

    folder = unused("demo")
    folder.release()  # for the run
    run = str(folder.path)
    words = ["laptop", f"--dataset={corpus}", "--tokenizer=char", f"--out_dir={run}"]
    words += [f"--max_minutes={minutes}", "--log_interval=100"]
    print(f"\n2. Train a GPT on it: nanoscope train {' '.join(words)}")
    resolved = resolve(words)
    status = launch(resolved, PhaseClock())
    if status or not folder.holds_run():
        return status

    print(f"\n3. See what happened: nanoscope explain {run}\n")
    explain(run)

    print(f"\n4. Let it write: nanoscope sample {run}")
    write_samples(
        folder.path, "\n", Sampling(max_new_tokens=400), count=1, checkpoint="best", device="auto", dtype="auto",
        as_json=False,
    )  # fmt: skip

    print(f"\n5. Write a report to look at or to send: nanoscope report {run}")
    try:
        report(run)
    except JobError as error:  # charts need the extra 'web'
        print(f"   {' '.join(shown(error.text).splitlines())}")

    print(f"""
6. What you have now
   {data}/  the tokens
   {run}/config.toml  all settings           {run}/events.jsonl  all events, for programs
   {run}/console.log  the training output    {run}/checkpoints/  the model
Next: nanoscope watch
      {resume_command(run, {"max_iters": 2 * resolved.config.max_iters})}
      nanoscope prepare FILE""")
    return 0
