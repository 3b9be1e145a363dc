"""Checks and lengths of stages with several inputs."""

from __future__ import annotations

from typing import Any

from datapipes.description.pipe import IterDataPipe
from datapipes.description.printing import stage
from datapipes.description.structure import is_pipe, is_stream
from datapipes.errors import BadArgumentType
from datapipes.operator_support.checks import needs, source_length


def needs_streams(pipe: IterDataPipe[Any], inputs: tuple[Any, ...]) -> None:
    """Refuse inputs that are not streams, and an empty list of inputs. The message shows the call."""
    for source in inputs:
        if not is_stream(source):
            hint = "; a map-style pipe becomes one by .to_iter_datapipe()" if is_pipe(source) else ""
            raise BadArgumentType(
                f"Expected every input to be an `IterDataPipe`, got {type(source).__name__}: {source!r:.60}, "
                f"in {stage(pipe)}{hint}"
            )
    needs(len(inputs) > 0, pipe, "Expected at least one DataPipe, got none")


def lengths(pipe: IterDataPipe[Any], inputs: tuple[Any, ...]) -> list[int]:
    """Return the length of each input. Raise LengthUnknown, which names the stages, if one is unknown."""
    return [source_length(pipe, source) for source in inputs]
