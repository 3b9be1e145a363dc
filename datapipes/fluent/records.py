"""Methods that read records and tables: TFRecord, JSON, Parquet, Arrow, columns of CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from datapipes.description.pipe import IterDataPipe
    from datapipes.iter.formats.tables import As
    from datapipes.iter.formats.tfrecord import Spec
    from datapipes.position.on_error import OnError

T_co = TypeVar("T_co", covariant=True)


class RecordMethods(Generic[T_co]):
    """load_from_tfrecord, parse_json_files, parse_jsonl, and the methods that read tables."""

    def load_from_tfrecord(
        self,
        spec: Spec | None = None,
        length: int = -1,
        *,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[dict[str, Any]]:
        """A dict for each record of each ``(path, stream)``, its checksums verified.

        >>> import io
        >>> from datapipes.iter import IterableWrapper
        >>> record = bytes.fromhex("0000000000000000 29039807 d8ea82a2")  # without a feature
        >>> list(IterableWrapper([("a.tfrecord", io.BytesIO(record))], deepcopy=False).load_from_tfrecord())
        [{}]
        """
        from datapipes.iter.formats.tfrecord import TFRecordLoader

        return TFRecordLoader(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            spec,
            length,
            on_error=on_error,
            max_errors=max_errors,
        )

    def parse_json_files(
        self, *, on_error: OnError = "raise", max_errors: int | float | None = None, **kwargs: Any
    ) -> IterDataPipe[tuple[str, Any]]:
        """``(path, data)`` for each ``(path, stream)`` of one document.

        >>> import io
        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([("a.json", io.StringIO("[1, 2]"))], deepcopy=False).parse_json_files())
        [('a.json', [1, 2])]
        """
        from datapipes.iter.formats.json import JsonParser

        return JsonParser(self, on_error=on_error, max_errors=max_errors, **kwargs)  # type: ignore[arg-type]  # self is an IterDataPipe

    def parse_jsonl(
        self,
        *,
        return_path: bool = True,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
        **kwargs: Any,
    ) -> IterDataPipe[Any]:
        """``(path, data)`` for each line of each ``(path, stream)``, or the data alone.

        >>> import io
        >>> from datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([("a.jsonl", io.StringIO("[1]\\n[2]\\n"))], deepcopy=False).parse_jsonl())
        [('a.jsonl', [1]), ('a.jsonl', [2])]
        """
        from datapipes.iter.formats.json import JsonLinesParser

        return JsonLinesParser(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            return_path=return_path,
            on_error=on_error,
            max_errors=max_errors,
            **kwargs,
        )

    def list_row_groups(
        self, *, on_error: OnError = "raise", max_errors: int | float | None = None
    ) -> IterDataPipe[tuple[str, int]]:
        """``(path, number)`` for each row group of each Parquet file, to be shuffled or shared before it is read.

        >>> import os, tempfile
        >>> from datapipes.iter import IterableWrapper
        >>> import pyarrow, pyarrow.parquet
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "a.parquet")
        ...     pyarrow.parquet.write_table(pyarrow.table({"x": range(6)}), path, row_group_size=4)
        ...     groups = list(IterableWrapper([path]).list_row_groups())
        >>> [(os.path.basename(path), number) for path, number in groups]
        [('a.parquet', 0), ('a.parquet', 1)]
        """
        from datapipes.iter.formats.parquet import RowGroupLister

        return RowGroupLister(self, on_error=on_error, max_errors=max_errors)  # type: ignore[arg-type]  # self is an IterDataPipe

    def read_parquet(
        self,
        columns: Sequence[str] | None = None,
        *,
        batch_size: int | None = None,
        use_threads: bool = True,
        as_: As = "batch",
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[Any]:
        """The row groups of each Parquet file, as record batches.

        >>> import io
        >>> from datapipes.iter import IterableWrapper
        >>> import pyarrow, pyarrow.parquet
        >>> file = io.BytesIO()
        >>> pyarrow.parquet.write_table(pyarrow.table({"x": range(6)}), file, row_group_size=4)
        >>> files = IterableWrapper([("a.parquet", io.BytesIO(file.getvalue()))], deepcopy=False)
        >>> list(files.read_parquet(batch_size=3, as_="dict"))
        [{'x': [0, 1, 2]}, {'x': [3]}, {'x': [4, 5]}]
        """
        from datapipes.iter.formats.parquet import ParquetReader

        return ParquetReader(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            columns,
            batch_size=batch_size,
            use_threads=use_threads,
            as_=as_,
            on_error=on_error,
            max_errors=max_errors,
        )

    def load_parquet_as_df(
        self,
        dtype: Any = None,
        columns: Sequence[str] | None = None,
        device: str = "",
        use_threads: bool = False,
        *,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[Any]:
        """A pandas DataFrame for each row group of each Parquet file.

        >>> import io
        >>> from datapipes.iter import IterableWrapper
        >>> import pyarrow, pyarrow.parquet
        >>> file = io.BytesIO()
        >>> pyarrow.parquet.write_table(pyarrow.table({"x": range(6)}), file, row_group_size=4)
        >>> files = IterableWrapper([("a.parquet", io.BytesIO(file.getvalue()))], deepcopy=False)
        >>> [frame["x"].tolist() for frame in files.load_parquet_as_df()]
        [[0, 1, 2, 3], [4, 5]]
        """
        from datapipes.iter.formats.parquet import ParquetDataFrameLoader

        return ParquetDataFrameLoader(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            dtype,
            columns,
            device,
            use_threads,
            on_error=on_error,
            max_errors=max_errors,
        )

    def read_arrow(
        self,
        columns: Sequence[str] | None = None,
        *,
        as_: As = "batch",
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[Any]:
        """The record batches of each Arrow IPC file or stream.

        >>> import io
        >>> from datapipes.iter import IterableWrapper
        >>> import pyarrow
        >>> file, batch = io.BytesIO(), pyarrow.record_batch({"x": [1, 2]})
        >>> with pyarrow.ipc.new_file(file, batch.schema) as writer:
        ...     writer.write_batch(batch)
        >>> files = IterableWrapper([("a.arrow", io.BytesIO(file.getvalue()))], deepcopy=False)
        >>> list(files.read_arrow(as_="tensors"))
        [{'x': tensor([1, 2])}]
        """
        from datapipes.iter.formats.arrow import ArrowReader

        return ArrowReader(self, columns, as_=as_, on_error=on_error, max_errors=max_errors)  # type: ignore[arg-type]  # self is an IterDataPipe

    def read_csv_columns(
        self,
        columns: Sequence[str] | None = None,
        types: Mapping[str, Any] | None = None,
        *,
        names: Sequence[str] | None = None,
        delimiter: str = ",",
        block_size: int = 1 << 20,
        use_threads: bool = False,
        as_: As = "batch",
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> IterDataPipe[Any]:
        """The rows of each CSV file in blocks, each a record batch with typed columns.

        >>> import io
        >>> from datapipes.iter import IterableWrapper
        >>> files = IterableWrapper([("a.csv", io.BytesIO(b"x,y\\n1,one\\n2,two\\n"))], deepcopy=False)
        >>> list(files.read_csv_columns(["x"], as_="tensors"))
        [{'x': tensor([1, 2])}]
        """
        from datapipes.iter.formats.csv_columns import CSVColumnReader

        return CSVColumnReader(
            self,  # type: ignore[arg-type]  # self is an IterDataPipe
            columns,
            types,
            names=names,
            delimiter=delimiter,
            block_size=block_size,
            use_threads=use_threads,
            as_=as_,
            on_error=on_error,
            max_errors=max_errors,
        )
