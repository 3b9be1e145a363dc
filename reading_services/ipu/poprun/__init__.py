"""The command ``poprun``, which starts several instances of a program: ``poprun --num-instances 2 python train.py``.

- ``__main__``: the same command, as a module
- ``arguments``: its command line
- ``launcher``: instances started, signals handed on, and the status at the end
- ``output``: what instances print, in whole lines with their prefixes
"""
