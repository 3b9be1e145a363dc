"""Calls that do not fit, and arguments of the wrong kind: the error shows the call and says what to write."""

from __future__ import annotations

import inspect
import pickle
import pydoc
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import datapipes
from datapipes.errors import BadArgument, BadArgumentType
from datapipes.iter import IterableWrapper, Shuffler
from datapipes.map import SequenceWrapper
from reading_services import InProcessReadingService, MultiProcessingReadingService, ThreadingReadingService

numbers: Any = IterableWrapper(range(10))
letters: Any = SequenceWrapper("ab")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: numbers.shuffle(100), "shuffle(100): too many positional arguments; write shuffle(buffer_size=100)"),
        (
            lambda: numbers.shuffle(9, unbatch_level=1),
            "shuffle(9, unbatch_level=1): too many positional arguments; write shuffle(buffer_size=9, unbatch_level=1)",
        ),
        (
            lambda: letters.shuffle([1, 0]),
            "shuffle([1, 0]): too many positional arguments; write shuffle(indices=[1, 0])",
        ),
        (
            lambda: numbers.groupby(abs, 4),
            "groupby(abs, 4): too many positional arguments; write groupby(abs, buffer_size=4)",
        ),
        (
            lambda: numbers.shuffle(1, 2, 3),
            "shuffle(1, 2, 3): too many positional arguments; it is called as shuffle(*, buffer_size, unbatch_level)",
        ),
        (
            lambda: numbers.batch(),
            (
                "batch(): missing a required argument: 'batch_size'; "
                "it is called as batch(batch_size, drop_last, wrapper_class)"
            ),
        ),
        (
            lambda: numbers.batch(2, droplast=True),
            "batch(2, droplast=True): got an unexpected keyword argument 'droplast'; did you mean 'drop_last'?",
        ),
        (
            lambda: letters.batch(2, 3, 4, 5),
            (
                "batch(2, 3, 4, 5): too many positional arguments; "
                "it is called as batch(batch_size, drop_last, wrapper_class)"
            ),
        ),
    ],
)
def test_a_call_that_does_not_fit(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(BadArgumentType) as caught:
        call()
    assert str(caught.value) == said
    assert caught.value.__suppress_context__


def test_an_error_from_within_stays_what_it_is() -> None:
    with pytest.raises(BadArgumentType, match=r"^A callable function is expected by map\(\), got int: 3$") as caught:
        numbers.map(3)
    assert traceback.extract_tb(caught.tb)[-1].name == "needs_callable"


def test_methods_look_as_their_operators_are_written() -> None:
    assert str(inspect.signature(numbers.shuffle)) == (
        "(*, buffer_size: 'int' = 10000, unbatch_level: 'int' = 0) -> 'Shuffler'"
    )
    assert str(inspect.signature(IterableWrapper.repeat)) == "(self, /, times: 'int') -> 'Repeater'"
    assert str(inspect.signature(numbers.zip_longest)) == (
        "(*datapipes: 'IterDataPipe[Any]', fill_value: 'Any' = None) -> 'ZipperLongest'"
    )
    assert str(inspect.signature(numbers.unzip)).endswith("-> 'list[IterDataPipe[Any]]'")
    assert numbers.shuffle.__name__ == "shuffle"
    assert inspect.getsource(numbers.shuffle) == inspect.getsource(Shuffler)
    assert inspect.getdoc(numbers.shuffle) == inspect.getdoc(Shuffler)
    assert str(inspect.getdoc(Shuffler)).splitlines()[-1] in pydoc.render_doc(numbers.shuffle)
    assert {"shuffle", "zip_longest", "unzip"} <= {*dir(numbers)}


def test_methods_are_pickled_by_name() -> None:
    assert pickle.loads(pickle.dumps(IterableWrapper.repeat)) is IterableWrapper.repeat
    assert list(pickle.loads(pickle.dumps(numbers.header))(2)) == [0, 1]


def test_an_operator_is_imported_when_its_method_is_asked_for() -> None:
    program = """
import importlib, sys
from types import ModuleType
package = ModuleType("datapipes")
package.__path__ = [sys.argv[1]]
sys.modules["datapipes"] = package
pipe = importlib.import_module("datapipes.description.pipe")
assert "datapipes.iter" not in sys.modules
print(pipe.IterDataPipe.header)
assert "datapipes.iter" in sys.modules
"""
    command = [sys.executable, "-W", "error", "-c", program, *datapipes.__path__]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert ran.stdout.startswith("<Header: The first elements"), ran.stderr


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda n: numbers.batch(n), r"batch_size is a whole number, got str: '4', in \.batch\('4'\)"),
        (lambda n: letters.batch(n), r"batch_size is a whole number, got str: '4', in \.batch\('4'\)"),
        (lambda n: numbers.shuffle(buffer_size=n), "buffer_size is a whole number"),
        (lambda n: numbers.header(n), "limit is a whole number"),
        (lambda n: numbers.cycle(n), "count is a whole number"),
        (lambda n: numbers.repeat(n), "times is a whole number"),
        (lambda n: numbers.prefetch(n), "buffer_size is a whole number"),
        (lambda n: numbers.set_length(n), "length is a whole number"),
        (lambda n: numbers.fork(n), "num_instances is a whole number"),
        (lambda n: numbers.demux(2, abs, buffer_size=n), "buffer_size is a whole number"),
        (lambda n: numbers.fork(2, buffer_bytes=n), "buffer_bytes is a whole number"),
        (lambda n: numbers.groupby(abs, group_size=n), "group_size is a whole number"),
        (lambda n: numbers.groupby(abs, buffer_size=n), "buffer_size is a whole number"),
        (lambda n: numbers.bucketbatch(n), r"batch_size is a whole number, got str: '4', in \.bucketbatch\(\)"),
        (lambda n: numbers.max_token_bucketize(9, buffer_size=n), "buffer_size is a whole number"),
        (lambda n: numbers.map_batches(list, n), "batch_size is a whole number"),
        (lambda n: numbers.threadpool_map(abs, scheduled_tasks=n), "scheduled_tasks is a whole number"),
        (lambda n: numbers.memory_cell(n), "remember_elements is a whole number"),
        (lambda n: numbers.parse_csv(skip_lines=n), "skip_lines is a whole number"),
        (lambda n: numbers.readlines(skip_lines=n), "skip_lines is a whole number"),
        (lambda n: InProcessReadingService(n), "prefetch_cnt is a whole number"),
        (lambda n: ThreadingReadingService(n), "num_workers is a whole number"),
        (lambda n: MultiProcessingReadingService(n), "num_workers is a whole number"),
    ],
)
def test_a_number_of_another_kind(call: Callable[[Any], Any], said: str) -> None:
    with pytest.raises(BadArgumentType, match=said):
        call("4")
    with pytest.raises(BadArgumentType, match=r"a whole number, got float: 2\.5"):
        call(2.5)


@pytest.mark.parametrize("four", [4, 4.0, numpy.int64(4), numpy.float64(4.0)])
def test_whatever_is_a_whole_number_will_do(four: Any) -> None:
    dp = numbers.batch(four)
    assert list(dp) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert repr(dp) == "IterableWrapper(range(0, 10)).batch(4)"
    assert type(dp.batch_size) is int
    assert sorted(numbers.shuffle(buffer_size=four)) == list(range(10))


def test_a_number_out_of_range_is_said_as_before() -> None:
    with pytest.raises(BadArgument, match=r"larger than 0, in \.batch\(0\)"):
        numbers.batch(0)
