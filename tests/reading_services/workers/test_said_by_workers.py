"""Messages to the user about workers: what cannot be sent, shared memory that is full, warnings of functions."""

from __future__ import annotations

import io
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper
from loader2 import DataLoader2
from reading_services import ThreadingReadingService
from tests.reading_services.workers.in_turn import numbers, processes

FULL = "the memory shared with the workers is full"


def megabyte(x: int) -> torch.Tensor:
    return torch.full((1 << 18,), float(x))


def kept_of_all(service: Any) -> list[int]:
    with DataLoader2(numbers(30).sharding_filter().map(megabyte), reading_service=service) as loader:
        kept = list(loader)
    return [int(x[0]) for x in kept]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_full_arena_is_said_once_and_at_home(workers: int, capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", UserWarning)  # Python 3.12 and later have one of their own of forks
        warnings.simplefilter("ignore", DeprecationWarning)
        assert kept_of_all(processes(workers, arena_bytes=1 << 22)) == list(range(30))
    assert [str(warning.message).partition(" of ")[0] for warning in said] == [FULL]
    assert said[0].filename == __file__, "it points to the user's loop"
    assert capfd.readouterr().err == "", "workers say nothing by themselves"


def test_a_full_arena_that_is_an_error_costs_no_element() -> None:
    graph: Pipe = numbers(30).sharding_filter().map(megabyte)
    with DataLoader2(graph, reading_service=processes(2, arena_bytes=1 << 22)) as loader:
        iterator = iter(loader)
        kept: list[torch.Tensor] = []
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(UserWarning, match=FULL):
                kept.extend(iterator)
            kept.extend(iterator)
        before = [int(x[0]) for x in kept]
        assert before == list(range(30))


def test_memory_that_suffices_is_not_spoken_of() -> None:
    assert kept_of_all(processes(2)) == list(range(30))


def warning(x: int) -> int:
    if x == 3:
        warnings.warn("a doubtful one", stacklevel=2)
    return x


@pytest.mark.parametrize("service", [processes, ThreadingReadingService])
def test_a_warning_that_is_an_error_is_one_of_its_element(service: Any) -> None:
    """The filters of the process at home count in workers too, whatever starts them."""
    with DataLoader2(numbers(6).sharding_filter().map(warning), reading_service=service(2)) as loader:
        iterator = iter(loader)
        given: list[int] = []
        with pytest.raises(UserWarning, match="a doubtful one") as raised:
            given.extend(iterator)
        assert [*given, *iterator] == [0, 1, 2, 4, 5]
    assert any("on element 3 of" in note for note in raised.value.__notes__)


# -- what cannot be sent -----------------------------------------------------------------------------------------------


class Locked:
    def __init__(self) -> None:
        self.lock = threading.Lock()


def locked(x: int) -> Any:
    return {"a": x, "b": [1, Locked()]} if x == 2 else x


def opened(path: str) -> tuple[str, Any]:
    return path, io.BytesIO()


def note_of(graph: Pipe, workers: int = 2) -> str:
    with DataLoader2(graph, reading_service=processes(workers)) as loader, pytest.raises(TypeError) as raised:
        list(loader)
    assert sum("raised in stage" in note for note in raised.value.__notes__) == 1
    return "".join(raised.value.__notes__)


def test_what_cannot_be_sent_is_named_with_its_stage() -> None:
    one = note_of(numbers(5).sharding_filter().map(locked))
    assert "raised in stage .map(<locked at test_said_by_workers.py:" in one
    assert "because of its ['b'][1].lock, a lock" in one
    assert "  in worker 0 (process" in one
    assert "raised in stage .batch(3), " in note_of(numbers(5).sharding_filter().map(locked).batch(3), 1)
    dealt = note_of(numbers(5).map(locked).sharding_round_robin_dispatch().map(abs))
    assert "raised in stage .sharding_round_robin_dispatch(), " in dealt
    assert "in the dispatcher (process" in dealt


def test_an_open_file_stays_in_its_process(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text(name)
    files = IterableWrapper([str(tmp_path / name) for name in "ab"]).sharding_filter().open_files("rb")
    said = note_of(files)
    assert "raised in stage .open_files(mode='rb'), " in said
    assert "because of its [1].file_obj, a BufferedReader" in said
    assert "read open files in the worker" in said
    with DataLoader2(files.map(lambda pair: pair[1].read()), reading_service=processes(2)) as loader:
        assert list(loader) == [b"a", b"b"]
    with DataLoader2(files, reading_service=ThreadingReadingService(2)) as loader:
        assert [stream.read() for _, stream in loader] == [b"a", b"b"], "threads hand on what is open"
