"""Data pipelines: a graph of pipes that describes a stream, and the position in it while it is iterated.

``datapipes.iter`` and ``datapipes.map`` contain the pipes, and ``datapipes.graph`` the functions on graphs of them.

- ``converting/``: conversion of pipes: a collection as a stream, a stream as a collection
- ``description/``: pipes and graphs as values: their attributes, inputs, repr, copies and pickles
- ``elements/``: serialization of elements to bytes that can be loaded without running code
- ``errors/``: the exception classes of the three packages, one tree
- ``fluent/``: the chain methods of pipes: one line for each operator, with its signature and docstring
- ``graph/``: functions on graphs of pipes: torchdata's, and the pure ones of this library
- ``io/``: reading archives and remote files, for the operators on files
- ``iter/``: the operators on streams: import them from here
- ``map/``: the operators on collections with keys: import them from here
- ``memory/``: memory of batches: allocation, leases, pinning, and moving to a device
- ``messages/``: errors and warnings for users: short values, places in code and in files
- ``operator_support/``: parts of operators: checks, columns, flattening, running ahead, random orders, windows
- ``sharding/``: sharding of a stream, and the rank of this process
- ``position/``: the position in a graph: sessions, cells of stages, seeds, users' classes, error policies
- ``ranks/``: synchronization of the ranks of a process group, independent of the transport
- ``rewriting/``: rewriting a graph for a run: shards read by position, batches gathered at once
"""

from datapipes.description.exports import lazy_imports
from datapipes.graph import torch_interop, torch_loader

with lazy_imports(__name__):
    from datapipes import errors as errors
    from datapipes import graph as graph
    from datapipes import iter as iter
    from datapipes import map as map
    from datapipes.description.pipe import functional_datapipe as functional_datapipe
    from datapipes.elements.chunk import DataChunk as DataChunk
    from datapipes.elements.classes import allow as allow
    from datapipes.elements.streams import StreamWrapper as StreamWrapper
    from datapipes.elements.streams import janitor as janitor
    from datapipes.graph.validation import argument_validation as argument_validation
    from datapipes.graph.validation import guaranteed_datapipes_determinism as guaranteed_datapipes_determinism
    from datapipes.graph.validation import non_deterministic as non_deterministic
    from datapipes.graph.validation import runtime_validation as runtime_validation
    from datapipes.graph.validation import runtime_validation_disabled as runtime_validation_disabled
    from datapipes.io.remote.transfer import Transfer as Transfer
    from datapipes.iter.formats.routed_decode import basichandlers as basichandlers
    from datapipes.memory.pinning import pin_memory_fn as pin_memory_fn
    from datapipes.messages.long_work import show_work as show_work
    from datapipes.position.cells import Cell as Cell
    from datapipes.position.iterator import iterate as iterate
    from datapipes.position.on_error import SKIP as SKIP
    from datapipes.position.on_error import OnError as OnError
    from datapipes.position.opening import Opening as Opening

torch_interop.lend_methods()
torch_interop.lend_traversal()
torch_loader.lend_shuffling_and_lengths()
torch_loader.lend_epochs()
