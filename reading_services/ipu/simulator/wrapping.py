"""``trainingModel`` and ``inferenceModel``: how a model gets onto the device."""

from __future__ import annotations

import torch
from torch import nn
from torch.optim import Optimizer

from reading_services.ipu.names.enums import MeanReductionStrategy, OutputMode
from reading_services.ipu.names.errors import Error
from reading_services.ipu.names.strategies import PipelinedExecution
from reading_services.ipu.options import Options
from reading_services.ipu.simulator.executor import PoplarExecutor, refuse_wrapped
from reading_services.ipu.simulator.optimisers import Snapshot


def trainingModel(
    model: nn.Module | PoplarExecutor, options: Options | None = None, optimizer: Optimizer | None = None
) -> PoplarExecutor:
    """An executor whose calls train the model: one step of the optimiser for each device iteration.

    Its parameters stay the user's, and show what was trained whenever they are looked at. Without an optimiser it is
    SGD with a learning rate of 0.01.

    >>> from torch.nn.functional import mse_loss
    >>> class Line(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.slope = nn.Parameter(torch.zeros(()))
    ...     def forward(self, x, y):
    ...         return mse_loss(self.slope * x, y)
    >>> line = Line()
    >>> training = trainingModel(line, Options().deviceIterations(4))
    >>> x = torch.ones(8)
    >>> loss = training(x, 2 * x)  # four updates of two rows each
    >>> loss.shape, line.slope.item()
    (torch.Size([]), 0.155...)
    """
    user_model, chosen = _model(model), _options(options)
    refuse_wrapped(user_model)
    if optimizer is None:
        optimizer = torch.optim.SGD(user_model.parameters(), lr=0.01)
    snapshot = Snapshot.of(optimizer)
    own = _own(chosen, OutputMode.Final)
    if snapshot.runs_mean:
        own.Training.setMeanAccumulationAndReplicationReductionStrategy(MeanReductionStrategy.Running)
    own._freeze()
    return PoplarExecutor(user_model, own, snapshot)


def inferenceModel(model: nn.Module | PoplarExecutor, options: Options | None = None) -> PoplarExecutor:
    """An executor whose calls run the model; there may be any number of them for one model.

    >>> double = inferenceModel(nn.Upsample(scale_factor=2), Options().deviceIterations(2))
    >>> double(torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]])).tolist()
    [[[1.0, 1.0, 2.0, 2.0]], [[3.0, 3.0, 4.0, 4.0]]]
    """
    user_model, chosen = _model(model), _options(options)
    if chosen.Training.gradient_accumulation != 1:
        hint = ""
        if isinstance(chosen._execution_strategy, PipelinedExecution):
            hint = "; to keep a pipeline full in inference, use poptorch.Options().deviceIterations instead"
        raise Error(f"You must set poptorch.Options().Training.gradientAccumulation to 1 for inference{hint}")
    own = _own(chosen, OutputMode.All)
    own._freeze()
    return PoplarExecutor(user_model, own, None)


def _own(options: Options, mode: OutputMode) -> Options:
    """The executor's own options; the user's are frozen, so that the two cannot come to differ."""
    own = options.clone()
    if own.defaultOutputMode():
        own.outputMode(mode)
    options._freeze()
    return own


def _model(model: nn.Module | PoplarExecutor) -> nn.Module:
    user_model = model.model if isinstance(model, PoplarExecutor) else model
    if not isinstance(user_model, nn.Module):
        raise Error(f"Invalid type: 'model' is {type(model).__name__}. Expected torch.nn.Module")
    return user_model


def _options(options: Options | None) -> Options:
    if options is not None and not isinstance(options, Options):
        raise Error(f"Invalid type: 'options' is {type(options).__name__}. Expected poptorch.Options")
    return Options() if options is None else options
