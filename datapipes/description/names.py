"""Names of chain methods, and their owners.

The method of an operator is an attribute of ``IterMethods`` or ``MapMethods``. A class that a program registers is in
the table ``functions`` of its kind of pipe, in which a pipe looks up unknown names. Such a class may also take the name
of an operator that torch does not have. Its method is then set on the kind of pipe itself and hides the operator's. The
library makes operators by their class, so a hidden operator still works inside other operators. A plugin may not take
an operator's name.
"""

from __future__ import annotations

import keyword
import multiprocessing
from collections.abc import Callable
from functools import update_wrapper
from typing import Any

from datapipes.description.plugins import is_loading
from datapipes.errors import BadArgument, NameTaken
from datapipes.fluent import IterMethods, MapMethods
from datapipes.messages.warnings import warn

Factory = Callable[..., Any]

_STREAMS_OF_TORCH = (
    "batch collate concat demux filter fork groupby list_files map mux open_files read_from_stream routed_decode "
    "sharding_filter shuffle unbatch zip"
)
_COLLECTIONS_OF_TORCH = "batch concat map shuffle zip"
_PROTOCOL = "apply_sharding is_replicable load_state_dict reset set_epoch set_seed set_shuffle state_dict"

OF_TORCH = {
    "IterDataPipe": frozenset(_STREAMS_OF_TORCH.split()),
    "MapDataPipe": frozenset(_COLLECTIONS_OF_TORCH.split()),
}
"""The chain methods of torch 2.x, by kind of pipe."""

PROTOCOL = frozenset(_PROTOCOL.split())
"""Methods of a stage that loaders and graph functions look for."""

_METHODS: dict[str, Any] = {"IterDataPipe": IterMethods, "MapDataPipe": MapMethods}


def describe_owner(owner: object) -> str:
    """Return ``module.name`` of a class or function."""
    name = getattr(owner, "__qualname__", type(owner).__qualname__)
    return f"{getattr(owner, '__module__', '?')}.{name}"


def register(base: Any, name: str, owner: Factory, replace: bool = False) -> None:
    """Register ``owner`` under ``name`` for the pipes of ``base``. ``replace`` overrides another user's registration.

    Registering the same definition again is allowed, as when a notebook's cell runs twice.
    """
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("__"):
        raise BadArgument(f"{name!r} cannot be a method's name: choose another one for {describe_owner(owner)}")
    is_free = _is_operators(base, name) and name not in OF_TORCH[base.__name__] and not is_loading.get()
    holder = None if is_free else getattr(base, name, None)
    if holder is None and not replace:
        holder = base.functions.get(name)
    if name in PROTOCOL or (holder is not None and describe_owner(holder) != describe_owner(owner)):
        by = "the methods that loaders look for" if holder is None else describe_owner(holder)
        raise NameTaken(
            f"the name {name!r} of {base.__name__} is already taken by {by}: choose another one for "
            f"{describe_owner(owner)}"
        )
    if is_free:
        _hide_operator(base, name, owner)
    base.functions[name] = owner


def is_hidden(base: Any, name: str) -> bool:
    """Return whether a program's own class has taken the name of an operator."""
    return name in base.functions and _is_operators(base, name)


def _is_operators(base: Any, name: str) -> bool:
    return name in vars(_METHODS[base.__name__])


def _hide_operator(base: Any, name: str, owner: Factory) -> None:
    if name not in base.functions and multiprocessing.parent_process() is None:  # a worker would only repeat it
        operator = vars(_METHODS[base.__name__])[name].operator.__name__
        warn(
            f"{describe_owner(owner)} takes the name {name!r} from the operator {operator} of this library, for each "
            f"{base.__name__} in the whole program; to use the operator, write {operator}(pipe, ...)"
        )

    def method_of(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return owner(self, *args, **kwargs)

    setattr(base, name, update_wrapper(method_of, owner, updated=()))
