"""Opening, checking and converting of tables: files, forms of batches, and damage as ``CorruptData``.

pyarrow and pandas are imported when a stage is built, not before. Each batch is fully validated by pyarrow before it is
handed on, because a damaged one would crash the process that reads it. pyarrow's errors for a damaged file become
``CorruptData``, which names the file and the place. A missing file or a failing disk stays an ``OSError``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal

import torch

from datapipes.errors import BadArgument, BadArgumentType, CorruptData, Loader2Error
from datapipes.io.remote.remote_file import opened_url
from datapipes.io.remote.transfer import DEFAULT
from datapipes.messages.file_errors import located, named

As = Literal["batch", "dict", "tensors"]
FORMS = ("batch", "dict", "tensors")


def file_of(element: Any, method: str) -> tuple[str, Any]:
    """Return the name and the open file of a path, a URL, or ``(path, stream)``."""
    if isinstance(element, tuple) and len(element) == 2 and hasattr(element[1], "read"):
        path, stream = element
        return named(path), stream
    if not isinstance(element, str | os.PathLike):
        raise BadArgumentType(
            f"{method}() needs paths, or pairs of a path and a stream, got {type(element).__name__}: {element!r:.80}"
        )
    path = os.fspath(element)
    if "://" in path:
        return opened_url(path, "rb", DEFAULT, {}, {})
    import pyarrow as pa

    return named(path), pa.OSFile(path)  # it reads without Python, and closes with its reader


def has_columns(file: str, there: Sequence[str], asked: Sequence[str], parts: bool = False) -> list[str]:
    """Return the columns asked for, which must exist. ``parts``: also parts of columns, as ``point.x``."""
    known = set(there)
    if missing := [name for name in asked if name not in known and not (parts and name.partition(".")[0] in known)]:
        raise BadArgument(f"{file}: there is no column {missing[0]!r:.80} among {list(there)!r:.300}")
    return list(asked)


class damage_is_named:
    """Context that turns pyarrow's errors for a damaged file into ``CorruptData``.

    It is no generator: on Python 3.13 a generator keeps an exception that is thrown into it, with all frames of its
    traceback, and these keep the file open.
    """

    def __init__(self, where: Callable[[], str]) -> None:
        self._where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, Loader2Error):
            return
        if isinstance(error, OSError) and _INTERRUPTED.search(str(error)):
            raise KeyboardInterrupt from None
        if isinstance(error, OSError) and error.errno is not None:
            located(error, self._where())
        elif isinstance(error, _DAMAGE):
            raise CorruptData(f"{self._where()}: {error}") from error


_INTERRUPTED = re.compile(r"Detail: Python exception: Traceback .*^KeyboardInterrupt$", re.DOTALL | re.MULTILINE)
"""pyarrow's text for Ctrl-C while it read a part of a batch from a Python file. It has no other trace of it."""
_DAMAGE = (OSError, ArithmeticError, LookupError, MemoryError, NotImplementedError, TypeError, ValueError)


def as_one_batch(table: Any) -> Any:
    """Return a table as one validated record batch."""
    import pyarrow as pa

    whole = table.combine_chunks()
    batches = whole.to_batches() or [pa.RecordBatch.from_pylist([], schema=whole.schema)]
    batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    batch.validate(full=True)
    return batch


def shaped(batch: Any, form: As) -> Any:
    """Return a record batch in the form in which it is handed on."""
    if form == "batch":
        return batch
    names = batch.schema.names
    if len(set(names)) < len(names):
        raise CorruptData(f"two columns have the same name, among {names!r:.200}; a dict would lose one")
    if form == "dict":
        return batch.to_pydict()
    return {name: _tensor(name, column) for name, column in zip(names, batch.columns, strict=True)}


def _tensor(name: str, column: Any) -> torch.Tensor:
    """Return a column of numbers, or of lists of numbers with one size, as a tensor with its own memory."""
    size, is_number = _numbers_of(column.type)
    numbers = column if size is None else column.flatten()
    if not is_number or column.null_count or numbers.null_count:
        what = f"is of type {column.type}" if not is_number else "has nulls"
        raise TypeError(
            f"column {name!r} {what}, but tensors are made of numbers: leave it out (columns=[...], .select([...]))"
        )
    tensor = torch.from_numpy(numbers.to_numpy(zero_copy_only=False).copy())
    return tensor if size is None else tensor.reshape(len(column), size)


@lru_cache(maxsize=256)  # it is called for each column of each batch
def _numbers_of(kind: Any) -> tuple[int | None, bool]:
    """Return the size of a column type's lists, None if it has none of one size, and whether it has numbers."""
    import pyarrow as pa

    size = kind.list_size if pa.types.is_fixed_size_list(kind) else None
    one = kind if size is None else kind.value_type
    return size, pa.types.is_integer(one) or pa.types.is_floating(one) or pa.types.is_boolean(one)
