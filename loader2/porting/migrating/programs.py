"""Old names in a Python file: imports, chains of attributes and strings. The rest of the file stays as it is.

An import keeps binding the name that it bound: ``import poptorch`` becomes ``import reading_services.ipu as poptorch``,
and a class with another name here is imported under its old name. So code that uses the name stays valid, in this file
and in files that import it from here. Some names meant several modules of the library (``torch``, ``torchdata``,
``torchdata.dataloader2``). Their chains are rewritten, and the modules are imported beside them.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import libcst as cst
from libcst.helpers import get_full_name_for_node
from libcst.metadata import (
    Assignment,
    BaseAssignment,
    ByteSpanPositionProvider,
    ClassScope,
    CodeRange,
    CodeSpan,
    ExpressionContext,
    ExpressionContextProvider,
    GlobalScope,
    ImportAssignment,
    MetadataWrapper,
    ParentNodeProvider,
    PositionProvider,
    Scope,
    ScopeProvider,
)

from loader2.porting.migrating.names import KnownName, Missing, Module, New, in_text, new
from loader2.porting.migrating.notes import Note, decisions
from loader2.porting.old_modules import STAYING

_DOTTED: Final = re.compile(r"[A-Za-z_]\w*(?:\.\w+)+")
_ROOTS: Final = ("datapipes", "loader2", "reading_services")
_RENAMED: Final = ("PrototypeMultiProcessingReadingService",)
"""Names that are replaced if only this file has them. Their counterparts take other arguments, as a note says."""
_WIDTH: Final = 88
"""Characters of a line. A longer import is written with one name on each line."""

_Import = cst.Import | cst.ImportFrom


def migrated(source: bytes) -> tuple[bytes, list[Note]]:
    """Return a program with new names, and notes. Raise SyntaxError if it is not Python.

    >>> text, notes = migrated(b"import torch\\n\\ntorch.utils.data.graph.traverse_dps(dp)  # all\\n")
    >>> print(text.decode(), end="")
    import torch
    import datapipes.graph
    <BLANKLINE>
    datapipes.graph.traverse_dps(dp)  # all
    """
    with warnings.catch_warnings(action="ignore"):  # for escapes in the program's strings
        tree = ast.parse(source)
    try:
        module = cst.parse_module(source)
    except cst.ParserSyntaxError as error:
        raise SyntaxError(str(error)) from error
    program = _SourceFile(module)
    program.read()
    notes = sorted({*program.notes, *decisions(tree)})
    return (_edited(module, program.edits) if program.edits else source), notes


def _edited(module: cst.Module, edits: list[tuple[CodeSpan, str]]) -> bytes:
    """Return the module with pieces replaced, from the last to the first."""
    code = module.code.encode()
    for span, text in sorted(edits, key=lambda edit: edit[0].start, reverse=True):
        code = code[: span.start] + text.encode() + code[span.start + span.length :]
    return code.decode().encode(module.encoding)


@dataclass(frozen=True)
class _Binding:
    """Name that an import binds, with the dotted name that it means."""

    node: _Import
    alias: cst.ImportAlias
    target: str
    is_root: bool
    """Whether this is ``import a.b.c``, which binds ``a``."""


class _SourceFile:
    """One file, with its edits and notes."""

    def __init__(self, module: cst.Module) -> None:
        wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
        found: Mapping[Any, Mapping[cst.CSTNode, Any]] = wrapper.resolve_many(
            (ScopeProvider, PositionProvider, ByteSpanPositionProvider, ExpressionContextProvider, ParentNodeProvider)
        )
        self._module = module
        self._code = module.code.encode()
        self._scopes: Mapping[cst.CSTNode, Scope | None] = found[ScopeProvider]
        self._places: Mapping[cst.CSTNode, CodeRange] = found[PositionProvider]
        self._spans: Mapping[cst.CSTNode, CodeSpan] = found[ByteSpanPositionProvider]
        self._contexts: Mapping[cst.CSTNode, ExpressionContext | None] = found[ExpressionContextProvider]
        self._parents: Mapping[cst.CSTNode, cst.CSTNode] = found[ParentNodeProvider]
        self._assigned = {scope: _by_root(scope) for scope in set(self._scopes.values()) if scope is not None}
        self._taken = {root for root in _ROOTS if any(map(self._is_others, self._assigned_as(root)))}
        self._needs: dict[_Import, set[str]] = {}
        self._stays: dict[cst.ImportAlias, set[str]] = {}  # imported names with their attributes that stay
        self._added: dict[cst.ImportFrom, list[str]] = {}  # names added to a neighbouring import of their module
        self._said: set[tuple[cst.CSTNode, str]] = set()  # blocks, with the imports written into them
        self.edits: list[tuple[CodeSpan, str]] = []
        self.notes: list[Note] = []

    def read(self) -> None:
        """Collect edits and notes."""
        for node in [*self._read(self._module)]:
            if isinstance(node, cst.Import):
                self._import(node)
            else:
                self._import_from(node)
        for node, texts in self._added.items():
            last = self._spans[_names(node)[-1]]
            between = "," + (self._line_start(last) or " ")
            self.edits.append((CodeSpan(last.start + last.length, 0), "".join(f"{between}{text}" for text in texts)))

    def _read(self, node: cst.CSTNode) -> Iterator[_Import]:
        """Edit the strings and names below a node, and yield its imports."""
        match node:
            case cst.Import() | cst.ImportFrom():
                yield node
                return
            case cst.SimpleString():
                self._string(node)
                return
            case cst.FormattedStringText(value=value):
                self._mentions(node, value)
                return
            case cst.Name() if self._contexts.get(node) is ExpressionContext.LOAD:
                self._chain(node, [node.value], node)
                return
            case cst.Attribute() if (root := _root(node)) is not None:
                self._chain(node, (get_full_name_for_node(node) or "").split("."), root)
                return
        for child in node.children:
            yield from self._read(child)

    # -- names that are used -------------------------------------------------------------------------------------------

    def _chain(self, node: cst.CSTNode, parts: list[str], root: cst.Name) -> None:
        bindings = self._bindings(root)
        if not bindings:
            return
        old = [new(".".join((binding.target, *parts[1:]))) for binding in bindings]
        known = {name for name in old if isinstance(name, Module | KnownName)}
        texts = {self._as_bound(parts[0], binding, name) for binding, name in zip(bindings, old, strict=True)}
        if len(texts) == 1 and (text := texts.pop()) is not None:
            pass  # the bound names stay, and so do their attributes
        elif len(known) == 1:
            (name,) = known
            statement, module = self._reference(name.module)
            text = module + name.dotted.removeprefix(name.module)
            for binding in self._where_to_import(statement, bindings):
                self._needs.setdefault(binding.node, set()).add(statement)
        else:
            for binding in bindings:
                self._stays.setdefault(binding.alias, set()).add("".join(parts[1:2]))
            if not any(isinstance(new(binding.target), Missing) for binding in bindings):  # noted at the import
                self.notes += (self._note(node, name.advice()) for name in old if isinstance(name, Missing))
            if known:
                names = " or ".join(sorted(name.dotted for name in known))
                self._note_at(
                    node, f"{'.'.join(parts)} is {names}, depending on the import, and is left: write one of them"
                )
            return
        if text != ".".join(parts):
            self.edits.append((self._spans[node], text))

    def _as_bound(self, local: str, binding: _Binding, name: New | None) -> str | None:
        """Return a new name in terms of the name that an import will bind. Return None if it is not below that."""
        here = new(binding.target)
        if not isinstance(name, Module | KnownName) or not isinstance(here, Module | KnownName):
            return None
        local = here.dotted.rpartition(".")[2] if self._is_renamed(binding) else local
        is_below = f"{name.dotted}.".startswith(f"{here.dotted}.")
        return local + name.dotted.removeprefix(here.dotted) if is_below else None

    def _is_renamed(self, binding: _Binding) -> bool:
        """Return whether the file uses a name's new spelling from now on. It needs both spellings to be unambiguous."""
        here, old = new(binding.target), binding.alias.evaluated_name
        if old not in _RENAMED or binding.alias.asname is not None or not isinstance(here, KnownName):
            return False
        named = [*self._assigned_as(old), *self._assigned_as(here.name)]
        bindings = [_binding(each) for each in named if isinstance(each, ImportAssignment)]
        alone = len(bindings) == len(named) and all(each is not None and new(each.target) == here for each in bindings)
        is_told = re.search(rf"['\"]{old}['\"]", self._module.code) is not None
        return alone and not is_told and any(assignment.references for assignment in self._assigned_as(old))

    def _where_to_import(self, statement: str, bindings: list[_Binding]) -> list[_Binding]:
        """Return the imports beside which a module of the library has to be imported."""
        if bare := [binding for binding in bindings if _is_torchdata(binding)]:
            return bare
        if any(statement == self._replacing(binding) for binding in bindings):
            return []
        return bindings[:1] if len({new(binding.target) for binding in bindings}) == 1 else bindings

    def _bindings(self, name: cst.Name) -> list[_Binding]:
        """Return the imports that a name may come from."""
        scope = start = self._scopes.get(name)
        while scope is not None:
            found = self._assigned[scope].get(name.value, []) if scope in self._assigned else []
            if found and (scope is start or not isinstance(scope, ClassScope)):
                bindings = (_binding(assignment) for assignment in found if isinstance(assignment, ImportAssignment))
                there = (binding for binding in bindings if binding is not None)
                return sorted(there, key=lambda binding: self._spans[binding.node].start)
            scope = None if isinstance(scope, GlobalScope) else scope.parent
        return []

    def _reference(self, module: str) -> tuple[str, str]:
        """Return the statement that imports a module of the library, and the name that it binds."""
        if module.partition(".")[0] not in self._taken:
            return f"import {module}", module
        name = module.replace(".", "_") if "." in module else f"{module}_"
        return f"import {module} as {name}", name

    def _assigned_as(self, root: str) -> Iterator[BaseAssignment]:
        return (assignment for names in self._assigned.values() for assignment in names.get(root, ()))

    def _is_others(self, assignment: BaseAssignment) -> bool:
        """Return whether a name like that of a package of the library means something else in this file."""
        if isinstance(assignment, ImportAssignment) and (binding := _binding(assignment)) is not None:
            here = new(binding.target)
            target = here.dotted if isinstance(here, Module | KnownName) else binding.target
            return target != assignment.name.partition(".")[0]
        return isinstance(assignment, Assignment)

    # -- imports -------------------------------------------------------------------------------------------------------

    def _replacing(self, binding: _Binding) -> str | None:
        """Return the library's import that replaces ``import a.b.c``, or None."""
        here = new(get_full_name_for_node(binding.alias.name) or "")
        return self._reference(here.module)[0] if binding.is_root and isinstance(here, Module) else None

    def _import(self, node: cst.Import) -> None:
        kept: dict[cst.ImportAlias, str] = {}
        beside: list[str] = []
        needs = sorted(self._needs.get(node, set()))
        for alias in node.names:
            old = get_full_name_for_node(alias.name) or ""
            here = new(old)
            local = alias.evaluated_alias
            root = old.partition(".")[0]
            if isinstance(here, Missing):
                self._note_at(node, here.advice())
            module = here.module if isinstance(here, Module) else None
            if old == "torchdata" and needs and alias not in self._stays:
                continue  # it only meant modules of the library
            if old == "torchdata" and not (self._stays.get(alias) or {""}) <= {*STAYING}:
                self._note_at(node, "torchdata is still imported: leave it out, or the program needs torchdata")
            if module is None:
                kept[alias] = self._module.code_for_node(alias.with_changes(comma=cst.MaybeSentinel.DEFAULT))
            elif local is not None or root == old:
                name = local or old
                kept[alias] = module if module == name else f"{module} as {name}"
            else:
                kept[alias] = self._reference(module)[0].removeprefix("import ")
                if isinstance(whole := new(root), Module):
                    beside.append(f"import {whole.module} as {root}")
                elif alias in self._stays and not self._is_bound_elsewhere(node, root):
                    beside.append(f"import {root}")
        needs = sorted(self._needs.get(node, set()))
        whole_text = self._retold(node, kept) if len(kept) == len(node.names) else f"import {', '.join(kept.values())}"
        statements = [whole_text] if kept else []
        block = self._parents[self._parents[node]]
        beside = [statement for statement in beside if (block, statement) not in self._said]
        self._said |= {(block, statement) for statement in (*(f"import {each}" for each in kept.values()), *beside)}
        self._replace(node, list(dict.fromkeys([*statements, *beside, *needs])))

    def _retold(self, node: _Import, texts: Mapping[cst.ImportAlias, str]) -> str:
        """Return the text of a statement with some of its names replaced."""
        span = self._spans[node]
        code = self._code[span.start : span.start + span.length]
        for alias, text in reversed([*texts.items()]):
            start = self._spans[alias].start - span.start
            code = code[:start] + text.encode() + code[start + self._spans[alias].length :]
        return code.decode()

    def _is_bound_elsewhere(self, node: cst.Import, root: str) -> bool:
        """Return whether another import of the scope binds the same root and stays."""
        for assignment in self._assigned_as(root):
            binding = _binding(assignment) if isinstance(assignment, ImportAssignment) else None
            same = binding is not None and binding.node is not node and binding.is_root
            if same and assignment.scope is self._scopes.get(node) and new(assignment.name) is None:
                return True
        return False

    def _import_from(self, node: cst.ImportFrom) -> None:
        module = get_full_name_for_node(node.module) if node.module is not None else None
        needs = sorted(self._needs.get(node, set()))
        if node.relative or module is None:
            return
        if isinstance(node.names, cst.ImportStar):
            self._import_all(node, module)
            return
        homes = self._homes(node)
        if list(homes) == [None]:
            self._replace(node, [self._module.code_for_node(node), *needs] if needs else [])
        elif home := self._single_home(node):
            if self._goes_beside(node, home, homes[home]):
                self._delete(node)
                return
            assert node.module is not None  # checked above
            self.edits.append((self._spans[node.module], home))
            for alias, text in homes[home]:
                if text != _text(alias):
                    self.edits.append((self._spans[alias], text))
        else:
            homes = {home: names for home, names in homes.items() if not self._goes_beside(node, home, names)}
            apart = (self._taken_apart(node, module if home is None else home, names) for home, names in homes.items())
            self._replace(node, [*chain.from_iterable(apart), *needs])

    def _homes(self, node: cst.ImportFrom) -> dict[str | None, list[tuple[cst.ImportAlias, str]]]:
        """Return the names of an import, as text, by the module to import them from. None: they stay."""
        homes: dict[str | None, list[tuple[cst.ImportAlias, str]]] = {}
        module = get_full_name_for_node(node.module) if node.module is not None else None
        if module is None or node.relative or isinstance(node.names, cst.ImportStar):
            return homes
        for alias in node.names:
            home, text = self._home(node, alias, module)
            if all(text != other for _, other in homes.setdefault(home, [])):
                homes[home].append((alias, text))
        return homes

    def _single_home(self, node: cst.ImportFrom) -> str | None:
        """Return the library's module for an import, if all of its names are there and it gets no other import."""
        homes = self._homes(node)
        if len(homes) != 1 or node in self._needs or isinstance(node.names, cst.ImportStar):
            return None
        ((home, names),) = homes.items()
        return home if len(names) == len(node.names) else None

    def _goes_beside(self, node: cst.ImportFrom, home: str | None, names: list[tuple[cst.ImportAlias, str]]) -> bool:
        """Add names to a neighbouring import of the same module. Return False if there is none or a comment forbids."""
        run = self._run(node)
        target = next((each for each in run if home and self._single_home(each) == home), None)
        if target is None or target is node or self._has_comment(node) or any(self._comments(target)):
            return False
        there = [text for _, text in self._homes(target)[home]] + self._added.get(target, [])
        more = [text for _, text in names if text not in there]
        meanings: dict[str, set[tuple[str | None, str]]] = {}
        for module, alias, text in (
            (m, *pair) for each in run for m, pairs in self._homes(each).items() for pair in pairs
        ):
            meanings.setdefault(_local(alias), set()).add((module, text))
        once = all(len(meanings[_local(alias)]) == 1 for alias, _ in names)
        width = len(f"{self._indent(target)}from {home} import {', '.join([*there, *more])}")
        if not once or (width > _WIDTH and not self._line_start(self._spans[_names(target)[-1]])):
            return False
        self._added.setdefault(target, []).extend(more)
        return True

    def _run(self, node: cst.ImportFrom) -> list[cst.ImportFrom]:
        """Return the consecutive import lines around an import, if each is alone in its line."""
        line = self._parents[node]
        lines: list[Any] = list(getattr(self._parents[line], "body", []))
        if line not in lines or not isinstance(line, cst.SimpleStatementLine) or len(line.body) > 1:
            return []
        first = last = lines.index(line)
        while first and _is_import(lines[first - 1]):
            first -= 1
        while last + 1 < len(lines) and _is_import(lines[last + 1]):
            last += 1
        statements = (each.body[0] for each in lines[first : last + 1])
        return [statement for statement in statements if isinstance(statement, cst.ImportFrom)]

    def _line_start(self, span: CodeSpan) -> str:
        """Return the newline and indent before a piece of the program. Return "" if it is not the first in its line."""
        begin = self._code.rfind(b"\n", 0, span.start) + 1
        before = self._code[begin : span.start].decode()
        return "" if before.strip() else self._module.default_newline + before

    def _has_comment(self, node: cst.ImportFrom) -> bool:
        """Return whether a comment is in the lines of an import, or above it."""
        line = self._parents[node]
        above = isinstance(line, cst.SimpleStatementLine) and any(each.comment for each in line.leading_lines)
        behind = isinstance(line, cst.SimpleStatementLine) and line.trailing_whitespace.comment is not None
        return above or behind or any(True for _ in self._comments(node))

    def _delete(self, node: cst.ImportFrom) -> None:
        span = self._spans[node]
        start = self._code.rfind(b"\n", 0, span.start) + 1
        end = self._code.find(b"\n", span.start + span.length) + 1 or len(self._code)
        self.edits.append((CodeSpan(start, end - start), ""))

    def _home(self, node: cst.ImportFrom, alias: cst.ImportAlias, module: str) -> tuple[str | None, str]:
        """Return the module to import a name from, and the name with its alias. None: it stays; "": ``import name``."""
        here = new(f"{module}.{alias.evaluated_name}")
        if isinstance(here, Missing):
            self._note_at(node, here.advice())
        if not isinstance(here, Module | KnownName):
            return None, _text(alias)
        home, _, name = here.dotted.rpartition(".")
        is_renamed = self._is_renamed(_Binding(node, alias, f"{module}.{alias.evaluated_name}", is_root=False))
        local = alias.evaluated_alias or (name if is_renamed else alias.evaluated_name)
        is_plain = name == local and alias.asname is None
        return home, name if is_plain else f"{name} as {local}"

    def _import_all(self, node: cst.ImportFrom, module: str) -> None:
        here = new(module)
        if here is None:
            if module == "torch.utils.data" and re.search(r"\b(IterDataPipe|MapDataPipe)\b", self._module.code):
                self._note_at(node, "a star import of torch's pipes is left: import the pipes by name")
        elif not isinstance(here, Module) or here.module == "loader2":
            self._note_at(node, f"a star import of {module} is left: import by name, and migrate again")
        elif node.module is not None:
            self.edits.append((self._spans[node.module], here.module))
            self._note_at(node, f"a star import of {here.module}, which has other names, too: import by name")

    def _taken_apart(self, node: cst.ImportFrom, home: str, names: list[tuple[cst.ImportAlias, str]]) -> Iterator[str]:
        """Yield the statements that import some of the names of another one."""
        if not home:
            yield from (f"import {text}" for _, text in names)
            return
        flat = f"from {home} import {', '.join(text for _, text in names)}"
        comments = {alias: text for alias, text in self._comments(node) if any(alias is one for one, _ in names)}
        indent = self._indent(node)
        if not comments and len(indent) + len(flat) <= _WIDTH:
            yield flat
            return
        newline = self._module.default_newline
        within = indent + self._module.default_indent
        lines = [f"from {home} import ("]
        for alias, text in names:
            lines.append(f"{within}{text},{'  ' if alias in comments else ''}{comments.get(alias, '')}")
        yield newline.join([*lines, f"{indent})"])

    def _comments(self, node: cst.ImportFrom) -> Iterator[tuple[cst.ImportAlias, str]]:
        """Yield the names in parentheses that have comments after or below them, with these comments."""
        aliases = _names(node)
        for number, alias in enumerate(aliases):
            spaces: list[cst.BaseParenthesizableWhitespace] = []
            if isinstance(alias.comma, cst.Comma):
                spaces.append(alias.comma.whitespace_after)
            if number == 0 and node.lpar is not None:
                spaces.append(node.lpar.whitespace_after)
            if number == len(aliases) - 1 and node.rpar is not None:
                spaces.append(node.rpar.whitespace_before)
            within = [space for space in spaces if isinstance(space, cst.ParenthesizedWhitespace)]
            lines = [space.first_line.comment for space in within]
            lines += [line.comment for space in within for line in space.empty_lines]
            texts = [comment.value for comment in lines if comment is not None]
            if texts:
                yield alias, "  ".join(texts)

    def _replace(self, node: _Import, statements: list[str]) -> None:
        """Replace one statement by several: in lines of their own, unless it shares its line."""
        line = self._parents[node]
        alone = isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1
        text = (self._module.default_newline + self._indent(node) if alone else "; ").join(statements)
        if statements and text != self._module.code_for_node(node):
            self.edits.append((self._spans[node], text))

    def _indent(self, node: cst.CSTNode) -> str:
        place = self._places[node].start
        line = self._module.code.splitlines()[place.line - 1][: place.column]
        return line[: len(line) - len(line.lstrip())]

    # -- strings -------------------------------------------------------------------------------------------------------

    def _string(self, node: cst.SimpleString) -> None:
        parent = self._parents[node]
        if isinstance(parent, cst.Expr) or "b" in node.prefix:
            return  # a docstring
        here = in_text(node.raw_value)
        if isinstance(here, Module | KnownName) and not isinstance(parent, cst.ConcatenatedString):
            self.edits.append((self._spans[node], f"{node.prefix}{node.quote}{here.dotted}{node.quote}"))
        else:
            self._mentions(node, node.raw_value)

    def _mentions(self, node: cst.CSTNode, text: str) -> None:
        for found in _DOTTED.findall(text):
            here = in_text(found)
            if isinstance(here, Missing):
                self._note_at(node, here.advice())
            elif here is not None:
                self._note_at(node, f"a text contains {found} and is left: its new name is {here.dotted}")

    def _note(self, node: cst.CSTNode, text: str) -> Note:
        return Note(self._places[node].start.line, text)

    def _note_at(self, node: cst.CSTNode, text: str) -> None:
        self.notes.append(self._note(node, text))


def _root(node: cst.Attribute) -> cst.Name | None:
    """Return the name that a chain of attributes begins with, or None."""
    value = node.value
    while isinstance(value, cst.Attribute) and not value.lpar:
        value = value.value
    return value if isinstance(value, cst.Name) and not value.lpar else None


def _by_root(scope: Scope) -> dict[str, list[BaseAssignment]]:
    """Return the assignments of a scope by name, with ``import a.b`` under ``a``."""
    table: dict[str, list[BaseAssignment]] = {}
    for assignment in scope.assignments:
        table.setdefault(assignment.name.partition(".")[0], []).append(assignment)
    return table


def _binding(assignment: ImportAssignment) -> _Binding | None:
    node = assignment.node
    if isinstance(node, cst.Import):
        for alias in node.names:
            if alias.evaluated_alias == assignment.name:
                return _Binding(node, alias, alias.evaluated_name, is_root=False)
            if alias.asname is None and alias.evaluated_name == assignment.name:
                return _Binding(node, alias, assignment.name.partition(".")[0], is_root=True)
    if isinstance(node, cst.ImportFrom) and not node.relative and not isinstance(node.names, cst.ImportStar):
        for alias in node.names:
            if (alias.evaluated_alias or alias.evaluated_name) == assignment.name and node.module is not None:
                return _Binding(
                    node, alias, f"{get_full_name_for_node(node.module)}.{alias.evaluated_name}", is_root=False
                )
    return None


def _is_torchdata(binding: _Binding) -> bool:
    """Return whether this is ``import torchdata``, which is removed if nothing else uses it."""
    return binding.is_root and binding.alias.evaluated_name == "torchdata"


def _names(node: cst.ImportFrom) -> list[cst.ImportAlias]:
    return [] if isinstance(node.names, cst.ImportStar) else list(node.names)


def _local(alias: cst.ImportAlias) -> str:
    return alias.evaluated_alias or alias.evaluated_name


def _is_import(line: cst.CSTNode) -> bool:
    """Return whether a line is one import, and nothing else."""
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return False
    return isinstance(line.body[0], cst.Import | cst.ImportFrom)


def _text(alias: cst.ImportAlias) -> str:
    local = alias.evaluated_alias
    return alias.evaluated_name if local is None else f"{alias.evaluated_name} as {local}"
