"""`nanoscope tune --bench`: how fast this machine is."""

from json import dumps
from typing import TYPE_CHECKING

from nanoscope.cli.logs import progress
from nanoscope.config import TrainConfig
from nanoscope.messages import Message, joined, on_terminal, verbatim

if TYPE_CHECKING:
    from nanoscope.planning.bench import Figures


def measure(config: TrainConfig, as_json: bool) -> int:
    """Measure how fast this machine multiplies matrices and trains. Ctrl-C prints what is known by then."""
    from nanoscope.hardware.probe import make_cpu_ready

    for sixteen_bits in ("bfloat16", "float16"):
        make_cpu_ready(config.device, sixteen_bits)  # takes effect only before torch is imported

    from nanoscope.planning.bench import MachineBench, machine

    here = MachineBench(config.device, config.dtype)
    found: dict[str, tuple[Message, Figures]] = {}
    planned = here.measurements()
    try:
        for number, (key, (label, figures)) in enumerate(planned.items(), start=1):
            progress(Message("{place} {what}", place=f"[{number}/{len(planned)}]", what=label))
            found[key] = label, figures()
    except KeyboardInterrupt:
        progress(Message("nanoscope: interrupted"))
    facts = machine(here.choice)
    if as_json:
        flat = {f"{key}_{unit}": value for key, (_, each) in found.items() for unit, value in each.items()}
        print(dumps(facts | flat, ensure_ascii=False, default=str))
    else:
        print(", ".join(str(facts[name]) for name in ("device_name", "dtype", "platform", "torch", "nanoscope")))
        for label, measured in found.values():
            values = {unit: f"{value:,.4g}" if isinstance(value, float) else value for unit, value in measured.items()}
            texts = [verbatim("{unit} {value}", unit=unit, value=value) for unit, value in values.items()]
            print(on_terminal(joined("  ", [label, *texts])))
    failed = any("failed" in measured for _, measured in found.values())
    return 130 if len(found) < len(planned) else int(failed)
