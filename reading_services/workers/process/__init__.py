"""Worker processes: started, watched and ended.

- ``main``: main functions of worker and dispatcher processes
- ``members``: single processes: started, asked for stack traces, ended
- ``memory``: what the kernel tells of processes that it has ended because memory ran out
- ``host``: worker processes, as a place where a pool has its members
- ``signals``: signals that a process is told to end by: held back while it starts, and handled by the library
"""
