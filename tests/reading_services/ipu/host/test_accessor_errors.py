"""Errors of an accessor: raised at once, with the reason, and never by waiting."""

from __future__ import annotations

import multiprocessing
import os
import signal
from errno import ENOSPC
from typing import Any

import pytest
import torch

import reading_services.ipu as poptorch
from reading_services.ipu import AsynchronousDataAccessor, DataLoaderMode, Options, SharingStrategy
from tests.reading_services.ipu.host.datasets import Elements, Failing, Leaving, Numbers
from tests.reading_services.ipu.host.test_accessor import accessor, numbers, until

FAILED = "An error occurred in the data fetcher"


@pytest.mark.parametrize(
    ("dataset", "reason"),
    [
        (Failing(5, bad=0), "LookupError: row 0 is broken.*in __getitem__"),
        ([], "The Dataset is empty"),
        (Elements((torch.ones(1), "text")), "Tensor at index 1 is not a torch tensor.*flat 1D container"),
        (Elements("text"), "Tensor at index 0 is not a torch tensor"),
        (Elements(5), "Tensor at index 0 is not a torch tensor"),
        (Leaving(5, at=0, how=signal.SIGKILL), "was ended by SIGKILL"),
        (Leaving(5, at=0, how=0), "left with exit code 0"),
        (5, "is not subscriptable"),
    ],
)
def test_it_cannot_start(dataset: Any, reason: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(poptorch.Error, match="(?s)worker thread failed to start.*" + reason):
        AsynchronousDataAccessor(dataset, sharing_strategy=SharingStrategy.Fork)
    if not isinstance(dataset, Leaving):
        assert "Traceback" in capfd.readouterr().err


@pytest.mark.parametrize("strategy", [SharingStrategy.SharedMemory, SharingStrategy.ForkServer])
def test_what_cannot_be_pickled_is_named_here(strategy: SharingStrategy) -> None:
    with pytest.raises(TypeError, match="generator"):
        AsynchronousDataAccessor((x for x in [torch.ones(1)]), sharing_strategy=strategy)


def test_a_dataset_that_there_is_no_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> int:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space left"):
        AsynchronousDataAccessor(Numbers(3), sharing_strategy=SharingStrategy.SharedMemory)
    assert not multiprocessing.active_children()


def test_what_was_made_before_an_error_still_comes() -> None:
    with accessor(Failing(6, bad=4), buffer_size=6, early_preload=True) as acc:
        found: list[Any] = []
        with pytest.raises(AssertionError, match=f"(?s){FAILED}.*row 4 is broken.*in __getitem__") as caught:
            found.extend(acc)
        assert numbers(found) == [0, 1, 2, 3]
        assert isinstance(caught.value.__cause__, LookupError)
        with pytest.raises(AssertionError, match=FAILED):
            next(acc)


@pytest.mark.parametrize(
    ("how", "reason"),
    [(signal.SIGKILL, "SIGKILL"), (signal.SIGSEGV, "SIGSEGV"), (0, "exit code 0")],
)
def test_a_process_that_ends_in_mid_epoch(how: int, reason: str) -> None:
    with accessor(Leaving(6, at=3, how=how)) as acc, pytest.raises(AssertionError, match=f"{FAILED}.*{reason}"):
        list(acc)


def test_a_process_that_is_killed_while_somebody_waits_for_nothing() -> None:
    with accessor(Numbers(6), buffer_size=2, early_preload=True) as acc:
        until(lambda: all(acc.slots))
        os.kill(acc._feed.pid, signal.SIGKILL)
        found: list[Any] = []
        with pytest.raises(AssertionError, match=f"{FAILED}.*SIGKILL"):
            found.extend(acc)
        assert numbers(found) == [0, 1]


def test_a_process_that_is_killed_while_its_workers_live_on() -> None:
    options = {"sharing_strategy": SharingStrategy.Fork, "buffer_size": 2}
    loader: Any = poptorch.DataLoader(
        Options(), Numbers(60), 2, num_workers=2, mode=DataLoaderMode.Async, async_options=options
    )
    next(iter(loader))
    os.kill(loader._accessor._feed.pid, signal.SIGKILL)
    with pytest.raises(AssertionError, match=f"{FAILED}.*SIGKILL"):
        list(loader._accessor)


def test_a_process_that_was_told_to_leave_by_ctrl_c(capfd: pytest.CaptureFixture[str]) -> None:
    with accessor(Numbers(6)) as acc:
        os.kill(acc._feed.pid, signal.SIGINT)
        with pytest.raises(AssertionError, match=f"{FAILED}.*exit code 0"):
            list(acc)
    assert capfd.readouterr() == ("", "")


def test_a_process_that_was_stopped_is_ended_all_the_same() -> None:
    with accessor(Numbers(6)) as acc:
        pid = acc._feed.pid
        os.kill(pid, signal.SIGSTOP)
        acc.terminate()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_after_terminate() -> None:
    with accessor(Numbers(6)) as acc:
        kept = next(acc)
        acc.terminate()
        assert int(kept[0]) == 0
        with pytest.raises(AssertionError, match=r"terminate\(\)"):
            iter(acc)
        with pytest.raises(AssertionError, match=r"terminate\(\)"):
            next(acc)
        assert not any(acc.slots)


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (torch.ones(1), r"shapes of the first, \(4,\); this one has \(1,\)"),
        (torch.ones(4, 1), r"this one has \(4, 1\)"),
        ([torch.ones(4)], "where element was a tensor"),
    ],
)
def test_elements_that_are_not_like_the_first(second: Any, reason: str) -> None:
    with accessor([torch.ones(4), second]) as acc, pytest.raises(AssertionError, match=f"{FAILED}.*{reason}"):
        list(acc)


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        ({"a": torch.ones(1)}, r"a dict with the keys \['a', 'b'\]"),
        ({"a": torch.ones(1), "b": torch.ones(1)}, r"where element\['b'\] was 2 elements"),
        ({"a": torch.ones(1), "b": [torch.ones(1), 5]}, r"where element\['b'\]\[1\] was a tensor"),
    ],
)
def test_structures_that_are_not_like_the_first(second: Any, reason: str) -> None:
    first = {"a": torch.ones(1), "b": [torch.ones(1), torch.ones(1)]}
    with accessor([first, second]) as acc, pytest.raises(AssertionError, match=f"{FAILED}.*{reason}"):
        list(acc)


@pytest.mark.parametrize("size", [0, 1])
def test_regrouping_wants_two_rows_or_more(size: int) -> None:
    with pytest.raises(AssertionError, match="must be None or greater than 1"):
        AsynchronousDataAccessor(Numbers(3), rebatched_size=size)


def test_a_buffer_has_a_slot() -> None:
    with pytest.raises(AssertionError, match="at least one slot"):
        AsynchronousDataAccessor(Numbers(3), buffer_size=0)


def test_a_loader_that_has_an_accessor_wants_no_second_one() -> None:
    loader = poptorch.DataLoader(
        Options(), Numbers(8), 2, mode=DataLoaderMode.Async, async_options={"sharing_strategy": SharingStrategy.Fork}
    )
    with pytest.raises(poptorch.Error, match="already uses an AsynchronousDataAccessor internally"):
        AsynchronousDataAccessor(loader)
    loader.terminate()


def test_a_loader_with_a_last_smaller_step_has_to_be_regrouped() -> None:
    loader = poptorch.DataLoader(Options().deviceIterations(2), Numbers(10), 2, drop_last=False)
    with pytest.raises(AssertionError, match="only works if 'rebatched_size' is specified too"):
        AsynchronousDataAccessor(loader)
    with accessor(loader, rebatched_size=4) as acc:
        assert [len(step) for step in acc] == [4, 4, 2]
        assert [len(step) for step in acc] == [4, 4, 2]


def test_a_loader_in_an_accessor() -> None:
    loader = poptorch.DataLoader(Options().deviceIterations(2), Numbers(10), 2)
    with accessor(loader) as acc:
        assert len(acc) == 2
        assert [step[:, 0].tolist() for step in acc] == [[0, 1, 2, 3], [4, 5, 6, 7]]
