"""Options, and what their parts are set to: importable as ``poptorch.options``, too."""

from reading_services.ipu.errors import ConfigFileError
from reading_services.ipu.options.execution import Options
from reading_services.ipu.options.locations import TensorLocationSettings

__all__ = ["ConfigFileError", "Options", "TensorLocationSettings"]
