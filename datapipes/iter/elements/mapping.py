"""map, collate, filter: a function of each element that replaces it or decides whether to keep it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, TypeVar

from torch.utils.data import default_collate

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.description.structure import with_parents
from datapipes.elements.chunk import DataChunk
from datapipes.iter.grouping.batch import Batcher, BatchReader
from datapipes.memory import batches
from datapipes.operator_support.checks import needs_callable, same_length
from datapipes.operator_support.columns import check_columns, on_columns, on_input, validate_input_col
from datapipes.position.on_error import OnError, Tolerant
from datapipes.position.pandas_rows import collated
from datapipes.position.seeds import Run
from datapipes.position.steps import Step

R_co = TypeVar("R_co", covariant=True)

T_co = TypeVar("T_co", covariant=True)


@operator
class Mapper(Tolerant, IterDataPipe[R_co]):
    """``fn`` of each element, or of some of its columns.

    With an ``input_col``, the result replaces the first of these columns, and the others are left out, unless an
    ``output_col`` is given.

    Args:
        fn: The function of the element, or of its columns as separate arguments.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([(1, 2), (3, 4)]).map(lambda a, b: a + b, input_col=[0, 1], output_col=-1))
    [(1, 2, 3), (3, 4, 7)]
    """

    _fluent: ClassVar[str | None] = "map"

    datapipe: IterDataPipe[Any]
    fn: Callable[..., R_co]
    input_col: Any = None
    output_col: Any = None

    def __post_init__(self) -> None:
        needs_callable(type(self)._fluent or type(self).__name__, self.fn)
        self.output_col = check_columns(self.input_col, self.output_col)
        validate_input_col(self.fn, self.input_col)
        super().__post_init__()

    def _step(self) -> Step:
        is_own = type(self)._apply_fn is not Mapper._apply_fn
        return Step("map", self._apply_fn if is_own else on_columns(self.fn, self.input_col, self.output_col))

    def _apply_fn(self, data: Any) -> Any:
        """Return the result for an element. Subclasses written for torch's Mapper call or override it."""
        return on_columns(self.fn, self.input_col, self.output_col)(data)

    __len__ = same_length


@operator
class Collator(Mapper[R_co]):
    """Each element, usually a batch, as tensors: ``torch.utils.data.default_collate`` or a user's function.

    A batch of lists becomes a list with a tensor for each position in the lists, as in torch. If they have 16 or more
    numbers, there is a warning: ``pack`` or ``map(torch.tensor)`` above ``batch`` gives one tensor.

    Args:
        conversion: The function of the element. With a dict or None, each element is or holds one pandas DataFrame,
            which becomes a named tuple of its columns. The function under a column's name converts it; other columns
            become tensors, or lists for text. The dict may name no columns that do not exist.
        collate_fn: A function to use instead of ``conversion``.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(4)).batch(2).collate())
    [tensor([0, 1]), tensor([2, 3])]
    """

    _fluent: ClassVar[str | None] = "collate"

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        conversion: Callable[..., Any] | Mapping[str, Callable[[Any], Any]] | None = default_collate,
        collate_fn: Callable[..., Any] | None = None,
        *,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> None:
        self.conversion = conversion
        self.collate_fn = collate_fn
        fn: Any = conversion if collate_fn is None else collate_fn
        if fn is None or isinstance(fn, Mapping):
            for convert in (fn or {}).values():
                needs_callable("collate", convert)
            fn = partial(collated, fn)
        super().__init__(datapipe, fn, on_error=on_error, max_errors=max_errors)

    def _rewritten_for_run(self, run: Run) -> IterDataPipe[R_co]:
        batcher: Any = self.datapipe
        is_torchs = type(self) is Collator and self.fn is default_collate and self.on_error == "raise"
        is_batched = type(batcher) in (Batcher, BatchReader) and batcher.wrapper_class in (DataChunk, list)
        if not (is_torchs and is_batched):
            return self
        positions, at_once = batcher.of_positions(run)
        if at_once.collated is None:
            return self
        new: Collator[R_co] = with_parents(self, lambda _: positions.in_blocks(run))
        new.fn = at_once.collated
        return new

    def _step(self) -> Step:
        is_plain = self.fn is default_collate and type(self)._apply_fn is Mapper._apply_fn
        return Step("map", batches.collated) if is_plain else super()._step()


@operator
class Filter(Tolerant, IterDataPipe[T_co]):
    """The elements for which a function returns True.

    Of a pandas DataFrame it may choose rows; a frame without any kept row is left out.

    Args:
        filter_fn: The function of the element, or of its columns as separate arguments. It returns True or False; for a
            DataFrame it may return a Series of these, for the rows to keep. Anything else is an error.

    >>> from datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(6)).filter(lambda x: x % 2 == 0))
    [0, 2, 4]
    """

    _fluent: ClassVar[str | None] = "filter"
    _passes_through: ClassVar[bool] = True

    datapipe: IterDataPipe[T_co]
    filter_fn: Callable[..., bool]
    input_col: Any = None

    def __post_init__(self) -> None:
        needs_callable("filter", self.filter_fn)
        validate_input_col(self.filter_fn, self.input_col)
        super().__post_init__()

    def _step(self) -> Step:
        is_own = type(self)._apply_filter_fn is not Filter._apply_filter_fn
        return Step("filter", self._apply_filter_fn if is_own else on_input(self.filter_fn, self.input_col))

    def _apply_filter_fn(self, data: Any) -> Any:
        """Return the function's result for an element. Subclasses written for torch's Filter call it."""
        return on_input(self.filter_fn, self.input_col)(data)
