"""How a producer of elements and its consumer talk: the protocol, what is sent, and over what.

- ``arena``: memory that two processes share, and the leases on it
- ``inline``: the link between threads
- ``packing``: elements as bytes and buffers, and back
- ``pipes``: messages over pipes that hold less than a message, without a wait
- ``process``: the link between processes
- ``protocol``: who may say what when: a table and two state machines, without any I/O
"""

from __future__ import annotations

from typing import Protocol

from reading_services.workers.transport.protocol import ToConsumer, ToProducer


class ProducerLink(Protocol):
    """The end of a link that a worker has."""

    def send(self, frame: ToConsumer) -> None:
        """Send a frame; BrokenPipeError if nobody is at the other end any more."""

    def receive(self, wait: bool = True) -> ToProducer | None:
        """The next frame; None if there is none yet and nobody wants to wait. EOFError if there will be none."""
