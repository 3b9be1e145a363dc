"""Switch for PopTorch's own names, and the calls that are accepted only under these names.

PopTorch's documents have programs that PopTorch itself refuses today. Under its own names (``loader2.old_names``) they
run, with a warning for each accepted call. ``import reading_services.ipu`` refuses them, as PopTorch does.
"""

from reading_services.ipu.names.messages import logger

_on = False


def switch(on: bool) -> None:
    """Set whether the program uses PopTorch's own names from now on."""
    global _on  # the names are in the process's one table of modules, or are not
    _on = on


def are_on() -> bool:
    """Return whether the program uses PopTorch's own names."""
    return _on


def let_pass(what: str) -> bool:
    """Return whether a call is accepted that is otherwise refused. If it is, log a warning with the text ``what``."""
    if _on:
        logger.warning("%s. PopTorch refuses this now, and so does `import reading_services.ipu`", what)
    return _on
