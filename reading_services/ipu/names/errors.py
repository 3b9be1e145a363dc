"""Errors of the IPU side that PopTorch's users catch by name.

PopTorch's assertions are a ``datapipes.errors.BadArgument`` here, which is an ``AssertionError`` and a ``ValueError``.
"""

from datapipes.errors import Loader2Error


class Error(Loader2Error):
    """Error of PopTorch's Python layer. ``str()`` shows the type in quotes, then the message.

    >>> print(Error("Zero-sized tensors are unsupported"))
    'poptorch_py_error': Zero-sized tensors are unsupported
    """

    type: str = "poptorch_py_error"
    location: str = ""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return f"'{self.type}': {self.message}"


class RecoverableError(Error):
    """Error with advice for a recovery in ``recovery_action``."""

    def __init__(self, message: str, recovery_action: str = "") -> None:
        super().__init__(message)
        self.recovery_action = recovery_action


class UnrecoverableError(Error):
    """Error after which the device cannot be used any more."""


class ConfigFileError(Loader2Error):
    """Error for a line in a file of options that is not a call of an option. It names the file and the line."""
