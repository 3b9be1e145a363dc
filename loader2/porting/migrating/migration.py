"""The command ``python -m loader2 migrate``: it finds files, and shows or writes the changed ones."""

from __future__ import annotations

import difflib
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from datapipes.errors import BadArgument
from datapipes.messages.extras import needed
from loader2.porting.migrating import configs
from loader2.porting.migrating.notes import Note

_CONFIGS: Final = (".json", ".toml", ".yaml", ".yml")
_PROGRAMS: Final = (".py", ".pyi")
_NOTEBOOK: Final = ".ipynb"
_SUFFIXES: Final = (*_CONFIGS, *_PROGRAMS, _NOTEBOOK)
_NOT_THEIRS: Final = ("__pycache__", "build", "dist", "node_modules", "site-packages")
_PACKAGES: Final = ("datapipes", "loader2", "reading_services")
_MENTIONED: Final = re.compile(
    rb"torchdata|poptorch|popdist|[Dd]ata[Pp]ipe|loader2|reading_services|DataChunk|(?:argument|runtime)_validation|"
    rb"non_deterministic|guaranteed_|traverse|apply_s|utils[^\n]*graph"
)
"""Pattern of a file that is worth reading: it has an old name, or one of the library's, which notes may concern."""


def main(paths: Sequence[Path], write: bool) -> int:
    """Show the changes, or write them, and print notes. Return 1 if a file could not be read, 2 at wrong arguments."""
    try:
        needed("libcst", "migrate")
    except ModuleNotFoundError as error:
        print(f"python -m loader2 migrate: {error}", file=sys.stderr)
        return 2
    changed, noted, failed = 0, 0, 0
    try:
        found = [path for given in paths for path in files(given)]
    except BadArgument as error:
        print(f"python -m loader2 migrate: {error}", file=sys.stderr)
        return 2
    for path in found:
        source = path.read_bytes()
        try:
            text, notes = migrated(path.suffix, source)
        except (SyntaxError, ValueError) as error:
            print(f"{path}: skipped, because it cannot be read: {error}", file=sys.stderr)
            failed += 1
            continue
        if text != source:
            changed += 1
            notes += hiding(path)
            if write:
                path.write_bytes(text)
                print(f"written: {path}")
            else:
                sys.stdout.writelines(difference(path, source, text))
        for note in notes:
            print(f"{path}:{note.line}: {note.text}")
        noted += len(notes)
    print(
        f"{len(found)} files read, {changed} {'written' if write else 'to change (--write does it)'}, {noted} notes, "
        f"{failed} skipped",
        file=sys.stderr,
    )
    return 1 if failed else 0


def files(path: Path) -> Iterator[Path]:
    """Yield a file, or those of a folder that may hold names. Hidden folders and environments are skipped."""
    if path.is_file():
        if path.suffix not in _SUFFIXES:
            raise BadArgument(f"{path} cannot be migrated: its suffix must be one of {', '.join(_SUFFIXES)}")
        yield path
        return
    if not path.is_dir():
        raise BadArgument(f"{path} does not exist")
    for inner in sorted(path.iterdir()):
        is_ours = not inner.name.startswith(".") and inner.name not in _NOT_THEIRS and not inner.is_symlink()
        if is_ours and (inner.suffix in _SUFFIXES if inner.is_file() else not (inner / "pyvenv.cfg").exists()):
            yield from files(inner)


def migrated(suffix: str, source: bytes) -> tuple[bytes, list[Note]]:
    """Return a file's contents with new names, and notes. Raise ValueError or SyntaxError if it cannot be read."""
    if not _MENTIONED.search(source):
        return source, []
    if suffix in _PROGRAMS:
        from loader2.porting.migrating import programs

        return programs.migrated(source)
    if suffix == _NOTEBOOK:
        from loader2.porting.migrating import notebooks

        return notebooks.migrated(source)
    text, notes = configs.migrated(source.decode())
    return text.encode(), notes


def difference(path: Path, before: bytes, after: bytes) -> Iterator[str]:
    """Yield the lines of a file's unified diff."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(before).readline) if path.suffix in _PROGRAMS else ("utf-8", [])
    for line in difflib.unified_diff(
        before.decode(encoding).splitlines(keepends=True),
        after.decode(encoding).splitlines(keepends=True),
        str(path),
        str(path),
    ):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def hiding(path: Path) -> Iterator[Note]:
    """Yield notes on modules beside a script that hide a package of the library."""
    folder = path.resolve().parent
    if (folder / "__init__.py").exists():
        return
    for name in _PACKAGES:
        if (folder / f"{name}.py").exists() or (folder / name / "__init__.py").exists():
            yield Note(1, f"{name} beside this file hides the library's package of that name: rename it")
