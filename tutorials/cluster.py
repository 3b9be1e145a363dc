"""The same graph in this process, on a laptop's Ray, and on a cluster
of several machines, one of which is lost.

One learns that a reading service for a cluster changes nothing about
the elements, their order and the states; that a state goes from one to
the other; and what one sees when a machine is gone. All of it runs on
this machine: those of the cluster are processes of Ray's here, bound to
the loopback interface.
"""

import os
import tempfile
import warnings
from threading import Event
from time import monotonic
from typing import Any

os.environ |= {  # before Ray is imported
    # Listen on the loopback interface only.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # Without it, Ray needs no token in the home folder.
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "600",
}

import torch

from datapipes.iter import IterableWrapper, IterDataPipe
from loader2 import DataLoader2
from reading_services import (
    MultiProcessingReadingService,
    RayReadingService,
)

ROWS = 4_000


def graph() -> IterDataPipe[Any]:
    return (
        IterableWrapper(range(ROWS))
        .shuffle()
        .sharding_filter()
        .map(row)
        .batch(8)
    )


def row(number: int) -> torch.Tensor:
    return torch.full((1_000,), number)


def elements(service: Any, do_at_half: Any = None) -> list[Any]:
    """An epoch; something happens in the middle of it."""
    found = []
    with DataLoader2(graph(), reading_service=service) as loader:
        loader.seed(1)
        for batch in loader:
            found.append(numbers(batch))
            if do_at_half is not None and len(found) == ROWS // 16:
                do_at_half()
    return found


def numbers(batch: list[torch.Tensor]) -> list[int]:
    return [int(row[0]) for row in batch]


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="r") as folder:
        # A short name: Ray's sockets lie in it.
        os.environ["RAY_TMPDIR"] = folder
        expected = elements(
            MultiProcessingReadingService(2, "forkserver")
        )
        on_a_laptop(expected)
        on_machines(expected)


def on_a_laptop(expected: list[Any]) -> None:
    """Ray is started for the loader, and ended with it."""
    assert elements(RayReadingService(2)) == expected
    print("On this machine's Ray: the same elements in the same order.")


def on_machines(expected: list[Any]) -> None:
    """Two machines with workers; one of them is lost in the middle of
    an epoch, and its worker goes on on the other.
    """
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "include_dashboard": False},
    )
    machines = [cluster.add_node(num_cpus=2) for _ in range(2)]

    def lose_one() -> None:
        cluster.remove_node(machines[0], allow_graceful=False)
        until = monotonic() + 60
        while (
            sum(node["Alive"] for node in ray.nodes()) == 3
            and monotonic() < until
        ):
            Event().wait(0.1)  # between two questions to Ray

    try:
        # A worker on each machine.
        service = RayReadingService(2, address=cluster.address)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            assert elements(service, lose_one) == expected
        print(
            "On two machines, one of which was lost: the same "
            "elements in the same order."
        )
        for warning in said:
            if issubclass(warning.category, UserWarning):
                print(f"  {warning.message}")
        state, rest = half(
            MultiProcessingReadingService(2, "forkserver")
        )
        with DataLoader2.from_state(
            state, service, datapipe=graph()
        ) as loader:
            assert [numbers(batch) for batch in loader] == rest
        print("A state of worker processes went on in the cluster.")
    finally:
        ray.shutdown()
        cluster.shutdown()


def half(service: Any) -> tuple[dict[str, Any], list[Any]]:
    """A state in the middle of an epoch, and what comes behind it."""
    with DataLoader2(graph(), reading_service=service) as loader:
        loader.seed(1)
        batches = iter(loader)
        for _ in range(ROWS // 16):
            next(batches)
        return loader.state_dict(), [
            numbers(batch) for batch in batches
        ]


if __name__ == "__main__":
    main()
