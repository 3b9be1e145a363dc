"""All specimens, by operator, and which operators have none."""

from __future__ import annotations

from datapipes.fluent import IterMethods, MapMethods, operators_of
from tests.specimens.archives import ARCHIVES
from tests.specimens.caches import CACHES
from tests.specimens.combinations import COMBINATIONS
from tests.specimens.elements import ELEMENTWISE
from tests.specimens.files import FILES
from tests.specimens.frames import FRAMES
from tests.specimens.groups import GROUPED
from tests.specimens.lanes import LANES
from tests.specimens.memory_caches import CACHED
from tests.specimens.nodes import NODES
from tests.specimens.orders import COMBINED, SHUFFLED
from tests.specimens.pictures import PICTURES
from tests.specimens.records import RECORDS
from tests.specimens.remote import REMOTE
from tests.specimens.services import SERVICES
from tests.specimens.specimen import Specimen
from tests.specimens.texts import TEXTS
from tests.specimens.transforms import TRANSFORMS
from tests.specimens.users import MAPSTYLE, USERS

SPECIMENS: list[Specimen] = [
    *ELEMENTWISE,
    *TRANSFORMS,
    *SHUFFLED,
    *COMBINED,
    *COMBINATIONS,
    *FILES,
    *ARCHIVES,
    *RECORDS,
    *PICTURES,
    *REMOTE,
    *MAPSTYLE,
    *USERS,
    *GROUPED,
    *NODES,
    *TEXTS,
    *CACHED,
    *CACHES,
    *FRAMES,
    *LANES,
    *SERVICES,
]

WRAPPERS = {
    "iter.HuggingFaceHubReader",
    "iter.IterableWrapper",
    "iter.NodeWrapper",
    "iter.SampleMultiplexer",
    "iter.Sampler",
    "map.ImageFolder",
    "map.SequenceWrapper",
    "map.TableWrapper",
}
"""Operators without a method of their own."""

BEYOND_THE_CATALOGUE = {
    "service.ipu",
    "service.prefetch",
    "service.processes",
    "service.threads",
    "users.generator",
    "users.iterator",
    "users.stateful",
    "users.torch",
}
"""What is no operator, and has to keep the laws all the same."""


def operators() -> list[str]:
    """Every operator that must have specimens: those with a method, the wrappers, and what is beyond."""
    methods = {f"iter.{name}" for name in operators_of(IterMethods)} | {
        f"map.{name}" for name in operators_of(MapMethods)
    }
    return sorted(methods | WRAPPERS | BEYOND_THE_CATALOGUE)


def specimens_of(operator: str) -> list[Specimen]:
    """The specimens of one operator."""
    return [specimen for specimen in SPECIMENS if specimen.operator == operator]
