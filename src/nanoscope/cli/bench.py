"""`nanoscope tune --bench`: how fast this machine is."""

from collections.abc import Sequence

from nanoscope.cli.logs import print_json, progress
from nanoscope.config import TrainConfig
from nanoscope.messages import Message, on_terminal, verbatim


def measure(words: Sequence[str], config: TrainConfig, json: bool) -> int:
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
