"""`nanoscope tune`."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from nanoscope.cli.logs import Minutes, print_json, progress
from nanoscope.cli.train import Words
from nanoscope.config import TrainConfig
from nanoscope.messages import Message, on_terminal, verbatim


def tune(
    *words: Words,
    minutes: Minutes = 2.0,
    out: Path | None = None,
    bench: bool = False,
    json: bool = False,
) -> int:
    """Find the fastest way to carry out a run on this machine, and write it to a file for train.

    For example:
      nanoscope tune laptop                              writes tuned-laptop.toml, which train takes
      nanoscope tune babygpt --dataset=data/mine --minutes=5 --out=mine.toml
      nanoscope tune laptop --threads=2                  everything else may change
      nanoscope train laptop --tune                      tune first, then train with the result
      nanoscope tune --bench                             how fast is this machine?

    Tries other micro-batches with the same sequences an iteration, dtype, compiling, CPU threads, and the batch of
    evaluations. Each change is measured in turns with the best settings so far, then again in new processes, and used
    only if it saves more than the noise and at least 2 percent of the run.

    What is learned stays the same, apart from rounding (docs/tune.md). Settings that you type are not changed.

    Ctrl-C ends the search, and nothing is written. Exit status: 0 done, 1 failed, 2 invalid usage, 130 stopped by
    Ctrl-C.

    Parameters
    ----------
    words
        A preset or config files, as for train, and settings: --key=value.
    minutes
        About how long to search. Where an iteration takes long, more is needed.
    out
        The file to write; default: tuned-NAME.toml. --overwrite=True replaces one that exists.
    bench
        Only measure how fast this machine multiplies matrices and trains, in about half a minute.
    json
        Print the result as one JSON document (schema nanoscope.tune/3, see docs/tune.md).
    """
    from nanoscope.config_sources import resolve

    resolved = resolve(words)
    if bench:
        return _measure(words, resolved.config, json)

    from nanoscope.planning import tuning

    tuning.check_can_tune(resolved)
    path = out or Path(f"tuned-{resolved.name}.toml")
    tuning.check_file(path, overwrite=resolved.config.overwrite)
    tuned = tuning.tune(resolved, minutes, progress)
    tuning.write_file(path, resolved, tuned)
    if json:
        print_json({"source": words, "file": str(path), **tuned.document()})
        return 0
    use = shlex.join(["nanoscope", "train", str(path)])
    written = Message("written to {path}; train with it: {command}", path=path, command=use)
    for text in (tuned.summary(), *tuned.lines(), written):
        print(on_terminal(text))
    return 0


def _measure(words: Sequence[str], config: TrainConfig, json: bool) -> int:
    """Measure how fast this machine multiplies matrices and trains. Ctrl-C prints what is known by then."""
    from nanoscope.hardware.probe import make_cpu_ready

    for sixteen_bits in ("bfloat16", "float16"):
        make_cpu_ready(config.device, sixteen_bits)  # takes effect only before torch is imported

    from nanoscope.hardware.device import set_up_device
    from nanoscope.planning.bench import machine, measurements

    choice, _ = set_up_device(config.device, config.dtype, training=True)
    found: dict[str, object] = {**machine(choice)}
    status = 0
    try:
        for name, value in measurements(words, choice, progress):
            found[name] = value
            if not json:
                shown = f"{value:,.2f}" if isinstance(value, float) else value
                print(on_terminal(verbatim("{name:<24} {value}", name=name, value=shown)), flush=True)
    except KeyboardInterrupt:
        progress(Message("nanoscope: interrupted"))
        status = 130
    if json:
        print_json(found)
    else:
        print(", ".join(str(found[key]) for key in ("device_name", "dtype", "platform", "torch", "nanoscope")))
    return status
