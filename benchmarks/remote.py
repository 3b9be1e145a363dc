"""Remote files of 64 KiB: CPU time of this process for each, against the library by hand; the rate at a latency.

The server runs in a process of its own (``benchmarks.object_server``), so the CPU time is the reader's alone.
Contenders take turns; a figure is the best round.
"""

import os
import urllib.request
from collections.abc import Callable, Iterator
from time import perf_counter, process_time
from typing import Any

from benchmarks.object_server import serving
from benchmarks.table import Row, Table
from datapipes.messages.switches import FAST

SIZE = 64 * 1024
FILES = 300
LATENCY = 0.02


def tables(rounds: int) -> Iterator[Table]:
    with serving(FILES, SIZE) as url:
        by_http = [f"{url}/data/{number:06}" for number in range(FILES)]
        yield _cpu(
            "http",
            {
                "read_from_http": lambda: _read(_source(by_http).read_from_http()),
                "urllib": lambda: _by_urllib(by_http),
            },
            rounds,
        )
        _environment(url)
        by_s3 = [f"s3://data/{number:06}" for number in range(FILES)]
        yield _cpu(
            "s3",
            {
                "load_files_by_s3": _switched("1", lambda: _read(_source(by_s3).load_files_by_s3())),
                "open_files_by_fsspec": _switched("1", lambda: _read(_source(by_s3).open_files_by_fsspec("rb"))),
                "load_files_by_s3, without the extra": _switched("0", lambda: _read(_source(by_s3).load_files_by_s3())),
            },
            rounds,
        )
    with serving(FILES, SIZE, LATENCY) as url:
        _environment(url)
        by_s3 = [f"s3://data/{number:06}" for number in range(FILES)]
        today = _rate(_switched("0", lambda: _read(_source(by_s3[:50]).load_files_by_s3())), 50)
        ahead = _rate(_switched("1", lambda: _read(_source(by_s3).load_files_by_s3(ahead=32))), FILES)
        rows = [
            Row(("load_files_by_s3, without the extra", f"{today:,.0f}", "1.0")),
            Row(("load_files_by_s3(ahead=32)", f"{ahead:,.0f}", f"{ahead / today:.1f}"), ">= 15", ahead >= 15 * today),
        ]
        yield Table("s3 objects of 64 KiB at a latency of 20 ms", ("reader", "objects/s", "of the first"), rows)


def _rate(read: Callable[[], None], files: int) -> float:
    read()  # connects, and loads the libraries
    began = perf_counter()
    read()
    return files / (perf_counter() - began)


def _cpu(what: str, contenders: dict[str, Callable[[], None]], rounds: int) -> Table:
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(rounds):
        for name, read in contenders.items():
            began = process_time()
            read()
            best[name] = min(best[name], process_time() - began)
    last = list(best.values())[-1]
    rows = [Row((name, f"{taken / FILES * 1e3:.3f}", f"{taken / last:.2f}")) for name, taken in best.items()]
    return Table(f"{FILES} files of 64 KiB over {what}, CPU time", ("reader", "ms a file", "of the last"), rows)


def _environment(url: str) -> None:
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()  # file systems keep the endpoint they were made with
    os.environ |= {
        "AWS_ENDPOINT_URL_S3": url,
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_DEFAULT_REGION": "us-east-1",
    }


def _switched(switch: str, read: Callable[[], None]) -> Callable[[], None]:
    def switched() -> None:
        os.environ[FAST] = switch
        try:
            read()
        finally:
            del os.environ[FAST]

    return switched


def _source(urls: list[str]) -> Any:
    from datapipes.iter import IterableWrapper

    return IterableWrapper(urls)


def _read(graph: Any) -> None:
    for _, stream in graph:
        assert len(stream.read()) == SIZE


def _by_urllib(urls: list[str]) -> None:
    for url in urls:
        with urllib.request.urlopen(url) as file:
            assert len(file.read()) == SIZE
