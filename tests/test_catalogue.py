"""The catalogue is sorted and complete, and an operator is called alike as a method and by its name."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from inspect import Parameter, signature
from operator import itemgetter
from types import ModuleType
from typing import Any

import pytest

import datapipes.iter
import datapipes.map
from datapipes.fluent import IterMethods, MapMethods
from datapipes.iter import IterDataPipe
from datapipes.map import MapDataPipe

KINDS: list[tuple[ModuleType, type, type]] = [
    (datapipes.iter, IterDataPipe, IterMethods),
    (datapipes.map, MapDataPipe, MapMethods),
]
OPERATORS = [
    pytest.param(base, name, operator, id=f"{module.__name__}.{name}")
    for module, base, _ in KINDS
    for name, operator in module.CATALOGUE.items()
]
# What an operator reads is its first parameter and an attribute of the same name, which users' code relies on.
FIRST = {
    "source_datapipe": {
        *(
            "add_index",
            "async_map_batches",
            "memory_cell",
            "pin_memory",
            "rows2columnar",
            "set_length",
            "threadpool_map",
        ),
        *("cycle", "enumerate", "header", "parse_csv", "parse_csv_as_dict", "prefetch", "readlines", "repeat"),
        *("list_files_by_ais", "list_files_by_s3", "load_files_by_ais", "load_files_by_s3"),
        *("open_files_by_fsspec", "open_files_by_iopath", "save_by_fsspec", "save_by_iopath"),
        *("read_from_gdrive", "read_from_http", "read_from_remote"),
        *("random_split", "sharding_filter", "unzip", "zip_with_iter"),
        *("lines_to_paragraphs", "shard_expand", "sharding_round_robin_dispatch"),
        *("check_hash", "on_disk_cache", "save_to_disk"),
        *("decompress", "extract", "webdataset"),
        *("list_row_groups", "parse_json_files", "parse_jsonl", "read_arrow", "read_csv_columns", "read_parquet"),
    },
    "source_iterdatapipe": {"zip_with_map"},
    "datapipes": {"concat", "mux", "mux_longest", "zip", "zip_longest"},
    "source_dp": {"dataframe", "in_memory_cache", "load_parquet_as_df"},
    "root": {"list_files", "list_files_by_fsspec", "list_files_by_iopath"},
}


def methods(fluent: type) -> set[str]:
    """The methods of a kind of pipe, wherever they are written out."""
    return {name for base in fluent.__mro__ for name, x in vars(base).items() if callable(x) and name[:2] != "__"}


@pytest.mark.parametrize(("module", "base", "fluent"), KINDS)
def test_the_catalogue_is_sorted(module: Any, base: type, fluent: type) -> None:
    assert list(module.CATALOGUE) == sorted(module.CATALOGUE)


@pytest.mark.parametrize(("module", "base", "fluent"), KINDS)
def test_the_methods_are_those_of_the_catalogue(module: Any, base: type, fluent: type) -> None:
    assert methods(fluent) == set(module.CATALOGUE)
    assert issubclass(base, fluent)
    for name in module.CATALOGUE:
        assert name not in base.functions, "a method of its own must not be looked up in users' names"  # type: ignore[attr-defined]  # both kinds have it


def test_every_operator_is_in_the_catalogue() -> None:
    known = {None, *datapipes.map.CATALOGUE, *datapipes.iter.CATALOGUE}
    files = [
        file.name for module, *_ in KINDS for file in pkgutil.walk_packages(module.__path__, f"{module.__name__}.")
    ]
    operators = [x for file in files for x in vars(import_module(file)).values() if isinstance(x, type)]
    assert len(files) > len(KINDS)
    assert not [x for x in operators if vars(x).get("_fluent") not in known], "the catalogue needs a line for each"


@pytest.mark.parametrize(("module", "base", "fluent"), KINDS)
def test_what_has_a_method_is_in_the_catalogue_and_exported(module: Any, base: type, fluent: type) -> None:
    exported = {name: getattr(module, name) for name in module.__all__}
    assert {name for name in vars(module) if name[:1].isupper()} == {*exported, *made_elsewhere(module)}
    for operator in module.CATALOGUE.values():
        assert operator.__name__ in {*exported, *made_elsewhere(module)}
    catalogues = [other.CATALOGUE for other, *_ in KINDS]
    for operator in exported.values():
        name = getattr(operator, "_fluent", None)
        assert name is None or operator in [catalogue.get(name) for catalogue in catalogues]


def made_elsewhere(module: ModuleType) -> set[str]:
    """What makes the other kind of pipe is in the catalogue, and exported beside its kin."""
    return {"IterToMapConverter"} if module is datapipes.iter else {"MapToIterConverter"}


@pytest.mark.parametrize(("module", "base", "fluent"), KINDS)
def test_exports_are_sorted(module: Any, base: type, fluent: type) -> None:
    first, *others = module.__all__
    assert first == "CATALOGUE"
    assert others == sorted(others)


def by_position_and_name(parameters: list[Parameter]) -> list[tuple[str, Any, Any]]:
    """What matters of parameters to a caller: the order of those that are given by name does not."""
    listed = [(p.name, p.kind, p.default) for p in parameters]
    named = sorted((one for one in listed if one[1] is Parameter.KEYWORD_ONLY), key=itemgetter(0))
    return [one for one in listed if one[1] is not Parameter.KEYWORD_ONLY] + named


def after_the_source(operator: Any) -> list[tuple[str, Any, Any]]:
    first, *others = signature(operator).parameters.values()
    parameters = [first, *others] if first.kind is Parameter.VAR_POSITIONAL else others
    return by_position_and_name(parameters)


@pytest.mark.parametrize(("base", "name", "operator"), OPERATORS)
def test_a_method_takes_what_its_operator_takes(base: type, name: str, operator: Any) -> None:
    _, *parameters = signature(getattr(base, name)).parameters.values()
    assert by_position_and_name(parameters) == after_the_source(operator)


@pytest.mark.parametrize(("base", "name", "operator"), OPERATORS)
def test_the_source_has_the_name_that_users_know(base: type, name: str, operator: Any) -> None:
    first = next(iter(signature(operator).parameters))
    assert first == next((known for known, names in FIRST.items() if name in names), "datapipe")


@pytest.mark.parametrize(("base", "name", "operator"), OPERATORS)
def test_a_method_is_documented_with_an_example(base: type, name: str, operator: Any) -> None:
    for described in (getattr(base, name), operator):
        text = described.__doc__ or ""
        assert ">>>" in text, f"{described} has no example"
        assert "." in text.splitlines()[0], f"{described} does not say in a sentence what it does"
