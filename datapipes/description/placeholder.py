"""Placeholder stage for a part of the graph that runs somewhere else: in workers, as a reading service has it.

That part is no parent of the stage, and nothing that walks or opens the graph meets it. Who wants to know how long it
is on another rank, or whether its length is certain, asks here.
"""

from __future__ import annotations

from typing import Any, TypeVar

from datapipes.description.pipe import IterDataPipe, operator

T_co = TypeVar("T_co", covariant=True)


@operator
class MadeElsewhere(IterDataPipe[T_co]):
    """A stream that others make of ``graph``; its length follows from that of ``graph``, or is not known."""

    graph: Any
