"""Wrappers of users' own ``__iter__`` and ``set_seed``, for calls on a pipe that no session has opened.

Iterating a pipe of a user's class opens a session, as iterating any other pipe does, so that the class works on a copy,
``reset`` is called, and the iterator can say where it is. Inside the session the same method is called once more, on
the copy, and that call goes through to the user's code. To tell the two apart, the class's own method is replaced by
one that asks, once, when the class is made.

A seed that somebody sets is noted, because the session would set one of its own otherwise.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datapipes.description.pipe import IterDataPipe

RUN = "_run"
"""The attribute by which the copies in a session know what they are part of."""

FRESH = "_fresh"
"""The attribute of a copy that has been reset, and not iterated yet."""

PINNED = "_pinned_seed"
"""The attribute that remembers a seed that was set by somebody else than a session."""

KEPT = "_kept_values"
"""The attribute that has what a user's class keeps from one epoch to the next (``datapipes.position.kept``)."""

_MARK = "_through_a_session"


def wrap_methods(cls: Any, base: Any) -> None:
    """Replace the ``__iter__`` and ``set_seed`` that a subclass of ``base`` brings along."""
    if cls.__iter__ is not base.__iter__ and callable(cls.__iter__) and not hasattr(cls.__iter__, _MARK):
        cls.__iter__ = _through_session(cls.__iter__)
    if "set_seed" in vars(cls) and not cls._is_operator():
        cls.set_seed = _noting_seed(cls.set_seed)


def begin(pipe: IterDataPipe[Any]) -> None:
    """Reset a copy that is about to be iterated, unless that has just been done."""
    if not vars(pipe).pop(FRESH, False):
        pipe.reset()


def _through_session(user_iter: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Iterator[Any]]:
    @functools.wraps(user_iter)
    def __iter__(self: Any) -> Iterator[Any]:
        if RUN not in vars(self):
            from datapipes.position.iterator import iterate

            return iterate(self)
        if type(self).__iter__ is __iter__:  # and not what a subclass calls by super()
            begin(self)
        return user_iter(self)

    setattr(__iter__, _MARK, True)
    return __iter__


def _noting_seed(user_set_seed: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(user_set_seed)
    def set_seed(self: Any, *args: Any, **kwargs: Any) -> Any:
        vars(self)[PINNED] = next(iter((*args, *kwargs.values())), None)
        if RUN not in vars(self):
            from datapipes.description import passes

            passes.start_over(self)
        before = dict(vars(self))
        returned = user_set_seed(self, *args, **kwargs)
        if KEPT in before and RUN not in before:
            before[KEPT].forget({name for name, value in vars(self).items() if value is not before.get(name, before)})
        return returned

    return set_seed
