"""Methods of installed plugins: imported when they are asked for, and each wrong said with who offers it."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from datapipes.errors import PluginError
from datapipes.iter import IterableWrapper, IterDataPipe, Prefetcher
from datapipes.map import MapDataPipe, SequenceWrapper
from loader2 import DataLoader2
from reading_services import MultiProcessingReadingService
from tests.plugins_installed import PIPE, installed

NAMES = ("sums_a", "sums_b", "sums_map", "broken_a")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    before = dict(IterDataPipe.functions), dict(MapDataPipe.functions)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for base, functions in zip((IterDataPipe, MapDataPipe), before, strict=True):
        base.functions.clear()
        base.functions.update(functions)
    for name in NAMES:
        sys.modules.pop(name, None)


def numbers() -> Any:  # type checkers know no registered names
    return IterableWrapper([1, 2, 3])


def test_a_method_is_imported_when_it_is_asked_for(folder: Path) -> None:
    installed(folder, "sums_a", PIPE, datapipes={"summed": "sums_a:RunningSum"})
    with pytest.raises(AttributeError, match="did you mean 'summed'"):
        numbers().sumed()
    assert "sums_a" not in sys.modules
    assert list(numbers().summed(10).map(str)) == ["10", "30", "60"]
    assert numbers().summed.__doc__.startswith("Each number's sum")


def test_dir_lists_the_methods_of_the_kind_and_leaves_out_what_is_broken(folder: Path) -> None:
    keyed = "from datapipes.map import MapDataPipe\nclass Keyed(MapDataPipe):\n    pass"
    installed(folder, "sums_a", PIPE, datapipes={"summed": "sums_a:RunningSum"})
    installed(folder, "sums_map", keyed, datapipes={"keyed": "sums_map:Keyed"})
    installed(folder, "broken_a", "import nothing_of_this_name", datapipes={"broken": "broken_a:Broken"})
    assert {"summed", "keyed", "broken"} & set(dir(numbers())) == {"summed"}
    assert {"summed", "keyed", "broken"} & set(dir(SequenceWrapper("ab"))) == {"keyed"}
    assert dict(inspect.getmembers(numbers()))["summed"](2) is not None
    with pytest.raises(AttributeError, match="MapDataPipe has it, and to_map_datapipe"):
        numbers().keyed()


def test_a_plugin_that_cannot_be_imported_says_why_when_its_name_is_used(folder: Path) -> None:
    installed(folder, "broken_a", "import nothing_of_this_name", datapipes={"broken": "broken_a:Broken"})
    message = r"'broken' of the plugin broken_a \(broken_a:Broken\) cannot be imported: ModuleNotFoundError: No module"
    with pytest.raises(PluginError, match=message) as error:
        numbers().broken()
    assert isinstance(error.value.__cause__, ModuleNotFoundError)
    assert not hasattr(numbers(), "broken")
    assert list(numbers().map(str)) == ["1", "2", "3"]


def test_two_owners_of_a_name_are_named(folder: Path) -> None:
    for name in ("sums_a", "sums_b"):
        installed(folder, name, PIPE, datapipes={"summed": f"{name}:RunningSum"})
    with pytest.raises(PluginError, match=r"by sums_a \(sums_a:RunningSum\) and sums_b \(sums_b:RunningSum\)"):
        numbers().summed()
    assert not {"sums_a", "sums_b"} & set(sys.modules)


def test_a_plugin_may_not_take_the_name_of_an_operator(folder: Path) -> None:
    taking = f"{PIPE}\nfrom datapipes import functional_datapipe\nfunctional_datapipe('prefetch')(RunningSum)"
    installed(folder, "sums_a", taking, datapipes={"summed": "sums_a:RunningSum"})
    with pytest.raises(PluginError, match="NameTaken: the name 'prefetch' of IterDataPipe is already taken"):
        numbers().summed()
    assert isinstance(numbers().prefetch(), Prefetcher)


def test_what_is_no_pipe_is_said(folder: Path) -> None:
    installed(folder, "sums_a", "class NoPipe:\n    pass", datapipes={"summed": "sums_a:NoPipe"})
    with pytest.raises(PluginError, match=r"'summed' of the plugin sums_a \(sums_a:NoPipe\) is not a pipe: <class"):
        numbers().summed()


def test_a_module_may_register_the_name_itself(folder: Path) -> None:
    decorated = PIPE.replace("class R", '@functional_datapipe("summed")\nclass R')
    source = f"from datapipes import functional_datapipe\n{decorated}"
    installed(folder, "sums_a", source, datapipes={"summed": "sums_a"})
    assert list(numbers().summed()) == [1, 3, 6]


def test_a_name_of_this_library_is_not_taken(folder: Path) -> None:
    installed(folder, "sums_a", PIPE, datapipes={"sharding_filter": "sums_a:RunningSum"})
    with pytest.warns(UserWarning, match=r"sums_a \(.*\) offers 'sharding_filter', which is a name of this library"):
        assert not hasattr(numbers(), "anything_unknown")
    assert type(numbers().sharding_filter()).__module__.startswith("datapipes.")
    by_key: Any = SequenceWrapper("ab")
    with pytest.raises(AttributeError, match="IterDataPipe has it"):
        by_key.sharding_filter()


def test_what_a_program_registers_comes_first(folder: Path) -> None:
    installed(folder, "sums_a", PIPE, datapipes={"summed": "sums_a:RunningSum"})
    IterDataPipe.register_function("summed", sum)
    assert numbers().summed() == 6
    assert "sums_a" not in sys.modules


def test_an_unknown_name_lists_what_plugins_add(folder: Path) -> None:
    installed(folder, "sums_a", PIPE, datapipes={"summed": "sums_a:RunningSum"})
    with pytest.raises(AttributeError, match=r"plugins add 'summed' of sums_a \(sums_a:RunningSum\)$"):
        numbers().nothing_like_it()


def summed_in_the_worker(pipe: Any, info: object) -> Any:
    return pipe.summed(10)


@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
def test_workers_have_the_methods_too(folder: Path, how: str) -> None:
    installed(folder, "sums_a", PIPE, datapipes={"summed": "sums_a:RunningSum"})
    graph = numbers().summed().sharding_filter()
    assert list(pickle.loads(pickle.dumps(graph)).summed(2)) == [2, 8, 20]
    service = MultiProcessingReadingService(1, how, worker_init_fn=summed_in_the_worker)
    with DataLoader2(graph, reading_service=service) as loader:
        assert list(loader) == [10, 40, 100]


def test_entry_points_are_read_by_nobody_who_does_not_ask() -> None:
    program = """
import importlib.metadata, torch
def refuse(**group):
    raise AssertionError(f"somebody looks for {group}")
importlib.metadata.entry_points = refuse
import loader2
from datapipes.map import SequenceWrapper
dp = SequenceWrapper("abc").map(str).to_iter_datapipe().shuffle().enumerate().sharding_filter().batch(2)
with loader2.DataLoader2(dp, reading_service="threads(2)") as dl:
    print(len(list(dl)), repr(dp), dl.state_dict())
dp.anything
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=500, check=False)
    assert ran.stdout.startswith("2 "), ran.stderr
    assert ran.stderr.endswith("somebody looks for {'group': 'loader2.datapipes'}\n")
