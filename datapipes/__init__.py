"""What a stream is: a graph of pipes, and one position in it.

``datapipes.iter`` and ``datapipes.map`` hold the pipes, ``datapipes.graph`` what works on graphs of them.
"""

from datapipes import errors, graph, in_torch, iter, map
from datapipes.chunk import DataChunk
from datapipes.determinism import guaranteed_datapipes_determinism, non_deterministic
from datapipes.iter.files.routed_decode import basichandlers
from datapipes.iterator import iterate
from datapipes.on_error import SKIP, OnError
from datapipes.pinning import pin_memory_fn
from datapipes.pipe import functional_datapipe
from datapipes.streams import StreamWrapper, janitor
from datapipes.validation import argument_validation, runtime_validation, runtime_validation_disabled

in_torch.lend_methods()
in_torch.lend_traversal()

__all__ = [
    "SKIP",
    "DataChunk",
    "OnError",
    "StreamWrapper",
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
