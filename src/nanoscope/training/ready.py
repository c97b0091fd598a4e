"""What has to happen before torch is imported: the settings are resolved, and the CPU made ready. Imports no torch."""

import os
from collections.abc import Callable, Iterable

from nanoscope.config_sources import Resolved, resolve
from nanoscope.hardware.probe import make_cpu_ready
from nanoscope.training.run_folder import old_run, resumed_config, settled, wait_for_other_machine


def resolve_and_make_ready(words: Iterable[str], tuned: Callable[[Resolved], Resolved] | None = None) -> Resolved:
    """The configuration that the arguments of `nanoscope train` mean, for `training/launch.py`.

    `tuned` may choose other settings of the machine.
    """
    resolved = resolve(words)
    if os.environ.get("RANK", "0") == "0":  # the process that will lock the folder
        wait_for_other_machine(resolved)
    resolved = settled(resolved)
    if tuned is not None:
        resolved = tuned(resolved)
    config, cpu_dtype = resolved.config, None
    if config.init_from == "resume":  # with the run's own device and dtype
        resumed = resumed_config(old_run(resolved), resolved)
        config, cpu_dtype = resumed.config, resumed.cpu_dtype
    make_cpu_ready(config.device, config.dtype, training=True, before=cpu_dtype)
    return resolved
