"""Number of IPUs of a model: its stages and chips, and the chip that this process holds.

Options may ask for a chip by number; one model of this process holds it at a time. There is no hardware.
"""

from __future__ import annotations

import os
from collections import defaultdict
from threading import Lock
from typing import Any

from reading_services.ipu.host.arithmetic import Batching
from reading_services.ipu.names import old_names
from reading_services.ipu.names.errors import Error
from reading_services.ipu.names.messages import logger
from reading_services.ipu.names.strategies import AutoStage, Block, ExecutionStrategy, PipelinedExecution
from reading_services.ipu.options import Options

MOST = 64
_CHIPS: defaultdict[int, Lock] = defaultdict(Lock)


def ipuHardwareIsAvailable(num_ipus: int = 1) -> bool:
    """Return whether a program may use this many IPUs: up to 64 under PopTorch's own names, else none.

    A simulated device is not hardware, but a program for PopTorch stops if this returns False.
    """
    return old_names.are_on() and num_ipus <= MOST


def ipuHardwareVersion() -> int:
    """Return the generation of the IPUs: 2 under PopTorch's own names, else 0, which means none."""
    return 2 if old_names.are_on() else 0


def stages_and_ipus(blocks: list[Block], strategy: ExecutionStrategy) -> tuple[int, int]:
    """Return the numbers of stages and chips of a model with these blocks.

    A block without a stage shares one with the other blocks of its chip, or has its own stage (``AutoIncrement``). Its
    chip is that of its stage, else its own, else the one with the number of its stage.

    >>> blocks = [Block("a", ipu_id=0), Block("b", ipu_id=1), Block("c", ipu_id=1)]
    >>> stages_and_ipus(blocks, PipelinedExecution()), stages_and_ipus(blocks, PipelinedExecution("a", "b", "c"))
    ((2, 2), (3, 2))
    """
    stages: list[tuple[str, object]] = []
    ipus: set[int] = set()
    for block in blocks:
        named = next((n for n, stage in enumerate(strategy.stages) if block.user_id in stage.blocks), None)
        key: tuple[str, Any] = ("ipu", block.ipu_id or 0)
        if named is not None:
            key = ("stage", named)
        elif strategy.auto == AutoStage.AutoIncrement:
            key = ("block", block.user_id or id(block))
        if key not in stages:
            stages.append(key)
        default = 0 if key[0] == "ipu" else named if named is not None else stages.index(key)
        ipu = block.ipu_id if named is None or strategy.stages[named].ipu_id is None else strategy.stages[named].ipu_id
        ipus.add(default if ipu is None else ipu)
    return max(len(stages), 1), max(len(ipus), 1)


def check_pipeline(options: Options, batching: Batching, stages: int, training: bool) -> None:
    """Raise Error if a pipeline would never be full."""
    if stages == 1 or not isinstance(options._execution_strategy, PipelinedExecution):
        return
    passes = 2 * stages - 1
    if training and batching.accumulation < passes:
        raise Error(
            "poptorch.Options().Training.gradientAccumulation must be greater than or equal to the number of pipeline "
            f"stages, forwards and backwards: it is {batching.accumulation}, and {stages} stages make {passes}"
        )
    if not training and batching.iterations < stages:
        raise Error(
            "poptorch.Options().deviceIterations must be greater than or equal to the number of pipeline stages: it is "
            f"{batching.iterations}, and there are {stages}"
        )


def check_number(options: Options, ipus: int, replicas: int) -> None:
    """Raise Error if this number of chips is not available: they come in powers of two."""
    number = ipus * replicas
    rounded = 1 << (number - 1).bit_length()
    if max(number, rounded if options.auto_round_num_ipus else 0) > MOST:
        raise Error(f"Too many IPUs requested: {ipus} for each of {replicas} replicas; there are at most {MOST}")
    if number == rounded:
        return
    if not options.auto_round_num_ipus:
        raise Error(
            f"{ipus} IPUs for each of {replicas} replicas are {number}, which is not a power of two: change "
            "one of them, or call poptorch.Options().autoRoundNumIPUs(True)"
        )
    logger.warning("%d IPUs are needed and %d are taken: they come in powers of two", number, rounded)


def chip(options: Options) -> Lock:
    """Take the chip that the options name by number, or a new one. ``release()`` of the result frees it."""
    held = _CHIPS[options.ipu_id] if options.exists("ipu_id") else Lock()
    if not held.acquire(blocking=os.environ.get("POPTORCH_WAIT_FOR_IPU", "0") not in ("", "0")):
        raise Error(
            f"Failed to acquire IPU {options.ipu_id}, which another model holds: detach or destroy that one, or set "
            "POPTORCH_WAIT_FOR_IPU=1 to wait for another thread"
        )
    return held
