"""The pipes over collections with keys: import them from here."""

from datapipes.description.exports import lazy_imports

with lazy_imports(__name__):
    from datapipes.converting.conversion import IterToMapConverter as IterToMapConverter
    from datapipes.description.pipe import MapDataPipe as MapDataPipe
    from datapipes.map.combining import Concater as Concater
    from datapipes.map.combining import UnZipper as UnZipper
    from datapipes.map.combining import Zipper as Zipper
    from datapipes.map.folders import ImageFolder as ImageFolder
    from datapipes.map.images import KeyedImageDecoder as KeyedImageDecoder
    from datapipes.map.mapping import Batcher as Batcher
    from datapipes.map.mapping import InMemoryCacheHolder as InMemoryCacheHolder
    from datapipes.map.mapping import Mapper as Mapper
    from datapipes.map.shuffle import Shuffler as Shuffler
    from datapipes.map.table import TableWrapper as TableWrapper
    from datapipes.map.windows import SlidingWindow as SlidingWindow
    from datapipes.map.wrapper import SequenceWrapper as SequenceWrapper
