"""Worker processes: started, watched and ended.

- ``main``: main functions of worker and dispatcher processes
- ``members``: single processes: started, asked for stack traces, ended
- ``memory``: what the kernel tells of processes that it has ended because memory ran out
- ``pool``: the pool of processes of a service, started, watched and ended by one owner
"""
