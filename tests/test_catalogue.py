"""The catalogues are sorted and complete, and an operator is called alike as a method and by its name."""

from __future__ import annotations

import inspect
import pickle
import pkgutil
import pydoc
import re
import subprocess
import sys
import typing
from importlib import import_module
from inspect import Parameter, signature
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import datapipes
import datapipes.iter
import datapipes.map
import loader2
import reading_services
from datapipes.description.parameters import described
from datapipes.description.pipe import ComposedOperator
from datapipes.errors import LengthUnknown
from datapipes.fluent import IterMethods, MapMethods, operators_of
from datapipes.graph import find_dps, traverse_dps
from datapipes.iter import IterDataPipe
from datapipes.map import MapDataPipe
from tests.specimens.catalogue import SPECIMENS, WRAPPERS
from tests.test_house import ROOT

KINDS: list[tuple[ModuleType, type, type]] = [
    (datapipes.iter, IterDataPipe, IterMethods),
    (datapipes.map, MapDataPipe, MapMethods),
]
OPERATORS = [
    pytest.param(base, name, operator, id=f"{module.__name__}.{name}")
    for module, base, fluent in KINDS
    for name, operator in operators_of(fluent).items()
]
# Where a user would look for what is no operator.
HOMES = {
    "PADDING": reading_services,
    "SKIP": datapipes,
    "Transfer": datapipes,
    "allow": datapipes,
    "gather": loader2,
    "scatter": loader2,
}
# What an operator reads is its first parameter and an attribute of the same name, ``source_datapipe``; the others are
# torchdata's, which users' code relies on.
FIRST = {
    "datapipe": {
        *("batch", "bucketbatch", "collate", "demux", "drop", "end_caching"),
        *("filter", "flatmap", "flatten", "fork", "fullsync", "groupby"),
        *("in_batch_shuffle", "load_from_bz2", "load_from_rar", "load_from_tar", "load_from_tfrecord", "load_from_xz"),
        *("load_from_zip", "map", "map_batches", "max_token_bucketize", "open_files", "read_from_stream"),
        *("round_robin_demux", "routed_decode", "shuffle", "shuffled_flatmap", "slice", "to_iter_datapipe"),
        *("to_map_datapipe", "unbatch"),
    },
    "source_iterdatapipe": {"zip_with_map"},
    "datapipes": {"concat", "mux", "mux_longest", "zip", "zip_longest"},
    "source_dp": {"dataframe", "in_memory_cache", "load_parquet_as_df"},
    "root": {"list_files", "list_files_by_fsspec", "list_files_by_iopath"},
}


def method_of(base: Any, name: str) -> Any:
    """Return a chain method as a pipe has it."""
    return getattr(base.__new__(base), name)


@pytest.mark.parametrize(("module", "base", "fluent"), KINDS)
def test_no_method_is_looked_up_among_the_names_of_users(module: Any, base: Any, fluent: type) -> None:
    assert issubclass(base, fluent)
    assert not {*operators_of(fluent)} & {*base.functions}


def test_every_operator_is_in_the_catalogue() -> None:
    known = {None, *operators_of(IterMethods), *operators_of(MapMethods)}
    files = [
        file.name for module, *_ in KINDS for file in pkgutil.walk_packages(module.__path__, f"{module.__name__}.")
    ]
    operators = [x for file in files for x in vars(import_module(file)).values() if isinstance(x, type)]
    assert len(files) > len(KINDS)
    assert not [x for x in operators if vars(x).get("_fluent") not in known], "the catalogue needs a line for each"


@pytest.mark.parametrize(("module", "base", "fluent"), KINDS)
def test_exports_are_sorted_and_complete(module: Any, base: type, fluent: type) -> None:
    assert list(module.__all__) == sorted(name for name in dir(module) if name[:1].isupper())
    assert all(hasattr(module, name) for name in module.__all__)
    with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'Nothing'"):
        getattr(module, "Nothing")  # noqa: B009  that it is asked for is what is tried


def test_a_plain_graph_imports_no_operators_but_its_own() -> None:
    program = (
        "import sys\n"
        "from datapipes.iter import IterableWrapper\n"
        "from loader2 import DataLoader2\n"
        "assert list(DataLoader2(IterableWrapper([3, 1]).shuffle().map(str).batch(1).collate()))\n"
        "print(*sys.modules)\n"
    )
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    assert "datapipes.iter.grouping.shuffle" in loaded
    idle = ("datapipes.iter.formats", "datapipes.iter.remote", "datapipes.io", "reading_services.workers.process")
    assert not [module for module in loaded if module.startswith(idle)]


@pytest.mark.parametrize(("name", "home"), HOMES.items())
def test_documents_name_the_one_home_of_what_is_no_operator(name: str, home: ModuleType) -> None:
    assert name in home.__all__
    assert hasattr(home, name)
    pages = (ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "tutorials").glob("*.py"))
    texts = [path.read_text() for path in pages]
    imported = rf"^ *from ([\w.]+) import (?:[\w, ]*\W)?{name}\b"
    dotted = rf"\b((?:datapipes|loader2|reading_services)(?:\.\w+)*)\.{name}\b"
    found = {
        home for text in texts for pattern in (imported, dotted) for home in re.findall(pattern, text, re.MULTILINE)
    }
    assert found == {home.__name__}


def test_what_has_a_method_is_exported_by_the_kind_that_it_makes() -> None:
    made = {"to_map_datapipe": datapipes.map, "to_iter_datapipe": datapipes.iter}
    for module, _, fluent in KINDS:
        for name, operator in operators_of(fluent).items():
            assert vars(made.get(name, module))[operator.__name__] is operator
        named = {getattr(getattr(module, exported), "_fluent", None) for exported in module.__all__}
        assert named <= {None, *operators_of(fluent), *made}


def test_overloads_take_what_their_operator_takes() -> None:
    overloaded = set()
    for _, _, fluent in KINDS:
        for name in operators_of(fluent):
            _, *parameters = signature(getattr(fluent, name)).parameters.values()
            defaults = {p.name: p.default for p in parameters}
            stub: Any = SimpleNamespace(__module__=fluent.__module__, __qualname__=f"{fluent.__qualname__}.{name}")
            for overload in typing.get_overloads(stub):
                _, *written = signature(overload).parameters.values()
                named = [p for p in written if p.kind is not Parameter.POSITIONAL_ONLY]
                assert all(p.default in (Parameter.empty, ..., defaults[p.name]) for p in named), overload
                overloaded.add(name)
    assert overloaded == {"batch", "collate", "concat", "mux", "shuffle", "zip"}  # mux_longest has those of mux


@pytest.mark.parametrize(("base", "name", "operator"), OPERATORS)
def test_an_operator_prints_as_its_method(base: type, name: str, operator: Any) -> None:
    assert isinstance(operator, ComposedOperator) or operator._fluent == name, (
        f"_fluent of {operator} is the method's name"
    )


@pytest.mark.parametrize(("base", "name", "operator"), OPERATORS)
def test_the_source_has_the_name_that_users_know(base: type, name: str, operator: Any) -> None:
    first = next(iter(signature(operator).parameters))
    assert first == next((known for known, names in FIRST.items() if name in names), "source_datapipe")


@pytest.mark.parametrize(("base", "name", "operator"), OPERATORS)
def test_what_is_not_given_is_none(base: type, name: str, operator: Any) -> None:
    assert not [p.name for p in signature(operator).parameters.values() if p.default in (-1, "")]


@pytest.mark.parametrize("name", ["list_files_by_ais", "load_from_tar", "load_from_tfrecord", "open_files"])
@pytest.mark.parametrize("unknown", [None, -1])
def test_a_length_is_also_unknown_by_the_value_of_torchdata(name: str, unknown: int | None) -> None:
    source = datapipes.iter.IterableWrapper(["a"])
    arguments = ("ais://bucket",) if name == "list_files_by_ais" else ()
    with pytest.raises(LengthUnknown):
        len(getattr(source, name)(*arguments, length=unknown))
    assert len(getattr(source, name)(*arguments, length=0)) == 0


@pytest.mark.parametrize(("base", "name", "operator"), OPERATORS)
def test_an_operator_is_documented_with_an_example_and_its_method_too(base: type, name: str, operator: Any) -> None:
    text = operator.__doc__ or ""
    assert ">>>" in text, f"{operator} has no example"
    assert "." in text.splitlines()[0], f"{operator} does not say in a sentence what it does"
    assert method_of(base, name).__doc__ == text


@pytest.mark.parametrize(("base", "name", "operator"), OPERATORS)
def test_each_parameter_of_a_method_is_described_where_help_shows_it(base: type, name: str, operator: Any) -> None:
    method = method_of(base, name)
    assert list(described(method.__doc__)) == [*signature(method).parameters]


@pytest.mark.parametrize(
    ("source", "methods"), [(datapipes.iter.IterableWrapper, IterMethods), (datapipes.map.SequenceWrapper, MapMethods)]
)
def test_help_has_the_text_of_a_class_and_then_a_line_for_each_method(source: Any, methods: type) -> None:
    lines = pydoc.plain(pydoc.render_doc(source)).splitlines()
    assert len(lines) <= 400
    text = inspect.getdoc(source) or ""
    assert [line.removeprefix(" |").strip() for line in lines[5:]][: text.count("\n")] == [
        line.strip() for line in text.splitlines()[:-1]
    ]
    for name, operator in operators_of(methods).items():
        [listed] = [line for line in lines if line.startswith(f" |  {name} = ")]
        assert listed.startswith(f" |  {name} = <{operator.__name__}: ")
        assert len(listed) < 80


@pytest.mark.parametrize(("base", "name", "operator"), OPERATORS)
def test_help_about_a_method_has_the_whole_text(base: Any, name: str, operator: Any) -> None:
    for asked in (getattr(base, name), method_of(base, name)):
        said = pydoc.plain(pydoc.render_doc(asked))
        assert all(line.strip() in said for line in operator.__doc__.splitlines())
    assert str(signature(getattr(base, name))).startswith("(self, /")


@pytest.mark.parametrize("module", [datapipes.iter, datapipes.map])
def test_what_an_operator_makes_is_found_as_its_instance(module: Any) -> None:
    kind = module.__name__.rpartition(".")[2]
    methods = operators_of({"iter": IterMethods, "map": MapMethods}[kind])
    made = {f"{kind}.{name}": operator for name, operator in methods.items()}
    made |= {f"{kind}.{name}": getattr(module, name) for name in module.__all__ if f"{kind}.{name}" in WRAPPERS}
    seen = set()
    for specimen in SPECIMENS:
        if specimen.operator in made and specimen.by == "pickle":
            pipe, operator = specimen.pipe(), made[specimen.operator]
            found = find_dps(traverse_dps(pipe), operator)
            assert found, f"{specimen}: no {operator.__name__} in {pipe!r}"
            copies = find_dps(traverse_dps(pickle.loads(pickle.dumps(pipe))), operator)
            assert [type(each) for each in copies] == [type(each) for each in found], specimen
            assert operator is pickle.loads(pickle.dumps(operator))
            seen.add(operator.__name__)
    # Beside those: the base class, what is no stage, a part of random_split, and what makes pipes of the other kind.
    others = {"IterDataPipe", "MapDataPipe", "Transfer", "SplitterIterator", "MapToIterConverter", "IterToMapConverter"}
    assert {*module.__all__} - others <= seen
