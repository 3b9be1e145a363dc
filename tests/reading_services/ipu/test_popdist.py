"""popdist: an instance with the launcher's variables and without, and what its options refuse."""

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reading_services.ipu import Options, popdist
from reading_services.ipu.host.arithmetic import Batching
from reading_services.ipu.popdist.poptorch import Options as PopdistOptions

ROOT = Path(__file__).resolve().parents[3]
GETTERS: dict[str, Callable[[], int]] = {
    name: getattr(popdist, name) for name in popdist.__all__ if name.startswith(("get", "is"))
}


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Instance 3 of `poprun --num-replicas 8 --num-instances 4 --ipus-per-replica 2`."""
    told = {
        "POPDIST_NUM_TOTAL_REPLICAS": "8",
        "POPDIST_NUM_LOCAL_REPLICAS": "2",
        "POPDIST_NUM_IPUS_PER_REPLICA": "2",
        "POPDIST_REPLICA_INDEX_OFFSET": "6",
        "POPDIST_UNIFORM_REPLICAS_PER_INSTANCE": "1",
        "POPDIST_LOCAL_INSTANCE_INDEX": "3",
        "OMPI_COMM_WORLD_SIZE": "4",
        "OMPI_COMM_WORLD_RANK": "3",
    }
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def test_one_instance_without_the_launcher() -> None:
    assert {name: getter() for name, getter in GETTERS.items()} == {
        "isPopdistEnvSet": False,
        "getNumTotalReplicas": 1,
        "getNumLocalReplicas": 1,
        "getNumIpusPerReplica": 1,
        "getNumInstances": 1,
        "getInstanceIndex": 0,
        "getReplicaIndexOffset": 0,
        "getLocalInstanceIndex": 0,
        "getDeviceId": 0,
    }
    assert popdist.checkNumIpusPerReplica(1)
    assert not popdist.checkNumIpusPerReplica(2)
    popdist.init()


@pytest.mark.usefixtures("launched")
def test_an_instance_of_the_launcher() -> None:
    assert {name: getter() for name, getter in GETTERS.items()} == {
        "isPopdistEnvSet": True,
        "getNumTotalReplicas": 8,
        "getNumLocalReplicas": 2,
        "getNumIpusPerReplica": 2,
        "getNumInstances": 4,
        "getInstanceIndex": 3,
        "getReplicaIndexOffset": 6,
        "getLocalInstanceIndex": 3,
        "getDeviceId": 3,
    }
    assert popdist.checkNumIpusPerReplica(2)
    assert not popdist.checkNumIpusPerReplica(1)
    assert popdist.execute_on_instances({1, 3}, divmod, 7, 2) == (3, 1)
    assert popdist.execute_on_instances([0], divmod, 7, 0) is None


def test_uneven_instances_have_no_numbers(launched: pytest.MonkeyPatch) -> None:
    launched.setenv("POPDIST_UNIFORM_REPLICAS_PER_INSTANCE", "0")
    for getter in (popdist.getNumInstances, popdist.getInstanceIndex):
        with pytest.raises(RuntimeError, match="different numbers of replicas"):
            getter()
    assert popdist.getNumLocalReplicas() == 2


def test_a_variable_that_is_no_number_is_named(launched: pytest.MonkeyPatch) -> None:
    launched.setenv("POPDIST_NUM_LOCAL_REPLICAS", "two")
    with pytest.raises(ValueError, match="'two'") as raised:
        popdist.getNumLocalReplicas()
    assert raised.value.__notes__ == ["(from the environment variable POPDIST_NUM_LOCAL_REPLICAS)"]


@pytest.mark.usefixtures("launched")
def test_options_of_an_instance() -> None:
    plain, options = Options(), PopdistOptions(ipus_per_replica=2)
    assert isinstance(options, Options)
    assert (plain.replication_factor, options.replication_factor) == (1, 2)
    assert (plain.Distributed.numProcesses, options.Distributed.numProcesses) == (4, 4)
    assert (plain.Distributed.processId, options.Distributed.processId) == (3, 3)
    assert (options.ipus_per_replica, PopdistOptions().ipus_per_replica, PopdistOptions(2).ipus_per_replica) == (
        2,
        2,
        2,
    )
    assert not options.exists("random_seed")
    assert Batching.of(plain, 32).steps(50_000, drop_last=True) == 390
    assert Batching.of(options, 32).steps(50_000, drop_last=True) == 195
    assert Batching.of(options, 32).combined == 64


def test_options_do_not_look_at_mpis_variables(launched: pytest.MonkeyPatch) -> None:
    launched.setenv("OMPI_COMM_WORLD_SIZE", "9")
    launched.setenv("OMPI_COMM_WORLD_RANK", "8")
    assert PopdistOptions().Distributed.processId == 3
    launched.delenv("POPDIST_NUM_TOTAL_REPLICAS")
    launched.delenv("POPDIST_NUM_LOCAL_REPLICAS")
    launched.delenv("POPDIST_REPLICA_INDEX_OFFSET")
    without = PopdistOptions(ipus_per_replica=4)
    assert (without.replication_factor, without.Distributed.numProcesses, without.Distributed.processId) == (1, 1, 0)


@pytest.mark.usefixtures("launched")
def test_another_number_of_ipus_than_the_launchers_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"is 4 here, and 2 for the launcher"):
        PopdistOptions(4)


@pytest.mark.parametrize("variables", [False, True])
@pytest.mark.parametrize(
    "method",
    [
        "replicationFactor",
        "useIpuId",
        "Distributed.disable",
        "Distributed.setEnvVarNames",
        "Distributed.configureProcessId",
    ],
)
def test_what_the_launcher_decides_cannot_be_set(method: str, variables: bool, request: pytest.FixtureRequest) -> None:
    if variables:
        request.getfixturevalue("launched")
    options = PopdistOptions()
    called: Any = options
    for name in method.split("."):
        called = getattr(called, name)
    assert inspect.getdoc(called)
    for arguments in ((), (2,), ("a", "b"), (1, 2, 3)):
        with pytest.raises(RuntimeError, match=re.escape(f"Cannot call {method} with popdist.poptorch.Options")):
            called(*arguments)
    with pytest.raises(RuntimeError, match="Cannot call"):
        called(wrong=1)


def test_the_number_of_replicas_cannot_be_assigned_either() -> None:
    options = PopdistOptions()
    for change in (
        lambda: setattr(options, "replication_factor", 2),
        lambda: options.set(replication_factor=2),
        lambda: options.createOrSet(replication_factor=2),
    ):
        with pytest.raises(RuntimeError, match="Cannot call replicationFactor with"):
            change()
    assert options.deviceIterations(2).randomSeed(0).enableSyntheticData(True).device_iterations == 2


SUMS = """
import torch
from torch import distributed
from reading_services.ipu import popdist

popdist.init()
popdist.init()
one = torch.tensor([popdist.getInstanceIndex() + 1.0])
distributed.all_reduce(one)
print(distributed.get_world_size(), one.item())
"""


def test_instances_find_each_other(tmp_path: Path) -> None:
    program = tmp_path / "sums.py"
    program.write_text(SUMS, encoding="utf-8")
    command = [sys.executable, "-m", "reading_services.ipu.poprun", "--num-instances", "2", "--num-replicas", "2"]
    ran = subprocess.run(
        [*command, sys.executable, str(program)], cwd=ROOT, capture_output=True, text=True, timeout=500, check=False
    )
    assert sorted(ran.stdout.splitlines()) == ["[1,0]<stdout>:2 3.0", "[1,1]<stdout>:2 3.0"], ran.stderr
    assert ran.returncode == 0


def test_init_tells_where_to_meet_when_nobody_said_it(launched: pytest.MonkeyPatch) -> None:
    for name in ("POPDIST_RENDEZVOUS", "MASTER_ADDR"):
        launched.delenv(name, raising=False)
    with pytest.raises(RuntimeError, match="start the program with poprun"):
        popdist.init()
