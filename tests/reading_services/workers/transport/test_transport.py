"""Elements sent between processes arrive equal, belong to the receiver, and are never overwritten."""

from __future__ import annotations

import datetime
import enum
import pickle
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy
import pandas
import pyarrow
import pytest
import torch
from PIL import Image

from datapipes.elements.chunk import DataChunk
from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper
from loader2 import DataLoader2
from reading_services.workers.transport.packing import pickled, unpickled
from tests.reading_services.workers.in_turn import numbers, processes

SIZES = (3, 40, 4000, 40_000)  # of arrays, in elements: in the pickle, through the pipe, and in the shared memory


class Point(NamedTuple):
    x: Any
    y: Any


Pair = namedtuple("Pair", "x y")


@dataclass
class Row:
    values: Any
    name: str = "row"


class Colour(enum.Enum):
    RED = 1


class Special(torch.Tensor):
    """A subclass."""


def of(dtype: torch.dtype, n: int) -> torch.Tensor:
    return torch.arange(n).remainder(2 if dtype is torch.bool else 100).to(dtype)


DTYPES = [
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16),
    *(torch.float32, torch.float64, torch.complex64, torch.complex128, torch.float8_e5m2, torch.uint16),
]

TENSORS: dict[str, Callable[[int], Any]] = {
    **{str(dtype): partial(of, dtype) for dtype in DTYPES},
    "not contiguous": lambda n: torch.arange(2.0 * n).view(n, 2).t(),
    "a stride": lambda n: torch.arange(3 * n)[1::3],
    "expanded": lambda n: torch.ones(1).expand(n),
    "of no dimension": lambda n: torch.tensor(float(n)),
    "empty": lambda n: torch.empty(0, n, dtype=torch.int16),
    "with a gradient": lambda n: torch.ones(n, requires_grad=True),
    "a parameter": lambda n: torch.nn.Parameter(torch.ones(n)),
    "conjugate": lambda n: torch.complex(torch.ones(n), torch.ones(n)).conj(),
    "negative": lambda n: torch.complex(torch.ones(n), torch.ones(n)).conj().imag,
    "sparse": lambda n: torch.eye(min(n, 50)).to_sparse(),
    "sparse rows": lambda n: torch.eye(min(n, 50)).to_sparse_csr(),
    "quantized": lambda n: torch.quantize_per_tensor(torch.arange(float(n)), 0.5, 1, torch.qint32),
    "a subclass": lambda n: torch.arange(n).as_subclass(Special),
    "a part of a larger one": lambda n: torch.zeros(10, n)[3],
    "meta": lambda n: torch.empty(n, device="meta"),
}


def same_tensor(a: torch.Tensor, b: torch.Tensor) -> bool:
    alike = type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape and a.layout == b.layout
    if not alike or a.requires_grad != b.requires_grad or a.device != b.device or a.is_quantized != b.is_quantized:
        return False
    if a.is_meta:
        return True
    if a.is_quantized:
        return torch.equal(a.int_repr(), b.int_repr()) and a.q_scale() == b.q_scale()
    if a.layout is not torch.strided:
        return torch.equal(a.to_dense(), b.to_dense())
    return bool((a.detach().double() == b.detach().double()).all()) if not a.is_complex() else torch.equal(a, b)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.filterwarnings("ignore:.*TypedStorage", "ignore:.*quantized tensor creation")
def test_tensors_arrive_as_they_were(size: int) -> None:
    elements = [make(size) for make in TENSORS.values()]
    for name, sent, came in zip(TENSORS, elements, sent_through_workers(elements), strict=True):
        assert same_tensor(sent, came), f"{name}: {sent!r:.100} came as {came!r:.100}"


ARRAYS: dict[str, Callable[[int], Any]] = {
    "numbers": lambda n: numpy.arange(n, dtype=">i4"),
    "structured": lambda n: numpy.array([(i, float(i)) for i in range(n)], dtype=[("a", "i4"), ("b", "f8")]),
    "objects": lambda n: numpy.array([None, "a", *range(n)], dtype=object),
    "texts": lambda n: numpy.array(["ab", "c" * n]),
    "times": lambda n: numpy.arange(n).astype("M8[s]"),
    "Fortran": lambda n: numpy.asfortranarray(numpy.arange(2 * n).reshape(2, n)),
    "a stride": lambda n: numpy.arange(2 * n)[::-2],
    "of no dimension": lambda n: numpy.array(n),
    "a scalar": lambda n: numpy.float32(n),
    "empty": lambda n: numpy.empty((0, n)),
    "masked": lambda n: numpy.ma.masked_less(numpy.arange(n), 2),
    "a matrix": lambda n: numpy.arange(n).view(numpy.recarray),
}


@pytest.mark.parametrize("size", SIZES)
def test_arrays_arrive_as_they_were(size: int) -> None:
    elements = [make(size) for make in ARRAYS.values()]
    for name, sent, came in zip(ARRAYS, elements, sent_through_workers(elements), strict=True):
        assert type(sent) is type(came), name
        assert (sent.dtype, sent.shape) == (came.dtype, came.shape), name
        numpy.testing.assert_array_equal(sent, came)


def others(n: int) -> list[Any]:
    """Elements with an equality of their own."""
    return [
        *(None, n, 1.5, "text" * n, b"bytes" * n, bytearray(b"array" * n), {n, "x"}, frozenset([n]), 2**n % 2**500),
        *([1, [n, (2, {"a": [n]})]], (), OrderedDict(a=n), range(n), slice(n), complex(n), Ellipsis, NotImplemented),
        *(Point(n, [n]), Pair(1, n), Row([n] * n), Colour.RED, datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)),
        *(DataChunk([n, [n]]), PurePosixPath("a/b"), int, len, torch.float32, torch.Size([n]), numpy.dtype("f4")),
        pyarrow.record_batch({"a": list(range(n))}),
    ]


@pytest.mark.parametrize("size", SIZES)
def test_anything_else_arrives_as_it_was(size: int) -> None:
    elements = others(size)
    for sent, came in zip(elements, sent_through_workers(elements), strict=True):
        assert type(sent) is type(came)
        assert sent == came


@pytest.mark.parametrize("size", SIZES)
def test_images_frames_and_functions(size: int) -> None:
    image = Image.new("RGB", (size % 97 + 1, 40), (1, 2, 3))
    frame = pandas.DataFrame({"a": range(size), "b": ["x"] * size, "c": pandas.Categorical(["u"] * size)})
    came = sent_through_workers([image, frame, lambda x: x + size, Row(torch.ones(size))])
    assert (came[0].mode, came[0].size, came[0].tobytes()) == (image.mode, image.size, image.tobytes())
    pandas.testing.assert_frame_equal(came[1], frame)
    assert came[2](1) == size + 1
    assert torch.equal(came[3].values, torch.ones(size))


def sent_through_workers(elements: list[Any]) -> list[Any]:
    """Elements as one worker process gives them."""
    with DataLoader2(IterableWrapper(elements, deepcopy=False), reading_service=processes(1)) as loader:
        return list(iter(loader))


# -- whose memory it is ------------------------------------------------------------------------------------------------


def arrays(x: int, size: int) -> dict[str, Any]:
    return {"x": x, "tensor": torch.full((size,), x), "array": numpy.full(size, x, dtype="i4"), "raw": bytearray(size)}


def graph(length: int, size: int) -> Pipe:
    return numbers(length).sharding_filter().map(lambda x: arrays(x, size))


@pytest.mark.parametrize("size", [10, 1000, 20_000])
@pytest.mark.filterwarnings("ignore:the memory shared with the workers is full")
def test_what_came_may_be_written_to_and_kept(size: int) -> None:
    service = processes(2, arena_bytes=1 << 22)
    with DataLoader2(graph(300 if size > 1000 else 1000, size), reading_service=service) as loader:
        kept = []
        for element in loader:
            element["tensor"] += 1
            element["array"] += 1
            element["raw"][:1] = b"x"
            kept.append(element)
    for x, element in enumerate(kept):
        assert element["x"] == x
        assert bool((element["tensor"] == x + 1).all())
        assert bool((element["array"] == x + 1).all())
        assert element["raw"][:2] == b"x\0"


def test_what_cannot_be_written_to_stays_so() -> None:
    frozen = numpy.arange(40_000)
    frozen.flags.writeable = False
    (came,) = sent_through_workers([frozen])
    assert not came.flags.writeable
    assert (came == frozen).all()


def test_one_object_twice_in_an_element_is_one_object() -> None:
    one = torch.ones(40_000)
    ((a, b),) = sent_through_workers([(one, one)])
    assert a is b


class Unsendable:
    def __reduce__(self) -> Any:
        raise pickle.PicklingError("not this one")


def test_an_element_that_cannot_be_sent_is_an_error_and_the_others_come() -> None:
    made: Pipe = numbers(6).sharding_filter().map(lambda x: Unsendable() if x == 2 else x)
    with DataLoader2(made, reading_service=processes(2)) as loader:
        iterator = iter(loader)
        assert [next(iterator), next(iterator)] == [0, 1]
        with pytest.raises(pickle.PicklingError, match="not this one"):
            next(iterator)
        assert sorted(iterator) == [3, 4, 5]


def test_small_buffers_stay_in_the_pickle() -> None:
    data, buffers = pickled([torch.ones(10), torch.ones(1000), b"x" * 5000])
    assert [buffer.nbytes for buffer in buffers] == [4000]
    assert torch.equal(unpickled(data, buffers)[1], torch.ones(1000))
