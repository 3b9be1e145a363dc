"""Reading files from elsewhere, damaged ones among them.

A small data set of images is packed into tar archives, and a web server
on this machine hands them out. This tutorial keeps the archives on
disk, reads them as samples, decodes, shuffles and shares these, and
counts damaged ones. It stops in the middle and continues. The last part
reads tables by columns. It needs ``pip install
'loader2[http,parquet]'``.
"""

import io
import tarfile
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import torch

from datapipes.errors import CorruptTar, TooManyErrors, UnsafeMember
from datapipes.graph import apply_sharding
from datapipes.iter import IterableWrapper, IterDataPipe
from loader2 import DataLoader2

SIDE = 8  # pixels
SHARDS, SAMPLES = 4, 25  # samples of one shard
# The sample whose image was cut short before it was packed.
DAMAGED = 30
Sample = tuple[torch.Tensor, int]


def main() -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "web").mkdir()
        for number in range(SHARDS):
            pack(
                folder / "web" / f"train-{number}.tar",
                range(number * SAMPLES, (number + 1) * SAMPLES),
            )
        with served(folder / "web") as (address, fetched):
            an_epoch(address, folder / "cache", fetched)
            stop_and_resume(address, folder / "cache", fetched)
            two_workers(address, folder, fetched)
        a_limit_on_errors(folder / "web")
        archives_that_are_not_to_be_trusted(folder)
        columns(folder)


# -- A data set --------------------------------------------------------


def image(number: int) -> bytes:
    """A grey picture as a file: a short head, and a byte for each
    pixel.
    """
    whole = b"P5 %d %d 255\n" % (SIDE, SIDE) + bytes(
        (number + pixel) % 256 for pixel in range(SIDE * SIDE)
    )
    return whole[:-10] if number == DAMAGED else whole


def pack(archive: Path, numbers: range) -> None:
    """Write the samples as webdataset has them: files of one sample are
    neighbours, and their names begin alike.
    """
    with tarfile.open(archive, "w") as tar:
        for number in numbers:
            add(tar, f"{number:04}.pgm", image(number))
            add(tar, f"{number:04}.cls", str(number).encode())


def add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, Counter[str]]]:
    """A web server for a folder: its address, and what was asked for
    how often.
    """
    fetched: Counter[str] = Counter()

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *what: Any) -> None:
            fetched[self.path] += 1

    with ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Handler, directory=folder)
    ) as server:
        thread = Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.05}
        )
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", fetched
        finally:
            server.shutdown()
            thread.join()


# -- Reading it --------------------------------------------------------


def decoded(sample: dict[str, Any]) -> Sample:
    """Pixels between 0 and 1, and a label."""
    head, _, pixels = sample[".pgm"].read().partition(b"\n")
    width, height = (int(number) for number in head.split()[1:3])
    if len(pixels) != width * height:
        raise ValueError(
            f"{sample['__key__']}: {len(pixels)} pixels where {width} "
            f"x {height} should be"
        )
    picture = (
        torch.frombuffer(bytearray(pixels), dtype=torch.uint8).reshape(
            height, width
        )
        / 255
    )
    return picture, int(sample[".cls"].read())


def fetched_shards(address: str, cache: Path) -> IterDataPipe[str]:
    """The archives as files of this machine: what is not there yet is
    fetched, completely or not at all.
    """

    def place(url: str) -> str:
        return str(cache / url.rpartition("/")[2])

    names = IterableWrapper(
        [f"{address}/train-{{0..{SHARDS - 1}}}.tar"]
    ).shard_expand()
    # Names are cheap, so share them before anything is fetched.
    mine = names.shuffle().sharding_filter()
    return (
        mine.on_disk_cache(place)
        .read_from_http(timeout=10)
        .end_caching(same_filepath_fn=True)
    )


def samples(
    paths: IterDataPipe[str], **policy: Any
) -> IterDataPipe[Sample]:
    return (
        paths.open_files("rb")
        .load_from_tar()
        .webdataset()
        .map(decoded, **policy)
    )


def training(address: str, cache: Path) -> IterDataPipe[Any]:
    good = samples(
        fetched_shards(address, cache), on_error="skip", max_errors=0.05
    )
    return good.shuffle(buffer_size=40).batch(16).collate()


@contextmanager
def warned() -> Iterator[list[str]]:
    """Return the warnings as text: a stage warns of the first error
    that it skips.
    """
    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield said
    said += [str(warning.message) for warning in caught]


def an_epoch(address: str, cache: Path, fetched: Counter[str]) -> None:
    """One damaged sample is left out, which is warned of once and
    counted. A second epoch fetches nothing.
    """
    loader = DataLoader2(training(address, cache))
    loader.seed(1)
    with warned() as said:
        batches = list(loader)
    labels = sorted(label for _, y in batches for label in y.tolist())
    assert labels == [
        number
        for number in range(SHARDS * SAMPLES)
        if number != DAMAGED
    ]
    print(
        f"An epoch of {len(batches)} batches, the first of shape "
        f"{tuple(batches[0][0].shape)}; {len(labels)} samples."
    )
    print(f"  warned of: {said[0].replace(str(cache), '...')}")
    print(f"  loader.errors: {loader.errors}")
    assert len(said) == 1
    assert "54 pixels where 8 x 8 should be" in said[0]
    assert list(loader.errors.values()) == [1]

    with warned():
        again = [label for _, y in loader for label in y.tolist()]
    assert sorted(again) == labels
    assert again != [label for _, y in batches for label in y.tolist()]
    print(
        "  after a second epoch, in another order, the server was "
        f"asked {sum(fetched.values())} times."
    )
    assert sum(fetched.values()) == SHARDS
    assert sorted(path.name for path in cache.iterdir()) == [
        f"train-{number}.tar" for number in range(SHARDS)
    ]


def stop_and_resume(
    address: str, cache: Path, fetched: Counter[str]
) -> None:
    """A state stands within an archive and a shuffle buffer; the count
    of errors goes on, too.
    """
    loader = DataLoader2(training(address, cache))
    loader.seed(2)
    with warned():
        batches = iter(loader)
        seen = [y for _, y in islice(batches, 3)]
        state = loader.state_dict()
        resumed = DataLoader2.from_state(
            state, datapipe=training(address, cache)
        )
        left = [y for _, y in resumed]
        for ours, (_, theirs) in zip(left, batches, strict=True):
            assert torch.equal(ours, theirs)
    print(
        f"\nStopped after {len(seen)} batches and resumed: {len(left)} "
        "were left, the same as without a stop."
    )
    print(
        "  samples left out in the whole epoch: "
        f"{sum(resumed.errors.values())}"
    )
    assert (
        sum(resumed.errors.values()) == sum(loader.errors.values()) == 1
    )
    assert sum(fetched.values()) == SHARDS


def two_workers(
    address: str, folder: Path, fetched: Counter[str]
) -> None:
    """Each of two workers fetches and reads the archives that are its
    own; their common seed orders the names.
    """
    fetched.clear()
    print("\nShared between two workers, each with a cache of its own:")
    everything: list[int] = []
    for worker in range(2):
        graph = samples(
            fetched_shards(address, folder / f"cache-{worker}"),
            on_error="skip",
        )
        loader = DataLoader2(apply_sharding(graph, 2, worker))
        loader.seed(3)
        with warned():
            labels = [label for _, label in loader]
        print(
            f"  worker {worker}: {len(labels)} samples, "
            f"{sum(loader.errors.values())} left out"
        )
        everything += labels
    assert (
        len(everything) == SHARDS * SAMPLES - 1 == len(set(everything))
    )
    assert fetched == {
        f"/train-{number}.tar": 1 for number in range(SHARDS)
    }


# -- Damage ------------------------------------------------------------


def a_limit_on_errors(folder: Path) -> None:
    """A policy may replace what is damaged, and a limit says when there
    is too much of it.
    """
    paths = IterableWrapper([str(folder)]).list_files("*.tar")

    def black(error: Exception, sample: Any) -> Sample:
        return torch.zeros(SIDE, SIDE), -1

    with warned():
        # Type checkers know it as any Iterator.
        elements: Any = iter(samples(paths, on_error=black))
        labels = [label for _, label in elements]
    assert labels[DAMAGED] == -1
    assert len(labels) == SHARDS * SAMPLES
    print(
        f"\nWith a function of the error, all {len(labels)} samples "
        "come, one of them black."
    )
    print(f"  iterator.errors: {elements.errors}")
    assert list(elements.errors.values()) == [1]

    said = "nothing"
    with warned():
        try:
            list(samples(paths, on_error="skip", max_errors=0))
        except TooManyErrors as error:
            said = str(error)
    print(f"  with max_errors=0: {said}")
    assert said.startswith("1 errors, more than max_errors=0 lets pass")


def archives_that_are_not_to_be_trusted(folder: Path) -> None:
    """Read an archive that was cut short, and one with a member whose
    name leads outside. Both are errors.
    """
    whole = (folder / "web" / "train-0.tar").read_bytes()
    (folder / "short.tar").write_bytes(whole[:20_000])
    members = []
    said = "nothing"
    with warned():
        try:
            for path, _ in (
                IterableWrapper([str(folder / "short.tar")])
                .open_files("rb")
                .load_from_tar()
            ):
                members.append(path)
        except CorruptTar as error:
            said = str(error).replace(str(folder), "...")
    print(
        f"\nAn archive that was cut short gave {len(members)} members, "
        f"and then: {said}"
    )
    assert members

    with tarfile.open(folder / "hostile.tar", "w") as tar:
        add(tar, "../../outside.txt", b"!")
        add(tar, "inside.txt", b"fine")
    hostile = IterableWrapper([str(folder / "hostile.tar")]).open_files(
        "rb"
    )
    with warned():
        files = iter(hostile.load_from_tar())
        try:
            next(files)
        except UnsafeMember as error:
            said = str(error).replace(str(folder), "...")
        # After an error an iterator goes on with the next element.
        _, stream = next(files)
        assert stream.read() == b"fine"
        assert [
            Path(path).name
            for path, _ in hostile.load_from_tar(on_error="skip")
        ] == ["inside.txt"]
    print(f"A hostile one: {said}")


# -- Columns -----------------------------------------------------------


def columns(folder: Path) -> None:
    """Tables are read in parts, and only the columns that are asked
    for.
    """
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table(
        {
            "x": list(range(1_000)),
            "y": [x / 2 for x in range(1_000)],
            "note": ["..."] * 1_000,
        }
    )
    pyarrow.parquet.write_table(
        table, folder / "table.parquet", row_group_size=100
    )
    groups = IterableWrapper(
        [str(folder / "table.parquet")]
    ).list_row_groups()
    parts = list(
        groups.shuffle().read_parquet(["x", "y"], as_="tensors")
    )
    assert len(parts) == 10
    assert all(
        sorted(part) == ["x", "y"] and part["y"].equal(part["x"] / 2)
        for part in parts
    )
    print(
        f"\nOf a Parquet file, {len(parts)} row groups in random "
        f"order, each with the tensors {sorted(parts[0])}."
    )

    (folder / "table.csv").write_text(
        "x,y,note\n"
        + "".join(f"{x},{x / 2},...\n" for x in range(1_000))
    )
    [part] = IterableWrapper(
        [str(folder / "table.csv")]
    ).read_csv_columns(["x", "y"], {"y": "float32"}, as_="tensors")
    assert (part["x"].dtype, part["y"].dtype) == (
        torch.int64,
        torch.float32,
    )
    print(
        f"Of a CSV file, x as {part['x'].dtype} and y as "
        f"{part['y'].dtype}, {len(part['x']):,} rows at once."
    )


if __name__ == "__main__":
    main()
