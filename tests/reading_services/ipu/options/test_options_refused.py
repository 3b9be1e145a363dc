"""Options that are refused: each row a call, the class of the error and what it says. Nothing is changed by any."""

from typing import Any

import pytest
import torch

import reading_services.ipu as poptorch
from reading_services.ipu import Options

NAMES = {name: getattr(poptorch, name) for name in dir(poptorch)}
NO_MEAN = "must be set to poptorch.ReductionType.Mean or poptorch.ReductionType.Sum"
NO_PERIOD = "must have output_return_period set to valid positive integer"
NO_TILES = r"^numIOTiles must be an even number between 32 and 192\.$"


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        (
            'options.deviceIterations("3")',
            AssertionError,
            rf"^Unexpected type {str} for option device_iterations\. Expected {int}$",
        ),
        (
            "options.deviceIterations(2.0)",
            AssertionError,
            rf"^Unexpected type {float} for option device_iterations\. Expected {int}$",
        ),
        ("options.deviceIterations(0)", ValueError, "device_iterations has to be 1 or more, and not 0"),
        ("options.replicationFactor(-1)", ValueError, "replication_factor has to be 1 or more"),
        ("options.Training.gradientAccumulation(0)", ValueError, "gradient_accumulation has to be 1 or more"),
        ('options.Training.gradientAccumulation("1")', AssertionError, "Unexpected type <class 'str'>"),
        ("options.inputReplicaGrouping(1, CommGroupType.All)", ValueError, "input_group_type cannot be All"),
        ("options.inputReplicaGrouping(4, CommGroupType.Consecutive)", ValueError, "cannot be larger than"),
        ("options.inputReplicaGrouping(2, CommGroupType.Consecutive)", ValueError, "must be a factor of"),
        ("options.inputReplicaGrouping(1)", TypeError, "input_group_type"),
        ("options.Training.accumulationAndReplicationReductionType(ReductionType.NoReduction)", ValueError, NO_MEAN),
        ("options.Training.accumulationAndReplicationReductionType(1)", ValueError, NO_MEAN),
        ('options.outputMode("All")', AssertionError, "OutputMode"),
        ("options.outputMode(2)", AssertionError, "OutputMode"),
        ("options.outputMode(OutputMode.EveryN)", AssertionError, NO_PERIOD),
        ("options.outputMode(OutputMode.EveryN, 0)", AssertionError, NO_PERIOD),
        ("options.enableSyntheticData()", TypeError, "enabled"),
        ('options.randomSeed("1")', AssertionError, "random seed"),
        ("options.setExecutionStrategy(ShardedExecution)", AssertionError, "strategy"),
        ("options.connectionType(0)", AssertionError, "ConnectionType"),
        ('options.syncPattern("Full")', AssertionError, "SyncPattern"),
        ('options.useIpuId("0")', AssertionError, "int"),
        ('options.setAvailableMemoryProportion({"0": 0.5})', AssertionError, "IPU0"),
        ('options.anchorTensor("a", "b", OutputMode.EveryN, 0)', AssertionError, NO_PERIOD),
        ("options.Precision.setPartialsType(torch.int32)", ValueError, "torch.float or torch.half"),
        ("options.Precision.enableFloatingPointExceptions(1)", AssertionError, "True or False"),
        ("options.TensorLocations.numIOTiles(30)", AssertionError, NO_TILES),
        ("options.TensorLocations.numIOTiles(33)", AssertionError, NO_TILES),
        ("options.TensorLocations.numIOTiles(194)", AssertionError, NO_TILES),
        ('options.TensorLocations.numIOTiles("64")', AssertionError, NO_TILES),
        ("options.TensorLocations.setWeightLocation(3)", AssertionError, "TensorLocationSettings"),
        ("options.nope", AttributeError, r"^Invalid attribute nope\.$"),
        ("options.model_name", AttributeError, r"^Invalid attribute model_name\. .*call modelName\(\)"),
        ('options("nope")', AttributeError, r"^Invalid attribute nope\."),
        ("options.set(nope=1)", AssertionError, "^Invalid option nope, valid options are .*device_it"),
        ('setattr(options, "nope", 1)', AssertionError, "^Invalid option nope, valid options are "),
        ('setattr(options, "random_seed", 1)', AssertionError, "^Invalid option random_seed, .*call randomSeed"),
        ('setattr(options, "logDir", "x")', AssertionError, "^Invalid option logDir, .*call logDir"),
        ('setattr(options, "_x", 1)', AttributeError, r"^Invalid private attribute _x\.$"),
        ("options._x", AttributeError, r"^Invalid private attribute _x\.$"),
        ('setattr(options, "Training", options.Training)', AttributeError, "Training cannot be replaced"),
        ('setattr(options.Distributed, "processId", 1)', AttributeError, "processId cannot be replaced"),
        ("options.createOrSet(log_dir=1)", AssertionError, "Unexpected type <class 'int'> for option log_dir"),
    ],
)
def test_a_wrong_call_is_refused(text: str, kind: type[Exception], said: str) -> None:
    options = Options().replicationFactor(3)
    before = repr(options)
    with pytest.raises(kind, match=said):
        eval(text, {**NAMES, "options": options, "torch": torch})
    assert repr(options) == before


def test_several_values_are_set_together_or_not_at_all() -> None:
    options = Options()
    with pytest.raises(AssertionError, match="log_dir"):
        options.set(device_iterations=3, log_dir=1)
    assert options.device_iterations == 1


def test_the_class_of_a_part_can_be_replaced() -> None:
    options = Options()
    kind: Any = type(options.Distributed)
    options.Distributed.__class__ = type("Mine", (kind,), {})
    assert type(options.Distributed).__name__ == "Mine"
    assert options.Distributed.configureProcessId(1, 2).processId == 1
