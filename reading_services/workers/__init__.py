"""Workers: processes or threads that make the elements of a graph, and how those get home.

- ``process/``: workers that are processes: begun, watched and ended
- ``transport/``: how a producer of elements and its consumer talk: the protocol, what is sent, and over what
- ``cut``: which part of a graph runs in workers, in the dispatcher, and at home
- ``dispatched``: in a worker, the stage in place of what one process runs for all
- ``dispatcher``: the loop of that process
- ``failures``: exceptions that cross from one process to another
- ``gather``: the stage at home that hands on the workers' elements, in one fixed order
- ``generators``: the global generators of random numbers, and where they are
- ``interrupts``: Ctrl-C while processes are started or ended
- ``kept_by_workers``: what users' classes keep from epoch to epoch, told by workers and to them
- ``portable``: whether a graph can run in workers, asked when the loader is made
- ``service``: what the services with workers have in common
- ``thread_pool``: the same for threads
- ``worker``: a worker's loop, the same for processes and threads
"""
