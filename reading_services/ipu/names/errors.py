"""The errors of the IPU side that PopTorch's users catch by name.

What PopTorch asserts is a ``datapipes.errors.BadArgument`` here, which is an ``AssertionError`` and a ``ValueError``.
"""

from datapipes.errors import Loader2Error


class Error(Loader2Error):
    """The error that PopTorch's Python layer raises: ``str()`` shows the type in quotes, then the message.

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
    """An error after which ``recovery_action`` says what would help."""

    def __init__(self, message: str, recovery_action: str = "") -> None:
        super().__init__(message)
        self.recovery_action = recovery_action


class UnrecoverableError(Error):
    """An error after which the device cannot be used any more."""


class ConfigFileError(Loader2Error):
    """A file of options with a line that is no call of an option; names the file and the line."""
