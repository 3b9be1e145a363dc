"""Options from files and from JSON.

A line of a file is a call without the leading ``options.``. It is read and never executed: names of options with
literal arguments, and enums, strategies and settings by the package's name. A file reaches nothing else.
"""

from __future__ import annotations

import ast
import json
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

from reading_services.ipu.names import enums
from reading_services.ipu.names.errors import ConfigFileError
from reading_services.ipu.names.strategies import AutoStage, Block, PipelinedExecution, ShardedExecution, Stage
from reading_services.ipu.options.distributed import blaming
from reading_services.ipu.options.stored import TensorLocationSettings

_ENUMS = {name: one for name, one in vars(enums).items() if isinstance(one, type) and issubclass(one, Enum)}
_CLASSES = (AutoStage, Block, PipelinedExecution, ShardedExecution, Stage, TensorLocationSettings)
_POPTORCH = SimpleNamespace(
    **_ENUMS,
    **{one.__name__: one for one in _CLASSES},
    enums=SimpleNamespace(**_ENUMS),
    options=SimpleNamespace(TensorLocationSettings=TensorLocationSettings),
)
"""Names that a line can use after ``poptorch.``."""


class Files:
    """Part of Options that reads files and JSON."""

    def loadFromFile(self, filepath: str) -> Self:
        """Call the options in the lines of a file, in their order. Blank lines and ``#`` comments are skipped.

        ``deviceIterations(4)`` is such a line, or ``setExecutionStrategy(poptorch.ShardedExecution())``.
        """
        path = Path(filepath)
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
        kept = [line for line in lines if line and not line.startswith("#")]
        calls = [_read(line, number, path.name) for number, line in enumerate(kept, 1)]
        for line, call in zip(kept, calls, strict=True):
            with blaming(f"in {path.name}: options.{line}"):
                _value(self, call)
        return self

    def from_json(self, string: str) -> Self:
        """Call the options in a JSON object: the name of each method with its argument, or a list of arguments.

        >>> from reading_services.ipu import Options
        >>> Options().from_json('{"Training.gradientAccumulation": 4, "outputMode": "OutputMode.All"}').output_mode
        2
        """
        for accessor, value in json.loads(string).items():
            called: Any = self
            for name in accessor.split("."):
                called = _public(called, name)
            called(*map(_with_enum, value if isinstance(value, list) else [value]))
        return self


def _with_enum(value: Any) -> Any:
    """Return the member of an enum if the value is its name, else the value as it is."""
    kind, _, member = value.partition(".") if isinstance(value, str) else ("", "", "")
    return getattr(_ENUMS[kind], member) if member and kind in _ENUMS else value


def _read(line: str, number: int, name: str) -> ast.expr:
    """Parse a line into the expression of a call."""
    try:
        return ast.parse(f"options.{line}", name, "eval").body
    except SyntaxError as error:
        raise ConfigFileError(f"SyntaxError at line {number} of {name}: {error.msg}\n> options.{line}") from None


def _public(owner: Any, name: str) -> Any:
    """Return a public attribute of the options, or of an object that their arguments can name. Refuse all others."""
    house = __name__.partition(".options.")[0]
    kind = owner if isinstance(owner, type) else type(owner)
    ours = kind is SimpleNamespace or any(base.__module__.startswith(f"{house}.") for base in kind.__mro__)
    if not ours or (name.startswith("_") and name != "_Popart") or not hasattr(owner, name):
        raise AttributeError(f"Invalid attribute {name}.")
    return getattr(owner, name)


def _value(options: Files, node: ast.expr) -> Any:
    """Return the value of a line's expression, or of a part of it."""
    match node:
        case ast.Name(id="options"):
            return options
        case ast.Name(id="poptorch"):
            return _POPTORCH
        case ast.Name(id=name):
            raise NameError(f"name {name!r} is not defined; a file knows options and poptorch", name=name)
        case ast.Attribute(value=owner, attr=name):
            return _public(_value(options, owner), name)
        case ast.Call(func=func, args=args, keywords=keywords) if all(word.arg for word in keywords):
            named = {str(word.arg): _value(options, word.value) for word in keywords}
            return _value(options, func)(*(_value(options, each) for each in args), **named)
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            made = [_value(options, each) for each in parts]
            return made if isinstance(node, ast.List) else tuple(made)
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise ConfigFileError(
            f"{ast.unparse(node)} is not read from a file: a line is a call of an option with literals, enums and "
            "strategies as its arguments"
        ) from None
