"""How frames travel between a producer and its consumer; what they mean is said in ``workers.protocol``.

``inline`` is the link between threads of one process, ``process`` the one between processes. Both keep the order of
frames and lose none.
"""

from __future__ import annotations

from typing import Protocol

from reading_services.workers.protocol import ToConsumer, ToProducer


class ProducerLink(Protocol):
    """The end of a link that a worker has."""

    def send(self, frame: ToConsumer) -> None:
        """Send a frame; BrokenPipeError if nobody is at the other end any more."""

    def receive(self, wait: bool = True) -> ToProducer | None:
        """The next frame; None if there is none yet and nobody wants to wait. EOFError if there will be none."""
