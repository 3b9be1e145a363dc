"""The loading process of an accessor: it iterates a dataset for its owner, with one element ahead for each slot.

An opening of the protocol is a run of epochs. A frame without elements ends an epoch, and the next epoch follows at
once, at most one ahead of the consumer's. Without ``load_indefinitely`` the opening ends with the epoch. Each element
is a frame of its own, so that credit counts slots. The first frame has the structure, shapes and types that all
elements must have. Numbers of another type are converted, as in PopTorch. Another shape is an error; PopTorch
broadcasts it.

If the process inherits no memory, its dataset comes in a parcel: the memory of its arrays is copied once, into an
unnamed file that both processes map. The process exits at once and quietly on Ctrl-C, which reaches all processes at a
terminal, and on SIGTERM and SIGHUP. It ends the workers that a loader has started in it.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import signal
import tempfile
import traceback
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import torch

from datapipes.errors import BadArgument
from datapipes.memory.batches import batches_from
from datapipes.position.parent_watch import leave_at_once
from datapipes.position.seeds import derive
from reading_services.ipu.host.sources import EpochSource
from reading_services.ipu.names.custom_types import leaves_of, parser_of, rebuilt, registerCustomArgParser
from reading_services.ipu.names.messages import logger
from reading_services.workers.failures import Failure
from reading_services.workers.generators import seed_all
from reading_services.workers.process.main import could_not_start, packed, settle
from reading_services.workers.process.signals import hear_ends, held_back
from reading_services.workers.transport.arena import aligned
from reading_services.workers.transport.packing import pickled, unpickled
from reading_services.workers.transport.process import PipeProducerEnd, SharedFd
from reading_services.workers.transport.protocol import OpenStream, Producer, ToProducer, Window


class Parcel:
    """Packed object, passed to a process when that is started, and opened there.

    Its arrays are written while the process starts. Writing beats copying into a mapping, whose pages the system would
    clear first. Several threads write, because one does not reach the memory's speed.
    """

    def __init__(self, obj: object, on_disk: bool = False) -> None:
        data, buffers = pickled(obj)
        self._parts = [memoryview(data), *buffers]
        self._sizes = [part.nbytes for part in self._parts]
        self._file = SharedFd(_on_disk() if on_disk else os.memfd_create("loader2-parcel", os.MFD_CLOEXEC))
        os.truncate(self._file.fd, sum(map(aligned, self._sizes)))
        ready, self._is_full = os.pipe()
        self._ready = SharedFd(ready)

    def __getstate__(self) -> dict[str, Any]:
        return {name: vars(self)[name] for name in ("_sizes", "_file", "_ready")}

    def fill(self) -> None:
        """Write the object, and signal that it is complete. The process may already run."""
        pieces, at = [], 0
        for part in self._parts:
            pieces += [(part[i : i + _PIECE], at + i) for i in range(0, part.nbytes, _PIECE)]
            at += aligned(part.nbytes)
        with ThreadPoolExecutor(min(len(pieces), os.cpu_count() or 1)) as threads:
            for done in [threads.submit(self._write, *piece) for piece in pieces]:
                done.result()
        os.write(self._is_full, b".")

    def _write(self, piece: memoryview, at: int) -> None:
        while piece:
            written = os.pwrite(self._file.fd, piece, at)
            piece, at = piece[written:], at + written

    def open(self) -> Any:
        """Unpack the object, once, in the process that got the parcel. Raise EOFError if it was never filled."""
        if not os.read(self._ready.fd, 1):
            raise EOFError("the process that packs the dataset has ended")
        memory = memoryview(mmap.mmap(self._file.fd, 0, access=mmap.ACCESS_COPY))
        parts, at = [], 0
        for size in self._sizes:
            parts.append(memory[at : at + size])
            at += aligned(size)
        self._close(self._file.fd, self._ready.fd)
        return unpickled(parts[0], parts[1:])

    def close(self) -> None:
        """Close the files. The process that got the parcel has its own descriptors by then."""
        self._close(self._file.fd, self._ready.fd, self._is_full)

    @staticmethod
    def _close(*descriptors: int) -> None:
        for descriptor in descriptors:
            os.close(descriptor)


_PIECE: Final = 1 << 24  # bytes of one write


def _on_disk() -> int:
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def element_of(made: Any) -> Any:
    """Return a dataset's element in the accessor's form: a flat container that is not a mapping becomes a list."""
    if isinstance(made, torch.Tensor | Mapping | str | bytes) or parser_of(type(made)) is not None:
        return made
    return list(made) if isinstance(made, Iterable) else made


class Uniform:
    """Structure, shapes and types of all elements, taken from the first."""

    def __init__(self, first: Any, rows_vary: bool) -> None:
        self._rows_vary = rows_vary
        for number, leaf in enumerate(leaves_of(first)):
            if not isinstance(leaf, torch.Tensor):
                raise BadArgument(
                    f"Tensor at index {number} is not a torch tensor but of type {type(leaf).__name__}; an element is "
                    "a tensor, a flat 1D container of tensors, or dicts, lists and tuples of these"
                )
        tensors = list(_tensors(first, first, ""))
        self._shapes = [self._shape(tensor) for tensor in tensors]
        self._types = [tensor.dtype for tensor in tensors]
        self._said: set[tuple[torch.dtype, torch.dtype]] = set()
        self.like = rebuilt(first, [torch.empty(0, dtype=tensor.dtype) for tensor in tensors])
        """A structure like that of all elements, with empty tensors."""

    def tensors(self, element: Any) -> list[torch.Tensor]:
        """Return an element's tensors in the order and types of the first. Raise BadArgument if it differs."""
        tensors = list(_tensors(self.like, element, ""))
        shapes = [self._shape(tensor) for tensor in tensors]
        if shapes != self._shapes:
            raise BadArgument(
                f"every element must have the shapes of the first, {_shown(self._shapes)}; this one has "
                f"{_shown(shapes)}. Pad rows to one size, or pass drop_last=True if it is the last batch"
            )
        return [self._converted(*each) for each in zip(tensors, self._types, strict=True)]

    def _converted(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        if tensor.dtype == dtype:
            return tensor
        if not torch.can_cast(tensor.dtype, dtype) and (tensor.dtype, dtype) not in self._said:
            self._said.add((tensor.dtype, dtype))
            logger.warning("%s is converted to %s, the type of the first element: numbers change", tensor.dtype, dtype)
        return tensor.detach().to(dtype)

    def _shape(self, tensor: torch.Tensor) -> tuple[int | None, ...]:
        return (None, *tensor.shape[1:]) if self._rows_vary and tensor.dim() else tuple(tensor.shape)


def _tensors(like: Any, part: Any, where: str) -> Iterator[torch.Tensor]:
    """Yield the tensors of ``part`` in the order of ``like``. Raise BadArgument if the structures differ."""
    if isinstance(like, torch.Tensor):
        if not isinstance(part, torch.Tensor):
            raise _unlike(where, "a tensor", part)
        yield part
    elif (parser := parser_of(type(like))) is not None:
        if not isinstance(part, type(like)):
            raise _unlike(where, type(like).__name__, part)
        yield from parser.yieldTensors(part)
    elif isinstance(like, Mapping):
        if not isinstance(part, Mapping) or part.keys() != like.keys():
            raise _unlike(
                where, f"a dict with the keys {list(like)}", list(part) if isinstance(part, Mapping) else part
            )
        for key in like:
            yield from _tensors(like[key], part[key], f"{where}[{key!r}]")
    else:
        if not isinstance(part, tuple | list) or len(part) != len(like):
            raise _unlike(where, f"{len(like)} elements", part)
        for number, inner in enumerate(like):
            yield from _tensors(inner, part[number], f"{where}[{number}]")


def _unlike(where: str, wanted: str, found: Any) -> BadArgument:
    return BadArgument(
        f"every element must be like the first, where element{where} was {wanted}; here it is {found!r:.200}"
    )


def _shown(shapes: list[tuple[int | None, ...]]) -> str:
    return ", ".join(map(str, shapes)) or "none"


_NO_MORE: Final = object()


@dataclass
class FeedJob:
    """Arguments of the process."""

    link: PipeProducerEnd
    source: Any
    """``(source, parsers of custom types)``, or a parcel of both if the process inherits no memory."""
    window: Window
    load_indefinitely: bool
    seed: int
    stacks: SharedFd
    parent: int
    start_method: str
    """Start method of a loader's workers in the parent process, and so in this process."""


def feed(job: FeedJob) -> None:
    """Run the process: its main function."""
    settle(job.parent, job.stacks, _leave, _leave)
    multiprocessing.set_start_method(job.start_method, force=True)
    logger.debug("AsynchronousDataAccessor worker process: %d", os.getpid())
    where = f"the accessor's process {os.getpid()}"
    try:
        source, parsers = job.source.open() if isinstance(job.source, Parcel) else job.source
        for kind, parser in parsers.items():
            registerCustomArgParser(kind, parser)
        hear_ends(_leave)
    except Exception as error:
        traceback.print_exception(error)
        job.link.send(could_not_start(None, where, error))
        return
    batches_from(job.link.writer.reserve)
    Feeder(job, source, where).run()


def _leave(number: int, frame: Any) -> None:
    leave_at_once(0)


class Feeder:
    """Loop of the loading process."""

    def __init__(self, job: FeedJob, source: EpochSource, where: str) -> None:
        self._job = job
        self._link = job.link
        self._source = source
        self._producer = Producer(job.window)
        self._where = where
        self._epoch = 0
        self._elements: Iterator[Any] | None = None
        self._uniform: Uniform | None = None

    def run(self) -> None:
        """Serve until the consumer ends the opening or the connection."""
        try:
            while not self._producer.gone:
                frame = self._link.receive(wait=not (self._may_begin or self._may_make))
                if frame is not None:
                    self._receive(frame)
                elif self._producer.opening is not None:
                    self._go_on()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            pass  # the consumer has gone
        finally:
            self._elements = None  # a loader ends its workers with it

    @property
    def _may_begin(self) -> bool:
        """Whether the next epoch may begin: none is open, and the consumer has at most one end of an epoch to read."""
        return self._producer.opening is not None and self._elements is None and self._producer.under_way.count(0) < 2

    @property
    def _may_make(self) -> bool:
        return self._elements is not None and self._producer.may_send

    def _receive(self, frame: ToProducer) -> None:
        self._producer.receive(frame)
        if isinstance(frame, OpenStream):
            self._elements = None
            self._epoch = frame.order

    def _go_on(self) -> None:
        try:
            if self._elements is None:
                seed_all(derive("accessor", self._job.seed, self._epoch))
                with held_back(signal.SIGINT):  # workers started here inherit this; they end with this process
                    self._elements = self._source.epoch(self._epoch)
            else:
                self._make()
        except (BrokenPipeError, ConnectionResetError):
            raise
        except Exception as error:
            self._fail(error)

    def _make(self) -> None:
        """Send the next element, or the frame for the end of the epoch."""
        elements: Any = self._elements
        made = next(elements, _NO_MORE)
        if made is _NO_MORE:
            self._end()
            return
        element = element_of(made)
        del made  # only the frame may refer to an element that is sent in the memory it was made in
        like = None
        if self._uniform is None:
            self._uniform = Uniform(element, self._source.rows_vary)
            like = self._uniform.like
        chunk: list[Any] = [like, self._uniform.tensors(element)]
        del element
        body, size = packed(chunk)
        chunk.clear()
        self._link.send(self._producer.items(1, size, body))

    def _end(self) -> None:
        self._elements = None
        if self._uniform is None:
            raise BadArgument("The Dataset is empty: it has no first element")
        if self._job.load_indefinitely:
            self._epoch += 1
            body, size = packed([])
            self._link.send(self._producer.items(0, size, body))
        else:
            self._link.send(self._producer.end())

    def _fail(self, error: Exception) -> None:
        self._elements = None
        if self._uniform is None:
            traceback.print_exception(error)
        self._link.send(self._producer.failed(Failure.of(error, self._where)))
