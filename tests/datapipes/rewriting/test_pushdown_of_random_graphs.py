"""Random graphs with a filter in their midst: pushed down, each shard is what it is by definition, and resumes exactly.

Above the filter there is often nothing but what commutes with it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from itertools import islice
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datapipes.errors import BadArgumentType
from datapipes.graph import Pipe
from datapipes.iter import IterableWrapper
from datapipes.map import SequenceWrapper
from datapipes.position.seeds import Run
from tests.datapipes.rewriting.sharded_graphs import Costly, Own, Remembering, opened, plainly, shards
from tests.naive_functions import keeps, tagged
from tests.specimens.specimen import Countable


def pair(n: int, x: object) -> tuple[int, object]:
    return n, x


pytestmark = pytest.mark.filterwarnings("ignore:random_split deals elements out by their number")


def hash_of(x: object) -> int:
    return crc32(repr(x).encode()) % 10


def split_exactly(pipe: Pipe, n: int) -> Pipe:
    try:
        return pipe.random_split({"a": n, "b": 2}, seed=n, target="a")
    except BadArgumentType:  # it has no length
        return pipe


SOURCES: dict[str, Callable[[int], Pipe]] = {
    "map-style": lambda n: Costly(n).to_iter_datapipe(),
    "keys": lambda n: SequenceWrapper(range(n + 3)).map(tagged).to_iter_datapipe(list(range(n))[::-1]),
    "map-style, shuffled": lambda n: Costly(n).shuffle(),
    "copied": lambda n: IterableWrapper([[i] for i in range(n)]),
    "range": lambda n: IterableWrapper(range(5, n + 5)),
    "list": lambda n: IterableWrapper(list(range(n))),
    "unseekable": lambda n: IterableWrapper(Countable(*range(n))),
}
STAGES: dict[str, Callable[[Pipe, int], Pipe]] = {
    "map": lambda s, n: s.map(partial(pair, n)),
    "prefetch": lambda s, n: s.prefetch(n),
    "shuffle": lambda s, n: s.shuffle(buffer_size=2 * n),
    "large shuffle": lambda s, n: s.shuffle(),
    "unshuffled": lambda s, n: s.shuffle().set_shuffle(False),
    "pinned": lambda s, n: s.shuffle(buffer_size=n + 1).set_seed(n),
    "enumerate": lambda s, n: s.enumerate(n),
    "header": lambda s, n: s.header(4 * n),
    "skip": lambda s, n: s.skip(n),
    "cycle": lambda s, n: s.cycle(n),
    "no end": lambda s, n: s.cycle().header(9 * n),
    "zip": lambda s, n: s.zip(Costly(7 * n).to_iter_datapipe().map(tagged)),
    "with itself": lambda s, n: s.zip(s),
    "concat": lambda s, n: s.concat(Costly(n).to_iter_datapipe()),
    "filter": lambda s, n: s.filter(keeps),
    "batch": lambda s, n: s.batch(n),
    "forked": lambda s, n: (lambda a, b: a.zip(b))(*s.fork(2)),
    "forked shards": lambda s, n: (lambda a, b: a.map(tagged).sharding_filter().zip(b.sharding_filter()))(*s.fork(2)),
    "split": lambda s, n: s.header(50).random_split({"a": n, "b": 2}, seed=n, total_length=50, target="a"),
    "split exactly": lambda s, n: split_exactly(s, n),
    "with keys": lambda s, n: s.zip_with_map(SequenceWrapper(range(10)), hash_of),
    "retried": lambda s, n: s.map(partial(pair, n), on_error="retry(1)"),
    "tolerant": lambda s, n: s.map(tagged, on_error="skip"),
    "a user's": lambda s, n: Own(s),
    "a user's that remembers": lambda s, n: Remembering(s),
    "sharded": lambda s, n: sharded(s, 2),
}
COMMUTING = ["map", "prefetch", "shuffle", "large shuffle", "unshuffled", "pinned", "retried"]
BELOW = [*COMMUTING, "batch", "filter", "cycle", "enumerate", "skip", "forked", "a user's", "a user's that remembers"]


def sharded(pipe: Pipe, of: int) -> Pipe:
    shard = pipe.sharding_filter()
    shard.apply_sharding(of, 1)
    return shard


def stages(names: list[str], most: int) -> st.SearchStrategy[list[tuple[str, int]]]:
    return st.lists(st.tuples(st.sampled_from(names), st.integers(1, 3)), max_size=most)


@st.composite
def graphs(draw: st.DrawFn) -> Pipe:
    """A filter in the midst of a graph, above it often nothing but what commutes."""
    pipe = SOURCES[draw(st.sampled_from(list(SOURCES)))](draw(st.sampled_from([9, 20, 5, 1, 0])))
    above = draw(stages(list(STAGES), 2)) + draw(stages(COMMUTING, 4))
    for name, n in above:
        pipe = STAGES[name](pipe, n)
    pipe = pipe.sharding_filter()
    for name, n in draw(stages(BELOW, 2)):
        pipe = STAGES[name](pipe, n)
    return pipe


EXAMPLES = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SEEDS = st.integers(0, 2**64 - 1)


@EXAMPLES
@given(graphs(), st.integers(2, 5), SEEDS)
def test_the_shards_are_those_of_the_plain_definition(pipe: Pipe, of: int, seed: int) -> None:
    assert shards(pipe, of, seed) == plainly(pipe, of, seed)


@EXAMPLES
@given(graphs(), st.integers(1, 5), SEEDS, st.data())
def test_a_shard_is_resumed_exactly_wherever_it_was_saved(pipe: Pipe, of: int, seed: int, data: st.DataObject) -> None:
    run = Run(seed, shard=(of, data.draw(st.integers(0, of - 1), label="shard")))
    whole, done, iterator = list(opened(pipe, run)), 0, opened(pipe, run)
    for _ in range(3):
        k = data.draw(st.integers(done, len(whole)), label="saved after")
        assert list(islice(iterator, k - done)) == whole[done:k]
        state = pickle.dumps(iterator.state_dict())
        assert list(iterator) == whole[k:]
        iterator, done = opened(pipe, run), k
        iterator.load_state_dict(pickle.loads(state))
    assert list(iterator) == whole[done:]
