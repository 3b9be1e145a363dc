"""Worker processes and threads that make the elements of a graph, and the transport to the main process.

- ``process/``: worker processes: started, watched and ended
- ``transport/``: transport between a producer of elements and its consumer: protocol, frames, pipes, shared memory
- ``call_record``: the record of a worker's elements and calls under way, which can be read after the worker has died
- ``chunk_watch``: sends the elements of an unfinished chunk while the next element takes long
- ``cut``: a graph cut into the parts for workers, the dispatcher and the main process
- ``dispatched``: the stage of a worker that fetches the elements of the dispatcher
- ``dispatcher``: the loop of the dispatcher, which runs a part of the graph for all workers
- ``failures``: exceptions sent from one process to another, with remote tracebacks
- ``gather``: the stage in the main process that gathers the workers' elements, in a fixed order
- ``generators``: global random number generators, seeded, saved and restored
- ``pool``: the workers of one service on any host: started, waited for, replaced and ended
- ``worker_checks``: checks that a graph can run in workers, when the loader is made
- ``restarts``: replacements for workers that die: how many, and which element is to blame
- ``service``: base of the services with workers
- ``thread_host``: worker threads, as a host of a pool
- ``worker``: the worker loop, the same for processes and threads
"""
