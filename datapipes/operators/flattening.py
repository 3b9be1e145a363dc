"""Flattening stages, which turn one element into many, and their handling of errors.

A subclass says in ``_inner`` what an element becomes; where it is in that is kept by
``datapipes.operators.flattening_position``. An error of ``_inner`` costs the whole element, and one of the iterable
that it returned costs one element of it, if the iterable can go on; a broken stream cannot, and would raise the same
error for ever.
"""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, ClassVar, TypeVar

from datapipes.description.pipe import IterDataPipe
from datapipes.elements.streams import StreamWrapper, streams_of
from datapipes.errors import StateError
from datapipes.operators.flattening_position import Inner
from datapipes.position.on_error import SKIP, Faults
from datapipes.position.opening import Opening

T_co = TypeVar("T_co", covariant=True)


class Flattening(IterDataPipe[T_co]):
    """Base of flattening stages: ``_inner`` gives the elements that one element becomes."""

    _cell: ClassVar[type[Inner]] = Inner

    def _inner(self, element: Any) -> Iterable[T_co]:
        """The elements that one element becomes."""
        raise NotImplementedError(f"{type(self).__name__} has no _inner")

    def _open(self, at: Opening) -> Iterator[T_co]:
        (source,) = self._reads()
        above = at.above()
        held = at.cell(partial(self._cell, self, self._let_go)).watching(above, at_start=not at.resumed)
        return self._elements(at.source(source), held)

    def _let_go(self, element: Any) -> None:
        """Close the streams of an element that is used up, or left."""
        StreamWrapper.close_streams(element)

    def _elements(self, source: Iterator[Any], held: Inner) -> Iterator[T_co]:
        for element in held.inputs(source):
            if held.faults is not None:
                yield from self._tolerant(element, held, held.faults)
                continue
            if held.rest is None:
                try:
                    held.begin(element, self._inner(element))
                except Exception:
                    self._let_go(element)
                    raise
            try:
                yield from held.rest or ()
            except Exception as error:
                held.lost += 1
                held.locate(error)
                if isinstance(error, _BROKEN_STREAM):
                    held.finish()
                raise
            held.finish()
        if held.faults is not None:
            held.faults.finish()

    def _tolerant(self, element: Any, held: Inner, faults: Faults) -> Iterator[T_co]:
        """The elements that one element becomes, errors on the way absorbed."""
        last, alike = None, 0  # an error that comes again and again with nothing in between
        while True:
            try:
                if held.rest is None:
                    held.begin(element, self._inner(element))
                for made in held.rest or ():
                    last = None
                    yield made
                break
            except StateError:
                raise
            except Exception as error:
                held.locate(error)
                made = self._absorbed(error, element, held, faults)
                alike = alike + 1 if last == (type(error), error.args) else 1
                last = type(error), error.args
                gives_up = isinstance(error, _BROKEN_STREAM) or alike == _STUCK
                broken = held.rest is None or (gives_up and not faults.retries)
            if made is not SKIP:
                yield made
            if broken:
                break
        if held.rest is None:
            self._let_go(element)
        held.finish()

    def _absorbed(self, error: Exception, element: Any, held: Inner, faults: Faults) -> Any:
        """Replacement for an element that could not be made; its number is used up, whatever becomes of it."""
        before = held.given()

        def again() -> Any:
            if not _rewound(element):
                raise error
            held.start_over(before)
            held.begin(element, self._inner(element))
            held.lost += 1
            made = next(held.rest or iter(()), SKIP)
            held.lost -= 1
            return made

        held.tally(errors=1)
        held.lost += held.rest is not None
        return faults.absorb(error, element, again)


_BROKEN_STREAM = (OSError, EOFError, zlib.error, lzma.LZMAError)
"""Errors that a stream goes on raising. After any other, such as that of one line, the next line may well be sound."""
_STUCK = 100
"""An iterable that raises one and the same error so often, with nothing in between, is given up."""


def _rewound(element: Any) -> bool:
    """Take the streams of an element back to their start, if they can go there."""
    try:
        for stream in streams_of(element):
            stream.seek(0)
    except (AttributeError, OSError, ValueError):
        return False
    return True
