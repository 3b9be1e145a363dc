"""Methods of torchdata's stages that ran a thread, which its reading services called around an epoch.

A pipe here runs nothing: threads belong to a session, and end with it. The methods are there for services and tests of
users that call them, and do nothing.
"""


class Pausable:
    """Stages with ``pause``, ``resume`` and ``shutdown``, beside the ``reset`` that all pipes have.

    >>> from datapipes.iter import IterableWrapper
    >>> ahead = IterableWrapper([1, 2]).prefetch()
    >>> ahead.pause()
    >>> list(ahead)
    [1, 2]
    """

    def pause(self) -> None:
        """Do nothing: a session pauses by not being asked for elements."""

    def resume(self) -> None:
        """Do nothing: a session goes on when it is asked for an element."""

    def shutdown(self) -> None:
        """Do nothing: a session's threads end when it is closed."""
