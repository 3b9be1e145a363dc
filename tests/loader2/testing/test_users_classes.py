"""check_pipe over classes as users write them: right ones pass, wrong ones are refused by the law that they break."""

from __future__ import annotations

import pytest

from loader2.testing import LawBroken, check_pipe, ending
from tests.loader2.testing.right_classes import RIGHT
from tests.loader2.testing.wrong_classes import WRONG, tidy


@pytest.mark.parametrize("case", RIGHT)
def test_a_right_class_passes(case: str) -> None:
    check_pipe(RIGHT[case])


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_class_is_refused_by_the_law_that_it_breaks(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "GRACE", 0.0)
    law, make = WRONG[case]
    try:
        with pytest.raises(LawBroken) as caught:
            check_pipe(make)
    finally:
        tidy()
    assert caught.value.law == law, caught.value


def test_there_are_twenty_of_each() -> None:
    assert min(len(RIGHT), len(WRONG)) >= 20
