"""trace_as_dataframe: a stream of data frames that is worked on as if it were one frame.

What is done to the stream is written down (``datapipes.iter.frames.tape``) and replayed on each frame. A traced value
stands for what a frame will give there; it has no value of its own, and says so where a program asks for one.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

from datapipes.description.pipe import IterDataPipe
from datapipes.iter.frames.making import needs_pandas
from datapipes.iter.frames.tape import Operation, Replay, Slot, replaced
from datapipes.operators.checks import same_length
from datapipes.position.steps import Step


class DataFrameTracer(IterDataPipe[Any]):
    """The data frames of a stream, after everything that is done to this pipe as if it were one of them.

    What is recorded: a column or attribute (``df["a"]``, ``df.a``, ``df.loc``), the assignment of one
    (``df["b"] = ...``, ``df.loc[...] = ...``), arithmetic, comparisons and ``& | ^ ~`` of what these give, functions of
    numpy on it (``np.sqrt(df["a"])``), and calls of its methods (``df["a"].fillna(0)``). What is not: an ``if`` or
    ``for`` on a value, ``len``, ``print``, and functions of pandas itself (``pd.concat``); those that ask for a value
    raise TypeError. A name that is a method of pipes is that method; ``df.traced`` stands for the frame itself, with
    all of its own. ``as_datapipe()`` of a traced value is the stream of what it becomes.

    With a ``schema_df``, a frame with the columns that are to come, a column that is not among them is refused at once.

    >>> from datapipes.iter import IterableWrapper
    >>> df = IterableWrapper([(1, 2), (3, 4)])._to_dataframes_pipe(columns=["a", "b"]).trace_as_dataframe()
    >>> df["c"] = df["a"] + 10 * df.b
    >>> list(df._dataframes_as_tuples())
    [(1, 2, 21), (3, 4, 43)]
    >>> [int(total) for total in df["c"].sum().as_datapipe()]
    [64]
    """

    _fluent: ClassVar[str | None] = "trace_as_dataframe"
    _data: ClassVar[frozenset[str]] = frozenset({"_operations"})
    _columns: tuple[Any, ...] | None  # those of the schema, and those assigned

    def __init__(self, source_datapipe: IterDataPipe[Any], schema_df: Any = None) -> None:
        needs_pandas("trace_as_dataframe")
        self.source_datapipe = source_datapipe
        self.schema_df = schema_df
        self._operations: tuple[Operation, ...] = ()
        self._columns = None if schema_df is None else tuple(schema_df.columns)

    @property
    def traced(self) -> Any:
        """The frame, as a traced value."""
        return Traced(self, Slot(0))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in type(self).functions:
            return super().__getattr__(name)  # type: ignore[misc]  # the base hides its own from type checkers
        if self._columns is not None and name not in self._columns and not hasattr(self.schema_df, name):
            raise AttributeError(f"{name!r} is neither a column nor an attribute of the frames: {self._known()}")
        return getattr(self.traced, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_") and name not in ("source_datapipe", "schema_df"):
            raise AttributeError(f"a column is assigned as an item: df[{name!r}] = ...")
        super().__setattr__(name, value)

    def __getitem__(self, key: Any) -> Any:
        self._check(key)
        return self.traced[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.traced[key] = value
        if self._columns is not None and isinstance(key, str):
            self._columns = (*self._columns, key)

    def _check(self, key: Any) -> None:
        names = key if isinstance(key, list) else [key] if isinstance(key, str) else []
        missing = [name for name in names if self._columns is not None and name not in self._columns]
        if missing:
            raise KeyError(f"no column {missing}: {self._known()}")

    def _known(self) -> str:
        return f"the columns are {list(self._columns or ())!s:.200}"

    def _record(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Traced:
        def slot_of(value: Traced) -> Slot:
            if value._tracer is not self:
                raise TypeError(f"{value!r} belongs to another trace: frames of two streams do not come in step")
            slot: Slot = value._slot
            return slot

        operation = Operation(fn, *replaced((args, kwargs), Traced, slot_of))
        self._operations = (*self._operations, operation)
        return Traced(self, Slot(len(self._operations)))

    def _step(self) -> Step:
        return Step("map", Replay(self._operations, Slot(0)))

    __len__ = same_length


class Traced:
    """What a frame will give at one point of a trace."""

    __slots__ = ("_slot", "_tracer")
    __pandas_priority__ = 5000  # so that what pandas has on the left leaves the operator to the right

    def __init__(self, tracer: DataFrameTracer, slot: Slot) -> None:
        object.__setattr__(self, "_tracer", tracer)
        object.__setattr__(self, "_slot", slot)

    def as_datapipe(self) -> IterDataPipe[Any]:
        """The stream of what this becomes for each frame, whatever is recorded from now on."""
        replay = Replay(self._tracer._operations[: self._slot.number], self._slot)
        return IterDataPipe.map(self._tracer.source_datapipe, replay)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._tracer._record(getattr, self, name)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"a column is assigned as an item: df[{name!r}] = ...")

    def __getitem__(self, key: Any) -> Any:
        return self._tracer._record(operator.getitem, self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._tracer._record(operator.setitem, self, key, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._tracer._record(operator.call, self, *args, **kwargs)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return self._tracer._record(ufunc, *inputs, **kwargs) if method == "__call__" else NotImplemented

    def __repr__(self) -> str:
        number = self._slot.number
        return f"<traced {self._tracer._operations[number - 1] if number else 'frame'}>"

    def _refuse(self, *_: Any) -> NoReturn:
        raise TypeError(
            f"{self!r} has no value before the frames are read: use its methods, or .as_datapipe() and then .map()"
        )

    __bool__ = __len__ = __iter__ = __contains__ = __int__ = __float__ = __index__ = _refuse
    __hash__ = object.__hash__


def _trace_operators() -> None:
    """Give traced values the operators of Python, each recorded as the function of ``operator`` that it is."""

    def recorded(fn: Callable[..., Any], turned: bool = False) -> Callable[..., Any]:
        def of_two(self: Traced, other: Any) -> Any:
            return self._tracer._record(fn, other, self) if turned else self._tracer._record(fn, self, other)

        def of_one(self: Traced) -> Any:
            return self._tracer._record(fn, self)

        return of_one if fn in (operator.neg, operator.pos, operator.abs, operator.invert) else of_two

    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor"):
        fn = getattr(operator, f"__{name}__")
        setattr(Traced, f"__{name}__", recorded(fn))
        setattr(Traced, f"__r{name}__", recorded(fn, turned=True))
    for name in ("eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "abs", "invert"):
        setattr(Traced, f"__{name}__", recorded(getattr(operator, f"__{name}__")))


_trace_operators()
