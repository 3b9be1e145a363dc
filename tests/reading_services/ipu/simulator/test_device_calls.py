"""Arguments of a call: by the signature of ``forward``, and after compiling nothing else than before."""

from __future__ import annotations

import warnings
from collections import OrderedDict, UserDict, defaultdict, namedtuple
from collections.abc import Callable, Iterator
from functools import partial
from types import MappingProxyType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import reading_services.ipu as poptorch
from tests.reading_services.ipu.simulator.device_models import Anything, Linear

ONE = torch.ones(1)


class Sum(nn.Module):
    """The sum of all tensors that it is given, whatever they are in."""

    def forward(self, x: Any, y: Any = None, scale: Any = 1) -> Tensor:
        found = poptorch_tensors(x) + poptorch_tensors(y)
        total: Tensor = scale * torch.stack([each.float().sum() for each in found]).sum()
        return total


def poptorch_tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = [value[key] for key in sorted(value)]
    if isinstance(value, Pair):
        value = [value.left, value.right]
    return [found for each in value for found in poptorch_tensors(each)] if isinstance(value, list | tuple) else []


class Pair:
    def __init__(self, left: Tensor, right: Tensor, label: str = "") -> None:
        self.left, self.right, self.label = left, right, label


class PairParser(poptorch.ICustomArgParser):
    def yieldTensors(self, struct: Pair) -> Iterator[Tensor]:
        yield struct.left
        yield struct.right

    def reconstruct(self, original_structure: Pair, tensor_iterator: Iterator[Tensor]) -> Pair:
        return Pair(next(tensor_iterator), next(tensor_iterator), original_structure.label)


@pytest.fixture(autouse=True)
def _pairs_are_known() -> Iterator[None]:
    poptorch.registerCustomArgParser(Pair, PairParser())
    yield
    poptorch.registerCustomArgParser(Pair, None)


LATER: dict[str, tuple[tuple[Any, ...], dict[str, Any], tuple[Any, ...], dict[str, Any], str]] = {
    "shape": ((torch.ones(2, 3),), {}, (torch.ones(1, 3),), {},
              r"Shape mismatch for x: expected torch.Size\(\[2, 3\]\) but got torch.Size\(\[1, 3\]\)"),
    "dtype": ((ONE,), {}, (ONE.long(),), {}, r"Data type mismatch for x: expected torch.float32 but got torch.int64"),
    "type": ((ONE,), {}, ([ONE],), {}, r"Type mismatch for x"),
    "type of a number": ((ONE, None, 1), {}, (ONE, None, 1.0), {}, r"Type mismatch for scale"),
    "fewer": ((ONE, ONE), {}, (ONE,), {}, r"Number of positional arguments mismatch: expected 2 but got 1"),
    "more": ((ONE,), {}, (ONE, ONE), {}, r"Number of positional arguments mismatch: expected 1 but got 2"),
    "length": (((ONE, ONE),), {}, ((ONE,),), {}, r"Length mismatch for x: expected 2 but got 1"),
    "missing": (({"x": ONE, "y": ONE},), {}, ({"y": ONE},), {}, r"Keys mismatch for x. Missing arguments: x\."),
    "unexpected": (({"y": ONE},), {}, ({"y": ONE, "z": ONE},), {}, r"Keys mismatch for x.* Unexpected arguments: z\."),
    "keyword missing": ((ONE,), {"y": ONE}, (ONE,), {}, r"Keys mismatch for .*Missing arguments: y\."),
    "keyword unexpected": ((ONE,), {}, (ONE,), {"y": ONE}, r"Keys mismatch for .*Unexpected arguments: y\."),
    "value": ((ONE,), {"scale": 2}, (ONE,), {"scale": 3}, r"Value mismatch for scale: expected 2 but got 3"),
    "deep": (([{"a": (ONE,)}],), {}, ([{"a": (ONE.long(),)}],), {}, r"Data type mismatch for x\[0\]\['a'\]\[0\]"),
    "registered": ((Pair(ONE, ONE),), {}, (Pair(ONE, torch.ones(2)),), {}, r"Shape mismatch for x\.1"),
}  # fmt: skip


@pytest.mark.parametrize("case", LATER)
def test_later_calls_are_like_the_first(case: str) -> None:
    args, kwargs, later, later_kwargs, said = LATER[case]
    model = poptorch.inferenceModel(Sum())
    first = model(*args, **kwargs)
    with pytest.raises(poptorch.Error, match=said) as error:
        model(*later, **later_kwargs)
    assert "new wrapper" in str(error.value)
    assert "destroy()" in str(error.value)
    assert torch.equal(model(*args, **kwargs), first)
    model.destroy()
    with warnings.catch_warnings(action="error"):
        model(*later, **later_kwargs)


def test_the_order_of_keys_does_not_matter() -> None:
    class Difference(nn.Module):
        def forward(self, x: dict[str, Tensor]) -> Tensor:
            return x["a"] - x["b"]

    model = poptorch.inferenceModel(Difference())
    assert model({"a": ONE, "b": 2 * ONE}).item() == -1
    assert model({"b": 5 * ONE, "a": ONE}).item() == -4


@pytest.mark.parametrize("train", [True, False])
def test_the_arguments_of_forward(train: bool) -> None:
    def make() -> poptorch.PoplarExecutor:
        return poptorch.trainingModel(Linear()) if train else poptorch.inferenceModel(Anything())

    with pytest.raises(poptorch.Error, match="Mandatory parameter x missing"):
        make()()
    for args, kwargs in (((ONE,) * 4, {}), ((ONE,), {"nope": 1}), ((ONE,), {"x": ONE})):
        with pytest.raises(AssertionError):
            make()(*args, **kwargs)


def test_keywords_and_defaults() -> None:
    model = poptorch.inferenceModel(Anything())
    assert model(x=ONE).tolist() == [1]
    with pytest.raises(AssertionError, match="nope"):
        model(ONE, nope=1)
    two = poptorch.inferenceModel(Anything())
    assert [each.item() for each in two(ONE, y=2 * ONE, flag=3)] == [1, 2]

    class Many(nn.Module):
        def forward(self, *parts: Tensor, **named: Tensor) -> Tensor:
            return torch.stack([*parts, *named.values()]).sum(0)

    assert poptorch.inferenceModel(Many())(ONE, ONE, more=ONE).item() == 3


TWO, THREE = 2 * ONE, 3 * ONE


class Optional(nn.Module):
    """Has defaults of all kinds, tensors among them."""

    def forward(self, x: Tensor, y: Any = None, z: Tensor = TWO, *rest: Tensor, scale: int = 1, w: Any = None) -> Any:
        return scale * sum([each for each in (x, y, z, *rest, w) if each is not None])


@pytest.mark.parametrize(
    "calls",
    [
        [((ONE,), {}, 3), ((ONE, None), {}, 3), ((), {"x": THREE, "scale": 1, "w": None}, 5)],
        [((ONE, TWO), {}, 5), ((THREE,), {"y": ONE}, 6), ((), {"y": ONE, "x": ONE, "z": ONE}, 3)],
        [((ONE, None, THREE), {}, 4), ((TWO,), {}, 4), ((ONE,), {"z": ONE}, 2), ((ONE, None, ONE), {"scale": 1}, 2)],
        [((ONE,), {"w": ONE}, 4), ((ONE, None), {"w": THREE, "z": ONE}, 5)],
        [((ONE, ONE, ONE, ONE), {}, 4), ((ONE, TWO, ONE, TWO), {"scale": 1}, 6)],
    ],
)
def test_optional_arguments_may_be_left_out_or_given_later(calls: list[Any]) -> None:
    model = poptorch.inferenceModel(Optional())
    assert [model(*args, **kwargs).item() for args, kwargs, _ in calls] == [expected for *_, expected in calls]
    with pytest.raises(poptorch.Error, match="mismatch"):
        model(ONE, ONE, ONE, ONE, ONE, ONE)


@pytest.mark.parametrize("case", [{"y": ONE}, {"w": ONE}, {"scale": 2}, {"z": torch.ones(2)}])
def test_an_optional_argument_that_differs_from_its_default_is_another_call(case: dict[str, Any]) -> None:
    model = poptorch.inferenceModel(Optional())
    model(ONE)
    with pytest.raises(poptorch.Error, match=f"Unexpected arguments: {next(iter(case))}"):
        model(ONE, **case)


Named = namedtuple("Named", "left right")


class Batch(dict[str, Tensor]):
    """A dictionary that needs more than its items, and gives them as attributes."""

    def __init__(self, size: int, **items: Tensor) -> None:
        super().__init__(**items)
        self.size = size

    def __getattr__(self, name: str) -> Tensor:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Attributes(dict[str, Tensor]):
    """A dictionary whose items are its attributes."""

    def __init__(self, **items: Tensor) -> None:
        super().__init__(**items)
        self.__dict__ = self


class Ours(UserDict[str, Tensor]):
    """A mapping that is no dict."""


class Couple(Pair):
    """Of a registered type by inheritance."""


MAPPINGS: dict[str, Callable[..., Any]] = {
    "ordered": OrderedDict,
    "default": partial(defaultdict, list),
    "with more": partial(Batch, 3),
    "attributes": Attributes,
    "of one's own": Ours,
    "frozen": lambda **items: MappingProxyType(items),
    "registered": lambda left, right: Couple(left, right),
}


@pytest.mark.parametrize("kind", MAPPINGS)
def test_mappings_and_subclasses_arrive_as_what_they_are(kind: str) -> None:
    seen: list[Any] = []

    class Difference(nn.Module):
        def forward(self, x: Any) -> Any:
            seen.append(x)
            left, right = (x.left, x.right) if hasattr(x, "left") else (x["left"], x["right"])
            return left - right

    options = poptorch.Options().deviceIterations(2)
    model = poptorch.inferenceModel(Difference(), options)
    rows = torch.arange(2.0)
    for n in (1, 2):
        given = MAPPINGS[kind](left=n * rows, right=rows)
        assert model(given).tolist() == [0, n - 1]
    assert {type(each) for each in seen} == {Pair if kind == "registered" else type(given)}
    if kind == "with more":
        assert all(each.size == 3 for each in seen)
    out = poptorch.inferenceModel(Anything(), options)(given)
    assert type(out) is type(seen[0])
    with pytest.raises(poptorch.Error, match="mismatch for x"):
        model(MAPPINGS[kind](left=rows, right=rows.long()))


CONTAINERS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "tuple": lambda a, b: (a, b),
    "list": lambda a, b: [a, b],
    "dict": lambda a, b: {"a": a, "b": b},
    "named": Named,
    "nested": lambda a, b: ([a, {"deep": (b,)}], None, "text", 3),
    "registered": lambda a, b: Pair(a, b, "label"),
    "registered, nested": lambda a, b: {"pair": [Pair(a, b)]},
}


@pytest.mark.parametrize("kind", CONTAINERS)
def test_containers_go_in_and_come_back(kind: str) -> None:
    seen: list[Any] = []

    class Looking(nn.Module):
        def forward(self, x: Any) -> Any:
            seen.append(poptorch_tensors(x if not isinstance(x, Pair) else (x.left, x.right))[:1])
            return x

    make = CONTAINERS[kind]
    a, b = torch.arange(12.0).reshape(6, 2), torch.arange(6)
    options = poptorch.Options().deviceIterations(3)
    model = poptorch.inferenceModel(Looking(), options)
    for shift in (0, 1):
        out = model(make(a + shift, b + shift))
        assert type(out) is type(make(a, b))
        leaves = [a + shift, b + shift]
        for expected, got in zip(leaves, all_tensors(out), strict=True):
            assert got.tolist() == expected.tolist()
    if kind == "registered":
        assert out.label == "label"
    if kind == "nested":
        assert out[1:] == (None, "text", 3)
    assert all(len(first) == 2 for each in seen for first in each)


def all_tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Pair):
        return [value.left, value.right]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [found for each in value for found in all_tensors(each)]
    return [value] if isinstance(value, Tensor) else []


def test_a_custom_type_is_cut_and_joined() -> None:
    """Row 9 of the batching checks: ``forward`` sees micro-batches in the type, the caller gets all rows back in it."""
    shapes = []

    class Doubling(nn.Module):
        def forward(self, pair: Pair) -> Pair:
            shapes.append(tuple(pair.left.shape))
            return Pair(2 * pair.left, 3 * pair.right, pair.label)

    model = poptorch.inferenceModel(Doubling(), poptorch.Options().deviceIterations(4))
    out = model(Pair(torch.ones(8, 3), torch.ones(8), "kept"))
    assert set(shapes) == {(2, 3)}
    assert isinstance(out, Pair)
    assert (out.left.shape, out.right.tolist(), out.label) == ((8, 3), [3.0] * 8, "kept")


def test_wrong_options_and_models() -> None:
    for make in (poptorch.trainingModel, poptorch.inferenceModel):
        with pytest.raises(poptorch.Error, match=r"Invalid type: 'options'.*Expected poptorch.Options"):
            make(Linear(), {})  # type: ignore[arg-type]  # it is to be wrong
    accumulating = poptorch.Options()
    accumulating.Training.gradientAccumulation(2)
    message = r"You must set poptorch.Options\(\).Training.gradientAccumulation to 1"
    with pytest.raises(poptorch.Error, match=message + ".*deviceIterations"):
        poptorch.inferenceModel(Linear(), accumulating)
    with pytest.raises(poptorch.Error, match=message) as error:
        poptorch.inferenceModel(Linear(), accumulating.clone().setExecutionStrategy(poptorch.ShardedExecution()))
    assert "deviceIterations" not in str(error.value)
    options = poptorch.Options()
    model = poptorch.inferenceModel(Linear(), options)
    for frozen in (options, model.options):
        with pytest.raises(AttributeError, match="Can't modify frozen Options"):
            frozen.deviceIterations(2)
    assert model.options is not options
