"""The rules of names and words, as tests: ``style.md`` and ``vocabulary.md`` in docs/contributing have the reasons.

Those on words hold for the packages in ``FINISHED``, the others for all packages. Each rule is shown to complain about
a small source that breaks it.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator

import pytest

import datapipes.iter
from tests.test_house import HERE, PACKAGES, Rule, Source, python, report

FINISHED: tuple[str, ...] = PACKAGES
"""The packages whose words are rewritten, by path."""
MOST_ATTRIBUTES = 15
# Names that two APIs we succeed gave to two things: torchdata's operators for streams and for collections, PopTorch's.
CONTRACTS = {
    "batcher",
    "block",
    "concater",
    "inmemorycacheholder",
    "mapper",
    "options",
    "shuffler",
    "slidingwindow",
    "zipper",
}
PRONOUNS = re.compile(r"\b(whoever|somebody|someone|nobody|anybody|everybody|those who|the one who)\b", re.IGNORECASE)
RIDDLE = re.compile(r"(What|Whoever|Those|How|Where|Why)\b")
_VERBS = (
    "add allow answer append apply ask assign attach attribute begin bind build call cancel carry change check choose "
    "clean clear close collate collect combine compare compile compute concatenate connect continue convert copy "
    "count create cut deal decide decode decompress define delete delay describe deserialize detach divide do "
    "download draw drop encode end enter estimate evaluate expand extract feed fetch fill filter find finish flatten "
    "follow forget format gather generate get give go group guard handle hand hash have hold ignore import include "
    "inform insert install interrupt invent iterate join keep leave let limit link list load locate lock log look "
    "make map mark match measure merge migrate move name narrow normalize note notice number obtain open order pack "
    "pad parse pass patch pause permute pickle place plan point poll pop prepare print process produce profile "
    "provide pull push put raise rank read rebuild receive record recreate reduce refuse register release remember "
    "remove rename replace replay report require reset resize resolve restart restore resume retry return reverse "
    "rewrite round route run sample save say scale schedule search seed select send serialize serve set shard share "
    "show shuffle shut signal simulate skip sleep slice sort split start state step stop store stream strip suggest "
    "sum swap synchronize take tell test time tolerate touch trace track train translate transfer trim try turn "
    "unpack unpickle unwrap update use validate visit wait wake walk warn watch weigh wrap write yield zip"
)
VERBS = frozenset(_VERBS.split())


def actors_are_nouns(source: Source) -> Iterator[str]:
    for line, text in prose(source):
        if found := PRONOUNS.search(text):
            yield source.at(line, f"{found[0]!r}: name the actor by a noun (the caller, the worker, the session)")


def docstrings_say_what_is_done(source: Source) -> Iterator[str]:
    for node, text in docstrings_of_functions(source):
        if found := RIDDLE.match(text):
            yield source.at(node.body[0].lineno, f"begin with a verb (Return, Open, Raise), not with {found[0]!r}")


def objects_are_small(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef) and len(names := attributes(node)) > MOST_ATTRIBUTES:
            yield source.at(node.lineno, f"{node.name} sets {len(names)} attributes: make two objects of it")


def phases_stand_in_a_table(source: Source) -> Iterator[str]:
    head = ast.get_docstring(source.tree) or ""
    members: list[tuple[int, str]] = []
    for node in ast.walk(source.tree):
        match node:
            case ast.ClassDef(name=name, lineno=line, body=body) if name.endswith("Phase"):
                members += [(line, ast.unparse(each.targets[0])) for each in body if isinstance(each, ast.Assign)]
            case ast.Call(args=[ast.Constant(value=str(name)), ast.Constant(value=str(names))], lineno=line):
                members += [(line, member) for member in names.split() if name.endswith("Phase")]
    for line, member in members:
        if not re.search(rf"^{member}\s", head, re.MULTILINE):
            yield source.at(line, f"the table in the head of this file has no row {member}")


def classes_have_names_of_their_own(sources: Iterable[Source]) -> Iterator[str]:
    known: dict[str, list[str]] = defaultdict(list)
    for source, node in classes(sources):
        known[node.name.strip("_").lower()].append(source.at(node.lineno, node.name))
    for name, places in known.items():
        if len(places) > 1 and name not in CONTRACTS:
            yield f"{places[0]} is the name of another class, too ({', '.join(places[1:])}): rename one"


def cells_are_called_cells(sources: Iterable[Source]) -> Iterator[str]:
    found = list(classes(sources))
    cells, before = {"Cell"}, 0
    while before < len(cells):
        before = len(cells)
        cells |= {node.name for _, node in found if cells & {name_of(base) for base in node.bases}}
    for source, node in found:
        if (node.name in cells) != node.name.endswith("Cell") and not is_operator(node):
            yield source.at(node.lineno, f"{node.name}: the name of a subclass of Cell ends in Cell, and no other does")


def classes(sources: Iterable[Source]) -> Iterator[tuple[Source, ast.ClassDef]]:
    """Yield the classes of the three packages."""
    for source in sources:
        if source.path.partition("/")[0] in PACKAGES:
            yield from ((source, node) for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef))


def name_of(base: ast.expr) -> str:
    """Return the last name of a base class, without its parameters."""
    base = base.value if isinstance(base, ast.Subscript) else base
    return base.attr if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else ""


def is_operator(node: ast.ClassDef) -> bool:
    return node.name in dir(datapipes.iter)


def attributes(node: ast.ClassDef) -> set[str]:
    """Return the attributes that the methods of a class assign, but for parameters kept under their own name."""
    found = set()
    for method in node.body:
        if not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        given = {each.arg for each in [*method.args.args, *method.args.kwonlyargs, *method.args.posonlyargs]}
        for statement in ast.walk(method):
            if not isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
                continue
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in (each for whole in targets for each in ast.walk(whole)):
                match target:
                    case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                        match statement.value:
                            case ast.Name(id=value) if value == name and value in given:
                                pass
                            case _:
                                found.add(name)
    return found


def docstrings_of_functions(source: Source) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    """Yield the functions that have a docstring and are no properties, which are named by a noun."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (text := ast.get_docstring(node)):
            marks = {name_of(made) for made in node.decorator_list}
            if marks.isdisjoint({"property", "cached_property"}):
                yield node, text


def prose(source: Source) -> Iterator[tuple[int, str]]:
    """Yield docstrings, comments and texts of errors, each with its line."""
    for node in ast.walk(source.tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text
            case ast.Raise(exc=ast.Call() as made):
                words = [part.value for part in ast.walk(made) if isinstance(part, ast.Constant)]
                yield node.lineno, " ".join(word for word in words if isinstance(word, str))
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def finished() -> list[Source]:
    return [source for source in python() if source.path.startswith(tuple(f"{path}/" for path in FINISHED))]


@pytest.mark.parametrize("rule", [actors_are_nouns, docstrings_say_what_is_done])
def test_finished_packages_keep(rule: Rule) -> None:
    report(complaint for source in finished() for complaint in rule(source))


@pytest.mark.parametrize("rule", [objects_are_small, phases_stand_in_a_table])
def test_the_packages_keep(rule: Rule) -> None:
    report(complaint for source in python() if source.path.partition("/")[0] in PACKAGES for complaint in rule(source))


def test_class_names_are_unique() -> None:
    report(classes_have_names_of_their_own(python()))


def test_cells_are_called_cells() -> None:
    report(cells_are_called_cells(python()))


def test_most_docstrings_of_functions_begin_with_a_verb() -> None:
    first = [
        re.split(r"\W", text, maxsplit=1)[0].lower()
        for source in finished()
        for _, text in docstrings_of_functions(source)
    ]
    verbs = sum(word in VERBS for word in first)
    assert verbs >= 0.9 * len(first), f"{verbs} of {len(first)}"


@pytest.mark.parametrize(
    ("rule", "bad", "good"),
    [
        (actors_are_nouns, "x = 1  # whoever reads", "x = 1  # the reader"),
        (actors_are_nouns, "'''Tell somebody.'''", "'''Tell the caller.'''"),
        (actors_are_nouns, "raise ValueError(f'{x} is for nobody')", "raise ValueError('{x} is refused')"),
        (docstrings_say_what_is_done, "def f():\n    '''What is read.'''", "def f():\n    '''Return what is read.'''"),
        (docstrings_say_what_is_done, "def f():\n    '''How many.'''", "@property\ndef f():\n    '''How many.'''"),
        (
            objects_are_small,
            "class A:\n    def __init__(self):\n" + "".join(f"        self.a{i} = {i}\n" for i in range(16)),
            "class A:\n    def __init__(self, b):\n        self.b = b\n"
            + "".join(f"        self.a{i} = {i}\n" for i in range(15)),
        ),
        (
            phases_stand_in_a_table,
            "APhase = Enum('APhase', 'NEW OLD')",
            "'''Table.\n\nNEW  a\nOLD  b\n'''\nAPhase = Enum('APhase', 'NEW OLD')",
        ),
        (
            phases_stand_in_a_table,
            "class APhase(Enum):\n    NEW = 1",
            "'''Table.\n\nNEW    nothing was read\n'''\nclass APhase(Enum):\n    NEW = 1",
        ),
    ],
)
def test_a_rule_of_words_complains(rule: Rule, bad: str, good: str) -> None:
    assert list(rule(Source(HERE, bad)))
    assert list(rule(Source(HERE, good))) == []


def test_two_classes_of_one_name_are_noticed() -> None:
    one, other = Source("datapipes/a.py", "class Turns: pass"), Source("loader2/b.py", "class _Turns: pass")
    assert list(classes_have_names_of_their_own([one, other]))
    assert list(classes_have_names_of_their_own([one])) == []


def test_a_cell_of_another_name_is_noticed() -> None:
    assert list(cells_are_called_cells([Source(HERE, "class Turns(Cell[int]): pass")]))
    assert list(cells_are_called_cells([Source(HERE, "class Turn: pass\nclass ACell(Turn): pass")]))
    assert list(cells_are_called_cells([Source(HERE, "class ACell(Cell): pass\nclass BCell(ACell): pass")])) == []
