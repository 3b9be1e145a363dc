"""Bytes that are damaged or made to do harm give ``UnsafeState``, and nothing else comes of them.

Each of HOSTILE is a pickle that an unpickler would follow; all of them are read once more in a process of its own with
little memory, where nothing may be written, run or crash.
"""

import pickle
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import datapipes.elements.classes as element_classes
from datapipes.elements import UnsafeState, allow, decode, encode
from datapipes.elements.reader import _STEPS as STEPS

WHAT = "buffer of stage 3: .shuffle(buffer_size=10)"


class Colour(Enum):
    RED = (1, 0, 0)


@dataclass(frozen=True, slots=True)
class Frozen:
    a: Any
    b: Any = None


class Plain:
    pass


class Pair(NamedTuple):
    left: Any
    right: Any


@pytest.fixture(autouse=True)
def classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(element_classes, "_allowed", {})
    for cls in (Colour, Frozen, Plain, Pair):
        allow(cls)


def text(value: str) -> bytes:
    return b"\x8c" + bytes([len(value)]) + value.encode()


def number(value: int) -> bytes:
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8b" + struct.pack("<I", len(raw)) + raw


def call(*parts: bytes) -> bytes:
    return text("datapipes.elements") + text("rebuild") + b"\x93(" + b"".join(parts) + b"tR"


def chain(link: Callable[[bytes], bytes], times: int = 20_000) -> bytes:
    """Each link made of the one before, which nothing else holds when all is read."""
    return b"N\x94" + b"".join(b"0" + link(b"j" + struct.pack("<I", i)) + b"\x94" for i in range(times))


def twice(before: bytes, both: bytes) -> bytes:
    return b"K\1\x94" + b"".join(b"0" + before + (b"h" + bytes([i])) * 2 + both + b"\x94" for i in range(60))


SYSTEM = text("os") + text("system") + b"\x93" + text("exit 3") + b"\x85R"
ARRAY, TENSOR, ONE = text("ndarray"), text("Tensor"), b"K\1\x85"
COLOUR, FROZEN, PLAIN, PAIR = (text(f"{__name__}.{name}") for name in ("Colour", "Frozen", "Plain", "Pair"))
BIG = b"X" + struct.pack("<I", 10**6) + b"1" * 10**6 + b"\x94"
HOSTILE: dict[str, bytes] = {
    "system": SYSTEM,
    "eval": text("builtins") + text("eval") + b"\x93" + text("1/0") + b"\x85R",
    "getattr chain": text("builtins") + text("getattr") + b"\x93" + text("a") + text("__class__") + b"\x86R",
    "dotted name": text("datapipes.elements") + text("io.open") + b"\x93" + text("/etc/passwd") + b"\x85R",
    "old-style name": b"cposix\nsystem\n" + text("exit 3") + b"\x85R",
    "inst": b"(" + text("exit 3") + b"ios\nsystem\n",
    "obj": b"(" + text("os") + text("system") + b"\x93" + text("exit 3") + b"o",
    "newobj": text("builtins") + text("object") + b"\x93)\x81",
    "newobj_ex": text("builtins") + text("object") + b"\x93)}\x92",
    "ext 1": b"\x82\1",
    "ext 4": b"\x84\1\0\0\0",
    "persistent id": b"Pa\n",
    "persistent id from the stack": text("a") + b"Q",
    "next buffer": b"\x97",
    "put": b"Nr\xff\xff\xff\x7f",
    "get of nothing": b"Nj\xff\xff\xff\x7f",
    "stack of nothing": b"a",
    "mark of nothing": b"t",
    "two values": b"NN",
    "name as a value": text("datapipes.elements") + text("rebuild") + b"\x93",
    "name in a list": b"]" + text("datapipes.elements") + text("rebuild") + b"\x93a",
    "name in a list, fetched": text("datapipes.elements") + text("rebuild") + b"\x93\x940]h\0a",
    "call of a value": text("a") + text("b") + b"\x85R",
    "unknown kind": call(text("eval"), text("1")),
    "huge frame": b"\x95" + struct.pack("<Q", 2**63),
    "huge bytearray": b"\x96" + struct.pack("<Q", 10**12),
    "huge text": b"\x8d" + struct.pack("<Q", 10**12),
    "huge int": b"\x8b\xff\xff\xff\xff",
    "deque of a range": call(text("deque"), call(text("range"), b"K\0", number(10**15), b"K\1")),
    "extending by a number": b"]K\1e",
    "items for a text": text("a") + text("b") + b"a",
    "items for a set": b"\x8fNa",
    "items for what is in another": b"]\x94]\x94h\0ah\0h\1a",
    "attributes for a list": b"]}b",
    "attributes for an enum": call(text("enum"), COLOUR, b"K\1K\0K\0\x87") + b"}" + text("a") + b"Nsb",
    "attributes that are none": call(text("object"), PLAIN) + b"]b",
    "attributes twice": call(text("object"), PLAIN) + b"}b}b",
    "slots that are none": call(text("object"), FROZEN) + b"N}" + text("__class__") + b"Ns\x86b",
    "unknown member": call(text("enum"), COLOUR, b"N"),
    "wrong family": call(text("object"), COLOUR),
    "unknown class": call(text("object"), text("subprocess.Popen")),
    "list as a key": b"}]Ns",
    "odd items": b"}(Nu",
    "nested lists": b"]" * 100_000 + b"a" * 99_999,
    "nested tuples": b")" + b"\x85" * 100_000,
    "nested dicts": b"}N" * 100_000 + b"}" + b"s" * 100_000,
    "deep key": b"})" + b"\x85" * 9_000 + b"Ns",
    "key of twice the same": b"}" + twice(b"", b"\x86") + b"Ns",
    "set of twice the same": twice(b"(", b"\x86\x91"),
    "frozen object of twice the same": twice(b"", b"\x86") + b"}h\x3cNs",
    "keys that collide": b"}" + b"".join(number(i * (2**61 - 1)) + b"Ns" for i in range(1, 20_000)),
    "a long key many times": b"(" + b"K\1" * 100_000 + b"t\x94}" + b"h\0Ns" * 50_000,
    "arrays in arrays": chain(lambda last: call(ARRAY, text("O"), ONE, b"]" + last + b"a")),
    "deques in deques": chain(lambda last: call(text("deque"), b"N") + last + b"a"),
    "defaultdicts in defaultdicts": chain(lambda last: call(text("defaultdict"), b"N") + b"N" + last + b"s"),
    "slices in slices": chain(lambda last: call(text("slice"), last, b"NN")),
    "copies of a number": BIG + b"0(" + call(text("Decimal"), b"h\0") * 1_000 + b"t",
    "copies of objects": b"]("
    + b"N" * 10**6
    + b"e\x940("
    + call(ARRAY, text("O"), number(10**6) + b"\x85h\0") * 50
    + b"t",
    "huge array": call(ARRAY, text("<f8"), number(10**12) + b"\x85", b"C\0"),
    "huge array of objects": call(ARRAY, text("O"), number(10**12) + b"\x85", b"]"),
    "pointers": call(ARRAY, text("|O"), ONE, b"C\x08" + b"A" * 8),
    "no bools": call(ARRAY, text("|b1"), ONE, b"C\1\2"),
    "no bools in a field": call(ARRAY, b"K\1" + text("a") + b"K\0" + text("|b1") + b"\x87\x85\x86", ONE, b"C\1\2"),
    "no characters": call(ARRAY, text("<U1"), ONE, b"C\4" + b"\xff" * 4),
    "fields beyond the item": call(ARRAY, b"K\1" + text("a") + b"K\1" + text("|b1") + b"\x87\x85\x86", ONE, b"C\1\0"),
    "bomb of fields": twice(b"K\1" + text("a") + b"K\0", b"\x87\x85\x86").replace(b"K\1\x94", text("|b1") + b"\x94", 1),
    "negative shape": call(TENSOR, text("float32"), number(-1) + number(-1) + b"\x86", b"C\4abcd"),
    "quantized tensor": call(TENSOR, text("qint32"), ONE, b"C\4abcd"),
    "unknown dtype": call(TENSOR, text("Tensor"), ONE, b"C\4abcd"),
    "no bools in a tensor": call(TENSOR, text("bool"), ONE, b"C\1\2"),
    "huge tensor": call(TENSOR, text("float32"), b"K\0" + number(2**62) * 2 + b"\x87", b"C\0"),
    "fraction of huge numbers": call(text("Fraction"), number(2**3_000_000), number(3**1_000_000)),
    "file as a time zone": call(text("ZoneInfo"), text("../../etc/passwd")),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bytes_are_refused(name: str) -> None:
    with pytest.raises(UnsafeState, match=r"^buffer of stage 3: \.shuffle\(buffer_size=10\)"):
        decode(b"\x80\x05" + HOSTILE[name] + b".", what=WHAT)


ELEMENTS = [1, -(2**70), "ab", b"c", 0.5, None, True, {"k": (1, 2, 3, 4)}, {5, 6}, frozenset([7]), bytearray(b"d")]
OTHERS = [Decimal("1.5"), np.arange(3), np.float32(1), torch.ones(2, dtype=torch.bool), deque([1, 2]), range(3)]


def outcome(data: object) -> str:
    """Whether a value came of it. What else may come is UnsafeState, which names the field."""
    try:
        decode(data, what=WHAT)
    except UnsafeState as error:
        return "refused" if str(error).startswith(WHAT) else str(error)
    return "value"


def test_what_is_cut_short_is_refused() -> None:
    data = encode([*ELEMENTS, *OTHERS, Colour.RED, Frozen(1), Plain()], what=WHAT)
    assert outcome(data) == "value"
    assert {outcome(data[:size]) for size in range(len(data))} == {"refused"}
    assert {outcome(data + bytes([more])) for more in range(256)} == {"refused"}


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_what_is_flipped_gives_a_value_or_is_refused(mask: int) -> None:
    data = encode([*ELEMENTS, *OTHERS, Colour.RED, Frozen(1), Plain()], what=WHAT)
    seen = {outcome(data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :]) for at in range(len(data))}
    assert seen == {"value", "refused"}


@given(st.lists(st.sampled_from(sorted(STEPS)) | st.binary(max_size=4), max_size=40))
def test_any_steps_give_a_value_or_are_refused(steps: list[bytes]) -> None:
    outcome(b"\x80\x05" + b"".join(steps) + b".")


@pytest.mark.parametrize("data", [None, "", [], 7, bytearray(b"\x80\x05N."), memoryview(b"\x80\x05N."), object()])
def test_what_is_no_bytes_is_refused(data: object) -> None:
    assert outcome(data) == "refused"


@pytest.mark.parametrize("data", [b"", b".", b"N.", b"\x80\x04N.", b"\x80\x05.", b"\x80\x05N", pickle.dumps([1], 0)])
def test_what_does_not_begin_or_end_is_refused(data: bytes) -> None:
    assert outcome(data) == "refused"


# Deeper than any stack, of what CPython lets go of without recursion: values, which must not be of harm later either.
CHAINS = {
    "lists": chain(lambda last: b"]" + last + b"a", 50_000),
    "tuples": chain(lambda last: last + b"\x85", 50_000),
    "dicts": chain(lambda last: b"}N" + last + b"s", 50_000),
    "chunks": chain(lambda last: call(text("DataChunk")) + last + b"a", 50_000),
    "ordered dicts": chain(lambda last: call(text("OrderedDict")) + b"N" + last + b"s", 50_000),
    "named tuples": chain(lambda last: call(text("named tuple"), PAIR, b"N" + last + b"\x86"), 50_000),
    "objects": chain(lambda last: call(text("object"), PLAIN) + b"}" + text("a") + last + b"sb", 50_000),
}
CHILD = """
import pickle, resource, sys
from collections import namedtuple
from datapipes.elements import UnsafeState, allow, decode

allow(namedtuple("Pair", "left right", module=sys.argv[1]))
allow(type("Plain", (), {"__module__": sys.argv[1]}))
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + 2**28, size + 2**28))
for name, data in pickle.load(sys.stdin.buffer).items():
    try:
        value = decode(data, what=name)
    except UnsafeState as error:
        print(name, "refused" if not isinstance(error.__cause__, MemoryError) else "took all memory")
    else:
        del value
        print(name, "a value")
"""


def test_little_memory_and_stack_are_enough() -> None:
    cases = {name: b"\x80\x05" + data + b"." for name, data in {**HOSTILE, **CHAINS}.items()}
    child = subprocess.run([sys.executable, "-c", CHILD, __name__], input=pickle.dumps(cases), capture_output=True)
    assert (child.returncode, child.stderr.decode()[-1000:]) == (0, "")
    expected = [f"{name} refused" for name in HOSTILE] + [f"{name} a value" for name in CHAINS]
    assert child.stdout.decode().splitlines() == expected
