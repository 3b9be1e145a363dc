"""A graph of pipes that feeds a simulated IPU: any graph, with its
shuffles, workers and exact states.

A device takes many micro-batches in one step. One learns that the graph
says how large a micro-batch is, and the options how many of them make a
step; that the rows of a step are those of the plain graph, in its
order; what becomes of rows that are left over; and how to go on in the
middle of an epoch.
"""

from itertools import chain, islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import reading_services.ipu as poptorch
from datapipes.iter import IterDataPipe
from datapipes.map import SequenceWrapper
from loader2 import DataLoader2
from reading_services import (
    SequentialReadingService,
    ThreadingReadingService,
)

ROWS = 1_000
MICRO_BATCH = 8
EPOCHS = 3

Batch = list[Tensor]


def main() -> None:
    # So small a model is only slowed down by more.
    torch.set_num_threads(1)
    the_same_rows()
    rows_left_over()
    training_on_the_device()
    behind_workers()
    going_on_in_the_middle()


def graph() -> IterDataPipe[Batch]:
    """Points of the plane and what is to be learnt of them, in another
    order each epoch.
    """
    generator = torch.Generator().manual_seed(0)
    points = torch.rand(ROWS, 2, generator=generator)
    data = TensorDataset(
        points, 3 * points[:, :1] - 2 * points[:, 1:] + 1
    )
    rows: IterDataPipe[Any] = (
        SequenceWrapper(data)
        .to_iter_datapipe()
        .shuffle()
        .sharding_filter()
    )
    return rows.batch(MICRO_BATCH).collate()


def options() -> poptorch.Options:
    """4 updates in a step, each of 2 micro-batches on each of 2
    replicas: 16 micro-batches.
    """
    chosen = poptorch.Options().deviceIterations(4).replicationFactor(2)
    chosen.Training.gradientAccumulation(2)
    return chosen


def loader(*front: Any, **arguments: Any) -> DataLoader2[Batch]:
    service = poptorch.IPUReadingService(options(), **arguments)
    return DataLoader2(
        graph(),
        reading_service=SequentialReadingService(*front, service),
    )


def targets_in(batches: Any) -> list[float]:
    return list(
        chain.from_iterable(
            targets.flatten().tolist() for _, targets in batches
        )
    )


def the_same_rows() -> None:
    """A step is 16 batches of the plain graph, one behind the other;
    they are read and laid side by side at once.
    """
    plain: DataLoader2[Batch] = DataLoader2(graph())
    plain.seed(1)
    with loader(drop_last=False) as steps:
        steps.seed(1)
        regrouped = list(steps)
    assert targets_in(regrouped) == targets_in(plain)
    print(
        f"{len(plain)} batches of {MICRO_BATCH} rows are steps of "
        f"{[len(points) for points, _ in regrouped]} rows"
    )


def rows_left_over() -> None:
    """A model is compiled for one size of a step, so by default an
    incomplete one is left out.
    """
    service = poptorch.IPUReadingService(options())
    with DataLoader2(graph(), reading_service=service) as steps:
        assert {len(points) for points, _ in steps} == {
            16 * MICRO_BATCH
        }
        assert isinstance(
            steps.reading_service, poptorch.IPUReadingService
        )
        print(
            f"{len(steps)} whole steps, and "
            f"{steps.reading_service.dropped} rows of {ROWS} left out"
        )
        assert steps.reading_service.dropped == ROWS % (
            16 * MICRO_BATCH
        )


class Model(nn.Module):
    """Two numbers to one; it gives its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 1)

    def forward(self, points: Tensor, targets: Tensor) -> Any:
        out = self.layer(points)
        return out, nn.functional.mse_loss(out, targets)


def training_on_the_device() -> None:
    """The next steps are made in a thread while the device is busy."""
    torch.manual_seed(0)
    model = Model()
    training = poptorch.trainingModel(
        model, options(), torch.optim.SGD(model.parameters(), lr=0.2)
    )
    losses = []
    with loader(mode=poptorch.DataLoaderMode.Async) as steps:
        for epoch in range(EPOCHS):
            steps.seed(epoch)
            losses.append(
                sum(training(*step)[1].mean().item() for step in steps)
                / len(steps)
            )
    print(
        f"loss by epochs: {', '.join(f'{loss:.4f}' for loss in losses)}"
    )
    assert losses == sorted(losses, reverse=True)
    print(f"\n{training.report()}\n")
    training.destroy()


def behind_workers() -> None:
    """Workers make micro-batches, and take turns; what each has left
    over at its end is filled up by the others'.
    """
    with loader(ThreadingReadingService(2), drop_last=False) as steps:
        sizes = [len(points) for points, _ in steps]
    print(f"behind two workers: steps of {sizes} rows")
    assert sum(sizes) == ROWS
    assert set(sizes[:-1]) == {16 * MICRO_BATCH}


def going_on_in_the_middle() -> None:
    """A state is where the user's loop is, however far ahead the thread
    has been.
    """
    with loader(mode=poptorch.DataLoaderMode.Async) as steps:
        steps.seed(2)
        it = iter(steps)
        taken = list(islice(it, 3))
        state = steps.state_dict()
        rest = list(it)
    with loader(mode=poptorch.DataLoaderMode.Async) as resumed:
        resumed.load_state_dict(state)
        again = list(resumed)
    assert targets_in(again) == targets_in(rest)
    print(
        f"{len(taken)} steps, a state, and in another loader the other "
        f"{len(again)}, which are the same"
    )


if __name__ == "__main__":
    main()
