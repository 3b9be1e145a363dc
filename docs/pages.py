"""Pages of the site that are made from the code: operators, classes, exceptions, tutorials; and README and its like.

mkdocs calls ``on_config``, ``on_files`` and ``on_post_page`` when it builds the site (``hooks`` in mkdocs.yml). A page
says nothing that the code does not say: signatures and parameters are read from the functions, texts from their
docstrings, and what an operator does to length, order, position and sharding from what it declares to sessions.
"""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from textwrap import dedent, fill
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

import datapipes.errors
import datapipes.iter
import datapipes.map
import loader2.testing
import reading_services
from datapipes.description.parameters import described
from datapipes.description.pipe import ComposedOperator
from datapipes.fluent import IterMethods, MapMethods, operators_of
from datapipes.graph import find_dps, traverse_dps
from datapipes.operator_support.checks import given_length, same_length
from datapipes.position.cells import Cell
from tests.specimens.catalogue import specimens_of

ROOT = Path(__file__).resolve().parent.parent
METHODS: dict[str, tuple[str, type]] = {"iter": ("streams", IterMethods), "map": ("collections", MapMethods)}
CLASSES: dict[str, list[Any]] = {
    "Pipes and sources": [
        datapipes.iter.IterDataPipe,
        datapipes.map.MapDataPipe,
        datapipes.iter.IterableWrapper,
        datapipes.map.SequenceWrapper,
        datapipes.map.TableWrapper,
        datapipes.map.ImageFolder,
        datapipes.iter.Sampler,
        datapipes.iter.SampleMultiplexer,
        datapipes.iter.HuggingFaceHubReader,
        datapipes.functional_datapipe,
        datapipes.Transfer,
        datapipes.allow,
        datapipes.show_work,
    ],
    "Loaders": [
        loader2.DataLoader2,
        loader2.DataLoader2Iterator,
        loader2.gather,
        loader2.scatter,
        loader2.random.SeedGenerator,
    ],
    "Reading services": [
        reading_services.InProcessReadingService,
        reading_services.MultiProcessingReadingService,
        reading_services.RayReadingService,
        reading_services.ThreadingReadingService,
        reading_services.DistributedReadingService,
        reading_services.SequentialReadingService,
        reading_services.ReadingServiceInterface,
        reading_services.CheckpointableReadingServiceInterface,
        reading_services.WorkerInfo,
        reading_services.get_worker_info,
    ],
    "Tests of your own pipes and services": [loader2.testing.check_pipe, loader2.testing.check_service],
}
ROOT_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
WIDTH = 72
"""Columns of a code block that a browser window of 1,280 pixels shows without scrolling."""
_SHIM = "https://unpkg.com/iframe-worker/shim"  # what the theme asks for
_CODE = re.compile(r"``(.+?)``", re.DOTALL)
_EXAMPLE = re.compile(r"(?<=^```pycon\n)(?:.*\n)*?(?=```$)", re.MULTILINE)
# A checkout has a link to the program in the line above.
_PROGRAM = re.compile(r"^.*\n<!-- program: (?P<name>\w+) -->", re.MULTILINE)
_ARGS = re.compile(r"^ *Args:\n(?: +.*\n)+", re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put a page for each operator, and for each tutorial, into the site's contents."""
    operators: list[Any] = ["operators/index.md"]
    for topic, entries in _topics().items():
        operators.append({topic: [{name: f"operators/{kind}.{name}.md"} for kind, name, _ in entries]})
    tutorials = [{path.stem: f"tutorials/{path.stem}.md"} for path in _tutorials()]
    for part in config.nav or []:
        part.update({"Operators": operators} if "Operators" in part else {})
        part.update({"Tutorials": tutorials} if "Tutorials" in part else {})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made here."""
    made = {uri: _root_page(name) for name, uri in ROOT_PAGES.items()}
    made |= {"operators/index.md": _catalogue(), "reference.md": _reference()}
    # A checkout has a sentence about the list in its place.
    made["errors.md"] = re.sub(r"(?m)^.*\n<!-- classes -->", _errors, files.src_uris["errors.md"].content_string)
    made["recipes.md"] = _PROGRAM.sub(_program, files.src_uris["recipes.md"].content_string)
    for entries in _topics().values():
        for kind, name, operator in entries:
            made[f"operators/{kind}.{name}.md"] = operator_page(kind, name, operator)
    for path in _tutorials():
        made[f"tutorials/{path.stem}.md"] = _tutorial(path)
    for uri, text in zip(made, _with_narrow_code(list(made.values())), strict=True):
        if uri in files.src_uris:
            files.remove(files.src_uris[uri])
        files.append(File.generated(config, uri, content=text))
    return files


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Have the script by which search works in files come from the site itself."""
    return output.replace(_SHIM, get_relative_url("assets/file-worker.js", page.url))


def on_post_template(output: str, template_name: str, config: MkDocsConfig) -> str:
    """Do the same for a page without a text, such as that of a dead link."""
    return output.replace(_SHIM, "/assets/file-worker.js")


def operator_page(kind: str, name: str, operator: Any) -> str:
    """Return the reference page of a chain method."""
    method = vars(METHODS[kind][1])[name].method
    facts = "\n".join(f"| {title} | {text} |" for title, text in facts_of(kind, name, operator).items())
    of = "an `IterDataPipe`" if kind == "iter" else "a `MapDataPipe`"
    return (
        f"# {name}\n\nA method of {of}; `datapipes.{kind}.{operator.__name__}` is its class.\n\n"
        f"{_described(name, method)}\n\n## In a graph\n\n| | what it does |\n|---|---|\n{facts}\n"
    )


def facts_of(kind: str, name: str, operator: Any) -> dict[str, str]:
    """Return what an operator does to length, order, position and sharding, as it declares them."""
    stage = _stage_of(f"{kind}.{name}", operator)
    if issubclass(stage, datapipes.map.MapDataPipe):
        return {"Length": _length(stage), "Sharding": "A shard looks up its own keys only."}
    step = stage._step is not datapipes.iter.IterDataPipe._step
    one_to_one = stage._commutes or (step and getattr(stage, "__len__", None) is same_length)
    if stage._shuffles or hasattr(stage, "set_seed"):
        order = "Drawn from the seed of the epoch: the same seed gives the same order, the next epoch another one."
    else:
        order = "Follows from the order of what it reads; nothing is drawn."
    return {
        "Length": _length(stage),
        "Order": order,
        "Position": _position(stage, step),
        "Sharding": (
            "One to one: above a `sharding_filter` it is run for the elements of the own shard only."
            if one_to_one
            else "Shards share its order: it stands above the `sharding_filter`."
            if stage._shuffles
            else "Above a `sharding_filter`, every shard runs it for all elements; below, for its own."
        ),
    }


def _stage_of(label: str, operator: Any) -> Any:
    if not isinstance(operator, ComposedOperator):
        return operator
    return type(find_dps(traverse_dps(specimens_of(label)[0].pipe()), operator)[0])


def _length(stage: Any) -> str:
    length = getattr(stage, "__len__", None)
    if length is same_length:
        return "That of the source."
    if length is given_length:
        return "`length`, where it is given."
    if length is None or length is datapipes.iter.IterDataPipe.__dict__.get("__len__"):
        return "Not known beforehand; `set_length` says it where you know."
    return "Computed, where that of what it reads is known."


def _position(stage: Any, step: bool) -> str:
    if step:
        return "None of its own: a state holds where the source is."
    source = "".join(inspect.getsource(base) for base in stage.__mro__ if base.__module__ == stage.__module__)
    cells = [
        found
        for name, found in vars(inspect.getmodule(stage)).items()
        if inspect.isclass(found) and issubclass(found, Cell) and found.__module__ == stage.__module__
        if found.__doc__ and re.search(rf"\b{name}\b", source)
    ]
    kept = " ".join(_first(found) for found in cells)
    return f"In a state: {kept[:1].lower()}{kept[1:]}" if kept else "In a state, exact at every element."


def _described(title: str, function: Any) -> str:
    """Return signature, text, parameters and example of a function or class."""
    docstring = f"{inspect.getdoc(function) or ''}\n"  # the section Args: may be the last one
    text, _, example = docstring.partition(">>>")
    parameters = described(docstring)
    parts = [f"```python\n{_signature(title, function)}\n```", _prose(_ARGS.sub("", text).strip())]
    if parameters:
        rows = (f"| `{name}` | {_prose(meaning)} |" for name, meaning in parameters.items())
        parts.append("\n".join(["| parameter | meaning |", "|---|---|", *rows]))
    if example:
        parts.append(f"```pycon\n>>>{example.rstrip()}\n```")
    return "\n\n".join(parts)


def _signature(title: str, function: Any) -> str:
    """Return the call with its parameters, in one line if that fits."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # an iterator is not constructed by users
        return title
    written = list(_parameters([p for p in signature.parameters.values() if p.name not in ("self", "cls")]))
    one_line = f"{title}({', '.join(written)})"
    if len(one_line) <= WIDTH:
        return one_line
    lines = (fill(f"{each},", WIDTH, initial_indent=4 * " ", subsequent_indent=8 * " ") for each in written)
    return "\n".join([f"{title}(", *lines, ")"])


def _parameters(parameters: list[inspect.Parameter]) -> Iterator[str]:
    needs_star = not any(p.kind is p.VAR_POSITIONAL for p in parameters)
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and needs_star:
            yield "*"
            needs_star = False
        stars = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
        annotation = "" if p.annotation is p.empty else f": {_type(p.annotation)}"
        yield f"{stars}{p.name}{annotation}" + ("" if p.default is p.empty else f" = {_value(p.default)}")


def _type(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else str(getattr(annotation, "__name__", None) or repr(annotation))


def _value(value: Any) -> str:
    """Return a default as it is written in a call, or ``...`` for a long one, which ``Args:`` explains."""
    written = str(value) if isinstance(value, Enum) else str(getattr(value, "__name__", None) or repr(value))
    return written if len(written) <= WIDTH // 2 and " at 0x" not in written else "..."


def _prose(text: str) -> str:
    return (
        _CODE.sub(r"`\1`", dedent(text)).replace("|", "\\|") if "\n\n" not in text else _CODE.sub(r"`\1`", dedent(text))
    )


def _with_narrow_code(texts: list[str]) -> list[str]:
    """Return pages whose examples ruff has wrapped: in the code they have its width."""
    blocks = [block for text in texts for block in _EXAMPLE.findall(text)]
    program = "".join(f"class _{n}:\n    r'''\n{block}    '''\n" for n, block in enumerate(blocks))
    narrow = iter(
        re.findall(r"^    r(?:'''|\"\"\")\n(.*?)^    (?:'''|\"\"\")$", _ruff_format(program), re.DOTALL | re.MULTILINE)
    )
    return [_EXAMPLE.sub(lambda _: dedent(next(narrow)), text) for text in texts]


def _ruff_format(program: str) -> str:
    command = [sys.executable, "-m", "ruff", "format", "--isolated", f"--line-length={WIDTH}", "--stdin-filename=a.py"]
    config = "format.docstring-code-format=true", f"format.docstring-code-line-length={WIDTH - len('>>> ')}"
    options = [f"--config={each}" for each in config]
    return subprocess.run([*command, *options, "-"], input=program, capture_output=True, text=True, check=True).stdout


def _first(documented: Any) -> str:
    return _prose((inspect.getdoc(documented) or "").partition("\n\n")[0].replace("\n", " "))


def _topics() -> dict[str, list[tuple[str, str, Any]]]:
    """Return operators by their folder: (kind, name of the method, operator)."""
    found: dict[str, list[tuple[str, str, Any]]] = {}
    for kind, (_, methods) in METHODS.items():
        for name, operator in operators_of(methods).items():
            room = operator.__module__.split(".")[2] if kind == "iter" else "collections"
            room = "converting" if room == "from_iter" else room
            found.setdefault(room.capitalize(), []).append((kind, name, operator))
    return found


def _catalogue() -> str:
    parts = ["# Operators\n\nEach is a method of a pipe, and a class of `datapipes.iter` or `datapipes.map`."]
    for topic, entries in _topics().items():
        rows = (f"| [{name}]({kind}.{name}.md) | {_first(operator)} |" for kind, name, operator in entries)
        parts.append("\n".join([f"## {topic}\n", "| method | what it gives |", "|---|---|", *rows]))
    return "\n\n".join(parts)


def _reference() -> str:
    parts = ["# Classes and functions"]
    for title, members in CLASSES.items():
        parts.append(f"## {title}")
        for member in members:
            parts.append(f"### {member.__name__}\n\nFrom `{_home(member)}`.\n\n{_described(member.__name__, member)}")
            for name, method in _own_methods(member):
                parts.append(f"#### {member.__name__}.{name}\n\n{_described(name, method)}")
    return "\n\n".join(parts)


def _home(member: Any) -> str:
    homes = (datapipes, datapipes.iter, datapipes.map, loader2, reading_services, loader2.random, loader2.testing)
    return next(home.__name__ for home in homes if getattr(home, member.__name__, None) is member)


def _own_methods(member: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, method in vars(member).items() if inspect.isclass(member) else ():
        function = getattr(method, "__func__", method)
        if not name.startswith("_") and inspect.isfunction(function) and function.__doc__:
            yield name, getattr(member, name)


def _errors(_: object) -> str:
    rows = []
    for name, cls in sorted(vars(datapipes.errors).items()):
        if inspect.isclass(cls) and issubclass(cls, datapipes.errors.Loader2Error):
            bases = ", ".join(f"`{base.__name__}`" for base in cls.__bases__ if base.__name__ != "object")
            rows.append(f"### {name}\n\n{_prose(inspect.getdoc(cls) or '')}\n\nIt is a {bases}.")
    return "\n\n".join(rows)


def _tutorials() -> list[Path]:
    scripts = sorted(path for path in (ROOT / "tutorials").glob("*.py") if path.name != "__init__.py")
    return [ROOT / "loader2" / "commands" / "demo.py", *scripts]


def _tutorial(path: Path) -> str:
    behind = "---\nsearch:\n  boost: 0.2\n---\n\n"  # the pages of the guide, where a search finds both
    return f"{behind}# Tutorial: {path.stem}\n\n{_script(path)}\n"


def _program(found: re.Match[str]) -> str:
    return _script(ROOT / "tutorials" / "recipes" / f"{found['name']}.py")


def _script(path: Path) -> str:
    """Return a program as a page shows it: the text of its docstring, and then the code."""
    docstring, code = _ruff_format(path.read_text("utf-8")).split('"""', 2)[1:]
    title, _, text = docstring.strip().partition("\n")
    return f"{_prose(title)}\n{_prose(text)}\n\n```python\n{code.strip()}\n```"


def _root_page(name: str) -> str:
    """Return a page that stands beside the code, with links as they are on the site."""
    text = (ROOT / name).read_text("utf-8")
    for other, uri in ROOT_PAGES.items():
        text = text.replace(f"]({other}", f"]({uri}")
    text = re.sub(r"\]\(docs/([\w/.-]+)", r"](\1", text)
    return re.sub(r"\]\(tutorials/(\w+)\.py\)", r"](tutorials/\1.md)", text)
