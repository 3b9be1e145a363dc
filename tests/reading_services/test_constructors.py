"""Constructors of the services with workers: their parameters are in order, described and checked."""

from __future__ import annotations

from inspect import Parameter, signature
from typing import Any

import pytest

from datapipes.description.parameters import described
from datapipes.errors import BadArgument, BadArgumentType
from reading_services import MultiProcessingReadingService, RayReadingService, ThreadingReadingService

FUNCTIONS = ("worker_init_fn", "worker_reset_fn")
POSITIONAL = {
    MultiProcessingReadingService: (
        *("num_workers", "multiprocessing_context", "worker_prefetch_cnt", "main_prefetch_cnt"),
        *FUNCTIONS,
    ),
    ThreadingReadingService: ("num_workers", "prefetch_cnt", *FUNCTIONS),
    RayReadingService: ("num_workers",),
}


@pytest.mark.parametrize("service", POSITIONAL)
def test_the_positional_parameters_keep_their_order_and_all_are_described(service: Any) -> None:
    parameters = signature(service).parameters
    assert (
        tuple(p.name for p in parameters.values() if p.kind is Parameter.POSITIONAL_OR_KEYWORD) == POSITIONAL[service]
    )
    assert {"in_order", "timeout", "restart", "on_death"} < {*parameters}
    assert list(described(service.__doc__)) == list(parameters)


@pytest.mark.parametrize("service", POSITIONAL)
@pytest.mark.parametrize("name", ["num_workers", "prefetch_cnt", "worker_prefetch_cnt", "main_prefetch_cnt", "restart"])
def test_a_number_that_is_too_small_or_no_number_is_refused(service: Any, name: str) -> None:
    if name not in signature(service).parameters:
        return
    with pytest.raises(BadArgument, match=rf"{service.__name__}\({name}=-1\): it must be at least [01]"):
        service(**{"num_workers": 1, name: -1})
    with pytest.raises(BadArgumentType, match=f"{name} is a whole number"):
        service(**{"num_workers": 1, name: None})
    assert vars(service(**{"num_workers": 1, name: 2.0}))[name] == 2


def test_none_is_a_value_where_it_is_the_default() -> None:
    assert MultiProcessingReadingService(1, arena_bytes=None).arena_bytes is None
    with pytest.raises(BadArgument, match=r"arena_bytes=0\): it must be at least 1"):
        MultiProcessingReadingService(1, arena_bytes=0)
