"""Programs that were written for torchdata, torch's pipes and PopTorch run under the old names, and leave no trace."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import spawn
from pathlib import Path
from typing import Any

import pytest
import torch.utils.data
import torchdata
from torch.utils.data import IterDataPipe as TorchIterDataPipe
from torch.utils.data.datapipes.iter import IterableWrapper as TorchIterableWrapper
from torchdata.stateful_dataloader import StatefulDataLoader

import datapipes
import datapipes.graph
import datapipes.iter
import datapipes.map
import loader2
import loader2.adapters
import loader2.random
import reading_services
from datapipes.errors import BadArgument, BadArgumentType
from datapipes.iter import IterableWrapper
from loader2.porting.old_modules import INSTEAD, POPTORCH, STAYING, TABLES, TORCHDATA, VERSIONS
from loader2.porting.old_names import old_names
from tests.preloaded import Ended, Preloaded

SECONDS = 500.0

OF_STREAMS = """
AISFileLister AISFileLoader BatchAsyncMapper BatchMapper Batcher BucketBatcher Bz2FileLoader CSVDictParser CSVParser
Collator Concater Cycler DataFrameMaker Decompressor Demultiplexer Dropper EndOnDiskCacheHolder Enumerator Extractor
FSSpecFileLister FSSpecFileOpener FSSpecSaver FileLister FileOpener Filter FlatMapper Flattener Forker FullSync
GDriveReader Grouper HashChecker Header HttpReader HuggingFaceHubReader InBatchShuffler InMemoryCacheHolder IndexAdder
IoPathFileLister IoPathFileOpener IoPathSaver IterDataPipe IterKeyZipper IterableWrapper JsonParser LengthSetter
LineReader MapKeyZipper MapToIterConverter Mapper MaxTokenBucketizer Multiplexer MultiplexerLongest OnDiskCacheHolder
OnlineReader ParagraphAggregator ParquetDataFrameLoader PinMemory Prefetcher RandomSplitter RarArchiveLoader Repeater
RoundRobinDemultiplexer RoutedDecoder Rows2Columnar S3FileLister S3FileLoader SampleMultiplexer Sampler Saver
ShardExpander ShardingFilter ShardingRoundRobinDispatcher ShuffledFlatMapper Shuffler Slicer StreamReader TFRecordLoader
TarArchiveLoader ThreadPoolMapper UnBatcher UnZipper WebDataset XzFileLoader ZipArchiveLoader Zipper ZipperLongest
"""
OF_MAPS = "Batcher Concater InMemoryCacheHolder IterToMapConverter MapDataPipe Mapper SequenceWrapper Shuffler UnZipper"
SERVICES = (
    "ReadingServiceInterface CheckpointableReadingServiceInterface InProcessReadingService "
    "MultiProcessingReadingService DistributedReadingService SequentialReadingService"
)
ON_GRAPHS = "traverse_dps find_dps list_dps remove_dp replace_dp"
SEEDING = "set_datapipes_seed set_graph_random_seed"
SETTINGS = "apply_sharding apply_shuffle_settings apply_random_seed apply_shuffle_seed get_all_graph_pipes"
DECORATORS = (
    "functional_datapipe non_deterministic guaranteed_datapipes_determinism argument_validation runtime_validation "
    "runtime_validation_disabled"
)

# Where each public name of the older libraries was, and whose it is to be.
MEANING: list[tuple[str, str, Any]] = [
    ("torchdata.datapipes", "DataChunk functional_datapipe janitor", datapipes),
    ("torchdata.datapipes.iter", OF_STREAMS, datapipes.iter),
    ("torchdata.datapipes.map", OF_MAPS, datapipes.map),
    ("torchdata.datapipes.utils", "StreamWrapper janitor pin_memory_fn", datapipes),
    ("torchdata.datapipes.utils", "to_graph", datapipes.graph),
    ("torchdata.datapipes.utils.janitor", "StreamWrapper janitor", datapipes),
    ("torchdata.datapipes.utils.pin_memory", "pin_memory_fn", datapipes),
    ("torchdata.dataloader2", "DataLoader2 DataLoader2Iterator", loader2),
    ("torchdata.dataloader2", SERVICES, reading_services),
    ("torchdata.dataloader2.dataloader2", "DataLoader2 DataLoader2Iterator", loader2),
    ("torchdata.dataloader2.reading_service", f"{SERVICES} WorkerInfo", reading_services),
    ("torchdata.dataloader2.adapter", "Adapter Shuffle CacheTimeout", loader2.adapters),
    ("torchdata.dataloader2.graph", f"{ON_GRAPHS} {SEEDING} DataPipe DataPipeGraph", datapipes.graph),
    ("torchdata.dataloader2.graph.utils", f"{ON_GRAPHS} DataPipeGraph", datapipes.graph),
    ("torchdata.dataloader2.graph.settings", SEEDING, datapipes.graph),
    ("torchdata.dataloader2.random", "SeedGenerator dist_share_seed", loader2.random),
    ("torchdata.dataloader2.utils", "WorkerInfo", reading_services),
    ("torchdata.datapipes.iter.util.distributed", "PrefetchTimeoutError", reading_services),
    ("torch.utils.data", f"DataChunk {DECORATORS}", datapipes),
    ("torch.utils.data", "IterDataPipe", datapipes.iter),
    ("torch.utils.data", "MapDataPipe", datapipes.map),
    ("torch.utils.data.datapipes.datapipe", "IterDataPipe", datapipes.iter),
    ("torch.utils.data.datapipes.iter.sharding", "SHARDING_PRIORITIES", datapipes.graph),
    ("torch.utils.data.datapipes.utils.common", "StreamWrapper", datapipes),
    ("torch.utils.data.graph", "traverse traverse_dps DataPipe DataPipeGraph", datapipes.graph),
    ("torch.utils.data.graph_settings", SETTINGS, datapipes.graph),
]
# Names that have another meaning here, and names of tests and forks.
RESOLVED = [
    ("torchdata.dataloader2", "PauseIteration PrototypeMultiProcessingReadingService ShuffleSpec"),
    ("torchdata.dataloader2.dataloader2", "clone"),
    ("torchdata.dataloader2.error", "PauseIteration"),
    ("torchdata.dataloader2.linter", "_check_shuffle_before_sharding"),
    ("torchdata.dataloader2.random._philox", "PhiloxEngine"),
    ("torchdata.dataloader2.graph._serialization", "HAS_DILL"),
    ("torchdata.datapipes.iter.util.combining", "_ChildDataPipe _ForkerIterDataPipe _DemultiplexerIterDataPipe T_co"),
    ("torchdata.datapipes.utils.common", "validate_pathname_binary_tuple StreamWrapper"),
    ("torch.utils.data.datapipes.iter.combining", "_ChildDataPipe _ForkerIterDataPipe T_co"),
    ("torch.utils.data.datapipes.iter.sharding", "_ShardingIterDataPipe"),
    (
        "torch.utils.data.datapipes.utils.common",
        "DILL_AVAILABLE validate_input_col match_masks get_file_pathnames_from_root get_file_binaries_from_pathnames",
    ),
    ("torch.utils.data.datapipes.utils.decoder", "basichandlers imagehandler"),
]
ADVISED = [
    ("torchdata.datapipes.iter.util.cacheholder", "_hash_check", "check_hash"),
    ("torchdata.datapipes.iter.util.distributed", "Expected", "PrefetchTimeoutError"),
    ("torchdata.dataloader2.communication", "iter", "ReadingServiceInterface"),
    ("torchdata.dataloader2.graph", "_find_replicable_branches", "datapipes.graph"),
    ("torchdata.dataloader2.utils", "process_init_fn", "worker_init_fn"),
    ("torch.utils.data.datapipes.utils.snapshot", "_simple_graph_snapshot_restoration", "state_dict"),
    ("torchdata.datapipes.iter", "Nothing", "datapipes.iter"),
    ("poptorch", "Nothing", "reading_services.ipu"),
]


@pytest.mark.parametrize(("module", "names", "home"), MEANING)
def test_a_public_name_means_ours(module: str, names: str, home: Any) -> None:
    with old_names():
        there = import_module(module)
        for name in names.split():
            assert getattr(there, name) is getattr(home, name), name


@pytest.mark.parametrize(("module", "names"), RESOLVED)
def test_a_private_name_resolves(module: str, names: str) -> None:
    with old_names():
        for name in names.split():
            exec(f"from {module} import {name}", {})


@pytest.mark.parametrize(("module", "name", "instead"), ADVISED)
def test_a_name_without_counterpart_says_what_to_use(module: str, name: str, instead: str) -> None:
    with old_names("torchdata", "poptorch"):
        for statement in (f"from {module} import {name}", f"import {module}.{name}"):
            with pytest.raises(ImportError, match=rf"{module}\.{name} is not in loader2: .*{instead}"):
                exec(statement, {})
        with pytest.raises(AttributeError, match=rf"{module}\.{name} is not in loader2: .*{instead}"):
            getattr(import_module(module), name)
        assert not hasattr(import_module(module), name)
    assert name in INSTEAD or "communication" in module or name == "Nothing"


@pytest.mark.parametrize("module", [*TORCHDATA, *POPTORCH])
def test_all_that_a_table_says_is_there(module: str) -> None:
    with old_names(*TABLES):
        there = import_module(module)
        public = getattr(there, "__all__", ())
        assert [name for name in public if getattr(there, name) is None] == []
        assert {*public} <= {*dir(there), *torch.utils.data.__all__}
        exec(f"from {module} import *" if hasattr(there, "__all__") else f"import {module}", {})


def test_the_long_names_of_classes_are_in_the_modules_that_had_them() -> None:
    with old_names():
        for module, name, ours in (
            ("torchdata.datapipes.iter.util.cycler", "CyclerIterDataPipe", datapipes.iter.Cycler),
            ("torchdata.datapipes.iter.transform.callable", "SliceIterDataPipe", datapipes.iter.Slicer),
            ("torchdata.datapipes.iter.load.online", "HTTPReaderIterDataPipe", datapipes.iter.HttpReader),
            ("torchdata.datapipes.map.util.unzipper", "UnZipperMapDataPipe", datapipes.map.UnZipper),
            ("torch.utils.data.datapipes.iter.callable", "MapperIterDataPipe", datapipes.iter.Mapper),
            ("torch.utils.data.datapipes.map.combinatorics", "ShufflerIterDataPipe", datapipes.map.Shuffler),
        ):
            assert getattr(import_module(module), name) is ours


def around() -> list[Any]:
    """All that switching on may change."""
    old = ("torchdata", "torch.utils.data", "poptorch", "popdist")
    modules = {name: module for name, module in sys.modules.items() if name.startswith(old)}
    return [modules, {n: {**vars(m)} for n, m in modules.items()}, [*sys.meta_path], spawn.get_preparation_data]


@contextmanager
def leaving_no_trace() -> Iterator[None]:
    with old_names(*TABLES):  # imports what is imported only once
        pass
    before = around()
    yield
    for now, then in zip(around(), before, strict=True):
        assert now == then


def test_what_was_there_comes_back() -> None:
    with leaving_no_trace():
        with old_names(*TABLES):
            assert import_module("torch.utils.data").IterDataPipe is datapipes.iter.IterDataPipe
            import_module("torchdata.datapipes.iter.util.header")
        assert torch.utils.data.IterDataPipe is TorchIterDataPipe
        assert not hasattr(torchdata, "datapipes")
        with pytest.raises(ModuleNotFoundError):
            import_module("torchdata.datapipes")


def test_what_was_there_comes_back_after_an_error() -> None:
    with leaving_no_trace(), pytest.raises(KeyError, match="theirs"), old_names():
        raise KeyError("theirs")


def test_who_asks_longest_leaves_last_in_any_order() -> None:
    with leaving_no_trace():
        first, second, third = ExitStack(), ExitStack(), ExitStack()
        first.enter_context(old_names("torchdata"))
        second.enter_context(old_names("poptorch", "torchdata"))
        third.enter_context(old_names("poptorch"))
        first.close()
        assert import_module("torchdata.datapipes.iter").IterableWrapper is IterableWrapper
        second.close()
        assert torch.utils.data.IterDataPipe is TorchIterDataPipe
        assert "poptorch" in sys.modules
        third.close()
        assert "poptorch" not in sys.modules


def test_names_of_nobody_are_refused_and_nothing_is_changed() -> None:
    refused = pytest.raises(BadArgument, match=r"old_names\('tensorflow'\): there are the names of")
    with leaving_no_trace(), refused, old_names("torchdata", "tensorflow"):
        pass


def test_an_installed_package_is_hidden_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("poptorch", "poptorch.ops", "torchdata.datapipes", "torchdata.datapipes.gone"):
        monkeypatch.setitem(sys.modules, name, type(sys)(name))
    with leaving_no_trace(), old_names("poptorch", "torchdata"):
        for name in ("poptorch.ops", "torchdata.datapipes.gone"):
            with pytest.raises(ImportError, match="is not in loader2"):
                import_module(name)


def test_torchdata_need_not_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchdata"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torchdata", None)
    assert find_spec("torchdata") is None
    with old_names():
        assert import_module("torchdata").datapipes.iter.Mapper is datapipes.iter.Mapper
        assert [find_spec(f"torchdata.{name}") for name in STAYING] == [None, None]
        assert pytest.importorskip("torchdata", minversion="0.4").__version__ == VERSIONS["torchdata"]
    assert sys.modules["torchdata"] is None
    with pytest.raises(pytest.skip.Exception):
        pytest.importorskip("torchdata")


def test_all_modules_can_be_found() -> None:
    with old_names(*TABLES):
        for name in (*TORCHDATA, *POPTORCH):
            spec = find_spec(name)
            assert spec is not None
            assert spec.name == name
        assert import_module("poptorch").__version__ == VERSIONS["poptorch"]
        assert find_spec("torchdata.nodes") is not None


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")  # torchdata calls it
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("loader", [torch.utils.data.DataLoader, StatefulDataLoader])
def test_loaders_of_others_take_their_pipes_and_ours_as_they_did(loader: Any, workers: int) -> None:
    theirs, ours = TorchIterableWrapper(range(8)), IterableWrapper(range(8))
    pipes = [pipe.shuffle().sharding_filter() for pipe in (theirs, ours)]

    def elements(pipe: Any) -> list[int]:
        torch.manual_seed(3)
        return list(
            loader(pipe, batch_size=None, num_workers=workers, multiprocessing_context="fork" if workers else None)
        )

    plain = [elements(pipe) for pipe in pipes]
    with old_names():
        assert import_module("torchdata.stateful_dataloader").StatefulDataLoader is StatefulDataLoader
        nodes = import_module("torchdata.nodes")
        assert [elements(pipe) for pipe in pipes] == plain
    assert import_module("torchdata.nodes") is nodes
    assert [sorted(found) for found in plain] == [list(range(8))] * 2


def test_a_shuffle_behind_the_sharding_is_found() -> None:
    with old_names():
        linter: Any = import_module("torchdata.dataloader2.linter")
    check, source = linter._check_shuffle_before_sharding, IterableWrapper(range(4))
    shuffled = source.shuffle()
    assert check(source)
    assert check(shuffled.map(str).sharding_filter())
    assert check(shuffled.zip(shuffled).sharding_filter())
    assert not check(source.sharding_filter().shuffle())
    assert not check(shuffled.zip(source).sharding_filter())


@pytest.mark.parametrize("wrong", ["a.txt", ("a.txt",), (1, sys.stdin), ("a.txt", "text")])
def test_what_is_no_path_and_file_is_refused(wrong: Any) -> None:
    with old_names():
        common: Any = import_module("torchdata.datapipes.utils.common")
    common.validate_pathname_binary_tuple(("a.txt", common.StreamWrapper(None)))
    with pytest.raises(BadArgumentType, match=r"expected a pair \(path, open file\)"):
        common.validate_pathname_binary_tuple(wrong)


TEXTS = """
from functools import partial
from torchdata.datapipes.iter import FileOpener, IterableWrapper
from torchdata.datapipes.utils import StreamWrapper


def _path_of(root, split, _=None):
    return f"{root}/{split}.csv"


def _labelled(row):
    return int(row[0]), " ".join(row[1:])


def reviews(root, split=("train", "test")):
    if isinstance(split, tuple):
        return tuple(reviews(root, each) for each in split)
    named = IterableWrapper([split]).map(partial(_path_of, root))
    data = FileOpener(named, encoding="utf-8")
    assert all(isinstance(stream, StreamWrapper) for _, stream in data)
    return data.parse_csv().map(fn=_labelled).shuffle().set_shuffle(False).sharding_filter()
"""

TEXT_PROGRAM = """
import sys
from pathlib import Path
from torch.utils.data import DataLoader
from torchdata.dataloader2 import DataLoader2, MultiProcessingReadingService
from texts import reviews

if __name__ == "__main__":
    for split in ("train", "test"):
        Path(f"{split}.csv").write_text("".join(f"{i % 2},{split},number {i}\\n" for i in range(5)))
    train, test = reviews(".")
    wanted = [(i % 2, f"train number {i}") for i in range(5)]
    assert list(train) == wanted
    assert [tuple(row) for row in DataLoader(train, batch_size=None)] == wanted
    service = MultiProcessingReadingService(num_workers=2, multiprocessing_context=sys.argv[1])
    with DataLoader2(train, reading_service=service) as loader:
        assert list(loader) == wanted
    print(len(list(test)))
"""

LOADING_PROGRAM = """
import torch
import torch.utils.data
import torchdata
from torch.utils.data import IterDataPipe, functional_datapipe
from torch.utils.data.datapipes.iter.sharding import SHARDING_PRIORITIES
from torch.utils.data.graph_settings import apply_sharding
from torchdata.dataloader2 import DataLoader2, InProcessReadingService, ReadingServiceInterface
from torchdata.dataloader2.adapter import Shuffle
from torchdata.dataloader2.graph import find_dps, replace_dp, traverse_dps
from torchdata.dataloader2.random import SeedGenerator
from torchdata.datapipes.iter import IterableWrapper, Mapper
from torchdata.datapipes.iter.util.header import HeaderIterDataPipe


@functional_datapipe("plus")
class Plus(IterDataPipe):
    def __init__(self, source_datapipe, amount):
        self.source_datapipe, self.amount = source_datapipe, amount

    def __iter__(self):
        for x in self.source_datapipe:
            yield x + self.amount

    def __len__(self):
        return len(self.source_datapipe)


class OnlyThree(ReadingServiceInterface):
    def initialize(self, datapipe):
        graph = traverse_dps(datapipe)
        (mapper,) = find_dps(graph, Mapper)
        graph = replace_dp(graph, mapper, HeaderIterDataPipe(mapper, 3))
        return next(iter(graph.values()))[0]

    def initialize_iteration(self, seed_generator, iter_reset_fn=None):
        assert isinstance(seed_generator, SeedGenerator)


pipe = IterableWrapper(range(10)).shuffle().sharding_filter().map(str).map(int).plus(100)
assert isinstance(pipe, torch.utils.data.IterDataPipe) and len(pipe) == 10
graph = torch.utils.data.graph.traverse_dps(pipe)
assert len(find_dps(graph, torchdata.datapipes.iter.Shuffler)) == 1
loader = DataLoader2(pipe, [Shuffle(False)], reading_service=InProcessReadingService())
assert list(loader) == [*range(100, 110)]
shard = IterableWrapper(range(10)).sharding_filter()
apply_sharding(shard, 2, 1, SHARDING_PRIORITIES.DISTRIBUTED)
assert list(shard) == [1, 3, 5, 7, 9]
three = DataLoader2(IterableWrapper(range(9)).map(str), reading_service=OnlyThree())
assert list(three) == ["0", "1", "2"]
print("done")
"""

PLAIN_TORCH_PROGRAM = """
from torch.utils.data import DataLoader, MapDataPipe, functional_datapipe
from torch.utils.data.datapipes.datapipe import IterDataPipe
from torch.utils.data.datapipes.iter import IterableWrapper
from torch.utils.data.datapipes.utils.common import StreamWrapper, match_masks


@functional_datapipe("squared")
class Squared(MapDataPipe):
    def __init__(self, source):
        self.source = source

    def __getitem__(self, i):
        return self.source[i] ** 2

    def __len__(self):
        return len(self.source)


from torch.utils.data.datapipes.map import SequenceWrapper

numbers = SequenceWrapper([1, 2, 3]).squared().batch(2)
assert list(DataLoader(numbers, batch_size=None)) == [[1, 4], [9]]
pipe = IterableWrapper(range(6)).shuffle().sharding_filter()
assert isinstance(pipe, IterDataPipe)
loader = DataLoader(pipe, batch_size=3, num_workers=2, multiprocessing_context="fork")
assert sorted(x for batch in loader for x in batch.tolist()) == [*range(6)]
assert match_masks("a.txt", "*.txt")
print("done")
"""

EPOCHS_PROGRAM = """
from pathlib import Path
from torchdata.dataloader2 import (
    DataLoader2,
    DistributedReadingService,
    MultiProcessingReadingService,
    SequentialReadingService,
)
from torchdata.datapipes.iter import IterableWrapper


def numbered(row):
    return int(row[0])


if __name__ == "__main__":
    for part in range(2):
        Path(f"{part}.csv").write_text("".join(f"{10 * part + i},text\\n" for i in range(10)))
    pipe = IterableWrapper(["0.csv", "1.csv"]).open_files(encoding="utf-8").parse_csv()
    pipe = pipe.shuffle().sharding_filter().map(numbered).batch(4)
    for service in (
        MultiProcessingReadingService(num_workers=2),
        DistributedReadingService(),
        SequentialReadingService(DistributedReadingService(), MultiProcessingReadingService(num_workers=2)),
    ):
        loader, orders = DataLoader2(pipe, reading_service=service), []
        for epoch in range(2):
            loader.seed(epoch)
            orders.append([x for batch in loader for x in batch])
        loader.shutdown()
        assert sorted(orders[0]) == sorted(orders[1]) == [*range(20)] and orders[0] != orders[1]
    print("done")
"""

WORKERS_PROGRAM = """
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info


class Rows(Dataset):
    def __getitem__(self, i):
        return i, get_worker_info().id

    def __len__(self):
        return 6


class Stream(IterableDataset):
    def __init__(self, by_init):
        self.start, self.end, self.by_init = 0, 6, by_init

    def __iter__(self):
        if not self.by_init:
            part(self)
        return iter(range(self.start, self.end))


def part(stream):
    info = get_worker_info()
    size = (stream.end - stream.start) // info.num_workers
    stream.start += info.id * size
    stream.end = stream.start + size


def init(worker):
    part(get_worker_info().dataset)


if __name__ == "__main__":
    assert [[int(x) for x in row] for row in DataLoader(Rows(), num_workers=2)] == [[i, i % 2] for i in range(6)]
    for loader in (
        DataLoader(Stream(False), num_workers=2),
        DataLoader(Stream(True), num_workers=2, worker_init_fn=init),
        torch.utils.data.DataLoader(Stream(True), num_workers=2, worker_init_fn=init),
    ):
        assert [int(x) for x in loader] == [0, 3, 1, 4, 2, 5]
    print("done")
"""

INSTANCES_PROGRAM = """
import sys
import popdist.poptorch
import poptorch
import torch


class Numbers(torch.utils.data.Dataset):
    def __getitem__(self, i):
        return torch.tensor(i), i % 10

    def __len__(self):
        return 1000


if __name__ == "__main__":
    plain, informed = poptorch.Options(), popdist.poptorch.Options()
    for options in (plain, informed):
        loader = poptorch.DataLoader(options, Numbers(), batch_size=16, drop_last=True)
        for numbers, labels in loader:
            print(options.replication_factor, len(loader), len(numbers), int(numbers[0]))
            break
    try:
        informed.replicationFactor(2)
    except RuntimeError as error:
        sys.exit(0 if "replicationFactor" in str(error) else 1)
"""

POPTORCH_PROGRAM = """
import popdist
import popdist.poptorch
import poptorch
import torch
from poptorch import DataLoaderMode, OutputMode
from poptorch.optim import SGD

if __name__ == "__main__":
    options = popdist.poptorch.Options() if popdist.isPopdistEnvSet() else poptorch.Options()
    options.deviceIterations(2).outputMode(poptorch.enums.OutputMode.All)
    options.Training.gradientAccumulation(1)
    assert options.output_mode == OutputMode.All.value
    data = torch.utils.data.TensorDataset(torch.arange(16.0).unsqueeze(1), torch.arange(16))
    mode = DataLoaderMode.Async
    strategy = {"sharing_strategy": poptorch.SharingStrategy.SharedMemory}
    loader = poptorch.DataLoader(options, data, batch_size=4, mode=mode, async_options=strategy)
    try:
        rows = [labels.tolist() for _, labels in loader]
    finally:
        loader.terminate()
    assert rows == [[*range(8)], [*range(8, 16)]], rows
    print("done")
"""

# Cells of a notebook, in one namespace: a loader is measured, then a device with synthetic data, then both.
MEASURING_PROGRAM = '''
CELLS = """
import poptorch
import torch
from torch import nn

iterations, size = 5, 4

class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(6, 8), nn.Linear(8, 3)
        self.loss = nn.CrossEntropyLoss()

    def forward(self, x, labels=None):
        x = self.outer(torch.relu(self.inner(x)))
        return (x, self.loss(x, labels)) if self.training else x

samples = torch.utils.data.TensorDataset(torch.randn(160, 6), torch.arange(160) % 3)
options = poptorch.Options()
options.deviceIterations(iterations)
model = Classifier()
training = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))
# ---
def loader_of(options, **ahead):
    return poptorch.DataLoader(options, dataset=samples, batch_size=size, shuffle=True, num_workers=1,
                               mode=poptorch.DataLoaderMode.Async, async_options=ahead)

loader = loader_of(options)
assert sum(len(labels) for x, labels in loader) == 160
# ---
if TRAINS_FIRST:
    for x, labels in loader:
        training(x, labels)
    assert options.device_iterations == training.options.device_iterations
# ---
options.enableSyntheticData(True)
training = poptorch.trainingModel(model, options, poptorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
loader = loader_of(options, early_preload=True)
training.compile(*next(iter(loader)))
for x, labels in loader:
    training(x, labels)
# ---
def measured(replicas, synthetic):
    options = poptorch.Options()
    options.deviceIterations(iterations)
    options.replicationFactor(replicas)
    if synthetic:
        options.enableSyntheticData(True)
    loader = loader_of(options, early_preload=True, miss_sleep_time_in_ms=0)
    steps = 0
    for x, labels in loader:
        assert len(training(x, labels)[0]) == size * replicas
        steps += 1
    loader.terminate()
    return steps

assert [measured(1, True), measured(1, False), measured(2, True), measured(2, False)] == [8, 8, 4, 4]
"""

if __name__ == "__main__":
    import sys

    names = {"__name__": "__main__", "TRAINS_FIRST": sys.argv[1] == "trained"}
    for cell in CELLS.split("# ---"):
        exec(cell, names)
    names["loader"].terminate()
    print("done")
'''


def run(preloaded: Preloaded, room: Path, text: str, *command: str) -> Ended:
    """Run a program by a command of ``python -m``; ``program.py`` is its file."""
    (room / "program.py").write_text(text)
    start = room / "start.py"
    start.write_text(
        "import runpy, sys\nif __name__ == '__main__':\n    module, *sys.argv[1:] = sys.argv[1:]\n"
        "    runpy.run_module(module, run_name='__main__')\n"
    )
    return preloaded.ran(start, *command, cwd=room, seconds=SECONDS, strict=True, env={**os.environ})


WITH_OLD_NAMES = ("loader2", "with-old-names")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_program_on_text_with_workers(method: str, tmp_path: Path, preloaded: Preloaded) -> None:
    (tmp_path / "texts.py").write_text(TEXTS)
    ended = run(preloaded, tmp_path, TEXT_PROGRAM, *WITH_OLD_NAMES, "program.py", method)
    assert (ended.code, ended.out) == (0, "5\n"), ended.err


@pytest.mark.parametrize("text", [LOADING_PROGRAM, PLAIN_TORCH_PROGRAM, EPOCHS_PROGRAM, WORKERS_PROGRAM])
def test_a_program_on_graphs(text: str, tmp_path: Path, preloaded: Preloaded) -> None:
    ended = run(preloaded, tmp_path, text, *WITH_OLD_NAMES, "program.py")
    assert (ended.code, ended.out) == (0, "done\n"), ended.err


def test_a_program_for_poptorch(tmp_path: Path, preloaded: Preloaded) -> None:
    ended = run(preloaded, tmp_path, POPTORCH_PROGRAM, *WITH_OLD_NAMES, "--poptorch", "program.py")
    assert (ended.code, ended.out) == (0, "done\n"), ended.err


def test_instances_of_poprun(tmp_path: Path, preloaded: Preloaded) -> None:
    launcher = ("reading_services.ipu.poprun", "--num-replicas", "4", "--num-instances", "2")
    program = (sys.executable, "-m", *WITH_OLD_NAMES, "--poptorch", "program.py")
    ended = run(preloaded, tmp_path, INSTANCES_PROGRAM, *launcher, *program)
    assert ended.code == 0, ended.err
    # Of 62 batches of 16 each instance has 31, or with both of its replicas 15 steps of 32.
    lines = {
        f"[1,{i}]<stdout>:{line}" for i in range(2) for line in (f"1 31 16 {i * 31 * 16}", f"2 15 32 {i * 15 * 32}")
    }
    assert {*ended.out.splitlines()} == lines


@pytest.mark.parametrize("first", ["trained", "untouched"])
def test_a_notebook_that_measures(first: str, tmp_path: Path, preloaded: Preloaded) -> None:
    ended = run(preloaded, tmp_path, MEASURING_PROGRAM, *WITH_OLD_NAMES, "--poptorch", "program.py", first)
    assert (ended.code, ended.out) == (0, "done\n"), ended.err
    passed = [line for line in ended.err.splitlines() if "[warning]" in line]
    assert len(passed) == 3
    for line, text in zip(passed, ("Frozen options", "second training model", "2 times as many rows"), strict=True):
        assert text in line


@pytest.mark.parametrize(
    ("first", "text"), [("torchdata", LOADING_PROGRAM), ("poptorch", POPTORCH_PROGRAM), ("torchdata", TEXT_PROGRAM)]
)
def test_a_program_that_imports_the_switch(first: str, text: str, tmp_path: Path, preloaded: Preloaded) -> None:
    (tmp_path / "texts.py").write_text(TEXTS)
    ended = run(preloaded, tmp_path, f"import loader2.{first}_names\n{text}", "program", "spawn")
    assert (ended.code, ended.out) in ((0, "5\n"), (0, "done\n")), ended.err


def test_the_script_is_main_and_has_its_arguments(tmp_path: Path, preloaded: Preloaded) -> None:
    text = "import sys; print(__name__, __file__, *sys.argv); import beside; sys.exit(7)"
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "beside.py").write_text("print('beside')")
    (tmp_path / "folder" / "script.py").write_text(text)
    ended = run(preloaded, tmp_path, "", *WITH_OLD_NAMES, "folder/script.py", "--poptorch", "-x")
    script = tmp_path / "folder" / "script.py"
    assert (ended.code, ended.out) == (7, f"__main__ {script} {script} --poptorch -x\nbeside\n"), ended.err
