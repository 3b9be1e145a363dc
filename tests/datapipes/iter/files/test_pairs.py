"""An element that is no pair of a name and a file is told so, by the name of the stage that met it."""

from typing import Any

import pytest

from datapipes.errors import BadArgumentType
from datapipes.iter import IterableWrapper

READERS = ["parse_csv", "parse_csv_as_dict", "parse_json_files", "parse_jsonl", "readlines", "read_from_stream"]


@pytest.mark.parametrize("element", ["a.csv", 5, ("a.csv",), ("a.csv", "text"), ("a.csv", 5), ("a.csv", None)])
@pytest.mark.parametrize("method", [*READERS, "load_from_tfrecord"])
def test_readers_need_a_path_and_an_open_file(method: str, element: Any) -> None:
    with pytest.raises(BadArgumentType, match=rf"^{method}\(\) needs pairs of a path and an open file, got .*open_f"):
        list(getattr(IterableWrapper([element]), method)())


@pytest.mark.parametrize("element", ["a", 5, ("a",), ("a", b"1", b"2")])
@pytest.mark.parametrize("method", ["webdataset", "save_to_disk", "save_by_fsspec", "save_by_iopath"])
def test_writers_and_webdataset_need_a_name_and_data(method: str, element: Any) -> None:
    with pytest.raises(BadArgumentType, match=rf"^{method}\(\) needs pairs of a name and its data, got "):
        list(getattr(IterableWrapper([element]), method)())


@pytest.mark.parametrize("method", ["load_from_tar", "load_from_zip", "parse_csv", "load_from_tfrecord"])
def test_what_is_no_pair_can_be_skipped(method: str) -> None:
    iterator = iter(getattr(IterableWrapper(["a", 5, ("x",), ()]), method)(on_error="skip"))
    with pytest.warns(UserWarning, match="goes on after BadArgumentType"):
        assert list(iterator) == []
    assert sum(iterator.errors.values()) == 4
