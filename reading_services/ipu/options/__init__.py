"""Options and the values of their parts: importable as ``poptorch.options``, too.

- ``distributed``: number of this process among several
- ``execution``: options
- ``files``: options from files and from JSON
- ``stored``: options that the simulated device mostly ignores, with their setters
- ``values``: named values that have a type and can be frozen
"""

from reading_services.ipu.names.errors import ConfigFileError
from reading_services.ipu.options.execution import Options
from reading_services.ipu.options.stored import TensorLocationSettings

__all__ = ["ConfigFileError", "Options", "TensorLocationSettings"]
