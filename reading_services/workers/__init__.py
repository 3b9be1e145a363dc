"""Workers: processes or threads that make the elements of a graph, and how those get home."""
