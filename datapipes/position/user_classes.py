"""Users' own classes, and torch's: stages with an ``__iter__`` and without knowledge of sessions.

Such a class is iterated on a shallow copy, so each epoch starts from the attributes that the constructor left. A loader
seeds the random number generators among them for each epoch (``datapipes.position.own_generators``) and passes on the
number of the epoch. Other objects that the attributes refer to are shared. The pipes above the copy are copies too and
belong to the session's run: ``for x in self.source_datapipe`` has the seeds and the shard of the rest of the graph.
``set_seed``, ``apply_sharding`` and ``reset`` are called on the copies. A seed of the user is unchanged in the first
epoch, and part of the seeds of later epochs.

The position of such a class is a count. A resume replays the class, and with it all stages above up to a hub
(``datapipes.iter.combining.detached_hub``). A class with ``state_dict`` and ``load_state_dict`` is not replayed
(``datapipes.position.user_positions``).
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar

from datapipes.description import passes, structure
from datapipes.description.pipe import IterDataPipe
from datapipes.description.printing import stage as printed
from datapipes.description.user_iter import FRESH, PINNED, RUN
from datapipes.errors import StateError
from datapipes.position import own_generators
from datapipes.position.own_generators import States
from datapipes.position.seeds import Run
from datapipes.position.user_positions import OwnStateCell, ReplayCell
from datapipes.sharding.sharding import SHARDING_PRIORITIES

if TYPE_CHECKING:
    from datapipes.position.opening import Opening


def has_method(pipe: structure.Pipe, name: str) -> bool:
    """Return whether a pipe's class has a method of this name. Instance attributes and chain methods do not count."""
    return callable(getattr(type(pipe), name, None))


def is_sharding(pipe: structure.Pipe) -> bool:
    """Return whether a stage shards its elements: it has a method ``apply_sharding``."""
    return has_method(pipe, "apply_sharding")


def sharded_inputs(pipe: structure.Pipe) -> list[structure.Pipe]:
    """Return the inputs of a stage that are sharded together with it: none, if it shards the stages above by itself."""
    return [] if getattr(type(pipe), "_shards_above", False) else structure.occurrences(pipe)


def is_replicable(pipe: structure.Pipe) -> bool:
    """Return whether a stage may run in workers."""
    asked = getattr(type(pipe), "is_replicable", None)
    return asked is None or bool(asked(pipe))


def saves_itself(pipe: structure.Pipe) -> bool:
    """Return whether a user's class has ``state_dict`` and ``load_state_dict``."""
    return has_method(pipe, "state_dict") and has_method(pipe, "load_state_dict")


def is_replayed(pipe: structure.Pipe) -> bool:
    """Return whether a stage is a plain class, which a resume runs again from its start."""
    return structure.is_stream(pipe) and not structure.is_native(pipe) and not saves_itself(pipe)


def shard(pipe: structure.Pipe, of: int, index: int, group: object) -> None:
    """Call ``apply_sharding`` of any class, with the group if it takes three arguments."""
    groups = vars(pipe).get("groups")
    if type(groups) is dict:  # torch's class changes it, and the copies of a pipe share it
        pipe.__dict__["groups"] = dict(groups)
    if len(signature(pipe.apply_sharding).parameters) < 3:
        pipe.apply_sharding(of, index)
    else:
        pipe.apply_sharding(of, index, sharding_group=group)


def shard_key(pipe: structure.Pipe, run: Run) -> object:
    """Return the key of a sharding stage's shard, as a plain value for the seeds of the stages below it.

    Return None for ``lanes``: the stages below it have the same seeds, wherever the lanes run.
    """
    if getattr(type(pipe), "_shards_above", False):
        return None
    groups = vars(pipe).get("groups") or {0: (vars(pipe).get("num_of_instances"), vars(pipe).get("instance_id"))}
    return run.shard, str(sorted((int(group), shard) for group, shard in dict(groups).items()))


def pin_seed(pipe: structure.Pipe, seed: int) -> None:
    """Call ``set_seed`` for the user. Sessions use this seed from now on."""
    pipe.set_seed(seed)
    if not structure.is_native(pipe):
        pipe.__dict__[PINNED] = seed
        passes.start_over(pipe)


def start(pipe: structure.Pipe, at: Opening) -> Iterator[Any]:
    """Start a stage that has an ``__iter__`` of its own."""
    if saves_itself(pipe):
        remembered = at.cell(OwnStateCell)
        streams = [parent for parent in structure.parents(pipe) if structure.is_stream(parent)]
        elements = remembered.reading(pipe, [at.source(parent) for parent in streams])
        opened = {
            id(parent): _OpenedInput(parent, each, at.run) for parent, each in zip(streams, elements, strict=True)
        }
        _bind(pipe, at.run, at.seed(), {})
        structure.fill(pipe, pipe, lambda parent: opened.get(id(parent), parent))
        return remembered.start(pipe)
    cell = at.cell(ReplayCell)
    stages = structure.walk(pipe)
    shards = shards_above(stages, at.run)
    run = cell.counting_errors(at.run)
    for stage in stages if cell.runs_anew else ():
        _bind(stage, run, run.stage_seed(structure.place_of(stage), shards[id(stage)]), cell.began)
        cell.shares |= run.plain and own_generators.shares(stage, structure.place_of(pipe), run.drawing)
    if cell.failed:
        must_start_anew(pipe)
        hubs = at.run.hubs
        read_by_it = structure.walk(
            pipe,
            inputs=lambda stage: [each for each in structure.parents(stage) if structure.place_of(each) not in hubs],
        )
        for hub in hubs.values():
            hub.restart_readers(set(map(structure.place_of, read_by_it)))
    return cell.start(pipe)


def must_start_anew(pipe: structure.Pipe) -> None:
    """Raise StateError if a graph has to be run again and has a source that gives its elements only once."""
    for stage in structure.walk(pipe):
        if getattr(stage, "_gives_once", False):
            raise StateError(
                f"{printed(pipe)} has to be run again, up to its position, and {printed(stage)} above it reads an "
                "iterator, which gives its elements only once: wrap a list, or an object whose __iter__ starts anew"
            )


def shards_above(stages: list[structure.Pipe], run: Run) -> dict[int, object]:
    """Return the shard that each stage of a graph works on, by id, or None for a stage above all sharding."""
    above: dict[int, object] = {}
    for stage in stages:
        sources = structure.parents(stage)
        given = (shard_key(source, run) if is_sharding(source) else above[id(source)] for source in sources)
        above[id(stage)] = next((key for key in given if key is not None), None)
    return above


def _bind(stage: structure.Pipe, run: Run, seed: int, began: dict[int, States]) -> None:
    """Bind the copy of a stage to the session's run: seed it, shard it and reset it.

    Args:
        stage: The copy.
        run: The run.
        seed: The stage's seed. A seed that the user has pinned takes precedence.
        began: The states of generators at the start of a plain iteration, by place. A missing stage is added.
    """
    bound: Run | None = vars(stage).get(RUN)
    is_bound = bound is not None and bound.iterators is run.iterators  # another reader of the same hub has bound it
    stage.__dict__[RUN] = run
    if structure.is_native(stage) or not structure.is_stream(stage):
        return
    if not is_bound:
        _begin_torchs_hub(stage)
    pinned, place = vars(stage).get(PINNED), structure.place_of(stage)
    if pinned is not None:
        seed = run.pinned_seed(pinned, place) if run.pinned_number(place) or any(run.lap) else pinned
    if place not in run.origins:
        run.origins[place] = own_generators.origin_of(stage)
    if run.plain and own_generators.advances(stage):
        began[place] = own_generators.begin(stage, began.get(place, {}))
    else:
        own_generators.seed(stage, seed, run.origins[place])
    if (epoch := run.origins[place].get("epoch")) is not None:
        structure.set_attribute(stage, "epoch", epoch + (run.pinned_number(place) if run.plain else run.number))
    if has_method(stage, "set_epoch") and not run.plain:
        stage.set_epoch(run.number)
    if has_method(stage, "set_seed"):
        stage.set_seed(seed)
        stage.__dict__.pop(PINNED, None)
        if pinned is not None:
            stage.__dict__[PINNED] = pinned
    if run.shard is not None and is_sharding(stage):
        shard(stage, *run.shard, group=SHARDING_PRIORITIES.DEFAULT)
    if isinstance(stage, IterDataPipe):  # torch's own base class resets its pipes itself
        stage.reset()
        stage.__dict__[FRESH] = True


def _begin_torchs_hub(stage: structure.Pipe) -> None:
    """Reset the buffers of a copy of torch's fork or demux. torch resets them only at a child's second iteration."""
    if has_method(stage, "is_every_instance_exhausted"):
        stage.reset()
    if has_method(stage, "is_every_instance_exhausted") or structure.hub_of(stage) is not None:
        stage.__dict__["_valid_iterator_id"] = None  # the value of a pipe that was never iterated


class _OpenedInput(IterDataPipe[Any]):
    """An input that the session has opened. Iterating it continues at its position."""

    _stands_for: ClassVar[str | None] = "opened_pipe"

    def __init__(self, pipe: structure.Pipe, elements: Iterator[Any], run: Run) -> None:
        self.opened_pipe = pipe
        self.opened_elements = elements
        self.__dict__["_place"] = structure.NO_CELL
        self.__dict__[RUN] = run

    def __iter__(self) -> Iterator[Any]:
        return self.opened_elements

    def __len__(self) -> int:
        return len(self.opened_pipe)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.opened_pipe, name)

    @property  # type: ignore[misc]  # isinstance() uses it, and should see the class of the input
    def __class__(self) -> Any:
        return type(self.opened_pipe)
