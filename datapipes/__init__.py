"""What a stream is: a graph of pipes, and one position in it.

``datapipes.iter`` and ``datapipes.map`` hold the pipes, ``datapipes.graph`` what works on graphs of them.

- ``converting/``: pipes of one kind as pipes of the other: a collection as a stream, a stream as a collection
- ``description/``: a graph as a value: what one stage is, which stages are its parents, how it prints, copies and
  pickles
- ``elements/``: elements of a stream as bytes that can be loaded without running code
- ``errors/``: every error of the three packages, one tree
- ``fluent/``: the chain methods of pipes: a line for each operator, which has the signature and the docstring
- ``graph/``: work on graphs of pipes: torchdata's functions, and the pure ones that this library uses itself
- ``io/``: bytes from archives and from elsewhere: what operators on files are made of
- ``iter/``: the pipes over streams: import them from here
- ``map/``: the pipes over collections with keys: import them from here
- ``memory/``: memory of batches: where it comes from, who has it on loan, and pinning
- ``messages/``: errors and warnings as users read them: short values, places in code and in files
- ``operators/``: what operators are made of: checks, columns, flattening, running ahead, orders
- ``parts/``: who has which part of a stream: shards, and the rank of this process
- ``position/``: where an iteration is: sessions, positions of stages, seeds, users' classes, errors on the way
- ``ranks/``: how the ranks of a process group keep in step: who they are, a tree of sockets, and what is said over it
- ``rewriting/``: what a graph becomes for a run: shards read by position, batches gathered at once
"""

from datapipes import errors, graph, iter, map
from datapipes.description.pipe import functional_datapipe
from datapipes.elements.chunk import DataChunk
from datapipes.elements.classes import allow
from datapipes.elements.streams import StreamWrapper, janitor
from datapipes.graph import torch_interop
from datapipes.graph.determinism import guaranteed_datapipes_determinism, non_deterministic
from datapipes.graph.validation import argument_validation, runtime_validation, runtime_validation_disabled
from datapipes.io.remote.transfer import Transfer
from datapipes.iter.formats.routed_decode import basichandlers
from datapipes.memory.pinning import pin_memory_fn
from datapipes.position.cells import Cell
from datapipes.position.iterator import iterate
from datapipes.position.on_error import SKIP, OnError
from datapipes.position.opening import Opening

torch_interop.lend_methods()
torch_interop.lend_traversal()

__all__ = [
    "SKIP",
    "Cell",
    "DataChunk",
    "OnError",
    "Opening",
    "StreamWrapper",
    "Transfer",
    "allow",
    "argument_validation",
    "basichandlers",
    "errors",
    "functional_datapipe",
    "graph",
    "guaranteed_datapipes_determinism",
    "iter",
    "iterate",
    "janitor",
    "map",
    "non_deterministic",
    "pin_memory_fn",
    "runtime_validation",
    "runtime_validation_disabled",
]
