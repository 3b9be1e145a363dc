"""Worker processes: started, watched and ended.

- ``main``: main functions of worker and dispatcher processes
- ``members``: single processes: started, asked for stack traces, ended
- ``place``: worker processes, as a place where a pool has its members
"""
