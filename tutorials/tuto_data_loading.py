"""How fast must a loader be? The data loading tutorial of PopTorch, on
a simulated device.

A loader makes batches for some replicas of a small classifier, 50
device iterations at a time. It is timed by itself first, by the clock
of this computer. Then what it gives goes to a device that is simulated.
How long it would take to train on IPUs is modelled, and nothing is
computed here (without the line about ``computes``, the model is
trained). If the loader alone is faster than the device on synthetic
data, which come from nowhere, it is not the bottleneck: see
``--synthetic-data`` and ``--replicas``.
"""

import argparse
import os
import sys
import time

import torch
from torch import nn

import reading_services.ipu as poptorch

device_iterations = 50
batch_size = 16
num_workers = 32  # so many, or as many as there are CPUs
dataset_size = 10_000

# Items/s that were published for IPUs, by replicas and by whether data
# were synthetic.
PUBLISHED = {
    (1, True): 33_455,
    (1, False): 21_901,
    (4, True): 136_452,
    (4, False): 36_512,
}


class ClassificationModel(nn.Module):
    """Two convolutions and two linear layers; in training it gives its
    loss as well.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 5, 3)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(5, 12, 5)
        self.norm = nn.GroupNorm(3, 12)
        self.fc1 = nn.Linear(41_772, 100)
        self.fc2 = nn.Linear(100, 10)
        self.log_softmax = nn.LogSoftmax(dim=0)
        self.loss = nn.NLLLoss()

    def forward(
        self, x: torch.Tensor, labels: torch.Tensor | None = None
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        x = self.pool(self.relu(self.conv1(x)))
        x = self.norm(self.relu(self.conv2(x)))
        x = self.relu(self.fc1(torch.flatten(x, start_dim=1)))
        x = self.log_softmax(self.fc2(x))
        return (x, self.loss(x, labels)) if self.training else x


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--synthetic-data",
        dest="synthetic_data",
        action="store_true",
        help="leave out the loading",
    )
    parser.add_argument(
        "--replicas", type=int, default=1, help="copies of the model"
    )
    args = parser.parse_args(arguments)
    cpus = len(os.sched_getaffinity(0))
    replicas, workers = args.replicas, min(num_workers, cpus)
    # For the simulation; the rest is for the workers.
    torch.set_num_threads(max(1, cpus // 2))

    # Options are frozen by the loader and the model that are given
    # them, so all of them are set here.
    opts = poptorch.Options()
    opts.deviceIterations(device_iterations)
    opts.replicationFactor(replicas)
    if args.synthetic_data:
        opts.enableSyntheticData(True)
        print(
            "SYNTHETIC DATA: the IPU throughput below leaves out all "
            "input and output."
        )
    print(
        f"mini-batch size: {batch_size}\n",
        f"replication factor: {replicas}\n",
        f"device-iterations: {device_iterations}\n",
        f"workers: {workers}\n",
        f"--> Global batch size: {replicas * batch_size}",
    )

    features = torch.randn([dataset_size, 1, 128, 128])
    labels = torch.empty([dataset_size], dtype=torch.long).random_(10)
    dataset = torch.utils.data.TensorDataset(features, labels)
    print("Dataset size: ", len(dataset))

    loader = poptorch.DataLoader(
        opts,
        dataset,
        batch_size=batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        mode=poptorch.DataLoaderMode.Async,
        async_options={"early_preload": True},
    )
    steps, step_items = (
        len(loader),
        device_iterations * batch_size * replicas,
    )
    assert steps == dataset_size // step_items, (
        "what does not fill a step is left out"
    )

    print(f"Evaluating Dataloader:  {steps} steps")
    begun = time.perf_counter()
    for data, labels in loader:
        assert data.shape == (step_items, 1, 128, 128)
        assert labels.shape == (step_items,)
    loading = time.perf_counter() - begun
    print(f"Total execution Time: {loading:.2f} s")
    print(
        f"DataLoader throughput: {steps * step_items / loading:.2f} "
        "items/s"
    )

    model = ClassificationModel()
    # What the device runs is settled when the model is wrapped.
    model.train()
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.001, momentum=0.9
    )
    training_model = poptorch.trainingModel(model, opts, optimizer)
    # This is about time, which is modelled, and not about the weights.
    training_model.computes = False
    print("Compiling + Warmup ...")
    training_model.compile(data, labels)

    print(f"Evaluating:  {steps} steps of  {step_items}  items")
    if args.synthetic_data:
        for _ in range(steps):
            training_model(data, labels)
    else:
        for data, labels in loader:
            training_model(data, labels)
    loader.terminate()

    report = training_model.report()
    sys.stdout.flush()
    print(
        "The time and the throughput of the IPU that follow are "
        f"modelled, not measured:\n{report}",
        file=sys.stderr,
    )
    print(f"Total execution Time: {report.total('wall'):.2f} s")
    print(
        f"IPU throughput: {report.items_per_second:.2f} items/s",
        flush=True,
    )
    assert report.total("items") == steps * step_items
    if published := PUBLISHED.get((replicas, args.synthetic_data)):
        assert abs(report.items_per_second / published - 1) < 0.1, (
            "the model follows the figures of real IPUs"
        )


if __name__ == "__main__":
    main()
