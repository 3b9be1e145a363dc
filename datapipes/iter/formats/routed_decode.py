"""routed_decode: the content of files, decoded by the ending of their names."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn, TypeAlias

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.elements.streams import StreamWrapper
from datapipes.errors import UnsafeState
from datapipes.io.archives.codecs import extension
from datapipes.messages.extras import needed
from datapipes.messages.warnings import warn
from datapipes.operator_support.checks import needs_callable, same_length
from datapipes.position.on_error import OnError, check_policy
from datapipes.position.steps import Step

Handler: TypeAlias = Callable[[str, bytes], Any]
"""(ending, content) -> the decoded value, or None to leave it to the next handler."""

_TEXT = frozenset({"txt", "text", "transcript"})
_NUMBER = frozenset({"cls", "cls2", "class", "count", "index", "inx", "id"})
_IMAGE = frozenset({"jpg", "jpeg", "png", "ppm", "pgm", "pbm", "pnm"})


@operator
class RoutedDecoder(IterDataPipe[tuple[str, Any]]):
    """``(path, decoded)`` for each ``(path, data)``, decoded by the first handler that knows it, or as bytes.

    Deprecated: `map` with a function of your own does the same. Data is bytes, or a stream, which is read and closed.
    Data at a path that begins with ``_`` is UTF-8 text, whatever its ending.

    Args:
        *handlers: Functions of the ending and the bytes, called in this order; each returns the decoded value, or None
            if it does not know the ending. By default text, whole numbers, JSON, plain pickles and tensors are decoded,
            and images, which become float tensors in RGB. A default handler refuses pickles of anything but plain
            data, because they could run code.
        key_fn: A function of the path that returns the ending for the handlers. Default: the part after the last dot.

    >>> import warnings
    >>> from datapipes.iter import IterableWrapper
    >>> with warnings.catch_warnings(action="ignore"):
    ...     list(IterableWrapper([("a.cls", b"7"), ("a.json", b"[1]"), ("a.x", b"...")]).routed_decode())
    [('a.cls', 7), ('a.json', [1]), ('a.x', b'...')]
    """

    _fluent: ClassVar[str | None] = "routed_decode"

    datapipe: IterDataPipe[tuple[str, Any]]

    def __init__(
        self,
        datapipe: IterDataPipe[tuple[str, Any]],
        *handlers: Handler,
        key_fn: Callable[[str], str] = extension,
        on_error: OnError = "raise",
        max_errors: int | float | None = None,
    ) -> None:
        warn("routed_decode() is deprecated: use map() with a decoder", FutureWarning)
        for handler in (*handlers, key_fn):
            needs_callable("routed_decode", handler)
        self.datapipe = datapipe
        self.handlers = handlers or (basichandlers, rgb_images)
        self.key_fn = key_fn
        self.on_error = on_error
        self.max_errors = max_errors
        check_policy(self)

    def add_handler(self, *handlers: Handler) -> None:
        """Add handlers that are called before the others."""
        for handler in handlers:
            needs_callable("add_handler", handler)
        self.handlers = (*handlers, *self.handlers)

    def _step(self) -> Step:
        return Step("map", self._decoded)

    def _decoded(self, element: tuple[str, Any]) -> tuple[str, Any]:
        path, data = element
        if isinstance(data, StreamWrapper | io.IOBase):
            with data:
                data = data.read()
        if path[:1] == "_":
            return path, data.decode("utf-8") if isinstance(data, bytes) else data
        key = self.key_fn(path)
        decoded = (handler(key, data) for handler in self.handlers)
        return path, next((value for value in decoded if value is not None), data)

    __len__ = same_length


def basichandlers(key: str, data: bytes) -> Any:
    """Decode by file extension, as the default handlers do: text, whole numbers, JSON, plain pickles, tensors.

    Args:
        key: The extension without its dot, ignoring case. The result for an unknown one is None.
        data: The content of the file.

    >>> basichandlers("txt", b"some text"), basichandlers("count", b"no number")
    ('some text', None)
    """
    key = key.lower()
    if key in _TEXT:
        return data.decode("utf-8")
    if key in _NUMBER:
        try:
            return int(data)
        except ValueError:
            return None
    if key in ("json", "jsn"):
        return json.loads(data)
    if key in ("pyd", "pickle"):
        return _PlainUnpickler(io.BytesIO(data)).load()
    if key == "pt":
        import torch

        return torch.load(io.BytesIO(data), weights_only=True)
    return None


def rgb_images(key: str, data: bytes) -> Any:
    """Decode an image as a float tensor of three planes (red, green, blue) between 0 and 1. None: not an image."""
    if key.lower() not in _IMAGE:
        return None
    import torch

    numpy, image = needed("numpy", "images", "routed_decode"), needed("PIL.Image", "images", "routed_decode")
    with image.open(io.BytesIO(data)) as opened:
        pixels = numpy.asarray(opened.convert("RGB"), dtype=numpy.float32) / 255
    return torch.from_numpy(pixels.transpose(2, 0, 1).copy())


class _PlainUnpickler(pickle.Unpickler):
    """Unpickler of plain data, which needs no class or function by name."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise UnsafeState(
            f"a pickle refers to {module}.{name}, and could run code; if you trust it, give routed_decode() a handler"
        )
