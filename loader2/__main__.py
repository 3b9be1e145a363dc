"""``python -m loader2 demo``: the tour of the library; ``python -m loader2 --version``."""

from __future__ import annotations

import argparse

from loader2 import __version__


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m loader2", description="Load training data: see the README.")
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_subparsers(required=True, metavar="command").add_parser("demo", help="load, train, stop and resume")
    parser.parse_args()
    from loader2 import demo

    demo.main()


if __name__ == "__main__":
    main()
