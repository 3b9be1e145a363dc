"""The table of options that hardly anybody here acts upon: their names, types and defaults, and what sets them.

Most are kept for whoever asks, and for the backend's dictionary. A setter is its signature (``values.kept``), or it is
written out where it does more than to keep its argument.
"""

# Setters are declared without bodies, which `kept` gives them.
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
        """The settings themselves."""
        return self._values

    # Its own form of what OptionValues has: a key with its value.
    def set(self, key: str, value: Any) -> Self:  # type: ignore[override]
        """Set one setting, whether or not it was there.

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
        """Add to the dictionary that a setting is."""
        return self.set(key, {**self._values.get(key, {}), **settings})

    def setEngineOptions(self, engine_options: dict[str, Any]) -> Self:
        """Options for the engine; those set before stay."""
        return self.merge("engineOptions", engine_options)

    def setPatterns(self, patterns: dict[str, Any], level: int = 2) -> Self:
        """Patterns that the compiler may use, on top of those of a level."""
        return self.createOrSet(patterns=dict(patterns), patterns_level=level)


def _by_number(proportions: Mapping[str, float]) -> dict[int, float]:
    for name in proportions:
        if not name.startswith("IPU") or not name[3:].isdecimal():
            raise BadArgument(f"a device is named by IPU and its number, as IPU0 is, and not {name!r}")
    return {int(name[3:]): share for name, share in proportions.items()}


class StoredOptions(OptionValues):
    """The part of Options that is about the device's surroundings."""

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

    @kept("When a model takes its device.", kind=ConnectionType, make=attrgetter("value"))
    def connectionType(self, connection_type: ConnectionType) -> Self: ...
    @kept("Which IPUs wait for each other.", kind=SyncPattern, make=attrgetter("value"))
    def syncPattern(self, sync_pattern: SyncPattern) -> Self: ...

    def enableSyntheticData(self, enabled: bool) -> Self:
        """Let the device make its own inputs."""
        if not (self._frozen and old_names.let_pass("Frozen options are changed, for models that are made later")):
            self.checkIsFrozen()
        self._popart.options["syntheticDataMode"] = 2 if enabled else 0
        return self

    @kept("Whether replicas share a model's buffers; else each keeps its own.")
    def broadcastBuffers(self, broadcast_buffers: bool = True) -> Self: ...
    @kept("Whether a number of IPUs that cannot be had is rounded up to one that can.")
    def autoRoundNumIPUs(self, auto_round_num_ipus: bool = True) -> Self: ...
    @kept("Take a certain device.", kind=int)
    def useIpuId(self, ipu_id: int) -> Self: ...
    @kept("Kept: every device is a simulated one here.")
    def useIpuModel(self, use_model: bool) -> Self: ...
    @kept("Whether a model counts its cycles, for ``cycleCount()``.", "_Popart.instrumentWithHardwareCycleCounter")
    def logCycleCount(self, log_cycle_count: bool) -> Self: ...
    @kept("What reports call the model.", "model_name")
    def modelName(self, name: str) -> Self: ...
    @kept("Where logs are written.")
    def logDir(self, log_dir: str) -> Self: ...
    @kept("How often the same message is logged; None is always.", make=lambda n: 2**64 - 1 if n is None else n)
    def maxRepeatLogs(self, max_repeat_logs: int | None) -> Self: ...
    @kept("Whether compiling shows a bar, and is timed.", "_show_compilation_progress_bar")
    def showCompilationProgressBar(self, show: bool = True) -> Self: ...
    @kept("Let an optimiser's attributes that have no effect go without a warning.", "_relax_optimizer_checks")
    def relaxOptimizerAttributesChecks(self, relax: bool = True) -> Self: ...
    @kept("How much of its memory each IPU has for convolutions: ``{'IPU0': 0.5}``.", make=_by_number)
    def setAvailableMemoryProportion(self, available_memory_proportion: Mapping[str, float]) -> Self: ...
    @kept("Whether norms are computed in the slower and more stable way.", "_Popart.enableStableNorm")
    def enableStableNorm(self, enabled: bool) -> Self: ...
    @kept("Buffers that may be changed on a compiled model.", "updatable_named_buffers", make=list)
    def updatableNamedBuffers(self, buffers: Sequence[str]) -> Self: ...
    @kept("Files that are left out when the place of an operation is told.", "source_location_excludes", make=list)
    def sourceLocationExcludes(self, excludes: Sequence[str]) -> Self: ...

    def appendToLocationExcludes(self, *excludes: str) -> Self:
        """More of such files."""
        before = self("source_location_excludes") if self.exists("source_location_excludes") else []
        return self.sourceLocationExcludes([*before, *excludes])

    def disableModuleNamescope(self) -> Self:
        """Leave modules' names out of reports."""
        self._keep("_module_namescope_enabled", False)
        return self

    def useOfflineIpuTarget(self, ipu_version: int = 2) -> Self:
        """Compile only; a model cannot be run then."""
        return self.set(connection_type=ConnectionType.Never.value).createOrSet(ipu_version=ipu_version)

    def enableExecutableCaching(self, path: str | None) -> Self:
        """Keep compiled models in a folder; None keeps none."""
        where = {} if path is None else {"cachePath": path}
        self._popart.createOrSet(**where, enableEngineCaching=path is not None)
        return self

    def enableProfiling(self, profile_dir: str | None = None) -> Self:
        """Write a profile into a folder."""
        where = {} if profile_dir is None else {"autoReport.directory": profile_dir}
        self._popart.setEngineOptions({"autoReport.all": "true", **where})
        return self


class _TrainingOptions(OptionValues):
    """How micro-batches become one weight update."""

    gradient_accumulation = Value(1, at_least=1)
    accumulation_and_replication_reduction_type = Value(ReductionType.Mean)
    meanAccumulationAndReplicationReductionStrategy = Value(MeanReductionStrategy.Post)

    _popart: _PopartOptions

    @kept("How many micro-batches one weight update sums up the gradients of.")
    def gradientAccumulation(self, gradient_accumulation: int) -> Self: ...
    @kept("When a mean is divided; a matter of rounding.", "meanAccumulationAndReplicationReductionStrategy")
    def setMeanAccumulationAndReplicationReductionStrategy(self, strategy: MeanReductionStrategy) -> Self: ...
    @kept("Kept, and not acted upon.", "_Popart.automaticLossScalingSettings.enabled")
    def setAutomaticLossScaling(self, enabled: bool) -> Self: ...

    def accumulationAndReplicationReductionType(self, reduction_type: ReductionType) -> Self:
        """Whether gradients of accumulation steps and replicas are averaged (``Mean``) or summed (``Sum``)."""
        self.checkIsFrozen()
        if not isinstance(reduction_type, ReductionType) or reduction_type == ReductionType.NoReduction:
            raise BadArgument(
                "accumulationAndReplicationReductionType must be set to poptorch.ReductionType.Mean or "
                f"poptorch.ReductionType.Sum, and not to {reduction_type!r}"
            )
        return self.set(accumulation_and_replication_reduction_type=reduction_type)

    def setConvolutionDithering(self, enabled: bool) -> Self:
        """Kept, and not acted upon."""
        self._popart.merge("convolutionOptions", {"enableConvolutionDithering": str(enabled).lower()})
        return self


class _PrecisionOptions(OptionValues):
    """Types of intermediate results, and rounding."""

    _popart: _PopartOptions

    @kept("Whether overflow and NaN stop the device.", "_Popart.enableFloatingPointChecks", bool)
    def enableFloatingPointExceptions(self, enabled: bool) -> Self: ...
    @kept("Whether rounding is by chance.", "_Popart.enableStochasticRounding", bool)
    def enableStochasticRounding(self, enabled: bool) -> Self: ...
    @kept("Whether running means and variances are in float32.", "_Popart.runningStatisticsAlwaysFloat", bool)
    def runningStatisticsAlwaysFloat(self, enabled: bool) -> Self: ...

    def setPartialsType(self, dtype: torch.dtype) -> Self:
        """The type in which convolutions and matrix products sum up: ``torch.float`` or ``torch.half``."""
        word = {torch.float: "float", torch.half: "half"}.get(dtype)
        if word is None:
            raise BadArgument(f"setPartialsType takes torch.float or torch.half, and not {dtype!r}")
        self._popart.set("partialsTypeMatMuls", word).merge("convolutionOptions", {"partialsType": word})
        return self


class _JitOptions(OptionValues):
    """Obsolete: how a model was traced."""

    trace_model = Value(True)

    @kept("Kept, and not acted upon: there is one way in which models are run here.")
    def traceModel(self, trace_model: bool) -> Self: ...


class TensorLocationSettings:
    """Where one kind of tensor is kept.

    >>> TensorLocationSettings().useOnChipStorage(False).minElementsForOffChip(100)
    TensorLocationSettings(minElementsForOffChip=100, onChip=False)
    """

    def __init__(self, **kwargs: Any) -> None:
        self._kept: dict[str, Any] = dict(kwargs)

    @kept("The least number of elements of a tensor that is kept off the chip.", "minElementsForOffChip", int)
    def minElementsForOffChip(self, min_elements: int) -> Self: ...
    @kept("The same for one that replicas share among them.", "minElementsForReplicatedTensorSharding", int)
    def minElementsForReplicatedTensorSharding(self, min_elements: int) -> Self: ...
    @kept("Whether tensors are kept in the chip's own memory.", "onChip", bool)
    def useOnChipStorage(self, use: bool = True) -> Self: ...
    @kept("Whether replicas share tensors among them.", "useReplicatedTensorSharding", bool)
    def useReplicatedTensorSharding(self, use: bool = True) -> Self: ...
    @kept("Whether tiles for input and output load the tensors.", "useIOTilesToLoad", bool)
    def useIOTilesToLoad(self, use: bool = True) -> Self: ...
    @kept("Whether tiles for input and output store the tensors.", "useIOTilesToStore", bool)
    def useIOTilesToStore(self, use: bool = True) -> Self: ...

    def toDict(self) -> dict[str, Any]:
        """What was set."""
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
    """Where weights, activations and the optimiser's tensors are kept."""

    @kept("How many tiles do input and output and nothing else.", "numIOTiles", make=_tiles)
    def numIOTiles(self, num_tiles: int) -> Self: ...
    @kept("Where activations are kept.", "location_activation", TensorLocationSettings, TensorLocationSettings.toDict)
    def setActivationLocation(self, location: TensorLocationSettings) -> Self: ...
    @kept("Where weights are kept.", "location_weight", TensorLocationSettings, TensorLocationSettings.toDict)
    def setWeightLocation(self, location: TensorLocationSettings) -> Self: ...
    @kept(
        "Where the optimiser's state is.", "location_optimizer", TensorLocationSettings, TensorLocationSettings.toDict
    )
    def setOptimizerLocation(self, location: TensorLocationSettings) -> Self: ...
    @kept("Where sums of gradients are.", "location_accumulator", TensorLocationSettings, TensorLocationSettings.toDict)
    def setAccumulatorLocation(self, location: TensorLocationSettings) -> Self: ...
