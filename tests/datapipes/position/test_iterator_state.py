"""Loading a position into an iterator: whatever is not plain data, or does not fit, is a StateError that says where."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from datapipes.errors import StateError
from datapipes.iter import IterableWrapper
from datapipes.position.iterator import iterate

HOSTILE = {"huge": 10**5000, "tensor": torch.ones(3), "object": object(), "nested": {"a": [torch.ones(2)]}}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("field", ["version", "seed", "epoch", "passes", "stages", "cells"])
def test_a_hostile_value_is_refused_by_name(field: str, hostile: Any) -> None:
    dp = IterableWrapper(range(9)).shuffle().batch(2)
    state = {**iterate(dp).state_dict(), field: hostile}
    with pytest.raises(StateError, match=field):
        iterate(dp).load_state_dict(state)


def test_a_list_that_holds_itself_is_refused() -> None:
    dp = IterableWrapper(range(9))
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(StateError, match="cells"):
        iterate(dp).load_state_dict({**iterate(dp).state_dict(), "cells": {0: endless}})
