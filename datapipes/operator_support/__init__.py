"""Building blocks of operators: checks, columns, flattening, running ahead, random orders, calls in threads, windows.

- ``ahead``: run an iterator ahead in a thread
- ``checks``: checks of arguments, made when a graph is built
- ``columns``: ``input_col`` and ``output_col``: a function of some columns of an element
- ``flattening``: stages that turn one element into many, and their position
- ``random_order``: a permutation of any length, draws, seeds and switches of random stages
- ``task_queue``: a queue of calls in threads, one for each element, and its position
- ``windows``: the number of windows of a size and a step in a stream
"""
