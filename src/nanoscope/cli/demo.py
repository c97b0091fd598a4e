"""`nanoscope demo`."""

from pathlib import Path

from nanoscope.errors import JobError, UsageError


def demo(*, minutes: float = 1.5) -> int:
    """The one-minute tour: prepare, train, explain, sample, report.

    Prepares tiny Shakespeare (or, without a network, Python's own library), trains the preset laptop for at most
    the given minutes, explains the run, lets it write, writes a page about it, and says where everything is:
    data/ and runs/demo here.

    For example: nanoscope demo --minutes=0.5

    Parameters
    ----------
    minutes
        The longest that training may take.
    """
    if not 0 < minutes < float("inf"):
        raise UsageError(f"minutes must be a positive number, it is {minutes}")

    from nanoscope.cli.explain import explain
    from nanoscope.cli.report import report
    from nanoscope.config_sources import resolve
    from nanoscope.data.dataset import find_dataset
    from nanoscope.generation.sampler import Sampling
    from nanoscope.generation.write import write_samples
    from nanoscope.training.launch import launch
    from nanoscope.training.phases import PhaseClock

    print("1. Text becomes tokens: nanoscope prepare shakespeare")
    corpus = "shakespeare"
    try:
        find_dataset(corpus, "char")
    except JobError as error:
        print(f"   {str(error).splitlines()[0]}\n   Python's own library will do: nanoscope prepare python")
        corpus = "python"
    folder = find_dataset(corpus, "char")

    words = [
        "laptop",
        f"--dataset={corpus}",
        "--tokenizer=char",
        "--out_dir=runs/demo",
        "--overwrite=True",
        f"--max_minutes={minutes}",
    ]
    print(f"\n2. A GPT learns it: nanoscope train {' '.join(words)} --log_interval=100")
    status = launch(resolve([*words, "--log_interval=100"]), PhaseClock())
    if status or not (Path("runs/demo/checkpoints") / "last").exists():
        return status

    print("\n3. What happened: nanoscope explain runs/demo\n")
    explain("runs/demo")

    print("\n4. It writes: nanoscope sample runs/demo")
    settings = Sampling(max_new_tokens=400)
    write_samples(
        Path("runs/demo"),
        "\n",
        settings,
        count=1,
        checkpoint="best",
        device="auto",
        dtype="auto",
        as_json=False,
    )

    print("\n5. The same as a page to look at, or to send: nanoscope report runs/demo")
    try:
        report("runs/demo")
    except JobError as error:  # without the extra 'web' there are no charts
        print(f"   {' '.join(str(error).splitlines())}")

    print(f"""
6. Where everything is
   {folder}/  the tokens
   runs/demo/config.toml  every setting      runs/demo/events.jsonl  every event, for programs
   runs/demo/console.log  what you saw       runs/demo/checkpoints/  the model
Next: nanoscope watch   or go on: nanoscope train runs/demo --init_from=resume --max_iters=4000
      or your own text: nanoscope prepare FILE""")
    return 0
