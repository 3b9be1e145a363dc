"""State that a user's plain class keeps on ``self`` from one epoch to the next.

In a session such a class works on a copy of its own. When the session is closed, whatever way the epoch ended, the
numbers and other values that the class has bound to its attributes, and where its generators of random numbers are, go
to the pipe that the copy was made of, out of sight: what the constructor has set stays to be seen there. The next
session on that pipe begins with them. Of two sessions at once neither sees the other, and the one that is closed last
has the say. A loader, and each worker, has pipes of its own, which begin with what was kept until they were made.

What a class had when the epoch began is part of its position, because a replay begins there. Values that a saved state
may hold can be saved, and the generators of ``random``, ``numpy.random`` and torch; of anything else, and of what is
large, the state says by a warning that it is missing. Pipes and iterators are not kept. What a class changes in place
is shared by all that refer to it, and neither kept nor saved.
"""

from __future__ import annotations

import copy
import sys
from collections import deque
from collections.abc import Callable, Container, Iterator
from random import Random, SystemRandom
from typing import Any, Final, TypeAlias

import torch

from datapipes.description import structure
from datapipes.description.printing import stage as printed
from datapipes.description.structure import is_native_class, is_stream_class, of_class
from datapipes.description.user_iter import FRESH, KEPT, PINNED, RUN
from datapipes.elements import decode, encode
from datapipes.errors import StateError, UnsavableElement
from datapipes.messages.warnings import warn

KeptValues: TypeAlias = dict[str, tuple[str, Any]]
"""By name of an attribute: ``VALUE`` and the value, or the kind of a generator and where it is."""

HIDDEN: Final = frozenset(
    {"_place", RUN, FRESH, PINNED, "_opened_as", KEPT}
    | {"_valid_iterator_id", "_number_of_samples_yielded", "_snapshot_state", "_fast_forward_iterator"}
)
"""The library's own attributes of a copy, and torch's."""

VALUE: Final = "value"

LARGEST_BUFFER: Final = 1000  # items; a longer collection is data
_LARGEST: Final = 1 << 16  # bytes of one value in a state
_BIT_GENERATORS: Final = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")


class Kept:
    """The values that one stage has kept; copies of a pipe share them."""

    def __init__(self, values: KeptValues | None = None) -> None:
        self.values: KeptValues = {} if values is None else values
        self.beside: dict[str, Any] = {}  # what the pipe itself had when it was opened last

    def forget(self, rebound: Container[str]) -> None:
        """Forget the state of generators, and these attributes: their user has just set them."""
        self.values = {name: each for name, each in self.values.items() if each[0] == VALUE and name not in rebound}

    def __getstate__(self) -> dict[str, Any]:
        # A pipe can be pickled and copied whatever its class has kept: what no state could hold stays behind.
        return {"values": {name: entry for name, entry in self.values.items() if _is_savable(*entry)}, "beside": {}}


@of_class
def _keeps(cls: type) -> bool:
    """Whether a class keeps on ``self`` what it needs, and does not say what that is."""
    says = callable(getattr(cls, "state_dict", None)) and callable(getattr(cls, "load_state_dict", None))
    is_of_torch = cls.__module__.startswith("torch.")
    return is_stream_class(cls) and not is_native_class(cls) and not says and not is_of_torch


def keeps(pipe: structure.Pipe) -> bool:
    """Whether a stage is of a class that keeps on ``self`` what it needs, and does not say what that is."""
    return _keeps(type(pipe))


def prepare(graph: structure.Pipe, anew: bool = False) -> None:
    """Give each stage that keeps something a ``Kept``; ``anew``: apart from that of the pipe it is a copy of."""
    for stage in structure.walk(graph):
        if _keeps(type(stage)) and (anew or KEPT not in vars(stage)):
            stage.__dict__[KEPT] = Kept(dict(kept_by(stage)))


def hand_over(graph: structure.Pipe, to: structure.Pipe) -> None:
    """Give the stages of a copy of a graph what those of the graph have kept, by place."""
    homes = keeping(to)
    for place, stage in keeping(graph).items():
        kept, home = vars(stage)[KEPT], vars(homes[place])[KEPT]
        home.values, home.beside = dict(kept.values), kept.beside


def kept_by(stage: structure.Pipe) -> KeptValues:
    """The values that a stage begins with."""
    kept = vars(stage).get(KEPT)
    return kept.values if isinstance(kept, Kept) else {}


def keep(stage: structure.Pipe, values: KeptValues) -> None:
    """Have a stage begin with these values."""
    stage.__dict__[KEPT].values = values


def at_opening(stage: structure.Pipe) -> KeptValues:
    """The values that a class begins an epoch with: those kept, unless its user has assigned others since then."""
    kept = vars(stage)[KEPT]
    now = {name: _mark(value) for name, value in structure.attributes(stage).items() if name not in HIDDEN}
    before, kept.beside = kept.beside, now
    same = {name: each for name, each in kept.values.items() if _is_same(before.get(name), now.get(name))}
    return {**generators(stage), **same}


def begin(stage: structure.Pipe, values: KeptValues) -> None:
    """Give a copy what its class had kept, and generators of its own."""
    for name, value in list(structure.attributes(stage).items()):
        if draws(value):
            structure.set_attribute(stage, name, copied(value))
    for name, (kind, value) in values.items():
        if kind == VALUE:
            structure.set_attribute(stage, name, _own(value))
        else:
            generator = structure.attributes(stage).get(name)
            if generator is None or kind_of(generator) != kind:
                generator = _made(kind, value)
                structure.set_attribute(stage, name, generator)
            _set_state(kind, generator, value)


def changes(stage: structure.Pipe, before: dict[str, Any]) -> KeptValues:
    """Attributes that a copy has newly bound on ``self``, and the state of its generators."""
    if not keeps(stage):
        return {}  # one of ours says by itself what it keeps
    found = generators(stage)
    for name, value in structure.attributes(stage).items():
        is_new = value is not before.get(name, before) and name not in found
        if is_new and name not in HIDDEN and _may_be_kept(value):
            found[name] = VALUE, value
    return found


def generators(stage: structure.Pipe) -> KeptValues:
    """State of the generators of random numbers on ``self``."""
    kinds = {name: (kind_of(value), value) for name, value in structure.attributes(stage).items() if draws(value)}
    return {name: (kind, _state_of(kind, value)) for name, (kind, value) in kinds.items() if kind is not None}


def _mark(value: Any) -> Any:
    """A mark by which a value is known again; for a generator, its state."""
    kind = kind_of(value) if draws(value) else None
    return value if kind is None else (kind, encode([_state_of(kind, value)], what=""))  # a repr would be abridged


def _is_same(before: Any, now: Any) -> bool:
    return before is None or before is now or (type(before) is tuple and before == now)


def _is_savable(kind: str, value: object) -> bool:
    try:
        return kind != VALUE or len(encode([value], what="")) <= _LARGEST
    except UnsavableElement:
        return False


def packed(stage: structure.Pipe, values: KeptValues, tell: Callable[[str], None] = warn) -> bytes:
    """Encode the values that a stage has kept; those that cannot be saved are left out with a warning."""
    saved: KeptValues = {}
    for name, (kind, value) in values.items():
        what = f"what {printed(stage)} keeps in .{name}"
        try:
            is_large = isinstance(value, list | dict | set | deque) and len(value) > LARGEST_BUFFER
            if is_large or len(encode([value], what=what)) > _LARGEST:
                raise UnsavableElement(f"{what} is too large")
        except UnsavableElement as error:
            tell(f"{error}; it is no part of the state, and a resume begins with what the constructor sets")
        else:
            saved[name] = kind, value
    return encode(saved, what=f"what {printed(stage)} keeps")


def unpacked(data: object, label: str) -> KeptValues:
    """Decode the values that ``packed`` made these bytes of."""
    values = decode(data, what=f"what {label} keeps")
    if not isinstance(values, dict) or not all(
        type(name) is str and type(entry) is tuple and len(entry) == 2 and type(entry[0]) is str
        for name, entry in values.items()
    ):
        raise StateError(f"what {label} keeps: expected values by name, found {values!r:.80}")
    return values


def table_of(graph: structure.Pipe) -> dict[int, Any]:
    """Table of the values that stages keep between two epochs, by place, as a state holds it."""
    stages = [stage for stage in structure.walk(graph) if keeps(stage) and kept_by(stage)]
    return {structure.place_of(stage): {"kept": packed(stage, kept_by(stage))} for stage in stages}


def load(graph: structure.Pipe, saved: dict[int, Any]) -> None:
    """Load the values that the stages of a graph keep from a state."""
    prepare(graph)
    fill(keeping(graph), {place: entry["kept"] for place, entry in saved.items()})


def keeping(graph: structure.Pipe) -> dict[int, structure.Pipe]:
    """The stages of a graph that keep something, by place."""
    return {structure.place_of(stage): stage for stage in structure.walk(graph) if keeps(stage)}


def fill(stages: dict[int, structure.Pipe], saved: dict[int, Any]) -> None:
    """Load packed values into stages, by place."""
    for place, data in saved.items():
        if place not in stages:
            raise StateError(f"cells: stage {place} keeps nothing in this graph")
        keep(stages[place], unpacked(data, printed(stages[place])))


def _may_be_kept(value: object) -> bool:
    return not isinstance(value, Iterator) and next(structure.pipes_in(value), None) is None


def _own(value: Any) -> Any:
    """A small collection as the session's own, so that what was kept stays as it was."""
    is_small = type(value) in (list, dict, set, deque) and len(value) <= LARGEST_BUFFER
    return copy.deepcopy(value) if is_small and _is_savable(VALUE, value) else value


# -- generators of random numbers --------------------------------------------------------------------------------------


def draws(value: object) -> bool:
    """Whether a value is a generator of random numbers."""
    if isinstance(value, Random):
        return not isinstance(value, SystemRandom)  # which has no state
    return isinstance(value, torch.Generator) or type(value).__module__.startswith("numpy.random")


def copied(generator: Any) -> Any:
    """Copy a generator, with its state."""
    if not isinstance(generator, Random):
        return copy.deepcopy(generator)
    new = type(generator).__new__(type(generator))  # copy.deepcopy() would call its constructor, without arguments
    vars(new).update(vars(generator))
    new.setstate(generator.getstate())
    return new


def kind_of(generator: object) -> str | None:
    """The kind of generator whose state can be kept; None for any other value."""
    if isinstance(generator, Random):
        return "random.Random"
    if isinstance(generator, torch.Generator):
        return "torch.Generator"
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(generator, numpy.random.Generator):
        return "numpy.random.Generator"
    if numpy is not None and isinstance(generator, numpy.random.RandomState):
        return "numpy.random.RandomState"
    return None


def _state_of(kind: str, generator: Any) -> Any:
    match kind:
        case "random.Random":
            return generator.getstate()
        case "torch.Generator":
            return generator.get_state()
        case "numpy.random.Generator":
            return generator.bit_generator.state
    return generator.get_state()


def _set_state(kind: str, generator: Any, state: Any) -> None:
    try:
        match kind:
            case "random.Random":
                generator.setstate(state)
            case "torch.Generator":
                generator.set_state(state)
            case "numpy.random.Generator":
                generator.bit_generator.state = state
            case _:
                generator.set_state(state)
    except Exception as error:
        raise StateError(f"the position of a {kind} does not fit: {error}") from error


def _made(kind: str, state: Any) -> Any:
    """A generator for an attribute that the constructor does not set."""
    match kind:
        case "random.Random":
            return Random()
        case "torch.Generator":
            return torch.Generator()
        case "numpy.random.Generator" | "numpy.random.RandomState":
            import numpy

            if kind.endswith("RandomState"):
                return numpy.random.RandomState()
            name = state.get("bit_generator") if isinstance(state, dict) else None
            if name in _BIT_GENERATORS:
                return numpy.random.Generator(getattr(numpy.random, name)())
    raise StateError(f"expected a generator of random numbers, found the position of a {kind!r:.80}")
