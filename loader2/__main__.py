"""``python -m loader2 demo``: the tour of the library; ``migrate``: torchdata's names made ours; ``--version``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from loader2 import __version__


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m loader2", description="Load training data: see the README.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="command", dest="command")
    commands.add_parser("demo", help="load, train, stop and resume")
    migrate = commands.add_parser("migrate", help="rewrite torchdata's, torch's and PopTorch's names in a program")
    migrate.add_argument("path", nargs="+", type=Path, help="a file, or a folder with all that is below it")
    migrate.add_argument("--write", action="store_true", help="change the files; otherwise the differences are shown")
    given = parser.parse_args()
    if given.command == "migrate":
        from loader2.migrating import migration

        sys.exit(migration.main(given.path, given.write))
    from loader2 import demo

    demo.main()


if __name__ == "__main__":
    main()
