"""The modules that a pickle refers to by name: their code must be the same where it is loaded."""

from __future__ import annotations

import io
import sys
from typing import Any, Final

import cloudpickle

from reading_services.cluster.member import digest_of

_OURS: Final = frozenset(("datapipes", "loader2", "reading_services", "torch", "numpy", "cloudpickle"))
"""Packages that are compared by their versions, or installed with one that is."""


def digests(obj: object) -> dict[str, str]:
    """Return digests of the modules that define the users' functions and classes in an object, by name."""
    pickler = _Noting(io.BytesIO(), 5)
    pickler.dump(obj)
    names = sorted(name for name in pickler.modules if _is_compared(name))
    return {name: digest for name in names if (digest := digest_of(name)) not in ("", "none")}


def _is_compared(module: str) -> bool:
    package = module.partition(".")[0]
    return package not in _OURS and package not in sys.stdlib_module_names and package != "__main__"


class _Noting(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """Pickler that records the modules of functions and classes."""

    def __init__(self, file: Any, protocol: int) -> None:
        super().__init__(file, protocol)
        self.modules: set[str] = set()

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type) or callable(obj):
            self.modules.add(str(getattr(obj, "__module__", "")))
        return super().reducer_override(obj)
