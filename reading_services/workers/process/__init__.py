"""Workers that are processes: begun, watched and ended.

- ``main``: what happens in such a process around its loop
- ``members``: processes one by one: begun, asked where they stand, ended
- ``pool``: all processes of a service, started, watched and ended by one owner
"""
