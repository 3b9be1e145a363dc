"""How batches of a step come about, and what becomes of each part:
PopTorch's batching guide, on a simulated device.

A model on an IPU sees one micro-batch at a time. What a loader hands
over in one step is many of them: for each device iteration, each
accumulation step and each replica. This tutorial shows the way of each
row and of each output. Training with all of that gives the weights of a
training by hand.
"""

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.data import TensorDataset

import reading_services.ipu as poptorch


def main() -> None:
    device_iterations()
    replicas()
    gradient_accumulation()
    all_of_them()
    what_comes_back()
    by_hand()
    loading_beside_the_device()
    how_long_it_would_take()


class Classifier(nn.Module):
    """Ten numbers to four classes; it gives its loss in training."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(10, 4)

    def forward(
        self, x: torch.Tensor, y: torch.Tensor | None = None
    ) -> Any:
        out = self.layer(x)
        return (
            out
            if y is None
            else (out, nn.functional.cross_entropy(out, y))
        )


def samples(count: int) -> TensorDataset:
    torch.manual_seed(0)
    return TensorDataset(
        torch.randn(count, 10), torch.randint(4, (count,))
    )


def step_size(
    title: str, options: poptorch.Options, micro_batch: int, count: int
) -> tuple[int, int]:
    """The rows of a step and the number of steps, for so many "
    "samples."""
    loader = poptorch.DataLoader(
        options, samples(count), batch_size=micro_batch
    )
    rows = [len(x) for x, _ in loader]
    assert rows == [loader.combinedBatchSize] * len(loader)
    print(f"{title}: {len(rows)} steps of {rows[0]} rows")
    return rows[0], len(rows)


# -- how large a step is -----------------------------------------------


def device_iterations() -> None:
    """Make a step of several iterations on the device: each iteration
    is a batch, and an update.
    """
    options = poptorch.Options().deviceIterations(100)
    assert step_size(
        "100 device iterations of 2", options, 2, 10_000
    ) == (200, 50)


def replicas() -> None:
    """Copies of the model, each with rows of its own; their gradients
    are averaged, so one update sees all.
    """
    options = (
        poptorch.Options().deviceIterations(100).replicationFactor(4)
    )
    assert step_size("the same on 4 replicas", options, 2, 100_000) == (
        800,
        125,
    )


def gradient_accumulation() -> None:
    """Micro-batches, one after the other, whose gradients make one
    update.
    """
    options = poptorch.Options().deviceIterations(400)
    options.Training.gradientAccumulation(8)
    assert step_size(
        "8 micro-batches for an update, 400 updates",
        options,
        2,
        100_000,
    ) == (6_400, 15)


def all_of_them() -> None:
    """Rows go to iterations first, then to accumulation steps, then to
    replicas: neighbours share an update.
    """
    options = (
        poptorch.Options()
        .deviceIterations(2)
        .replicationFactor(2)
        .outputMode(poptorch.OutputMode.All)
    )
    options.Training.gradientAccumulation(2)
    model = Classifier()
    model.train()
    training = poptorch.trainingModel(
        model, options, torch.optim.SGD(model.parameters(), lr=0.0)
    )
    rows = torch.eye(8, 10)
    out, losses = training(rows, torch.zeros(8, dtype=torch.long))
    assert out.allclose(model.layer(rows), atol=1e-6), (
        "each row comes back in its place"
    )
    print(
        "8 rows are 2 iterations x 2 accumulated x 2 replicas x 1 "
        f"row: losses {tuple(losses.shape)}"
    )
    assert losses.shape == (8,)
    training.destroy()


# -- what comes back ---------------------------------------------------


def what_comes_back() -> None:
    """In inference everything by default; in training the last of each
    replica, for a loop that only looks at it.
    """
    model = Classifier().eval()
    x = torch.randn(10, 10)
    expected = model(x)
    for mode, want in (
        (poptorch.OutputMode.All, expected),
        (poptorch.OutputMode.Final, expected[-2:]),
        (poptorch.OutputMode.Sum, expected.reshape(5, 2, 4).sum(0)),
    ):
        inference = poptorch.inferenceModel(
            model,
            poptorch.Options().deviceIterations(5).outputMode(mode),
        )
        given = inference(x)
        print(
            f"OutputMode.{mode.name} of 5 iterations of 2 rows: "
            f"{tuple(given.shape)}"
        )
        assert given.allclose(want, atol=1e-6)
    every = (
        poptorch.Options()
        .deviceIterations(4)
        .outputMode(poptorch.OutputMode.EveryN, 2)
    )
    given = poptorch.inferenceModel(model, every)(x[:4])
    assert given.allclose(expected[[1, 3]], atol=1e-6), (
        "the second and the fourth iteration"
    )


def by_hand() -> None:
    """Device iterations, accumulation and replicas change where a sum
    is made, and not what is learnt.
    """
    torch.manual_seed(1)
    ours = Classifier()
    ours.train()
    theirs = copy.deepcopy(ours)
    options = (
        poptorch.Options().deviceIterations(3).replicationFactor(2)
    )
    options.Training.gradientAccumulation(4)
    # 3 updates a step, each of 5 x 4 x 2 rows.
    loader = poptorch.DataLoader(options, samples(480), batch_size=5)
    training = poptorch.trainingModel(
        ours, options, torch.optim.SGD(ours.parameters(), lr=0.1)
    )
    by_hand = torch.optim.SGD(theirs.parameters(), lr=0.1)
    for x, y in loader:
        training(x, y)
        for rows, labels in zip(
            x.split(5 * 4 * 2), y.split(5 * 4 * 2), strict=True
        ):
            by_hand.zero_grad()
            theirs(rows, labels)[1].backward()
            by_hand.step()
    assert ours.layer.weight.allclose(theirs.layer.weight, atol=1e-6)
    print(
        f"{len(loader)} steps of {loader.combinedBatchSize} rows, "
        f"{3 * len(loader)} updates: weights as by hand"
    )
    training.destroy()


# -- loading beside the device -----------------------------------------


class Numbers(torch.utils.data.IterableDataset[torch.Tensor]):
    """A stream that is shared out among workers, one of which has a
    sample more than the other.
    """

    first, step = 0, 1

    def __iter__(self) -> Iterator[torch.Tensor]:
        yield from (
            torch.tensor([float(number)])
            for number in range(self.first, 101, self.step)
        )


def own_part(worker_id: int) -> None:
    """Called in each worker, which has a copy of the data set."""
    info: Any = torch.utils.data.get_worker_info()
    info.dataset.first, info.dataset.step = worker_id, info.num_workers


def loading_beside_the_device() -> None:
    """In Async a process of its own loads the next steps. It joins what
    workers leave over; PopTorch's drops it.
    """
    options, mode = poptorch.Options(), poptorch.DataLoaderMode.Async
    loader = poptorch.DataLoader(
        options,
        Numbers(),
        batch_size=4,
        num_workers=2,
        mode=mode,
        worker_init_fn=own_part,
    )
    numbers = sorted(int(number) for step in loader for number in step)
    loader.terminate()
    print(f"Async: {len(numbers)} of 101 samples in steps of 4")
    assert len(set(numbers)) == len(numbers) == 100

    accessor = poptorch.AsynchronousDataAccessor(
        list(torch.arange(12.0).reshape(4, 3)), buffer_size=2
    )
    epochs = [[step.tolist() for step in accessor] for _ in range(2)]
    accessor.terminate()
    assert (
        epochs == [[[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]] * 2
    ), "whatever gives tensors, epoch by epoch"


def how_long_it_would_take() -> None:
    """The device is simulated, and its time is modelled: the report
    keeps that apart from what was measured here.
    """
    for replication in (1, 4):
        options = (
            poptorch.Options()
            .deviceIterations(50)
            .replicationFactor(replication)
        )
        model = Classifier().eval()
        inference = poptorch.inferenceModel(model, options)
        inference.cost_model = poptorch.CostModel(seconds_per_item=1e-6)
        inference(torch.randn(50 * replication * 16, 10))
        report = inference.report()
        print(f"\n{replication} replicas\n{report}")
        assert 0 < report.utilisation < 1
        assert (
            report.items_per_second < report.synthetic_items_per_second
        )


if __name__ == "__main__":
    main()
