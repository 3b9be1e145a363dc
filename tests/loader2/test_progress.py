"""Progress of an epoch: what is shown at each end that it can have, in a terminal, a log and a notebook."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tqdm.notebook import tqdm as notebook_tqdm

from datapipes.iter import IterableWrapper, IterDataPipe
from datapipes.position.position_history import SnapshotBudget
from datapipes.sharding.group import RankInfo
from loader2 import DataLoader2, progress


class Stream(io.StringIO):
    """A stream that a test can wait for, and that may be a terminal."""

    def __init__(self, is_terminal: bool = False) -> None:
        super().__init__()
        self.is_terminal = is_terminal
        self.looks_for = "nothing"
        self.found = threading.Event()

    def isatty(self) -> bool:
        return self.is_terminal

    def write(self, text: str) -> int:
        written = super().write(text)
        if self.looks_for in text:
            self.found.set()
        return written

    def wait_for(self, text: str) -> None:
        self.looks_for = text
        assert self.found.wait(300), self.getvalue()

    def lines(self) -> list[str]:
        """What a log has, without what depends on the time."""
        return [re.sub(r", [\d,.]+ elements/s(, [\d:]+ left)?", "", line) for line in self.getvalue().splitlines()]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Stream:
    stream = Stream()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))
    return stream


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_program_without_standard_error_shows_nothing(is_closed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream() if is_closed else None
    if stream is not None:
        stream.close()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))
    with DataLoader2(IterableWrapper(range(10)), progress=True) as loader:
        assert list(loader) == list(range(10))


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Stream:
    stream = Stream(is_terminal=True)
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))
    return stream


def watchers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "loader2 progress"]


def test_a_log_has_a_line_at_the_end_of_each_epoch(log: Stream) -> None:
    loader = DataLoader2(IterableWrapper(range(10)).batch(3), progress=True)
    for _ in range(2):
        assert len(list(loader)) == 4
        assert not watchers()
    assert log.lines() == ["epoch 0: 4 of 4 elements (100 %)", "epoch 1: 4 of 4 elements (100 %)"]


@pytest.mark.parametrize("kind", [progress.LogLines, progress.Bar])
def test_it_is_shown_now_and_then_meanwhile(
    kind: Any, log: Stream, terminal: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, "every", 0.001)
    stream, text = (log, " 3 of 10 ") if kind is progress.LogLines else (terminal, " 3/10 ")
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))
    elements = iter(DataLoader2(IterableWrapper(range(10)), progress=True))
    assert list(islice(elements, 3)) == [0, 1, 2]
    stream.wait_for(text)
    assert list(elements) == [3, 4, 5, 6, 7, 8, 9]
    assert not watchers()


def test_a_terminal_has_a_bar(terminal: Stream) -> None:
    assert list(DataLoader2(IterableWrapper(range(10)), progress=True)) == list(range(10))
    assert re.search(r"epoch 0: +0%\|.*\| 0/10 \[", terminal.getvalue())
    assert re.search(r"epoch 0: 100%\|.*\| 10/10 \[.* elements/s\]\n$", terminal.getvalue())


def test_a_notebook_has_one_of_its_own(log: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Notebook] = []

    class Notebook(notebook_tqdm):  # type: ignore[misc]  # tqdm has no types
        def __init__(self, **settings: Any) -> None:  # not the base's: there is no browser
            self.settings, self.n = settings, settings["initial"]
            self.shown: list[int] = []
            made.append(self)

        def __new__(cls, **settings: Any) -> Any:
            return object.__new__(cls)

        def update(self, n: int) -> None:
            self.n += n

        def set_postfix_str(self, s: str, refresh: bool) -> None: ...

        def close(self) -> None:
            self.shown.append(self.n)

        __del__ = close

    monkeypatch.setattr("tqdm.auto.tqdm", Notebook)
    list(DataLoader2(IterableWrapper(range(10)), progress=True))
    (bar,) = made
    assert (bar.settings["desc"], bar.settings["total"], bar.shown) == ("epoch 0", 10, [10])
    assert log.getvalue() == ""


def test_a_resumed_epoch_begins_where_it_stands(terminal: Stream) -> None:
    graph = IterableWrapper(range(10))
    loader = DataLoader2(graph)
    list(islice(loader, 4))
    assert terminal.getvalue() == ""
    resumed = DataLoader2.from_state(loader.state_dict(), datapipe=graph, progress=True)
    assert list(resumed) == [4, 5, 6, 7, 8, 9]
    first, *_ = re.findall(r"(\d+)/10", terminal.getvalue())
    assert first == "4"


def test_it_ends_with_an_epoch_that_is_left(log: Stream) -> None:
    loader = DataLoader2(IterableWrapper(range(10)), progress=True)
    for element in loader:
        if element == 2:
            break
    assert log.lines() == ["epoch 0: 3 of 10 elements (30 %)"]
    kept = iter(loader)
    assert [next(kept), next(kept)] == [0, 1]
    assert len(watchers()) == 1
    anew = iter(loader)
    assert log.lines()[1:] == ["epoch 1: 2 of 10 elements (20 %)"]
    assert next(anew) == 0
    loader.shutdown()
    assert log.lines()[2:] == ["epoch 2: 1 of 10 elements (10 %)"]
    assert not watchers()


def fails_on_three(number: int) -> int:
    if number == 3:
        raise ValueError("three")
    return number


def test_it_ends_with_an_error_and_goes_on_behind_it(log: Stream) -> None:
    elements = iter(DataLoader2(IterableWrapper(range(6)).map(fails_on_three), progress=True))
    with pytest.raises(ValueError, match="three"):
        list(elements)
    assert log.lines() == ["epoch 0: 3 of 6 elements (50 %)"]
    assert not watchers()
    assert list(elements) == [4, 5]
    assert log.lines()[1:] == ["epoch 0: 5 of 6 elements (83 %)"]


def test_it_ends_when_a_graph_cannot_be_opened(log: Stream) -> None:
    class Missing(IterDataPipe[int]):
        def __iter__(self) -> Iterator[int]:
            raise FileNotFoundError("missing")

    elements = iter(DataLoader2(Missing(), progress=True))
    with pytest.raises(FileNotFoundError, match="missing"):
        next(elements)
    assert log.lines() == ["epoch 0: 0 elements"]
    assert not watchers()


def test_errors_that_were_let_pass_are_counted(log: Stream) -> None:
    with pytest.warns(UserWarning, match="goes on after ValueError: three"):
        list(DataLoader2(IterableWrapper(range(6)).map(fails_on_three, on_error="skip"), progress=True))
    assert log.lines() == ["epoch 0: 5 of 5 elements (100 %), 1 error let pass"]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for number in range(10):
        (tmp_path / f"{number}.csv").write_text("".join(f"{row},{number}\n" for row in range(100)))
    return tmp_path


def test_the_length_is_estimated_from_the_files_that_were_opened(files: Path, log: Stream) -> None:
    graph = IterableWrapper([str(files)]).list_files("*.csv").shuffle().open_files().parse_csv()
    loader = DataLoader2(graph, progress=True)
    assert len(list(islice(loader, 150))) == 150
    assert log.lines() == ["epoch 0: 150 of 1,000 elements (15 %), length estimated"]
    assert len(list(loader)) == 1000
    assert log.lines()[1:] == ["epoch 1: 1,000 of 1,000 elements (100 %)"]


@pytest.mark.parametrize("service", ["threads(2)", "multi_process(2, 'fork')"])
def test_workers_tell_what_they_have_read(
    files: Path, log: Stream, service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A machine under load may take so long for one snapshot that the budget allows no other one in this epoch.
    monkeypatch.setattr(SnapshotBudget, "is_cheap", lambda self: True)
    paths = IterableWrapper(sorted(map(str, files.iterdir())))
    graph = paths.shuffle().sharding_filter().open_files().parse_csv().map(long_enough)
    with DataLoader2(graph, reading_service=service, progress=True) as loader:
        assert len(list(islice(loader, 700))) == 700
    (line,) = log.lines()
    found = re.fullmatch(r"epoch 0: 700 of ([\d,]+) elements \(\d+ %\), length estimated", line)
    assert found is not None, line
    assert 700 < int(found[1].replace(",", "")) < 2000


def long_enough(row: list[str]) -> int:
    """Take some time, so that a worker sends several frames."""
    return sum(range(10_000))


def test_a_source_of_unknown_length_is_counted(log: Stream) -> None:
    list(DataLoader2(IterableWrapper(iter(range(5)), deepcopy=False).filter(bool), progress=True))
    loader = DataLoader2(IterableWrapper(iter(range(5)), deepcopy=False).filter(bool), progress=True)
    assert list(islice(loader, 2)) == [1, 2]
    assert log.lines() == ["epoch 0: 4 of 4 elements (100 %)", "epoch 0: 2 elements"]


def test_the_first_rank_shows_it(log: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank in (0, 1):
        monkeypatch.setattr("loader2.loader.ranks", lambda rank=rank: RankInfo(rank, 2))
        list(DataLoader2(IterableWrapper(range(rank + 3)), progress=True))
    assert log.lines() == ["epoch 0: 3 of 3 elements (100 %)"]


def test_a_stream_that_is_closed_ends_no_epoch(log: Stream) -> None:
    elements = iter(DataLoader2(IterableWrapper(range(4)), progress=True))
    assert next(elements) == 0
    log.close()
    assert list(elements) == [1, 2, 3]


def test_nothing_is_there_when_it_is_off(tmp_path: Path) -> None:
    program = """
import sys
from datapipes.iter import IterableWrapper
from loader2 import DataLoader2
list(DataLoader2(IterableWrapper(range(3))))
print([name for name in sys.modules if name in ("tqdm.auto", "loader2.progress")])
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=500, check=False)
    assert (ran.stdout, ran.stderr) == ("[]\n", "")
