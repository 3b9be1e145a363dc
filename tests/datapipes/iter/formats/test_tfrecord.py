"""load_from_tfrecord gives every record of a file, as its spec says, and nothing whose checksums are wrong."""

from __future__ import annotations

import io
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import datapipes.iter.formats.tfrecord as tfrecord_file
from datapipes.errors import CorruptRecord
from datapipes.iter import IterableWrapper, TFRecordLoader
from datapipes.iter.formats.tfrecord import parse
from tests.datapipes.iter.mishaps import outcomes
from tests.records import example, masked, sequence_example, tfrecord
from tests.specimens.specimen import shown


def loaded(data: bytes, *args: Any, **options: Any) -> TFRecordLoader:
    dp = IterableWrapper([("a.tfrecord", io.BytesIO(data))], deepcopy=False).load_from_tfrecord(*args, **options)
    assert isinstance(dp, TFRecordLoader)
    return dp


def only(*args: Any) -> dict[str, Any]:
    (record,) = loaded(*args)
    return record


def test_numbers_are_tensors_and_bytes_are_lists() -> None:
    record = only(tfrecord(example(i=[1, -2], f=[0.5, 2.0], b=[b"x", b""], nothing=[])))
    assert {key: shown(value) for key, value in record.items()} == {
        "i": "tensor(torch.int64, [1, -2])",
        "f": "tensor(torch.float32, [0.5, 2.0])",
        "b": "list(b'x', b'')",
        "nothing": "list()",
    }


def test_feature_lists_are_lists_of_those() -> None:
    record = only(tfrecord(sequence_example({"length": [2]}, {"steps": [[1.0, 2.0], [3.0]], "words": [[b"a"], []]})))
    assert shown(record["steps"]) == "list(tensor(torch.float32, [1.0, 2.0]), tensor(torch.float32, [3.0]))"
    assert record["words"] == [[b"a"], []]


def test_what_is_read_can_be_changed() -> None:
    record = only(tfrecord(example(i=[1], f=[1.0])))
    record["i"] += 1
    record["f"] += 1
    assert (record["i"].item(), record["f"].item()) == (2, 2.0)


SEQUENCE = tfrecord(
    sequence_example(
        {"id": [7], "name": [b"n"]}, {"steps": [[1, 2], [3, 4], [5, 6]], "words": [[b"a", b"b"], [b"c", b"d"]]}
    )
)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"id": ((), torch.int32)}, {"id": "tensor(torch.int32, 7)"}),
        ({"id": (None, torch.float64)}, {"id": "tensor(torch.float64, [7.0])"}),
        (
            {"steps": ((-1, 1, 2), torch.float32)},
            {"steps": "tensor(torch.float32, [[[1.0, 2.0]], [[3.0, 4.0]], [[5.0, 6.0]]])"},
        ),
        ({"steps": (None, torch.int64)}, {"steps": "tensor(torch.int64, [[1, 2], [3, 4], [5, 6]])"}),
        ({"name": ((), None)}, {"name": "b'n'"}),
        ({"name": (None, None)}, {"name": "list(b'n')"}),
        ({"words": ((4,), None)}, {"words": "list(b'a', b'b', b'c', b'd')"}),
        ({"words": ((2, -1), None)}, {"words": "list(list(b'a', b'b'), list(b'c', b'd'))"}),
        ({"words": ((-1, 1), None)}, {"words": "list(list(b'a'), list(b'b'), list(b'c'), list(b'd'))"}),
        ({"words": ((1, 2, 2), None)}, {"words": "list(list(list(b'a', b'b'), list(b'c', b'd')))"}),
    ],
)
def test_a_spec_says_which_features_and_in_which_shape(spec: Any, expected: dict[str, str]) -> None:
    assert {key: shown(value) for key, value in only(SEQUENCE, spec).items()} == expected


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ({"id": ((), torch.int64), "none": ((), None)}, r"missing some required keys: \['none'\]"),
        ({"steps": ((5, -1), torch.int64)}, "'steps' is not torch.int64 of shape"),
        ({"name": ((), torch.int64)}, "'name' is not torch.int64"),
        ({"words": ((3,), None)}, r"'words' is not bytes of shape \(3,\): it has 4 values"),
        ({"words": ((-1, -1), None)}, "'words' is not bytes"),
        ({"words": ((3, -1), None)}, "'words' is not bytes"),
        ({"words": ((0, -1), None)}, "'words' is not bytes"),
        ({"id": ((), None)}, "it holds numbers, so the spec must have a dtype for it"),
    ],
)
def test_a_record_that_is_not_as_the_spec_says(spec: Any, what: str) -> None:
    with pytest.raises(RuntimeError, match=rf"^Invalid tfrecord file a.tfrecord: record 0, at byte 0: .*{what}"):
        list(loaded(SEQUENCE, spec))


def test_a_key_in_both_parts_is_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"the keys \['x'\] are in both"):
        list(loaded(tfrecord(sequence_example({"x": [1]}, {"x": [[1]]}))))


RECORDS = [example(n=[n], pad=[b"." * 9]) for n in range(4)]
SIZE = len(tfrecord(RECORDS[0]))


def numbers(found: list[Any]) -> list[Any]:
    return [element if isinstance(element, str) else element["n"].item() for element in found]


def test_a_payload_that_is_damaged_costs_its_own_record() -> None:
    data = bytearray(tfrecord(*RECORDS))
    data[2 * SIZE + 20] ^= 4
    where = f"record 2, at byte {2 * SIZE}"
    bad = f"CorruptRecord: Invalid tfrecord file a.tfrecord: {where}: the checksum of its payload is wrong"
    assert numbers(outcomes(loaded(bytes(data)))) == [0, 1, bad, 3]


def test_after_a_length_that_is_damaged_the_rest_is_given_up() -> None:
    data = bytearray(tfrecord(*RECORDS))
    data[SIZE] ^= 4
    *found, error = numbers(outcomes(loaded(bytes(data))))
    assert found == [0]
    assert f"record 1, at byte {SIZE}: the checksum of its length is wrong" in error


def test_cut_off_anywhere_it_is_an_error_but_for_between_two_records() -> None:
    data = tfrecord(*RECORDS)
    for length in range(len(data)):
        found = outcomes(loaded(data[:length]))
        whole, more = divmod(length, SIZE)
        assert numbers(found)[:whole] == list(range(whole))
        assert [type(element) for element in found[whole:]] == [str] * bool(more)
        assert all(f"record {whole}, at byte {whole * SIZE}: it is cut short" in error for error in found[whole:])


class Counting(io.BytesIO):
    most = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self.most = max(self.most, sys.maxsize if size is None or size < 0 else size)
        return super().read(size)


@pytest.mark.parametrize("length", [1 << 20, 1 << 40, (1 << 64) - 1])
def test_a_length_that_lies_asks_for_no_memory(length: int) -> None:
    header = struct.pack("<Q", length)
    file = Counting(header + struct.pack("<I", masked(header)) + b"x" * 100)
    with pytest.raises(CorruptRecord, match=rf"it is cut short: 100 of {length + 4} bytes are there"):
        list(IterableWrapper([("a", file)], deepcopy=False).load_from_tfrecord())
    assert file.most <= 1 << 20


def test_a_record_of_many_steps() -> None:
    text = b"x" * (3 << 20)
    assert only(tfrecord(example(b=[text])))["b"] == [text]


def test_records_are_passed_over_without_being_parsed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    data = bytearray(tfrecord(*RECORDS))
    data[20] ^= 1
    (tmp_path / "a.tfrecord").write_bytes(data)
    dp = IterableWrapper([str(tmp_path / "a.tfrecord")]).open_files("rb").load_from_tfrecord()
    it: Any = iter(dp)
    with pytest.raises(CorruptRecord):
        next(it)
    assert next(it)["n"].item() == 1
    seen: list[bytes] = []

    def noticed(payload: bytes, spec: Any) -> Any:
        seen.append(payload)
        return parse(payload, spec)

    monkeypatch.setattr(tfrecord_file, "parse", noticed)
    again: Any = iter(dp)
    again.load_state_dict(it.state_dict())
    assert numbers(list(again)) == [2, 3]
    assert seen == RECORDS[2:]


def test_bad_records_are_left_out_and_counted(recwarn: pytest.WarningsRecorder) -> None:
    data = bytearray(tfrecord(*RECORDS))
    data[20] ^= 1
    it: Any = iter(loaded(bytes(data), on_error="skip", max_errors=1))
    assert numbers(list(it)) == [1, 2, 3]
    assert list(it.errors.values()) == [1]
    assert len(recwarn) == 1


def test_its_length_is_what_it_is_told() -> None:
    assert len(loaded(b"", length=7)) == 7
    with pytest.raises(TypeError, match="doesn't have valid length"):
        len(loaded(b""))


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google_crc32c", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'loader2\[tfrecord\]'"):
        loaded(b"")
