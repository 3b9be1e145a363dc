"""Options of loader and device, and the values of their parts: importable as ``poptorch.options``, too.

- ``distributed``: number of this process among several
- ``environment``: environment variables, and errors that name them
- ``execution``: Options, the class
- ``files``: options from files and from JSON
- ``locations``: locations of tensors on the hardware
- ``popart``: settings for the backend, by any name
- ``precision``: precision, and the tracer's obsolete options
- ``stored``: options for caching, logs and profiles, which change neither batches nor results
- ``training``: accumulation and reduction of gradients
- ``values``: typed options that can be frozen
"""

from reading_services.ipu.names.errors import ConfigFileError
from reading_services.ipu.options.execution import Options
from reading_services.ipu.options.locations import TensorLocationSettings

__all__ = ["ConfigFileError", "Options", "TensorLocationSettings"]
