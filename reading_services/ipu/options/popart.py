"""Settings for the backend: a dictionary that takes any key. All of them are kept, few are acted upon."""

from __future__ import annotations

from typing import Any, Self

from reading_services.ipu.options.values import OptionValues


class _PopartOptions(OptionValues):
    """Settings by the backend's own names."""

    def __init__(self) -> None:
        super().__init__()
        self._values.update(instrumentWithHardwareCycleCounter=False, rearrangeAnchorsOnHost=False)

    @property
    def options(self) -> dict[str, Any]:
        """The settings themselves."""
        return self._values

    # Its own form of what Values has: a key with its value.
    def set(self, key: str, value: Any) -> Self:  # type: ignore[override]
        """Set one setting, whether or not it was there.

        >>> from reading_services.ipu import Options
        >>> Options()._Popart.set("defaultPrefetchBufferingDepth", 2).options["defaultPrefetchBufferingDepth"]
        2
        """
        return self.createOrSet(**{key: value})

    def createOrSet(self, **values: Any) -> Self:
        """Set several settings, of any type."""
        self.checkIsFrozen()
        self._values.update(values)
        return self

    def merge(self, key: str, settings: dict[str, Any]) -> Self:
        """Add to the dictionary that a setting is."""
        return self.set(key, {**self._values.get(key, {}), **settings})

    def setEngineOptions(self, engine_options: dict[str, Any]) -> Self:
        """Options for the engine; those set before stay."""
        return self.merge("engineOptions", engine_options)

    def setPatterns(self, patterns: dict[str, Any], level: int = 2) -> Self:
        """Patterns that the compiler may use, on top of those of a level."""
        return self.createOrSet(patterns=dict(patterns), patterns_level=level)
