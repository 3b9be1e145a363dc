"""Every fault that workers must bear, with every way to start them; ``python -m tests.faults`` prints the table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.faults.cases import CASES
from tests.faults.table import METHODS, Program


@pytest.fixture(scope="module", params=METHODS)
def program(request: pytest.FixtureRequest) -> Iterator[Program]:
    with closing(Program(request.param)) as program:
        yield program


@pytest.fixture(autouse=True)
def nobody_is_left_behind() -> None:
    """In place of the fixture for all tests: the program stays for the next case, and each looks for what it left."""


@pytest.mark.parametrize("name", CASES)
@pytest.mark.timeout(120)
def test_workers_bear_it(name: str, program: Program) -> None:
    outcome = program.tried(name)
    assert outcome.fine, f"{outcome.problem}\nleft behind: {outcome.leftovers}"
