"""The names on the page of differences are names of this library: what is renamed or taken away is missed there.

A piece of code on the page is a name, a call, an attribute of something (``dl``, a pipe), or a parameter with ``=``
behind it. What is another library's, or a piece of data, is told here.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
from collections.abc import Iterator
from typing import Any

import datapipes
import datapipes.errors
import datapipes.graph
import datapipes.iter
import datapipes.map
import loader2
import loader2.adapters
import loader2.random
import reading_services
import reading_services.ipu
from datapipes.fluent import IterMethods, MapMethods
from tests.test_house import ROOT

OF_OTHERS = {
    *("fieldnames=", "split=", "torch", "torch.rand", "DataLoader", "StatefulDataLoader", "skip_first_batches"),
    *("python -O", "except KeyError as error: error.args", "import reading_services.ipu as poptorch"),
    *("a", "abz.bz2", "v1.0.tar.gz", "transcript", "dataset", "with"),
}
GIVEN = {"dl", "graph", "s", "src", "state"}
"""What is no name of the library: what its user has made."""


def public() -> dict[str, list[Any]]:
    """All that a user finds under a name, in whichever module or class."""
    homes: list[Any] = [
        datapipes,
        datapipes.errors,
        datapipes.graph,
        datapipes.iter,
        datapipes.map,
        loader2,
        loader2.adapters,
    ]
    homes += [loader2.random, reading_services, reading_services.ipu, IterMethods, MapMethods]
    homes += [reading_services.ipu.Options, reading_services.ipu.AsynchronousDataAccessor]
    found: dict[str, list[Any]] = {module: [] for module in ("datapipes", "loader2", "reading_services", "poprun")}
    for home in homes:
        for name, thing in inspect.getmembers(home):
            found.setdefault(name, []).append(thing)
            if inspect.isclass(thing) and not hasattr(builtins, name):
                for method, function in inspect.getmembers(thing):
                    found.setdefault(method, []).append(function)
    return found


def parameters_of(things: list[Any]) -> Iterator[str]:
    for thing in things:
        try:
            yield from inspect.signature(thing).parameters
        except (TypeError, ValueError):  # not to be called, or C's
            continue


PUBLIC = public()
PARAMETERS = {name for things in PUBLIC.values() for name in parameters_of(things)}


def missing(code: str) -> Iterator[str]:
    """Yield the names in a piece of code that do not exist in this library."""
    if code in OF_OTHERS or re.fullmatch(r"(\.\w+)+", code):  # the latter is the ending of a file
        return
    if parameter := re.fullmatch(r"(\w+)=(\"?\w+\"?)?", code):
        if parameter[1] not in PARAMETERS:
            yield parameter[1]
        return
    for node in ast.walk(ast.parse(code, mode="eval")):
        match node:
            case ast.Name(id=name) if name not in {*PUBLIC, *PARAMETERS, *GIVEN} and not hasattr(builtins, name):
                yield name
            case ast.Attribute(attr=name) if name not in PUBLIC:
                yield name
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), keywords=given):
                known = set(parameters_of(PUBLIC.get(name, [])))
                yield from (f"{name}({keyword.arg}=)" for keyword in given if keyword.arg not in known)


def test_names_on_the_page_resolve() -> None:
    page = (ROOT / "docs" / "differences.md").read_text("utf-8")
    pieces = re.findall(r"`([^`\n]+)`", page)
    assert len(pieces) > 100
    assert {piece: gone for piece in pieces if (gone := list(missing(piece)))} == {}
    assert set(pieces) >= OF_OTHERS - {"torch"}


def test_a_name_that_is_nobodys_is_missed() -> None:
    told = ["dl.set_epochs", "in_memory_caches", "groupby(keep_keys=True)", "raged=", 'DataLoader2(graph, "x").epoch']
    assert [list(missing(code)) for code in told] == [
        ["set_epochs"],
        ["in_memory_caches"],
        ["groupby(keep_keys=)"],
        ["raged"],
        [],
    ]
