"""Options that the simulated device mostly ignores: names, types, defaults and setters.

Most are only stored, for programs that read them back, and for the backend's dictionary. A setter is a signature
(``values.kept``). It is written out if it does more than store its argument.
"""

# Setters are declared without bodies; `kept` makes the bodies.
# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Self

import torch

from datapipes.errors import BadArgument
from reading_services.ipu.names import old_names
from reading_services.ipu.names.enums import ConnectionType, MeanReductionStrategy, ReductionType, SyncPattern
from reading_services.ipu.options.values import OptionValues, Value, kept, settled


class _PopartOptions(OptionValues):
    """Settings by the backend's own names: a dictionary that takes any key."""

    def __init__(self) -> None:
        super().__init__()
        self._values.update(instrumentWithHardwareCycleCounter=False, rearrangeAnchorsOnHost=False)

    @property
    def options(self) -> dict[str, Any]:
        """The settings as a dictionary."""
        return self._values

    # The signature differs from that of OptionValues.set: one key and its value.
    def set(self, key: str, value: Any) -> Self:  # type: ignore[override]
        """Set one setting, which need not exist.

        >>> from reading_services.ipu import Options
        >>> Options()._Popart.set("defaultPrefetchBufferingDepth", 2).options["defaultPrefetchBufferingDepth"]
        2
        """
        return self.createOrSet(**{key: value})

    def createOrSet(self, **values: Any) -> Self:
        """Set several settings, of any type."""
        self.checkIsFrozen()
        self._values.update(values)
        return self

    def merge(self, key: str, settings: dict[str, Any]) -> Self:
        """Add keys to a setting that is a dictionary."""
        return self.set(key, {**self._values.get(key, {}), **settings})

    def setEngineOptions(self, engine_options: dict[str, Any]) -> Self:
        """Set options of the engine. Earlier ones stay."""
        return self.merge("engineOptions", engine_options)

    def setPatterns(self, patterns: dict[str, Any], level: int = 2) -> Self:
        """Set the patterns that the compiler may use in addition to those of a level."""
        return self.createOrSet(patterns=dict(patterns), patterns_level=level)


def _by_number(proportions: Mapping[str, float]) -> dict[int, float]:
    for name in proportions:
        if not name.startswith("IPU") or not name[3:].isdecimal():
            raise BadArgument(f"the name of a device is IPU and its number, as in IPU0, and not {name!r}")
    return {int(name[3:]): share for name, share in proportions.items()}


class StoredOptions(OptionValues):
    """Part of Options for the surroundings of the device."""

    broadcast_buffers = Value(True)
    log_dir = Value(".")
    max_repeat_logs = Value(4)
    auto_round_num_ipus = Value(False)
    anchored_tensors: Value[dict[str, list[Any]]] = Value({})
    connection_type = Value(ConnectionType.Always.value)
    sync_pattern = Value(SyncPattern.Full.value)
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

    def __init__(self, popart: _PopartOptions) -> None:
        super().__init__(popart)
        self.__dict__.update(
            _show_compilation_progress_bar=True, _relax_optimizer_checks=False, _module_namescope_enabled=True
        )

    @kept("Set when a model takes its device.", kind=ConnectionType, make=attrgetter("value"))
    def connectionType(self, connection_type: ConnectionType) -> Self: ...
    @kept("Set which IPUs wait for each other.", kind=SyncPattern, make=attrgetter("value"))
    def syncPattern(self, sync_pattern: SyncPattern) -> Self: ...

    def enableSyntheticData(self, enabled: bool) -> Self:
        """Let the device make its own inputs."""
        if not (self._frozen and old_names.let_pass("Frozen options are changed, for models that are made later")):
            self.checkIsFrozen()
        self._popart.options["syntheticDataMode"] = 2 if enabled else 0
        return self

    @kept("Let replicas share a model's buffers. If False, each keeps its own.")
    def broadcastBuffers(self, broadcast_buffers: bool = True) -> Self: ...
    @kept("Round an impossible number of IPUs up to a possible one.")
    def autoRoundNumIPUs(self, auto_round_num_ipus: bool = True) -> Self: ...
    @kept("Take the device of this number.", kind=int)
    def useIpuId(self, ipu_id: int) -> Self: ...
    @kept("Store the flag: all devices are simulated anyway.")
    def useIpuModel(self, use_model: bool) -> Self: ...
    @kept("Let a model count its cycles, for ``cycleCount()``.", "_Popart.instrumentWithHardwareCycleCounter")
    def logCycleCount(self, log_cycle_count: bool) -> Self: ...
    @kept("Set the model's name in reports.", "model_name")
    def modelName(self, name: str) -> Self: ...
    @kept("Set the folder of the logs.")
    def logDir(self, log_dir: str) -> Self: ...
    @kept("Set how often the same message is logged. None: always.", make=lambda n: 2**64 - 1 if n is None else n)
    def maxRepeatLogs(self, max_repeat_logs: int | None) -> Self: ...
    @kept("Show a progress bar while compiling, and time it.", "_show_compilation_progress_bar")
    def showCompilationProgressBar(self, show: bool = True) -> Self: ...
    @kept("Give no warning for an optimiser's attributes that have no effect.", "_relax_optimizer_checks")
    def relaxOptimizerAttributesChecks(self, relax: bool = True) -> Self: ...
    @kept("Set the proportion of each IPU's memory for convolutions: ``{'IPU0': 0.5}``.", make=_by_number)
    def setAvailableMemoryProportion(self, available_memory_proportion: Mapping[str, float]) -> Self: ...
    @kept("Compute norms in the slower and more stable way.", "_Popart.enableStableNorm")
    def enableStableNorm(self, enabled: bool) -> Self: ...
    @kept("Set the buffers that may be changed on a compiled model.", "updatable_named_buffers", make=list)
    def updatableNamedBuffers(self, buffers: Sequence[str]) -> Self: ...
    @kept("Set files that are left out of the source locations of operations.", "source_location_excludes", make=list)
    def sourceLocationExcludes(self, excludes: Sequence[str]) -> Self: ...

    def appendToLocationExcludes(self, *excludes: str) -> Self:
        """Add to the files that are left out of source locations."""
        before = self("source_location_excludes") if self.exists("source_location_excludes") else []
        return self.sourceLocationExcludes([*before, *excludes])

    def disableModuleNamescope(self) -> Self:
        """Leave the names of modules out of reports."""
        self._keep("_module_namescope_enabled", False)
        return self

    def useOfflineIpuTarget(self, ipu_version: int = 2) -> Self:
        """Compile only: a model cannot run with these options."""
        return self.set(connection_type=ConnectionType.Never.value).createOrSet(ipu_version=ipu_version)

    def enableExecutableCaching(self, path: str | None) -> Self:
        """Keep compiled models in a folder. None keeps none."""
        where = {} if path is None else {"cachePath": path}
        self._popart.createOrSet(**where, enableEngineCaching=path is not None)
        return self

    def enableProfiling(self, profile_dir: str | None = None) -> Self:
        """Write a profile into a folder."""
        where = {} if profile_dir is None else {"autoReport.directory": profile_dir}
        self._popart.setEngineOptions({"autoReport.all": "true", **where})
        return self


class _TrainingOptions(OptionValues):
    """Options for the weight update after several micro-batches."""

    gradient_accumulation = Value(1, at_least=1)
    accumulation_and_replication_reduction_type = Value(ReductionType.Mean)
    meanAccumulationAndReplicationReductionStrategy = Value(MeanReductionStrategy.Post)

    _popart: _PopartOptions

    @kept("Set the number of micro-batches whose gradients one weight update sums up.")
    def gradientAccumulation(self, gradient_accumulation: int) -> Self: ...
    @kept("Set when a mean is divided, which changes its rounding.", "meanAccumulationAndReplicationReductionStrategy")
    def setMeanAccumulationAndReplicationReductionStrategy(self, strategy: MeanReductionStrategy) -> Self: ...
    @kept("Store the flag, which has no effect.", "_Popart.automaticLossScalingSettings.enabled")
    def setAutomaticLossScaling(self, enabled: bool) -> Self: ...

    def accumulationAndReplicationReductionType(self, reduction_type: ReductionType) -> Self:
        """Average (``Mean``) or sum (``Sum``) the gradients of accumulation steps and replicas."""
        self.checkIsFrozen()
        if not isinstance(reduction_type, ReductionType) or reduction_type == ReductionType.NoReduction:
            raise BadArgument(
                "accumulationAndReplicationReductionType must be set to poptorch.ReductionType.Mean or "
                f"poptorch.ReductionType.Sum, and not to {reduction_type!r}"
            )
        return self.set(accumulation_and_replication_reduction_type=reduction_type)

    def setConvolutionDithering(self, enabled: bool) -> Self:
        """Store the flag, which has no effect."""
        self._popart.merge("convolutionOptions", {"enableConvolutionDithering": str(enabled).lower()})
        return self


class _PrecisionOptions(OptionValues):
    """Types of intermediate results, and rounding."""

    _popart: _PopartOptions

    @kept("Stop the device at overflow and NaN.", "_Popart.enableFloatingPointChecks", bool)
    def enableFloatingPointExceptions(self, enabled: bool) -> Self: ...
    @kept("Round stochastically.", "_Popart.enableStochasticRounding", bool)
    def enableStochasticRounding(self, enabled: bool) -> Self: ...
    @kept("Keep running means and variances in float32.", "_Popart.runningStatisticsAlwaysFloat", bool)
    def runningStatisticsAlwaysFloat(self, enabled: bool) -> Self: ...

    def setPartialsType(self, dtype: torch.dtype) -> Self:
        """Set the type in which convolutions and matrix products sum up: ``torch.float`` or ``torch.half``."""
        word = {torch.float: "float", torch.half: "half"}.get(dtype)
        if word is None:
            raise BadArgument(f"setPartialsType takes torch.float or torch.half, and not {dtype!r}")
        self._popart.set("partialsTypeMatMuls", word).merge("convolutionOptions", {"partialsType": word})
        return self


class _JitOptions(OptionValues):
    """Obsolete options of tracing."""

    trace_model = Value(True)

    @kept("Store the flag, which has no effect: models run in one way here.")
    def traceModel(self, trace_model: bool) -> Self: ...


class TensorLocationSettings:
    """Settings for the memory of one kind of tensor.

    >>> TensorLocationSettings().useOnChipStorage(False).minElementsForOffChip(100)
    TensorLocationSettings(minElementsForOffChip=100, onChip=False)
    """

    def __init__(self, **kwargs: Any) -> None:
        self._kept: dict[str, Any] = dict(kwargs)

    @kept("Set the least number of elements of a tensor that is kept off the chip.", "minElementsForOffChip", int)
    def minElementsForOffChip(self, min_elements: int) -> Self: ...
    @kept("Set the least number of elements of a divided tensor.", "minElementsForReplicatedTensorSharding", int)
    def minElementsForReplicatedTensorSharding(self, min_elements: int) -> Self: ...
    @kept("Keep tensors in the chip's own memory.", "onChip", bool)
    def useOnChipStorage(self, use: bool = True) -> Self: ...
    @kept("Divide tensors among the replicas.", "useReplicatedTensorSharding", bool)
    def useReplicatedTensorSharding(self, use: bool = True) -> Self: ...
    @kept("Load the tensors with the tiles for input and output.", "useIOTilesToLoad", bool)
    def useIOTilesToLoad(self, use: bool = True) -> Self: ...
    @kept("Store the tensors with the tiles for input and output.", "useIOTilesToStore", bool)
    def useIOTilesToStore(self, use: bool = True) -> Self: ...

    def toDict(self) -> dict[str, Any]:
        """Return the settings that were made."""
        return dict(self._kept)

    def _keep(self, name: str, value: Any) -> None:
        self._kept[name] = value

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={settled(value)}" for name, value in sorted(self._kept.items()))
        return f"{type(self).__name__}({shown})"


def _tiles(number: int) -> int:
    if not isinstance(number, int) or number not in range(32, 193, 2):
        raise BadArgument("numIOTiles must be an even number between 32 and 192.")
    return number


class _TensorLocationOptions(OptionValues):
    """Memory in which weights, activations and the optimiser's tensors are kept."""

    @kept("Set the number of tiles that are reserved for input and output.", "numIOTiles", make=_tiles)
    def numIOTiles(self, num_tiles: int) -> Self: ...
    @kept("Set where activations are.", "location_activation", TensorLocationSettings, TensorLocationSettings.toDict)
    def setActivationLocation(self, location: TensorLocationSettings) -> Self: ...
    @kept("Set where weights are.", "location_weight", TensorLocationSettings, TensorLocationSettings.toDict)
    def setWeightLocation(self, location: TensorLocationSettings) -> Self: ...
    @kept("Set where optimiser state is.", "location_optimizer", TensorLocationSettings, TensorLocationSettings.toDict)
    def setOptimizerLocation(self, location: TensorLocationSettings) -> Self: ...
    @kept("Set where gradient sums are.", "location_accumulator", TensorLocationSettings, TensorLocationSettings.toDict)
    def setAccumulatorLocation(self, location: TensorLocationSettings) -> Self: ...
