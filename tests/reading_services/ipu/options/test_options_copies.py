"""Copies of options are independent and not frozen; pickles are as they were; equal settings have equal text."""

import copy
import pickle
import re

import pytest

from reading_services.ipu import CommGroupType, Options, OutputMode, ShardedExecution, Stage
from reading_services.ipu.options import TensorLocationSettings
from reading_services.ipu.popdist.poptorch import Options as PopdistOptions


def settings() -> Options:
    options = Options().deviceIterations(3).replicationFactor(4).inputReplicaGrouping(2, CommGroupType.Orthogonal)
    options.modelName("m").useIpuModel(True).outputMode(OutputMode.EveryN, 3)
    options.setAvailableMemoryProportion({"IPU0": 0.5}).enableSyntheticData(True)
    options.setExecutionStrategy(ShardedExecution(Stage("B1", "B2").ipu(1), "B3"))
    options.Training.gradientAccumulation(5)
    options.Distributed.configureProcessId(1, 2)
    options.TensorLocations.setWeightLocation(TensorLocationSettings().useOnChipStorage(False))
    options.anchorTensor("short", "long")
    return options


@pytest.mark.parametrize("copied", [Options.clone, copy.deepcopy])
@pytest.mark.parametrize("frozen", [False, True])
def test_a_copy_is_independent_and_not_frozen(copied: type[Options], frozen: bool) -> None:
    options = settings()
    if frozen:
        options._freeze()
    other = copied(options)  # type: ignore[call-arg]  # both are functions of options, whatever the parameter's type
    before = repr(options)
    assert repr(other) == before
    other.deviceIterations(9).anchorTensor("another", "one")
    other.Training.gradientAccumulation(9)
    other.Distributed.disable()
    other.Precision.enableStochasticRounding(True)
    other._execution_strategy.stage("B1").ipu(7)
    assert repr(options) == before
    assert other._Popart.options["enableStochasticRounding"] is True
    if frozen:
        with pytest.raises(AttributeError, match="frozen"):
            options.Training.gradientAccumulation(9)


@pytest.mark.parametrize("frozen", [False, True])
def test_a_pickle_is_as_it_was(frozen: bool) -> None:
    options = settings()
    if frozen:
        options._freeze()
    other = pickle.loads(pickle.dumps(options))
    assert repr(other) == repr(options)
    if frozen:
        with pytest.raises(AttributeError, match="Can't modify frozen Options"):
            other.logDir("x")
        with pytest.raises(AttributeError, match="Can't modify frozen Options"):
            other.Precision.enableStochasticRounding(True)
    else:
        other.Precision.enableStochasticRounding(True)
        assert "enableStochasticRounding" in other._Popart.options


def test_text() -> None:
    text = repr(settings())
    assert text == str(settings())
    assert text.startswith("Options(")
    for part in ("Training=", "Distributed=", "TensorLocations=", "Precision=", "Jit=", "_Popart="):
        assert part in text
    for pair in ("replication_factor=4", "device_iterations=3", "gradient_accumulation=5", "model_name='m'"):
        assert pair in text
    assert "ShardedExecution(Stage('B1', 'B2').ipu(1), Stage('B3'))" in text
    assert not re.search(r"0x[0-9a-f]{6}", text)
    assert repr(Options().deviceIterations(2)) != repr(Options())


def test_equal_settings_have_equal_text_in_whatever_order_they_were_made() -> None:
    one = Options().modelName("m").useIpuId(1).setAvailableMemoryProportion({"IPU0": 0.5, "IPU1": 0.6})
    one._Popart.set("a", 1).set("b", 2)
    two = Options().setAvailableMemoryProportion({"IPU1": 0.6, "IPU0": 0.5}).useIpuId(1).modelName("m")
    two._Popart.set("b", 2).set("a", 1)
    assert repr(one) == repr(two)
    assert one != two


def test_everything_in_one_flat_dictionary() -> None:
    options = settings()
    found = options.toDict()
    assert found.pop("compilation_progress_bar_fn") is not None
    assert found == {
        "execution_mode": 1,
        "instrumentWithHardwareCycleCounter": False,
        "rearrangeAnchorsOnHost": False,
        "syntheticDataMode": 2,
        "accumulation_and_replication_reduction_type": options.Training.accumulation_and_replication_reduction_type,
        "meanAccumulationAndReplicationReductionStrategy": 1,
        "gradient_accumulation": 5,
        "num_distributed_processes": 2,
        "distributed_process_id": 1,
        "ipuof_configs": {},
        "location_weight": {"onChip": False},
        **options._values,
    }
    assert found["output_mode"] == OutputMode.EveryN.value
    assert "compilation_progress_bar_fn" not in options.showCompilationProgressBar(False).toDict()
    assert Options().outputMode(OutputMode.All).toDict()["execution_mode"] == 0


def test_a_dictionary_wants_an_output_mode_and_names_of_its_own() -> None:
    options = Options()
    with pytest.raises(AssertionError, match="An output mode must be picked before serialisation"):
        options.toDict()
    options.outputMode(OutputMode.All)._Popart.set("log_dir", "elsewhere")
    with pytest.raises(AssertionError, match="some keys in common: log_dir"):
        options.toDict()


@pytest.mark.parametrize("frozen", [False, True])
def test_options_of_popdist_are_copied_with_their_refusals(frozen: bool) -> None:
    options = PopdistOptions().outputMode(OutputMode.All)
    if frozen:
        options._freeze()
    options.toDict()
    for other in (options.clone(), pickle.loads(pickle.dumps(options))):
        assert type(other) is PopdistOptions
        with pytest.raises(RuntimeError, match="Cannot call replicationFactor"):
            other.replicationFactor(2)
        with pytest.raises(RuntimeError, match=r"Cannot call Distributed\.disable"):
            other.Distributed.disable()
    assert options.clone().deviceIterations(2).device_iterations == 2
    if frozen:
        with pytest.raises(AttributeError, match="frozen"):
            options.deviceIterations(2)
