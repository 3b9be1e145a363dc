"""Programs that start with torch imported: importing it takes a second, in which most of them would be done.

An interpreter that has imported torch, and nothing else that a program might miss, waits for orders. For each it forks
a process that becomes the program: ``__main__``, arguments, folder and output are its own, and it ends as any program
does. What a program starts afresh, imports again.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from types import ModuleType

LEAVING = 60.0  # seconds in which a program that has taken too long may write down its stacks
STARTING = 300.0  # seconds for importing torch, by far


@dataclass(frozen=True)
class Ended:
    """How a program ended: its exit code, none if it had to be stopped, and what it said."""

    code: int | None
    out: str
    err: str


class Preloaded:
    """The interpreter that is forked."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._orders, theirs = socket.socketpair()
        self._orders.settimeout(STARTING)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                cwd=root,
                env={**os.environ, "PYTHONPATH": self._root},
                pass_fds=[theirs.fileno()],
            )

    def ran(
        self,
        program: Path,
        *arguments: str,
        cwd: Path,
        seconds: float,
        strict: bool = False,
        env: Mapping[str, str] | None = None,
    ) -> Ended:
        """Run a program to its end, ``strict`` with warnings as errors; then nothing of its session is left."""
        env = {**(os.environ if env is None else env), "PYTHONPATH": self._root}
        order = {"argv": [str(program), *arguments], "cwd": str(cwd), "strict": strict, "env": env}
        with TemporaryFile() as out, TemporaryFile() as err:  # a pipe would stay open as long as any child of it does
            socket.send_fds(self._orders, [json.dumps(order).encode() + b"\n"], [out.fileno(), err.fileno()])
            pid = self._told()
            if not (in_time := self._tells_within(seconds)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGABRT)  # its fault handler writes down the stacks of all threads
                self._tells_within(LEAVING)
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            code = self._told()
            said = [os.pread(file.fileno(), 1 << 20, 0).decode(errors="replace") for file in (out, err)]
        return Ended(code if in_time else None, *said)

    def _tells_within(self, seconds: float) -> bool:
        return bool(select.select([self._orders], [], [], seconds)[0])

    def _told(self) -> int:
        line = b""
        while not line.endswith(b"\n"):
            byte = self._orders.recv(1)
            assert byte, "the interpreter that is forked has ended"
            line += byte
        return int(line)

    def close(self) -> None:
        """End it, and a program that it still runs."""
        self._orders.close()
        try:
            self._process.wait(LEAVING)
        finally:
            self._process.kill()
            self._process.wait()


def serve(orders: socket.socket) -> None:
    """Fork programs as ordered, one after the other, until the process that orders them has ended."""
    importlib.import_module("torch")
    gc.freeze()  # so that no fork copies it to search it
    while True:
        text, output, *_ = socket.recv_fds(orders, 1 << 20, 2)
        if not text:
            return
        while not text.endswith(b"\n"):
            text += orders.recv(1 << 20)
        if (pid := os.fork()) == 0:
            orders.close()
            become(**json.loads(text), output=output)
            return
        for descriptor in output:
            os.close(descriptor)
        orders.sendall(b"%d\n" % pid)
        orders.sendall(b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def become(argv: list[str], cwd: str, strict: bool, env: dict[str, str], output: list[int]) -> None:
    """Run a program in this process, as if it had been started with it."""
    os.setsid()
    for descriptor, standard in zip([os.open(os.devnull, os.O_RDONLY), *output], (0, 1, 2), strict=True):
        os.dup2(descriptor, standard)
        os.close(descriptor)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    faulthandler.enable()
    sys.argv, sys.path[0] = argv, str(Path(argv[0]).parent)
    if strict:
        sys.warnoptions.append("error")
        warnings.simplefilter("error")
    main = ModuleType("__main__")
    main.__file__ = argv[0]
    sys.modules["__main__"] = main
    exec(compile(Path(argv[0]).read_bytes(), argv[0], "exec"), main.__dict__)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
