"""Transport between a producer of elements and its consumer: the protocol, its frames, and the links that carry them.

- ``arena``: shared memory of two processes, and the leases on it
- ``inline``: the link between two threads
- ``listener``: connections of processes that share a key, on one machine or on two
- ``packing``: elements pickled as bytes and out-of-band buffers, and back
- ``pipes``: non-blocking pipes for frames that are longer than the buffer of a pipe
- ``process``: the link between processes
- ``protocol``: the protocol of producer and consumer: a table and two state machines, without I/O
"""

from __future__ import annotations

from typing import Protocol

from reading_services.workers.transport.protocol import ToConsumer, ToProducer


class ProducerLink(Protocol):
    """A worker's end of a link."""

    def send(self, frame: ToConsumer) -> None:
        """Send a frame. Raise BrokenPipeError if the consumer is gone."""

    def receive(self, wait: bool = True) -> ToProducer | None:
        """Return the next frame, or None if there is none yet and ``wait`` is False. Raise EOFError at the end."""
