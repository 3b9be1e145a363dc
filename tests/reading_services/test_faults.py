"""Every fault that workers must bear, with every way to start them; ``python -m tests.faults`` prints the table."""

from __future__ import annotations

import pytest

from tests.fault_cases import CASES
from tests.faults import METHODS, tried


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.timeout(120)
def test_workers_bear_it(name: str, method: str) -> None:
    outcome = tried(name, method)
    assert outcome.fine, f"{outcome.problem}\nleft behind: {outcome.leftovers}"
