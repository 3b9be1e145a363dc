"""Old names: torchdata's, torch's and PopTorch's modules mean this library's, as long as somebody asks for it.

    with old_names():  # while this file is imported; ``import loader2.torchdata_names`` is for the whole program
        import datasets_of_long_ago

``TORCHDATA`` and ``POPTORCH`` say for each old module what is in it, and where that is here. While a table is on, its
modules are in ``sys.modules`` and are attributes of their packages; a name is looked up when it is asked for. What was
there before comes back when nobody asks any more, exactly as it was.

Installed packages go on working meanwhile: only pipes, loaders and graphs are replaced, and nothing inside of a module
of torch's. What torch, torchdata and this library ask torch for is what they always got (``_asked_by_an_owner``), so
that torch's DataLoader knows its own pipes from ours, as it does without.

Processes that spawn and forkserver start import the program's file, which has the old names in it. What they are told
before that (multiprocessing's preparation data) has the tables that are on, and reading it puts them on there.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from multiprocessing import spawn
from types import ModuleType
from typing import Any, TypeAlias

from datapipes.errors import BadArgument

Homes: TypeAlias = Mapping[str, str]
"""Module of this library -> names in it: ``*`` for all, ``New=Old`` for one that was called otherwise."""

_ITER, _MAP, _GRAPH = "datapipes.iter", "datapipes.map", "datapipes.graph"
_UTIL, _TORCH = "torchdata.datapipes.iter.util", "torch.utils.data.datapipes"
_JANITOR = "torchdata.datapipes.utils.janitor"

_IMPORTED: Homes = {
    "datapipes": "DataChunk StreamWrapper functional_datapipe janitor",
    _ITER: "IterDataPipe",
    _MAP: "MapDataPipe",
    _GRAPH: "SHARDING_PRIORITIES DataPipe DataPipeGraph find_dps list_dps traverse_dps",
    "datapipes.description.pipe": "T_co C=T",
    "datapipes.operators.columns": "validate_input_col",
    "loader2.old_functions": "validate_pathname_binary_tuple",
    f"{_TORCH}.utils.common": "DILL_AVAILABLE DILL_AVAILABLE=HAS_DILL _check_unpickable_fn match_masks",
}
"""What nearly all old modules had, because they had imported it themselves."""

_DECORATORS = (
    "argument_validation functional_datapipe guaranteed_datapipes_determinism non_deterministic "
    "runtime_validation runtime_validation_disabled"
)

TORCHDATA: Mapping[str, Homes] = {
    "torchdata": {},
    "torchdata.datapipes": {"datapipes": f"DataChunk StreamWrapper janitor {_DECORATORS}"},
    "torchdata.datapipes.iter": {_ITER: "*"},
    "torchdata.datapipes.iter.load": {},
    "torchdata.datapipes.iter.load.aisio": {_ITER: "AISFileLister AISFileLoader"},
    "torchdata.datapipes.iter.load.fsspec": {_ITER: "FSSpecFileLister FSSpecFileOpener FSSpecSaver"},
    "torchdata.datapipes.iter.load.huggingface": {_ITER: "HuggingFaceHubReader"},
    "torchdata.datapipes.iter.load.iopath": {_ITER: "IoPathFileLister IoPathFileOpener IoPathSaver"},
    "torchdata.datapipes.iter.load.online": {
        _ITER: "GDriveReader=GDriveReaderDataPipe HttpReader=HTTPReaderIterDataPipe OnlineReader"
    },
    "torchdata.datapipes.iter.load.s3io": {_ITER: "S3FileLister S3FileLoader"},
    "torchdata.datapipes.iter.transform": {},
    "torchdata.datapipes.iter.transform.bucketbatcher": {_ITER: "BucketBatcher InBatchShuffler MaxTokenBucketizer"},
    "torchdata.datapipes.iter.transform.callable": {
        _ITER: "BatchAsyncMapper BatchMapper Dropper FlatMapper Flattener=FlattenIterDataPipe ShuffledFlatMapper "
        "Slicer=SliceIterDataPipe ThreadPoolMapper"
    },
    _UTIL: {},
    f"{_UTIL}.bz2fileloader": {_ITER: "Bz2FileLoader"},
    f"{_UTIL}.cacheholder": {
        _ITER: "EndOnDiskCacheHolder InMemoryCacheHolder MemoryCell=_MemoryCellIterDataPipe OnDiskCacheHolder"
    },
    f"{_UTIL}.combining": {
        _ITER: "IterKeyZipper MapKeyZipper RoundRobinDemultiplexer UnZipper",
        "datapipes.iter.combining.hub": "Child=_ChildDataPipe",
        "datapipes.iter.combining.fork": "_Fork=_ForkerIterDataPipe _Demux=_DemultiplexerIterDataPipe",
    },
    f"{_UTIL}.converter": {_MAP: "IterToMapConverter"},
    f"{_UTIL}.cycler": {_ITER: "Cycler Repeater"},
    f"{_UTIL}.dataframemaker": {_ITER: "DataFrameMaker ParquetDataFrameLoader=ParquetDFLoaderIterDataPipe"},
    f"{_UTIL}.decompressor": {
        _ITER: "Decompressor Extractor",
        "datapipes.iter.archives.decompress": "CompressionType",
    },
    f"{_UTIL}.distributed": {_ITER: "FullSync", "reading_services": "PrefetchTimeoutError"},
    f"{_UTIL}.hashchecker": {_ITER: "HashChecker"},
    f"{_UTIL}.header": {_ITER: "Header LengthSetter"},
    f"{_UTIL}.indexadder": {_ITER: "Enumerator IndexAdder"},
    f"{_UTIL}.jsonparser": {_ITER: "JsonParser"},
    f"{_UTIL}.mux_longest": {_ITER: "MultiplexerLongest"},
    f"{_UTIL}.paragraphaggregator": {_ITER: "ParagraphAggregator"},
    f"{_UTIL}.plain_text_reader": {_ITER: "CSVDictParser CSVParser LineReader"},
    f"{_UTIL}.prefetcher": {_ITER: "PinMemory Prefetcher", "datapipes": "pin_memory_fn"},
    f"{_UTIL}.randomsplitter": {_ITER: "RandomSplitter SplitterIterator"},
    f"{_UTIL}.rararchiveloader": {_ITER: "RarArchiveLoader"},
    f"{_UTIL}.rows2columnar": {_ITER: "Rows2Columnar"},
    f"{_UTIL}.samplemultiplexer": {_ITER: "SampleMultiplexer=SampleMultiplexerDataPipe"},
    f"{_UTIL}.saver": {_ITER: "Saver"},
    f"{_UTIL}.shardexpander": {_ITER: "ShardExpander"},
    f"{_UTIL}.sharding": {_ITER: "ShardingRoundRobinDispatcher"},
    f"{_UTIL}.tararchiveloader": {_ITER: "TarArchiveLoader"},
    f"{_UTIL}.tfrecordloader": {_ITER: "TFRecordLoader"},
    f"{_UTIL}.webdataset": {_ITER: "WebDataset"},
    f"{_UTIL}.xzfileloader": {_ITER: "XzFileLoader"},
    f"{_UTIL}.zip_longest": {_ITER: "ZipperLongest"},
    f"{_UTIL}.ziparchiveloader": {_ITER: "ZipArchiveLoader"},
    "torchdata.datapipes.map": {_MAP: "*"},
    "torchdata.datapipes.map.load": {},
    "torchdata.datapipes.map.transform": {},
    "torchdata.datapipes.map.util": {},
    "torchdata.datapipes.map.util.cacheholder": {_MAP: "InMemoryCacheHolder"},
    "torchdata.datapipes.map.util.converter": {_ITER: "MapToIterConverter"},
    "torchdata.datapipes.map.util.unzipper": {_MAP: "UnZipper"},
    "torchdata.datapipes.utils": {"datapipes": "StreamWrapper janitor pin_memory_fn", _GRAPH: "to_graph"},
    "torchdata.datapipes.utils._visualization": {_GRAPH: "to_graph"},
    "torchdata.datapipes.utils.common": {},
    _JANITOR: {},
    "torchdata.datapipes.utils.pin_memory": {"datapipes": "pin_memory_fn"},
    "torchdata.dataloader2": {
        "loader2": "DataLoader2 DataLoader2Iterator",
        "reading_services": "CheckpointableReadingServiceInterface DistributedReadingService InProcessReadingService "
        "MultiProcessingReadingService MultiProcessingReadingService=PrototypeMultiProcessingReadingService "
        "ReadingServiceInterface SequentialReadingService",
        "abc": "ABC=ShuffleSpec",
        "builtins": "StopIteration=PauseIteration",
    },
    "torchdata.dataloader2.adapter": {"loader2.adapters": "Adapter CacheTimeout Shuffle"},
    "torchdata.dataloader2.communication": {},
    "torchdata.dataloader2.dataloader2": {
        "loader2": "DataLoader2 DataLoader2Iterator",
        "loader2.adapters": "Adapter",
        "loader2.random": "SeedGenerator",
        "reading_services": "CheckpointableReadingServiceInterface ReadingServiceInterface",
        "copy": "deepcopy=clone",
        "builtins": "StopIteration=PauseIteration",
    },
    "torchdata.dataloader2.error": {"builtins": "StopIteration=PauseIteration"},
    "torchdata.dataloader2.graph": {_GRAPH: "*"},
    "torchdata.dataloader2.graph._serialization": {"copy": "deepcopy=clone"},
    "torchdata.dataloader2.graph.settings": {_GRAPH: "set_datapipes_seed set_graph_random_seed"},
    "torchdata.dataloader2.graph.utils": {_GRAPH: "remove_dp replace_dp"},
    "torchdata.dataloader2.linter": {"loader2.old_functions": "_check_shuffle_before_sharding"},
    "torchdata.dataloader2.random": {"loader2.random": "SeedGenerator dist_share_seed"},
    "torchdata.dataloader2.random._philox": {"loader2.random": "PhiloxEngine"},
    "torchdata.dataloader2.random.distributed": {"loader2.random": "dist_share_seed"},
    "torchdata.dataloader2.random.seed_generator": {"loader2.random": "PhiloxEngine SeedGenerator"},
    "torchdata.dataloader2.reading_service": {
        "reading_services": "* MultiProcessingReadingService=PrototypeMultiProcessingReadingService",
        _ITER: "FullSync",
        "loader2.random": "SeedGenerator dist_share_seed",
        _GRAPH: "replace_dp set_graph_random_seed",
    },
    "torchdata.dataloader2.shuffle_spec": {"abc": "ABC=ShuffleSpec"},
    "torchdata.dataloader2.utils": {"reading_services": "WorkerInfo"},
    "torchdata.dataloader2.utils.worker": {"reading_services": "WorkerInfo"},
    "torch.utils.data": {"datapipes": f"DataChunk {_DECORATORS}", _ITER: "IterDataPipe", _MAP: "MapDataPipe"},
    _TORCH: {},
    f"{_TORCH}._decorator": {"datapipes": _DECORATORS},
    f"{_TORCH}.datapipe": {},
    f"{_TORCH}.iter": {
        _ITER: "Batcher Collator Concater Demultiplexer FileLister FileOpener Filter Forker Grouper IterableWrapper "
        "Mapper Multiplexer RoutedDecoder Sampler ShardingFilter Shuffler StreamReader UnBatcher Zipper"
    },
    f"{_TORCH}.iter.callable": {_ITER: "Collator Mapper"},
    f"{_TORCH}.iter.combinatorics": {_ITER: "Sampler=SamplerIterDataPipe Shuffler"},
    f"{_TORCH}.iter.combining": {
        _ITER: "Concater Demultiplexer Forker Multiplexer Zipper",
        "datapipes.iter.combining.hub": "Child=_ChildDataPipe",
        "datapipes.iter.combining.fork": "_Fork=_ForkerIterDataPipe _Demux=_DemultiplexerIterDataPipe",
    },
    f"{_TORCH}.iter.filelister": {_ITER: "FileLister"},
    f"{_TORCH}.iter.fileopener": {_ITER: "FileOpener"},
    f"{_TORCH}.iter.grouping": {_ITER: "Batcher Grouper UnBatcher"},
    f"{_TORCH}.iter.routeddecoder": {_ITER: "RoutedDecoder"},
    f"{_TORCH}.iter.selecting": {_ITER: "Filter"},
    f"{_TORCH}.iter.sharding": {_ITER: "ShardingFilter IterDataPipe=_ShardingIterDataPipe"},
    f"{_TORCH}.iter.streamreader": {_ITER: "StreamReader"},
    f"{_TORCH}.iter.utils": {_ITER: "IterableWrapper"},
    f"{_TORCH}.map": {_MAP: "Batcher Concater Mapper SequenceWrapper Shuffler Zipper"},
    f"{_TORCH}.map.callable": {_MAP: "Mapper"},
    f"{_TORCH}.map.combinatorics": {_MAP: "Shuffler=ShufflerIterDataPipe"},
    f"{_TORCH}.map.combining": {_MAP: "Concater Zipper"},
    f"{_TORCH}.map.grouping": {_MAP: "Batcher"},
    f"{_TORCH}.map.utils": {_MAP: "SequenceWrapper"},
    f"{_TORCH}.utils": {},
    f"{_TORCH}.utils.common": {},
    f"{_TORCH}.utils.decoder": {"datapipes": "basichandlers"},
    f"{_TORCH}.utils.snapshot": {},
    "torch.utils.data.graph": {_GRAPH: "traverse traverse_dps"},
    "torch.utils.data.graph_settings": {
        _GRAPH: "apply_random_seed apply_sharding apply_shuffle_seed apply_shuffle_settings get_all_graph_pipes"
    },
}

POPTORCH: Mapping[str, Homes] = {
    "poptorch": {"reading_services.ipu": "*"},
    "poptorch.enums": {"reading_services.ipu.enums": "*"},
    "poptorch.optim": {"reading_services.ipu.optim": "*"},
    "poptorch.options": {"reading_services.ipu.options": "*"},
    "poptorch.profiling": {"reading_services.ipu.profiling": "*"},
    "popdist": {"reading_services.ipu.popdist": "*"},
    "popdist.poptorch": {"reading_services.ipu.popdist.poptorch": "*"},
}

TABLES: Mapping[str, Mapping[str, Homes]] = {"torchdata": TORCHDATA, "poptorch": POPTORCH}

INSTEAD: Mapping[str, str] = {
    "Expected": "PrefetchTimeoutError of reading_services tells which rank was waited for",
    "_IterateQueueDataPipes": "reading_services.MultiProcessingReadingService gathers what its workers make",
    "_find_replicable_branches": "datapipes.graph has the functions on graphs, and a service places parts by itself",
    "_hash_check": "write .check_hash({path: hash}), or on_disk_cache(hash_dict=...), which check files",
    "_simple_graph_snapshot_restoration": "DataLoader2.state_dict() and load_state_dict() stand at any element",
    "attach_wrapper": "pipes with lambdas and local functions are sent to workers without a wrapper",
    "communication": "write a reading service: reading_services.ReadingServiceInterface",
    "deserialize_datapipe": "a state holds no graph; cloudpickle.loads reads one that cloudpickle.dumps wrote",
    "extract_wrapper": "pipes with lambdas and local functions are sent to workers without a wrapper",
    "find_lca_round_robin_sharding_dp": "MultiProcessingReadingService finds the dispatched part by itself",
    "find_non_dispatching_branches": "MultiProcessingReadingService finds the dispatched part by itself",
    "process_init_fn": "pass worker_init_fn= to reading_services.MultiProcessingReadingService",
    "process_reset_fn": "pass worker_reset_fn= to reading_services.MultiProcessingReadingService",
    "serialize_datapipe": "a state holds no graph; cloudpickle.dumps writes one to bytes",
}
"""What to use in place of a name that has no counterpart."""

_REPLACED_WHOLE = ("torchdata.datapipes.", "torchdata.dataloader2.", "poptorch.", "popdist.")
"""Packages that are replaced as a whole: an installed one may have modules that no table has."""

_OWNERS = frozenset({"torch", "torchdata", "datapipes", "reading_services", "loader2"})

_asked: Counter[str] = Counter()  # how often somebody asks for each table just now
_undoing: dict[str, ExitStack] = {}  # by table, and by "" what all of them need
_stand_ins: dict[str, ModuleType] = {}


@contextmanager
def old_names(*tables: str) -> Iterator[None]:
    """Have old names mean this library's in a ``with`` block; what was there before comes back at its end.

    Args:
        *tables: Whose names: ``"torchdata"`` (and torch's pipes), ``"poptorch"`` (and popdist). None: torchdata's.

    >>> with old_names():
    ...     from torchdata.datapipes.iter import IterableWrapper
    >>> IterableWrapper
    <class 'datapipes.iter.sources.wrapper.IterableWrapper'>
    """
    tables = tuple(dict.fromkeys(tables)) or ("torchdata",)
    switch_on(*tables)
    try:
        yield
    finally:
        _asked.subtract(tables)
        for table in tables:
            if not _asked[table]:
                _undoing.pop(table).close()
        if not +_asked:
            _undoing.pop("").close()


def switch_on(*tables: str) -> None:
    """Have old names mean this library's from now on, in this process and in those that it starts."""
    for table in tables:
        if table not in TABLES:
            raise BadArgument(f"old_names({table!r}): there are the names of {' and '.join(TABLES)}")
    begun = {}
    with ExitStack() as if_it_fails:
        for table in dict.fromkeys(("", *tables)):
            if table not in _undoing:
                begun[table] = if_it_fails.enter_context(ExitStack())
                if table:
                    _install(TABLES[table], begun[table])
                else:
                    _install_for_all(begun[table])
        if_it_fails.pop_all()
    _undoing.update(begun)
    _asked.update(tables)


def _install_for_all(undo: ExitStack) -> None:
    """Tell processes that are started of the tables, and those who ask for what no table has what to use."""
    advice: Any = _Advice()
    sys.meta_path.append(advice)
    undo.callback(sys.meta_path.remove, advice)
    by_spawn = spawn.get_preparation_data

    def told_of_old_names(name: str) -> dict[str, Any]:
        data = by_spawn(name)
        if name == "ignore":  # for the fork server, which from 3.14 on imports the program's file; its forks do it, too
            return {key: value for key, value in data.items() if key not in ("init_main_from_path", "main_path")}
        return {"old names": _SwitchedOn(tuple(+_asked)), **data}

    _put(vars(spawn), "get_preparation_data", told_of_old_names, undo)


def _install(table: Mapping[str, Homes], undo: ExitStack) -> None:
    """Put the modules of a table in their places; ``undo`` puts back what was there."""
    real = {name: import_module(name) for name in table if name.startswith("torch.")}
    if "torchdata" in table and find_spec("torchdata") is not None:
        real["torchdata"] = import_module("torchdata")
    for name in [*sys.modules]:
        if name.partition(".")[0] in table and name not in table and name.startswith(_REPLACED_WHOLE):
            undo.callback(sys.modules.__setitem__, name, sys.modules.pop(name))
    for name, homes in table.items():
        if name in ("torch.utils.data", "torchdata") and name in real:
            _lend(real[name], homes, undo)
            continue
        stand_in = _stand_in(name, homes, real.get(name))
        undo.callback(_stand_ins.pop, name)
        _stand_ins[name] = stand_in
        _put(sys.modules, name, stand_in, undo)
        parent, _, child = name.rpartition(".")
        if parent and name != _JANITOR:  # as an attribute of its package, this was the function in it
            _put(vars(sys.modules[parent]), child, stand_in, undo)


def _put(there: dict[str, Any], name: str, value: Any, undo: ExitStack) -> None:
    if name in there:
        undo.callback(there.__setitem__, name, there[name])
    else:
        undo.callback(there.pop, name, None)
    there[name] = value


def _stand_in(name: str, homes: Homes, real: ModuleType | None) -> ModuleType:
    """A module with the names of a table; what is not among them is that of torch's module, if it is one of torch's."""
    module = ModuleType(name, f"{name}, whose names mean loader2's.")
    module.__path__ = list(getattr(real, "__path__", ()))  # also if it was no package: then ``_Advice`` is asked
    names = cache(partial(_names, homes))

    def __getattr__(asked: str) -> Any:
        if real is not None and _asked_by_an_owner():
            return getattr(real, asked)
        if asked == "__all__":
            return sorted(public for public in names() if not public.startswith("_"))
        found = None if asked.startswith("__") else names().get(asked) or _imported().get(asked)
        if found is not None:
            return getattr(import_module(found[0]), found[1])
        if real is not None and asked not in INSTEAD and hasattr(real, asked):
            return getattr(real, asked)
        raise AttributeError(_advice(name, asked, homes), name=asked, obj=module)

    vars(module).update(__getattr__=__getattr__, __dir__=lambda: sorted({*vars(real or module), *names()}))
    return module


def _lend(module: ModuleType, homes: Homes, undo: ExitStack) -> None:
    """Have a module of somebody else's give our objects under these names of its own, except to its owner."""
    names = _names(homes)
    before = {name: vars(module)[name] for name in names if name in vars(module)}
    otherwise = vars(module).get("__getattr__")

    def __getattr__(asked: str) -> Any:
        if asked in before:
            home, name = names[asked]
            return before[asked] if _asked_by_an_owner() else getattr(import_module(home), name)
        if otherwise is not None:
            return otherwise(asked)
        raise AttributeError(f"module {module.__name__!r} has no attribute {asked!r}", name=asked, obj=module)

    if before:
        _put(vars(module), "__getattr__", __getattr__, undo)
        undo.callback(vars(module).update, before)
        for name in before:
            del vars(module)[name]


def _asked_by_an_owner() -> bool:
    """Whether the code that asks a module for a name is torch's, torchdata's or this library's own."""
    return str(sys._getframe(2).f_globals.get("__name__")).partition(".")[0] in _OWNERS


def _names(homes: Homes) -> dict[str, tuple[str, str]]:
    """Old name -> module and name here. An operator's class was called longer in the module that had it."""
    names: dict[str, tuple[str, str]] = {}
    for home, words in homes.items():
        for word in words.split():
            if word == "*":
                module = import_module(home)
                public = getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")])
                names |= {name: (home, name) for name in public}
                continue
            name, _, old = word.partition("=")
            names[old or name] = home, name
            if not old and home in (_ITER, _MAP) and not name.endswith("DataPipe"):
                names[f"{name}{'Iter' if home == _ITER else 'Map'}DataPipe"] = home, name
    return names


@cache
def _imported() -> dict[str, tuple[str, str]]:
    return _names(_IMPORTED)


def _advice(module: str, name: str, homes: Homes) -> str:
    there = f"what there is of {module} is in {', '.join(homes)}" if homes else "there is nothing of its kind"
    instead = INSTEAD.get(name) or INSTEAD.get(module.rpartition(".")[2], there)
    return f"{module}.{name} is not in loader2: {instead} (docs/coming-from-torchdata.md says what is different)"


class _Advice(MetaPathFinder):
    """The last finder: says what to use where ``from old import name`` would only say that there is no such name."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        parent, _, name = fullname.rpartition(".")
        if parent in _stand_ins:
            raise ImportError(_advice(parent, name, {**TORCHDATA, **POPTORCH}[parent]), name=parent)


@dataclass(frozen=True)
class _SwitchedOn:
    """Reading its pickle switches these tables on."""

    tables: tuple[str, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return switch_on, self.tables
