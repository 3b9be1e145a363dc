"""Every value and method of the options, one row each: what is there at first, what is kept, and what is refused."""

import inspect
from typing import Any

import pytest
import torch

import reading_services.ipu as poptorch
from reading_services.ipu import (
    CommGroupType,
    MeanReductionStrategy,
    Options,
    OutputMode,
    PipelinedExecution,
    ReductionType,
    ShardedExecution,
)

absent = object()
NAMES = {name: getattr(poptorch, name) for name in dir(poptorch)}


def read(options: Options, path: str) -> Any:
    *parts, name = path.split(".")
    owner: Any = options
    for part in parts:
        owner = getattr(owner, part)
    return owner(name) if owner.exists(name) else getattr(owner, name, absent)


def call(options: Options, text: str) -> object:
    """Call what a row says; it leaves torch's generator as it was."""
    with torch.random.fork_rng():
        return eval(f"options.{text}", {**NAMES, "options": options, "torch": torch})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("replication_factor", 1),
        ("input_group_size", 1),
        ("input_cgt", CommGroupType.Consecutive),
        ("device_iterations", 1),
        ("output_mode", 4),
        ("output_return_period", 1),
        ("broadcast_buffers", True),
        ("log_dir", "."),
        ("max_repeat_logs", 4),
        ("auto_round_num_ipus", False),
        ("anchored_tensors", {}),
        ("connection_type", 0),
        ("sync_pattern", 0),
        ("available_memory_proportion", {}),
        ("random_seed", absent),
        ("model_name", absent),
        ("ipu_id", absent),
        ("ipu_version", absent),
        ("use_model", absent),
        ("Training.gradient_accumulation", 1),
        ("Training.accumulation_and_replication_reduction_type", ReductionType.Mean),
        ("Training.meanAccumulationAndReplicationReductionStrategy", MeanReductionStrategy.Post),
        ("Distributed.num_distributed_processes", 1),
        ("Distributed.distributed_process_id", 0),
        ("Distributed.ipuof_configs", {}),
        ("_Popart.options", {"instrumentWithHardwareCycleCounter": False, "rearrangeAnchorsOnHost": False}),
    ],
)
def test_defaults(path: str, value: object) -> None:
    found = read(Options(), path)
    assert found == value
    assert type(found) is type(value)


def test_the_strategy_is_pipelined_at_first() -> None:
    assert type(Options()._execution_strategy) is PipelinedExecution


SETTERS: list[tuple[str, dict[str, object]]] = [
    ("deviceIterations(5)", {"device_iterations": 5}),
    ("replicationFactor(5)", {"replication_factor": 5}),
    (
        "replicationFactor(4).inputReplicaGrouping(2, CommGroupType.Orthogonal)",
        {"input_group_size": 2, "input_cgt": CommGroupType.Orthogonal},
    ),
    (
        "inputReplicaGrouping(7, CommGroupType.NoGrouping)",
        {"input_group_size": 1, "input_cgt": CommGroupType.Consecutive},
    ),
    ("outputMode(OutputMode.All)", {"output_mode": 2, "output_return_period": 1}),
    ("outputMode(OutputMode.EveryN, 3)", {"output_return_period": 3}),
    ("outputMode(OutputMode.Sum, 3)", {"output_return_period": 3}),
    ("enableSyntheticData(True)", {"_Popart.syntheticDataMode": 2}),
    ("enableSyntheticData(False)", {"_Popart.syntheticDataMode": 0}),
    ("connectionType(ConnectionType.Never)", {"connection_type": 2}),
    ("syncPattern(SyncPattern.SinglePipeline)", {"sync_pattern": 1}),
    ("useIpuId(3)", {"ipu_id": 3}),
    ("useOfflineIpuTarget()", {"connection_type": 2, "ipu_version": 2}),
    ("useIpuModel(True)", {"use_model": True}),
    ("autoRoundNumIPUs()", {"auto_round_num_ipus": True}),
    ("broadcastBuffers(False)", {"broadcast_buffers": False}),
    ("logCycleCount(True)", {"_Popart.instrumentWithHardwareCycleCounter": True}),
    ('enableExecutableCaching("here")', {"_Popart.cachePath": "here", "_Popart.enableEngineCaching": True}),
    ("enableExecutableCaching(None)", {"_Popart.enableEngineCaching": False}),
    ('modelName("m")', {"model_name": "m"}),
    ('logDir("there")', {"log_dir": "there"}),
    ("maxRepeatLogs(9)", {"max_repeat_logs": 9}),
    ("maxRepeatLogs(None)", {"max_repeat_logs": 2**64 - 1}),
    ("showCompilationProgressBar(False)", {}),
    ("relaxOptimizerAttributesChecks()", {}),
    ("disableModuleNamescope()", {}),
    ('setAvailableMemoryProportion({"IPU0": 0.5, "IPU12": 0.1})', {"available_memory_proportion": {0: 0.5, 12: 0.1}}),
    ('enableProfiling("p")', {"_Popart.engineOptions": {"autoReport.all": "true", "autoReport.directory": "p"}}),
    ("enableStableNorm(True)", {"_Popart.enableStableNorm": True}),
    ('updatableNamedBuffers(["b"])', {"updatable_named_buffers": ["b"]}),
    ('sourceLocationExcludes(["a"]).appendToLocationExcludes("b", "c")', {"source_location_excludes": ["a", "b", "c"]}),
    ("setExecutionStrategy(ShardedExecution())", {}),
    ("randomSeed(3)", {"random_seed": 3}),
    ("set(device_iterations=2, replication_factor=3)", {"device_iterations": 2}),
    ("createOrSet(mine=[1])", {"mine": [1]}),
    ('deleteIfExists("log_dir").deleteIfExists("nothing")', {"log_dir": absent}),
]
PARTS: list[tuple[str, str, dict[str, object]]] = [
    ("Training", "Training.gradientAccumulation(4)", {"Training.gradient_accumulation": 4}),
    (
        "Training",
        "Training.accumulationAndReplicationReductionType(ReductionType.Sum)",
        {"Training.accumulation_and_replication_reduction_type": ReductionType.Sum},
    ),
    (
        "Training",
        "Training.setMeanAccumulationAndReplicationReductionStrategy(MeanReductionStrategy.Running)",
        {"Training.meanAccumulationAndReplicationReductionStrategy": MeanReductionStrategy.Running},
    ),
    ("Training", "Training.setAutomaticLossScaling(True)", {}),
    ("Training", "Training.setConvolutionDithering(True)", {}),
    (
        "Distributed",
        "Distributed.configureProcessId(2, 5)",
        {"Distributed.processId": 2, "Distributed.numProcesses": 5, "Distributed.num_distributed_processes": 5},
    ),
    (
        "Distributed",
        "Distributed.configureProcessId(2, 5).disable()",
        {"Distributed.processId": 0, "Distributed.numProcesses": 1},
    ),
    ("Distributed", 'Distributed.setEnvVarNames("NOT", "SET")', {"Distributed.numProcesses": 1}),
    ("TensorLocations", "TensorLocations.numIOTiles(64)", {"TensorLocations.numIOTiles": 64}),
    (
        "TensorLocations",
        "TensorLocations.setWeightLocation(TensorLocationSettings().useOnChipStorage(False))",
        {"TensorLocations.location_weight": {"onChip": False}},
    ),
    ("Precision", "Precision.setPartialsType(torch.half)", {"_Popart.partialsTypeMatMuls": "half"}),
    ("Precision", "Precision.setPartialsType(torch.float)", {"_Popart.partialsTypeMatMuls": "float"}),
    ("Precision", "Precision.enableFloatingPointExceptions(True)", {"_Popart.enableFloatingPointChecks": True}),
    ("Precision", "Precision.enableStochasticRounding(True)", {"_Popart.enableStochasticRounding": True}),
    ("Jit", "Jit.traceModel(False)", {"Jit.trace_model": False}),
    ("_Popart", '_Popart.set("defaultPrefetchBufferingDepth", 3)', {"_Popart.defaultPrefetchBufferingDepth": 3}),
    ("_Popart", '_Popart.setEngineOptions({"a": "b"})', {"_Popart.engineOptions": {"a": "b"}}),
    ("_Popart", '_Popart.setPatterns({"p": True}, 1)', {"_Popart.patterns": {"p": True}, "_Popart.patterns_level": 1}),
]


@pytest.mark.parametrize(("text", "kept"), SETTERS)
def test_a_setter_keeps_its_value_and_returns_the_options(text: str, kept: dict[str, object]) -> None:
    options = Options()
    assert call(options, text) is options
    for path, value in kept.items():
        assert read(options, path) == value


@pytest.mark.parametrize(("part", "text", "kept"), PARTS)
def test_a_setter_of_a_part_returns_the_part(part: str, text: str, kept: dict[str, object]) -> None:
    options = Options()
    assert call(options, text) is getattr(options, part)
    for path, value in kept.items():
        assert read(options, path) == value


@pytest.mark.parametrize(
    "part", [Options, *(type(getattr(Options(), part)) for part in sorted({row[0] for row in PARTS}))]
)
def test_each_setter_tells_its_parameters_and_what_it_is_for(part: type) -> None:
    setters = [name for name in dir(part) if not name.startswith("_") and callable(getattr(part, name))]
    assert setters
    for name in setters:
        setter = getattr(part, name)
        assert inspect.getdoc(setter), name
        assert next(iter(inspect.signature(setter).parameters)) == "self", name
    with pytest.raises(TypeError, match="unexpected keyword argument 'nope'"):
        Options().logDir(nope="x")  # type: ignore[call-arg]  # it is to be wrong


@pytest.mark.parametrize("text", [*(row[0] for row in SETTERS), *(row[1] for row in PARTS)])
def test_nothing_can_be_set_on_frozen_options(text: str) -> None:
    options = Options()
    options._freeze()
    before, seed = repr(options), torch.initial_seed()
    with pytest.raises(AttributeError, match="Can't modify frozen Options"):
        call(options, text)
    assert (repr(options), torch.initial_seed()) == (before, seed)
    options._unfreeze()
    call(options, text)


def test_frozen_options_can_still_be_read() -> None:
    options = Options().deviceIterations(2)
    options.checkIsFrozen()
    options._freeze()
    assert (options.device_iterations, options("device_iterations"), options.exists("log_dir")) == (2, 2, True)
    with pytest.raises(AttributeError, match="Can't modify frozen Options"):
        options.checkIsFrozen()
    with pytest.raises(AttributeError, match="Can't modify frozen Options"):
        options.device_iterations = 3
    with pytest.raises(AttributeError, match="Can't modify frozen Options"):
        options.anchorTensor("a", "b")
    assert options.anchored_tensors == {}


def test_flags_that_only_the_device_reads() -> None:
    options = Options().showCompilationProgressBar(False).relaxOptimizerAttributesChecks().disableModuleNamescope()
    assert not options._show_compilation_progress_bar
    assert options._relax_optimizer_checks
    assert not options._module_namescope_enabled
    strategy = ShardedExecution("B1")
    assert options.setExecutionStrategy(strategy)._execution_strategy is strategy


def test_a_bool_passes_for_an_int_and_an_int_is_still_one_afterwards() -> None:
    options = Options().deviceIterations(True)
    assert options.deviceIterations(5).device_iterations == 5


def test_a_value_can_be_assigned() -> None:
    options = Options()
    options.device_iterations = 5
    options.Training.gradient_accumulation = 2
    assert (options.device_iterations, options.Training.gradient_accumulation) == (5, 2)


def test_the_seed_is_torchs_too() -> None:
    with torch.random.fork_rng():
        Options().randomSeed(1234)
        assert torch.initial_seed() == 1234


def test_the_output_mode_is_the_default_until_it_is_chosen() -> None:
    options = Options()
    assert options.defaultOutputMode() is True
    assert options.outputMode(OutputMode.Final).defaultOutputMode() is False


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ((), ["long", True, None, 1]),
        ((OutputMode.All, 5), ["long", False, OutputMode.All, 1]),
        ((OutputMode.EveryN, 5), ["long", False, OutputMode.EveryN, 5]),
    ],
)
def test_anchored_tensors(arguments: tuple[Any, ...], kept: list[object]) -> None:
    options = Options()
    assert call(options, "anchorTensor('nothing', 'is returned')") is None
    options.anchorTensor("short", "long", *arguments)
    assert options.anchored_tensors["short"] == kept


def test_settings_of_the_backend_add_up() -> None:
    options = Options()
    options.enableProfiling()._Popart.setEngineOptions({"a": "b"})
    options.Training.setConvolutionDithering(True)
    options.Precision.setPartialsType(torch.half)
    assert options._Popart.options["engineOptions"] == {"autoReport.all": "true", "a": "b"}
    assert options._Popart.options["convolutionOptions"] == {
        "enableConvolutionDithering": "true",
        "partialsType": "half",
    }
