"""Importing this module switches torchdata's names on, for the program and the processes it starts (``old_names``)."""

from loader2.old_names import old_names, switch_on

switch_on("torchdata")

__all__ = ["old_names"]
