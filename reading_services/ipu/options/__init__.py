"""Options, and what their parts are set to: importable as ``poptorch.options``, too.

- ``distributed``: which of several processes this is
- ``execution``: options
- ``files``: options from files and from JSON
- ``stored``: the table of options that hardly anybody here acts upon, and of their setters
- ``values``: named values that know their type and can be frozen
"""

from reading_services.ipu.names.errors import ConfigFileError
from reading_services.ipu.options.execution import Options
from reading_services.ipu.options.stored import TensorLocationSettings

__all__ = ["ConfigFileError", "Options", "TensorLocationSettings"]
