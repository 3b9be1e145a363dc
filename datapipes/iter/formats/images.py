"""decode_images: pictures in files, decoded, cut and resized to tensors.

The draws for an element follow from the stage's seed and the element's number. So the position is the number of
elements taken, and an element that is made again, because it waits in the buffer of a shuffle, is the same. Without
draws the stage is a step, without a position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar

from datapipes.description.indexed import Indexed, indexed
from datapipes.description.pipe import IterDataPipe, operator
from datapipes.io.images import Crop, DecodingImages, Mode, Size
from datapipes.operator_support.checks import same_length
from datapipes.position.cells import Cell, CountCell, fields
from datapipes.position.on_error import SKIP, Tolerant, ToleratedErrors
from datapipes.position.opening import Opening
from datapipes.position.steps import Step


@operator
class ImageDecoder(DecodingImages, Tolerant, IterDataPipe[Any]):
    """Each picture as a contiguous tensor of bytes: colors, rows and columns.

    An element is the bytes of a picture, an open file, a path, or a pair of a path and one of the first two, which
    becomes ``(path, tensor)``. Or it is a sample, of which ``key`` names the picture. Files are read and closed.

    Formats are those of Pillow. With the extra ``fast``, JPEGs are decoded by simplejpeg, to the same bits. Resizing is
    bilinear with antialiasing, within 1 of Pillow's pixels (2 for one value in some ten million). The orientation in
    EXIF data is not applied. Pictures of 16 bits are scaled to 8. The first frame of an animation is decoded.

    Boxes and mirroring are drawn from the seed, the epoch and the number of the element at this stage, in its shard.
    They are the same after a resume. Below ``sharding_filter`` a worker decodes its own elements only.

    Args:
        size: Height and width of the result, or one number for both. With ``crop=None`` one number is the length of the
            shorter side. ``None``: pictures keep their size, and ``crop`` must be None.
        mode: ``"RGB"`` for three planes, or ``"L"`` for one, which is the gray of the picture in RGB.
        key: The picture in a sample: an index of a tuple or list, or names of which the first one in a dict counts,
            with or without a dot in front: ``"jpg;jpeg;png"``. ``None``: the element is the picture.

    >>> import io
    >>> from datapipes.iter import IterableWrapper
    >>> gray = b"P5 4 2 255 " + bytes(range(8))
    >>> list(IterableWrapper([(gray, 7)]).decode_images(2, crop="center", mode="L", key=0))
    [(tensor([[[1, 2],
             [5, 6]]], dtype=torch.uint8), 7)]
    """

    _fluent: ClassVar[str | None] = "decode_images"

    source_datapipe: IterDataPipe[Any]
    size: Size
    crop: Crop = "random"
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: bool = False
    mode: Mode = "RGB"
    exact: bool = True
    key: int | str | None = None

    def __post_init__(self) -> None:
        self._check_form()
        super().__post_init__()

    def _step(self) -> Step | None:
        return None if self._form().is_random else Step("map", partial(self._decoded, self._maker(), iter(())))

    def _decoded(self, make: Callable[[Any, Iterator[float]], Any], draws: Iterator[float], element: Any) -> Any:
        return make(element, draws)  # a method, because errors find their stage by the `self` of a frame

    def _open(self, at: Opening) -> Iterator[Any]:
        return self._elements(at, at.source(self.source_datapipe), at.cell(partial(_PictureCell, self)))

    def _elements(self, at: Opening, source: Iterator[Any], cell: _PictureCell) -> Iterator[Any]:
        make, taken, faults = self._maker(), cell.taken, cell.faults
        for number, element in enumerate(taken.counting(source), taken.save()):
            try:
                if faults is None:
                    made = self._decoded(make, self._draws_of(number), element)
                else:
                    made = self._tolerant(make, faults, number, element)
            except BaseException as error:
                at.keep(element, error)
                taken.take_again(error)
                raise
            if made is not SKIP:
                yield made
            made = None  # dropped before the next one is made
        if faults is not None:
            faults.finish()

    def _tolerant(self, make: Callable[..., Any], faults: ToleratedErrors, number: int, element: Any) -> Any:
        faults.seen += faults.counts_elements
        try:
            return self._decoded(make, self._draws_of(number), element)
        except Exception as error:
            again = partial(self._again, make, number, element)
            return faults.absorb(error, element, again)

    def _again(self, make: Callable[..., Any], number: int, element: Any) -> Any:
        return self._decoded(make, self._draws_of(number), element)

    def _indexed(self) -> Indexed | None:
        if not self._form().is_random:
            return super()._indexed()
        source = indexed(self.source_datapipe)
        return None if source is None else source.giving(partial(self._at, self._maker(), source.at))

    def _at(self, make: Callable[..., Any], at: Callable[[int], Any], i: int) -> Any:
        element = at(i)
        return make(element, self._draws_of(i))

    def _origin(self, i: int) -> tuple[object, Any]:
        origin: tuple[object, Any] = self.source_datapipe._origin(i)
        return origin

    __len__ = same_length


class _PictureCell(Cell):
    """Number of elements taken, and the errors among them that the stage has tolerated."""

    def __init__(self, pipe: ImageDecoder) -> None:
        self.faults = None if pipe.on_error == "raise" else ToleratedErrors(pipe)
        self.taken = CountCell()

    def done(self) -> int:
        return self.taken.given()

    def save(self) -> dict[str, Any]:
        return {"taken": self.taken.given(), "errors": self.saved_errors()}

    def load(self, saved: Any) -> None:
        taken, errors = fields(saved, "taken", "errors")
        self.taken.load(taken)
        self.load_errors(errors)
