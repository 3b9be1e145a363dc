"""One data set for several processes: PopRun and PopDist, on a computer without an IPU.

``poprun`` starts a program several times, as instances that share the replicas of a model. One learns what a loader
makes of that: nothing if it is torch's, a part of the data if it is PopTorch's, and a part of the data in steps for all
replicas of its instance if its options are PopDist's. Each step below is this very file, started by poprun.
"""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import torch
from torch.utils.data import Dataset

import reading_services.ipu as poptorch
from reading_services.ipu import popdist

REPLICAS, INSTANCES = 8, 4
BATCH_SIZE = 32


class Cifar10Shaped(Dataset[tuple[torch.Tensor, int]]):
    """50,000 images of 3x32x32 and their labels, made when they are asked for; an image is full of its number."""

    def __len__(self) -> int:
        return 50_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.full((3, 32, 32), float(index)), int(index) % 10


def main() -> None:
    a_loader_that_knows_nothing()
    a_loader_that_takes_its_part()
    a_loader_for_all_replicas_of_its_instance()
    what_popdist_has_settled()


# -- the programs of the instances -------------------------------------------------------------------------------------


def tell(size: int, loader: torch.utils.data.DataLoader[tuple[torch.Tensor, torch.Tensor]]) -> None:
    images, _ = next(iter(loader))
    print(f"* dataset size: {size}")
    print(f"* dataloader size: {len(loader)}")
    print(f"* batch size: {images.shape[0]}")
    print(f"* first image: {int(images[0, 0, 0, 0])}")


def step_1() -> None:
    dataset = Cifar10Shaped()
    tell(len(dataset), torch.utils.data.DataLoader(dataset, batch_size=BATCH_SIZE, drop_last=True))


def step_2() -> None:
    dataset = Cifar10Shaped()
    tell(len(dataset), poptorch.DataLoader(poptorch.Options(), dataset, batch_size=BATCH_SIZE))


def step_3() -> None:
    options = popdist.poptorch.Options()
    print(f"* number of local replicas: {popdist.getNumLocalReplicas()}")
    dataset = Cifar10Shaped()
    tell(len(dataset), poptorch.DataLoader(options, dataset, batch_size=BATCH_SIZE))


# -- what they print ---------------------------------------------------------------------------------------------------


def poprun(step: str) -> list[dict[str, int]]:
    """Run a step as four instances; what each of them prints, by its name."""
    launcher = [sys.executable, "-m", "reading_services.ipu.poprun"]
    replicas = [f"--num-replicas={REPLICAS}", f"--num-instances={INSTANCES}"]
    command = [*launcher, *replicas, sys.executable, str(Path(__file__).resolve()), step]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=45)
    told: dict[int, dict[str, int]] = defaultdict(dict)
    for line in run.stdout.splitlines():
        found = re.fullmatch(r"\[1,(\d+)\]<stdout>:\* (.*): (\d+)", line)
        assert found, f"poprun marks each line with its instance: {line!r}"
        told[int(found[1])][found[2]] = int(found[3])
    print(f"\n{step}:", *sorted(run.stdout.splitlines()), sep="\n  ")
    return [told[instance] for instance in range(INSTANCES)]


def a_loader_that_knows_nothing() -> None:
    """Torch's own: every instance is given all of the data."""
    for told in poprun("step_1"):
        assert told == {"dataset size": 50_000, "dataloader size": 1562, "batch size": 32, "first image": 0}


def a_loader_that_takes_its_part() -> None:
    """PopTorch's: plain options know the four processes, but not their replicas."""
    for instance, told in enumerate(poprun("step_2")):
        first = {"first image": instance * 390 * 32}
        assert told == {"dataset size": 50_000, "dataloader size": 390, "batch size": 32} | first


def a_loader_for_all_replicas_of_its_instance() -> None:
    """PopDist's options: eight replicas on four instances are two for each, and a step is for both."""
    for instance, told in enumerate(poprun("step_3")):
        first = {"number of local replicas": 2, "first image": instance * 195 * 64}
        assert told == {"dataset size": 50_000, "dataloader size": 195, "batch size": 64} | first


def what_popdist_has_settled() -> None:
    """What follows from how poprun was called cannot be set again."""
    said = ""
    try:
        popdist.poptorch.Options().replicationFactor(2)
    except RuntimeError as error:
        said = str(error)
    print(f"\nRuntimeError: {said}")
    assert said == "Cannot call replicationFactor with popdist.poptorch.Options"


if __name__ == "__main__":
    {"step_1": step_1, "step_2": step_2, "step_3": step_3, "main": main}[(sys.argv[1:] or ["main"])[0]]()
