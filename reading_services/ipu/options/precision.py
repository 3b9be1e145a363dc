"""Precision, and the obsolete options of the tracer. All of it is stored, none of it acted upon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from datapipes.errors import BadArgument
from reading_services.ipu.options.popart import _PopartOptions
from reading_services.ipu.options.values import OptionValues, Value

if TYPE_CHECKING:
    import torch


class _PrecisionOptions(OptionValues):
    """Types of intermediate results, and rounding."""

    _popart: _PopartOptions

    def __init__(self, popart: _PopartOptions) -> None:
        super().__init__()
        self.__dict__["_popart"] = popart

    def setPartialsType(self, dtype: torch.dtype) -> Self:
        """The type in which convolutions and matrix products sum up: ``torch.float`` or ``torch.half``."""
        words = {"torch.float32": "float", "torch.float16": "half"}
        if str(dtype) not in words:
            raise BadArgument(f"setPartialsType takes torch.float or torch.half, and not {dtype!r}")
        self._popart.set("partialsTypeMatMuls", words[str(dtype)])
        self._popart.merge("convolutionOptions", {"partialsType": words[str(dtype)]})
        return self

    def enableFloatingPointExceptions(self, enabled: bool) -> Self:
        """Whether overflow and NaN stop the device."""
        return self._keep("enableFloatingPointChecks", enabled)

    def enableStochasticRounding(self, enabled: bool) -> Self:
        """Whether rounding is by chance."""
        return self._keep("enableStochasticRounding", enabled)

    def runningStatisticsAlwaysFloat(self, enabled: bool) -> Self:
        """Whether running means and variances are kept in float32."""
        return self._keep("runningStatisticsAlwaysFloat", enabled)

    def _keep(self, key: str, enabled: bool) -> Self:
        if not isinstance(enabled, bool):
            raise BadArgument(f"{key} is True or False, and not {enabled!r}")
        self._popart.set(key, enabled)
        return self


class _JitOptions(OptionValues):
    """Obsolete: how a model was traced."""

    trace_model = Value(True)

    def traceModel(self, trace_model: bool) -> Self:
        """Kept, and not acted upon: there is one way in which models are run here."""
        return self.set(trace_model=trace_model)
