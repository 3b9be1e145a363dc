"""The command line of poprun: options up to the first word that is not one, then the program and its arguments."""

from __future__ import annotations

import argparse
import shlex
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise

_IGNORED = (
    *("--num-ilds", "--vipu-server-host", "--vipu-server-port", "--vipu-server-timeout", "--vipu-partition"),
    *("--update-partition", "--reset-partition", "--remove-partition", "--vipu-cluster", "--vipu-allocation"),
    *("--numa-aware", "--offline-mode", "--allow-run-as-root"),
)
"""Options that only hardware or MPI uses."""


@dataclass(frozen=True)
class LaunchPlan:
    """Program, instances, replicas and variables of one launch."""

    command: Sequence[str]
    replicas: int = 1
    instances: int = 1
    ipus_per_replica: int = 1
    shown: int | None = None
    """The only instance whose output is shown. None shows all."""
    cache: str | None = None
    variables: dict[str, str] = field(default_factory=dict)
    """Environment variables of all instances, from ``-x NAME=VALUE``."""
    topology: bool = False
    verbosity: int = 0

    @property
    def replicas_of_each(self) -> int:
        """The number of replicas of one instance."""
        return self.replicas // self.instances


def parse(words: Sequence[str]) -> LaunchPlan:
    """Return the plan of a command line. A wrong one ends the program with status 2 before an instance starts."""
    parser = _parser()
    given, command = _split(parser, words)
    found = parser.parse_args(given)
    if not command:
        parser.error("the program is missing")
    if strange := [host for host in found.host if host not in _names_of_this_host()]:
        parser.error(f"instances are started on this host only, and not on {', '.join(strange)}: leave --host out")
    if found.num_replicas % found.num_instances:
        parser.exit(
            1,
            f"Error: the number of replicas ({found.num_replicas}) must be divisible by the number of instances "
            f"({found.num_instances})\n",
        )
    if (shown := found.only_output_from_instance) is not None and shown >= found.num_instances:
        parser.error(f"there is no instance {shown}: the {found.num_instances} instances are counted from 0")
    return LaunchPlan(
        command=command,
        replicas=found.num_replicas,
        instances=found.num_instances,
        ipus_per_replica=found.ipus_per_replica,
        shown=shown,
        cache=found.executable_cache_path,
        variables=_exported(found.mpi_global_args) | _exported(found.mpi_local_args),
        topology=found.print_topology,
        verbosity=2 if found.vv else int(found.verbose),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "poprun",
        usage="poprun [options] program [program arguments]",
        description="Start several instances of a program, each with an equal number of the replicas.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--num-replicas", type=_count, default=1, metavar="N", help="replicas of all instances together")
    add("--num-instances", type=_count, default=1, metavar="N", help="processes, with equal numbers of replicas")
    add("--ipus-per-replica", type=_count, default=1, metavar="N", help="recorded for the program")
    add("--only-output-from-instance", type=_index, metavar="N", help="show the output and errors of one instance")
    add("--print-topology", type=_yes, default=False, metavar="yes", help="show the instances' replicas, then start")
    add("--executable-cache-path", metavar="DIR", help="folder in which the instances keep compiled models")
    add("-H", "--host", type=_hosts, default=[], metavar="NAME", help="this host; any other is refused")
    for name in ("--mpi-global-args", "--mpi-local-args"):
        add(name, type=shlex.split, default=[], metavar="STR", help="only -x NAME=VALUE: a variable for all instances")
    add("-v", "--verbose", action="store_true", help="log each step")
    add("-vv", "--vv", action="store_true", help="log more of each step")
    add("--version", action="version", version=f"poprun of loader2 {_version()}")
    for name in _IGNORED:
        add(name, metavar="X", help="ignored")
    return parser


def _split(parser: argparse.ArgumentParser, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the words into options, each in one word with its value, and the rest. A value may look like an option."""
    valued = {name for action in parser._actions if action.nargs is None for name in action.option_strings}
    given: list[str] = []
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        given.append(f"{word}={rest.pop(0)}" if word in valued and rest else word)
    return given, rest


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def _index(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 on")
    return int(text)


def _yes(text: str) -> bool:
    answers = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
    if text.lower() not in answers:
        raise argparse.ArgumentTypeError(f"{text!r} is neither yes nor no")
    return answers[text.lower()]


def _hosts(text: str) -> list[str]:
    return [name.partition(":")[0] for name in text.split(",")]


def _names_of_this_host() -> set[str]:
    name = socket.gethostname()
    return {"localhost", "127.0.0.1", "::1", name, name.partition(".")[0]}


def _exported(words: Sequence[str]) -> dict[str, str]:
    """Return the variables of MPI's ``-x NAME=VALUE``. ``-x NAME`` names a variable that the instances have anyway."""
    pairs = [word.partition("=") for flag, word in pairwise(words) if flag == "-x"]
    return {name: value for name, equals, value in pairs if equals}


def _version() -> str:
    try:
        return version("loader2")
    except PackageNotFoundError:  # run from the sources
        return "(not installed)"
