"""Random number generators in users' classes: seeded for each epoch of a loader, saved in plain iterations.

A generator of ``random``, numpy or torch is found on ``self``, and one level down in a list, a tuple, a dict or a
helper object. Its path names it (``rng``, ``augment.rng``, ``rngs[0]``). A generator of several attributes stays one
object and has the first path.

In a loader, a copy of a stage gets generators of its own. Their seeds follow from the seed of the stage, the path and a
digest of the state that the constructor left. The loader computes the digest when it is made, and saves it. In a plain
iteration the copy shares the generators of the pipe, which advance. A position has their states at its start.
"""

from __future__ import annotations

import copy
import random
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, islice
from random import Random, SystemRandom
from types import FunctionType, MethodType, ModuleType
from typing import Any, TypeAlias

import torch

from datapipes.description import structure
from datapipes.description.printing import stage as printed
from datapipes.description.structure import of_class
from datapipes.description.user_code import counted_epoch
from datapipes.elements import decode, encode
from datapipes.errors import StateError
from datapipes.messages.warnings import warn
from datapipes.position.seeds import derive

Origin: TypeAlias = dict[str, int]
"""The start of a stage: a digest of each generator's state by its path, and the attribute ``epoch``."""

States: TypeAlias = dict[str, Any]
"""The states of a stage's generators, by path."""

_LONGEST = 1000  # items; a longer collection is taken for data
_DEEPEST = 3  # levels below an attribute that are searched for generators that cannot be seeded


def found(stage: structure.Pipe) -> dict[str, Any]:
    """Return the generators that a stage holds, by path."""
    by_id: dict[int, tuple[str, Any]] = {}
    for name, value in structure.attributes(stage).items():
        for path, each in ((name, value), *((f"{name}{path}", item) for path, item in _items(value))):
            if _draws(each):
                by_id.setdefault(id(each), (path, each))
    return dict(by_id.values())


def origins_of(stages: Iterable[structure.Pipe]) -> dict[int, Origin]:
    """Return the origins of a loader's stages by place, and warn of generators that cannot be seeded."""
    users = [stage for stage in stages if not structure.is_native(stage) and structure.is_stream(stage)]
    for stage in users:
        _warn_of_hidden(stage)
    numbered = {stage.__dict__.get("_place"): stage for stage in users}  # a stage of an adapter has no place
    return {place: origin for place, stage in numbered.items() if place is not None and (origin := origin_of(stage))}


def origin_of(stage: structure.Pipe) -> Origin:
    """Return digests of the states of a stage's generators by path, and the attribute ``epoch`` if it is counted."""
    epoch = counted_epoch(stage)
    origin = {path: derive(_plain(_state(each))) for path, each in found(stage).items()}
    return origin if epoch is None else {**origin, "epoch": epoch}


def advances(stage: structure.Pipe) -> bool:
    """Return whether a plain iteration uses a stage's generators as they are: the class has no ``set_seed``."""
    is_of_torch = type(stage).__module__.startswith("torch.")
    return not structure.is_native(stage) and not is_of_torch and not callable(getattr(type(stage), "set_seed", None))


def advancing(graph: structure.Pipe) -> structure.Pipe | None:
    """Return the first stage whose generators a plain iteration of a graph advances."""
    return next((stage for stage in structure.walk(graph) if advances(stage) and found(stage)), None)


def seed(stage: structure.Pipe, seed: object, origin: Origin) -> None:
    """Give the copy of a stage generators of its own, seeded."""
    own = {id(each): _seeded(each, derive(seed, path, origin.get(path))) for path, each in found(stage).items()}
    for name, value in list(structure.attributes(stage).items()) if own else ():
        if id(value) not in own and any(id(item) in own for _, item in _items(value)):
            own[id(value)] = _refilled(value, own)
        if id(value) in own:
            structure.set_attribute(stage, name, own[id(value)])


def begin(stage: structure.Pipe, known: States) -> States:
    """Return the states of a stage's generators when a plain iteration begins, or restore the states ``known``."""
    held = found(stage)
    for path, state in known.items():
        if path not in held:
            raise StateError(f"generators: {printed(stage)} holds none at .{path}")
        _set_state(held[path], state, f"{printed(stage)}.{path}")
    return known or {path: _state(each) for path, each in held.items()}


def shares(stage: structure.Pipe, place: int, drawing: dict[int, int]) -> bool:
    """Return whether a class at another place draws from a stage's generators in the same plain iteration."""
    held = found(stage).values() if advances(stage) else ()
    return bool({drawing.setdefault(id(each), place) for each in held} - {place})


def packed(began: dict[int, States], label: str) -> bytes | None:
    """Encode the states of stages' generators, by place. Return None if there are none."""
    some = {place: values for place, values in began.items() if values}
    return encode(some, what=f"the generators of {label}") if some else None


def unpacked(data: object, label: str) -> dict[int, States]:
    """Decode the result of ``packed``. Raise StateError if it is damaged."""
    began = decode(data, what=f"the generators of {label}")
    if not isinstance(began, dict) or not all(
        type(place) is int and type(values) is dict and all(type(path) is str for path in values)
        for place, values in began.items()
    ):
        raise StateError(f"generators: expected values by place and path, found {began!r:.80}")
    return began


def _warn_of_hidden(stage: structure.Pipe) -> None:
    """Warn of generators that a stage holds too deep to be seeded, unless its class has a ``set_seed``."""
    if callable(getattr(type(stage), "set_seed", None)):
        return
    held = set(map(id, found(stage).values()))
    for name, value in structure.attributes(stage).items():
        seeded, level = held, [value]
        for _ in range(_DEEPEST):
            level = list(islice(chain.from_iterable(map(_referred, level)), _LONGEST))
            if hidden := next((each for each in level if _draws(each) and id(each) not in seeded), None):
                warn(
                    f"{printed(stage)} holds a {type(hidden).__name__} deep in .{name}, which no seed of a loader "
                    "reaches, so that it draws the same in each epoch and worker: hold it on self, or give the class "
                    "a method set_seed(seed) that seeds it"
                )
                break
            seeded = set()  # a seeded generator that is also held on a deeper level is not replaced there


def _items(value: Any) -> Iterable[tuple[str, Any]]:
    """Return the items of an attribute one level down, each with the rest of its path."""
    if isinstance(value, list | tuple):
        return ((f"[{i}]", item) for i, item in enumerate(value)) if len(value) <= _LONGEST else ()
    if isinstance(value, dict):
        return ((f"[{key!r}]", item) for key, item in value.items()) if len(value) <= _LONGEST else ()
    if isinstance(value, type | ModuleType | FunctionType | MethodType) or structure.is_pipe(value) or _draws(value):
        return ()
    return ((f".{name}", item) for name, item in structure.attributes(value).items())


def _referred(value: Any) -> Iterator[Any]:
    if isinstance(value, MethodType):
        yield value.__self__
    elif isinstance(value, partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, set | frozenset | deque):
        yield from value
    else:
        yield from (item for _, item in _items(value))


def _refilled(holder: Any, own: dict[int, Any]) -> Any:
    """Copy a collection or a helper object, with generators of its own."""
    items = [own.get(id(item), item) for _, item in _items(holder)]
    if isinstance(holder, tuple):
        return getattr(holder, "_make", type(holder))(items)  # a namedtuple takes its fields one by one
    new = copy.copy(holder)
    if isinstance(holder, list):
        new[:] = items
    elif isinstance(holder, dict):
        new.update(zip(holder, items, strict=True))
    else:
        for name, item in zip(structure.attributes(holder), items, strict=True):
            structure.set_attribute(new, name, item)
    return new


# -- one generator -----------------------------------------------------------------------------------------------------


@of_class
def _kind(cls: type) -> type | None:
    """Return the kind of generator that a class is, or None if it is none or has no state."""
    numpy = sys.modules.get("numpy")
    kinds = (Random, torch.Generator, *(() if numpy is None else (numpy.random.Generator, numpy.random.RandomState)))
    return None if issubclass(cls, SystemRandom) else next((kind for kind in kinds if issubclass(cls, kind)), None)


def _draws(value: object) -> bool:
    """Return whether a value is a generator, and not a global one, which belongs to the program."""
    return (kind := _kind(type(value))) is not None and value is not _global(kind)


def _global(kind: type) -> object:
    if kind is Random:
        return random.random.__self__  # type: ignore[attr-defined]  # a bound method
    if kind is torch.Generator:
        return torch.default_generator
    return getattr(sys.modules["numpy"].random.rand, "__self__", None)


def _is_new_numpy(generator: Any) -> bool:
    return hasattr(generator, "bit_generator")


def _seeded(generator: Any, seed: int) -> Any:
    """Return a seeded generator of the same kind."""
    if isinstance(generator, Random):
        new = type(generator).__new__(type(generator))  # its constructor may take arguments
        vars(new).update(vars(generator))
        new.seed(seed)
        return new
    if isinstance(generator, torch.Generator):
        return torch.Generator(generator.device).manual_seed(seed)
    if _is_new_numpy(generator):
        return type(generator)(type(generator.bit_generator)(seed))
    return type(generator)(seed % 2**32)


def _state(generator: Any) -> Any:
    if isinstance(generator, Random):
        return generator.getstate()
    if _is_new_numpy(generator):
        return generator.bit_generator.state
    return generator.get_state()


def _set_state(generator: Any, state: Any, label: str) -> None:
    try:
        if isinstance(generator, Random):
            generator.setstate(state)
        elif _is_new_numpy(generator):
            generator.bit_generator.state = state
        else:
            generator.set_state(state)
    except Exception as error:
        raise StateError(f"generators: the state saved for {label} does not fit: {error}") from error


def _plain(state: Any) -> Any:
    """Return a state as numbers and text, which print in full and alike in all processes."""
    if isinstance(state, dict):
        return [(name, _plain(value)) for name, value in state.items()]
    if isinstance(state, tuple):
        return [_plain(value) for value in state]
    return state.tolist() if hasattr(state, "tolist") else state
