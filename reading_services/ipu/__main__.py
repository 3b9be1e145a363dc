"""``python -m reading_services.ipu verdict SCRIPT:loader``: measure a loader against the device that it feeds."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

from datapipes.errors import BadArgument, Loader2Error
from reading_services.ipu.simulator.cost import CostModel
from reading_services.ipu.simulator.verdict.judging import verdict

EPILOG = """
SCRIPT is a file or a module. It is imported: a part that runs as a program belongs below its
`if __name__ == "__main__":`. The exit code is 0, or with --check 1 if the loader is the bottleneck.
"""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.command == "constants":
        _say(CostModel().table())
        return 0
    try:
        script, name = _parted(given.loader)
        module = imported(script)
        with ExitStack() as ending:
            loader = _loader(module, name, ending)
            found = verdict(
                loader,
                _named(module, given.model) if given.model else None,
                cost=CostModel(seconds_per_item=given.seconds_per_item) if given.seconds_per_item else None,
                seconds=given.seconds,
                stages=True if given.stages else None,
            )
        if given.picture:
            found.timeline().save(given.picture)
    except (Loader2Error, ImportError, OSError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    _say(json.dumps(found.as_dict(), indent=2) if given.json else f"{found}")
    if given.picture and not given.json:
        _say(f"A picture of some steps: {given.picture}")
    return 1 if given.check and found.slow else 0


def imported(script: str) -> ModuleType:
    """Import a file or a dotted name, and return the module."""
    path = Path(script)
    if path.suffix != ".py":
        return importlib.import_module(script)
    if not path.is_file():
        raise BadArgument(f"there is no file {script}")
    sys.path.insert(0, str(path.parent.resolve()))  # as for a program that is run; workers need it to import the script
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m reading_services.ipu", description="Size IPU input pipelines.")
    commands = parser.add_subparsers(dest="command", required=True)
    asked = commands.add_parser("verdict", help="measure a loader against the modelled device", epilog=EPILOG)
    asked.add_argument("loader", metavar="SCRIPT:loader", help="a loader, or a function that returns one")
    asked.add_argument("--model", metavar="NAME", help="the script's model, or a function that returns it")
    asked.add_argument("--seconds-per-item", type=float, metavar="S", help="compute time of one sample, if you know it")
    asked.add_argument("--seconds", type=float, default=2.0, metavar="S", help="how long to measure, 2 by default")
    asked.add_argument("--stages", action="store_true", help="time each stage of the graph, however long it takes")
    asked.add_argument("--picture", metavar="FILE", help="write a timeline as SVG")
    asked.add_argument("--json", action="store_true", help="plain data instead of text")
    asked.add_argument("--check", action="store_true", help="exit with 1 if the loader is the bottleneck")
    commands.add_parser("constants", help="show the constants of the cost model, and where each comes from")
    return parser


def _parted(argument: str) -> tuple[str, str]:
    script, colon, name = argument.rpartition(":")
    if not (script and colon and name):
        raise BadArgument(f"{argument!r} does not name a loader: it is SCRIPT:loader, as in train.py:loader")
    return script, name


def _named(module: ModuleType, name: str) -> Any:
    """Return the value of a name in the module. A class, or a function that makes the value, is called."""
    if not hasattr(module, name):
        own = (each for each, what in vars(module).items() if not isinstance(what, ModuleType))
        names = ", ".join(each for each in own if not each.startswith("_"))
        raise BadArgument(f"{module.__name__} has no {name!r}; it has {names:.300}")
    found = getattr(module, name)
    makes = isinstance(found, type) or (callable(found) and not hasattr(found, "parameters"))
    return found() if makes and not isinstance(found, Iterable) else found


def _loader(module: ModuleType, name: str, ending: ExitStack) -> Any:
    """Return the named loader. Its workers end when ``ending`` is closed."""
    loader = _named(module, name)
    if hasattr(loader, "__exit__"):
        return ending.enter_context(loader)
    if hasattr(loader, "terminate"):
        ending.callback(loader.terminate)
    return loader


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
