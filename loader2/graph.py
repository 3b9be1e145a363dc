"""``datapipes.graph`` under torchdata's name for it."""

from datapipes.graph import *  # noqa: F403 - the same names, on purpose
from datapipes.graph import __all__ as __all__  # type: ignore[attr-defined]  # ``lazy_imports`` sets it
