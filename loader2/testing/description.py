"""Laws about a graph as a value: innocence, pickling, an honest length."""

from __future__ import annotations

import copy
import pickle
import warnings
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import cloudpickle

from datapipes.description import structure
from datapipes.graph import Pipe
from loader2.testing.comparing import SEED, must, must_equal, taken
from loader2.testing.specimen import Specimen


def innocence(specimen: Specimen) -> None:
    """Check that iterating, saving, measuring and printing a graph does not change it."""
    pipe = specimen.pipe()
    before = _portrait(pipe, specimen.memo)
    half = max(1, len(taken(iter(specimen.loader(seed=SEED)))) // 2)

    def must_be_as_before(what: str) -> None:
        must_equal(_portrait(pipe, specimen.memo), before, f"{what} changed the graph")

    loader = specimen.loader(pipe, SEED)
    must_be_as_before("making a loader")
    iterator = iter(loader)
    taken(iterator, half)
    must_be_as_before("iterating half-way")
    loader.state_dict()
    must_be_as_before("saving")
    taken(iterator)
    must_be_as_before("iterating")
    state = loader.state_dict()
    loader.shutdown()
    must_be_as_before("shutting down")
    again = specimen.loader(pipe)
    again.load_state_dict(state)
    taken(iter(again))
    must_be_as_before("resuming")
    if structure.is_native(pipe):
        iterator = iter(pipe)
        taken(iterator, half)
        must_be_as_before("iterating without a loader, half-way")
        iterator.state_dict()
        del iterator
        taken(iter(pipe))
        must_be_as_before("iterating without a loader")
    with warnings.catch_warnings(action="ignore"):
        _length(pipe)
    repr(pipe)
    must_be_as_before("measuring or printing")


def _portrait(pipe: Pipe, memo: frozenset[str]) -> list[Any]:
    """Return the attributes of a graph's stages as plain data that shares no object with the graph."""
    stages = structure.walk(pipe)
    numbers = {id(stage): i for i, stage in enumerate(stages)}
    return [
        (
            repr(stage),
            [(name, _drawn(value, numbers)) for name, value in vars(stage).items() if name not in memo],
        )
        for stage in stages
    ]


def _drawn(value: object, numbers: dict[int, int]) -> Any:
    if id(value) in numbers:
        return "stage", numbers[id(value)]
    if isinstance(value, dict):
        return type(value), [(_drawn(key, numbers), _drawn(inner, numbers)) for key, inner in value.items()]
    if isinstance(value, list | tuple | set | frozenset):
        return type(value), [_drawn(inner, numbers) for inner in value]
    if isinstance(value, type | FunctionType | BuiltinFunctionType | MethodType) or not hasattr(value, "__dict__"):
        return repr(value)
    return type(value), id(value), _drawn(vars(value), numbers)


def pickling(specimen: Specimen) -> None:
    """Check that a pickled or copied graph prints alike and gives the same elements, also while it is iterated."""
    pipe = specimen.pipe()
    loader = specimen.loader(pipe, SEED)
    expected, text = [taken(iter(loader)) for _ in range(2)], repr(pipe)
    loader.shutdown()
    busy = iter(specimen.loader(pipe, SEED))
    taken(busy, len(expected[0]) // 2)
    dumps = pickle.dumps if specimen.by == "pickle" else cloudpickle.dumps
    twins = {
        "pickled": pickle.loads(dumps(pipe)),
        "pickled twice": pickle.loads(dumps(pickle.loads(dumps(pipe)))),
        "deep copied": copy.deepcopy(pipe),
        "copied": copy.copy(pipe),
    }
    for how, twin in twins.items():
        must_equal(repr(twin), text, f"{how}: the print")
        loader = specimen.loader(twin, SEED)
        must_equal([taken(iter(loader)) for _ in range(2)], expected, f"{how}: two epochs")
        loader.shutdown()
    must_equal(repr(pipe), text, "the print of the graph that was pickled")


def honest_len(specimen: Specimen) -> None:
    """Check that the length is the number of elements, or a TypeError. With a warning it may be too large."""
    pipe = specimen.pipe()
    elements = taken(iter(specimen.loader(pipe, SEED)))
    with warnings.catch_warnings(record=True, action="always") as warned:
        length = _length(specimen.loader(pipe) if specimen.regroups else pipe)
    if length is not None:
        must(length == len(elements) or bool(warned and length > len(elements)),
             f"len() is {length}, and there are {len(elements)} elements")  # fmt: skip
    with warnings.catch_warnings(action="ignore"):
        loader = specimen.loader(pipe, SEED)
        must_equal(_length(loader), length, "the length of a loader")
        if length is None and specimen.random == "unknown":
            return  # the number of elements may depend on the seed
        must_equal(len(list(loader)), len(elements), "the number of elements in list(loader)")
        if not specimen.regroups:
            must_equal(len(list(pipe)), len(elements), "the number of elements in list(pipe)")


def _length(sized: Any) -> int | None:
    try:
        return len(sized)
    except TypeError:
        return None
