"""The command ``poprun``, which starts several instances of a program: ``poprun --num-instances 2 python train.py``.

- ``__main__``: the same command, as a module
- ``arguments``: poprun's command line, parsed
- ``launcher``: instances started with their environment, signals handed on, and the status at the end
- ``output``: output of the instances, in whole lines with their prefixes
"""
