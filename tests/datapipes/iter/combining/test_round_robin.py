"""round_robin_demux deals elements out in turn."""

from __future__ import annotations

from typing import Any

import pytest

from datapipes.errors import BadArgument, StateError
from datapipes.iter import IterableWrapper
from datapipes.position.plain_data import sealed


@pytest.mark.parametrize("length", [0, 1, 2, 3, 7, 9])
@pytest.mark.parametrize("children", [2, 3, 4])
def test_element_k_goes_to_child_k_modulo_n(length: int, children: int) -> None:
    streams = IterableWrapper(range(length)).round_robin_demux(children)
    assert [list(stream) for stream in streams] == [list(range(length))[i::children] for i in range(children)]
    assert [len(stream) for stream in streams] == [len(range(i, length, children)) for i in range(children)]
    first, *others = streams
    assert list(first.mux_longest(*others)) == list(range(length))


def test_its_lengths_are_known_where_that_of_the_source_is() -> None:
    a, _ = IterableWrapper(range(6)).filter(lambda x: True).round_robin_demux(2)
    with pytest.raises(TypeError, match="instance doesn't have valid length"):
        len(a)


def test_refused_arguments_and_warnings() -> None:
    source = IterableWrapper(range(6))
    with pytest.raises(
        BadArgument, match=r"Expected `num_instances` larger than 0, got 0, in \.round_robin_demux\(0\)"
    ):
        source.round_robin_demux(0)
    with pytest.warns(UserWarning, match=r"round_robin_demux\(1\) distributes nothing") as caught:
        assert source.round_robin_demux(1) == [source]
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="Unlimited buffer size is set for `round_robin_demux`"):
        source.round_robin_demux(2, buffer_size=-1)
    a, b = source.round_robin_demux(2, buffer_size=1)
    with pytest.raises(BufferError, match=r"round_robin_demux buffer overflow: .* child 0 lags behind by 2 elements"):
        list(b.concat(a))


def test_its_repr_names_it() -> None:
    _, b = IterableWrapper(range(6)).round_robin_demux(2, buffer_size=3)
    assert repr(b) == "IterableWrapper(range(0, 6)).round_robin_demux(2, buffer_size=3)[1]"


def test_whose_turn_it_is_must_be_a_child() -> None:
    a, b = IterableWrapper(range(6)).round_robin_demux(2)
    it: Any = iter(a.zip(b))
    state = it.state_dict()
    place = next(place for place, cell in state["cells"].items() if type(cell) is dict)
    state["cells"][place] = {"turn": 2, "waiting": None}
    with pytest.raises(StateError, match="turn: 2 is past the end"):
        iter(a.zip(b)).load_state_dict(sealed(state))  # type: ignore[attr-defined]  # a PipeIterator
