"""Whether PopTorch's own names are switched on, and what passes only then.

PopTorch's documents have programs that it refuses itself today. Under its own names (``loader2.old_names``) they run,
with a warning for each thing that is let pass; ``import reading_services.ipu`` refuses them, as PopTorch does.
"""

from reading_services.ipu.names.messages import logger

_on = False


def switch(on: bool) -> None:
    """Say whether the program uses PopTorch's own names from now on."""
    global _on  # a process has one table of modules, in which the names are or are not
    _on = on


def are_on() -> bool:
    """Return whether the program uses PopTorch's own names."""
    return _on


def let_pass(what: str) -> bool:
    """Return whether something passes that is refused otherwise; if it does, log a warning that says what."""
    if _on:
        logger.warning("%s. PopTorch refuses this now, and so does `import reading_services.ipu`", what)
    return _on
