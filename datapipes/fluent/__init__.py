"""The chain methods of pipes: real methods, typed, with an example each, written out by topic.

A method builds the operator that its docstring describes and nothing else; its signature is the operator's
(``tests/test_catalogue.py`` holds them equal). The operators are imported when a method is called, because their
classes are made from the classes that these methods belong to.

- ``archives``: methods that read archives and compressed files
- ``caching``: methods that save files, check them, and keep what was made of them
- ``called``: what a method says when it is called with arguments that it does not take
- ``combining``: methods that make one stream of several, or several of one
- ``elements``: methods on one element at a time, or on how many there are
- ``files``: methods that find, open and read files
- ``frames``: methods on data frames
- ``grouping``: methods that group and order elements
- ``mapstyle``: methods of map-style pipes
- ``records``: methods that read records and tables
- ``remote``: methods that list, read and write files elsewhere
- ``services``: methods that read from the web, s3 and AIStore
- ``transforms``: methods that change what elements hold, several at a time or in the background
"""

from __future__ import annotations

from typing import TypeVar

from datapipes.fluent.archives import ArchiveMethods
from datapipes.fluent.caching import CachingMethods
from datapipes.fluent.called import in_users_words
from datapipes.fluent.combining import CombiningMethods
from datapipes.fluent.elements import ElementMethods
from datapipes.fluent.files import FileMethods
from datapipes.fluent.frames import FrameMethods
from datapipes.fluent.grouping import GroupingMethods
from datapipes.fluent.mapstyle import MapStyleMethods
from datapipes.fluent.records import RecordMethods
from datapipes.fluent.remote import RemoteMethods
from datapipes.fluent.services import ServiceMethods
from datapipes.fluent.transforms import TransformMethods

T_co = TypeVar("T_co", covariant=True)


@in_users_words
class IterMethods(
    ElementMethods[T_co],
    TransformMethods[T_co],
    GroupingMethods[T_co],
    CombiningMethods[T_co],
    FileMethods[T_co],
    FrameMethods[T_co],
    CachingMethods[T_co],
    ArchiveMethods[T_co],
    RecordMethods[T_co],
    RemoteMethods[T_co],
    ServiceMethods[T_co],
):
    """Every method of an IterDataPipe."""


@in_users_words
class MapMethods(MapStyleMethods[T_co]):
    """Every method of a MapDataPipe."""


__all__ = ["IterMethods", "MapMethods"]
