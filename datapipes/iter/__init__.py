"""The pipes over streams: import them from here.

Each operator is a chain method as well (``datapipes.fluent``). ``CATALOGUE`` lists them by that method's name, sorted;
the tests run their laws over it.
"""

from datapipes.iter.batch import Batcher
from datapipes.iter.buckets import BucketBatcher, MaxTokenBucketizer
from datapipes.iter.cache import InMemoryCacheHolder
from datapipes.iter.concat import Concater
from datapipes.iter.cycle import Cycler
from datapipes.iter.demux import Demultiplexer, RoundRobinDemultiplexer
from datapipes.iter.dispatch import ShardingRoundRobinDispatcher
from datapipes.iter.expand import ShardExpander
from datapipes.iter.files.ais import AISFileLister, AISFileLoader
from datapipes.iter.files.csv import CSVDictParser, CSVParser
from datapipes.iter.files.fsspec_files import FSSpecFileLister, FSSpecFileOpener, FSSpecSaver
from datapipes.iter.files.gdrive import GDriveReader
from datapipes.iter.files.http import HttpReader
from datapipes.iter.files.huggingface import HuggingFaceHubReader
from datapipes.iter.files.iopath_files import IoPathFileLister, IoPathFileOpener, IoPathSaver
from datapipes.iter.files.lines import LineReader
from datapipes.iter.files.listing import FileLister
from datapipes.iter.files.online import OnlineReader
from datapipes.iter.files.opening import FileOpener
from datapipes.iter.files.s3 import S3FileLister, S3FileLoader
from datapipes.iter.filtering import Filter
from datapipes.iter.flatmap import FlatMapper
from datapipes.iter.fork import Forker, UnZipper
from datapipes.iter.frames.making import DataFrameMaker, ExampleAggregateAsDataFrames
from datapipes.iter.frames.parting import ConcatDataFramesPipe, DataFramesAsTuplesPipe, PerRowDataFramesPipe
from datapipes.iter.frames.regrouping import FilterDataFramesPipe, ShuffleDataFramesPipe
from datapipes.iter.frames.tracing import DataFrameTracer
from datapipes.iter.from_map import MapToIterConverter
from datapipes.iter.groupby import Grouper
from datapipes.iter.in_batch_shuffle import InBatchShuffler
from datapipes.iter.key_zipping import IterKeyZipper, MapKeyZipper
from datapipes.iter.mapping import Collator, Mapper
from datapipes.iter.mux import Multiplexer, MultiplexerLongest
from datapipes.iter.numbering import Enumerator, Header, Repeater
from datapipes.iter.paragraphs import ParagraphAggregator
from datapipes.iter.prefetch import Prefetcher
from datapipes.iter.random_split import RandomSplitter, SplitterIterator
from datapipes.iter.sampling_mux import SampleMultiplexer
from datapipes.iter.shard import ShardingFilter
from datapipes.iter.shuffle import Shuffler
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
    "batch": Batcher,
    "bucketbatch": BucketBatcher,
    "collate": Collator,
    "concat": Concater,
    "cycle": Cycler,
    "dataframe": DataFrameMaker,
    "demux": Demultiplexer,
    "enumerate": Enumerator,
    "filter": Filter,
    "flatmap": FlatMapper,
    "fork": Forker,
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
    "load_files_by_ais": AISFileLoader,
    "load_files_by_s3": S3FileLoader,
    "map": Mapper,
    "max_token_bucketize": MaxTokenBucketizer,
    "mux": Multiplexer,
    "mux_longest": MultiplexerLongest,
    "open_files": FileOpener,
    "open_files_by_fsspec": FSSpecFileOpener,
    "open_files_by_iopath": IoPathFileOpener,
    "parse_csv": CSVParser,
    "parse_csv_as_dict": CSVDictParser,
    "prefetch": Prefetcher,
    "random_split": RandomSplitter,
    "read_from_gdrive": GDriveReader,
    "read_from_http": HttpReader,
    "read_from_remote": OnlineReader,
    "readlines": LineReader,
    "repeat": Repeater,
    "round_robin_demux": RoundRobinDemultiplexer,
    "save_by_fsspec": FSSpecSaver,
    "save_by_iopath": IoPathSaver,
    "shard_expand": ShardExpander,
    "sharding_filter": ShardingFilter,
    "sharding_round_robin_dispatch": ShardingRoundRobinDispatcher,
    "shuffle": Shuffler,
    "to_map_datapipe": IterToMapConverter,
    "trace_as_dataframe": DataFrameTracer,
    "unbatch": UnBatcher,
    "unzip": UnZipper,
    "zip": Zipper,
    "zip_longest": ZipperLongest,
    "zip_with_iter": IterKeyZipper,
    "zip_with_map": MapKeyZipper,
}

__all__ = [
    "CATALOGUE",
    "AISFileLister",
    "AISFileLoader",
    "Batcher",
    "BucketBatcher",
    "CSVDictParser",
    "CSVParser",
    "Collator",
    "ConcatDataFramesPipe",
    "Concater",
    "Cycler",
    "DataFrameMaker",
    "DataFrameTracer",
    "DataFramesAsTuplesPipe",
    "Demultiplexer",
    "Enumerator",
    "ExampleAggregateAsDataFrames",
    "FSSpecFileLister",
    "FSSpecFileOpener",
    "FSSpecSaver",
    "FileLister",
    "FileOpener",
    "Filter",
    "FilterDataFramesPipe",
    "FlatMapper",
    "Forker",
    "GDriveReader",
    "Grouper",
    "Header",
    "HttpReader",
    "HuggingFaceHubReader",
    "InBatchShuffler",
    "InMemoryCacheHolder",
    "IoPathFileLister",
    "IoPathFileOpener",
    "IoPathSaver",
    "IterDataPipe",
    "IterKeyZipper",
    "IterableWrapper",
    "LineReader",
    "MapKeyZipper",
    "MapToIterConverter",
    "Mapper",
    "MaxTokenBucketizer",
    "Multiplexer",
    "MultiplexerLongest",
    "OnlineReader",
    "ParagraphAggregator",
    "PerRowDataFramesPipe",
    "Prefetcher",
    "RandomSplitter",
    "Repeater",
    "RoundRobinDemultiplexer",
    "S3FileLister",
    "S3FileLoader",
    "SampleMultiplexer",
    "ShardExpander",
    "ShardingFilter",
    "ShardingRoundRobinDispatcher",
    "ShuffleDataFramesPipe",
    "Shuffler",
    "SplitterIterator",
    "Transfer",
    "UnBatcher",
    "UnZipper",
    "Zipper",
    "ZipperLongest",
]
