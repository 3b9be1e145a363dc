"""Arrow's batches and tables come back equal; what could be larger than its bytes does not."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

import datapipes.elements.tables as element_tables
from datapipes.elements import UnsafeState, decode, encode

save = partial(encode, what="a buffer")
load = partial(decode, what="a buffer")

BATCH = pa.record_batch(
    {
        "number": [1, None, 3],
        "text": ["a", "", None],
        "list": [[1], [], None],
        "kind": pa.array(["u", "v", "u"]).dictionary_encode(),
        "struct": [{"x": 1}, {"x": 2}, None],
    }
)


def restored(element: Any) -> Any:
    elements: Any = load(save([element]))
    return elements[0]


def test_batches_and_tables_come_back() -> None:
    chunked = pa.table({"x": pa.chunked_array([[1, 2], [3]])}).replace_schema_metadata({"a": "b"})
    for element in (BATCH, BATCH.slice(1, 1), pa.Table.from_batches([BATCH, BATCH]), chunked, pa.table({})):
        again = restored(element)
        assert type(again) is type(element)
        assert again.equals(element, check_metadata=True)


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
@pytest.mark.parametrize("batch", [BATCH, BATCH.select(["kind"])])
def test_nothing_compressed_is_read(batch: Any, compression: str) -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_batch(batch)
    for make in (element_tables.make_batch, element_tables.make_table):
        with pytest.raises(ValueError, match="its buffers are compressed"):
            make(sink.getvalue().to_pybytes())


def test_damaged_bytes_are_refused_or_give_a_table() -> None:
    chance = random.Random(0)
    data = save([BATCH, pa.Table.from_batches([BATCH])])
    refused = 0
    for _ in range(2000):
        damaged = bytearray(data)
        for _ in range(chance.choice((1, 1, 2))):
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        try:
            load(bytes(damaged))
        except UnsafeState:
            refused += 1
    assert refused > 500
