"""Stubs of installed plugins' methods, for type checkers and editors: ``python -m loader2 stubs``.

The command writes a partial stub package as in PEP 561: ``datapipes-stubs``, with one file that lists the methods of
plugins. mypy and pyright read it instead of ``datapipes.fluent.plugin_methods``, and other modules from the library.
They find it in ``site-packages``, its default folder, without a setting. Each method is made of its operator, like the
library's own methods, so it has the signature of the plugin.
"""

from __future__ import annotations

import sys
from pathlib import Path
from sysconfig import get_path
from typing import Any

from datapipes.description.pipe import IterDataPipe, MapDataPipe, load_plugins

PACKAGE = "datapipes-stubs"
STUB = Path(PACKAGE, "fluent", "plugin_methods.pyi")
_HEAD = '''"""Methods of installed plugins; ``python -m loader2 stubs`` writes this file."""

from typing import Any, Generic, TypeVar

from datapipes.fluent.chained import chained
'''


def main(output: Path | None, check: bool) -> int:
    """Write the stubs, or compare them with existing ones. Return the exit code: 1 if they differ or a plugin fails."""
    folder = Path(get_path("purelib")) if output is None else output
    problems = load_plugins()
    for problem in filter(None, problems.values()):
        print(f"left out: {problem}", file=sys.stderr)
    names = [name for name, problem in problems.items() if problem is None]
    path, text = folder / STUB, stub_of(names)
    if check and (not path.is_file() or path.read_text("utf-8") != text):
        print(f"{path} does not exist or is out of date: run `python -m loader2 stubs`", file=sys.stderr)
        return 1
    if not check:
        path.parent.mkdir(parents=True, exist_ok=True)
        (folder / PACKAGE / "py.typed").write_text("partial\n")
        path.write_text(text, "utf-8")
        print(f"{path}: {', '.join(names) or 'no plugin is installed'}")
    return 1 if any(problems.values()) else 0


def stub_of(names: list[str]) -> str:
    """Return the text of the stub with the methods of these names."""
    imports, classes = set(), []
    for kind, base in (("Iter", IterDataPipe), ("Map", MapDataPipe)):
        methods = []
        for name in filter(base.functions.__contains__, names):
            where, operator = _named(base.functions[name], f"_{name}_")
            imports.add(where)
            methods.append(f"    {name}{operator}\n")
        classes.append(f"class {kind}Plugins(Generic[T_co]):" + ("\n" + "".join(methods) if methods else " ...\n"))
    return "\n".join([_HEAD + "".join(sorted(imports)), 'T_co = TypeVar("T_co", covariant=True)\n', *classes])


def _named(owner: Any, alias: str) -> tuple[str, str]:
    """Return the import of an operator, and the definition of its method. The alias avoids a clash of their names."""
    qualified = getattr(owner, "__qualname__", "<")
    if "<" in qualified:  # a local class or a lambda, which cannot be imported
        return "", ": Any"
    outer, dot, inner = qualified.partition(".")
    return f"from {owner.__module__} import {outer} as {alias}\n", f" = chained({alias}{dot}{inner})"
