"""The house rules, as tests.

A rule is a function from one source, or from all of them, to its complaints. A complaint begins with file:line and says
what to do. Every rule is held against the whole house, and is shown to speak up on a small source that breaks it and to
keep quiet on one that does not, so that no rule passes because it cannot fail.
"""

import ast
import io
import os
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path, PurePosixPath

import pytest

from datapipes.fluent import IterMethods, MapMethods, operators_of

ROOT = Path(__file__).resolve().parent.parent
# What a package may import of the house is itself and those before it.
ORDER = ("datapipes", "reading_services", "loader2", "benchmarks", "tests", "tutorials")
PACKAGES = ORDER[:3]
SAYING_NOTHING = {"common", "helper", "helpers", "misc", "util", "utils"}
UNTRACKED = {"__pycache__", "build", "dist"}
ANYTHING = {"Exception", "BaseException"}
IGNORE = re.compile(
    r"#\s*(?:type:\s*ignore(?:\[[^]]*\])?|(?:ruff:\s*)?noqa(?::\s*[A-Z]+\d+(?:[,\s]+[A-Z]+\d+)*)?|mypy:)"
)
CHAINED = {name for methods in (IterMethods, MapMethods) for name in vars(methods) if not name.startswith("_")}
# Chain methods whose names objects of other kinds have, too, and how a pipe is called in our code.
NAMES_OF_OTHERS = {"decompress", "enumerate", "flatten", "pack", "pin_memory", "skip", "slice", "take", "to_device"}
NAMES_OF_PIPES = {"child", "datapipe", "dp", "graph", "pipe", "source", "source_datapipe", "source_dp", "stage"} | {
    operator.__name__ for methods in (IterMethods, MapMethods) for operator in operators_of(methods).values()
}
A_PROGRAM = "loader2/commands/demo.py"
MACHINE_PATH = re.compile(r"(?<![\w.-])/(?:root|work|opt|home/\w+|Users/\w+)/")


@dataclass(frozen=True)
class Source:
    """One file of the house: its path from the root, and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @property
    def module(self) -> str:
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def package(self) -> str:
        return self.path.rpartition("/")[0].replace("/", ".")

    def at(self, line: int, advice: str) -> str:
        return f"{self.path}:{line}: {advice}"


Rule = Callable[[Source], Iterator[str]]


def imports_go_one_way(source: Source) -> Iterator[str]:
    room = source.path.partition("/")[0]
    beyond = ORDER[ORDER.index(room) + 1 :] if room in PACKAGES else ()
    for line, name in imports(source, ast.walk(source.tree)):
        if name.partition(".")[0] in beyond:
            yield source.at(line, f"{room} must not know {name}; move what is shared down into {room}")


def nobody_sleeps(source: Source) -> Iterator[str]:
    advice = "wait for the event itself (a lock, a pipe, a sentinel) instead of sleeping"
    clocks = set()
    for node in ast.walk(source.tree):
        match node:
            case ast.Import(names=names):
                clocks |= {alias.asname or alias.name for alias in names if alias.name == "time"}
            case ast.ImportFrom(module="time", names=names) if any(alias.name == "sleep" for alias in names):
                yield source.at(node.lineno, advice)
    for node in ast.walk(source.tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr="sleep") if name in clocks:
                yield source.at(node.lineno, advice)
            case ast.Call(func=ast.Attribute(value=ast.Call(func=made), attr="wait"), args=[_]):
                # Such an event cannot be set.
                is_event = ast.unparse(made) in ("Event", "threading.Event")
                if is_event and "#" not in source.text.splitlines()[node.lineno - 1]:
                    yield source.at(node.lineno, f"{advice}; or say in a comment here why time itself has to pass")


def nothing_is_swallowed(source: Source) -> Iterator[str]:
    advice = "catch the errors you expect, raise again, or pass the caught one to a place that can raise it"
    for node in ast.walk(source.tree):
        match node:
            case ast.ExceptHandler() if catches_anything(node.type) and not hands_on(node):
                yield source.at(node.lineno, advice)
            case ast.Call(func=ast.Name(id="suppress") | ast.Attribute(attr="suppress"), args=args):
                if any(catches_anything(arg) for arg in args):
                    yield source.at(node.lineno, advice)


def errors_have_a_type(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        match node:
            case ast.Raise(exc=ast.Name(id=name) | ast.Call(func=ast.Name(id=name))) if name in ANYTHING:
                yield source.at(node.lineno, f"raise an error of its own type, not a bare {name}")


def files_introduce_themselves(source: Source) -> Iterator[str]:
    if "." not in (ast.get_docstring(source.tree) or ""):
        yield source.at(1, "begin with a docstring that says in a sentence what this file keeps true")


def names_explain_themselves(source: Source) -> Iterator[str]:
    path = PurePosixPath(source.path)
    for part in (*path.parent.parts, path.stem):
        if part.strip("_") in SAYING_NOTHING:
            yield source.at(1, f"{part!r} could hold anything: name the file after its one idea")


def ignores_are_explained(source: Source) -> Iterator[str]:
    lines = source.text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT and IGNORE.search(token.string):
            beside = IGNORE.sub("", token.string)
            above = lines[token.start[0] - 2].strip() if token.start[0] > 1 else ""
            if not re.search(r"\w\s+\w", beside) and not (above.startswith("#") and not IGNORE.search(above)):
                yield source.at(token.start[0], "say why, after the mark or in a comment on the line above it")


def no_path_of_one_machine(source: Source) -> Iterator[str]:
    for number, line in enumerate(source.text.splitlines(), 1):
        if found := MACHINE_PATH.search(line):
            yield source.at(number, f"{found[0]!r} is there on one machine only: use a relative path or a tmp_path")


def operators_are_made_by_class(source: Source) -> Iterator[str]:
    if source.path.partition("/")[0] not in PACKAGES or source.path == A_PROGRAM:
        return
    for node in ast.walk(source.tree):
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in CHAINED:
                if name not in NAMES_OF_OTHERS or name_at_the_end(value) in NAMES_OF_PIPES:
                    yield source.at(
                        node.lineno, f"a program may have a .{name}() of its own: call the operator's class"
                    )


def name_at_the_end(node: ast.expr) -> str:
    """The last name of an expression: ``b`` of ``a.b`` and of ``a.b()``."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=func):
            return name_at_the_end(func)
    return ""


def imports_have_no_cycle(sources: Iterable[Source]) -> Iterator[str]:
    known = {source.module: source for source in sources}
    where: dict[tuple[str, str], str] = {}
    graph: dict[str, set[str]] = {module: set() for module in known}
    for source, line, asked in imported_files(known):
        graph[source.module].add(asked.module)
        where[source.module, asked.module] = source.at(line, "")
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        ring = error.args[1][::-1]  # it comes as imported before importer
        yield f"{where[ring[0], ring[1]]}{' imports '.join(ring)}: move what they share into a file below them"


def catches_anything(caught: ast.expr | None) -> bool:
    match caught:
        case None:
            return True
        case ast.Tuple(elts=several):
            return any(catches_anything(one) for one in several)
        case ast.Name(id=name):
            return name in ANYTHING
    return False


def hands_on(handler: ast.ExceptHandler) -> bool:
    """Whether the handler raises, or uses the error that it caught."""
    nodes = [node for statement in handler.body for node in ast.walk(statement)]
    return any(
        isinstance(node, ast.Raise) or (isinstance(node, ast.Name) and node.id == handler.name) for node in nodes
    )


def imports(source: Source, nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """The line and the full name of all that the import statements among these nodes ask for."""
    for node in nodes:
        match node:
            case ast.Import(names=names):
                base = []
            case ast.ImportFrom(module=module, names=names, level=level):
                parts = source.package.split(".")
                base = [*(parts[: len(parts) - level + 1] if level else []), *filter(None, [module])]
            case _:
                continue
        for alias in names:
            yield node.lineno, ".".join([*base, alias.name])


def imported_files(known: Mapping[str, Source]) -> Iterator[tuple[Source, int, Source]]:
    """Each import among files, by module, that runs when the file is imported: the file, its line, the other file."""
    for source in known.values():
        for line, name in imports(source, run_at_import(source.tree)):
            asked = known.get(name) or known.get(name.rpartition(".")[0])
            if asked is not None and asked is not source:
                yield source, line, asked


def run_at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run when the file is imported: no functions' bodies, no imports for types, no lazy ones."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                pass
            case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
                yield from run_at_import(ast.Module(node.orelse, []))
            case ast.With(items=[ast.withitem(context_expr=ast.Call(func=ast.Name(id="lazy_imports")))]):
                pass
            case _:
                yield node
                yield from run_at_import(node)


@cache
def texts() -> tuple[Source, ...]:
    """Every text of the house, as it would be tracked."""
    found = []
    for folder, folders, names in os.walk(ROOT):
        kept = (f for f in folders if f == ".ci" or not f.startswith("."))
        folders[:] = sorted(f for f in kept if f not in UNTRACKED and not f.endswith(".egg-info"))
        for path in (Path(folder, name) for name in sorted(names) if name != ".git"):
            try:
                found.append(Source(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")))
            except UnicodeDecodeError:
                continue  # no text
    return tuple(found)


def python() -> tuple[Source, ...]:
    return tuple(s for s in texts() if s.path.endswith(".py") and s.path.partition("/")[0] in ORDER)


def report(complaints: Iterable[str]) -> None:
    if found := list(complaints):
        pytest.fail(f"{len(found)} to mend:\n" + "\n".join(found), pytrace=False)


@pytest.mark.parametrize("room", PACKAGES)
def test_every_room_is_looked_at(room: str) -> None:
    assert any(source.path.startswith(f"{room}/") for source in python()), f"no .py file found in {ROOT / room}"


@pytest.mark.parametrize(
    "rule",
    [
        imports_go_one_way,
        nobody_sleeps,
        nothing_is_swallowed,
        errors_have_a_type,
        files_introduce_themselves,
        names_explain_themselves,
        ignores_are_explained,
        operators_are_made_by_class,
    ],
)
def test_the_house_keeps(rule: Rule) -> None:
    report(complaint for source in python() for complaint in rule(source))


def test_the_house_keeps_imports_have_no_cycle() -> None:
    report(imports_have_no_cycle(python()))


def test_the_house_keeps_no_path_of_one_machine() -> None:
    report(complaint for source in texts() for complaint in no_path_of_one_machine(source))


HERE = "datapipes/iter/one.py"
CATCH = "try:\n    run()\nexcept {}:\n    {}\n"


@pytest.mark.parametrize(
    ("rule", "bad", "good"),
    [
        (imports_go_one_way, "import loader2.epoch", "import datapipes.description.pipe"),
        (imports_go_one_way, "def f():\n    from reading_services.workers import cut", "from loader2like import cut"),
        (nobody_sleeps, "import time\ntime.sleep(1)", "import asyncio\nasyncio.sleep(1)"),
        (nobody_sleeps, "import time as t\nt.sleep(1)", "import time as t\nt.monotonic()"),
        (nobody_sleeps, "from time import monotonic, sleep", "from time import monotonic"),
        (nobody_sleeps, "Event().wait(1)", "Event().wait(1)  # a step that takes long"),
        (nobody_sleeps, "threading.Event().wait(pause)", "done = threading.Event()\ndone.wait(1)"),
        (nothing_is_swallowed, CATCH.format("", "pass"), CATCH.format("", "raise")),
        (nothing_is_swallowed, CATCH.format("(OSError, Exception)", "pass"), CATCH.format("OSError", "pass")),
        (nothing_is_swallowed, CATCH.format("Exception as e", "pass"), CATCH.format("Exception as e", "send(e)")),
        (nothing_is_swallowed, "with suppress(Exception): run()", "with suppress(OSError): run()"),
        (errors_have_a_type, "raise Exception('no')", "raise PipeError('no')"),
        (errors_have_a_type, "raise BaseException", "raise"),
        (files_introduce_themselves, "x = 1", "'''This file keeps x at one.'''\nx = 1"),
        (ignores_are_explained, "x = 1  # type: ignore[misc]", "x = 1  # type: ignore[misc]  # the stub is wrong"),
        (ignores_are_explained, "x = 1  # noqa: E501, F401", "# A table reads better so.\nx = 1  # noqa: E501, F401"),
        (ignores_are_explained, "# noqa\nx = 1  # noqa", "x = '# noqa'"),
        (operators_are_made_by_class, "dp = self.datapipe.batch(2)", "dp = Batcher(self.datapipe, 2)"),
        (operators_are_made_by_class, "Batcher(dp, 2).in_batch_shuffle()", "InBatchShuffler(Batcher(dp, 2))"),
        (operators_are_made_by_class, "source.take(3)", "locks.take(3)"),
        (operators_are_made_by_class, "Mapper(dp, f).enumerate()", "threading.enumerate()"),
        (no_path_of_one_machine, f"open('/{'home'}/me/data')", "open('home/me/data')"),
        (no_path_of_one_machine, f"cd /{'root'}/data", "http://host/root/data"),
    ],
)
def test_a_rule_speaks_up_and_keeps_quiet(rule: Rule, bad: str, good: str) -> None:
    complaints = list(rule(Source(HERE, bad)))
    assert complaints
    assert all(re.match(rf"{HERE}:\d+: \S", complaint) for complaint in complaints)
    assert list(rule(Source(HERE, good))) == []


@pytest.mark.parametrize("path", ["datapipes/utils.py", "loader2/_helpers.py", "tests/common/conftest.py"])
def test_a_name_that_says_nothing_is_noticed(path: str) -> None:
    assert list(names_explain_themselves(Source(path, "")))
    assert list(names_explain_themselves(Source(HERE, ""))) == []


def test_a_cycle_is_noticed_wherever_it_runs_at_import() -> None:
    below = Source("datapipes/b.py", "try:\n    from . import a\nexcept ImportError:\n    pass")
    for text in ("from datapipes.b import name", "import datapipes.b", "from datapipes import b", "from .b import x"):
        (complaint,) = imports_have_no_cycle([Source("datapipes/a.py", text), below])
        assert re.match(r"datapipes/[ab]\.py:\d: datapipes\.[ab] imports datapipes\.[ab] imports", complaint)
    in_blocks = ("if TYPE_CHECKING", "def f()", "with lazy_imports(__name__)")
    for text in (f"{block}:\n    import datapipes.b" for block in in_blocks):
        assert list(imports_have_no_cycle([Source("datapipes/a.py", text), below])) == []
