"""Transport between a producer of elements and its consumer: the protocol, what is sent, and over what.

- ``arena``: shared memory of two processes, and the leases on it
- ``inline``: the link between threads
- ``meeting``: connections of processes that share a key, on one machine or on two
- ``packing``: elements pickled as bytes and out-of-band buffers, and back
- ``pipes``: non-blocking pipes for messages longer than a pipe holds
- ``process``: the link between processes
- ``protocol``: the protocol of producer and consumer: a table and two state machines, without any I/O
"""

from __future__ import annotations

from typing import Protocol

from reading_services.workers.transport.protocol import ToConsumer, ToProducer


class ProducerLink(Protocol):
    """The end of a link that a worker has."""

    def send(self, frame: ToConsumer) -> None:
        """Send a message; BrokenPipeError if nobody is at the other end any more."""

    def receive(self, wait: bool = True) -> ToProducer | None:
        """The next message; None if there is none yet and nobody wants to wait. EOFError if there will be none."""
