"""`nanoscope plan`."""

from nanoscope.cli.logs import print_json, progress
from nanoscope.cli.train import Words
from nanoscope.errors import JobError
from nanoscope.messages import Message, on_terminal
from nanoscope.units import short_bytes
from nanoscope.version import __version__


def plan(
    *words: Words,
    all_devices: bool = False,
    json: bool = False,
) -> int:
    """What a run will take before you start it: memory, time, disk.

    For example:
      nanoscope plan laptop
      nanoscope plan babygpt --batch_size=64 --max_iters=5000
      nanoscope plan gpt2-124m --device="RTX 4090"       a device that is not here
      nanoscope plan gpt2-124m --all_devices             a table of all that are known
      nanoscope plan runs/laptop --max_iters=2000        what is left of a run

    On this machine it measures some seconds of real steps in a process of its own, and leaves nothing behind. Nothing
    is downloaded or prepared. For another device it computes, and says what it assumes (docs/plan.md).

    Exit status: 0 the run fits, 1 it does not fit or can't be planned, 2 invalid usage.

    Parameters
    ----------
    words
        A preset, config files or a run, as for train, and settings: --key=value.
    all_devices
        A table of every device that is known.
    json
        Print the plan as one JSON document (schema nanoscope.plan/3, see docs/plan.md).
    """
    from nanoscope.config_sources import resolve
    from nanoscope.hardware.probe import make_cpu_ready

    config = resolve(words).config
    make_cpu_ready(config.device, config.dtype, training=True)  # takes effect only before torch is imported

    from nanoscope.planning.plan import SCHEMA, plan_for, plans_everywhere
    from nanoscope.planning.plan_text import lines, table

    if all_devices:
        progress(Message("computing for every device that is known"))
        plans = plans_everywhere(words)
    else:
        plans = [plan_for(words, progress)]
    found = plans[0]
    if json:
        print_json({"schema": SCHEMA, "nanoscope": __version__, "plans": plans} if all_devices else found)
    else:
        for line in table(plans) if all_devices else lines(found):
            print(on_terminal(line))
    if not all_devices and not found.fits:
        raise JobError(
            "does not fit: needs {needed}, has {available}\n{advice}",
            needed=short_bytes(found.peak_bytes),
            available=short_bytes(found.available_bytes),
            advice=found.advice[0],
        )
    return 0
