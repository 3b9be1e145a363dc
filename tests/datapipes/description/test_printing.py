"""A repr is the call that makes the pipe: short, without secrets, and made without calling anything of the user's."""

from __future__ import annotations

import functools
import operator
from collections import deque
from collections.abc import Iterator
from inspect import signature
from typing import Any

import pytest
import torch.utils.data.datapipes.iter as torch_pipes
from torch.utils.data import default_collate

from datapipes import functional_datapipe
from datapipes.description import structure
from datapipes.description.pipe import ComposedOperator
from datapipes.description.printing import chain, stage
from datapipes.fluent import IterMethods, MapMethods, operators_of
from datapipes.graph import SHARDING_PRIORITIES, Pipe
from datapipes.iter import FileLister, IterableWrapper, IterDataPipe, Mapper, SampleMultiplexer
from datapipes.iter.archives.decompress import CompressionType
from datapipes.map import SequenceWrapper
from tests.specimens.catalogue import SPECIMENS

NAMES = {
    "CompressionType": CompressionType,
    "FileLister": FileLister,
    "IterableWrapper": IterableWrapper,
    "SampleMultiplexer": SampleMultiplexer,
    "SHARDING_PRIORITIES": SHARDING_PRIORITIES,
    "SequenceWrapper": SequenceWrapper,
    "default_collate": default_collate,
    "functools": functools,
    "operator": operator,
}

CALLS = """
IterableWrapper([1, 2])
IterableWrapper('ab', deepcopy=False)
IterableWrapper({'b': 1, 'a': 2})
IterableWrapper(range(0, 9)).map(str)
IterableWrapper([(1, 2)]).map(max, input_col=[0, 1], output_col=-1)
IterableWrapper([1]).map(functools.partial(pow, exp=2))
IterableWrapper([1]).filter(bool)
IterableWrapper([1]).flatmap(fn=range)
IterableWrapper([1]).batch(2, drop_last=True, wrapper_class=list)
IterableWrapper([[1]]).unbatch(unbatch_level=-1)
IterableWrapper([1]).collate(conversion=tuple)
IterableWrapper([1]).shuffle(buffer_size=3)
IterableWrapper([1]).sharding_filter(sharding_group_filter=SHARDING_PRIORITIES.DISTRIBUTED)
IterableWrapper([1]).concat(IterableWrapper([2]), IterableWrapper([3]).batch(2))
IterableWrapper([1]).zip(IterableWrapper([2]).map(abs))
IterableWrapper([1]).zip_longest(IterableWrapper([2]), fill_value=0)
IterableWrapper([1]).mux(IterableWrapper([2]))
IterableWrapper([1]).mux_longest(IterableWrapper([2]))
SampleMultiplexer({IterableWrapper([1]): 1, IterableWrapper([2]).batch(3): 0.5}, seed=4)
IterableWrapper([1]).mix({IterableWrapper([2]).batch(3): {0: 1, 5: 2}}, weight=3, stop='first', seed=4)
IterableWrapper([1]).zip_with_iter(IterableWrapper([1]), int, ref_key_fn=abs, buffer_size=None)
IterableWrapper([1]).zip_with_map(SequenceWrapper([1]), int, merge_fn=max, keep_key=True)
IterableWrapper([1]).enumerate(starting_index=3)
IterableWrapper([1]).header(limit=None)
IterableWrapper([1]).cycle(count=2)
IterableWrapper([1]).repeat(2)
IterableWrapper([1]).fork(2, buffer_size=5, copy='deep')[1].map(abs)
IterableWrapper([1]).fork(2, buffer_bytes=100, spill_dir='.')[0]
IterableWrapper([1]).round_robin_demux(2, buffer_size=5)[1].batch(2)
IterableWrapper([1]).random_split({'a': 0.5, 'b': 1}, 7, total_length=1)[1].map(abs)
IterableWrapper([1]).demux(2, bool, drop_none=True)[0]
IterableWrapper([(1, 2)]).fork(2)[1].map(operator.itemgetter(1))
IterableWrapper([1]).prefetch(buffer_size=3)
IterableWrapper([1]).fullsync(timeout=60, uneven='pad')
IterableWrapper([1]).threadpool_map(str, scheduled_tasks=2, on_error='skip', thread_name_prefix='x')
IterableWrapper([1]).map_batches(sorted, 2, input_col='x').shuffled_flatmap(buffer_size=5)
IterableWrapper([(1, 2)]).drop([0]).slice(0, stop=1).flatten(indices=0).memory_cell(remember_elements=3)
IterableWrapper([{}]).add_index(index_name='n').batch(2).rows2columnar(column_names=['n']).set_length(1)
IterableWrapper([1]).groupby(abs, keep_key=True, group_size=2)
IterableWrapper(['a']).max_token_bucketize(5, buffer_size=3, include_padding=True)
IterableWrapper(['a']).in_batch_shuffle()
IterableWrapper([('a', 'b')]).lines_to_paragraphs().sharding_round_robin_dispatch()
IterableWrapper(['a']).shard_expand().in_memory_cache(size=2)
IterableWrapper([('a', 'b')]).check_hash({'a': '00'}, hash_type='md5').save_to_disk(mode='wb', filepath_fn=str)
IterableWrapper(['a']).on_disk_cache(filepath_fn=str).map(str).end_caching(same_filepath_fn=True, timeout=3)
IterableWrapper(['a']).open_files(mode='rb').load_from_tar(mode='r|', max_ratio=None).webdataset()
IterableWrapper(['a']).open_files(mode='rb').load_from_zip(max_bytes=9).load_from_rar(length=3)
IterableWrapper(['a']).open_files(mode='rb').load_from_xz(on_error='skip', max_errors=3).load_from_bz2(length=1)
IterableWrapper(['a']).open_files(mode='rb').decompress(file_type=CompressionType.GZIP).read_from_stream(chunk=4)
IterableWrapper(['a']).open_files(mode='rb').routed_decode(str, key_fn=str)
IterableWrapper(['a']).open_files(mode='rb').load_from_tfrecord(spec={'x': ((3,), None)})
IterableWrapper(['a']).open_files(mode='rb').parse_json_files(parse_float=str)
IterableWrapper(['a']).open_files(mode='rb').parse_jsonl(return_path=False)
IterableWrapper(['a']).list_row_groups().read_parquet(columns=['x'], batch_size=4)
IterableWrapper(['a']).load_parquet_as_df(columns=['x'], use_threads=True)
IterableWrapper(['a']).read_arrow(as_='dict')
IterableWrapper(['a']).read_csv_columns(columns=['x'], delimiter=';')
IterableWrapper(['.']).list_files(masks='*.py', recursive=True)
IterableWrapper(['a']).open_files(mode='rb').readlines(strip_newline=False)
IterableWrapper(['a']).open_files().parse_csv(skip_lines=1, delimiter=';')
IterableWrapper(['a']).open_files().parse_csv_as_dict(return_path=True, fieldnames=['a'])
IterableWrapper(['s3://b']).list_files_by_fsspec(masks='*.csv', key='me', secret='***')
IterableWrapper(['https://***@host/a']).open_files_by_fsspec(mode='rb', kwargs_for_open={'block_size': 0})
IterableWrapper([('a', 'b')]).save_by_fsspec(mode='wb', filepath_fn=str)
IterableWrapper(['.']).list_files_by_iopath(masks='*.py')
IterableWrapper(['a']).open_files_by_iopath(mode='rb')
IterableWrapper([('a', 'b')]).save_by_iopath(mode='wb')
IterableWrapper(['s3://b']).list_files_by_s3(length=3, region='eu-west-1')
IterableWrapper(['s3://b/a']).load_files_by_s3(request_timeout_ms=500)
IterableWrapper(['ais://b']).list_files_by_ais('http://host', length=3)
IterableWrapper(['ais://b/a']).load_files_by_ais('http://host')
IterableWrapper(['http://host/a']).read_from_http(timeout=5, auth='***')
IterableWrapper(['http://host/a']).read_from_gdrive(skip_on_error=True)
IterableWrapper(['http://host/a']).read_from_remote(on_error='skip', max_errors=3)
IterableWrapper([(1, 2)]).to_map_datapipe(key_value_fn=divmod).map(fn=str)
SequenceWrapper({'a': 1}, deepcopy=False)
SequenceWrapper([1]).batch(2).concat(SequenceWrapper([2])).zip(SequenceWrapper([3]))
SequenceWrapper([1]).in_memory_cache().shuffle(indices=[0])
SequenceWrapper([1]).to_iter_datapipe(indices=[0]).header()
""".strip().splitlines()


def double(x: int) -> int:
    return 2 * x


def triple(x: int, factor: int) -> int:
    return factor * x


class Scale:
    def __call__(self, x: int) -> int:
        return x

    def method(self, x: int) -> int:
        return x


class Plain(IterDataPipe[Any]):
    """A user's class that keeps its arguments under their own names, with an underscore, or not at all."""

    def __init__(self, source: Pipe, kept: int, hidden: int, lost: int = 0, *, option: Any = None, **rest: Any) -> None:
        self.source = source
        self.kept = kept
        self._hidden = hidden + lost
        self.option = option
        self.rest = rest

    def __iter__(self) -> Iterator[Any]:
        return iter(self.source)


class Derived(Mapper[Any]):
    """Derived from an operator; its constructor is its own."""

    def __init__(self, datapipe: Pipe) -> None:
        super().__init__(datapipe, double)


class HoldsPipes(IterDataPipe[Any]):
    def __init__(self, held: Any) -> None:
        self.held = held

    def __iter__(self) -> Iterator[Any]:
        return iter(())


@pytest.mark.filterwarnings("ignore:routed_decode")
@pytest.mark.parametrize("call", CALLS)
def test_a_repr_is_the_call_that_makes_the_pipe(call: str) -> None:
    pipe = eval(call, NAMES)
    assert repr(pipe) == str(pipe).partition("  # ")[0] == call


def test_every_operator_keeps_its_arguments_where_a_repr_finds_them() -> None:
    seen = set()
    for specimen in SPECIMENS:
        for each in structure.walk(specimen.pipe()):
            if vars(type(each)).get("_fluent") is not None:
                seen.add(type(each))
                _, *names = signature(type(each)).parameters
                lost = {name for name in names if not {name, f"_{name}"} & {*structure.attributes(each)}}
                assert lost <= {"unbatch_level"}, each  # of shuffle, which makes a stage of it
    of_methods = {*operators_of(IterMethods).values(), *operators_of(MapMethods).values()}
    assert {operator for operator in of_methods if not isinstance(operator, ComposedOperator)} <= seen


def test_functions_are_named_with_their_place() -> None:
    line = double.__code__.co_firstlineno
    pipe = IterableWrapper([1]).map(double).map(lambda x: x).map(Scale()).map(Scale().method)
    assert f".map(<double at test_printing.py:{line}>)" in repr(pipe)
    assert ".map(<lambda at test_printing.py:" in repr(pipe)
    assert ".map(<Scale at test_printing.py:" in repr(pipe)
    assert ".map(<Scale.method at test_printing.py:" in repr(pipe)
    partial = functools.partial(triple, factor=3)
    assert ".map(functools.partial(<triple at test_printing.py:" in repr(IterableWrapper([1]).map(partial))
    assert repr(IterableWrapper([1]).map(partial)).endswith(">, factor=3))")
    assert repr(IterableWrapper(["a"]).map("ab".count)).endswith(".map(<str.count>)")


def test_one_stage_prints_without_what_is_above_it() -> None:
    pipe: Any = IterableWrapper([1]).batch(4, drop_last=True).zip(IterableWrapper([2]))
    assert stage(pipe) == ".zip(...)"
    assert stage(pipe.datapipes[0]) == ".batch(4, drop_last=True)"
    assert stage(Plain(pipe, 1, 2)) == "Plain(..., 1, 2)"


def test_a_users_class_prints_as_far_as_its_arguments_are_kept() -> None:
    source = IterableWrapper([1])
    assert repr(Plain(source, 7, 8)) == "Plain(IterableWrapper([1]), 7, 8)"
    assert (
        repr(Plain(source, 7, 8, 9, option="o", extra=[2]))
        == "Plain(IterableWrapper([1]), 7, 17, option='o', extra=[2])"
    )
    bare = object.__new__(Plain)
    assert repr(bare) == "Plain(..., ..., ...)"


def test_a_class_derived_from_an_operator_prints_as_its_own_constructor() -> None:
    assert repr(Derived(IterableWrapper([1])).batch(2)) == "Derived(IterableWrapper([1])).batch(2)"


def test_a_registered_class_prints_as_its_constructor() -> None:
    @functional_datapipe("registered_for_its_repr")
    class Registered(Plain):
        pass

    source: Any = IterableWrapper([1])
    assert repr(source.registered_for_its_repr(1, 2)).endswith("Registered(IterableWrapper([1]), 1, 2)")


def test_torch_pipes_print_as_their_constructors() -> None:
    source: Any = torch_pipes.IterableWrapper(range(3))
    first, second = source.fork(2)
    pipe = Mapper(first, str).zip(second)
    assert chain(pipe) == ("_ForkerIterDataPipe(..., 2)[0].map(str).zip(_ForkerIterDataPipe(..., 2)[1])")


def test_long_graphs_are_shortened() -> None:
    pipe: IterDataPipe[Any] = IterableWrapper([1])
    for _ in range(1000):
        pipe = pipe.map(abs)
    assert repr(pipe) == "..." + 100 * ".map(abs)"
    wide = IterableWrapper([0]).concat(*[IterableWrapper([i]) for i in range(500)])
    assert 1000 < len(repr(wide)) < 5000
    nested: IterDataPipe[Any] = IterableWrapper([1])
    for _ in range(500):
        nested = HoldsPipes({"x": [nested]})
    assert len(repr(nested)) < 5000


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ([IterableWrapper([1])], "[IterableWrapper([1])]"),
        ((IterableWrapper([1]),), "(IterableWrapper([1]),)"),
        ((1, IterableWrapper([1])), "(1, IterableWrapper([1]))"),
        ({"a": IterableWrapper([1])}, "{'a': IterableWrapper([1])}"),
        (deque([IterableWrapper([1])]), "deque([IterableWrapper([1])])"),
    ],
)
def test_pipes_in_a_collection_are_printed(held: Any, expected: str) -> None:
    assert repr(HoldsPipes(held)) == f"HoldsPipes({expected})"


@pytest.mark.parametrize(
    "pipe",
    [
        Plain(IterableWrapper([1]), 1, 2, password="hush"),
        Plain(IterableWrapper([1]), 1, 2, option={"secret": "hush", "headers": {"X-Api-Key": "hush"}}),
        Plain(IterableWrapper([1]), 1, 2, access_token="hush", client_secret="hush", Authorization="hush"),
        Plain(IterableWrapper([1]), 1, 2, option=functools.partial(dict, token="hush")),
        IterableWrapper(["https://me:hush@host/file", "s3://bucket/key?X-Amz-Signature=hush&part=1"]),
        IterableWrapper(["https://" + "me:" + "hush" * 30 + "@host/file"]),
    ],
    ids=lambda pipe: str(list(vars(pipe))[-1]),
)
def test_secrets_are_left_out(pipe: Pipe) -> None:
    for text in (repr(pipe), stage(pipe), repr(pipe.map(abs))):
        assert "hush" not in text
        assert "***" in text


def test_what_only_sounds_like_a_secret_is_shown() -> None:
    pipe = Plain(IterableWrapper([1]), 1, 2, pad_token="<pad>", key="label", tokens=3, password=None, author="me")
    assert "***" not in repr(pipe)
    assert "part=1" in repr(IterableWrapper(["https://host/file?token=hush&part=1"]))
