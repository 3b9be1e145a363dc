"""A new plugin as an installable package: ``python -m loader2 new-plugin NAME`` writes it.

The package has a pipe with a position of its own, which an entry point makes a chain method, and tests. It is a
template: ``docs/own-plugin.md`` describes what to change.
"""

from __future__ import annotations

import keyword
from importlib.util import find_spec
from pathlib import Path
from string import Template

from datapipes.description.pipe import is_own_name
from datapipes.errors import BadArgument

FILES = {
    "pyproject.toml": """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "$distribution"
version = "0.1.0"
description = "The method $name of loader2's pipes"
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["loader2"]

[project.optional-dependencies]
test = ["loader2[testing]"]

# The name of the method, and its class.
[project.entry-points."loader2.datapipes"]
$name = "$name:$operator"

# The name of a service in DataLoader2(dp, reading_service="..."), and its class.
# [project.entry-points."loader2.reading_services"]
# my_service = "$name:MyService"

[tool.setuptools]
packages = ["$name"]
package-data = { $name = ["py.typed"] }
package-dir = { "" = "." } # an editable install is then a path, which type checkers follow
""",
    "README.md": """\
# $distribution

The method `$name` of loader2's pipes:

```python
from datapipes.iter import IterableWrapper

print(list(IterableWrapper([1, 2, 3]).$name()))  # [1, 3, 6]
```

`python -m pip install --editable '.[test]'` installs it, `python -m pytest` runs the laws of pipes on it, and
`python -m loader2 stubs` makes the method known to type checkers and editors.
""",
    "$name/py.typed": "",
    "$name/__init__.py": '''\
"""A method of pipes: the sums of a stream of numbers."""

from collections.abc import Iterator

from datapipes.iter import IterDataPipe


class $operator(IterDataPipe[int]):
    """Running sums of a stream of numbers."""

    def __init__(self, source_datapipe: IterDataPipe[int]) -> None:
        self.source_datapipe, self.total = source_datapipe, 0

    def __iter__(self) -> Iterator[int]:
        for number in self.source_datapipe:
            self.total += number  # complete before the yield
            yield self.total

    def __len__(self) -> int:
        return len(self.source_datapipe)

    def state_dict(self) -> dict[str, int]:
        return {"total": self.total}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.total = state["total"]
''',
    "tests/test_$name.py": """\
from datapipes.iter import IterableWrapper
from loader2.testing import check_pipe

from $name import $operator


def test_it_keeps_the_laws_of_pipes() -> None:
    check_pipe(lambda: $operator(IterableWrapper(range(10))))


def test_it_is_a_method() -> None:
    assert list(IterableWrapper([1, 2, 3]).$name()) == [1, 3, 6]
""",
}


def write(name: str, folder: Path) -> list[Path]:
    """Write the files of a plugin into a new folder of its name, and return their paths."""
    call = f"new-plugin {name}"
    if not name.isidentifier() or keyword.iskeyword(name) or name != name.lower() or name.startswith("_"):
        raise BadArgument(f"{call}: the name is that of a package and a method: lower case, digits and _")
    if is_own_name(name):
        raise BadArgument(f"{call}: pipes of this library have {name!r} already: choose another name")
    if (folder / name).exists():
        raise BadArgument(f"{call}: {folder / name} already exists: choose another name, or --output")
    if find_spec(name) is not None:
        raise BadArgument(f"{call}: a module {name!r} already exists: choose another name")
    operator = "".join(part.capitalize() for part in name.split("_"))
    names = {"name": name, "operator": operator, "distribution": name.replace("_", "-")}
    written = []
    for path, text in FILES.items():
        written.append(folder / name / Template(path).substitute(names))
        written[-1].parent.mkdir(parents=True, exist_ok=True)
        written[-1].write_text(Template(text).substitute(names), "utf-8")
    return written
