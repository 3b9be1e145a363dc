"""Logging of the IPU side: the logger ``poptorch::python``, its levels and the form of its lines.

Warnings of the IPU side are records of this logger, never ``warnings.warn``. Lines go to the current ``sys.stderr``,
and to the handlers of the root logger.
"""

import logging
import os
import sys

_NAMES = {
    "TRACE_ALL": 1,
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "DEBUG_IR": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERR": logging.ERROR,
    "OFF": logging.CRITICAL + 1,
}
_NUMBERS = {0: "TRACE", 1: "DEBUG", 2: "INFO", 3: "WARN", 4: "ERR", 6: "OFF"}
_COLOURS = {logging.WARNING: "\033[33m", logging.ERROR: "\033[31m", logging.CRITICAL: "\033[31m"}

logger = logging.getLogger("poptorch::python")


class _Line(logging.Formatter):
    """Format of lines: ``[HH:MM:SS.mmm] [poptorch::python] [warning] text``."""

    default_time_format = "%H:%M:%S"
    default_msec_format = "%s.%03d"

    def __init__(self, coloured: bool) -> None:
        super().__init__("[%(asctime)s] [%(name)s] [%(shown)s] %(message)s")
        self.coloured = coloured

    def format(self, record: logging.LogRecord) -> str:
        level = "trace" if record.levelno < logging.DEBUG else record.levelname.lower()
        colour = _COLOURS.get(record.levelno) if self.coloured else None
        record.shown = f"{colour}{level}\033[0m" if colour else level
        return super().format(record)


class _ToStandardError(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if sys.stderr is None:  # under pythonw, and in some daemons
            return
        try:
            sys.stderr.write(_Line(sys.stderr.isatty()).format(record) + "\n")
        except (OSError, ValueError):  # the terminal has gone, or standard error was closed
            self.handleError(record)


def setLogLevel(level: str | int) -> None:
    """Set the log level: a name, or 0 (TRACE), 1, 2, 3 (WARN), 4 (ERR) or 6 (OFF). Records below it are dropped.

    >>> setLogLevel("ERR")
    >>> setLogLevel(3)
    """
    if isinstance(level, int):
        if level not in _NUMBERS:
            raise ValueError(f"Invalid log level integer {level}; it is one of {', '.join(map(str, _NUMBERS))}")
        level = _NUMBERS[level]
    if level not in _NAMES:
        raise ValueError(f"Unknown log level: {level}. Valid values are DEBUG, ERR, INFO, OFF, TRACE and WARN")
    logger.setLevel(_NAMES[level])


if not logger.handlers:
    logger.addHandler(_ToStandardError())
    try:
        setLogLevel(os.environ.get("POPTORCH_LOG_LEVEL") or "WARN")
    except ValueError as error:
        error.add_note("(from the environment variable POPTORCH_LOG_LEVEL)")
        raise
