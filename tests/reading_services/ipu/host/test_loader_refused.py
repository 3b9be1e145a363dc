"""Arguments that a DataLoader refuses, with which error, and its warnings, in the log."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest
import torch
from torch.utils.data import TensorDataset

import reading_services.ipu as poptorch
from datapipes.iter import IterableWrapper
from reading_services.ipu import DataLoaderMode, Options
from tests.reading_services.ipu.host.datasets import Numbers, Stream
from tests.reading_services.ipu.host.test_loader import loader
from tests.reading_services.ipu.host.test_loader_steps import Uneven

SYNC, ASYNC, REBATCHED = DataLoaderMode


class NoLength:
    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(index)


@pytest.mark.parametrize(
    ("dataset", "arguments", "error", "text"),
    [
        (Numbers(4), {"batch_sampler": [[0]], "batch_size": 2}, poptorch.Error,
         r"`batch_sampler` option is mutually exclusive with batch_size, shuffle\."),
        (Numbers(4), {"batch_sampler": [[0]], "shuffle": True}, poptorch.Error, "mutually exclusive"),
        (Stream(9), {"batch_size": 4, "mode": REBATCHED, "rebatched_worker_size": 5}, AssertionError,
         "rebatched_worker_size=5 .* <= the combined batch size, 4"),
        (Stream(9), {"batch_size": 4, "mode": REBATCHED, "async_options": {"rebatched_size": 2}}, AssertionError,
         "in combination with AsyncRebatched"),
        (Stream(9), {"mode": REBATCHED}, AssertionError, "must be None or greater than 1"),
        (Numbers(4), {"mode": ASYNC, "async_options": {"buffers": 3}}, TypeError, "buffers"),
        (Numbers(4), {"batch_size": None}, ValueError, "batch_size=None option disables auto-batching"),
        (Stream(9), {"shuffle": True}, ValueError, "expected unspecified shuffle option"),
        (Stream(9), {"sampler": range(3)}, ValueError, "expected unspecified sampler option"),
        (NoLength(), {"drop_last": False}, TypeError, r"has no len\(\)"),
        (NoLength(), {"shuffle": True}, TypeError, r"has no len\(\)"),
    ],
)  # fmt: skip
def test_refused(dataset: Any, arguments: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        poptorch.DataLoader(Options(), dataset, **arguments)


@pytest.mark.parametrize("options", [None, {}, Options])
def test_options_come_first(options: Any) -> None:
    with pytest.raises(AssertionError, match=r"poptorch\.Options"):
        poptorch.DataLoader(options, Numbers(3))


def test_options_are_frozen_by_a_loader() -> None:
    options = Options()
    poptorch.DataLoader(options, Numbers(3))
    with pytest.raises(AttributeError, match="Can't modify frozen Options"):
        options.deviceIterations(2)


@pytest.mark.parametrize(
    ("dataset", "arguments", "text"),
    [
        (Numbers(10), {"batch_size": 4, "drop_last": False}, "last tensor will have batch size 2"),
        (Numbers(10), {"batch_sampler": Uneven(), "drop_last": False}, "last tensor will have 2 rows"),
        (Numbers(10), {"batch_sampler": Uneven(with_length=False), "drop_last": False}, "length .* is not implemented"),
        (Stream(10), {"num_workers": 2}, "will be returned 2 times"),
    ],
)
def test_warned_of(dataset: Any, arguments: Any, text: str, caplog: pytest.LogCaptureFixture) -> None:
    options = Options().deviceIterations(3 if "batch_sampler" in arguments else 1)
    with loader(dataset, options=options, **arguments):
        pass
    assert [(record.name, record.levelno) for record in caplog.records] == [("poptorch::python", logging.WARNING)]
    assert re.search(text, caplog.text)


@pytest.mark.parametrize(
    ("dataset", "arguments"),
    [
        (Numbers(10), {"batch_size": 4}),
        (Numbers(8), {"batch_size": 4, "drop_last": False}),
        (Numbers(10), {"batch_sampler": Uneven()}),
        (Stream(10), {"num_workers": 2, "worker_init_fn": print}),
        (Stream(10), {"num_workers": 1}),
        (IterableWrapper(range(10)).sharding_filter(), {"num_workers": 2}),
        (TensorDataset(torch.arange(10)), {"num_workers": 2}),
    ],
)
def test_not_warned_of(dataset: Any, arguments: Any, caplog: pytest.LogCaptureFixture) -> None:
    with loader(dataset, **arguments):
        pass
    assert not caplog.records
