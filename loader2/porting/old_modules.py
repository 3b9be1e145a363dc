"""Tables of the modules of torchdata, torch and PopTorch: the place of each of their names in this library.

``old_names`` makes them mean this library's names at run time. ``migrating`` writes the new names into programs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TypeAlias

Homes: TypeAlias = Mapping[str, str]
"""Module of this library -> names in it: ``*`` for all, ``New=Old`` for a name that has changed."""

_ITER, _MAP, _GRAPH = "datapipes.iter", "datapipes.map", "datapipes.graph"
_UTIL, _TORCH = "torchdata.datapipes.iter.util", "torch.utils.data.datapipes"
JANITOR = "torchdata.datapipes.utils.janitor"
"""A module. As an attribute of its package, this name was the function in the module."""
LENT = ("torchdata", "torch.utils.data")
"""Modules that keep their content, except for the names in their tables."""

_IMPORTED: Homes = {
    "datapipes": "DataChunk StreamWrapper functional_datapipe janitor",
    _ITER: "IterDataPipe",
    _MAP: "MapDataPipe",
    _GRAPH: "SHARDING_PRIORITIES DataPipe DataPipeGraph find_dps list_dps traverse_dps",
    "datapipes.description.pipe": "T_co C=T",
    "datapipes.operator_support.columns": "validate_input_col",
    "loader2.porting.old_functions": "validate_pathname_binary_tuple",
    f"{_TORCH}.utils.common": "DILL_AVAILABLE DILL_AVAILABLE=HAS_DILL _check_unpickable_fn match_masks",
}
"""Names that nearly all old modules had, because they had imported them."""

_COMBINING: Homes = {
    "datapipes.iter.combining.hub": "Child=_ChildDataPipe",
    "datapipes.iter.combining.fork": "_Fork=_ForkerIterDataPipe _Demux=_DemultiplexerIterDataPipe",
}

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
        **_COMBINING,
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
    JANITOR: {},
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
    "torchdata.dataloader2.linter": {"loader2.porting.old_functions": "_check_shuffle_before_sharding"},
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
    _TORCH: {"datapipes": ""},
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
        **_COMBINING,
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

STAYING = ("nodes", "stateful_dataloader")
"""Packages of torchdata that are not replaced."""
VERSIONS: Mapping[str, str] = {"torchdata": "0.9.0", "poptorch": "3.4.0"}
"""``__version__`` of a package that is not installed: the version whose names its table has."""

INSTEAD: Mapping[str, str] = {
    "DFIterDataPipe": "derive from datapipes.iter.IterDataPipe and give pandas frames",
    "Expected": "PrefetchTimeoutError of reading_services tells which rank was waited for",
    "PauseIteration": "a reading service pauses nothing here: return, or use limit() of the loader's iterator",
    "ShuffleSpec": "nothing used it: leave it out",
    "T_co": 'write TypeVar("T_co", covariant=True)',
    "_IterateQueueDataPipes": "reading_services.MultiProcessingReadingService gathers what its workers make",
    "_find_replicable_branches": "datapipes.graph has the functions on graphs, and a service places parts by itself",
    "_hash_check": "write .check_hash({path: hash}), or on_disk_cache(hash_dict=...), which check files",
    "_simple_graph_snapshot_restoration": "DataLoader2.state_dict() and load_state_dict() stand at any element",
    "attach_wrapper": "pipes with lambdas and local functions are sent to workers without a wrapper",
    "communication": "write a ReadingServiceInterface of reading_services",
    "deserialize_datapipe": "a state holds no graph; cloudpickle.loads reads one that cloudpickle.dumps wrote",
    "extract_wrapper": "pipes with lambdas and local functions are sent to workers without a wrapper",
    "find_lca_round_robin_sharding_dp": "MultiProcessingReadingService finds the dispatched part by itself",
    "find_non_dispatching_branches": "MultiProcessingReadingService finds the dispatched part by itself",
    "process_init_fn": "pass worker_init_fn= to reading_services.MultiProcessingReadingService",
    "process_reset_fn": "pass worker_reset_fn= to reading_services.MultiProcessingReadingService",
    "serialize_datapipe": "a state holds no graph; cloudpickle.dumps writes one to bytes",
    "validate_input_col": "operators check their functions themselves: leave it out",
}
"""Replacements for names of torchdata and torch that have no counterpart."""


def instead_of(dotted: str) -> str | None:
    """Return the replacement for an old dotted name, or None if no table has it."""
    table = INSTEAD
    if dotted.startswith("poptorch."):
        table = import_module("reading_services.ipu.names.absent").INSTEAD
    return next((table[part] for part in reversed(dotted.split(".")) if part in table), None)


def names_in(homes: Homes) -> dict[str, tuple[str, str]]:
    """Return the module and name here by old name. The old module had a longer name for an operator's class."""
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
def imported() -> dict[str, tuple[str, str]]:
    """Return the module and name here, by old name, of the names that nearly all old modules had."""
    return names_in(_IMPORTED)
