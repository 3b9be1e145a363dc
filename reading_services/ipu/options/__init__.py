"""Options, and what their parts are set to: importable as ``poptorch.options``, too.

- ``distributed``: which of several processes this is
- ``environment``: environment variables, and errors that name them
- ``execution``: options
- ``files``: options from files and from JSON
- ``locations``: where tensors are kept
- ``popart``: settings for the backend, by any name
- ``precision``: precision, and the tracer's obsolete options
- ``stored``: those of its methods that change neither batches nor results
- ``training``: accumulation and reduction of gradients
- ``values``: named values that know their type and can be frozen
"""

from reading_services.ipu.names.errors import ConfigFileError
from reading_services.ipu.options.execution import Options
from reading_services.ipu.options.locations import TensorLocationSettings

__all__ = ["ConfigFileError", "Options", "TensorLocationSettings"]
