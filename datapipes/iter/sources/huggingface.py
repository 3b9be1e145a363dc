"""HuggingFaceHubReader: the rows of a data set of the Hugging Face hub, or of files in one of its formats."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.errors import BadArgument, StateError
from datapipes.messages.extras import needed
from datapipes.operator_support.checks import no_length
from datapipes.position.cells import Cell, count, skip
from datapipes.position.opening import Opening


@operator
class HuggingFaceHubReader(IterDataPipe[Any]):
    """The rows of a data set, or of the one that ``datasets.load_dataset`` returns, streamed by default.

    The position is that of the data set itself, which decides how many rows a resume reads again. A data set that
    shuffles by a buffer does not save it: all rows up to the position are read again.

    Args:
        dataset: The name of a data set on the hub, or of a format such as ``"json"``, or a path. Or a ``Dataset`` or
            ``IterableDataset``: each iteration reads a copy of it, in its order of that epoch if it shuffles.
        **config_kwargs: Further arguments of ``load_dataset``. A data set with several splits needs ``split=``.
            ``streaming=False`` downloads it first. ``download_config=`` and the variable ``HF_HUB_DOWNLOAD_TIMEOUT``
            control timeouts and retries.

    >>> HuggingFaceHubReader("json", data_files="rows.jsonl", split="train")
    HuggingFaceHubReader('json', data_files='rows.jsonl', split='train')
    """

    def __init__(self, dataset: Any, **config_kwargs: Any) -> None:
        needed("datasets", "huggingface", "HuggingFaceHubReader")
        self.dataset = dataset
        if config_kwargs and not isinstance(dataset, str):
            raise BadArgument(f"{self!r}: further arguments are for load_dataset, but this data set is already loaded")
        self.config_kwargs = config_kwargs

    def _open(self, at: Opening) -> Iterator[Any]:
        return at.cell(_DatasetCell).rows(self, at.run.number)

    def _load(self, epoch: int) -> Any:
        import datasets

        if isinstance(self.dataset, datasets.Dataset):
            return self.dataset
        if isinstance(self.dataset, datasets.IterableDataset):
            own = deepcopy(self.dataset)
            own.set_epoch(epoch)
            return own
        loaded = datasets.load_dataset(**{"path": self.dataset, "streaming": True, **self.config_kwargs})
        if not isinstance(loaded, dict):
            return loaded
        if len(loaded) == 1:
            return next(iter(loaded.values()))
        raise BadArgument(f"{self!r}: choose a split by split=...; there are {', '.join(map(str, loaded))}")

    def __len__(self) -> int:
        raise no_length(self)


class _DatasetCell(Cell):
    """Position in a data set: its own if it is streamed and saves one, otherwise the number of rows given."""

    def __init__(self) -> None:
        self._dataset: Any = None
        self._given = 0
        self._saved: Any = None

    def rows(self, pipe: HuggingFaceHubReader, epoch: int) -> Iterator[Any]:
        if self._dataset is None:
            self._dataset = pipe._load(epoch)
            self._begin()
        elif self._keeps_position():
            self._dataset.load_state_dict(self._dataset.state_dict())
        left: Any = self._dataset
        if not self._is_streamed():
            left = left.select(range(self._given, len(left))) if self._given < len(left) else ()
        rows = _in_one_part(left)
        if self._is_streamed() and not self._keeps_position() and skip(rows, self._given) < self._given:
            raise StateError(f"{self.label}: {self._given} rows were given, but now there are fewer")
        for row in rows:
            self._given += 1
            yield row

    def _begin(self) -> None:
        if self._keeps_position():
            if self._saved is not None:
                _must_be_like(self._saved, self._dataset.state_dict())
                self._dataset.load_state_dict(deepcopy(self._saved))
        elif self._saved is not None or (not self._is_streamed() and self._given > len(self._dataset)):
            raise StateError(f"{self.label}: the position does not fit a data set that counts its rows")

    def _is_streamed(self) -> bool:
        return hasattr(self._dataset, "load_state_dict")

    def _keeps_position(self) -> bool:
        return self._is_streamed() and not _has_buffer(vars(self._dataset).get("_ex_iterable"))

    def save(self) -> dict[str, Any]:
        own = self._saved
        if self._dataset is not None:
            own = deepcopy(self._dataset.state_dict()) if self._keeps_position() else None
        return {"given": self._given, "own": own}

    def load(self, saved: Any) -> None:
        if type(saved) is not dict or set(saved) != {"given", "own"} or type(saved["own"]) not in (dict, type(None)):
            raise StateError(f"expected the fields ['given', 'own'], found {saved!r:.80}")
        self._given, self._saved = count(saved["given"], "given"), saved["own"]

    def done(self) -> int:
        return self._given


def _has_buffer(stage: Any) -> bool:
    """Return whether a stage of a data set's stream, or one above it, has a buffer that is not part of its position.

    The documentation of ``datasets`` says that such a position loses rows. No public attribute tells of the buffer.
    """
    above = [getattr(stage, "ex_iterable", None), *getattr(stage, "ex_iterables", ())]
    return (
        stage is None
        or "BufferShuffled" in type(stage).__name__
        or any(_has_buffer(one) for one in above if one is not None)
    )


def _in_one_part(rows: Any) -> Iterator[Any]:
    """Return all rows. In a worker of torch's DataLoader a data set would shard itself, but stages do that."""
    from torch.utils.data import get_worker_info

    if get_worker_info() is None or not hasattr(rows, "load_state_dict"):
        return iter(rows)
    return ({name: values[0] for name, values in row.items()} for row in rows.iter(batch_size=1))


def _must_be_like(saved: Any, own: Any, field: str = "own") -> None:
    """Check that a saved position has the fields of a data set's position, and numbers in the same places."""
    if type(own) is dict:
        if type(saved) is not dict or set(saved) != set(own):
            raise StateError(f"{field}: expected the fields {sorted(own)}, found {saved!r:.80}")
        for name, value in own.items():
            _must_be_like(saved[name], value, f"{field}.{name}")
    elif type(own) is int:
        count(saved, field)
    elif own is not None and type(saved) is not type(own):
        raise StateError(f"{field}: expected {type(own).__name__}, found {saved!r:.80}")
