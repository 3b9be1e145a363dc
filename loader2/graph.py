"""``datapipes.graph`` under the name that torchdata gave it."""

from datapipes.graph import *  # noqa: F403 - the same names, on purpose
from datapipes.graph import __all__ as __all__
