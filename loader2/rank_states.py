"""One checkpoint of all ranks: their states side by side, as plain data that any kind of checkpoint can hold.

Each rank has a state of its own, which is a position in its own shard. A checkpoint in mid-epoch needs the same number
of ranks to resume. Between two epochs all ranks are at the same position, so any number of ranks can resume.

A rank that cannot take part tells the others, and all raise an error. So no rank waits for a message that never comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from datapipes import elements
from datapipes.errors import Loader2Error, StateError
from datapipes.position.plain_data import check, check_plain, check_sealed, sealed

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

_FIELDS = {"world_size", "states"}


def gather(state_dict: dict[str, Any], dst: int | None = None, group: ProcessGroup | None = None) -> dict[str, Any]:
    """Return the states of all ranks as one checkpoint.

    All ranks call it. The result is a number and a list of bytes. It goes beside the model into ``torch.save``, or into
    ``torch.distributed.checkpoint``, which would keep only one rank's state otherwise, because all have the same name.
    Without a process group the checkpoint has one rank.

    Args:
        state_dict: This rank's own ``state_dict()``.
        dst: The only rank to get the checkpoint, by its number in the group; the others get ``{}``. ``None``: every
            rank gets it.
        group: The process group whose ranks call this. ``None``: the default one, of all ranks.

    >>> from datapipes.iter import IterableWrapper
    >>> from loader2 import DataLoader2
    >>> dl = DataLoader2(IterableWrapper(range(4)))
    >>> it = iter(dl)
    >>> next(it)
    0
    >>> checkpoint = gather(dl.state_dict())
    >>> checkpoint["world_size"], [type(state) for state in checkpoint["states"]]
    (1, [<class 'bytes'>])
    >>> again = DataLoader2(IterableWrapper(range(4)))
    >>> again.load_state_dict(scatter(checkpoint))
    >>> list(again)
    [1, 2, 3]
    """
    rank, world = _here(group)
    packed, problem = b"", None
    try:
        packed = elements.encode(state_dict, what="state_dict")
    except Loader2Error as error:
        problem = error
    _must_go_well(problem, world, group)
    states: list[Any] = [packed] * world
    if world > 1 and dst is None:
        dist.all_gather_object(states, packed, group=group)
    elif world > 1:
        dist.gather_object(packed, states if rank == dst else None, group=group, group_dst=dst)
    return {"world_size": world, "states": states} if dst in (None, rank) else {}


def scatter(
    gathered: dict[str, Any] | None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    *,
    begin_epoch_again: bool = False,
) -> dict[str, Any]:
    """Return this rank's own state from a checkpoint of ``gather``, for its ``load_state_dict()``.

    All ranks call it. Loading runs no code. In mid-epoch another number of ranks raises ``StateError``.

    Args:
        gathered: The checkpoint. With ``src``, the other ranks may pass None.
        src: The only rank that has the checkpoint, by its number in the group. It sends the others their states.
            ``None``: every rank has it, and nothing is sent.
        group: The process group whose ranks call this. ``None``: the default one, of all ranks.
        begin_epoch_again: Whether an epoch in progress starts over. Then any number of ranks can resume.
    """
    rank, world = _here(group)
    if src is None:
        return _unpacked(_shares(gathered, world, begin_epoch_again)[rank], rank)
    shares, problem = None, None
    try:
        shares = _shares(gathered, world, begin_epoch_again) if rank == src else None
    except StateError as error:
        problem = error
    _must_go_well(problem, world, group)
    own: list[Any] = [None if shares is None else shares[rank]]
    if world > 1:
        dist.scatter_object_list(own, shares, group=group, group_src=src)
    return _unpacked(own[0], rank)


def is_gathered(state: Any) -> bool:
    """Return whether this is a checkpoint of ``gather``, and not the state of one rank."""
    return type(state) is dict and set(state) == _FIELDS


def _must_go_well(problem: Loader2Error | None, world: int, group: ProcessGroup | None) -> None:
    """Raise an error on all ranks if any of them has a problem."""
    problems: list[str | None] = [None] * world
    if world > 1:
        dist.all_gather_object(problems, None if problem is None else str(problem), group=group)
    if problem is not None:
        raise problem
    for rank, text in enumerate(problems):
        if text is not None:
            raise StateError(f"rank {rank}: {text}")


def _here(group: ProcessGroup | None) -> tuple[int, int]:
    """Return this rank's number, and the number of ranks."""
    if not (dist.is_available() and dist.is_initialized()):
        return 0, 1
    if (rank := dist.get_rank(group)) < 0:
        raise StateError(f"rank {dist.get_rank()} is not in the process group: only the group's own ranks take part")
    return rank, dist.get_world_size(group)


def _shares(gathered: Any, world: int, begin_epoch_again: bool) -> list[bytes]:
    """Return the state of each of ``world`` ranks."""
    if not is_gathered(gathered):
        raise StateError("this is no checkpoint of gather(); pass one, or call scatter(..., src=rank that has it)")
    saved, states = gathered["world_size"], gathered["states"]
    check(type(saved) is int and saved > 0, "world_size", "a number of ranks", saved)
    fits = type(states) is list and len(states) == saved and all(type(state) is bytes for state in states)
    check(fits, "states", f"{saved} states, as bytes", states)
    if saved == world and not begin_epoch_again:
        return list(states)
    return [_for_any_number(states, world, begin_epoch_again)] * world


def _unpacked(state: bytes, rank: int) -> dict[str, Any]:
    unpacked = elements.decode(state, what=f"states[{rank}]")
    if type(unpacked) is not dict:
        raise StateError(f"states[{rank}]: expected a dict, as state_dict() returned it")
    return unpacked


def _for_any_number(packed: list[bytes], world: int, begin_epoch_again: bool) -> bytes:
    """Return the state from which any number of ranks can start."""
    states = [_unpacked(state, rank) for rank, state in enumerate(packed)]
    running = [rank for rank, state in enumerate(states) if state.get("status") == "running"]
    if running and not begin_epoch_again:
        raise StateError(
            f"states: saved by {len(states)} ranks in the middle of an epoch, and there are {world}: another number of "
            f"ranks has other shards. Start {len(states)} ranks to resume there, save between two epochs, or start "
            "this epoch over with scatter(..., begin_epoch_again=True)"
        )
    for rank, state in enumerate(states):
        check_plain(state, f"states[{rank}]")
        check_sealed(state)
    states = [sealed({**_at_its_start(state), "step": 0}) for state in states]  # step differs between ranks
    if any(state != states[0] for state in states):
        raise StateError(
            "states: the ranks were not in the same epoch, or had different seeds; start one with dl.seed(...)"
        )
    return elements.encode(states[0], what="state_dict")


def _at_its_start(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state from which an epoch in progress starts over."""
    if state.get("status") != "running":
        return state
    epoch = state.get("epoch")
    check(type(epoch) is int and epoch >= 0, "epoch", "the number of one", epoch)
    return {**state, "status": "new", "seed": None, "pending": state.get("seed"), "sources": {}, "cells": {}}
