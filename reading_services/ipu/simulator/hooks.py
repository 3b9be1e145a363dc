"""Functions that are called before and after every compilation of a model."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from torch.utils.hooks import RemovableHandle

CompileHook = Callable[[], Any]

before: OrderedDict[int, CompileHook] = OrderedDict()
after: OrderedDict[int, CompileHook] = OrderedDict()


def registerPreCompileHook(hook: CompileHook) -> RemovableHandle:
    """Call a function before each compilation; ``remove()`` of what is returned ends that.

    >>> registerPreCompileHook(lambda: None).remove()
    """
    return _registered(before, hook)


def registerPostCompileHook(hook: CompileHook) -> RemovableHandle:
    """Call a function after each compilation; ``remove()`` of what is returned ends that."""
    return _registered(after, hook)


def _registered(hooks: OrderedDict[int, CompileHook], hook: CompileHook) -> RemovableHandle:
    if not callable(hook):
        raise RuntimeError(f"a compile hook needs to be callable, and {hook!r} is not")
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle
