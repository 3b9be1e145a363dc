"""The streams of a saved position, opened again by the stages of the graph that opened them, and by nothing else.

A stream's origin is a chain of steps. Each is the label of a stage and the stage's key: ``("1 FileOpener", ("a.tar",
10240), None)`` is a file of ten KiB, and ``("2 TarArchiveLoader", ("a.tar/x.jpg", 512, 90), <the step before>)`` a
member of it. A URL with a secret is named by its place in the list of URLs. Modes, encodings, credentials, limits and
methods to decompress are the stages' own, never the state's.

This limits a malicious state. It can only open files that a stage of the graph can open. If the elements above that
stage can be looked up, only these paths are opened. That is so for a list, also if a shuffle, a sharding or a function
that makes paths is below it. Otherwise any path is accepted, as if it came from a buffer above the stage. Only regular
files are opened, so nothing waits for a pipe or reads a device.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any, Final

from datapipes.description import structure
from datapipes.description.indexed import indexed, only_source
from datapipes.description.pipe import RemoteGraph
from datapipes.description.printing import stage as printed
from datapipes.elements.streams import Origin, StreamWrapper, can_seek, unwrapped
from datapipes.errors import StateError
from datapipes.messages.short import hide

MOST_STEPS: Final = 16  # archives in archives
_READ_AT_ONCE: Final = 1 << 20


def label(pipe: structure.Pipe) -> str | None:
    """Return the name of a stage in origins, or None outside of a session, where the stage has no place."""
    place = vars(pipe).get("_place", structure.NO_CELL)
    return None if place == structure.NO_CELL else f"{place} {type(pipe).__name__}"


def origin_of(pipe: structure.Pipe, *key: str | int, source: Origin | None = None) -> Origin | None:
    """Return the origin of a stream that a stage has just opened. ``_reopening`` of the stage gets ``key``."""
    name = label(pipe)
    return None if name is None else (name, key, source)


class UrlOrigins:
    """Origins of the streams that a stage opens by URL. The place in the list of URLs stands for a URL with secrets."""

    def __init__(self, pipe: structure.Pipe) -> None:
        self._pipe = pipe
        self._given: KnownPaths | None = None

    def origin(self, url: str, *version: str | int) -> Origin | None:
        """Return the origin of a stream, or None if it has a secret and no place."""
        if hide(url) == url:
            return origin_of(self._pipe, url, *version)
        if self._given is None:
            self._given = KnownPaths(self._pipe)
        place = self._given.place_of(url)
        return None if place is None else origin_of(self._pipe, place, *version)


class StreamStages:
    """The stages of a graph that open streams, by their labels."""

    def __init__(self, graph: structure.Pipe) -> None:
        self._graph = graph
        self._found: dict[str, structure.Pipe] | None = None

    @property
    def stages(self) -> dict[str, structure.Pipe]:
        """The stages of the graph that open streams, and those of graphs that workers run for it."""
        if self._found is None:
            graphs, self._found = [self._graph], {}
            for graph in graphs:
                for stage in structure.walk(graph):
                    if getattr(type(stage), "_stream_key", None) is not None and (name := label(stage)) is not None:
                        self._found[name] = stage
                    elif isinstance(stage, RemoteGraph):
                        graphs.append(stage.graph)
        return self._found


class StreamReopener:
    """The streams that one saved buffer reopens. An archive is opened once for all of its members."""

    def __init__(self, stages: dict[str, structure.Pipe]) -> None:
        self._stages = stages
        self._archives: dict[tuple[str, Origin], Callable[..., StreamWrapper]] = {}
        self._given: dict[str, KnownPaths] = {}
        self._opened: list[StreamWrapper] = []

    def knows(self, origin: Origin) -> bool:
        """Return whether the stages of an origin are in the graph."""
        return all(name in self._stages for name, _ in _steps(origin))

    def open(self, origin: Any, name: Any, at: Any) -> StreamWrapper:
        """Open a stream again, at a position. Raise StateError if the graph does not open such a stream."""
        for step, key in _steps(origin):
            stage = self._stages.get(step)
            if stage is None:
                raise StateError(f"a stream was opened by the stage {step!r:.80}, which is not in this graph")
            if tuple(map(type, key)) not in (stage._stream_key, *stage._other_stream_keys):
                raise StateError(f"{printed(stage)} opens no stream of {key!r:.200}")
        try:
            stream: StreamWrapper = self._open(origin)
            stream.name = name if type(name) is str else None
            if type(at) is int:
                _go_to(stream, at)
        except (StateError, MemoryError):
            raise
        except Exception as error:
            what = f"a stream that {printed(self._stages[origin[0]])} opened of {origin[1][0]!r:.200}"
            raise StateError(f"{what} cannot be opened again: {type(error).__name__}: {error}") from error
        return stream

    def _open(self, origin: Origin) -> StreamWrapper:
        stream: StreamWrapper
        name, key, source = origin
        stage = self._stages[name]
        if (source is None) is not (stage._out_of_streams == ""):
            raise StateError(f"{printed(stage)} does not read its streams from {source!r:.200}")
        if source is None:
            stream = stage._reopening(None)(self._given_path(name, stage, key[0]), *key[1:])
        elif stage._out_of_streams == "one of each":
            stream = stage._reopening(self._open(source))(*key)
        else:
            reopen = self._archives.get((name, source))
            if reopen is None:
                archive = self._open(source)
                archive.close_on_last_child = True
                reopen = self._archives[name, source] = stage._reopening(archive)
            stream = reopen(*key)
        stream.origin = origin
        self._opened.append(stream)
        return stream

    def _given_path(self, name: str, stage: structure.Pipe, path: str | int) -> str:
        """Return the path of a stream, or that at a place in the list of paths. Raise StateError if it is not given."""
        given = self._given.get(name)
        if given is None:
            given = self._given[name] = KnownPaths(stage)
        if type(path) is int:
            found = given.at(path)
            if found is None:
                raise StateError(f"{printed(stage)} reads no list of paths with a path number {path}")
            return found
        if not given.may_be(path):
            raise StateError(f"{printed(stage)} reads no path {path!r:.200}, and opens no paths but those it reads")
        return str(path)

    def close(self) -> None:
        """Close the opened streams after the state could not be read."""
        for stream in reversed(self._opened):
            stream.close()


class KnownPaths:
    """The elements that a stage reads, looked up if that is possible."""

    def __init__(self, stage: structure.Pipe) -> None:
        source = only_source(stage)
        while source is not None and (found := indexed(source)) is None and _passes_through(source):
            source = only_source(source)
        found = None if source is None else indexed(source)
        self._found = found
        self._left: Iterator[Any] | None = None if found is None else map(found.at, range(found.length))
        self._seen: set[str] = set()
        self._places: dict[Any, int] | None = None

    def at(self, place: int) -> str | None:
        """Return the path at a place in the list, or None if there is none."""
        if self._found is None or not 0 <= place < self._found.length:
            return None
        path = self._found.at(place)
        return path if isinstance(path, str) else None

    def place_of(self, path: str) -> int | None:
        """Return the place of a path in the list, or None if it is not there, or there is no list."""
        if self._found is None:
            return None
        if self._places is None:
            given = ((self._found.at(place), place) for place in reversed(range(self._found.length)))
            self._places = {path: place for path, place in given if isinstance(path, str)}
        return self._places.get(path)

    def may_be(self, path: object) -> bool:
        """Return whether a path is among the elements. Return True if they cannot be looked up."""
        if self._left is None or path in self._seen:
            return True
        for given in self._left:
            if isinstance(given, str):
                self._seen.add(given)
                if given == path:
                    return True
        return False


def _passes_through(pipe: structure.Pipe) -> bool:
    """Return whether a stage only passes on elements of its input, in any order, and adds none."""
    return structure.is_native(pipe) and bool(pipe._passes_through)


def _steps(origin: Any) -> list[tuple[str, tuple[str | int, ...]]]:
    """Return the steps of an origin, the last one first. Raise StateError if it is malformed: it may be from a file."""
    steps: list[tuple[str, tuple[str | int, ...]]] = []
    while origin is not None:
        if type(origin) is not tuple or len(origin) != 3 or len(steps) == MOST_STEPS:
            raise StateError(f"this is no origin of a stream: {origin!r:.80}")
        name, key, origin = origin
        if type(name) is not str or type(key) is not tuple or not all(type(part) in (str, int) for part in key):
            raise StateError(f"this is no origin of a stream: {name!r:.80}, {key!r:.80}")
        steps.append((name, key))
    return steps


def _go_to(stream: StreamWrapper, at: int) -> None:
    """Move a stream that was just opened to its saved position."""
    if not at:
        return
    if can_seek(stream):
        stream.seek(at)
        return
    raw = getattr(unwrapped(stream), "raw", None)
    if callable(begin_at := getattr(raw, "begin_at", None)):  # a body over HTTP, of which nothing was read yet
        begin_at(at)
        return
    left = at
    while left and (passed := len(stream.read(min(left, _READ_AT_ONCE)))):
        left -= passed
    if left:
        raise io.UnsupportedOperation(f"it ends {left} bytes before the saved position")
