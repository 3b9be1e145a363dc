"""decode_images of map-style pipes: the picture under a key, decoded at every access."""

from __future__ import annotations

from typing import Any, ClassVar

from datapipes.description.pipe import MapDataPipe, operator
from datapipes.io.images import Crop, DecodingImages, Mode, Size
from datapipes.operator_support.checks import length_of
from datapipes.position.seeds import derive


@operator
class KeyedImageDecoder(DecodingImages, MapDataPipe[Any]):
    """The picture under each key as a contiguous tensor of bytes: colors, rows and columns.

    Elements, formats and results are those of ``decode_images`` of streams, which has ``on_error`` as well. Boxes and
    mirroring are drawn from the seed, the epoch and the key in a loader. Otherwise each access draws from torch's
    default generator, unless ``set_seed`` was called.

    Args:
        size: Height and width of the result, or one number for both. With ``crop=None`` one number is the length of the
            shorter side. ``None``: pictures keep their size, and ``crop`` must be None.
        mode: ``"RGB"`` for three planes, or ``"L"`` for one, which is the gray of the picture in RGB.
        key: The picture in a sample: an index of a tuple or list, or names of which the first one in a dict counts,
            with or without a dot in front: ``"jpg;jpeg;png"``. ``None``: the element is the picture.

    >>> from datapipes.map import SequenceWrapper
    >>> gray = b"P5 4 2 255 " + bytes(range(8))
    >>> SequenceWrapper([(gray, 7)]).decode_images((1, 2), crop=None, mode="L", key=0)[0]
    (tensor([[[3, 4]]], dtype=torch.uint8), 7)
    """

    _fluent: ClassVar[str | None] = "decode_images"

    source_datapipe: MapDataPipe[Any]
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

    def __getitem__(self, key: Any) -> Any:
        element = self.source_datapipe[key]
        return self._maker()(element, self._draws_of(self._number(key)))

    def _number(self, key: Any) -> int:
        """Return the number of a key for draws: the index itself, or one that follows from another kind of key."""
        try:
            number = int(key.__index__())
        except AttributeError:
            return derive(key)
        return number + length_of(self) if number < 0 else number

    def __len__(self) -> int:
        return length_of(self.source_datapipe)
