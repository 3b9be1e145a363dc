"""Measurements of an executor's steps: cycle count, latency, performance counters, report.

All times are modelled, but for two: how long compiling took, and the last line of a report, which are measured here.
"""

from __future__ import annotations

from datetime import timedelta

from reading_services.ipu.names.errors import Error
from reading_services.ipu.options import Options
from reading_services.ipu.simulator.compiling import Compiled
from reading_services.ipu.simulator.cost import CostModel, Mode
from reading_services.ipu.simulator.counters import Counters, Latency, Ticks
from reading_services.ipu.simulator.report import CallMeter, Report


class Observed:
    """The part of an executor that measures its steps."""

    options: Options
    cost_model: CostModel
    """The constants of modelled time; another model can be put in its place at any time."""
    _compiled: Compiled | None
    _has_run: bool
    _meter: CallMeter

    def compilationTime(self) -> timedelta:
        """Compile time here: that of the simulation, and measured."""
        if self._compiled is None:
            raise Error("Please compile the model before obtaining compilation time.")
        if not self.options._show_compilation_progress_bar:
            raise Error("Please set showCompilationProgressBar option before compiling: it is what keeps the time")
        return self._compiled.took

    def cycleCount(self) -> int:
        """The modelled cycles of replica 0 in the last step, transfers left out."""
        if not self.options._Popart.options["instrumentWithHardwareCycleCounter"]:
            raise Error("Cycle count logging is disabled. Please set poptorch.Options().logCycleCount(True)")
        if self._compiled is None or not self._has_run:
            raise Error("Please run the model at least once before obtaining cycle count.")
        cost = self.cost_model.step(self._compiled.work)
        return max(1, round((cost.compute + cost.bubble + cost.reduction) * self.cost_model.clock))

    def getPerfCounters(self) -> dict[str, Ticks]:
        """When each tensor of the last step began and ended to cross the link, in modelled seconds from its start."""
        return self._counters().as_dict()

    def getHostIpuLatency(self) -> Latency:
        """Least, most and mean modelled seconds that inputs take to the device."""
        return self._counters().host_ipu()

    def getComputeLatency(self) -> Latency:
        """Least, most and mean modelled seconds from the end of the inputs to the outputs."""
        return self._counters().compute()

    def getIpuHostLatency(self) -> Latency:
        """Least, most and mean modelled seconds from the device to the host."""
        return self._counters().ipu_host()

    def getLatency(self) -> Latency:
        """Least, most and mean modelled seconds from the first input to the last output."""
        return self._counters().round_trip()

    def report(self, load: float | None = None, mode: Mode = "async", cost: CostModel | None = None) -> Report:
        """Report of the modelled time of all steps so far; ``load`` is how long the loader takes for one, if known."""
        return self._meter.report(cost or self.cost_model, load, mode)

    def _counters(self) -> Counters:
        if self._compiled is None:
            return Counters()
        if not self._has_run or self._compiled.work.synthetic:
            return self._compiled.silent_counters()
        cost = self.cost_model.step(self._compiled.work)
        return Counters.of(cost, self._compiled.kept, self._compiled.inputs, len(self._compiled.program.like))
