"""Locations of tensors on the hardware. All of it is stored, none of it acted upon."""

from __future__ import annotations

from typing import Any, Self

from datapipes.errors import BadArgument
from reading_services.ipu.options.values import OptionValues, settled


class TensorLocationSettings:
    """Location of one kind of tensor.

    >>> TensorLocationSettings().useOnChipStorage(False).minElementsForOffChip(100)
    TensorLocationSettings(minElementsForOffChip=100, onChip=False)
    """

    def __init__(self, **kwargs: Any) -> None:
        self._kept: dict[str, Any] = dict(kwargs)

    def minElementsForOffChip(self, min_elements: int) -> Self:
        """The least number of elements of a tensor that is kept off the chip."""
        return self._keep("minElementsForOffChip", int, min_elements)

    def minElementsForReplicatedTensorSharding(self, min_elements: int) -> Self:
        """The least number of elements of a tensor that replicas share among them."""
        return self._keep("minElementsForReplicatedTensorSharding", int, min_elements)

    def useOnChipStorage(self, use: bool = True) -> Self:
        """Whether tensors are kept in the chip's own memory."""
        return self._keep("onChip", bool, use)

    def useReplicatedTensorSharding(self, use: bool = True) -> Self:
        """Whether replicas share tensors among them."""
        return self._keep("useReplicatedTensorSharding", bool, use)

    def useIOTilesToLoad(self, use: bool = True) -> Self:
        """Whether tiles for input and output load the tensors."""
        return self._keep("useIOTilesToLoad", bool, use)

    def useIOTilesToStore(self, use: bool = True) -> Self:
        """Whether tiles for input and output store the tensors."""
        return self._keep("useIOTilesToStore", bool, use)

    def toDict(self) -> dict[str, Any]:
        """The settings made so far."""
        return dict(self._kept)

    def _keep(self, name: str, kind: type, value: Any) -> Self:
        if not isinstance(value, kind):
            raise BadArgument(f"{name} has to be of {kind}, and not {value!r}")
        self._kept[name] = value
        return self

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={settled(value)}" for name, value in sorted(self._kept.items()))
        return f"{type(self).__name__}({shown})"


class _TensorLocationOptions(OptionValues):
    """Locations of weights, activations and the optimiser's tensors."""

    def numIOTiles(self, num_tiles: int) -> Self:
        """Number of tiles that do input and output and nothing else."""
        if not isinstance(num_tiles, int) or num_tiles not in range(32, 193, 2):
            raise BadArgument("numIOTiles must be an even number between 32 and 192.")
        return self.createOrSet(numIOTiles=num_tiles)

    def setActivationLocation(self, location: TensorLocationSettings) -> Self:
        """Location of activations."""
        return self._keep("location_activation", location)

    def setWeightLocation(self, location: TensorLocationSettings) -> Self:
        """Location of weights."""
        return self._keep("location_weight", location)

    def setOptimizerLocation(self, location: TensorLocationSettings) -> Self:
        """Location of the optimiser's state."""
        return self._keep("location_optimizer", location)

    def setAccumulatorLocation(self, location: TensorLocationSettings) -> Self:
        """Location of sums of gradients."""
        return self._keep("location_accumulator", location)

    def _keep(self, name: str, location: TensorLocationSettings) -> Self:
        if not isinstance(location, TensorLocationSettings):
            raise BadArgument(f"a location is a poptorch.TensorLocationSettings, and not {location!r}")
        return self.createOrSet(**{name: location.toDict()})
