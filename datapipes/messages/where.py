"""Source location of a user's function: ``name at file:line``, for reprs and errors.

It never fails and never calls the function. Unknown parts are left out.
"""

from __future__ import annotations

import functools
import inspect
import os
from types import CodeType, FunctionType


def where(fn: object) -> str:
    """Return the name of a callable and the place of its definition.

    >>> where(len)
    'len'
    >>> def double(x): return 2 * x
    >>> where(double).startswith('double at ')
    True
    """
    fn = _unwrapped(fn)
    name = getattr(fn, "__qualname__", None)
    if not isinstance(name, str):
        name = type(fn).__qualname__
    name = name.rsplit("<locals>.", 1)[-1].replace("<lambda>", "lambda")
    code = _code_of(fn)
    return name if code is None else f"{name} at {os.path.basename(code.co_filename)}:{code.co_firstlineno}"


def _unwrapped(fn: object) -> object:
    """Return the user's own function, without partials, caches and the wrappers of decorators."""
    while True:
        if isinstance(fn, functools.partial):
            fn = fn.func
        elif isinstance(fn, FunctionType | functools._lru_cache_wrapper) and "__wrapped__" in vars(fn):
            fn = vars(fn)["__wrapped__"]
        else:
            return fn


def _code_of(fn: object) -> CodeType | None:
    """Return the code that calling ``fn`` runs first, or None for callables written in C."""
    code = getattr(fn, "__code__", None)
    if code is None and not isinstance(fn, type):
        code = getattr(inspect.getattr_static(type(fn), "__call__", None), "__code__", None)
    return code if isinstance(code, CodeType) else None
