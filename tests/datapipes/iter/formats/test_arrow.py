"""read_arrow gives every batch of files and streams, and notices when some are missing."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from datapipes.errors import BadArgument, CorruptData
from datapipes.iter import ArrowReader, IterableWrapper

TABLE = pa.table({"x": list(range(5)), "name": ["a", "b", "a", None, "b"]})
MAKERS = [pa.ipc.new_file, pa.ipc.new_stream]


def written(make: Callable[..., Any], table: Any = TABLE, **options: Any) -> bytes:
    file = io.BytesIO()
    with make(file, table.schema, **options) as writer:
        writer.write_table(table, max_chunksize=2)
    return file.getvalue()


def read(data: bytes, *args: Any, **options: Any) -> Any:
    return IterableWrapper([("a.arrow", io.BytesIO(data))], deepcopy=False).read_arrow(*args, **options)


@pytest.mark.parametrize("make", MAKERS)
def test_every_batch(make: Any, tmp_path: Path) -> None:
    data = written(make)
    dp = read(data)
    assert isinstance(dp, ArrowReader)
    batches = list(dp)
    assert [batch.num_rows for batch in batches] == [2, 2, 1]
    assert pa.Table.from_batches(batches).equals(TABLE)
    (tmp_path / "a").write_bytes(data)
    paths = IterableWrapper([str(tmp_path / "a")])
    assert pa.Table.from_batches(paths.read_arrow()).equals(TABLE)
    assert pa.Table.from_batches(paths.open_files("rb").read_arrow()).equals(TABLE)


@pytest.mark.parametrize("make", MAKERS)
def test_some_columns_in_the_order_that_is_asked_for(make: Any) -> None:
    assert list(read(written(make), ["name", "x"], as_="dict"))[2] == {"name": ["b"], "x": [4]}
    assert [batch["x"].tolist() for batch in read(written(make), ["x"], as_="tensors")] == [[0, 1], [2, 3], [4]]
    with pytest.raises(BadArgument, match=r"a.arrow: there is no column 'y' among \['x', 'name'\]"):
        list(read(written(make), ["y"]))
    with pytest.raises(BadArgument, match=r"a.arrow: there is no column 'x\.part'"):
        list(read(written(make), ["x.part"]))


@pytest.mark.parametrize("make", MAKERS)
def test_dictionaries_and_compression(make: Any) -> None:
    table = pa.table({"c": TABLE["name"].dictionary_encode()})
    data = written(make, table, options=pa.ipc.IpcWriteOptions(compression="zstd"))
    assert pa.Table.from_batches(read(data)).to_pydict() == {"c": TABLE["name"].to_pylist()}


@pytest.mark.parametrize("make", MAKERS)
def test_cut_off_anywhere_it_is_an_error(make: Any) -> None:
    data = written(make)
    for length in range(len(data)):
        with pytest.raises(CorruptData, match=r"^a\.arrow"):
            list(read(data[:length]))


def test_batches_that_were_given_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(written(pa.ipc.new_file))
    dp = IterableWrapper([str(tmp_path / "a")]).read_arrow(as_="dict")
    it: Any = iter(dp)
    next(it), next(it)
    numbers: list[int] = []
    original = pa.ipc.RecordBatchFileReader.get_batch

    def noticed(self: Any, number: int) -> Any:
        numbers.append(number)
        return original(self, number)

    monkeypatch.setattr(pa.ipc.RecordBatchFileReader, "get_batch", noticed)
    again: Any = iter(dp)
    again.load_state_dict(it.state_dict())
    assert list(again) == [{"x": [4], "name": ["b"]}]
    assert numbers == [2]


def test_a_batch_that_is_damaged_is_an_error_and_not_a_crash() -> None:
    data = written(pa.ipc.new_file)
    at = data.index(b"\0\0\0\0\1\0\0\0\2\0\0\0")  # where the names begin and end
    wrong = data[:at] + b"\0\0\0\0\xff\xff\xff\x7f\2\0\0\0" + data[at + 12 :]
    with pytest.raises(CorruptData, match=r"^a\.arrow, batch 0: .*offset"):
        list(read(wrong))


def test_a_file_needs_a_stream_that_can_be_sought_and_a_stream_does_not() -> None:
    class Pipe(io.RawIOBase):
        def __init__(self, data: bytes) -> None:
            self._file = io.BytesIO(data)

        def read(self, size: int = -1, /) -> bytes:
            return self._file.read(min(size, 7))

    pipe = [("a.arrow", Pipe(written(pa.ipc.new_stream)))]
    assert len(list(IterableWrapper(pipe, deepcopy=False).read_arrow())) == 3
    file = [("a.arrow", Pipe(written(pa.ipc.new_file)))]
    with pytest.raises(CorruptData, match=r"a\.arrow: .*seek"):
        list(IterableWrapper(file, deepcopy=False).read_arrow())


def test_an_index_that_leaves_batches_out_is_noticed() -> None:
    data = written(pa.ipc.new_file)
    length = int.from_bytes(data[-10:-6], "little")
    index = bytearray(data[-10 - length : -10])
    index[index.index(b"\3\0\0\0")] = 2  # the number of batches
    with pytest.raises(CorruptData, match=r"a\.arrow: its index does not name all that is in it"):
        list(read(data[: -10 - length] + index + data[-10:]))


def test_ctrl_c_while_a_part_of_a_batch_is_read_is_no_damage() -> None:
    """pyarrow tells it as an OSError then, with the traceback as text."""

    class Interrupted(io.BytesIO):
        reads = 0

        def read(self, *size: Any) -> bytes:
            self.reads += 1
            if self.reads == number:
                raise KeyboardInterrupt
            return super().read(*size)

    came = 0
    for number in range(1, 40):
        stream = Interrupted(written(pa.ipc.new_file))
        try:
            list(IterableWrapper([("a.arrow", stream)], deepcopy=False).read_arrow(["x"]))
        except KeyboardInterrupt:
            came += 1
        else:
            assert stream.reads < number
    assert came > 5
