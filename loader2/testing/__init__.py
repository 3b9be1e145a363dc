"""The laws that pipes and reading services keep, as a kit for those who write their own.

``check_pipe(lambda: MyPipe(IterableWrapper(range(9))))`` and ``check_service(MyService)`` are all that a test needs.
With pytest, ``def test_laws(pipe_law): pipe_law(lambda: ...)`` makes each law a test of its own. The catalogue of this
library is tried by the same laws.

- ``comparing``: elements as texts, positions to look at, and what must be equal
- ``description``: the laws of a graph as a value: innocence, pickling, an honest length
- ``ending``: the law of a quiet close; threads, files and processes that are left
- ``errors``: the law of errors
- ``laws``: the table of all laws, and what tries them
- ``pipes``: check_pipe
- ``placement``: the laws of placement: a service gives what this process gives, and no handler runs elsewhere
- ``position``: the laws of positions and seeds: resume, independence, same seed
- ``services``: check_service
- ``specimen``: Specimen, an example graph that the laws are tried on, and Tap, which makes its elements fail
"""

from datapipes.errors import LawBroken
from loader2.testing.laws import LAWS, PLACED, check
from loader2.testing.pipes import check_pipe
from loader2.testing.services import check_service
from loader2.testing.specimen import Specimen, Tap

__all__ = [
    "LAWS",
    "PLACED",
    "LawBroken",
    "Specimen",
    "Tap",
    "check",
    "check_pipe",
    "check_service",
]
