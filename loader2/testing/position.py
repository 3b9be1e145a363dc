"""Laws of positions: resume, independence, and an order that depends on the seed."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from datapipes.description import structure
from datapipes.iter import Mapper, Prefetcher, Zipper
from datapipes.position import own_generators
from loader2 import DataLoader2
from loader2.testing.comparing import SEED, drawn, must, must_equal, positions, taken
from loader2.testing.specimen import Specimen
from reading_services import InProcessReadingService

END = "the end"

State = dict[str, Any]


@dataclass
class ResumePoint:
    """State, a copy made at once, and the epochs that must follow. The first of them may be partly over."""

    where: str
    state: State
    as_taken: State
    follows: list[list[str]]


def resume(specimen: Specimen) -> None:
    """Check that at every position a restored loader continues like the saved one, and that saving changes nothing."""
    epochs = _uninterrupted(specimen)
    for stops_of in (_stops_of_loader, _chained):
        for stop in stops_of(specimen, epochs):
            must_equal(stop.state, stop.as_taken, f"{stop.where}: the state changed after it was taken")
            loader = _restored(specimen, stop.state)
            for number, expected in enumerate(stop.follows):
                must_equal(taken(iter(loader)), expected, f"{stop.where}: epoch {number} after loading")
            loader.shutdown()
    if _is_iterated_alone(specimen):
        _resume_without_a_loader(specimen)


def _uninterrupted(specimen: Specimen) -> list[list[str]]:
    loader = specimen.loader(seed=SEED)
    epochs = [taken(iter(loader)) for _ in range(3)]
    loader.shutdown()
    return epochs


def _stops_of_loader(specimen: Specimen, epochs: list[list[str]]) -> list[ResumePoint]:
    """Return states of one loader at every position, from before its first epoch into its second."""
    stops: list[ResumePoint] = []
    loader = specimen.loader(seed=SEED)

    def stop(where: str, *follows: list[str]) -> None:
        state = loader.state_dict()
        _must_be_plain(state, "state")
        stops.append(ResumePoint(where, state, copy.deepcopy(state), list(follows)))

    stop("before the first epoch", *epochs[:2])
    for number, elements in enumerate(epochs[:2]):
        iterator = iter(loader)
        done = 0
        for k in positions(specimen, len(elements)):
            must_equal(taken(iterator, k - done), elements[done:k], f"epoch {number} up to {k}, states being taken")
            done = k
            if number == 0 or k in (0, 1, len(elements) // 2):
                stop(f"epoch {number}, after {k} elements", elements[k:], epochs[number + 1])
        must_equal(taken(iterator), elements[done:], f"the end of epoch {number}, states being taken")
        stop(f"epoch {number}, after its end", epochs[number + 1])
    loader.shutdown()
    return stops


def _chained(specimen: Specimen, epochs: list[list[str]]) -> list[ResumePoint]:
    """Take one step in each of a chain of restored loaders, into the next epoch. Return a state at the end."""
    if specimen.stops is not None:
        return []
    loader = specimen.loader(seed=SEED)
    state = loader.state_dict()
    steps: list[str] = []
    for _ in range(len(epochs[0]) + 2):
        loader.shutdown()
        loader = _restored(specimen, state)
        steps += taken(iter(loader), 1) or [END]
        state = loader.state_dict()
    loader.shutdown()
    expected = [*epochs[0], END, *(epochs[1] or [END])][: len(epochs[0]) + 2]
    must_equal(steps, expected, "every step by a loader that was restored from the one before")
    follows = [epochs[1][1:], epochs[2]] if epochs[1] else [epochs[2]]
    return [ResumePoint("after a chain of loaders", state, copy.deepcopy(state), follows)]


def _restored(specimen: Specimen, state: State) -> DataLoader2[Any]:
    """Return a loader over a new graph, restored from a pickled state."""
    loader = specimen.loader()
    loader.load_state_dict(pickle.loads(pickle.dumps(state)))
    return loader


def _resume_without_a_loader(specimen: Specimen) -> None:
    """Check that the iterator of a pipe can be saved and restored as well."""
    whole = taken(_opened(specimen.pipe(), SEED))
    iterator = _opened(specimen.pipe(), SEED)
    states = [(0, iterator.state_dict())]
    for k in positions(specimen, len(whole) + 1):
        must_equal(taken(iterator, k - states[-1][0]), whole[states[-1][0] : k], f"iter(pipe) up to {k}, being saved")
        states.append((k, iterator.state_dict()))
    for k, state in states:
        again = iter(specimen.pipe())
        again.load_state_dict(pickle.loads(pickle.dumps(state)))
        must_equal(taken(again), whole[k:], f"iter(pipe), resumed after {k} elements")


def _must_be_plain(value: object, where: str) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _must_be_plain(key, f"{where}.keys()")
            _must_be_plain(inner, f"{where}[{key!r}]")
    elif isinstance(value, list | tuple):
        for i, inner in enumerate(value):
            _must_be_plain(inner, f"{where}[{i}]")
    plain = (dict, list, tuple, str, bytes, int, float, bool, type(None))
    must(type(value) in plain, f"{where} is not plain data: {type(value).__name__}")


def _is_iterated_alone(specimen: Specimen) -> bool:
    """Return whether to try iterations without a loader as well. A service has no part in them."""
    return specimen.service is None and structure.is_native(specimen.pipe())


def _opened(pipe: Any, seed: int) -> Any:
    """Return a pipe's own iterator, with a seed from torch's default generator."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return iter(pipe)


def independence(specimen: Specimen) -> None:
    """Check that two openings of one graph, read in turn, give the same elements as alone, also in one graph.

    Without a loader, the one that is read first is the first pass over the graph, and the other one the second.
    """
    pipe = specimen.pipe()
    openings: list[Callable[[Any, int], Iterator[Any]]] = [lambda pipe, seed: iter(specimen.loader(pipe, seed))]
    if _is_iterated_alone(specimen) and own_generators.advancing(pipe) is None:
        openings.append(_opened)
    for opening in openings:
        alone = {seed: _one_after_the_other(opening, specimen.pipe(), seed) for seed in (SEED, SEED + 1)}
        if opening is not _opened:
            must_equal(
                [second for _, second in alone.values()], [first for first, _ in alone.values()], "a second loader"
            )
        length = max(len(elements) for both in alone.values() for elements in both)
        for first, second in ((SEED, SEED), (SEED, SEED + 1)):
            leads = [0, 1, length // 2, length]
            for ahead in leads if specimen.thorough else drawn(specimen, leads):
                pipe = specimen.pipe()
                a, b = opening(pipe, first), opening(pipe, second)
                from_a, from_b = taken(a, ahead), []
                for _ in range(length):
                    from_a += taken(a, 1)
                    from_b += taken(b, 1)
                must_equal(from_a, alone[first][0], f"the first of two openings, {ahead} elements ahead")
                must_equal(from_b, alone[second][1], f"the second of two openings, {ahead} elements behind")
    if structure.is_stream(pipe) and not specimen.random:
        loader = DataLoader2(Zipper(pipe, pipe))
        rows = [f"tuple({one}, {one})" for one in taken(iter(DataLoader2(pipe)))]
        must_equal(taken(iter(loader)), rows, "two openings in one graph, zip(pipe, pipe)")


def _one_after_the_other(opening: Callable[[Any, int], Iterator[Any]], pipe: Any, seed: int) -> list[list[str]]:
    return [taken(opening(pipe, seed)) for _ in range(2)]


def same_seed(specimen: Specimen) -> None:
    """Check that the order depends on the seed and the epoch only, and on no stage that is added below the graph."""
    epochs = _uninterrupted(specimen)
    must_equal(_uninterrupted(specimen), epochs, "three epochs with the same seed")
    others = _first_epoch(specimen.loader(seed=SEED + 1))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        unseeded = [_first_epoch(specimen.loader()) for _ in range(2)]
    if specimen.random in ("by seed", "pinned"):
        must(epochs[0] != epochs[1] != epochs[2] != epochs[0], f"epochs are alike: {epochs!s:.200}")
    if specimen.random == "pinned":
        must_equal(_reseeded(specimen), epochs, "three epochs with another seed before each, resumed in each")
        if _is_iterated_alone(specimen) and any(map(_is_seeded, structure.walk(specimen.pipe()))):
            must_equal(_passes(specimen), epochs, "three iterations without a loader, the second one resumed")
    if specimen.random == "by seed":
        must(epochs[0] != others, f"two seeds give one order: {others!s:.200}")
        must(unseeded[0] != unseeded[1], f"two loaders without a seed give one order: {unseeded[0]!s:.200}")
    if not specimen.random:
        must(all(epoch == epochs[0] for epoch in [*epochs, others, *unseeded]), "epochs differ, and nothing is random")
    service = specimen.service
    if specimen.is_as_here:
        must_equal(epochs, _uninterrupted(replace(specimen, service=None)), "three epochs, and those in this process")
    on_top = {
        "a prefetch by the service": DataLoader2(
            specimen.pipe(), reading_service=InProcessReadingService(prefetch_cnt=2) if service is None else service()
        ),
        "a map by an adapter": DataLoader2(
            specimen.pipe(), lambda pipe: Mapper(pipe, _itself), None if service is None else service()
        ),
        "a prefetch by an adapter": DataLoader2(
            specimen.pipe(), lambda pipe: Prefetcher(pipe, 2), None if service is None else service()
        ),
    }
    for what, loader in on_top.items():
        loader.seed(SEED)
        must_equal(_first_epoch(loader), epochs[0], f"with {what} on top")


def _reseeded(specimen: Specimen) -> list[list[str]]:
    """Return three epochs, each with a seed of its own and finished by a loader that was resumed in it."""
    loader = specimen.loader()
    epochs: list[list[str]] = []
    for number in range(3):
        loader.seed(SEED + number)
        begun = taken(iter(loader), 1)
        state = loader.state_dict()
        loader.shutdown()
        loader = _restored(specimen, state)
        epochs.append(begun + taken(iter(loader)))
    loader.shutdown()
    return epochs


def _is_seeded(stage: Any) -> bool:
    return callable(getattr(type(stage), "set_seed", None))


def _passes(specimen: Specimen) -> list[list[str]]:
    """Return three iterations without a loader, the last ones of a new graph."""
    pipe, again = specimen.pipe(), specimen.pipe()
    first, iterator = taken(iter(pipe)), iter(pipe)
    begun, resumed = taken(iterator, 1), iter(again)
    resumed.load_state_dict(pickle.loads(pickle.dumps(iterator.state_dict())))
    return [first, begun + taken(resumed), taken(iter(again))]


def _first_epoch(loader: DataLoader2[Any]) -> list[str]:
    elements = taken(iter(loader))
    loader.shutdown()
    return elements


def _itself(element: Any) -> Any:
    return element
