"""When a graph is iterated: epochs, seeds, saving and resuming."""

from loader2 import adapters, graph, random, state
from loader2.iteration import DataLoader2Iterator
from loader2.loader import DataLoader2

__version__ = "0.1.0.dev0"
"""The one place where the number stands; the build reads it here."""

__all__ = ["DataLoader2", "DataLoader2Iterator", "adapters", "graph", "random", "state", "__version__"]
