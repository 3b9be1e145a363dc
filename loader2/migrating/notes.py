"""What a person has to decide: programs that are right in Python and mean something else here, by line."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_GOES_ON: Final = "a state goes on in mid-epoch"

_ATTRIBUTES: Final = {
    "_restore_checkpoint_beginning_of_epoch": f"{_GOES_ON} by itself: keep this call if epochs are to begin again",
    "_simple_graph_snapshot_restoration": f"{_GOES_ON} by itself: use state_dict() and load_state_dict() of the loader",
    **dict.fromkeys(
        ("_number_of_samples_yielded", "_valid_iterator_id", "_snapshot_state", "_fast_forward_iterator"),
        "pipes do not count or mark their iterators: use state_dict() of the loader, or its step",
    ),
}
_WHO_AM_I: Final = ("get_worker_info", "get_rank", "get_world_size")


@dataclass(frozen=True, order=True)
class Note:
    """A line, what is to be decided there, and what to do."""

    line: int
    text: str


def decisions(tree: ast.Module) -> Iterator[Note]:
    """Notes on a program that uses pipes."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(bases=[_, *_]):
                yield from _sharding(node)
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), keywords=keywords):
                given = {keyword.arg for keyword in keywords}
                if name in ("parse_csv_as_dict", "CSVDictParser") and given.isdisjoint(("ragged", None)):
                    yield Note(
                        node.lineno,
                        "a row that is shorter or longer than the header is an error here: pass "
                        'ragged="keep" to have it filled up, as torchdata did',
                    )
                if name == "from_state" and given.isdisjoint(("datapipe", None)):
                    yield Note(
                        node.lineno,
                        "a state holds no graph: DataLoader2.from_state(state, reading_service, datapipe=graph); "
                        "states that torchdata saved cannot be loaded",
                    )
            case ast.Attribute(attr=name) if name in _ATTRIBUTES:
                yield Note(node.lineno, f"{name}: {_ATTRIBUTES[name]}")
            case ast.ImportFrom(names=names):
                for alias in names:
                    if alias.name in _ATTRIBUTES:
                        yield Note(node.lineno, f"{alias.name}: {_ATTRIBUTES[alias.name]}")
                    if alias.name == "PrototypeMultiProcessingReadingService":
                        yield Note(
                            node.lineno,
                            f"{alias.name} is MultiProcessingReadingService: see that its arguments are the ones you "
                            "want",
                        )


def _sharding(node: ast.ClassDef) -> Iterator[Note]:
    """A class that takes its part of the elements by itself."""
    for method in node.body:
        match method:
            case ast.FunctionDef(name="is_shardable"):
                yield Note(
                    method.lineno,
                    f"{node.name}.is_shardable is asked by nobody: a class shards if it has apply_sharding; take that "
                    "away where this returned False",
                )
            case ast.FunctionDef(name="apply_sharding", args=args) if len(args.args) < 4 and not args.vararg:
                yield Note(
                    method.lineno,
                    f"{node.name}.apply_sharding has no sharding_group: with ranks and workers it is called once for "
                    "each, and the last call counts; take (num_of_instances, instance_id, sharding_group) and combine "
                    "them, or use sharding_filter() in place of the class",
                )
    for call in ast.walk(node):
        match call:
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if name in _WHO_AM_I:
                yield Note(
                    call.lineno,
                    f"{node.name} asks {name}() itself: torch's get_worker_info() is None in these workers "
                    "(reading_services.get_worker_info() is not), and what is taken here is not to be shared a "
                    "second time by a sharding_filter()",
                )
