"""A few drawn graphs with each fault; ``python -m tests.drawn_faults`` draws as many as are wanted."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.drawn_faults import IN_PROCESS, IN_WORKERS, cases, check
from tests.reading_services.workers.test_random_graphs_in_workers import SLOW


@pytest.mark.parametrize("fault", IN_PROCESS)
@settings(max_examples=20, suppress_health_check=SLOW)
@given(st.data())
def test_in_process(fault: str, data: st.DataObject) -> None:
    check(data.draw(cases(fault, in_workers=False)))


@pytest.mark.parametrize("fault", IN_WORKERS)
@settings(max_examples=5, suppress_health_check=SLOW)
@given(st.data())
def test_in_workers(fault: str, data: st.DataObject) -> None:
    check(data.draw(cases(fault, in_workers=True)))
