"""`nanoscope demo`: the other commands, one after another."""

from pathlib import Path

from nanoscope.errors import JobError, UsageError


def demo(*, minutes: float = 1.5) -> int:
    """The one-minute tour: prepare, train, explain, sample, report.

    Downloads and prepares tiny Shakespeare (without a network, Python's own library), trains the preset laptop for at
    most the given minutes, explains the run, samples from it and writes a report. The files are in data/ and runs/demo.

    For example: nanoscope demo --minutes=0.5

    Parameters
    ----------
    minutes
        Stop training after this time.
    """
    if not 0 < minutes < float("inf"):
        raise UsageError(f"invalid value for --minutes: {minutes} is not a positive number")

    from nanoscope.cli.explain import explain
    from nanoscope.cli.report import report
    from nanoscope.config_sources import resolve
    from nanoscope.data.find import find_dataset
    from nanoscope.generation.sampler import Sampling
    from nanoscope.generation.write import write_samples
    from nanoscope.training.launch import launch
    from nanoscope.training.phases import PhaseClock

    print("1. Turn text into tokens: nanoscope prepare shakespeare")
    corpus = "shakespeare"
    try:
        find_dataset(corpus, "char")
    except JobError as error:
        print(f"   {str(error).splitlines()[0]}\n   Using Python's own library instead: nanoscope prepare python")
        corpus = "python"
    folder = find_dataset(corpus, "char")

    words = ["laptop", f"--dataset={corpus}", "--tokenizer=char", "--out_dir=runs/demo", "--overwrite=True"]
    words += [f"--max_minutes={minutes}", "--log_interval=100"]
    print(f"\n2. Train a GPT on it: nanoscope train {' '.join(words)}")
    status = launch(resolve(words), PhaseClock())
    if status or not Path("runs/demo/checkpoints/last").exists():
        return status

    print("\n3. See what happened: nanoscope explain runs/demo\n")
    explain("runs/demo")

    print("\n4. Let it write: nanoscope sample runs/demo")
    write_samples(
        Path("runs/demo"), "\n", Sampling(max_new_tokens=400), count=1, checkpoint="best", device="auto", dtype="auto",
        as_json=False,
    )  # fmt: skip

    print("\n5. Write a report to look at or to send: nanoscope report runs/demo")
    try:
        report("runs/demo")
    except JobError as error:  # charts need the extra 'web'
        print(f"   {' '.join(str(error).splitlines())}")

    print(f"""
6. What you have now
   {folder}/  the tokens
   runs/demo/config.toml  all settings           runs/demo/events.jsonl  all events, for programs
   runs/demo/console.log  the training output    runs/demo/checkpoints/  the model
Next: nanoscope watch
      nanoscope train runs/demo --init_from=resume --max_iters=4000
      nanoscope prepare FILE""")
    return 0
