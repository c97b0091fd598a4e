"""From the words of a command to its plan: for this machine, for a device that they name, or for every one."""

import re
from collections.abc import Sequence

from nanoscope.hardware.peaks import all_devices, named_device
from nanoscope.planning.figures import Plan
from nanoscope.planning.plan import Report, plan_here
from nanoscope.planning.plan_elsewhere import plan_elsewhere
from nanoscope.planning.request import understand

HERE = re.compile(r"auto|cpu|mps|cuda(:[0-9]+)?")  # torch's names


def plan_for(words: Sequence[str], report: Report = lambda text: None) -> Plan:
    """The plan of a run: for this machine, unless --device names another one."""
    request = understand(words)
    if HERE.fullmatch(request.config.device):
        return plan_here(request, report=report)
    return plan_elsewhere(request, named_device(request.config.device))


def plans_everywhere(words: Sequence[str]) -> list[Plan]:
    """One plan for each device that nanoscope can train on."""
    request = understand(words)
    return [plan_elsewhere(request, device) for device in all_devices() if device.kind != "tpu"]
