"""A position is refused above other elements than those it was saved above, unless ``strict=False``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from datapipes.description.structure import unfold
from datapipes.errors import StateError
from datapipes.iter import IterableWrapper, IterDataPipe
from datapipes.map import SequenceWrapper
from datapipes.position.plain_data import sealed
from datapipes.position.source_fingerprints import SourceFingerprints
from loader2 import DataLoader2, gather, scatter
from reading_services import (
    InProcessReadingService,
    MultiProcessingReadingService,
    ReadingServiceInterface,
    SequentialReadingService,
    ThreadingReadingService,
)
from tests.specimens.specimen import Countable

Make = Callable[[], ReadingServiceInterface | None]
SERVICES: dict[str, Make] = {
    "none": lambda: None,
    "in process": InProcessReadingService,
    "processes": lambda: MultiProcessingReadingService(1),
    "threads": lambda: ThreadingReadingService(2),
    "several": lambda: SequentialReadingService(InProcessReadingService(), ThreadingReadingService(1)),
}


def files(number: int) -> list[str]:
    return [f"data/{i:03}.tar" for i in range(number)]


def graph(paths: list[Any]) -> IterDataPipe[Any]:
    return IterableWrapper(paths).shuffle().sharding_filter()


def saved(pipe: IterDataPipe[Any], service: ReadingServiceInterface | None = None, take: int = 3) -> dict[str, Any]:
    with DataLoader2(pipe, reading_service=service) as loader:
        iterator = iter(loader)
        for _ in range(take):
            next(iterator)
        return loader.state_dict()


@pytest.mark.parametrize("service", SERVICES)
def test_one_file_more_is_refused_and_said(service: str) -> None:
    make = SERVICES[service]
    state = saved(graph(files(100)), make())
    loader = DataLoader2(graph(files(101)), reading_service=make())
    with loader, pytest.raises(StateError, match=r"had 100 elements and has 101 now.*strict=False"):
        loader.load_state_dict(state)
    with DataLoader2(graph(files(101)), reading_service=make()) as loader:
        loader.load_state_dict(state, strict=False)
        # Without a snapshot a worker begins anew, and skips as many of the new files as were handed on.
        assert len(list(loader)) in (97, 98)
    again = DataLoader2.from_state(state, make(), datapipe=graph(files(101)), strict=False)
    assert len(list(again)) in (97, 98)
    again.shutdown()


def test_the_iterator_of_a_pipe_refuses_too() -> None:
    iterator: Any = iter(graph(files(10)))
    next(iterator)
    state = iterator.state_dict()
    again: Any = iter(graph(files(11)))
    with pytest.raises(StateError, match=r"IterableWrapper\(.*had 10 elements and has 11 now"):
        again.load_state_dict(state)
    again.load_state_dict(state, strict=False)
    assert len(list(again)) == 9  # the end had been read, and what waits is what was there


def test_between_two_epochs_files_may_come_and_go() -> None:
    loader = DataLoader2(graph(files(10)))
    assert len(list(loader)) == 10
    again = DataLoader2.from_state(loader.state_dict(), datapipe=graph(files(12)))
    assert len(list(again)) == 12


names = st.text(max_size=4) | st.text(max_size=4).map(Path)


@given(st.lists(names, min_size=1, max_size=200), st.data())
def test_any_change_of_a_list_of_files_is_seen(paths: list[Any], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(paths) - 1))
    other = data.draw(names.filter(lambda name: str(name) != str(paths[at])))
    changed = data.draw(
        st.sampled_from([[*paths[:at], other, *paths[at + 1 :]], paths[:at] + paths[at + 1 :], [*paths, other]])
    )
    before = SourceFingerprints(unfold(IterableWrapper(paths))).now()
    SourceFingerprints(unfold(IterableWrapper(list(paths)))).must_be(before)
    with pytest.raises(StateError, match="saved above other elements"):
        SourceFingerprints(unfold(IterableWrapper(changed))).must_be(before)


def test_the_first_place_that_differs_is_said() -> None:
    before = SourceFingerprints(unfold(graph(files(1000)))).now()
    paths = files(1000)
    paths[500:502] = paths[501], paths[500]
    with pytest.raises(StateError, match=r"same number of elements \(1000\).* is among 480 to 511"):
        SourceFingerprints(unfold(graph(paths))).must_be(before)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1, 2, 3], [1, 2, 4]),
        (range(10), range(0, 20, 2)),
        ([("a", 1), ("b", 2)], [("a", 1), ("b", 3)]),
        ([{"a": [1.5, None]}], [{"a": [1.5, True]}]),
        ((b"a",), (b"b",)),
        ([torch.zeros(1)], [1]),
        ({"a": 1, "b": 2}, {"a": 1, "c": 2}),
        (torch.zeros(3), torch.zeros(4)),
    ],
)
def test_plain_elements_are_sampled_and_others_are_known_by_type_and_number(one: Any, other: Any) -> None:
    wrapped: list[Callable[[Any], Any]] = [IterableWrapper, lambda elements: SequenceWrapper(elements).shuffle()]
    for wrap in wrapped:
        before = SourceFingerprints(unfold(wrap(one))).now()
        SourceFingerprints(unfold(wrap(one))).must_be(before)
        with pytest.raises(StateError, match="saved above other elements"):
            SourceFingerprints(unfold(wrap(other))).must_be(before)


def test_elements_that_the_stream_may_change_are_not_looked_into() -> None:
    rows = [{"n": i} for i in range(5)]

    def counted(row: dict[str, int]) -> dict[str, int]:
        return row | {"n": row.pop("n")}

    def rows_of(rows: list[dict[str, int]]) -> IterDataPipe[Any]:
        return IterableWrapper(rows, deepcopy=False).map(counted)

    state = saved(rows_of(rows))
    assert rows[0] == {}
    again = DataLoader2.from_state(state, datapipe=rows_of([{"n": i} for i in range(5)]))
    assert list(again) == [{"n": 3}, {"n": 4}]


def test_what_has_no_length_is_not_known() -> None:
    state = saved(IterableWrapper(Countable(*range(5))))
    assert state["sources"] == {0: [None, ""]}
    assert list(DataLoader2.from_state(state, datapipe=IterableWrapper(Countable(*range(9))))) == [3, 4, 5, 6, 7, 8]


def test_the_states_of_ranks_keep_what_identifies_their_sources() -> None:
    state = scatter(gather(saved(graph(files(5)))))
    with pytest.raises(StateError, match="had 5 elements and has 6 now"):
        DataLoader2.from_state(state, datapipe=graph(files(6)))


@pytest.mark.parametrize("odd", [7, {0: 1}, {0: [1]}, {0: ["1", ""]}, {0: [1, b"x"]}, {0: [1, "", 2]}, {"a": object()}])
def test_odd_sources_are_refused(odd: Any) -> None:
    state = sealed({**saved(graph(files(5))), "sources": odd})
    with pytest.raises(StateError, match="sources"):
        DataLoader2.from_state(state, datapipe=graph(files(5)))


def test_any_text_for_digests_only_differs() -> None:
    for odd in ("", "x" * 7, "0" * 10_000):
        state = sealed({**saved(graph(files(5))), "sources": {0: [5, odd]}})
        with pytest.raises(StateError, match="and others"):
            DataLoader2.from_state(state, datapipe=graph(files(5)))
