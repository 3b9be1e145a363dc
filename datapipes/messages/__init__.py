"""Errors and warnings as users read them: short values, places in code and in files.

- ``daemon_threads``: threads for calls that may wait longer than their caller may
- ``exception_copies``: exceptions taken apart and rebuilt
- ``extras``: optional packages, and the command that installs them
- ``file_errors``: errors that name the file and the position in it
- ``interrupts``: Ctrl-C, with a traceback that ends in the user's code; work that it must not interrupt
- ``long_work``: progress of long work on one file, on stderr: hashing, saving, downloading
- ``short``: values as short texts, for reprs and errors
- ``stacks``: the stack of a thread as text
- ``switches``: environment variables that a pool of workers sends to its processes
- ``warnings``: warnings that point to the user's own line
- ``where``: source location of a function, ``name at file:line``
"""
