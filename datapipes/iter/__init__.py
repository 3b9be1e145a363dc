"""The catalogue of operators over streams: import them from here.

The imports list the files of operators, room by room; each room's head lists what else is in it. Nearly all operators
are chain methods as well: ``datapipes.fluent`` has the table of these, and says how to add one.

- ``archives/``: operators that read archives and decompress files
- ``caching/``: operators that cache elements: in memory, and on disk
- ``combining/``: operators that join streams into one, or split one into several
- ``elements/``: operators that map, filter, flatten, number, repeat and pass over elements
- ``files/``: operators that list files, open, read, check and save them
- ``formats/``: operators that parse file formats: text, records, tables, samples
- ``grouping/``: operators that batch, group, pack, unbatch, window and shuffle elements
- ``placement/``: operators that shard, prefetch, dispatch, synchronize, retry, wait, move to a device: where and when
  a part of the graph runs
- ``remote/``: operators that read and write files elsewhere: HTTP, Google Drive, s3, AIStore, fsspec, iopath
- ``sources/``: source operators, which begin a stream
"""

from typing import TYPE_CHECKING

from datapipes.description.exports import exports
from datapipes.description.pipe import IterDataPipe

if TYPE_CHECKING:
    from datapipes.converting.conversion import MapToIterConverter
    from datapipes.io.remote.transfer import Transfer
    from datapipes.iter.archives.decompress import Bz2FileLoader, Decompressor, Extractor, XzFileLoader
    from datapipes.iter.archives.rar import RarArchiveLoader
    from datapipes.iter.archives.tar import TarArchiveLoader
    from datapipes.iter.archives.zip import ZipArchiveLoader
    from datapipes.iter.caching.in_memory import InMemoryCacheHolder, MemoryCell
    from datapipes.iter.caching.on_disk.cache import EndOnDiskCacheHolder, OnDiskCacheHolder
    from datapipes.iter.combining.fork import Demultiplexer, Forker, RoundRobinDemultiplexer, UnZipper
    from datapipes.iter.combining.key_zipping import IterKeyZipper, MapKeyZipper
    from datapipes.iter.combining.mix import Mixer, SampleMultiplexer
    from datapipes.iter.combining.mux import Multiplexer, MultiplexerLongest
    from datapipes.iter.combining.random_split import RandomSplitter, SplitterIterator
    from datapipes.iter.combining.zipping import Concater, Zipper, ZipperLongest
    from datapipes.iter.elements.batch_mapping import BatchAsyncMapper, BatchMapper
    from datapipes.iter.elements.cycle import Cycler
    from datapipes.iter.elements.flatmap import FlatMapper, ShuffledFlatMapper
    from datapipes.iter.elements.mapping import Collator, Filter, Mapper
    from datapipes.iter.elements.numbering import Enumerator, Header, IndexAdder, LengthSetter, Repeater
    from datapipes.iter.elements.selecting import Dropper, Flattener, Slicer
    from datapipes.iter.elements.skipping import Skipper, Taker
    from datapipes.iter.elements.threadpool import ThreadPoolMapper
    from datapipes.iter.files.hash import HashChecker
    from datapipes.iter.files.lines import LineReader, ParagraphAggregator
    from datapipes.iter.files.listing import FileLister, ShardExpander
    from datapipes.iter.files.opening import FileOpener, StreamReader
    from datapipes.iter.files.saving import Saver
    from datapipes.iter.formats.arrow import ArrowReader
    from datapipes.iter.formats.csv import CSVDictParser, CSVParser
    from datapipes.iter.formats.csv_columns import CSVColumnReader
    from datapipes.iter.formats.json import JsonLinesParser, JsonParser
    from datapipes.iter.formats.parquet import ParquetDataFrameLoader, ParquetReader, RowGroupLister
    from datapipes.iter.formats.routed_decode import RoutedDecoder
    from datapipes.iter.formats.tfrecord import TFRecordLoader
    from datapipes.iter.formats.webdataset import WebDataset
    from datapipes.iter.grouping.batch import Batcher, UnBatcher
    from datapipes.iter.grouping.buckets import BucketBatcher, MaxTokenBucketizer
    from datapipes.iter.grouping.data_frames import DataFrameMaker, Rows2Columnar
    from datapipes.iter.grouping.groupby import Grouper
    from datapipes.iter.grouping.pack import Packer
    from datapipes.iter.grouping.rebatch import Rebatcher
    from datapipes.iter.grouping.shuffle import InBatchShuffler, Shuffler
    from datapipes.iter.grouping.windows import SlidingWindow
    from datapipes.iter.placement.full_sync import FullSync
    from datapipes.iter.placement.prefetch import PinMemory, Prefetcher
    from datapipes.iter.placement.retry import Retrier
    from datapipes.iter.placement.shard import ShardingFilter, ShardingRoundRobinDispatcher
    from datapipes.iter.placement.timeout import TimeLimiter
    from datapipes.iter.placement.to_device import ToDevice
    from datapipes.iter.remote.fsspec_files import FSSpecFileLister, FSSpecFileOpener, FSSpecSaver
    from datapipes.iter.remote.http import GDriveReader, HttpReader, OnlineReader
    from datapipes.iter.remote.iopath_files import IoPathFileLister, IoPathFileOpener, IoPathSaver
    from datapipes.iter.remote.objects import AISFileLister, AISFileLoader, S3FileLister, S3FileLoader
    from datapipes.iter.sources.huggingface import HuggingFaceHubReader
    from datapipes.iter.sources.nodes import NodeWrapper
    from datapipes.iter.sources.sampler import Sampler
    from datapipes.iter.sources.wrapper import IterableWrapper
else:
    __getattr__, __dir__ = exports(
        __name__,
        {
            "datapipes.converting.conversion": "MapToIterConverter",
            "datapipes.io.remote.transfer": "Transfer",
            "datapipes.iter.archives.decompress": "Bz2FileLoader Decompressor Extractor XzFileLoader",
            "datapipes.iter.archives.rar": "RarArchiveLoader",
            "datapipes.iter.archives.tar": "TarArchiveLoader",
            "datapipes.iter.archives.zip": "ZipArchiveLoader",
            "datapipes.iter.caching.in_memory": "InMemoryCacheHolder MemoryCell",
            "datapipes.iter.caching.on_disk.cache": "EndOnDiskCacheHolder OnDiskCacheHolder",
            "datapipes.iter.combining.fork": "Demultiplexer Forker RoundRobinDemultiplexer UnZipper",
            "datapipes.iter.combining.key_zipping": "IterKeyZipper MapKeyZipper",
            "datapipes.iter.combining.mix": "Mixer SampleMultiplexer",
            "datapipes.iter.combining.mux": "Multiplexer MultiplexerLongest",
            "datapipes.iter.combining.random_split": "RandomSplitter SplitterIterator",
            "datapipes.iter.combining.zipping": "Concater Zipper ZipperLongest",
            "datapipes.iter.elements.batch_mapping": "BatchAsyncMapper BatchMapper",
            "datapipes.iter.elements.cycle": "Cycler",
            "datapipes.iter.elements.flatmap": "FlatMapper ShuffledFlatMapper",
            "datapipes.iter.elements.mapping": "Collator Filter Mapper",
            "datapipes.iter.elements.numbering": "Enumerator Header IndexAdder LengthSetter Repeater",
            "datapipes.iter.elements.selecting": "Dropper Flattener Slicer",
            "datapipes.iter.elements.skipping": "Skipper Taker",
            "datapipes.iter.elements.threadpool": "ThreadPoolMapper",
            "datapipes.iter.files.hash": "HashChecker",
            "datapipes.iter.files.lines": "LineReader ParagraphAggregator",
            "datapipes.iter.files.listing": "FileLister ShardExpander",
            "datapipes.iter.files.opening": "FileOpener StreamReader",
            "datapipes.iter.files.saving": "Saver",
            "datapipes.iter.formats.arrow": "ArrowReader",
            "datapipes.iter.formats.csv": "CSVDictParser CSVParser",
            "datapipes.iter.formats.csv_columns": "CSVColumnReader",
            "datapipes.iter.formats.json": "JsonLinesParser JsonParser",
            "datapipes.iter.formats.parquet": "ParquetDataFrameLoader ParquetReader RowGroupLister",
            "datapipes.iter.formats.routed_decode": "RoutedDecoder",
            "datapipes.iter.formats.tfrecord": "TFRecordLoader",
            "datapipes.iter.formats.webdataset": "WebDataset",
            "datapipes.iter.grouping.batch": "Batcher UnBatcher",
            "datapipes.iter.grouping.buckets": "BucketBatcher MaxTokenBucketizer",
            "datapipes.iter.grouping.data_frames": "DataFrameMaker Rows2Columnar",
            "datapipes.iter.grouping.groupby": "Grouper",
            "datapipes.iter.grouping.pack": "Packer",
            "datapipes.iter.grouping.rebatch": "Rebatcher",
            "datapipes.iter.grouping.shuffle": "InBatchShuffler Shuffler",
            "datapipes.iter.grouping.windows": "SlidingWindow",
            "datapipes.iter.placement.full_sync": "FullSync",
            "datapipes.iter.placement.prefetch": "PinMemory Prefetcher",
            "datapipes.iter.placement.retry": "Retrier",
            "datapipes.iter.placement.shard": "ShardingFilter ShardingRoundRobinDispatcher",
            "datapipes.iter.placement.timeout": "TimeLimiter",
            "datapipes.iter.placement.to_device": "ToDevice",
            "datapipes.iter.remote.fsspec_files": "FSSpecFileLister FSSpecFileOpener FSSpecSaver",
            "datapipes.iter.remote.http": "GDriveReader HttpReader OnlineReader",
            "datapipes.iter.remote.iopath_files": "IoPathFileLister IoPathFileOpener IoPathSaver",
            "datapipes.iter.remote.objects": "AISFileLister AISFileLoader S3FileLister S3FileLoader",
            "datapipes.iter.sources.huggingface": "HuggingFaceHubReader",
            "datapipes.iter.sources.nodes": "NodeWrapper",
            "datapipes.iter.sources.sampler": "Sampler",
            "datapipes.iter.sources.wrapper": "IterableWrapper",
        },
    )

__all__ = [
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
    "Concater",
    "Cycler",
    "DataFrameMaker",
    "Decompressor",
    "Demultiplexer",
    "Dropper",
    "EndOnDiskCacheHolder",
    "Enumerator",
    "Extractor",
    "FSSpecFileLister",
    "FSSpecFileOpener",
    "FSSpecSaver",
    "FileLister",
    "FileOpener",
    "Filter",
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
    "Mixer",
    "Multiplexer",
    "MultiplexerLongest",
    "NodeWrapper",
    "OnDiskCacheHolder",
    "OnlineReader",
    "Packer",
    "ParagraphAggregator",
    "ParquetDataFrameLoader",
    "ParquetReader",
    "PinMemory",
    "Prefetcher",
    "RandomSplitter",
    "RarArchiveLoader",
    "Rebatcher",
    "Repeater",
    "Retrier",
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
    "ShuffledFlatMapper",
    "Shuffler",
    "Skipper",
    "Slicer",
    "SlidingWindow",
    "SplitterIterator",
    "StreamReader",
    "TFRecordLoader",
    "Taker",
    "TarArchiveLoader",
    "ThreadPoolMapper",
    "TimeLimiter",
    "ToDevice",
    "Transfer",
    "UnBatcher",
    "UnZipper",
    "WebDataset",
    "XzFileLoader",
    "ZipArchiveLoader",
    "Zipper",
    "ZipperLongest",
]
