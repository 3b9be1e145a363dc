"""The chain methods of pipes. Each is one line here; its operator has the signature, the docstring and the example.

Adding an operator takes four places:

1. its file in ``datapipes/iter/`` (or ``datapipes/map/``), with a docstring that has an example;
2. its test: specimens in ``tests/specimens/`` for all laws, and tests of its own behaviour;
3. its import in the catalogue, ``datapipes/iter/__init__.py`` (or ``datapipes/map/``);
4. its line in ``iter_methods`` (or ``map_methods``): ``name = chained(operators.Name)``. Overloads are added there if
   the constructor's signature cannot express the type of the elements.

- ``called``: errors for calls of a chain method with wrong arguments
- ``chained``: a chain method with the signature and docstring of its operator
- ``iter_methods``: the methods of an IterDataPipe, by topic
- ``map_methods``: the methods of a MapDataPipe
- ``plugin_methods``: the place of the stub that lists the methods of installed plugins for type checkers
"""

from datapipes.fluent.chained import operators_of
from datapipes.fluent.iter_methods import IterMethods
from datapipes.fluent.map_methods import MapMethods

__all__ = ["IterMethods", "MapMethods", "operators_of"]
