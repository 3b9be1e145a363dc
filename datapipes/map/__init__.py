"""The pipes over collections with keys: import them from here."""

from typing import TYPE_CHECKING

from datapipes.description.exports import exports
from datapipes.description.pipe import MapDataPipe

if TYPE_CHECKING:
    from datapipes.converting.conversion import IterToMapConverter
    from datapipes.map.combining import Concater, UnZipper, Zipper
    from datapipes.map.folders import ImageFolder
    from datapipes.map.mapping import Batcher, InMemoryCacheHolder, Mapper
    from datapipes.map.shuffle import Shuffler
    from datapipes.map.table import TableWrapper
    from datapipes.map.windows import SlidingWindow
    from datapipes.map.wrapper import SequenceWrapper
else:
    __getattr__, __dir__ = exports(
        __name__,
        {
            "datapipes.converting.conversion": "IterToMapConverter",
            "datapipes.map.combining": "Concater UnZipper Zipper",
            "datapipes.map.folders": "ImageFolder",
            "datapipes.map.mapping": "Batcher InMemoryCacheHolder Mapper",
            "datapipes.map.shuffle": "Shuffler",
            "datapipes.map.table": "TableWrapper",
            "datapipes.map.windows": "SlidingWindow",
            "datapipes.map.wrapper": "SequenceWrapper",
        },
    )

__all__ = [
    "Batcher",
    "Concater",
    "ImageFolder",
    "InMemoryCacheHolder",
    "IterToMapConverter",
    "MapDataPipe",
    "Mapper",
    "SequenceWrapper",
    "Shuffler",
    "SlidingWindow",
    "TableWrapper",
    "UnZipper",
    "Zipper",
]
