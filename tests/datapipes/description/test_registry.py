"""Users' own names: one owner for each, told apart by kind, and a helpful error for an unknown name."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from torch.utils.data import IterDataPipe as TorchIterDataPipe
from torch.utils.data import MapDataPipe as TorchMapDataPipe

from datapipes import functional_datapipe
from datapipes.description.names import OF_TORCH, is_hidden
from datapipes.errors import BadArgument, NameTaken
from datapipes.fluent import IterMethods, MapMethods, operators_of
from datapipes.iter import BucketBatcher, DataFrameMaker, IterableWrapper, IterDataPipe, Prefetcher, UnZipper
from datapipes.map import MapDataPipe, SequenceWrapper
from datapipes.map import UnZipper as MapUnZipper
from loader2 import DataLoader2
from loader2.testing import check_service
from loader2.testing.specimen import Tap
from reading_services import ThreadingReadingService
from tests.datapipes.position.written_for_torchdata import OfTorch
from tests.specimens.catalogue import SPECIMENS


@pytest.fixture(autouse=True)
def names_are_given_back() -> Iterator[None]:
    before = dict(IterDataPipe.functions), dict(MapDataPipe.functions)
    yield
    for base, functions in zip((IterDataPipe, MapDataPipe), before, strict=True):
        for name in (*base.functions.keys() - functions.keys(),):
            if is_hidden(base, name):
                delattr(base, name)
        base.functions.clear()
        base.functions.update(functions)


class Scaled(IterDataPipe[int]):
    """Every element times a factor."""

    def __init__(self, source_datapipe: Any, factor: int = 2, *, plus: int = 0) -> None:
        self.source_datapipe = source_datapipe
        self.factor = factor
        self.plus = plus

    def __iter__(self) -> Iterator[int]:
        for element in self.source_datapipe:
            yield self.factor * element + self.plus


class Other(Scaled):
    """An operator of another package."""


class Reversed(MapDataPipe[Any]):
    """The last first."""

    def __init__(self, datapipe: Any) -> None:
        self.datapipe = datapipe

    def __getitem__(self, key: int) -> Any:
        return self.datapipe[len(self.datapipe) - 1 - key]

    def __len__(self) -> int:
        return len(self.datapipe)


def numbers() -> Any:  # type checkers know no registered names
    return IterableWrapper([1, 2, 3])


def test_a_registered_class_is_a_method() -> None:
    assert functional_datapipe("scaled")(Scaled) is Scaled
    pipe = numbers().scaled(10, plus=1).map(str)
    assert list(pipe) == ["11", "21", "31"]
    assert isinstance(numbers().scaled(), Scaled)


def test_the_method_tells_about_the_class() -> None:
    functional_datapipe("scaled")(Scaled)
    method = numbers().scaled
    assert method.__doc__ == Scaled.__doc__
    assert method.__name__ == "Scaled"
    assert "scaled" in dir(numbers())
    assert "scaled" not in dir(SequenceWrapper([]))
    assert {"map", "batch"} <= set(dir(numbers()))


def test_each_kind_of_pipe_has_its_own_names() -> None:
    functional_datapipe("turned")(Reversed)
    functional_datapipe("turned")(Scaled)
    backwards: Any = SequenceWrapper([1, 2, 3])
    assert list(backwards.turned()) == [3, 2, 1]
    assert list(numbers().turned()) == [2, 4, 6]


def test_classes_of_torch_are_registered_too() -> None:
    @functional_datapipe("torch_listed")
    class Listed(TorchIterDataPipe[Any]):
        def __init__(self, source: Any) -> None:
            self.source = source

        def __iter__(self) -> Iterator[Any]:
            yield list(self.source)

    @functional_datapipe("torch_same")
    class Same(TorchMapDataPipe[Any]):
        def __init__(self, source: Any) -> None:
            self.source = source

        def __getitem__(self, key: int) -> Any:
            return self.source[key]

    assert list(numbers().torch_listed()) == [[1, 2, 3]]
    letters: Any = SequenceWrapper("ab")
    assert letters.torch_same()[1] == "b"


def test_other_classes_are_returned_and_not_registered() -> None:
    class NoPipe:
        pass

    assert functional_datapipe("no_pipe")(NoPipe) is NoPipe
    assert "no_pipe" not in dir(numbers())
    not_a_class: Any = "text"
    with pytest.raises(TypeError, match="class"):
        functional_datapipe("text")(not_a_class)


def test_a_clash_names_both_owners() -> None:
    functional_datapipe("scaled")(Scaled)
    with pytest.raises(NameTaken, match=r"'scaled' of IterDataPipe is already taken by .*\.Scaled: .*\.Other") as error:
        functional_datapipe("scaled")(Other)
    assert isinstance(error.value, RuntimeError)
    with pytest.raises(NameTaken, match=r"Scaled: .*Other"):
        IterDataPipe.register_datapipe_as_function("scaled", Other)
    assert isinstance(numbers().scaled(), Scaled)
    assert not isinstance(numbers().scaled(), Other)


FREE = sorted(name for name in vars(IterMethods) if not name.startswith("_") and name not in OF_TORCH["IterDataPipe"])


def refuses(*args: Any, **kwargs: Any) -> Any:
    raise AssertionError("the method of a program's own was called")


@pytest.mark.parametrize("name", FREE)
def test_a_class_may_take_the_name_of_an_operator(name: str) -> None:
    operator = operators_of(IterMethods)[name].__name__
    with pytest.warns(UserWarning, match=rf"\.Scaled takes the name {name!r} from the operator {operator} ") as told:
        functional_datapipe(name)(Scaled)
    functional_datapipe(name)(Scaled)  # an error if it warned again
    assert told[0].filename == __file__
    assert list(getattr(numbers(), name)(3, plus=1)) == [4, 7, 10]
    torchs: Any = OfTorch(numbers())
    assert list(getattr(torchs, name)()) == [2, 4, 6]
    assert isinstance(getattr(IterDataPipe, name)(numbers()), Scaled)
    with pytest.raises(NameTaken, match=rf"{name!r} of IterDataPipe is already taken by .*\.Scaled: .*\.Other"):
        functional_datapipe(name)(Other)
    IterDataPipe.register_function(name, refuses)
    with pytest.raises(AssertionError):
        getattr(numbers(), name)()


def test_an_operator_whose_name_is_taken_prints_by_its_class() -> None:
    pipe = Prefetcher(numbers().map(abs), 2).map(str)
    with pytest.warns(UserWarning, match="Prefetcher"):
        functional_datapipe("prefetch")(Scaled)
    assert repr(pipe) == "Prefetcher(IterableWrapper([1, 2, 3]).map(abs), buffer_size=2).map(str)"
    assert list(pipe) == ["1", "2", "3"]
    assert repr(numbers().prefetch(5).map(str)) == "Scaled(IterableWrapper([1, 2, 3]), factor=5).map(str)"


@pytest.mark.filterwarnings("ignore:.* takes the name")
def test_the_library_works_whatever_names_are_taken() -> None:
    streams = [each for each in SPECIMENS if each.service is None and not each.raises]
    graphs = [specimen.build(Tap()) for specimen in streams]
    numbered = [count_of_a_few(graph) for graph in graphs]
    for base in (IterDataPipe, MapDataPipe):
        for name in operators_of(IterMethods if base is IterDataPipe else MapMethods):
            if name not in OF_TORCH[base.__name__]:
                base.register_function(name, refuses)
    assert [count_of_a_few(graph) for graph in graphs] == numbered
    composed: list[Any] = [
        BucketBatcher(numbers(), 2, batch_num=1),
        BucketBatcher(numbers(), 2, sort_key=sorted, bucket_num=2, use_in_batch_shuffle=False),
        DataFrameMaker(numbers().map(lambda x: (x,)), 2),
        *UnZipper(numbers().map(lambda x: (x, x)), 2),
        MapUnZipper(SequenceWrapper([(1, 2), (3, 4)]), 2)[0],
    ]
    assert all(list(DataLoader2(made)) for made in composed)
    check_service(lambda: ThreadingReadingService(2))


def count_of_a_few(graph: Any) -> int:
    """The number of the first elements of a graph that prints, in a loader."""
    assert repr(graph)
    with DataLoader2[Any](graph) as loader:
        return len(list(islice(loader, 3)))


def test_torchs_names_are_those_that_torch_has() -> None:
    for base, torchs in ((IterDataPipe, TorchIterDataPipe), (MapDataPipe, TorchMapDataPipe)):
        known = {name for name, function in torchs.functions.items() if function.__module__.startswith("torch.")}
        assert OF_TORCH[base.__name__] == {name for name in known if not name.startswith("_")} - {"trace_as_dataframe"}


def test_a_worker_process_does_not_repeat_the_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: "the main process")
    functional_datapipe("prefetch")(Scaled)
    assert isinstance(numbers().prefetch(), Scaled)


@pytest.mark.parametrize("name", ["state_dict", "set_seed", "apply_sharding", "set_epoch"])
def test_what_loaders_look_for_is_no_name(name: str) -> None:
    with pytest.raises(NameTaken, match=f"{name!r} of IterDataPipe is already taken by the methods that loaders look"):
        functional_datapipe(name)(Scaled)


@pytest.mark.parametrize("name", ["map", "reset", "functions", "shuffle", "draw"])
def test_what_every_pipe_has_cannot_be_taken(name: str) -> None:
    with pytest.raises(
        NameTaken, match=f"{name!r} of IterDataPipe is already taken by .*choose another one for .*Scaled"
    ):
        functional_datapipe(name)(Scaled)
    with pytest.raises(NameTaken, match=f"{name!r} of IterDataPipe is already taken"):
        IterDataPipe.register_function(name, Scaled)


@pytest.mark.parametrize("name", ["two words", "", "2nd", "class", "__dunder__"])
def test_a_name_must_be_callable_as_a_method(name: str) -> None:
    with pytest.raises(BadArgument, match=r"cannot be a method's name: choose another one for .*Scaled"):
        functional_datapipe(name)(Scaled)


def test_the_same_definition_may_come_again() -> None:
    def run_the_cell() -> type:
        @functional_datapipe("from_a_cell")
        class FromACell(Scaled):
            """As a notebook defines it, twice."""

        return FromACell

    run_the_cell()
    again = run_the_cell()
    assert type(numbers().from_a_cell()) is again


def test_functions_are_registered_and_replaced() -> None:
    def tripled(pipe: Any) -> Any:
        return Scaled(pipe, 3)

    def quadrupled(pipe: Any) -> Any:
        return Scaled(pipe, 4)

    Scaled.register_function("times", tripled)
    assert list(numbers().times()) == [3, 6, 9]
    IterDataPipe.register_function("times", quadrupled)
    assert list(numbers().times()) == [4, 8, 12]
    assert "times" not in MapDataPipe.functions
    IterDataPipe.register_datapipe_as_function("scaled", Scaled, enable_df_api_tracing=False)
    assert list(numbers().scaled()) == [2, 4, 6]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("bacth", "; did you mean 'batch'?"),
        ("shuffel", "; did you mean 'shuffle'?"),
        ("scalled", "; did you mean 'scaled'?"),
        ("to_iter_datapipe", "; MapDataPipe has it, and to_map_datapipe() makes one of this pipe"),
        ("nothing_like_it", ""),
        ("_private", ""),
    ],
)
def test_an_unknown_name_suggests_the_nearest(name: str, hint: str) -> None:
    functional_datapipe("scaled")(Scaled)
    with pytest.raises(AttributeError) as error:
        getattr(numbers(), name)
    assert str(error.value) == f"'IterableWrapper' object has no attribute {name!r}{hint}"
    assert error.value.name == name


def test_a_map_style_pipe_is_told_what_streams_have() -> None:
    letters: Any = SequenceWrapper("ab")
    with pytest.raises(AttributeError, match=r"IterDataPipe has it, and to_iter_datapipe\(\) makes one of this pipe"):
        _ = letters.sharding_filter


def test_what_a_class_has_itself_comes_first() -> None:
    class Shadowing(Scaled):
        """Has attributes whose names are registered, or methods of every pipe."""

        times = "of the class"

        def __init__(self, source_datapipe: Any) -> None:
            super().__init__(source_datapipe)
            self.scaled = "of the object"
            self.shuffle = False  # type: ignore[assignment, method-assign]  # as users' classes do

    functional_datapipe("scaled")(Scaled)
    IterDataPipe.register_function("times", Scaled)
    pipe: Any = Shadowing(numbers())
    assert (pipe.scaled, pipe.times, pipe.shuffle) == ("of the object", "of the class", False)
    assert list(pipe.map(abs)) == [2, 4, 6]


def test_an_error_inside_a_property_is_not_hidden() -> None:
    class WithProperty(Scaled):
        @property
        def size(self) -> int:
            return int(self.source_datapipe.no_such_size)

    with pytest.raises(AttributeError, match="has no attribute 'no_such_size'"):
        _ = WithProperty(numbers()).size


def test_a_half_built_pipe_says_what_it_lacks() -> None:
    bare = object.__new__(Scaled)
    with pytest.raises(AttributeError, match="has no attribute 'factor'"):
        _ = bare.factor
    assert not hasattr(bare, "__array__")
    assert isinstance(copy.copy(bare), Scaled)


def test_registered_names_are_in_no_pickle() -> None:
    functional_datapipe("scaled")(Scaled)
    pipe = numbers().scaled(5)
    del IterDataPipe.functions["scaled"]
    assert list(pickle.loads(pickle.dumps(pipe))) == [5, 10, 15]


def test_a_class_attribute_named_functions_is_the_users_own() -> None:
    class Functions(Scaled):
        functions = "a user's own"  # type: ignore[assignment]  # on purpose

    functional_datapipe("scaled")(Scaled)
    pipe: Any = Functions(numbers())
    assert list(pipe.scaled()) == [4, 8, 12]
    with pytest.raises(AttributeError, match="did you mean 'batch'"):
        pipe.bacth()
