"""Packed elements come back equal.

What this file keeps true: whatever ``encode`` accepts is the same after ``decode``, and whatever it refuses it names,
with the way to it and a way out. (What bytes that were made to do harm come to is in ``test_element_reader``.)
"""

import copy
import io
import pickle
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum
from fractions import Fraction
from functools import partial
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import datapipes.elements.classes as element_classes
from datapipes.elements import UnsafeState, UnsavableElement, allow, allowed, decode, encode
from datapipes.elements.chunk import DataChunk
from datapipes.elements.streams import StreamWrapper

WHAT = "buffer of stage 3: .shuffle(buffer_size=10)"
load = partial(decode, what=WHAT)
save = partial(encode, what=WHAT)


class Plain:
    """With attributes, some of them in slots."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Frozen:
    a: Any
    b: Any = None


class Pair(NamedTuple):
    left: Any
    right: Any


class Colour(Enum):
    RED = (1, 0, 0)
    BLUE = (0, 0, 1)


class Level(IntEnum):
    LOW = 1


class Access(Flag):
    READ = 1
    WRITE = 2


class Unallowed:
    pass


@pytest.fixture(autouse=True)
def classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(element_classes, "_allowed", {})
    for cls in (Plain, Frozen, Pair, Colour, Level, Access):
        allow(cls)


def same(a: Any, b: Any) -> bool:
    """Equal, of the same types all the way down, a NaN equal to itself."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and same(a.ravel().tolist(), b.ravel().tolist())
    if isinstance(a, torch.Tensor):
        a_numbers, b_numbers = (t.detach().resolve_conj().to(torch.complex128).tolist() for t in (a, b))
        alike = a.dtype == b.dtype and a.shape == b.shape and a.requires_grad == b.requires_grad
        return alike and same(a_numbers, b_numbers)
    if isinstance(a, list | tuple | deque):
        return len(a) == len(b) and all(map(same, a, b)) and getattr(a, "maxlen", 0) == getattr(b, "maxlen", 0)
    if isinstance(a, dict):
        factories = getattr(a, "default_factory", 0), getattr(b, "default_factory", 0)
        return same(list(a.items()), list(b.items())) and factories[0] is factories[1]
    if isinstance(a, Plain):
        return same(vars(a), vars(b))
    if isinstance(a, slice):
        return same((a.start, a.stop, a.step), (b.start, b.stop, b.step))
    return bool(a == b or (a != a and b != b))


WORDS = st.text(max_size=5)
HASHABLE: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        *(st.none(), st.booleans(), st.integers(), st.integers(-(2**5000), 2**5000), WORDS),
        *(st.floats(allow_nan=False), st.complex_numbers(allow_nan=False), st.decimals(allow_nan=False)),
        *(st.binary(max_size=5), st.fractions(), st.uuids(), st.dates()),
        *(st.timedeltas(), st.times(timezones=st.just(UTC)), st.datetimes(timezones=st.timezones() | st.none())),
        *(st.sampled_from(Colour), st.sampled_from(Level), st.integers(0, 3).map(Access), st.builds(Path, WORDS)),
        st.builds(range, st.integers(), st.integers(), st.integers(1)),
        st.binary(max_size=8).map(np.bytes_)
        | WORDS.map(np.str_)
        | st.floats(width=32, allow_nan=False).map(np.float32),
    ),
    lambda inner: (
        st.builds(Frozen, inner, inner)
        | st.builds(Pair, inner, inner)
        | st.lists(inner).map(tuple)
        | st.frozensets(inner)
    ),
    max_leaves=5,
)
ARRAYS = st.sampled_from(["<f8", ">i2", "|b1", "<U3", "|S2", "<M8[us]", "<c8", "O", "<f2"]).flatmap(
    lambda dtype: st.lists(st.integers(0, 1), max_size=6).map(lambda values: np.array(values).astype(dtype))
)
TENSORS = st.sampled_from([torch.float32, torch.bfloat16, torch.bool, torch.complex64, torch.uint8]).flatmap(
    lambda dtype: st.lists(st.integers(0, 1), max_size=6).map(lambda values: torch.tensor(values, dtype=dtype))
)
DICTS: tuple[Callable[[Any], Any], ...] = (OrderedDict, partial(defaultdict, list), Counter)
ELEMENTS: st.SearchStrategy[Any] = st.recursive(
    HASHABLE | st.floats() | ARRAYS | TENSORS | st.binary().map(bytearray),
    lambda inner: st.one_of(
        *(st.lists(inner), st.lists(inner).map(tuple), st.lists(inner).map(DataChunk)),
        *(st.dictionaries(HASHABLE, inner), st.builds(deque, st.lists(inner), st.just(7)), st.sets(HASHABLE)),
        *(st.dictionaries(WORDS, inner).map(kind) for kind in DICTS),
        *(st.builds(Plain, x=inner, y=inner), st.builds(slice, inner)),
    ),
    max_leaves=20,
)


@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # of the strategy, when a draw is given up
@given(ELEMENTS)
def test_what_is_packed_comes_back_equal(elements: Any) -> None:
    assert same(load(save(elements)), elements)


RECORD = np.dtype([("a", ">i4"), ("b", "S3"), ("c", "?", (2,)), ("d", [("x", "<f8"), ("t", "<M8[s]")])])
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    "value",
    [
        *(np.zeros((2, 3), RECORD), np.zeros(2, np.dtype("i1,f8", align=True)), np.zeros(2, RECORD)[0]),
        *(np.asfortranarray(np.arange(6).reshape(2, 3)), np.arange(9)[::-4], np.array(5.0), np.zeros((0, 3))),
        *(np.array(["ab", ""]), np.zeros(2, "U0"), np.array([1.5], np.longdouble), np.zeros(2, "V5"), np.void(b"ab")),
        *(np.array([[1, [2, 3]], [None, np.arange(3)]], object), np.array([{}], object).reshape(()), np.str_("a\0")),
        *(np.datetime64("2020-01-01", "D"), np.timedelta64("NaT"), np.frombuffer(b"ab", "u1"), np.bool_(True)),
        *(torch.arange(6).reshape(2, 3).T, torch.tensor(3.0), torch.zeros(0, 2), torch.ones(2)[None].expand(3, 2)),
        *(torch.tensor([1 + 2j]).conj(), torch.ones(2, requires_grad=True), torch.zeros(3, dtype=torch.float8_e5m2)),
        *(torch.ones(2, requires_grad=True) * 2, torch.zeros(0, requires_grad=True)),
        *(torch.Size([1, 2]), torch.bfloat16, Decimal("-0"), Decimal("Infinity"), Fraction(-3, 7), UUID(int=3)),
        *(datetime(2020, 10, 25, 2, 30, fold=1, tzinfo=BERLIN), time(1, fold=1), timedelta(-1, 2, 3), BERLIN),
        *(timezone(timedelta(hours=1), "X"), date.max, PureWindowsPath("C:\\a\\b"), PurePosixPath(), slice(1, "a")),
        *(deque([1]), defaultdict(None, a=1), "\ud800", 2**100_000, b"x" * 100_000, Access(0), ()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_kinds_of_elements(value: Any) -> None:
    back = load(save([value, {"k": value}]))
    assert isinstance(back, list)
    assert same(back[0], value)
    if not isinstance(value, int):
        assert back[0] is back[1]["k"]
    if isinstance(back[0], np.ndarray):
        assert back[0].flags.writeable


def test_cycles_and_long_containers() -> None:
    items: list[Any] = [None] * 2500
    chain: deque[Any] = deque([items])
    items[0] = ({"itself": items}, chain, Plain(items=items))
    back: Any = load(save(items))
    assert len(back) == 2500
    assert back[0][0]["itself"] is back[0][1][0] is back[0][2].items is back


def test_many_that_are_much_the_same() -> None:
    """What is paid for while reading is never more than what packing wrote."""
    key = tuple(range(10))
    parts: list[Any] = [range(3), deque(), defaultdict(frozenset), Decimal(1), np.zeros(0, RECORD), BERLIN]
    every: list[Any] = [
        *([frozenset([5, 6, key]), {5, 6}, {key: i, -1: 0, -2: 0, 0.5: 0}] for i in range(5_000)),
        *(
            [Frozen(key, i), Pair(i, key), Plain(x=key), np.float32(i), torch.zeros(0), Colour.RED]
            for i in range(2_000)
        ),
        *(copy.copy(part) for part in parts for _ in range(2_000)),
        {(i - 2, j - 2, k - 2): 0 for i in range(5) for j in range(5) for k in range(5)},
    ]
    assert same(load(save(every)), every)


def test_what_was_saved_before_is_still_read() -> None:
    saved = (
        b"\x80\x05\x95\xc2\0\0\0\0\0\0\0]\x94(K\1\x8c\1a\x94\x8c\x12datapipes.elements\x94\x8c\7rebuild\x94\x93\x94("
        b"\x8c\5range\x94K\0K\5K\2t\x94R\x94h\4\x8c\7Decimal\x94\x8c\x031.5\x94\x86\x94R\x94}\x94(\x8c\1t\x94h\4(\x8c\6Tenso"
        b"r\x94\x8c\5uint8\x94K\2\x85\x94\x96\2\0\0\0\0\0\0\0\1\2\x94t\x94R\x94\x8c\1n\x94h\4(\x8c\7ndarray\x94\x8c\3>i2"
        b"\x94K\1\x85\x94\x96\2\0\0\0\0\0\0\0\0\1\x94t\x94R\x94uh\4\x8c\5deque\x94K\3\x86\x94R\x94Nae."
    )
    tensor, array = torch.tensor([1, 2], dtype=torch.uint8), np.array([1], ">i2")
    assert same(load(saved), [1, "a", range(0, 5, 2), Decimal("1.5"), {"t": tensor, "n": array}, deque([None], 3)])


class HandWritten(Plain):
    def __reduce__(self) -> Any:
        return eval, ("1",)


class SetState(Plain):
    def __setstate__(self, state: Any) -> None:
        raise AssertionError("must not run")


class Shout(str):
    pass


CYCLE: Any = np.empty(1, object)
CYCLE[0] = CYCLE
UNSAVABLE: list[Any] = [len, lambda: 0, Plain, sys, iter([]), ...]


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (Unallowed(), r"Unallowed, cannot be saved: .*allow it with datapipes\.allow\(.*\.Unallowed\)"),
        (StreamWrapper(object()), r"an open file that no stage of this graph can open again .* read it in a map\(\)"),
        (io.BufferedReader(io.BytesIO()), r"an open file cannot be saved: read it in a map\(\) before this stage"),
        (HandWritten(), "its __reduce__ asks for eval"),
        (SetState(), "its __setstate__ would have to run"),
        (Shout("a"), "derived from builtins.str"),
        *((value, "load without running code") for value in UNSAVABLE),
        (Plain(f=print), r"elements\[1\]\['a'\]\[0\]\.f, of class builtins"),
        (pickle.PickleBuffer(b"a"), "use bytes"),
        (defaultdict(lambda: 0), "use a built-in type"),
        (np.zeros(2, "O,i4"), "dtype"),
        (np.ma.array([1]), "derived from numpy.ndarray"),
        (torch.nn.Parameter(torch.ones(1)), "derived from torch"),
        (torch.ones(1, device="meta"), r"\.cpu\(\)"),
        (torch.ones(1).to_sparse(), "dense"),
        (Fraction(1, 2**200_000), "bits"),
        (CYCLE, "contain themselves"),
    ],
    ids=lambda value: value if type(value) is str else type(value).__name__,
)
def test_what_cannot_come_back_is_refused_when_it_is_packed(value: Any, complaint: str) -> None:
    allow(HandWritten)
    allow(SetState)
    with pytest.raises(UnsavableElement, match=complaint) as caught:
        save([1, {"a": (value,)}])
    assert str(caught.value).startswith(WHAT)
    assert "elements[1]['a'][0]" in str(caught.value) or value is CYCLE


def test_only_classes_that_can_come_back_are_allowed() -> None:
    for cls in (int, Shout, ValueError, type, partial, torch.Tensor):
        with pytest.raises(TypeError, match="cannot be allowed"):
            allow(cls)
    with pytest.raises(TypeError, match="takes a class"):
        allow(print)  # type: ignore[type-var]  # the mistake under test
    assert set(allowed()) == {Plain, Frozen, Pair, Colour, Level, Access}


def test_a_class_that_is_no_longer_allowed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    saved = save([Frozen(1)])
    monkeypatch.setattr(element_classes, "_allowed", {})
    with pytest.raises(UnsafeState, match=r"stage 3.*Frozen'.*datapipes\.allow"):
        load(saved)


def test_depth_is_refused_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    for limit in (sys.getrecursionlimit(), 1_000_000):
        monkeypatch.setattr(sys, "getrecursionlimit", lambda limit=limit: limit)
        with pytest.raises(UnsavableElement, match=r"stage 3.*nested too deep"):
            save(nested)
        every = [[[Plain(a=[Frozen({"a": (1, {2})})])]], np.array([[]], object), *range(20_000)]
        assert same(load(save(every)), every)
