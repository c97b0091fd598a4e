"""`nanoscope tune --bench`: how fast this machine is."""

from json import dumps
from typing import TYPE_CHECKING

from nanoscope.cli.logs import progress
from nanoscope.config import TrainConfig
from nanoscope.errors import UsageError
from nanoscope.messages import Joined, Text, on_terminal
from nanoscope.suggest import did_you_mean

if TYPE_CHECKING:
    from nanoscope.planning.bench import Figures

GROUPS = ("peak", "step", "evaluation", "sample")


def measure(config: TrainConfig, only: list[str], as_json: bool) -> int:
    """Measure how fast this machine multiplies matrices, trains, evaluates and samples. Ctrl-C prints what is known."""
    for name in only:
        if name not in GROUPS:
            hint = did_you_mean(name, GROUPS)
            raise UsageError(
                "invalid value for --only: {name!r}.{hint}\nValid values: {choices}",
                name=name, hint=hint, choices=", ".join(GROUPS),
            )  # fmt: skip
    from nanoscope.hardware.probe import make_cpu_ready

    for sixteen_bits in ("bfloat16", "float16"):
        make_cpu_ready(config.device, sixteen_bits)  # takes effect only before torch is imported

    from nanoscope.planning.bench import KEYS, MachineBench, label, machine

    here = MachineBench(config.device, config.dtype)
    planned = [key for key in KEYS if key.startswith(tuple(only or GROUPS))]
    found: dict[str, Figures] = {}
    try:
        for number, key in enumerate(planned, start=1):
            progress(Text("{place} {what}", place=f"[{number}/{len(planned)}]", what=label(key)))
            found[key] = here.figures(key)
    except KeyboardInterrupt:
        progress(Text("nanoscope: interrupted"))
    facts = machine(here.choice)
    if as_json:
        flat = {f"{key}_{unit}": value for key, figures in found.items() for unit, value in figures.items()}
        print(dumps(facts | flat, ensure_ascii=False))
    else:
        print(", ".join(str(facts[name]) for name in ("device_name", "dtype", "platform", "torch", "nanoscope")))
        for key, figures in found.items():
            texts = [
                f"{value:,.4g} {unit}" if isinstance(value, float) else f"{unit}: {value}"
                for unit, value in figures.items()
            ]
            print(on_terminal(Joined("  ", [label(key), *texts])))
    failed = any("failed" in figures for figures in found.values())
    return 130 if len(found) < len(planned) else int(failed)
