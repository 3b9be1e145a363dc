"""load_from_tar: the members as tarfile writes them, and nothing lost, believed or let out that should not be."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datapipes.elements.streams import StreamWrapper
from datapipes.errors import BadArgument, BadArgumentType, CorruptTar, ReadTooLate, UnsafeMember
from datapipes.iter import IterableWrapper
from datapipes.position.on_error import OnError
from loader2 import DataLoader2
from tests.archive_makers import COMPRESSIONS, FILES, header, tar, tar_of
from tests.datapipes.iter.files.given import Counting, OneWay, contents, files
from tests.datapipes.iter.mishaps import outcomes

EXPECTED = {f"a.tar/{name}": data for name, data in FILES.items()}
parts = st.text("aäß☃ .x", min_size=1, max_size=60).map(str.strip).filter(lambda part: part.strip(". "))
names = st.lists(parts, min_size=1, max_size=9)


@given(st.dictionaries(names.map("/".join), st.binary(max_size=1100), max_size=4), st.sampled_from([0, 1, 2]))
def test_members_are_those_that_tarfile_wrote(members: dict[str, bytes], form: int) -> None:
    file = io.BytesIO()
    try:
        with tarfile.open(fileobj=file, mode="w", format=form) as archive:
            for name, data in members.items():
                archive.addfile(*_sized(name, data))
    except ValueError:  # a name that is too long for the format
        return
    for mode in ("r:*", "r|*"):
        found = [(p, s.read()) for p, s in files(("x.tar", file.getvalue())).load_from_tar(mode)]
        assert found == [(f"x.tar/{name}", data) for name, data in members.items()]


def _sized(name: str, data: bytes) -> tuple[tarfile.TarInfo, io.BytesIO]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    return info, io.BytesIO(data)


@pytest.mark.parametrize("kind", COMPRESSIONS)
@pytest.mark.parametrize("mode", ["r", "r:*", "r|*", "r:{}", "r|{}"])
def test_compressed_archives(kind: str, mode: str) -> None:
    pipe = files(("a.tar", COMPRESSIONS[kind](tar()))).load_from_tar(mode.format(kind))
    assert contents(pipe) == EXPECTED


@pytest.mark.parametrize("kind", ["", *COMPRESSIONS])
def test_members_of_a_file_can_be_read_in_any_order_and_after_the_loop(kind: str) -> None:
    data = COMPRESSIONS[kind](tar()) if kind else tar()
    members = list(files(("a.tar", data)).load_from_tar())
    assert {path: stream.read() for path, stream in reversed(members)} == EXPECTED
    stream = dict(members)["a.tar/in/2.bin"]
    stream.seek(60)
    assert stream.read(8) == bytes([60, 61, 62, 63, 0, 1, 2, 3])


@pytest.mark.parametrize("kind", ["", *COMPRESSIONS])
def test_a_stream_is_read_in_order(kind: str) -> None:
    data = COMPRESSIONS[kind](tar()) if kind else tar()
    assert contents(files(("a.tar", OneWay(data))).load_from_tar()) == EXPECTED
    members = list(files(("a.tar", OneWay(data))).load_from_tar())
    with pytest.raises(ReadTooLate, match="read each member before the next one is requested") as raised:
        members[0][1].read()
    assert isinstance(raised.value, tarfile.StreamError)


def test_an_archive_closes_with_the_last_of_its_members(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar())
    archive = StreamWrapper((tmp_path / "a.tar").open("rb"))
    members = list(IterableWrapper([("a.tar", archive)], deepcopy=False).load_from_tar())
    for _, stream in members:
        assert not archive.closed
        stream.close()
    assert archive.closed


def test_members_survive_an_iteration_that_is_left() -> None:
    archive = StreamWrapper(io.BytesIO(tar()))
    iterator: Any = iter(IterableWrapper([("a.tar", archive)], deepcopy=False).load_from_tar())
    _, stream = next(iterator)
    iterator.close()
    assert stream.read() == b"one"
    stream.close()
    assert archive.closed


def test_members_are_passed_over_on_resume_without_being_read() -> None:
    data = tar({f"{i}.bin": bytes(50_000) for i in range(20)})

    def opened(file: io.BytesIO) -> Any:
        source = IterableWrapper([("a.tar", StreamWrapper(file))], deepcopy=False)
        return iter(source.load_from_tar().map(lambda member: member[0]))

    iterator, counting = opened(io.BytesIO(data)), Counting(data)
    assert len(list(islice(iterator, 19))) == 19
    resumed = opened(counting)
    resumed.load_state_dict(iterator.state_dict())
    assert list(resumed) == ["a.tar/19.bin"]
    assert counting.taken < 30 * 512


def test_a_thread_ahead_and_a_reader_do_not_disturb_each_other() -> None:
    members = {f"{i}.bin": bytes([i]) * 3000 for i in range(200)}
    pipe = files(("a.tar", tar(members))).load_from_tar().prefetch(50)
    assert contents(pipe) == {f"a.tar/{name}": data for name, data in members.items()}


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "the file is empty"),
        (tar()[:-1024], "cut short at byte 4096 or before: the marker of a tar archive's end is missing"),
        (tar()[:-512], "the marker of a tar archive's end is missing"),
        (tar()[:700], "cut short at byte 1024 or before"),
        (tar()[:-1024] + b"\0" * 512 + tar(), "a header has a wrong checksum or mark"),
        (tar() + b"anything else" * 99, "a header has a wrong checksum or mark"),
        (tar() + bytes(3 * 2**20), "as in a file that was never filled"),
        (b"this is no tar archive" * 99, "the header at byte 0 is damaged, or this is not a tar archive"),
    ],
)
def test_what_is_damaged_is_an_error_that_says_where(data: bytes, what: str) -> None:
    for mode in ("r:*", "r|*"):
        with (
            pytest.warns(UserWarning, match="corrupted tarfile stream"),
            pytest.raises(CorruptTar, match=what) as raised,
        ):
            contents(files(("a.tar", data)).load_from_tar(mode))
        assert isinstance(raised.value, tarfile.ReadError)
        assert "a.tar" in str(raised.value)


@pytest.mark.filterwarnings("ignore:corrupted")
@pytest.mark.parametrize("text", [b"9" * 12, b"\xff" * 12, b"\x80" + b"\x7f" * 11, b"-1" + bytes(10)])
def test_a_size_that_cannot_be_is_an_error(text: bytes) -> None:
    block = bytearray(tar_of([header("x")])[:512])
    block[124:136] = text
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    with pytest.raises(CorruptTar, match=r"header's size|cut short"):
        contents(files(("a.tar", bytes(block) + bytes(1024))).load_from_tar())


def test_a_size_beyond_the_end_is_an_error_and_allocates_nothing() -> None:
    with pytest.raises(CorruptTar, match=r"a\.tar/x: it is cut short: a\.tar ends at byte 1536, after 1024 of its"):
        contents(files(("a.tar", tar_of([header("x", size=2**50)]))).load_from_tar())


@pytest.mark.filterwarnings("ignore:corrupted")
@pytest.mark.parametrize("kind", [b"x", b"L"])
def test_a_name_of_a_terabyte_is_not_believed(kind: bytes) -> None:
    with pytest.raises(CorruptTar, match="which no name has"):
        contents(files(("a.tar", tar_of([header("x", size=2**40, type=kind)]))).load_from_tar())


@pytest.mark.filterwarnings("ignore:corrupted")
@pytest.mark.parametrize(
    "records", [b"path=x\n", b"12 path=x\n", b"10 path=x\n9", b"11 pathhx.\n", b"-1 path=x\n", b"5 x=1"]
)
def test_a_pax_record_that_is_damaged_is_an_error(records: bytes) -> None:
    archive = tar_of([header("x", records, type=b"x"), header("1")])
    with pytest.raises(CorruptTar, match="no record begins"):
        contents(files(("a.tar", archive)).load_from_tar())


def test_archives_that_were_joined_are_read_on() -> None:
    joined = tar({"1": b"one"}) + bytes(9216) + tar({"2": b"two"})
    assert contents(files(("a.tar", joined)).load_from_tar()) == {"a.tar/1": b"one", "a.tar/2": b"two"}


@pytest.mark.filterwarnings("ignore:corrupted", "ignore:.*goes on after")
def test_shards_without_a_marker_can_be_read() -> None:
    pipe = files(("a.tar", tar()[:-1024]), ("b.tar", tar({"1": b"one"}))).load_from_tar(on_error="skip", max_errors=1)
    assert contents(pipe) == {**EXPECTED, "b.tar/1": b"one"}


HOSTILE = ["/etc/passwd", "../out", "in/../../out", "..", "\\out", "..\\out", "in\\..\\..\\out", ".", "./", "//out"]


@pytest.mark.filterwarnings("ignore:corrupted", "ignore:.*goes on after")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_leads_outside_is_an_error(name: str) -> None:
    archive = tar_of([header("1", b"one"), header(name, b"out", type=b"0"), header("2", b"two")])
    found = outcomes(files(("a.tar", archive)).load_from_tar().map(lambda member: member[0]))
    assert [found[0], found[2]] == ["a.tar/1", "a.tar/2"]
    assert found[1].startswith("UnsafeMember: a.tar: the member")
    assert contents(files(("a.tar", archive)).load_from_tar(on_error="skip")).keys() == {"a.tar/1", "a.tar/2"}


@pytest.mark.parametrize("name", ["a..b", "..a", "in/../x", "./x", "x/.", "...", "a\\b"])
def test_a_name_that_stays_inside_is_none(name: str) -> None:
    (path,) = contents(files(("in/a.tar", tar({name: b""}))).load_from_tar())
    assert path.startswith("in/a.tar/")


@pytest.mark.filterwarnings("ignore:corrupted")
@pytest.mark.parametrize(
    ("kind", "what"),
    [(b"1", "hard link"), (b"2", "symbolic link"), (b"3", "device"), (b"4", "device"), (b"6", "named pipe"),
     (b"S", "sparse"), (b"M", "several volumes"), (b"Q", "unknown type")],
)  # fmt: skip
def test_what_is_no_regular_file_is_an_error(kind: bytes, what: str) -> None:
    archive = tar_of([header("1", type=kind, linkname="/etc/passwd"), header("2", b"two")])
    stream = iter(files(("a.tar", archive)).load_from_tar())
    with pytest.raises(UnsafeMember, match=what):
        next(stream)
    assert next(stream)[1].read() == b"two"


def test_folders_are_passed_over() -> None:
    members = [header("in", type=b"5"), header("old/", type=b"\0"), header("label", type=b"V"), header("in/1", b"one")]
    assert contents(files(("a.tar", tar_of(members))).load_from_tar()) == {"a.tar/in/1": b"one"}


@pytest.mark.parametrize("mode", ["r:*", "r|*"])
@pytest.mark.parametrize("is_used", [False, True])
def test_an_archive_that_was_opened_by_decompress(mode: str, is_used: bool) -> None:
    if is_used and mode == "r:*":
        pipe = files(("a.tar", COMPRESSIONS["gz"](tar()))).decompress("tar").map(_used)
    else:
        pipe = files(("a.tar", OneWay(COMPRESSIONS["gz"](tar())))).decompress("tar")
    assert contents(pipe.load_from_tar(mode)) == EXPECTED


def _used(element: tuple[str, Any]) -> tuple[str, Any]:
    assert element[1].getnames() == list(FILES)
    return element


@pytest.mark.parametrize(
    ("element", "what"),
    [
        ("a.tar", "tuples"),
        (("a.tar",), "tuples"),
        ((b"a.tar", io.BytesIO()), "path as str"),
        (("a.tar", b"data"), "an open file"),
        (("a.tar", io.StringIO()), "open as text"),
    ],
)
def test_an_element_of_another_kind_is_an_error(element: Any, what: str) -> None:
    with pytest.raises(BadArgumentType, match=what):
        list(IterableWrapper([element], deepcopy=False).load_from_tar())


def test_arguments() -> None:
    with pytest.raises(BadArgument, match="Invalid mode 'w'"):
        files().load_from_tar("w")
    assert len(files().load_from_tar(length=7)) == 7
    with pytest.raises(TypeError, match="TarArchiveLoader instance doesn't have valid length"):
        len(files().load_from_tar())


LINKS = [
    header("in/hard", type=b"1", linkname="in/1"),
    header("in/soft", type=b"2", linkname="1"),
    header("in/up", type=b"2", linkname="../2"),
    header("in/" + 60 * "long/", type=b"2", linkname=60 * "../" + "2"),
    header("in/here", type=b"2", linkname="."),
]


@pytest.mark.parametrize("mode", ["r:", "r|"])
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_links_within_an_archive_are_skipped_and_counted(mode: str, on_error: OnError) -> None:
    archive = tar_of([*LINKS[:3], header("in/1", b"one"), *LINKS[3:], header("2", b"two")])
    pipe = files(("a.tar", archive), ("b.tar", tar({"3": b"three"}))).load_from_tar(mode, on_error=on_error)
    found: dict[str, bytes] = {}
    with pytest.warns(UserWarning, match="skipped") as warned:
        found.update((path, stream.read()) for path, stream in pipe)
    assert found == {"a.tar/in/1": b"one", "a.tar/2": b"two", "b.tar/3": b"three"}
    assert [str(warning.message) for warning in warned] == [
        "load_from_tar(): a.tar: skipped 5 link(s) to other members of the archive"
    ]


@pytest.mark.filterwarnings("ignore:corrupted")
@pytest.mark.parametrize(
    ("name", "kind", "target"),
    [
        *(("in/1", b"1", "../b"), ("in/1", b"2", "../../b"), ("in/1", b"2", "/etc/passwd"), ("in/1", b"1", "/b")),
        *(("in/1", b"2", "..\\..\\b"), ("1", b"2", 60 * "in/../" + "../b"), ("../1", b"2", "in/2"), ("1", b"2", "")),
    ],
)
def test_a_link_that_leads_outside_the_archive_is_an_error(name: str, kind: bytes, target: str) -> None:
    stream = iter(files(("a.tar", tar_of([header(name, type=kind, linkname=target)]))).load_from_tar())
    with pytest.raises(UnsafeMember, match=r"a\.tar: the member"):
        next(stream)
    assert list(stream) == []


def test_a_warning_of_links_that_is_an_error_comes_once() -> None:
    stream = iter(files(("a.tar", tar_of([LINKS[0], header("in/1", b"one")]))).load_from_tar())
    assert next(stream)[1].read() == b"one"
    with pytest.raises(UserWarning, match=r"skipped 1 link\(s\)"):
        next(stream)
    assert list(stream) == []


SIZES = [0, 1, 511, 512, 513, 1000, 8191, 8192, 8193, 40_000, 7, 200_000, 3, *[1024] * 300, 9000, *[100] * 50]


@pytest.mark.parametrize("cut", [None, 700, 5000, 30_000, 60_000, 400_000])
def test_small_and_large_members_are_the_same_from_any_file(tmp_path: Path, cut: int | None) -> None:
    members = {f"{i:03d}.bin": bytes([i % 251]) * size for i, size in enumerate(SIZES)}
    data = tar(members)[:cut]
    (tmp_path / "a.tar").write_bytes(data)

    def read(file: Any) -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = []
        stream = StreamWrapper(file)
        try:
            for path, member in IterableWrapper([("a.tar", stream)], deepcopy=False).load_from_tar():
                found.append((path, member.read()))
        except CorruptTar as error:
            found.append(("error", str(error)))
        return found

    expected = read(OneWay(data))
    assert read((tmp_path / "a.tar").open("rb")) == expected
    assert read((tmp_path / "a.tar").open("rb", buffering=0)) == expected
    assert read(io.BytesIO(data)) == expected
    if cut is None:
        assert dict(expected) == {f"a.tar/{name}": content for name, content in members.items()}


def test_a_member_of_a_closed_archive_is_not_read_from_another_file(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar({"a": b"a" * 9000, "b": b"b" * 9000}))
    file = (tmp_path / "a.tar").open("rb")
    members = list(IterableWrapper([("a.tar", file)], deepcopy=False).load_from_tar())
    file.close()
    with (tmp_path / "a.tar").open("rb"), pytest.raises(ValueError, match="closed file"):
        members[0][1].read()


def _text(stream: Any) -> str:
    with io.TextIOWrapper(stream) as text:
        return text.read()


def _into(stream: Any) -> tuple[int, bytes]:
    buffer = bytearray(4)
    return stream.readinto(buffer), bytes(buffer)


USES: list[Callable[[Any], Any]] = [
    lambda stream: stream.read(),
    lambda stream: stream.read(None),
    lambda stream: (stream.read(), stream.read(), stream.read(3), stream.tell()),
    lambda stream: (stream.read(3), stream.read(), stream.tell(), stream.read()),
    lambda stream: (stream.read(), stream.seek(2), stream.read(5), stream.seek(-1, 2), stream.read()),
    lambda stream: (stream.read(0), stream.tell(), stream.read()),
    lambda stream: (stream.readline(), list(stream), stream.read()),
    lambda stream: (stream.read(), list(stream), stream.tell()),
    lambda stream: (next(stream), stream.read1(3), stream.read()),
    lambda stream: (_into(stream), stream.read(), _into(stream)),
    lambda stream: (stream.read(), stream.file_obj.read(), stream.file_obj.seek(0), stream.read()),
    lambda stream: (stream.file_obj.read(3), stream.read(), stream.seekable(), stream.readable()),
    lambda stream: (stream.read(), stream.closed, stream.close(), stream.closed, stream.file_obj.closed),
    _text,
]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("size", [1, 9, 600, 8192, 40_000, 2**20 + 5])
def test_a_member_is_read_like_a_file(tmp_path: Path, use: Callable[[Any], Any], size: int) -> None:
    content = (b"abcd\nefgh" * (size // 9 + 1))[:size]
    (tmp_path / "a.tar").write_bytes(tar({"a": content, "b": b""}))
    (tmp_path / "a").write_bytes(content)
    member = next(iter(IterableWrapper([str(tmp_path / "a.tar")]).open_files("rb").load_from_tar()))[1]
    assert use(member) == use(StreamWrapper((tmp_path / "a").open("rb")))


@pytest.mark.parametrize("first", [None, "read", "tell"])
@pytest.mark.parametrize("size", [9, 40_000])
def test_a_closed_member_refuses_to_be_read(tmp_path: Path, first: str | None, size: int) -> None:
    (tmp_path / "a.tar").write_bytes(tar({"a": b"a" * size}))
    member = next(iter(IterableWrapper([str(tmp_path / "a.tar")]).open_files("rb").load_from_tar()))[1]
    if first:
        getattr(member, first)()
    member.close()
    for use in (member.read, lambda: member.read(1), lambda: next(member)):
        with pytest.raises(ValueError, match="closed file"):
            use()
    assert member.closed
    assert member.file_obj.closed


@pytest.mark.parametrize("begin", [lambda stream: None, lambda stream: stream.read(), lambda stream: stream.read(3)])
@pytest.mark.parametrize("size", [9, 40_000])
def test_a_waiting_member_is_saved_with_its_position(tmp_path: Path, begin: Callable[[Any], Any], size: int) -> None:
    (tmp_path / "a.tar").write_bytes(tar({str(i): bytes([i]) * size for i in range(6)}))

    def begun(pair: tuple[str, Any]) -> tuple[str, Any]:
        begin(pair[1])
        return pair

    members = IterableWrapper([str(tmp_path / "a.tar")]).open_files("rb").load_from_tar().map(begun)
    pipe = members.shuffle(buffer_size=4).map(lambda pair: (pair[0], pair[1].tell(), pair[1].read()))
    with DataLoader2(pipe) as loader:
        loader.seed(1)
        iterator = iter(loader)
        next(iterator)
        state = loader.state_dict()
        rest = list(iterator)
    with DataLoader2(pipe) as loader:
        loader.load_state_dict(state)
        assert list(loader) == rest
    assert len(rest) == 5
