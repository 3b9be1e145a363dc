"""Lazy imports of a package: a name is imported at first use.

A program uses a few operators and pays only for importing these. The imports are written in the package once, as
ordinary statements, so that type checkers, editors and packagers read them.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import SimpleNamespace
from typing import Any, NamedTuple


@contextmanager
def lazy_imports(package: str) -> Iterator[None]:
    """Postpone each ``from module import name`` of a package's ``with`` block until the name is first used.

    Set the ``__getattr__`` and ``__dir__`` of the package, and ``__all__`` to the names of the block. An import of
    another module, which another thread may run meanwhile, is not postponed. A name that is imported from the package
    itself is a module in it. (Python 3.15 has ``lazy from`` for this.)
    """
    module = sys.modules[package]
    namespace = vars(module)
    eager = builtins.__import__

    def postpone(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        if globals is not namespace or not fromlist:
            return eager(name, globals, locals, fromlist or (), level)
        return SimpleNamespace(**{each: _Postponed("." * level + name, each) for each in fromlist})

    builtins.__import__ = postpone
    try:
        yield
    finally:
        builtins.__import__ = eager
    postponed = {name: value for name, value in namespace.items() if isinstance(value, _Postponed)}
    for name in postponed:
        del namespace[name]

    def get(name: str) -> Any:
        if name not in postponed:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)
        source, there = postponed[name]
        value = (
            import_module(f"{source}.{there}") if source == package else getattr(import_module(source, package), there)
        )
        setattr(module, name, value)  # Python does not call this function for the name again
        return value

    namespace.update(
        __all__=sorted(postponed),
        __getattr__=get,
        __dir__=lambda: sorted({*namespace, *postponed}),
    )


class _Postponed(NamedTuple):
    """Name of an import that has not run."""

    module: str
    name: str
