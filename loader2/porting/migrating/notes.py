"""Notes for the programmer, by line: code that stays valid Python and has another meaning here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import chain
from typing import Any, Final

from datapipes.description.names import OF_TORCH, PROTOCOL
from datapipes.iter import IterDataPipe
from datapipes.map import MapDataPipe
from loader2.porting.migrating.names import KnownName, names_of, new
from loader2.porting.old_modules import TORCHDATA

_GOES_ON: Final = "a state resumes in mid-epoch"

_ATTRIBUTES: Final = {
    "_restore_checkpoint_beginning_of_epoch": f"{_GOES_ON} by itself: keep this call if epochs should start over",
    "_simple_graph_snapshot_restoration": f"{_GOES_ON} by itself: use state_dict() and load_state_dict() of the loader",
    **dict.fromkeys(
        ("_number_of_samples_yielded", "_valid_iterator_id", "_snapshot_state", "_fast_forward_iterator"),
        "pipes do not count or mark their iterators: use state_dict() of the loader, or its step",
    ),
}
_WHO_AM_I: Final = ("get_worker_info", "get_rank", "get_world_size")
_PACKAGES: Final = {
    "torchdata": "loader2",
    "poptorch": "reading_services.ipu",
    "popdist": "reading_services.ipu.popdist",
}
_LOADERS: Final = ("torch.utils.data.DataLoader", "torchdata.stateful_dataloader.StatefulDataLoader")
"""Other loaders. In their workers, torch's ``get_worker_info()`` returns the worker's number."""


@dataclass(frozen=True, order=True)
class Note:
    """Line with a decision to take, and the advice."""

    line: int
    text: str


def decisions(tree: ast.Module) -> Iterator[Note]:
    """Yield notes on a program that uses pipes."""
    program = _NotedFile(tree)
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef():
                yield from program.class_notes(node)
            case ast.Call():
                yield from program.call_notes(node)
            case ast.Compare():
                yield from _comparison_notes(node)
            case ast.Attribute(attr=name) if name in _ATTRIBUTES:
                yield Note(node.lineno, f"{name}: {_ATTRIBUTES[name]}")
            case ast.Attribute(attr="__version__", value=value) if program.dotted(value) in _PACKAGES:
                yield _version(node, str(program.dotted(value)))
            case ast.ImportFrom(module=module, names=names):
                for alias in names:
                    if alias.name in _ATTRIBUTES:
                        yield Note(node.lineno, f"{alias.name}: {_ATTRIBUTES[alias.name]}")
                    if alias.name == "__version__" and (package := str(module).partition(".")[0]) in _PACKAGES:
                        yield _version(node, package)
                    if alias.name == "PrototypeMultiProcessingReadingService":
                        yield Note(
                            node.lineno,
                            f"{alias.name} is MultiProcessingReadingService: check that its arguments are the ones you "
                            "want",
                        )


class _NotedFile:
    """One file: the names that its imports bind, its classes, and the loaders that it uses."""

    def __init__(self, tree: ast.Module) -> None:
        self._bound: dict[str, str] = {}
        self._classes: dict[str, ast.ClassDef] = {}
        for node in ast.walk(tree):
            match node:
                case ast.Import(names=names):
                    for alias in names:
                        root = alias.name.partition(".")[0]
                        self._bound[alias.asname or root] = alias.name if alias.asname else root
                case ast.ImportFrom(module=str(module), names=names, level=0):
                    self._bound |= {alias.asname or alias.name: f"{module}.{alias.name}" for alias in names}
                case ast.ClassDef(name=name):
                    self._classes[name] = node
        asked = {self.dotted(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute | ast.Name)}
        self._has_own_loader = any(each is not None and each.endswith("DataLoader2") for each in asked)
        self._has_others_loader = not asked.isdisjoint(
            (*_LOADERS, "poptorch.DataLoader", "reading_services.ipu.DataLoader")
        )
        self._uses_pipes = any(each is not None and _is_of_pipes(each) for each in asked)

    def dotted(self, node: ast.expr) -> str | None:
        """Return the whole dotted name of a name or a chain of attributes. Return None if no import binds it."""
        match node:
            case ast.Name(id=name):
                return self._bound.get(name)
            case ast.Attribute(value=value, attr=name):
                owner = self.dotted(value)
                return None if owner is None else f"{owner}.{name}"
        return None

    def call_notes(self, node: ast.Call) -> Iterator[Note]:
        """Yield notes on a call."""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        given = {keyword.arg for keyword in node.keywords}
        if name in ("parse_csv_as_dict", "CSVDictParser") and given.isdisjoint(("ragged", None)):
            yield Note(
                node.lineno,
                "a row that is shorter or longer than the header is an error here: pass "
                'ragged="keep" to fill it up, as torchdata does',
            )
        if name == "from_state" and given.isdisjoint(("datapipe", None)):
            yield Note(
                node.lineno,
                "a state holds no graph: DataLoader2.from_state(state, reading_service, datapipe=graph); "
                "states that torchdata saved cannot be loaded",
            )
        arguments = {keyword.arg: keyword.value for keyword in node.keywords}
        count = next(iter(node.args[name in ("Forker", "UnZipper") :]), None)
        count = arguments.get("num_instances", arguments.get("sequence_length", count))
        if name in ("fork", "Forker", "unzip", "UnZipper") and isinstance(count, ast.Constant) and count.value == 1:
            yield Note(node.lineno, f"{name} returns a list even for one pipe: write [0] after it, or leave it out")
        if self._uses_pipes and self.dotted(node.func) in _LOADERS and ("shuffle" in given or len(node.args) > 2):
            yield Note(
                node.lineno,
                f"{name}(shuffle=) switches the shuffles of a copy of a graph on or off; True is an error if it has "
                "none: put shuffle() into the graph, above its sharding_filter()",
            )
        if name in ("ipuHardwareIsAvailable", "ipuHardwareVersion"):
            yield Note(node.lineno, f"{name}() finds no IPU here, because the device is simulated: leave the check out")
        for value in (*node.args, *arguments.values()):
            if isinstance(value, ast.Constant) and value.value in _PACKAGES:
                yield _package(node, f"{name}({value.value!r})", value.value)

    def class_notes(self, node: ast.ClassDef) -> Iterator[Note]:
        """Yield notes on a class: its method's name, private attributes of its base, and its sharding."""
        bases = self._bases(node)
        kind: type = MapDataPipe if any(base.endswith("MapDataPipe") for base in bases) else IterDataPipe
        taken = {*dir(kind), *PROTOCOL} - OF_TORCH[kind.__name__]
        for decorator in node.decorator_list:
            match decorator:
                case ast.Call(func=func, args=[ast.Constant(value=str(name)), *_]):
                    if str(self.dotted(func)).endswith(".functional_datapipe") and name in taken:
                        what = (
                            "which loaders call" if name in PROTOCOL else f"which {node.name} replaces, with a warning"
                        )
                        yield Note(
                            decorator.lineno,
                            f"{name} is a method of this library's pipes, too, {what}: rename it, or leave "
                            f"{node.name} out if it does the same",
                        )
        if any(map(_is_pipe, bases)):
            yield from _sharding(node, self._has_own_loader or not self._has_others_loader)
            yield from self._private(node, bases)

    def _bases(self, node: ast.ClassDef) -> list[str]:
        """Return the whole names of a class's bases. A base in this file is replaced by its own bases."""
        found: list[str] = []
        for base in node.bases:
            base = base.value if isinstance(base, ast.Subscript) else base
            inner = self._classes.get(base.id) if isinstance(base, ast.Name) else None
            if inner is not None and inner.lineno < node.lineno:
                found += self._bases(inner)
            else:
                found.append(self.dotted(base) or ast.unparse(base))
        return found

    def _private(self, node: ast.ClassDef, bases: list[str]) -> Iterator[Note]:
        """Yield notes on private attributes without a definition: torchdata's class may have had them."""
        ours = [_our_class(base) for base in bases if base.rpartition(".")[2] not in _WITHOUT_ATTRIBUTES]
        if any(each is None for each in ours):
            return  # a base of another library may have them
        own = {name for each in self._lineage(node) for name in _defined(each)}
        for each in ast.walk(node):
            match each:
                case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Load()):
                    is_private = name.startswith("_") and not name.endswith("__") and name not in _ATTRIBUTES
                    if is_private and name not in own and not any(hasattr(base, name) for base in ours):
                        shown = " or ".join(sorted(base.rpartition(".")[2] for base in bases))
                        yield Note(
                            each.lineno, f"self.{name} is not defined: if it was private to {shown}, write without it"
                        )

    def _lineage(self, node: ast.ClassDef) -> Iterator[ast.ClassDef]:
        """Yield a class, and its bases in this file."""
        yield node
        for base in node.bases:
            inner = self._classes.get(base.id) if isinstance(base, ast.Name) else None
            if inner is not None and inner.lineno < node.lineno:
                yield from self._lineage(inner)


_WITHOUT_ATTRIBUTES: Final = ("ABC", "Generic", "Protocol", "object")


def _defined(node: ast.ClassDef) -> Iterator[str]:
    """Yield the names that a class defines: methods, and assignments in it or to ``self``."""
    for each in ast.walk(node):
        match each:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name


def _is_of_pipes(dotted: str) -> bool:
    return dotted.startswith(("datapipes.", "torchdata.datapipes", "torch.utils.data.datapipes")) or _is_pipe(dotted)


def _is_pipe(dotted: str) -> bool:
    """Return whether a class is a pipe: one of the tables, or another one with a name like that."""
    return dotted.endswith("DataPipe") or isinstance(_our_class(dotted), type(IterDataPipe))


def _our_class(dotted: str) -> Any:
    """Return the library's class for an old or a new dotted name, or None."""
    here = new(dotted)
    module, _, name = (here.dotted if isinstance(here, KnownName) else dotted).rpartition(".")
    found = getattr(import_module(module), name, None) if module in ("datapipes.iter", "datapipes.map") else None
    return found if isinstance(found, type) else None


def _comparison_notes(node: ast.Compare) -> Iterator[Note]:
    """Yield notes on strings in comparisons: names of packages, and of classes with another name here."""
    compared = (node.left, *node.comparators)
    for each in chain.from_iterable(getattr(each, "elts", [each]) for each in compared):
        match each:
            case ast.Constant(value=str(name)) if name in _PACKAGES:
                yield _package(each, repr(name), name)
            case ast.Constant(value=str(name)) if name in _long_names():
                yield Note(each.lineno, f"no class is called {name} here: its name is {_long_names()[name]}")


@cache
def _long_names() -> dict[str, str]:
    """Return old class names in modules of torch and torchdata, with their names here."""
    known = (pair for module in TORCHDATA for pair in names_of(module).items())
    return {
        old: name
        for old, (home, name) in known
        if home in ("datapipes.iter", "datapipes.map") and old != name and old.endswith("DataPipe")
    }


def _package(node: ast.expr, shown: str, package: str) -> Note:
    return Note(
        node.lineno, f"{shown} asks for {package}, which may not be installed any more: ask for {_PACKAGES[package]}"
    )


def _version(node: ast.expr | ast.stmt, package: str) -> Note:
    return Note(
        node.lineno, f"{package}.__version__ is that of {package}, which may not be installed any more: leave it out"
    )


def _sharding(node: ast.ClassDef, is_for_own_loader: bool) -> Iterator[Note]:
    """Yield notes on a class that shards by itself."""
    for method in node.body:
        match method:
            case ast.FunctionDef(name="is_shardable"):
                yield Note(
                    method.lineno,
                    f"{node.name}.is_shardable is never called: a class shards if it has apply_sharding; remove that "
                    "method where this returned False",
                )
            case ast.FunctionDef(name="apply_sharding", args=args) if len(args.args) < 4 and not args.vararg:
                yield Note(
                    method.lineno,
                    f"{node.name}.apply_sharding has no sharding_group: with ranks and workers it is called once for "
                    "each, and the last call counts; take (num_of_instances, instance_id, sharding_group) and combine "
                    "them, or use sharding_filter() in place of the class",
                )
    for call in ast.walk(node) if is_for_own_loader else ():
        match call:
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if name in _WHO_AM_I:
                yield Note(
                    call.lineno,
                    f"{node.name} calls {name}() itself: torch's get_worker_info() is None in these workers "
                    "(reading_services.get_worker_info() is not), and a sharding_filter() must not shard a second "
                    "time after the class",
                )
