"""Methods that torchdata's stages with threads had, and that its reading services called around an epoch.

A pipe here runs nothing: threads belong to a session, and end with it. The methods exist for users' services and tests
that call them, and do nothing.
"""


class Pausable:
    """Base of stages with ``pause``, ``resume`` and ``shutdown``, beside the ``reset`` of all pipes.

    >>> from datapipes.iter import IterableWrapper
    >>> ahead = IterableWrapper([1, 2]).prefetch()
    >>> ahead.pause()
    >>> list(ahead)
    [1, 2]
    """

    def pause(self) -> None:
        """Do nothing: a session pauses when no element is requested."""

    def resume(self) -> None:
        """Do nothing: a session continues when an element is requested."""

    def shutdown(self) -> None:
        """Do nothing: a session's threads end when it is closed."""
