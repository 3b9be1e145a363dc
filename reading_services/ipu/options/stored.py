"""Options for the device's surroundings: caching, logs, profiles. Most of them are kept and read by nobody here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from datapipes.errors import BadArgument
from reading_services.ipu.names.enums import ConnectionType
from reading_services.ipu.options.popart import _PopartOptions
from reading_services.ipu.options.values import OptionValues, Value


class StoredOptions(OptionValues):
    """The part of Options that changes neither batches nor results."""

    broadcast_buffers = Value(True)
    log_dir = Value(".")
    max_repeat_logs = Value(4)
    auto_round_num_ipus = Value(False)
    anchored_tensors: Value[dict[str, list[Any]]] = Value({})
    available_memory_proportion: Value[dict[int, float]] = Value({})
    # Absent until their methods are called.
    model_name: str
    ipu_id: int
    ipu_version: int
    use_model: bool

    _popart: _PopartOptions
    _show_compilation_progress_bar: bool
    _relax_optimizer_checks: bool
    _module_namescope_enabled: bool

    def __init__(self) -> None:
        super().__init__()
        self.__dict__.update(
            _show_compilation_progress_bar=True,
            _relax_optimizer_checks=False,
            _module_namescope_enabled=True,
        )

    def enableSyntheticData(self, enabled: bool) -> Self:
        """Use synthetic inputs, made by the device, so that neither transfers nor the loader count."""
        self._popart.set("syntheticDataMode", 2 if enabled else 0)
        return self

    def broadcastBuffers(self, broadcast_buffers: bool = True) -> Self:
        """Whether replicas share a model's buffers; else each keeps its own."""
        return self.set(broadcast_buffers=broadcast_buffers)

    def autoRoundNumIPUs(self, auto_round_num_ipus: bool = True) -> Self:
        """Whether a number of IPUs that cannot be had is rounded up to one that can."""
        return self.set(auto_round_num_ipus=auto_round_num_ipus)

    def useIpuId(self, ipu_id: int) -> Self:
        """Take a certain device."""
        self.checkIsFrozen()
        if not isinstance(ipu_id, int):
            raise BadArgument(f"the number of an IPU is an int, and not {ipu_id!r}")
        return self.createOrSet(ipu_id=ipu_id)

    def useIpuModel(self, use_model: bool) -> Self:
        """Kept: every device is a simulated one here."""
        return self.createOrSet(use_model=use_model)

    def useOfflineIpuTarget(self, ipu_version: int = 2) -> Self:
        """Compile only; a model cannot be run then."""
        return self.set(connection_type=ConnectionType.Never.value).createOrSet(ipu_version=ipu_version)

    def logCycleCount(self, log_cycle_count: bool) -> Self:
        """Whether a model counts its cycles, for ``cycleCount()``."""
        self._popart.set("instrumentWithHardwareCycleCounter", log_cycle_count)
        return self

    def enableExecutableCaching(self, path: str | None) -> Self:
        """Keep compiled models in a folder; None keeps none."""
        if path is None:
            self._popart.set("enableEngineCaching", False)
        else:
            self._popart.createOrSet(cachePath=path, enableEngineCaching=True)
        return self

    def modelName(self, name: str) -> Self:
        """Name of the model in reports."""
        return self.createOrSet(model_name=name)

    def logDir(self, log_dir: str) -> Self:
        """Folder of the logs."""
        return self.set(log_dir=log_dir)

    def maxRepeatLogs(self, max_repeat_logs: int | None) -> Self:
        """Number of times that the same message is logged; None is always."""
        return self.set(max_repeat_logs=2**64 - 1 if max_repeat_logs is None else max_repeat_logs)

    def showCompilationProgressBar(self, show: bool = True) -> Self:
        """Whether compiling shows a bar, and is timed."""
        self.checkIsFrozen()
        self._show_compilation_progress_bar = show
        return self

    def relaxOptimizerAttributesChecks(self, relax: bool = True) -> Self:
        """Whether an optimiser's attributes that have no effect on the device go without a warning."""
        self.checkIsFrozen()
        self._relax_optimizer_checks = relax
        return self

    def disableModuleNamescope(self) -> Self:
        """Leave modules' names out of reports."""
        self.checkIsFrozen()
        self._module_namescope_enabled = False
        return self

    def setAvailableMemoryProportion(self, available_memory_proportion: Mapping[str, float]) -> Self:
        """Proportion of each IPU's memory for convolutions: ``{"IPU0": 0.5}``."""
        self.checkIsFrozen()
        for name in available_memory_proportion:
            if not name.startswith("IPU") or not name[3:].isdecimal():
                raise BadArgument(f"a device is named by IPU and its number, as IPU0 is, and not {name!r}")
        return self.set(available_memory_proportion={int(n[3:]): v for n, v in available_memory_proportion.items()})

    def enableProfiling(self, profile_dir: str | None = None) -> Self:
        """Write a profile into a folder."""
        where = {} if profile_dir is None else {"autoReport.directory": profile_dir}
        self._popart.setEngineOptions({"autoReport.all": "true", **where})
        return self

    def enableStableNorm(self, enabled: bool) -> Self:
        """Whether norms are computed in the slower and more stable way."""
        self._popart.set("enableStableNorm", enabled)
        return self

    def updatableNamedBuffers(self, buffers: Sequence[str]) -> Self:
        """Buffers that may be changed on a compiled model."""
        return self.createOrSet(updatable_named_buffers=list(buffers))

    def sourceLocationExcludes(self, excludes: Sequence[str]) -> Self:
        """Files that are left out when the place of an operation is told."""
        return self.createOrSet(source_location_excludes=list(excludes))

    def appendToLocationExcludes(self, *excludes: str) -> Self:
        """More of such files."""
        before = self("source_location_excludes") if self.exists("source_location_excludes") else []
        return self.createOrSet(source_location_excludes=[*before, *excludes])
