"""Wrappers of users' own ``__iter__`` and ``set_seed``, for calls on a pipe that no session has opened.

Iterating a pipe of a user's class opens a session, as for any other pipe. So the class works on a copy, ``reset`` is
called, and the iterator has a position. Inside the session the same method is called again, on the copy, and this call
reaches the user's code. To tell the two calls apart, the class's own method is wrapped once, when the class is made.

A seed that the user sets is recorded, because the session would otherwise set its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datapipes.description.pipe import IterDataPipe

RUN = "_run"
"""The attribute of copies in a session that refers to their run."""

FRESH = "_fresh"
"""The attribute of a copy that has been reset and not iterated over yet."""

PINNED = "_pinned_seed"
"""The attribute with a seed that was set by a caller other than a session."""

_MARK = "_through_a_session"


def wrap_methods(cls: Any, base: Any) -> None:
    """Wrap the ``__iter__`` and ``set_seed`` that a subclass of ``base`` defines."""
    if cls.__iter__ is not base.__iter__ and callable(cls.__iter__) and not hasattr(cls.__iter__, _MARK):
        cls.__iter__ = _through_session(cls.__iter__)
    if "set_seed" in vars(cls) and not cls._is_operator():
        cls.set_seed = _noting_seed(cls.set_seed)


def begin(pipe: IterDataPipe[Any]) -> None:
    """Reset a copy before an iteration, unless it has just been reset."""
    if not vars(pipe).pop(FRESH, False):
        pipe.reset()


def _through_session(user_iter: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Iterator[Any]]:
    @functools.wraps(user_iter)
    def __iter__(self: Any) -> Iterator[Any]:
        if RUN not in vars(self):
            from datapipes.position.iterator import iterate

            return iterate(self)
        if type(self).__iter__ is __iter__:  # not for a call by super() in a subclass
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
        return user_set_seed(self, *args, **kwargs)

    return set_seed
