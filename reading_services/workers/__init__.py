"""Worker processes and threads that make the elements of a graph, and how those get home.

- ``process/``: worker processes: started, watched and ended
- ``transport/``: transport between a producer of elements and its consumer: protocol, messages, pipes, shared memory
- ``at_work``: what a worker is at work on, written where it can be read once the worker is dead
- ``chunk_watch``: sends what is there of a chunk while its next element takes long
- ``cut``: a graph cut into the parts for workers, the dispatcher and home
- ``dispatched``: the stage that, in a worker, fetches the elements that the dispatcher makes for all
- ``dispatcher``: the dispatcher's loop, a part of the graph run once for all workers
- ``failures``: exceptions sent from one process to another, with remote tracebacks
- ``gather``: the stage at home that gathers the workers' elements, in one fixed order
- ``generators``: global random number generators, seeded, saved and restored
- ``pool``: the workers of one service, wherever they run: started, told, waited for, replaced, ended
- ``portable``: a check that a graph can run in workers, when the loader is made
- ``restarts``: workers that die, and are replaced: how often, and which element is to blame
- ``service``: base of the services with workers
- ``thread_place``: worker threads, as a place where a pool has its members
- ``worker``: the worker loop, the same for processes and threads
"""
