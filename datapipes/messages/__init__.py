"""Errors and warnings as users read them: short values, places in code and in files.

- ``exception_copies``: exceptions taken apart and put together again
- ``extras``: optional packages, and what installs them
- ``file_errors``: errors that say which part of which file they are about
- ``interrupts``: Ctrl-C, with a traceback that ends in the user's code; and work that it waits for
- ``long_work``: long work on one file, told on stderr: hashing, saving, downloading
- ``short``: values as short texts, for reprs and errors
- ``stacks``: where a thread stands
- ``warnings``: warnings that point to the user's own line
- ``where``: source location of a function, ``name at file:line``
"""
