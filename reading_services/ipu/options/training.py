"""Accumulation and reduction of gradients."""

from __future__ import annotations

from typing import Self

from datapipes.errors import BadArgument
from reading_services.ipu.names.enums import MeanReductionStrategy, ReductionType
from reading_services.ipu.options.popart import _PopartOptions
from reading_services.ipu.options.values import OptionValues, Value


class _TrainingOptions(OptionValues):
    """How micro-batches become one weight update."""

    _popart: _PopartOptions

    gradient_accumulation = Value(1, at_least=1)
    accumulation_and_replication_reduction_type = Value(ReductionType.Mean)
    meanAccumulationAndReplicationReductionStrategy = Value(MeanReductionStrategy.Post)

    def __init__(self, popart: _PopartOptions) -> None:
        super().__init__()
        self.__dict__["_popart"] = popart

    def gradientAccumulation(self, gradient_accumulation: int) -> Self:
        """Number of micro-batches that one weight update sums up the gradients of.

        >>> from reading_services.ipu import Options
        >>> Options().Training.gradientAccumulation(4).gradient_accumulation
        4
        """
        return self.set(gradient_accumulation=gradient_accumulation)

    def accumulationAndReplicationReductionType(self, reduction_type: ReductionType) -> Self:
        """Whether gradients of accumulation steps and replicas are averaged (``Mean``) or summed (``Sum``)."""
        self.checkIsFrozen()
        if reduction_type not in (ReductionType.Mean, ReductionType.Sum) or not isinstance(
            reduction_type, ReductionType
        ):
            raise BadArgument(
                "accumulationAndReplicationReductionType must be set to poptorch.ReductionType.Mean or "
                f"poptorch.ReductionType.Sum, and not to {reduction_type!r}"
            )
        return self.set(accumulation_and_replication_reduction_type=reduction_type)

    def setMeanAccumulationAndReplicationReductionStrategy(self, strategy: MeanReductionStrategy) -> Self:
        """When a mean is divided; it makes a difference to rounding only."""
        return self.set(meanAccumulationAndReplicationReductionStrategy=strategy)

    def setAutomaticLossScaling(self, enabled: bool) -> Self:
        """Kept, and not acted upon."""
        self._popart.set("automaticLossScalingSettings.enabled", enabled)
        return self

    def setConvolutionDithering(self, enabled: bool) -> Self:
        """Kept, and not acted upon."""
        self._popart.merge("convolutionOptions", {"enableConvolutionDithering": str(enabled).lower()})
        return self
