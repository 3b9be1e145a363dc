"""Specimens of what runs elsewhere: the same graphs in worker processes and in threads, and as steps of a device."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import torch
import torch.utils.data.datapipes.iter as torch_pipes

from datapipes.graph import Pipe
from datapipes.iter import Concater
from reading_services import (
    MultiProcessingReadingService,
    ReadingServiceInterface,
    SequentialReadingService,
    ThreadingReadingService,
)
from reading_services.ipu import DataLoaderMode, IPUReadingService, Options
from tests.specimens.elements import add_ten, up_to
from tests.specimens.specimen import Specimen, Tap, folder, numbers, paths, unseekable

torch_iter: Any = torch_pipes  # typed for sources of torch's own only


def sharded_above(tap: Tap) -> Pipe:
    return tap(numbers(4)).shuffle(buffer_size=3).sharding_filter().map(add_ten)


def sharded_and_batched(tap: Tap) -> Pipe:
    return tap(unseekable(6)).sharding_filter().flatmap(tap.generator(up_to)).batch(2)


def rows(tap: Tap) -> Pipe:
    assert folder().is_dir()
    return tap(paths("a.csv", "b.csv", "c.csv")).sharding_filter().open_files().parse_csv(skip_lines=1)


def forked(tap: Tap) -> Pipe:
    a, b = tap(numbers(4)).sharding_filter().fork(2)
    return a.map(tap.function(add_ten)).zip(b.prefetch(2))


def dispatched(tap: Tap) -> Pipe:
    return tap(numbers(5)).map(add_ten).sharding_round_robin_dispatch().shuffle(buffer_size=2)


def pinned_and_dispatched(tap: Tap) -> Pipe:
    above = tap(numbers(6)).shuffle().set_seed(4).sharding_round_robin_dispatch()
    return above.map(add_ten).shuffle(buffer_size=2).set_seed(4)


def drawn(x: int) -> tuple[int, float]:
    return x, random.random()


def drawing(tap: Tap) -> Pipe:
    return tap(numbers(6)).sharding_filter().map(drawn).shuffle(buffer_size=3)


def pinned(tap: Tap) -> Pipe:
    return tap(numbers(11)).shuffle().set_seed(4).sharding_filter().batch(2).collate()


def micro_batches(tap: Tap) -> Pipe:
    return tap(numbers(15)).shuffle(buffer_size=3).sharding_filter().map(add_ten).batch(2).collate()


def own_micro_batches(tap: Tap) -> Pipe:
    return tap(unseekable(11)).map(tap.function(add_ten)).batch(2).map(torch.tensor)


def demultiplexed_by_torch(tap: Tap) -> Pipe:
    children = torch_iter.Demultiplexer(tap(numbers(6)), 2, abs(1).__and__)
    return Concater(*children).sharding_filter().map(add_ten)


def _processes() -> ReadingServiceInterface:
    return MultiProcessingReadingService(2, "fork", 2, 2, timeout=300)


def _threads() -> ReadingServiceInterface:
    return ThreadingReadingService(2, 2, timeout=300)


def _steps(mode: DataLoaderMode = DataLoaderMode.Sync) -> ReadingServiceInterface:
    return IPUReadingService(Options().deviceIterations(2), mode, {"buffer_size": 2}, drop_last=False)


def _steps_ahead() -> ReadingServiceInterface:
    return _steps(DataLoaderMode.Async)


def _steps_of_threads() -> ReadingServiceInterface:
    return SequentialReadingService(_threads(), _steps_ahead())


# What follows a fault above the sharding depends on the worker: each of them meets it, and the turns are taken anew.
def _services() -> list[Specimen]:
    specimens = []
    for operator, service in (("service.processes", _processes), ("service.threads", _threads)):
        one = partial(
            Specimen,
            operator,
            service=service,
            starts_processes=service is _processes,
            after_fault="otherwise",
        )
        specimens += [
            one("sharded below a shuffle", sharded_above, random="by seed"),
            one("dispatched above a shuffle", dispatched, random="by seed"),
            one("pinned seeds", pinned_and_dispatched, random="pinned"),
        ]
        if service is _processes:  # elsewhere these generators are the program's own
            specimens.append(one("functions that draw", drawing, random="by seed"))
    ipu = partial(Specimen, "service.ipu", regroups=True)
    specimens += [
        ipu("read at once", micro_batches, random="by seed", service=_steps),
        ipu("read at once, ahead", micro_batches, random="by seed", service=_steps_ahead),
        ipu("joined", own_micro_batches, service=_steps),
        ipu("a pinned seed", pinned, random="pinned", service=_steps),
        ipu("joined, ahead", own_micro_batches, service=_steps_ahead),
        ipu("behind threads", micro_batches, random="by seed", service=_steps_of_threads, after_fault="otherwise"),
    ]
    return [
        *specimens,  # processes take their time to start, so that more of them are for threads alone
        one("sharded and batched", sharded_and_batched),
        one("rows of files", rows),
        one("forked", forked),
        one("torch's demux", demultiplexed_by_torch),
    ]


SERVICES = _services()
