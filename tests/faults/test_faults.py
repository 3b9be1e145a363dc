"""Faults that workers must bear, with the ways to start them; ``python -m tests.faults`` prints the table of all.

A worker that is spawned gets what it runs as one of the fork server does, pickled, and ends as a fork does, a child
that is waited for: with both of them every fault is tried. It alone imports all that it needs while its parent waits;
so it is tried with the faults that a worker may meet in that time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.faults.cases import CASES, WHILE_STARTING
from tests.faults.table import METHODS, Program

TRIED = [(method, name) for method in METHODS for name in CASES if method != "spawn" or name in WHILE_STARTING]


@pytest.fixture(scope="module")
def program(request: pytest.FixtureRequest) -> Iterator[Program]:
    with closing(Program(request.param)) as program:
        yield program


@pytest.fixture(autouse=True)
def nobody_is_left_behind() -> None:
    """In place of the fixture for all tests: the program stays for the next case, and each looks for what it left."""


@pytest.mark.parametrize(("program", "name"), TRIED, indirect=["program"])
def test_workers_bear_it(program: Program, name: str) -> None:
    outcome = program.tried(name)
    assert outcome.fine, f"{outcome.problem}\nleft behind: {outcome.leftovers}"
