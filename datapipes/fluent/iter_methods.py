"""The methods of an IterDataPipe, by topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

from datapipes.fluent.chained import chained, map_operators, operators, overloaded
from datapipes.fluent.plugin_methods import IterPlugins

if TYPE_CHECKING:
    from datapipes.description.pipe import IterDataPipe
    from datapipes.iter import Shuffler
    from datapipes.position.on_error import OnError

T_co = TypeVar("T_co", covariant=True)
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
R = TypeVar("R")


class IterMethods(IterPlugins[T_co]):
    """All methods of an IterDataPipe."""

    # Stages that take one element at a time.
    map = chained(operators.Mapper)
    filter = chained(operators.Filter)
    flatmap = chained(operators.FlatMapper)

    @overload
    def collate(
        self,
        conversion: Callable[[T_co], R],
        *,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[R]: ...
    @overload
    def collate(
        self,
        conversion: Callable[..., Any] | None = ...,
        *,
        collate_fn: Callable[[T_co], R],
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[R]: ...
    @overload
    def collate(
        self,
        conversion: Callable[..., Any] | Mapping[str, Callable[[Any], Any]] | None = ...,
        collate_fn: Callable[..., Any] | None = None,
        *,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[Any]: ...
    @overloaded(operators.Collator)
    def collate(self, *args: Any, **kwargs: Any) -> Any:
        """Convert each element, usually a batch, to tensors."""

    enumerate = chained(operators.Enumerator)
    header = chained(operators.Header)
    take = chained(operators.Taker)
    skip = chained(operators.Skipper)
    repeat = chained(operators.Repeater)
    cycle = chained(operators.Cycler)
    prefetch = chained(operators.Prefetcher)
    fullsync = chained(operators.FullSync)
    retry = chained(operators.Retrier)
    timeout = chained(operators.TimeLimiter)
    to_map_datapipe = chained(map_operators.IterToMapConverter)

    # Parts of elements; several elements at once, or in the background.
    shuffled_flatmap = chained(operators.ShuffledFlatMapper)
    map_batches = chained(operators.BatchMapper)
    async_map_batches = chained(operators.BatchAsyncMapper)
    threadpool_map = chained(operators.ThreadPoolMapper)  # type: ignore[arg-type]  # its **kwargs could name the source
    drop = chained(operators.Dropper)
    slice = chained(operators.Slicer)
    flatten = chained(operators.Flattener)
    add_index = chained(operators.IndexAdder)
    rows2columnar = chained(operators.Rows2Columnar)
    set_length = chained(operators.LengthSetter)
    memory_cell = chained(operators.MemoryCell)
    pin_memory = chained(operators.PinMemory)
    to_device = chained(operators.ToDevice)

    # Groups and order.
    @overload
    def batch(self, batch_size: int, drop_last: bool = False) -> IterDataPipe[list[T_co]]: ...
    @overload
    def batch(
        self, batch_size: int, drop_last: bool = False, *, wrapper_class: Callable[[list[T_co]], R]
    ) -> IterDataPipe[R]: ...
    @overload
    def batch(self, batch_size: int, drop_last: bool, wrapper_class: Callable[[list[T_co]], R]) -> IterDataPipe[R]: ...
    @overloaded(operators.Batcher)
    def batch(self, *args: Any, **kwargs: Any) -> Any:
        """Group elements to lists of ``batch_size``."""

    unbatch = chained(operators.UnBatcher)
    sliding_window = chained(operators.SlidingWindow)
    pack = chained(operators.Packer)
    rebatch = chained(operators.Rebatcher)

    @overload
    def shuffle(self, *, buffer_size: int = 10000) -> Shuffler[T_co]: ...
    @overload
    def shuffle(self, *, buffer_size: int = 10000, unbatch_level: int) -> Shuffler[Any]: ...
    @overloaded(operators.Shuffler)
    def shuffle(self, *args: Any, **kwargs: Any) -> Any:
        """Give the elements in a random order, drawn from a buffer."""

    sharding_filter = chained(operators.ShardingFilter)
    lanes = chained(operators.Lanes)
    groupby = chained(operators.Grouper)
    bucketbatch = chained(operators.BucketBatcher)
    max_token_bucketize = chained(operators.MaxTokenBucketizer)
    in_batch_shuffle = chained(operators.InBatchShuffler)
    lines_to_paragraphs = chained(operators.ParagraphAggregator)
    shard_expand = chained(operators.ShardExpander)
    sharding_round_robin_dispatch = chained(operators.ShardingRoundRobinDispatcher)
    in_memory_cache = chained(operators.InMemoryCacheHolder)

    # Several streams to one, or one to several.
    @overload
    def concat(self, a: IterDataPipe[A], /) -> IterDataPipe[T_co | A]: ...
    @overload
    def concat(self, a: IterDataPipe[A], b: IterDataPipe[B], /) -> IterDataPipe[T_co | A | B]: ...
    @overload
    def concat(
        self, a: IterDataPipe[A], b: IterDataPipe[B], c: IterDataPipe[C], /
    ) -> IterDataPipe[T_co | A | B | C]: ...
    @overload
    def concat(
        self, a: IterDataPipe[A], b: IterDataPipe[B], c: IterDataPipe[C], d: IterDataPipe[D], /
    ) -> IterDataPipe[T_co | A | B | C | D]: ...
    @overload
    def concat(self, *datapipes: IterDataPipe[Any]) -> IterDataPipe[Any]: ...
    @overloaded(operators.Concater)
    def concat(self, *args: Any, **kwargs: Any) -> Any:
        """Give the elements of this stream, and then those of the others."""

    @overload
    def zip(self, a: IterDataPipe[A], /) -> IterDataPipe[tuple[T_co, A]]: ...
    @overload
    def zip(self, a: IterDataPipe[A], b: IterDataPipe[B], /) -> IterDataPipe[tuple[T_co, A, B]]: ...
    @overload
    def zip(
        self, a: IterDataPipe[A], b: IterDataPipe[B], c: IterDataPipe[C], /
    ) -> IterDataPipe[tuple[T_co, A, B, C]]: ...
    @overload
    def zip(
        self, a: IterDataPipe[A], b: IterDataPipe[B], c: IterDataPipe[C], d: IterDataPipe[D], /
    ) -> IterDataPipe[tuple[T_co, A, B, C, D]]: ...
    @overload
    def zip(self, *datapipes: IterDataPipe[Any]) -> IterDataPipe[tuple[Any, ...]]: ...
    @overloaded(operators.Zipper)
    def zip(self, *args: Any, **kwargs: Any) -> Any:
        """Give tuples of one element of each stream, up to the end of the shortest."""

    zip_longest = chained(operators.ZipperLongest)

    @overload
    def mux(self, a: Iterable[A], /) -> IterDataPipe[T_co | A]: ...
    @overload
    def mux(self, a: Iterable[A], b: Iterable[B], /) -> IterDataPipe[T_co | A | B]: ...
    @overload
    def mux(self, a: Iterable[A], b: Iterable[B], c: Iterable[C], /) -> IterDataPipe[T_co | A | B | C]: ...
    @overload
    def mux(
        self, a: Iterable[A], b: Iterable[B], c: Iterable[C], d: Iterable[D], /
    ) -> IterDataPipe[T_co | A | B | C | D]: ...
    @overload
    def mux(self, *datapipes: Iterable[Any]) -> IterDataPipe[Any]: ...
    @overloaded(operators.Multiplexer)
    def mux(self, *args: Any, **kwargs: Any) -> Any:
        """Give one element of each stream in turn, until one of them ends."""

    mux_longest = overloaded(operators.MultiplexerLongest)(mux)
    mix = chained(operators.Mixer)
    zip_with_iter = chained(operators.IterKeyZipper)
    zip_with_map = chained(operators.MapKeyZipper)
    fork = chained(operators.Forker)
    demux = chained(operators.Demultiplexer)
    round_robin_demux = chained(operators.RoundRobinDemultiplexer)
    random_split = chained(operators.RandomSplitter)
    unzip = chained(operators.UnZipper)

    # Finding, opening and reading files.
    list_files = chained(operators.FileLister)
    open_files = chained(operators.FileOpener)
    readlines = chained(operators.LineReader)
    parse_csv = chained(operators.CSVParser)  # type: ignore[arg-type]  # its **kwargs could name the source
    parse_csv_as_dict = chained(operators.CSVDictParser)  # type: ignore[arg-type]  # its **kwargs could name the source

    # Archives and compressed files.
    load_from_tar = chained(operators.TarArchiveLoader)
    load_from_zip = chained(operators.ZipArchiveLoader)
    load_from_rar = chained(operators.RarArchiveLoader)
    load_from_bz2 = chained(operators.Bz2FileLoader)
    load_from_xz = chained(operators.XzFileLoader)
    decompress = chained(operators.Decompressor)
    extract = chained(operators.Extractor)
    read_from_stream = chained(operators.StreamReader)
    routed_decode = chained(operators.RoutedDecoder)
    webdataset = chained(operators.WebDataset)
    decode_images = chained(operators.ImageDecoder)

    # Records and tables.
    load_from_tfrecord = chained(operators.TFRecordLoader)
    parse_json_files = chained(operators.JsonParser)  # type: ignore[arg-type]  # its **kwargs could name the source
    parse_jsonl = chained(operators.JsonLinesParser)  # type: ignore[arg-type]  # its **kwargs could name the source
    list_row_groups = chained(operators.RowGroupLister)
    read_parquet = chained(operators.ParquetReader)
    load_parquet_as_df = chained(operators.ParquetDataFrameLoader)
    read_arrow = chained(operators.ArrowReader)
    read_csv_columns = chained(operators.CSVColumnReader)

    # Files that fsspec or iopath finds.
    list_files_by_fsspec = chained(operators.FSSpecFileLister)  # type: ignore[arg-type]  # its **kwargs could name the source
    open_files_by_fsspec = chained(operators.FSSpecFileOpener)  # type: ignore[arg-type]  # its **kwargs could name the source
    save_by_fsspec = chained(operators.FSSpecSaver)  # type: ignore[arg-type]  # its **kwargs could name the source
    list_files_by_iopath = chained(operators.IoPathFileLister)
    open_files_by_iopath = chained(operators.IoPathFileOpener)
    save_by_iopath = chained(operators.IoPathSaver)

    # The web, S3 and AIStore.
    list_files_by_s3 = chained(operators.S3FileLister)
    load_files_by_s3 = chained(operators.S3FileLoader)
    list_files_by_ais = chained(operators.AISFileLister)
    load_files_by_ais = chained(operators.AISFileLoader)
    read_from_http = chained(operators.HttpReader)  # type: ignore[arg-type]  # its **kwargs could name the source
    read_from_gdrive = chained(operators.GDriveReader)  # type: ignore[arg-type]  # its **kwargs could name the source
    read_from_remote = chained(operators.OnlineReader)  # type: ignore[arg-type]  # its **kwargs could name the source

    # Saving and checking files, and caching results.
    check_hash = chained(operators.HashChecker)
    save_to_disk = chained(operators.Saver)
    on_disk_cache = chained(operators.OnDiskCacheHolder)
    end_caching = chained(operators.EndOnDiskCacheHolder)

    # Data frames of pandas.
    dataframe = chained(operators.DataFrameMaker)
