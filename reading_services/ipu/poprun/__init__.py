"""The command ``poprun``, which starts several instances of a program: ``poprun --num-instances 2 python train.py``.

- ``__main__``: the same command, as a module
- ``arguments``: the command line of poprun, parsed
- ``launcher``: starts the instances with their environment, forwards signals, and returns the exit status
- ``output``: output of the instances, in whole lines with their prefixes
"""
