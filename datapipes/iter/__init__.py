"""The pipes over streams: import them from here.

Each operator is a chain method as well (``datapipes.fluent``). ``CATALOGUE`` lists them by that method's name, sorted;
the tests run their laws over it.
"""

from datapipes.iter.async_batches import BatchAsyncMapper
from datapipes.iter.batch import Batcher
from datapipes.iter.batch_mapping import BatchMapper
from datapipes.iter.buckets import BucketBatcher, MaxTokenBucketizer
from datapipes.iter.cache import InMemoryCacheHolder
from datapipes.iter.caching.ending import EndOnDiskCacheHolder
from datapipes.iter.caching.holder import OnDiskCacheHolder
from datapipes.iter.columnar import Rows2Columnar
from datapipes.iter.concat import Concater
from datapipes.iter.cycle import Cycler
from datapipes.iter.demux import Demultiplexer, RoundRobinDemultiplexer
from datapipes.iter.dispatch import ShardingRoundRobinDispatcher
from datapipes.iter.expand import ShardExpander
from datapipes.iter.files.ais import AISFileLister, AISFileLoader
from datapipes.iter.files.arrow import ArrowReader
from datapipes.iter.files.csv import CSVDictParser, CSVParser
from datapipes.iter.files.csv_columns import CSVColumnReader
from datapipes.iter.files.decompress import Bz2FileLoader, Decompressor, Extractor, XzFileLoader
from datapipes.iter.files.fsspec_files import FSSpecFileLister, FSSpecFileOpener, FSSpecSaver
from datapipes.iter.files.gdrive import GDriveReader
from datapipes.iter.files.hash import HashChecker
from datapipes.iter.files.http import HttpReader
from datapipes.iter.files.huggingface import HuggingFaceHubReader
from datapipes.iter.files.iopath_files import IoPathFileLister, IoPathFileOpener, IoPathSaver
from datapipes.iter.files.json import JsonLinesParser, JsonParser
from datapipes.iter.files.lines import LineReader
from datapipes.iter.files.listing import FileLister
from datapipes.iter.files.online import OnlineReader
from datapipes.iter.files.opening import FileOpener
from datapipes.iter.files.parquet import ParquetDataFrameLoader, ParquetReader, RowGroupLister
from datapipes.iter.files.rar import RarArchiveLoader
from datapipes.iter.files.reading import StreamReader
from datapipes.iter.files.routed_decode import RoutedDecoder
from datapipes.iter.files.s3 import S3FileLister, S3FileLoader
from datapipes.iter.files.saving import Saver
from datapipes.iter.files.tar import TarArchiveLoader
from datapipes.iter.files.tfrecord import TFRecordLoader
from datapipes.iter.files.webdataset import WebDataset
from datapipes.iter.files.zip import ZipArchiveLoader
from datapipes.iter.filtering import Filter
from datapipes.iter.flatmap import FlatMapper
from datapipes.iter.fork import Forker, UnZipper
from datapipes.iter.frames.making import DataFrameMaker, ExampleAggregateAsDataFrames
from datapipes.iter.frames.parting import ConcatDataFramesPipe, DataFramesAsTuplesPipe, PerRowDataFramesPipe
from datapipes.iter.frames.regrouping import FilterDataFramesPipe, ShuffleDataFramesPipe
from datapipes.iter.frames.tracing import DataFrameTracer
from datapipes.iter.from_map import MapToIterConverter
from datapipes.iter.full_sync import FullSync
from datapipes.iter.groupby import Grouper
from datapipes.iter.in_batch_shuffle import InBatchShuffler
from datapipes.iter.key_zipping import IterKeyZipper, MapKeyZipper
from datapipes.iter.length import LengthSetter
from datapipes.iter.mapping import Collator, Mapper
from datapipes.iter.memory_cell import MemoryCell
from datapipes.iter.mux import Multiplexer, MultiplexerLongest
from datapipes.iter.numbering import Enumerator, Header, IndexAdder, Repeater
from datapipes.iter.paragraphs import ParagraphAggregator
from datapipes.iter.pin_memory import PinMemory
from datapipes.iter.prefetch import Prefetcher
from datapipes.iter.random_split import RandomSplitter, SplitterIterator
from datapipes.iter.sampler import Sampler
from datapipes.iter.sampling_mux import SampleMultiplexer
from datapipes.iter.selecting import Dropper, Flattener, Slicer
from datapipes.iter.shard import ShardingFilter
from datapipes.iter.shuffle import Shuffler
from datapipes.iter.shuffled_flatmap import ShuffledFlatMapper
from datapipes.iter.threadpool import ThreadPoolMapper
from datapipes.iter.unbatch import UnBatcher
from datapipes.iter.wrapper import IterableWrapper
from datapipes.iter.zipping import Zipper, ZipperLongest
from datapipes.map.from_iter import IterToMapConverter
from datapipes.pipe import IterDataPipe
from datapipes.remote.transfer import Transfer

CATALOGUE = {
    "_dataframes_as_tuples": DataFramesAsTuplesPipe,
    "_dataframes_concat": ConcatDataFramesPipe,
    "_dataframes_filter": FilterDataFramesPipe,
    "_dataframes_per_row": PerRowDataFramesPipe,
    "_dataframes_shuffle": ShuffleDataFramesPipe,
    "_to_dataframes_pipe": ExampleAggregateAsDataFrames,
    "add_index": IndexAdder,
    "async_map_batches": BatchAsyncMapper,
    "batch": Batcher,
    "bucketbatch": BucketBatcher,
    "check_hash": HashChecker,
    "collate": Collator,
    "concat": Concater,
    "cycle": Cycler,
    "dataframe": DataFrameMaker,
    "decompress": Decompressor,
    "demux": Demultiplexer,
    "drop": Dropper,
    "end_caching": EndOnDiskCacheHolder,
    "enumerate": Enumerator,
    "extract": Extractor,
    "filter": Filter,
    "flatmap": FlatMapper,
    "flatten": Flattener,
    "fork": Forker,
    "fullsync": FullSync,
    "groupby": Grouper,
    "header": Header,
    "in_batch_shuffle": InBatchShuffler,
    "in_memory_cache": InMemoryCacheHolder,
    "lines_to_paragraphs": ParagraphAggregator,
    "list_files": FileLister,
    "list_files_by_ais": AISFileLister,
    "list_files_by_fsspec": FSSpecFileLister,
    "list_files_by_iopath": IoPathFileLister,
    "list_files_by_s3": S3FileLister,
    "list_row_groups": RowGroupLister,
    "load_files_by_ais": AISFileLoader,
    "load_files_by_s3": S3FileLoader,
    "load_from_bz2": Bz2FileLoader,
    "load_from_rar": RarArchiveLoader,
    "load_from_tar": TarArchiveLoader,
    "load_from_tfrecord": TFRecordLoader,
    "load_from_xz": XzFileLoader,
    "load_from_zip": ZipArchiveLoader,
    "load_parquet_as_df": ParquetDataFrameLoader,
    "map": Mapper,
    "map_batches": BatchMapper,
    "max_token_bucketize": MaxTokenBucketizer,
    "memory_cell": MemoryCell,
    "mux": Multiplexer,
    "mux_longest": MultiplexerLongest,
    "on_disk_cache": OnDiskCacheHolder,
    "open_files": FileOpener,
    "open_files_by_fsspec": FSSpecFileOpener,
    "open_files_by_iopath": IoPathFileOpener,
    "parse_csv": CSVParser,
    "parse_csv_as_dict": CSVDictParser,
    "parse_json_files": JsonParser,
    "parse_jsonl": JsonLinesParser,
    "pin_memory": PinMemory,
    "prefetch": Prefetcher,
    "random_split": RandomSplitter,
    "read_arrow": ArrowReader,
    "read_csv_columns": CSVColumnReader,
    "read_from_gdrive": GDriveReader,
    "read_from_http": HttpReader,
    "read_from_remote": OnlineReader,
    "read_from_stream": StreamReader,
    "read_parquet": ParquetReader,
    "readlines": LineReader,
    "repeat": Repeater,
    "round_robin_demux": RoundRobinDemultiplexer,
    "routed_decode": RoutedDecoder,
    "rows2columnar": Rows2Columnar,
    "save_by_fsspec": FSSpecSaver,
    "save_by_iopath": IoPathSaver,
    "save_to_disk": Saver,
    "set_length": LengthSetter,
    "shard_expand": ShardExpander,
    "sharding_filter": ShardingFilter,
    "sharding_round_robin_dispatch": ShardingRoundRobinDispatcher,
    "shuffle": Shuffler,
    "shuffled_flatmap": ShuffledFlatMapper,
    "slice": Slicer,
    "threadpool_map": ThreadPoolMapper,
    "to_map_datapipe": IterToMapConverter,
    "trace_as_dataframe": DataFrameTracer,
    "unbatch": UnBatcher,
    "unzip": UnZipper,
    "webdataset": WebDataset,
    "zip": Zipper,
    "zip_longest": ZipperLongest,
    "zip_with_iter": IterKeyZipper,
    "zip_with_map": MapKeyZipper,
}

__all__ = [
    "CATALOGUE",
    "AISFileLister",
    "AISFileLoader",
    "ArrowReader",
    "BatchAsyncMapper",
    "BatchMapper",
    "Batcher",
    "BucketBatcher",
    "Bz2FileLoader",
    "CSVColumnReader",
    "CSVDictParser",
    "CSVParser",
    "Collator",
    "ConcatDataFramesPipe",
    "Concater",
    "Cycler",
    "DataFrameMaker",
    "DataFrameTracer",
    "DataFramesAsTuplesPipe",
    "Decompressor",
    "Demultiplexer",
    "Dropper",
    "EndOnDiskCacheHolder",
    "Enumerator",
    "ExampleAggregateAsDataFrames",
    "Extractor",
    "FSSpecFileLister",
    "FSSpecFileOpener",
    "FSSpecSaver",
    "FileLister",
    "FileOpener",
    "Filter",
    "FilterDataFramesPipe",
    "FlatMapper",
    "Flattener",
    "Forker",
    "FullSync",
    "GDriveReader",
    "Grouper",
    "HashChecker",
    "Header",
    "HttpReader",
    "HuggingFaceHubReader",
    "InBatchShuffler",
    "InMemoryCacheHolder",
    "IndexAdder",
    "IoPathFileLister",
    "IoPathFileOpener",
    "IoPathSaver",
    "IterDataPipe",
    "IterKeyZipper",
    "IterableWrapper",
    "JsonLinesParser",
    "JsonParser",
    "LengthSetter",
    "LineReader",
    "MapKeyZipper",
    "MapToIterConverter",
    "Mapper",
    "MaxTokenBucketizer",
    "MemoryCell",
    "Multiplexer",
    "MultiplexerLongest",
    "OnDiskCacheHolder",
    "OnlineReader",
    "ParagraphAggregator",
    "ParquetDataFrameLoader",
    "ParquetReader",
    "PerRowDataFramesPipe",
    "PinMemory",
    "Prefetcher",
    "RandomSplitter",
    "RarArchiveLoader",
    "Repeater",
    "RoundRobinDemultiplexer",
    "RoutedDecoder",
    "RowGroupLister",
    "Rows2Columnar",
    "S3FileLister",
    "S3FileLoader",
    "SampleMultiplexer",
    "Sampler",
    "Saver",
    "ShardExpander",
    "ShardingFilter",
    "ShardingRoundRobinDispatcher",
    "ShuffleDataFramesPipe",
    "ShuffledFlatMapper",
    "Shuffler",
    "Slicer",
    "SplitterIterator",
    "StreamReader",
    "TFRecordLoader",
    "TarArchiveLoader",
    "ThreadPoolMapper",
    "Transfer",
    "UnBatcher",
    "UnZipper",
    "WebDataset",
    "XzFileLoader",
    "ZipArchiveLoader",
    "Zipper",
    "ZipperLongest",
]
