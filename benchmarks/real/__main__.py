"""`python -m benchmarks.real` runs all kinds of work; `--only csv --rounds 3 --share 0.4` some of it."""

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks import machine
from benchmarks.peers.child import HOW_TO_GET_IT, INTERPRETER
from benchmarks.real import chart, data
from benchmarks.real.kinds import KINDS
from benchmarks.real.race import tables

ROUNDS = 5
PEERS = "webdataset datasets torchdata litdata spdl grain torch"


def main(arguments: list[str]) -> int:
    options = _parsed(arguments)
    print(f"{machine.header()}\n{_peers()}")
    print("Each run is a fresh process; cold: a loader made for the pass, its packages imported; warm: its next epoch.")
    print(
        "MiB: the peak of all processes, as the sum of their PSS without mapped files. CPU: of all, for an element.\n"
    )
    missed = 0
    results: chart.Results = {}
    for table in tables(options.only or KINDS, options.rounds, options.share, options.data, results):
        print(table.render(), flush=True)
        missed += table.missed
    if options.record:
        chart.recorded(results)
    print(f"{missed} missed" if missed else "none missed")
    return 1 if missed and options.check else 0


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.real",
        description="Real work, done by this library and by its peers, in turn and in fresh processes.",
    )
    names = ", ".join(KINDS)
    parser.add_argument(
        "--only", action="append", choices=KINDS, metavar="KIND", help=f"which to run, may be repeated: {names}"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"runs of each contender, {ROUNDS} by default")
    parser.add_argument("--share", type=float, default=1.0, help="of the data, to have the tables sooner; 1 by default")
    parser.add_argument(
        "--quick",
        action="store_const",
        dest="share",
        const=0.1,
        help="--share 0.1: shows that all runs, and little more",
    )
    parser.add_argument("--data", type=Path, default=data.home(), help="where data are kept, %(default)s")
    parser.add_argument("--record", action="store_true", help="keep the speeds, and draw the chart of the pages anew")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a requirement is missed")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds}: at least one round is needed")
    if not options.share > 0:
        parser.error(f"--share {options.share}: a part of the data is needed")
    return options


def _peers() -> str:
    """The versions of the peers' environment, or how to get one."""
    if not INTERPRETER.exists():
        return f"peers' environment: none; {HOW_TO_GET_IT}"
    program = (
        "import sys; from importlib.metadata import distributions as d; found = {x.name: x.version for x in d()}; "
        "print(*(f'{name} {found.get(name, None)}' for name in sys.argv[1:]), sep=', ')"
    )
    command = [str(INTERPRETER), "-c", program, *PEERS.split()]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return f"peers' environment: {told.stdout.strip() or told.stderr.strip()}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
