"""Execution strategies: a model is cut into blocks and stages for several IPUs; a strategy orders the stages."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ContextDecorator, contextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeVar

from torch import nn

from datapipes.errors import BadArgument
from reading_services.ipu.names.errors import Error

M = TypeVar("M", bound=nn.Module)


class AutoStage(IntEnum):
    """Rule for the stages of blocks that no stage names."""

    SameAsIpu = 0
    AutoIncrement = 1


class _Entered(threading.local):
    """Blocks that the forward pass of this thread has entered. None unless ``entering`` collects them."""

    blocks: list[Block] | None = None
    ids: dict[Block, str] | None = None
    """Ids of blocks without one, after ``Block.useAutoId``."""


_entered = _Entered()


@contextmanager
def entering() -> Iterator[list[Block]]:
    """Collect the blocks that a forward pass enters."""
    _entered.blocks, _entered.ids = [], None
    try:
        yield _entered.blocks
    finally:
        _entered.blocks = _entered.ids = None


class Block(ContextDecorator):
    """Part of a model: ``with Block("B1", ipu_id=0): ...``, or ``Block.start("B1", ipu_id=0)``.

    As a decorator, it begins when the function is called. A block lasts until the next one begins.

    >>> @Block("decoder", ipu_id=1)
    ... def decoder(x):
    ...     return x + 1
    >>> decoder(1)
    2
    """

    def __init__(self, user_id: str | None = None, ipu_id: int | None = None) -> None:
        self.user_id = user_id
        self.ipu_id = ipu_id

    @staticmethod
    def start(user_id: str | None = None, ipu_id: int | None = None) -> None:
        """Begin a block here."""
        Block(user_id, ipu_id).__enter__()

    @staticmethod
    def useAutoId() -> None:
        """Give the blocks without an id in this forward pass the ids "0", "1" ..., so that stages can name them."""
        _entered.ids = {}

    def __enter__(self) -> Block:
        if _entered.blocks is not None:
            begun = self
            if self.user_id is None and _entered.ids is not None:
                begun = Block(_entered.ids.setdefault(self, str(len(_entered.ids))), self.ipu_id)
            _entered.blocks.append(begun)
        return self

    def __exit__(self, *error: object) -> None:
        pass


BlockFunction = Block
"""PopTorch's name of the decorator."""


def BeginBlock(layer_to_call: M, user_id: str | None = None, ipu_id: int | None = None) -> M:
    """Begin a block when a layer is called, and return the layer. The block lasts until the next one begins.

    >>> model = nn.Sequential(nn.Linear(1, 2), BeginBlock(nn.Linear(2, 1), "second", ipu_id=1))
    """
    if not isinstance(layer_to_call, nn.Module):
        raise BadArgument(f"BeginBlock takes a layer, an nn.Module, and not {layer_to_call!r}")
    if any(isinstance(hook, _Begin) for hook in layer_to_call._forward_pre_hooks.values()):
        raise Error("module has already been assigned to a block: call poptorch.removeBlocks on it first")
    layer_to_call.register_forward_pre_hook(_Begin(Block(user_id, ipu_id)))
    return layer_to_call


def removeBlocks(module: nn.Module) -> None:
    """Undo ``BeginBlock`` for a module and all modules in it."""
    for each in module.modules():
        for number, hook in list(each._forward_pre_hooks.items()):
            if isinstance(hook, _Begin):
                del each._forward_pre_hooks[number]


@dataclass(frozen=True)
class _Begin:
    """Hook that begins a block when its layer is called."""

    block: Block

    def __call__(self, layer: nn.Module, inputs: object) -> None:
        self.block.__enter__()


class Stage:
    """Blocks that run one after the other as one stage.

    >>> Stage("B1", "B2").ipu(1)
    Stage('B1', 'B2').ipu(1)
    """

    def __init__(self, *block_ids: str) -> None:
        self.blocks = block_ids
        self.ipu_id: int | None = None
        """The IPU of the stage; None if the strategy chooses it."""

    def ipu(self, ipu: int) -> Stage:
        """Assign the stage to the IPU of this number, and return the stage."""
        self.ipu_id = ipu
        return self

    def __repr__(self) -> str:
        where = "" if self.ipu_id is None else f".ipu({self.ipu_id})"
        return f"Stage({', '.join(map(repr, self.blocks))}){where}"


class ExecutionStrategy:
    """Base of pipelined and sharded execution: the stages, and a rule for blocks that are in none of them.

    Each argument is a stage, a block, or the name of a block, which becomes a stage of its own. An ``AutoStage`` can be
    the only argument.
    """

    _mode: int

    def __init__(self, *stages: Stage | Block | str | AutoStage) -> None:
        self.auto = AutoStage.SameAsIpu
        """The rule for blocks that are in no stage."""
        if len(stages) == 1 and isinstance(stages[0], AutoStage):
            self.auto, stages = stages[0], ()
        self.stages = tuple(map(self._stage, stages))
        """The stages in the order in which they run."""

    @staticmethod
    def _stage(given: Stage | Block | str | AutoStage) -> Stage:
        match given:
            case Stage():
                return given
            case str():
                return Stage(given)
            case Block(user_id=str(name)):
                return Stage(name) if given.ipu_id is None else Stage(name).ipu(given.ipu_id)
        raise BadArgument(f"{given!r} is not a stage: pass a Stage, a Block with a user_id, or the name of a block")

    def stage(self, block_id: str) -> Stage:
        """Return the stage of a block: ``options.setExecutionStrategy(s); s.stage("B1").ipu(0)``."""
        for stage in self.stages:
            if block_id in stage.blocks:
                return stage
        names = [name for stage in self.stages for name in stage.blocks]
        raise BadArgument(f"no stage has a block {block_id!r}; the blocks are {names}")

    def backendOptions(self) -> dict[str, Any]:
        """Return the options that the strategy adds to ``Options.toDict()``."""
        return {"execution_mode": self._mode}

    def __repr__(self) -> str:
        automatic = "" if self.auto == AutoStage.SameAsIpu else f"AutoStage.{self.auto.name}"
        return f"{type(self).__name__}({', '.join(map(repr, self.stages)) or automatic})"


class PipelinedExecution(ExecutionStrategy):
    """Execution in which each stage works on another micro-batch at the same time."""

    _mode = 0


class ShardedExecution(ExecutionStrategy):
    """Execution in which the stages work one after the other on the same micro-batch."""

    _mode = 1
