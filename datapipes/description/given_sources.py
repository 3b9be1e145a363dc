"""Sources that a program passes to an operator in place of a pipe: a list, a range, or another repeatable iterable.

The constructor wraps them in ``IterableWrapper`` or ``SequenceWrapper``, which copy as if the program had written them.
Such a wrapper prints as its content: ``Mapper([1, 2], str)``. A text, a dict, an iterator and a collection of pipes
are not wrapped, because each is probably a mistake. They are refused when the graph is opened.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any

from torch.utils.data import IterDataPipe as TorchIterDataPipe
from torch.utils.data import MapDataPipe as TorchMapDataPipe

_ONE_PIPE = re.compile(r"(Iter|Map)DataPipe(?:\[.*\])?$")
_NEVER = (str, bytes, bytearray, Mapping, Iterator, TorchIterDataPipe, TorchMapDataPipe)
_MARK = "_given_in_place_of_a_pipe"


def kind_of(annotation: object) -> str | None:
    """Return ``"Iter"`` or ``"Map"`` if a parameter of this type is one pipe of that kind, else None."""
    found = _ONE_PIPE.match(str(annotation))
    return None if found is None else found[1]


def taking_iterables(init: Any, kinds: Mapping[str, str], pipes: type) -> Callable[..., None]:
    """Wrap a constructor so that it also takes iterables for the parameters in ``kinds``, which maps them to a kind.

    An object of the class ``pipes`` is passed on unchanged.
    """
    positional = init.__code__.co_varnames[1 : init.__code__.co_argcount]
    places = [(positional.index(name), name, kind) for name, kind in kinds.items() if name in positional]

    @wraps(init)
    def __init__(self: Any, *args: Any, **given: Any) -> None:
        for i, name, kind in places:
            if i < len(args):
                if not isinstance(args[i], pipes):
                    args = (*args[:i], as_pipe(args[i], kind), *args[i + 1 :])
            elif name in given:
                given[name] = as_pipe(given[name], kind)
        init(self, *args, **given)

    return __init__


def as_pipe(given: Any, kind: str) -> Any:
    """Return a wrapper of an iterable that may stand in place of a pipe. Return any other value as it is."""
    from datapipes.description.pipe import Named
    from datapipes.description.structure import pipes_in

    if isinstance(given, (Named, *_NEVER)) or next(pipes_in(given), None) is not None:
        return given
    wrapper: Any
    if kind == "Iter" and isinstance(given, Iterable):
        from datapipes.iter import IterableWrapper

        wrapper = IterableWrapper(given)
    elif kind == "Map" and isinstance(given, Sequence):
        from datapipes.map import SequenceWrapper

        wrapper = SequenceWrapper(given)
    else:
        return given
    wrapper.__dict__[_MARK] = True
    return wrapper


def is_given(pipe: Any) -> bool:
    """Return whether a stage is a wrapper that ``as_pipe`` made."""
    return _MARK in vars(pipe)
