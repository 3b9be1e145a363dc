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

from datapipes.description.exports import lazy_imports

with lazy_imports(__name__):
    from datapipes.converting.conversion import MapToIterConverter as MapToIterConverter
    from datapipes.description.pipe import IterDataPipe as IterDataPipe
    from datapipes.io.remote.transfer import Transfer as Transfer
    from datapipes.iter.archives.decompress import Bz2FileLoader as Bz2FileLoader
    from datapipes.iter.archives.decompress import Decompressor as Decompressor
    from datapipes.iter.archives.decompress import Extractor as Extractor
    from datapipes.iter.archives.decompress import XzFileLoader as XzFileLoader
    from datapipes.iter.archives.rar import RarArchiveLoader as RarArchiveLoader
    from datapipes.iter.archives.tar import TarArchiveLoader as TarArchiveLoader
    from datapipes.iter.archives.zip import ZipArchiveLoader as ZipArchiveLoader
    from datapipes.iter.caching.in_memory import InMemoryCacheHolder as InMemoryCacheHolder
    from datapipes.iter.caching.in_memory import MemoryCell as MemoryCell
    from datapipes.iter.caching.on_disk.cache import EndOnDiskCacheHolder as EndOnDiskCacheHolder
    from datapipes.iter.caching.on_disk.cache import OnDiskCacheHolder as OnDiskCacheHolder
    from datapipes.iter.combining.fork import Demultiplexer as Demultiplexer
    from datapipes.iter.combining.fork import Forker as Forker
    from datapipes.iter.combining.fork import RoundRobinDemultiplexer as RoundRobinDemultiplexer
    from datapipes.iter.combining.fork import UnZipper as UnZipper
    from datapipes.iter.combining.key_zipping import IterKeyZipper as IterKeyZipper
    from datapipes.iter.combining.key_zipping import MapKeyZipper as MapKeyZipper
    from datapipes.iter.combining.mix import Mixer as Mixer
    from datapipes.iter.combining.mix import SampleMultiplexer as SampleMultiplexer
    from datapipes.iter.combining.mux import Multiplexer as Multiplexer
    from datapipes.iter.combining.mux import MultiplexerLongest as MultiplexerLongest
    from datapipes.iter.combining.random_split import RandomSplitter as RandomSplitter
    from datapipes.iter.combining.random_split import SplitterIterator as SplitterIterator
    from datapipes.iter.combining.zipping import Concater as Concater
    from datapipes.iter.combining.zipping import Zipper as Zipper
    from datapipes.iter.combining.zipping import ZipperLongest as ZipperLongest
    from datapipes.iter.elements.batch_mapping import BatchAsyncMapper as BatchAsyncMapper
    from datapipes.iter.elements.batch_mapping import BatchMapper as BatchMapper
    from datapipes.iter.elements.cycle import Cycler as Cycler
    from datapipes.iter.elements.flatmap import FlatMapper as FlatMapper
    from datapipes.iter.elements.flatmap import ShuffledFlatMapper as ShuffledFlatMapper
    from datapipes.iter.elements.mapping import Collator as Collator
    from datapipes.iter.elements.mapping import Filter as Filter
    from datapipes.iter.elements.mapping import Mapper as Mapper
    from datapipes.iter.elements.numbering import Enumerator as Enumerator
    from datapipes.iter.elements.numbering import Header as Header
    from datapipes.iter.elements.numbering import IndexAdder as IndexAdder
    from datapipes.iter.elements.numbering import LengthSetter as LengthSetter
    from datapipes.iter.elements.numbering import Repeater as Repeater
    from datapipes.iter.elements.selecting import Dropper as Dropper
    from datapipes.iter.elements.selecting import Flattener as Flattener
    from datapipes.iter.elements.selecting import Slicer as Slicer
    from datapipes.iter.elements.skipping import Skipper as Skipper
    from datapipes.iter.elements.skipping import Taker as Taker
    from datapipes.iter.elements.threadpool import ThreadPoolMapper as ThreadPoolMapper
    from datapipes.iter.files.hash import HashChecker as HashChecker
    from datapipes.iter.files.lines import LineReader as LineReader
    from datapipes.iter.files.lines import ParagraphAggregator as ParagraphAggregator
    from datapipes.iter.files.listing import FileLister as FileLister
    from datapipes.iter.files.listing import ShardExpander as ShardExpander
    from datapipes.iter.files.opening import FileOpener as FileOpener
    from datapipes.iter.files.opening import StreamReader as StreamReader
    from datapipes.iter.files.saving import Saver as Saver
    from datapipes.iter.formats.arrow import ArrowReader as ArrowReader
    from datapipes.iter.formats.csv import CSVDictParser as CSVDictParser
    from datapipes.iter.formats.csv import CSVParser as CSVParser
    from datapipes.iter.formats.csv_columns import CSVColumnReader as CSVColumnReader
    from datapipes.iter.formats.images import ImageDecoder as ImageDecoder
    from datapipes.iter.formats.json import JsonLinesParser as JsonLinesParser
    from datapipes.iter.formats.json import JsonParser as JsonParser
    from datapipes.iter.formats.parquet import ParquetDataFrameLoader as ParquetDataFrameLoader
    from datapipes.iter.formats.parquet import ParquetReader as ParquetReader
    from datapipes.iter.formats.parquet import RowGroupLister as RowGroupLister
    from datapipes.iter.formats.routed_decode import RoutedDecoder as RoutedDecoder
    from datapipes.iter.formats.tfrecord import TFRecordLoader as TFRecordLoader
    from datapipes.iter.formats.webdataset import WebDataset as WebDataset
    from datapipes.iter.grouping.batch import Batcher as Batcher
    from datapipes.iter.grouping.batch import UnBatcher as UnBatcher
    from datapipes.iter.grouping.buckets import BucketBatcher as BucketBatcher
    from datapipes.iter.grouping.buckets import MaxTokenBucketizer as MaxTokenBucketizer
    from datapipes.iter.grouping.data_frames import DataFrameMaker as DataFrameMaker
    from datapipes.iter.grouping.data_frames import Rows2Columnar as Rows2Columnar
    from datapipes.iter.grouping.groupby import Grouper as Grouper
    from datapipes.iter.grouping.pack import Packer as Packer
    from datapipes.iter.grouping.rebatch import Rebatcher as Rebatcher
    from datapipes.iter.grouping.shuffle import InBatchShuffler as InBatchShuffler
    from datapipes.iter.grouping.shuffle import Shuffler as Shuffler
    from datapipes.iter.grouping.windows import SlidingWindow as SlidingWindow
    from datapipes.iter.placement.full_sync import FullSync as FullSync
    from datapipes.iter.placement.lanes import Lanes as Lanes
    from datapipes.iter.placement.prefetch import PinMemory as PinMemory
    from datapipes.iter.placement.prefetch import Prefetcher as Prefetcher
    from datapipes.iter.placement.retry import Retrier as Retrier
    from datapipes.iter.placement.shard import ShardingFilter as ShardingFilter
    from datapipes.iter.placement.shard import ShardingRoundRobinDispatcher as ShardingRoundRobinDispatcher
    from datapipes.iter.placement.timeout import TimeLimiter as TimeLimiter
    from datapipes.iter.placement.to_device import ToDevice as ToDevice
    from datapipes.iter.remote.fsspec_files import FSSpecFileLister as FSSpecFileLister
    from datapipes.iter.remote.fsspec_files import FSSpecFileOpener as FSSpecFileOpener
    from datapipes.iter.remote.fsspec_files import FSSpecSaver as FSSpecSaver
    from datapipes.iter.remote.http import GDriveReader as GDriveReader
    from datapipes.iter.remote.http import HttpReader as HttpReader
    from datapipes.iter.remote.http import OnlineReader as OnlineReader
    from datapipes.iter.remote.iopath_files import IoPathFileLister as IoPathFileLister
    from datapipes.iter.remote.iopath_files import IoPathFileOpener as IoPathFileOpener
    from datapipes.iter.remote.iopath_files import IoPathSaver as IoPathSaver
    from datapipes.iter.remote.objects import AISFileLister as AISFileLister
    from datapipes.iter.remote.objects import AISFileLoader as AISFileLoader
    from datapipes.iter.remote.objects import S3FileLister as S3FileLister
    from datapipes.iter.remote.objects import S3FileLoader as S3FileLoader
    from datapipes.iter.sources.huggingface import HuggingFaceHubReader as HuggingFaceHubReader
    from datapipes.iter.sources.nodes import NodeWrapper as NodeWrapper
    from datapipes.iter.sources.sampler import Sampler as Sampler
    from datapipes.iter.sources.wrapper import IterableWrapper as IterableWrapper
