"""The tour behind ``python -m loader2 demo``: load CSV files in two
workers, train, stop in mid-epoch, and resume.

It shows a pipeline, and that a seed determines the order of an epoch,
with or without workers. Training that was interrupted ends with the
same weights, to the last bit, as training that was not. At the end the
same graph feeds a simulated IPU, and a picture shows the modelled time.
"""

import random
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import torch
from torch import Tensor, nn
from tqdm import tqdm

import reading_services.ipu as poptorch
from datapipes.graph import to_text
from datapipes.iter import IterableWrapper, IterDataPipe
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService, SequentialReadingService

ROWS_PER_FILE = 20_000
BATCH_SIZE = 64
WORKERS = 2
# Each worker makes batches of its own files.
BATCHES = WORKERS * -(-2 * ROWS_PER_FILE // WORKERS // BATCH_SIZE)
EPOCHS = 3
STOP_AFTER = 200  # batches of the epoch that is interrupted

Batch = tuple[Tensor, Tensor]


def main() -> None:
    torch.manual_seed(0)  # the first weights of the models
    # More threads would slow so small a model down.
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        paths = [written(Path(folder) / f"part{number}.csv", seed=number) for number in range(2)]
        graph = batches_of(paths)
        drawn = to_text(graph).replace(folder, "...")
        print(f"The graph, its end first:\n\n{drawn}\n")
        trainer = Trainer(graph)
        rows = f"{2 * ROWS_PER_FILE:,} rows"
        print(f"Training on {rows} in batches of {BATCH_SIZE},")
        print(f"made in {WORKERS} worker processes:\n")
        with trainer.loader:  # the workers end with it
            for epoch in range(EPOCHS):
                trainer.loader.seed(epoch)
                trainer.train_epoch(epoch)
            interrupt_and_resume(trainer, graph, Path(folder) / "checkpoint.pt")
        train_on_a_device(graph)


def written(path: Path, seed: int) -> str:
    """Write a CSV file of rows ``x1,x2,y``: y = 3 * x1 - 2 * x2 + 1
    and some noise.
    """
    draw = random.Random(seed)
    with path.open("w") as file:
        for _ in range(ROWS_PER_FILE):
            x1, x2 = draw.uniform(-1, 1), draw.uniform(-1, 1)
            y = 3 * x1 - 2 * x2 + 1 + draw.gauss(0, 0.1)
            file.write(f"{x1:.6f},{x2:.6f},{y:.6f}\n")
    return str(path)


def batches_of(paths: list[str]) -> IterDataPipe[Batch]:
    """Return the graph, which only describes the stream: nothing is
    opened or read here. The workers share the files among them.
    """
    rows = IterableWrapper(paths).shuffle().sharding_filter().open_files().parse_csv()
    return rows.shuffle().map(numbers).batch(BATCH_SIZE).collate(tensors)


def numbers(row: list[str]) -> list[float]:
    return [float(field) for field in row]


def tensors(batch: list[list[float]]) -> Batch:
    table = torch.tensor(batch)
    return table[:, :2], table[:, 2:]


class Trainer:
    """Model, optimizer and loader: the contents of a checkpoint."""

    def __init__(self, graph: IterDataPipe[Batch]) -> None:
        self.model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.loader = DataLoader2(graph, reading_service=MultiProcessingReadingService(num_workers=WORKERS))

    def step(self, batch: Batch) -> float:
        """Run one step of the optimizer. Return the loss before it."""
        inputs, targets = batch
        loss = nn.functional.mse_loss(self.model(inputs), targets)
        self.optimizer.zero_grad()
        # torch's method has no types.
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.item()

    def train_epoch(self, epoch: int) -> None:
        started = perf_counter()
        losses = [self.step(batch) for batch in shown(iter(self.loader), f"epoch {epoch}", BATCHES)]
        speed = 2 * ROWS_PER_FILE / (perf_counter() - started)
        loss = sum(losses) / len(losses)
        print(f"epoch {epoch}: loss {loss:.4f},", end=" ")
        print(f"{speed:,.0f} rows/s with training")

    def checkpoint(self) -> dict[str, object]:
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "loader": self.loader.state_dict(),
        }

    def restore(self, path: Path) -> None:
        saved = torch.load(path)
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.loader.load_state_dict(saved["loader"])


def shown(batches: Iterator[Batch], title: str, total: int) -> Iterator[Batch]:
    """Return the batches with a progress bar in a terminal. A log gets
    no bar.
    """
    bar: Iterator[Batch] = tqdm(
        batches, desc=title, total=total, unit="batch", leave=False, disable=not sys.stderr.isatty()
    )
    return bar


def interrupt_and_resume(trainer: Trainer, graph: IterDataPipe[Batch], path: Path) -> None:
    """Save in mid-epoch, continue twice from there, and compare."""
    trainer.loader.seed(EPOCHS)
    batches = iter(trainer.loader)
    for batch in islice(batches, STOP_AFTER):
        trainer.step(batch)
    torch.save(trainer.checkpoint(), path)
    size = f"{path.stat().st_size / 1024:,.0f} KiB"
    print(f"\nSaved a checkpoint of {size} after batch {STOP_AFTER}", end=" ")
    print(f"of epoch {EPOCHS}.")

    rest = list(batches)
    for batch in rest:
        trainer.step(batch)

    # As in a new process: a new model and a new loader.
    resumed = Trainer(graph)
    with resumed.loader:
        resumed.restore(path)
        restored = list(resumed.loader)
    for batch in restored:
        resumed.step(batch)

    assert len(rest) == len(restored) == BATCHES - STOP_AFTER
    assert all(map(same, rest, restored))
    assert all(map(torch.equal, trainer.model.parameters(), resumed.model.parameters()))
    print("Resumed in a new loader, with new workers:")
    print(f"the {len(restored)} batches that were left are the same", end=" ")
    print("to the last bit,\nand so are the weights after them.")


class DemoModel(nn.Module):
    """Model in the form that a device needs: it returns its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        out = self.layers(inputs)
        return out, nn.functional.mse_loss(out, targets)


def train_on_a_device(graph: IterDataPipe[Batch]) -> None:
    """Train two replicas of a model on a simulated IPU, each on batches
    of its own, with 25 updates a step.
    """
    options = poptorch.Options().deviceIterations(25).replicationFactor(2)
    model = DemoModel()
    training = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.05))
    workers = MultiProcessingReadingService(num_workers=WORKERS)
    steps = poptorch.IPUReadingService(options, mode=poptorch.DataLoaderMode.Async)
    print("\nThe same graph on a simulated IPU, in steps of", end=" ")
    print(f"{2 * 25} batches of {BATCH_SIZE} for 2 replicas:\n")
    losses = []
    with DataLoader2(graph, reading_service=SequentialReadingService(workers, steps)) as loader:
        for epoch in range(EPOCHS):
            loader.seed(epoch)
            of_steps = [training(inputs, targets)[1].mean().item() for inputs, targets in loader]
            losses.append(sum(of_steps) / len(of_steps))
            loss, steps_made = losses[-1], len(of_steps)
            print(f"epoch {epoch}: loss {loss:.4f} in {steps_made} steps")
    assert losses == sorted(losses, reverse=True)
    report = training.report()
    picture = report.timeline().save("demo-timeline.svg")
    print(f"\n{report}\n")
    print(f"A picture of the modelled steps is in {picture.resolve()}.")


def same(one: Batch, other: Batch) -> bool:
    return all(map(torch.equal, one, other))
