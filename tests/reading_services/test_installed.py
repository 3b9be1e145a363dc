"""Reading services by name: this library's own and installed plugins', made with the arguments that the text has."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from datapipes.errors import BadArgument, BadArgumentType, PluginError
from datapipes.iter import IterableWrapper
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService, SequentialReadingService, ThreadingReadingService
from tests.plugins_installed import installed

SERVICE = """
from reading_services import ReadingServiceInterface

class First(ReadingServiceInterface):
    def __init__(self, count=2):
        self.count = count
    def initialize(self, datapipe):
        return datapipe.header(self.count)

nothing = None
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("firsts", "others"):
        sys.modules.pop(name, None)


def test_an_installed_service_is_found_by_its_name(folder: Path) -> None:
    installed(folder, "firsts", SERVICE, reading_services={"first": "firsts:First"})
    graph = IterableWrapper(range(9))
    loader = DataLoader2(graph, reading_service="first")
    assert list(loader) == [0, 1]
    assert list(DataLoader2(graph, reading_service="first(count=3)")) == [0, 1, 2]
    resumed = DataLoader2.from_state(loader.state_dict(), "first(4)", datapipe=graph)
    assert list(resumed) == [0, 1, 2, 3]


def test_own_services_have_names() -> None:
    graph = IterableWrapper(range(6)).sharding_filter()
    for text, kind in (
        ("multi_process(2, multiprocessing_context='fork')", MultiProcessingReadingService),
        (" threads (\n  num_workers=2,\n) ", ThreadingReadingService),
    ):
        with DataLoader2(graph, reading_service=text) as loader:
            assert type(loader.reading_service) is kind
            assert list(loader) == list(range(6))
    assert list(DataLoader2(graph, reading_service="in_process")) == list(range(6))
    chain = SequentialReadingService("distributed", "threads(2)")
    assert [type(service).__name__ for service in chain.reading_services] == [
        "DistributedReadingService",
        "ThreadingReadingService",
    ]


def test_an_unknown_name_lists_what_there_is(folder: Path) -> None:
    installed(folder, "firsts", SERVICE, reading_services={"first": "firsts:First"})
    with pytest.raises(
        BadArgument, match=r"no service has that name. There are 'distributed' of loader2 .*firsts:First"
    ):
        DataLoader2(IterableWrapper([]), reading_service="beam")
    with pytest.raises(BadArgument, match="did you mean 'first'"):
        DataLoader2(IterableWrapper([]), reading_service="frist")


def test_two_owners_and_a_name_of_this_library(folder: Path) -> None:
    installed(folder, "firsts", SERVICE, reading_services={"first": "firsts:First", "threads": "firsts:First"})
    installed(folder, "others", SERVICE, reading_services={"first": "others:First"})
    with (
        pytest.warns(UserWarning, match="firsts .* offers 'threads', which is a name of this library"),
        pytest.raises(PluginError, match=r"by firsts \(firsts:First\) and others \(others:First\): uninstall one"),
    ):
        DataLoader2(IterableWrapper([]), reading_service="first")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("firsts:missing", r"'first' of the plugin firsts \(firsts:missing\) cannot be imported: AttributeError"),
        ("firsts:nothing", r"'first' of firsts \(firsts:nothing\) makes no reading service: None"),
        ("builtins:dict", r"'first' of firsts \(builtins:dict\) made no reading service: {}"),
    ],
)
def test_what_is_no_service_is_said(folder: Path, value: str, message: str) -> None:
    installed(folder, "firsts", SERVICE, reading_services={"first": value})
    with pytest.raises(PluginError, match=message):
        DataLoader2(IterableWrapper([]), reading_service="first")


@pytest.mark.parametrize("text", ["", "threads(", "threads(2", "threads(open('x'))", "threads()(2)", "a b"])
def test_a_text_that_is_no_call_is_refused(text: str) -> None:
    with pytest.raises(BadArgument, match=r"reading_service=.*as in 'threads\(2\)'|as 'threads\(num_workers=2\)'"):
        DataLoader2(IterableWrapper([]), reading_service=text)


@pytest.mark.parametrize("text", ["threads", "threads(workers=2)", "in_process(1, 2, 3, 4)", "in_process(**{1: 2})"])
def test_arguments_that_do_not_fit_are_said(text: str) -> None:
    with pytest.raises(BadArgumentType, match=r"reading_service='.*argument.*as in 'threads\(num_workers=2\)'"):
        DataLoader2(IterableWrapper([]), reading_service=text)
