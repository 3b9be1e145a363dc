"""The command ``python -m loader2``: the tour ``demo``, ``with-old-names`` and ``migrate`` for old programs.

``stubs`` and ``new-plugin`` are for plugins.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from datapipes.errors import BadArgument
from loader2 import __version__
from loader2.porting.old_names import old_names


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m loader2", description="Load training data: see the README.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="command", dest="command")
    commands.add_parser("demo", help="load, train, stop and resume")
    script = commands.add_parser("with-old-names", help="run a script, torchdata's names in it meaning loader2's")
    script.add_argument("--poptorch", action="store_true", help="PopTorch's names, too: poptorch and popdist")
    script.add_argument("script")
    script.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's own arguments, for its sys.argv")
    migrate = commands.add_parser("migrate", help="rewrite torchdata's, torch's and PopTorch's names in a program")
    migrate.add_argument("path", nargs="+", type=Path, help="a file, or a folder with all files below it")
    migrate.add_argument("--write", action="store_true", help="change the files; otherwise the differences are shown")
    stubs = commands.add_parser("stubs", help="write stubs, so that type checkers see the methods of installed plugins")
    stubs.add_argument("--output", type=Path, help="the folder for datapipes-stubs; site-packages if not given")
    stubs.add_argument("--check", action="store_true", help="write nothing, and fail if the stubs are out of date")
    plugin = commands.add_parser("new-plugin", help="write an installable package that adds a method to pipes")
    plugin.add_argument("name", help="name of the package and of the method: lower case, digits and _")
    plugin.add_argument("--output", type=Path, default=Path(), help="the folder to write it to; here if not given")
    given = parser.parse_args()
    if given.command == "new-plugin":
        from loader2.commands import new_plugin

        try:
            print(*new_plugin.write(given.name, given.output), sep="\n")
        except BadArgument as error:
            plugin.error(str(error))
        return
    if given.command == "stubs":
        from loader2.commands import stubs as stub_files

        sys.exit(stub_files.main(given.output, given.check))
    if given.command == "migrate":
        from loader2.porting.migrating import migration

        sys.exit(migration.main(given.path, given.write))
    if given.command == "with-old-names":
        run_with_old_names(given.script, given.arguments, ("torchdata", "poptorch") if given.poptorch else ())
        return
    from loader2.commands import demo

    demo.main()


def run_with_old_names(script: str, arguments: Sequence[str], tables: Sequence[str]) -> None:
    """Run a script as Python would, with old names switched on until it ends."""
    script = os.path.abspath(script)  # Python's own form of __file__
    sys.argv[:] = [script, *arguments]
    sys.path[0] = os.path.dirname(script)
    with old_names(*tables):
        runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
