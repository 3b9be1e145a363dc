"""The chain methods of pipes: a line for each operator, which has the signature, the docstring and the example.

To add an operator takes four places:

1. its file in ``datapipes/iter/`` (or ``datapipes/map/``), with a docstring that has an example;
2. its test: specimens in ``tests/specimens/``, which all laws are tried on, and what is its own;
3. its import in the catalogue, ``datapipes/iter/__init__.py`` (or ``datapipes/map/``);
4. its line in ``iter_methods`` (or ``map_methods``), ``name = chained(operators.Name)``, beside its kin. Overloads are
   written out there for an operator whose elements' type its constructor cannot say.

- ``called``: errors for arguments that a chain method does not take
- ``chained``: a method made of its operator, whose signature and docstring it has
- ``iter_methods``: the methods of an IterDataPipe, by topic
- ``map_methods``: the methods of a MapDataPipe
- ``plugin_methods``: where a stub tells type checkers of the methods that installed plugins add
"""

from datapipes.fluent.chained import operators_of
from datapipes.fluent.iter_methods import IterMethods
from datapipes.fluent.map_methods import MapMethods

__all__ = ["IterMethods", "MapMethods", "operators_of"]
