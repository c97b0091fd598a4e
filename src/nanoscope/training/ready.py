"""What has to happen before torch is imported: the settings are resolved, and the CPU made ready. Imports no torch."""

from collections.abc import Callable, Iterable

from nanoscope.config_sources import Resolved, resolve
from nanoscope.hardware.probe import make_cpu_ready
from nanoscope.training.run_folder import old_run, resumed_config, settled


def resolve_and_make_ready(words: Iterable[str], tuned: Callable[[Resolved], Resolved] | None = None) -> Resolved:
    """The configuration that the arguments of `nanoscope train` mean, for `training/launch.py`.

    `tuned` may choose other settings of the machine.
    """
    resolved = settled(resolve(words))
    if tuned is not None:
        resolved = tuned(resolved)
    config, cpu_dtype = resolved.config, None
    if config.init_from == "resume":  # with the run's own device and dtype
        resumed = resumed_config(old_run(resolved), resolved)
        config, cpu_dtype = resumed.config, resumed.cpu_dtype
    make_cpu_ready(config.device, config.dtype, training=True, before=cpu_dtype)
    return resolved
