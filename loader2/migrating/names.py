"""Old dotted names and their counterparts here.

The table names modules: a name of an old module is the name of that spelling that one of the new modules exports, so
that a name is listed only where it differs. Classes' long names (``MapperIterDataPipe``) are those without the ending.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Final

_ITER: Final = ("datapipes.iter", "datapipes.map", "datapipes.graph", "datapipes.errors")
_MAP: Final = ("datapipes.map", "datapipes.iter")
_LOADER: Final = ("loader2", "reading_services")
_GRAPH: Final = ("datapipes.graph",)
_BASE: Final = ("datapipes",)
_GONE: Final = ()

MODULES: Final[dict[str, tuple[str, ...]]] = {
    "torchdata.datapipes": _BASE,
    "torchdata.datapipes.iter": _ITER,
    "torchdata.datapipes.iter.load": _ITER,
    "torchdata.datapipes.iter.load.*": _ITER,
    "torchdata.datapipes.iter.transform": _ITER,
    "torchdata.datapipes.iter.transform.*": _ITER,
    "torchdata.datapipes.iter.util": _ITER,
    "torchdata.datapipes.iter.util.*": _ITER,
    "torchdata.datapipes.map": _MAP,
    "torchdata.datapipes.map.util": _MAP,
    "torchdata.datapipes.map.util.*": _MAP,
    "torchdata.datapipes.utils": ("datapipes", "datapipes.graph"),
    "torchdata.datapipes.utils.pin_memory": _BASE,
    "torchdata.dataloader2": _LOADER,
    "torchdata.dataloader2.adapter": ("loader2.adapters",),
    "torchdata.dataloader2.communication": _GONE,
    "torchdata.dataloader2.communication.*": _GONE,
    "torchdata.dataloader2.dataloader2": _LOADER,
    "torchdata.dataloader2.error": _GONE,
    "torchdata.dataloader2.graph": _GRAPH,
    "torchdata.dataloader2.graph.settings": _GRAPH,
    "torchdata.dataloader2.graph.utils": _GRAPH,
    "torchdata.dataloader2.linter": _GONE,
    "torchdata.dataloader2.random": ("loader2.random",),
    "torchdata.dataloader2.random.distributed": ("loader2.random",),
    "torchdata.dataloader2.random.seed_generator": ("loader2.random",),
    "torchdata.dataloader2.reading_service": ("reading_services",),
    "torchdata.dataloader2.shuffle_spec": _GONE,
    "torchdata.dataloader2.utils": ("reading_services",),
    "torchdata.dataloader2.utils.worker": ("reading_services",),
    "torch.utils.data.datapipes": _BASE,
    "torch.utils.data.datapipes.datapipe": ("datapipes", "datapipes.iter", "datapipes.map"),
    "torch.utils.data.datapipes._decorator": _BASE,
    "torch.utils.data.datapipes.iter": _ITER,
    "torch.utils.data.datapipes.iter.*": _ITER,
    "torch.utils.data.datapipes.map": _MAP,
    "torch.utils.data.datapipes.map.*": _MAP,
    "torch.utils.data.datapipes.utils": _BASE,
    "torch.utils.data.datapipes.utils.common": _BASE,
    "torch.utils.data.datapipes.utils.decoder": _BASE,
    "torch.utils.data.graph": _GRAPH,
    "torch.utils.data.graph_settings": _GRAPH,
    "poptorch": ("reading_services.ipu",),
    "popdist": ("reading_services.ipu.popdist",),
    "popdist.poptorch": ("reading_services.ipu.popdist.poptorch",),
}
"""Old module -> the new ones to look for its names in; as a module itself it is the first of them. ``*`` is any
module, which has a name in small letters."""

SINGLE: Final = {
    "torchdata.datapipes.utils.janitor.janitor": "datapipes.janitor",  # a function and a module of one name
    "torch.utils.data.IterDataPipe": "datapipes.iter.IterDataPipe",
    "torch.utils.data.MapDataPipe": "datapipes.map.MapDataPipe",
    "torch.utils.data.DataChunk": "datapipes.DataChunk",
    "torch.utils.data.argument_validation": "datapipes.argument_validation",
    "torch.utils.data.functional_datapipe": "datapipes.functional_datapipe",
    "torch.utils.data.guaranteed_datapipes_determinism": "datapipes.guaranteed_datapipes_determinism",
    "torch.utils.data.non_deterministic": "datapipes.non_deterministic",
    "torch.utils.data.runtime_validation": "datapipes.runtime_validation",
    "torch.utils.data.runtime_validation_disabled": "datapipes.runtime_validation_disabled",
}
"""Names of modules that are not all about pipes."""

SPELLED_OTHERWISE: Final = {
    "FlattenIterDataPipe": "Flattener",
    "GDriveReaderDataPipe": "GDriveReader",
    "HTTPReaderIterDataPipe": "HttpReader",
    "ParquetDFLoaderIterDataPipe": "ParquetDataFrameLoader",
    "PrototypeMultiProcessingReadingService": "MultiProcessingReadingService",
    "SampleMultiplexerDataPipe": "SampleMultiplexer",
    "SliceIterDataPipe": "Slicer",
}

ADVICE: Final = {
    "DFIterDataPipe": "derive from datapipes.iter.IterDataPipe and give pandas frames",
    "PauseIteration": "a reading service pauses nothing here: return, or use limit() of the loader's iterator",
    "ShuffleSpec": "nothing used it: leave it out",
    "communication": "worker processes are the library's own: write a ReadingServiceInterface",
    "process_init_fn": "pass worker_init_fn= to MultiProcessingReadingService",
    "process_reset_fn": "pass worker_reset_fn= to MultiProcessingReadingService",
    "validate_input_col": "operators check their functions themselves: leave it out",
    "T_co": 'write TypeVar("T_co", covariant=True)',
}
"""What to write in place of a name that has no counterpart."""


@dataclass(frozen=True)
class Module:
    """A module of ours that an old name stands for."""

    module: str

    @property
    def dotted(self) -> str:
        """The new name, whole."""
        return self.module


@dataclass(frozen=True)
class Member:
    """A name in a module of ours, and the attributes of it that an old dotted name goes on with."""

    module: str
    name: str
    rest: tuple[str, ...] = ()

    @property
    def dotted(self) -> str:
        """The new name, whole."""
        return ".".join((self.module, self.name, *self.rest))

    @property
    def home(self) -> tuple[str, str]:
        """The module to import the name from, and the name there."""
        if not self.rest:
            return self.module, self.name
        return real(Member(self.module, self.name, self.rest[:-1])) or self.dotted.rpartition(".")[0], self.rest[-1]


@dataclass(frozen=True)
class Gone:
    """An old name without a counterpart."""

    name: str

    def advice(self) -> str:
        """What is wrong with the name and what to do, in a sentence."""
        parts = self.name.split(".")
        remedy = next((ADVICE[part] for part in parts if part in ADVICE), "")
        if any(part.startswith("_") for part in parts):
            remedy = remedy or "it is a private name: write without it"
        return f"{self.name} has no counterpart here and is left: {remedy or 'write without it'}"


New = Module | Member | Gone


@cache
def new(dotted: str) -> New | None:
    """What an old dotted name stands for; None: it is no old name.

    >>> new("torchdata.datapipes.iter.Mapper"), new("torchdata.datapipes.iter.util.cacheholder")
    (Member(module='datapipes.iter', name='Mapper', rest=()), Module(module='datapipes.iter'))
    >>> new("torch.utils.data.DataLoader") is None
    True
    """
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        head, rest = ".".join(parts[:end]), parts[end:]
        if head in SINGLE:
            home, _, name = SINGLE[head].rpartition(".")
            return Member(home, name, tuple(rest))
        rooms = _rooms(parts[:end])
        if rooms is not None:
            return _member(dotted, rooms, rest) if rest else Module(rooms[0]) if rooms else Gone(dotted)
    old = len(parts) > 3 and parts[:4] == ["torch", "utils", "data", "datapipes"]
    return Gone(dotted) if old or dotted == "torch.utils.data.DFIterDataPipe" else None


def in_text(text: str) -> New | None:
    """What a text stands for that is an old dotted name from its beginning to its end, of two parts at least.

    >>> in_text("torch.utils.data.datapipes.iter.IterableWrapper").dotted, in_text("poptorch"), in_text("see torchdata")
    ('datapipes.iter.IterableWrapper', None, None)
    """
    return new(text) if "." in text and all(map(str.isidentifier, text.split("."))) else None


def real(name: New | None) -> str | None:
    """The module that a name of ours is, by its own name, as ``import`` takes it.

    >>> real(new("poptorch.optim")), real(new("poptorch.Options"))
    ('reading_services.ipu.optim', None)
    """
    if isinstance(name, Member):
        value: object = import_module(name.module)
        for part in (name.name, *name.rest):
            value = getattr(value, part, None)
        return value.__name__ if isinstance(value, ModuleType) else None
    return name.module if isinstance(name, Module) else None


def rooms_of(dotted: str) -> Sequence[str] | None:
    """The new modules to look for the names of an old module in; None: it is no old module."""
    return _rooms(dotted.split("."))


def _rooms(parts: list[str]) -> tuple[str, ...] | None:
    any_module = ".".join([*parts[:-1], "*"]) if parts[-1].islower() else ""
    return MODULES.get(".".join(parts), MODULES.get(any_module))


def _member(dotted: str, rooms: tuple[str, ...], rest: list[str]) -> New:
    name = rest[0]
    short = name.removesuffix("IterDataPipe").removesuffix("MapDataPipe")
    for spelling in (name, SPELLED_OTHERWISE.get(name), short):
        for room in rooms:
            if spelling and spelling in _exported(room):
                return Member(room, spelling, tuple(rest[1:]))
    return Gone(dotted)


@cache
def _exported(room: str) -> frozenset[str]:
    module = import_module(room)
    listed: Sequence[str] | None = getattr(module, "__all__", None)
    return frozenset(name for name in vars(module) if not name.startswith("_")) if listed is None else frozenset(listed)
