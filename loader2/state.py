"""The saved state of a loader: plain data with a version.

``state_dict()`` returns a dict of numbers, strings, bytes, lists and dicts. Loading it runs no code. Buffered elements
are bytes for a restricted unpickler, which makes objects of builtins, numpy, torch and the classes given to ``allow``.

===========  =======================================================================================
field        meaning
===========  =======================================================================================
version      version of this format: 2; 0.1.0 saved version 1, without a checksum
status       "new", "running" or "finished": the epoch of the loader
seed         seed of the epoch under way or just finished; None before the first epoch
epoch        number of epochs before this one, since a seed was given
drawn        whether the seed was drawn for this epoch alone
begun, step  number of epochs before this one, and of its elements that were handed on
number       number from which pinned orders follow: ``begun``; 0.1.0 used ``epoch``
origins      digests of the generators that users' classes begin with, by place and path
buffered     whether 0.1.0 began the epoch under way, so that all its shuffles have a buffer
pending      seed for the next epoch, or None
stages       place and kind of each stage, to compare with the graph
sources      lengths and digests of the elements that the graph was given, by place; only in mid-epoch
cells        the position of each stage that has one, by place
service      state of a checkpointable reading service, or None
checksum     checksum of all other fields, to refuse a state that was edited or damaged
===========  =======================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from datapipes.description import structure
from datapipes.elements import allow, allowed
from datapipes.errors import NotCheckpointable, StateError, UnsafeState, UnsavableElement
from datapipes.position.cells import Table
from datapipes.position.iterator import difference
from datapipes.position.own_generators import Origin
from datapipes.position.plain_data import (
    CHECKSUM,
    VERSION,
    check,
    check_by_place,
    check_plain,
    check_sealed,
    is_uint64,
    sealed,
    shown,
)
from loader2.epochs import Epochs
from loader2.rank_states import gather, scatter
from reading_services import CheckpointableReadingServiceInterface, ReadingServiceInterface

__all__ = [
    "LoaderState",
    "NotCheckpointable",
    "StateError",
    "UnsafeState",
    "UnsavableElement",
    "allow",
    "allowed",
    "gather",
    "scatter",
]

_FIELDS: Final = (
    *("version", "status", "seed", "epoch", "drawn", "begun", "step", "pending"),
    *("stages", "sources", "cells", "service"),
)
_FIELDS_OF_2: Final = ("number", "buffered", "origins", CHECKSUM)
_OF_TORCHDATA: Final = {"serialized_datapipe", "reading_service_state", "randomness_state"}


@dataclass(frozen=True, slots=True)
class LoaderState:
    """Checked state of a loader."""

    epochs: Epochs
    stages: tuple[str, ...]
    cells: Table | None
    """Positions in the epoch under way; None between two epochs."""
    service: bytes | None
    step: int = 0
    sources: dict[int, list[Any]] = field(default_factory=dict)

    @property
    def status(self) -> str:
        """Status of the loader in its epoch."""
        return "running" if self.cells is not None else "new" if self.epochs.seed is None else "finished"

    @property
    def _origins(self) -> dict[int, Origin]:
        """Digests of users' generators. Attributes ``epoch`` are not saved, because the constructors set them."""
        only = {
            place: {path: digest for path, digest in origin.items() if path != "epoch"}
            for place, origin in self.epochs.origins.items()
        }
        return {place: origin for place, origin in only.items() if origin}

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain data, with its checksum."""
        return sealed(
            {
                "version": VERSION,
                "status": self.status,
                "seed": self.epochs.seed,
                "epoch": self.epochs.number,
                "drawn": self.epochs.drawn,
                "begun": self.epochs.begun,
                "step": self.step,
                "number": self.epochs.begun if self.epochs.follows is None else self.epochs.follows,
                "buffered": self.epochs.buffered and self.status == "running",
                "origins": self._origins,
                "pending": self.epochs.pending,
                "stages": self.stages,
                "sources": self.sources,
                "cells": {} if self.cells is None else self.cells,
                "service": self.service,
            }
        )

    @classmethod
    def from_dict(cls, state: Any) -> LoaderState:
        """Check a state that was loaded, and return it. The error names the field that is wrong."""
        status, seed, epoch, drawn, begun, step, pending, stages, sources, cells, service = _fields(state)
        is_old = state["version"] == 1
        number, buffered, origins = (
            (epoch, True, {}) if is_old else (state["number"], state["buffered"], state["origins"])
        )
        is_status = type(status) is str and status in ("new", "running", "finished")
        check(is_status, "status", "'new', 'running' or 'finished'", status)
        if status == "new":
            check(seed is None, "seed", "None, because no epoch has begun", seed)
        else:
            check(is_uint64(seed), "seed", "an unsigned 64-bit number", seed)
        for name, counted in (("epoch", epoch), ("begun", begun), ("step", step), ("number", number)):
            check(is_uint64(counted), name, "an unsigned 64-bit number", counted)
        for name, flag in (("drawn", drawn), ("buffered", buffered)):
            check(type(flag) is bool, name, "True or False", flag)
        check(pending is None or is_uint64(pending), "pending", "an unsigned 64-bit number or None", pending)
        are_names = type(stages) in (list, tuple) and all(type(stage) is str for stage in stages)
        check(are_names, "stages", "a list of names", stages)
        check_by_place(cells, "cells")
        ignored = all(type(cell) is dict and set(cell) == {"kept"} for cell in cells.values())  # 0.1.0 saved these
        check(status == "running" or ignored, "cells", f"none in a state that is {status}", cells)
        check(
            status != "running" or bool(cells),
            "cells",
            "positions, where an epoch is under way (torch.distributed.checkpoint loads only what the state of a new "
            "loader has: set dl.state_of_all_ranks = True, or save gather(state))",
            cells,
        )
        check_plain(cells, "cells")
        check_by_place(sources, "sources")
        check_plain(sources, "sources")
        check_by_place(origins, "origins")
        for origin in origins.values():
            fine = type(origin) is dict and all(type(path) is str for path in origin)
            check(fine and all(map(is_uint64, origin.values())), "origins", "digests by path", origin)
        check(service is None or type(service) is bytes, "service", "bytes or None", service)
        check_sealed(state)
        follows = None if number == begun else number
        epochs = Epochs(seed, epoch, pending, drawn, begun, follows, buffered and status == "running", origins)
        return cls(epochs, tuple(stages), cells if status == "running" else None, service, step, sources)

    def must_fit(self, stages: tuple[str, ...], service: ReadingServiceInterface | None) -> None:
        """Raise if a loader has other stages, or if its service cannot take the state that a service has saved."""
        if self.stages != stages:
            raise StateError(difference(stages, self.stages))
        if self.service is not None and not isinstance(service, CheckpointableReadingServiceInterface):
            raise NotCheckpointable(
                f"service: the state holds {len(self.service)} bytes that a reading service saved. Cannot restore from "
                f"non-checkpointable reading service {None if service is None else type(service).__name__}"
            )


def _fields(state: Any) -> list[Any]:
    """Return the fields that all versions have, in their order, without the version."""
    if type(state) is not dict:
        raise StateError(f"a state is a dict, as state_dict() returned it; found {shown(state)}")
    if "version" not in state and not _OF_TORCHDATA.isdisjoint(state):
        raise StateError(
            "this is a state of torchdata's DataLoader2, which holds a pickled graph and no position; "
            "start the epoch anew, with dl.seed(epoch)"
        )
    version = state.get("version", VERSION)
    if type(version) is not int or version not in (1, VERSION):
        raise StateError(f"version: this library reads versions 1 and {VERSION}, the state has {shown(version)}")
    names = _FIELDS if version == 1 else (*_FIELDS, *_FIELDS_OF_2)
    wrong = [f"{name} is missing" for name in names if name not in state]
    wrong += [f"{shown(name)} is unknown" for name in state if name not in names]
    if wrong:
        raise StateError(
            f"the fields of the state: {', '.join(wrong[:12])}; load what state_dict() returned, unchanged"
        )
    return [state[name] for name in _FIELDS[1:]]


def stages_of(stages: list[structure.Pipe]) -> tuple[str, ...]:
    """Return place and kind of the stages of a graph. The stages that adapters add have no place yet."""
    numbered = sorted([(vars(stage).get("_place", -1), type(stage).__name__) for stage in stages])
    return tuple([f"{place} {kind}" for place, kind in numbered])
