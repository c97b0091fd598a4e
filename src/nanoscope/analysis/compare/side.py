"""One of several runs that are compared."""

from collections.abc import Mapping
from dataclasses import dataclass

from nanoscope.analysis.findings import Analysis
from nanoscope.runs.run import ConfigValue, Run


@dataclass(eq=False, repr=False)
class Side:
    """A run, its findings and its settings; `place` is its number in the comparison."""

    place: int
    run: Run
    analysis: Analysis
    settings: Mapping[str, ConfigValue]

    @property
    def last_step(self) -> int:
        return self.analysis.progress.last_step or 0

    @property
    def first_step(self) -> int:
        steps = [*self.run.steps.step[:1], *(e.step for e in self.run.evals[:1])]
        return min(steps, default=0)
