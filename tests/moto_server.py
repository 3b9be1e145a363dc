"""A moto server in a process of its own: s3 for tests."""

from __future__ import annotations

import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 300  # seconds
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "hush", "AWS_DEFAULT_REGION": "us-east-1"}
MOTO = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()  # up to the end of the test, or of the process that runs it
server.stop()
"""


@contextmanager
def moto_server() -> Iterator[str]:
    """Start a moto server, give its URL and end it."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, "-c", MOTO], **pipes) as process:  # type: ignore[call-overload]  # of a dict
        try:
            poll = select.poll()
            poll.register(process.stdout, select.POLLIN)
            assert poll.poll(PATIENCE * 1000), "moto did not start"
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
            process.stdin.close()
            process.wait(PATIENCE)
        finally:
            process.kill()
