"""The pipes over collections with keys: import them from here."""

from datapipes.converting.conversion import IterToMapConverter
from datapipes.description.pipe import MapDataPipe
from datapipes.map.combining import Concater, UnZipper, Zipper
from datapipes.map.mapping import Batcher, InMemoryCacheHolder, Mapper
from datapipes.map.shuffle import Shuffler
from datapipes.map.wrapper import SequenceWrapper

__all__ = [
    "Batcher",
    "Concater",
    "InMemoryCacheHolder",
    "IterToMapConverter",
    "MapDataPipe",
    "Mapper",
    "SequenceWrapper",
    "Shuffler",
    "UnZipper",
    "Zipper",
]
