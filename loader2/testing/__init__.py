"""The laws of pipes and reading services, as a kit for authors of either.

A test only needs ``check_pipe(lambda: MyPipe(IterableWrapper(range(9))))`` or ``check_service(MyService)``. With
pytest, ``def test_laws(pipe_law): pipe_law(lambda: ...)`` makes each law a test of its own. The library's own operators
are tried by the same laws.

- ``comparing``: elements as texts, positions to try, and assertions
- ``description``: the laws of a graph as a value: innocence, pickling, an honest length
- ``ending``: the law of a quiet close; threads, files and processes that are left over
- ``errors``: the law of errors
- ``laws``: the table of all laws, and the function that tries them
- ``pipes``: check_pipe
- ``placement``: the laws of placement: a service gives the same elements as this process, and no handler runs elsewhere
- ``position``: the laws of positions and seeds: resume, independence, same seed
- ``services``: check_service
- ``specimen``: Specimen, an example graph for the laws, and Tap, which makes its elements fail
"""

from datapipes.description.exports import lazy_imports

with lazy_imports(__name__):
    from datapipes.errors import LawBroken as LawBroken
    from loader2.testing.laws import LAWS as LAWS
    from loader2.testing.laws import PLACED as PLACED
    from loader2.testing.laws import check as check
    from loader2.testing.pipes import check_pipe as check_pipe
    from loader2.testing.services import check_service as check_service
    from loader2.testing.specimen import Specimen as Specimen
    from loader2.testing.specimen import Tap as Tap
