"""Import this module to use torchdata's names in the program and in processes that it starts (``old_names``)."""

from loader2.porting.old_names import old_names, switch_on

switch_on("torchdata")

__all__ = ["old_names"]
