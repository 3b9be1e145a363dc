"""One data set for several processes: PopRun and PopDist, on a computer
without an IPU.

``poprun`` starts a program several times, as instances that share the
replicas of a model. torch's loader then reads all data, PopTorch's a
part of it. With PopDist's options it reads a part in steps for all
replicas of its instance. poprun starts this very file.
"""

import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

import reading_services.ipu as poptorch
import reading_services.ipu.popdist as popdist
import reading_services.ipu.popdist.poptorch as popdist_poptorch

REPLICAS, INSTANCES = 8, 4
BATCH_SIZE = 32
INSTANCE = "as-an-instance"


class Cifar10Shaped(Dataset[Any]):
    """50,000 images of 3x32x32 and their labels, made when they are
    asked for; an image is full of its number.
    """

    def __len__(self) -> int:
        return 50_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.full((3, 32, 32), float(index)), int(index) % 10


def main() -> None:
    if sys.argv[1:] == [INSTANCE]:
        a_loader_that_knows_nothing()
        a_loader_that_takes_its_part()
        a_loader_for_all_replicas_of_its_instance()
    else:
        what_the_instances_print()
        what_popdist_has_settled()


# -- the program of an instance ----------------------------------------


def a_loader_that_knows_nothing() -> None:
    """Torch's own: every instance is given all of the data."""
    tell(
        torch.utils.data.DataLoader(
            Cifar10Shaped(), batch_size=BATCH_SIZE, drop_last=True
        )
    )


def a_loader_that_takes_its_part() -> None:
    """PopTorch's: plain options know the four processes, but not their
    replicas.
    """
    tell(
        poptorch.DataLoader(
            poptorch.Options(), Cifar10Shaped(), batch_size=BATCH_SIZE
        )
    )


def a_loader_for_all_replicas_of_its_instance() -> None:
    """With PopDist's options: eight replicas on four instances are two
    for each, and a step is for both.
    """
    options = popdist_poptorch.Options()
    print(
        f"* number of local replicas: {popdist.getNumLocalReplicas()}"
    )
    tell(
        poptorch.DataLoader(
            options, Cifar10Shaped(), batch_size=BATCH_SIZE
        )
    )


def tell(loader: torch.utils.data.DataLoader[Any]) -> None:
    images, _ = next(iter(loader))
    print(f"* dataset size: {len(Cifar10Shaped())}")
    print(f"* dataloader size: {len(loader)}")
    print(f"* batch size: {images.shape[0]}")
    print(f"* first image: {int(images[0, 0, 0, 0])}")


# -- poprun ------------------------------------------------------------


def expected(instance: int) -> list[str]:
    """Return the lines of an instance. The parts of the data are
    blocks, one behind the other.
    """
    return [
        "* dataset size: 50000",
        "* dataloader size: 1562",  # 50,000 // 32
        "* batch size: 32",
        "* first image: 0",
        "* dataset size: 50000",
        "* dataloader size: 390",  # 1562 // 4
        "* batch size: 32",
        f"* first image: {instance * 390 * 32}",
        "* number of local replicas: 2",
        "* dataset size: 50000",
        # Half as many steps, each twice as large.
        "* dataloader size: 195",
        "* batch size: 64",
        f"* first image: {instance * 195 * 64}",
    ]


def what_the_instances_print() -> None:
    """Poprun puts in front of each line which instance it comes from;
    lines of different instances come as they may.
    """
    poprun = [sys.executable, "-m", "reading_services.ipu.poprun"]
    shares = [
        f"--num-replicas={REPLICAS}",
        f"--num-instances={INSTANCES}",
    ]
    program = [sys.executable, str(Path(__file__).resolve()), INSTANCE]
    run = subprocess.run(
        [*poprun, *shares, *program],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=600,
    )
    print(run.stdout)
    told = defaultdict(list)
    for line in run.stdout.splitlines():
        instance, _, text = line.partition("<stdout>:")
        told[instance].append(text)
    assert told == {
        f"[1,{instance}]": expected(instance)
        for instance in range(INSTANCES)
    }


def what_popdist_has_settled() -> None:
    """Show that an option which poprun has set is refused."""
    said = ""
    try:
        popdist_poptorch.Options().replicationFactor(2)
    except RuntimeError as error:
        said = str(error)
    print(f"RuntimeError: {said}")
    assert said.startswith(
        "Cannot call replicationFactor with popdist.poptorch.Options"
    )


if __name__ == "__main__":
    main()
