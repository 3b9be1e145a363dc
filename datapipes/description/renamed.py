"""Older names of parameters: a constructor takes them for two minor releases, with a warning that has the new name."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from datapipes.errors import BadArgumentType
from datapipes.messages.warnings import warn

C = TypeVar("C", bound=type)


def renamed(**new_names: str) -> Callable[[C], C]:
    """Class decorator: take parameters of the constructor under their older names, too.

    Args:
        new_names: The new name of each parameter, by the older one.

    >>> import warnings
    >>> from datapipes.iter import IterableWrapper
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     IterableWrapper([[1, 2], [3]]).pack(length=3)
    IterableWrapper([[1, 2], [3]]).pack(3)
    >>> print(caught[0].message)
    pack(length=...) is an older name, which will be given up: write pack(size=...)
    """

    def decorate(cls: C) -> C:
        made: Any = cls
        init, method = made.__init__, getattr(cls, "_fluent", None) or cls.__name__

        @wraps(init)
        def __init__(self: object, *args: Any, **given: Any) -> None:
            for old in new_names.keys() & given:
                new = new_names[old]
                if new in given:
                    raise BadArgumentType(f"{method}({old}=..., {new}=...): {old} is the older name of {new}; give one")
                warn(
                    f"{method}({old}=...) is an older name, which will be given up: write {method}({new}=...)",
                    DeprecationWarning,
                )
                given[new] = given.pop(old)
            init(self, *args, **given)

        made.__init__ = __init__
        return cls

    return decorate
