"""``with old_names():`` runs a block of code under torchdata's names (``loader2.porting``)."""

from loader2.porting.old_names import old_names

__all__ = ["old_names"]
