"""Ray as the engine: an actor for each member, which Ray places, watches and ends.

Ray must not restart or repeat anything here: it would begin at the first element. The main process decides which member
is replaced and from where. Elements do not go through Ray's object store (``docs/clusters.md`` says why, with figures).
"""

from __future__ import annotations

import math
import os
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final

from datapipes.errors import BadArgument
from datapipes.messages.warnings import warn
from reading_services.cluster.agent import agent
from reading_services.cluster.engine import Engine, ProcessEnd
from reading_services.workers.call_record import CallRecord
from reading_services.workers.process.members import exit_in_words

_WAIT_FOR_THE_HEAD: Final = "RAY_gcs_rpc_server_reconnect_timeout_s"
_LONG: Final = "3600"  # seconds; by default Ray ends a driver 60 seconds after the head of its cluster is lost
_OF_LOOPBACK: Final = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
_NO_STATISTICS: Final = "RAY_USAGE_STATS_ENABLED"
_STORE: Final = 100 << 20  # bytes of Ray's object store, which stays empty
_TO_ANSWER: Final = 5.0  # seconds for an actor to return its member's stack
_LONGEST: Final = 600  # characters of a message of Ray's

_lock = threading.Lock()
_users = 0  # engines of this process that use a Ray joined by one of them; 0: none has joined


class RayEngine(Engine):
    """Engine on Ray. It uses the Ray that this process has joined, or else joins one at ``address``.

    Args:
        address: ``"local"`` starts Ray on this machine, until no engine of this process uses it. Any other value is
            passed to ``ray.init(address=...)``.
        wanted: The resources of each member, by Ray's names.
        members: The largest number of members, for a Ray that is started here.
        runtime_env: Ray's ``runtime_env`` for each member. ``None``: nothing is sent along.
    """

    def __init__(
        self, address: str, wanted: Mapping[str, float], members: int, runtime_env: Mapping[str, Any] | None
    ) -> None:
        self._wanted = dict(wanted)
        options = {"num_cpus": 0, "scheduling_strategy": "SPREAD", **_options(self._wanted)}
        cpus = math.ceil(members * wanted.get("CPU", 0))
        self._ray, self._is_counted, is_new = _joined(address, cpus, dict(runtime_env or {}))
        if runtime_env and not is_new:
            options["runtime_env"] = dict(runtime_env)
        self._agent = self._ray.remote(max_restarts=0, max_task_retries=0, max_concurrency=2, **options)(agent())

    def here(self) -> tuple[str, str]:
        context = self._ray.get_runtime_context()
        return str(self._ray.util.get_node_ip_address()), str(context.get_node_id())

    def start(self, name: str, spec: dict[str, Any], ended: Callable[[ProcessEnd], None]) -> Any:
        unique = f"loader2 {name} of {socket.gethostname()} {os.getpid()}, {spec['member']}"
        actor = self._agent.options(name=unique).remote()

        def over(done: Future[Any]) -> None:
            try:
                ended(_end(done.result()))
            except Exception as error:  # any exception means that Ray has lost the actor
                ended(ProcessEnd(f"was lost: {_in_short(error)}"))

        actor.run.remote(spec).future().add_done_callback(over)
        return actor

    def stacks(self, process: Any) -> str:
        try:
            return str(self._ray.get(process.stacks.remote(), timeout=_TO_ANSWER))
        except Exception as error:
            return f"(its machine does not answer: {_in_short(error)})"

    def kill(self, process: Any) -> None:
        with suppress(self._ray.exceptions.RayError, ValueError, RuntimeError):  # process or cluster may have ended
            self._ray.kill(process, no_restart=True)

    def lacking(self) -> str:
        """Return the resources that each member needs, and those that are free."""
        try:
            free = {name: number for name, number in self._ray.available_resources().items() if name in self._wanted}
        except Exception as error:
            return f"the cluster does not answer: {_in_short(error)}"
        return f"each worker needs {self._wanted}, and of that the cluster has {free} free"

    def close(self) -> None:
        """Leave the Ray that was joined here, if no other engine uses it."""
        global _users
        with _lock:
            if self._is_counted:
                self._is_counted = False
                _users -= 1
                if not _users:
                    self._ray.shutdown()


def _joined(address: str, cpus: int, runtime_env: dict[str, Any]) -> tuple[Any, bool, bool]:
    """Return Ray, whether this engine counts as a user of a Ray joined here, and whether it was joined just now."""
    global _users
    with _lock:
        if "ray" not in sys.modules:
            os.environ.setdefault(_WAIT_FOR_THE_HEAD, _LONG)
            if address == "local":
                os.environ.setdefault(_OF_LOOPBACK, "0")  # listen on this machine only
                os.environ.setdefault(_NO_STATISTICS, "0")
        try:
            import ray
        except ImportError as error:
            raise BadArgument("RayReadingService needs Ray: pip install 'loader2[ray]'") from error
        if not os.environ.get(_WAIT_FOR_THE_HEAD):
            warn(
                "Ray ends this program 60 seconds after the head of its cluster is lost. For a training that continues "
                f"without it, set {_WAIT_FOR_THE_HEAD}={_LONG} in the environment before Ray is imported"
            )
        if ray.is_initialized():
            _users += 1 if _users else 0
            return ray, bool(_users), False
        alone = {"num_cpus": max(os.cpu_count() or 1, cpus), "include_dashboard": False, "object_store_memory": _STORE}
        ray.init(address=address, runtime_env=runtime_env or None, **alone if address == "local" else {})
        _users = 1
        return ray, True, True


def _options(wanted: Mapping[str, float]) -> dict[str, Any]:
    """Return resources by Ray's names as options of an actor."""
    known = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
    options: dict[str, Any] = {known[name]: number for name, number in wanted.items() if name in known}
    return options | {"resources": {name: number for name, number in wanted.items() if name not in known}}


def _end(ended: dict[str, Any]) -> ProcessEnd:
    if "missing" in ended:
        return ProcessEnd(f"could not be started: {ended['missing']}")
    how = exit_in_words(ended["code"])
    if ended["crash"]:
        how += f", and left this:\n{ended['crash']}\n"
    return ProcessEnd(how, CallRecord.in_bytes(ended["record"]))


def _in_short(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
