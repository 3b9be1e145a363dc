"""Programs as they were written for torchdata, torch's pipes and PopTorch, the lines that change, and what they print.

A program is a ``main.py``, and files beside it. All that is not named among its changes has to stay as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial


@dataclass(frozen=True)
class OldProgram:
    """A program, its lines that become others, what it prints afterwards, and pieces of the notes by file and line."""

    name: str
    files: dict[str, str]
    changes: dict[str, str]
    prints: str
    notes: dict[str, str] = field(default_factory=dict)

    def migrated(self, file: str) -> str:
        """The contents of a file as they should be."""
        text = self.files[file]
        for old, new in self.changes.items():
            text = re.sub(rf"^([ \t]*){re.escape(old)}$", partial(_indented, new), text, flags=re.MULTILINE)
        return text


def _indented(new: str, found: re.Match[str]) -> str:
    return found[1] + new


PROGRAMS = [
    OldProgram(
        "names are imported",
        {
            "main.py": '''\
"""Trains on rows of text."""
from torchdata.datapipes.iter import IterableWrapper, Mapper  # pipes
from torchdata.dataloader2 import DataLoader2, MultiProcessingReadingService
from torchdata.dataloader2.adapter import Shuffle


def numbers( row ) :   # formatted by nobody
    return [int(n) for n in row.split(",")]


if __name__ == "__main__":
    rows = IterableWrapper(["1,2", "3,4", "5,6"]).shuffle().sharding_filter()
    dp = Mapper(rows, numbers)
    rs = MultiProcessingReadingService(num_workers=1)
    dl = DataLoader2(dp, datapipe_adapter_fn=Shuffle(False), reading_service=rs)
    print(list(dl))
    dl.shutdown()
''',
        },
        {
            "from torchdata.datapipes.iter import IterableWrapper, Mapper  # pipes": (
                "from datapipes.iter import IterableWrapper, Mapper  # pipes"
            ),
            "from torchdata.dataloader2 import DataLoader2, MultiProcessingReadingService": (
                "from loader2 import DataLoader2\nfrom reading_services import MultiProcessingReadingService"
            ),
            "from torchdata.dataloader2.adapter import Shuffle": "from loader2.adapters import Shuffle",
        },
        "[[1, 2], [3, 4], [5, 6]]\n",
    ),
    OldProgram(
        "classes of torch's pipes, beside names that are torch's",
        {
            "main.py": """\
from torch.utils.data import (
    Dataset,
    IterDataPipe as Pipe,  # the base
    functional_datapipe,
)
from torch.utils.data.datapipes.iter import IterableWrapper


@functional_datapipe("every_second")
class EverySecond(Pipe):
    def __init__(self, source_datapipe, *, offset=0):
        self.source_datapipe, self.offset = source_datapipe, offset

    def __iter__(self):
        for number, element in enumerate(self.source_datapipe):
            if number % 2 == self.offset:
                yield element


print(list(IterableWrapper(range(6)).every_second(offset=1).batch(2)), issubclass(Pipe, Dataset))
""",
        },
        {
            "from torch.utils.data import (\n"
            "    Dataset,\n"
            "    IterDataPipe as Pipe,  # the base\n"
            "    functional_datapipe,\n"
            ")": (
                "from torch.utils.data import Dataset\n"
                "from datapipes.iter import (\n"
                "    IterDataPipe as Pipe,  # the base\n"
                ")\n"
                "from datapipes import functional_datapipe"
            ),
            "from torch.utils.data.datapipes.iter import IterableWrapper": "from datapipes.iter import IterableWrapper",
        },
        "[[1, 3], [5]] True\n",
    ),
    OldProgram(
        "chains of attributes that begin with torch",
        {
            "main.py": """\
import torch
import torch.utils.data as data


class Doubled(torch.utils.data.IterDataPipe):
    def __init__(self, source: "torch.utils.data.IterDataPipe"):
        self.source = source

    def __iter__(self):
        yield from (2 * x for x in self.source)


dp = Doubled(data.datapipes.iter.IterableWrapper([torch.tensor(1)]))
graph = torch.utils.data.graph.traverse_dps(dp)
torch.utils.data.graph_settings.apply_shuffle_settings(dp, shuffle=False)
loader = torch.utils.data.DataLoader(dp, batch_size=None)
print(len(graph), [int(x) for x in loader], data.Dataset.__name__)
""",
        },
        {
            "import torch": "import torch\nimport datapipes.graph\nimport datapipes.iter",
            "import torch.utils.data as data": "import torch.utils.data as data\nimport datapipes.iter",
            "class Doubled(torch.utils.data.IterDataPipe):": "class Doubled(datapipes.iter.IterDataPipe):",
            'def __init__(self, source: "torch.utils.data.IterDataPipe"):': (
                'def __init__(self, source: "datapipes.iter.IterDataPipe"):'
            ),
            "dp = Doubled(data.datapipes.iter.IterableWrapper([torch.tensor(1)]))": (
                "dp = Doubled(datapipes.iter.IterableWrapper([torch.tensor(1)]))"
            ),
            "graph = torch.utils.data.graph.traverse_dps(dp)": "graph = datapipes.graph.traverse_dps(dp)",
            "torch.utils.data.graph_settings.apply_shuffle_settings(dp, shuffle=False)": (
                "datapipes.graph.apply_shuffle_settings(dp, shuffle=False)"
            ),
        },
        "1 [2] Dataset\n",
    ),
    OldProgram(
        "modules under names of one's own",
        {
            "main.py": """\
import torchdata.datapipes as dp, sys
import torchdata.dataloader2 as dl2
from torchdata import datapipes, dataloader2

rows = dp.iter.IterableWrapper(range(4)).map(dp.utils.pin_memory_fn)
keys = dp.map.SequenceWrapper("ab")
service = dl2.InProcessReadingService()
loader = dl2.DataLoader2(rows, reading_service=service)
graph = dl2.graph.traverse_dps(datapipes.iter.Batcher(rows, 2))
print(list(loader), len(keys), len(dataloader2.graph.list_dps(graph)), sys.version_info[0])
""",
        },
        {
            "import torchdata.datapipes as dp, sys": "import datapipes as dp, sys",
            "import torchdata.dataloader2 as dl2": (
                "import loader2 as dl2\nimport datapipes.graph\nimport reading_services"
            ),
            "from torchdata import datapipes, dataloader2": (
                "import datapipes\nimport loader2 as dataloader2\nimport datapipes.graph"
            ),
            "rows = dp.iter.IterableWrapper(range(4)).map(dp.utils.pin_memory_fn)": (
                "rows = dp.iter.IterableWrapper(range(4)).map(dp.pin_memory_fn)"
            ),
            "service = dl2.InProcessReadingService()": "service = reading_services.InProcessReadingService()",
            "graph = dl2.graph.traverse_dps(datapipes.iter.Batcher(rows, 2))": (
                "graph = datapipes.graph.traverse_dps(datapipes.iter.Batcher(rows, 2))"
            ),
            "print(list(loader), len(keys), len(dataloader2.graph.list_dps(graph)), sys.version_info[0])": (
                "print(list(loader), len(keys), len(datapipes.graph.list_dps(graph)), sys.version_info[0])"
            ),
        },
        "[0, 1, 2, 3] 2 3 3\n",
    ),
    OldProgram(
        "the whole name everywhere, and nodes that stay torchdata's",
        {
            "main.py": """\
import torchdata
import torchdata.nodes


def numbers():
    import torchdata.datapipes.iter
    return torchdata.datapipes.iter.IterableWrapper(range(3))


def shuffled(dp):
    import torchdata.datapipes.iter, torchdata.dataloader2.graph
    return torchdata.datapipes.iter.Shuffler(dp).set_seed(0)


class Rows(torchdata.datapipes.iter.IterDataPipe[int]):
    def __iter__(self):
        yield from numbers()


print(sorted(shuffled(Rows())), list(torchdata.nodes.Loader(torchdata.nodes.IterableWrapper("ab"))))
""",
        },
        {
            "import torchdata": "import torchdata\nimport datapipes.iter",
            "import torchdata.datapipes.iter": "import datapipes.iter",
            "return torchdata.datapipes.iter.IterableWrapper(range(3))": (
                "return datapipes.iter.IterableWrapper(range(3))"
            ),
            "import torchdata.datapipes.iter, torchdata.dataloader2.graph": "import datapipes.iter, datapipes.graph",
            "return torchdata.datapipes.iter.Shuffler(dp).set_seed(0)": (
                "return datapipes.iter.Shuffler(dp).set_seed(0)"
            ),
            "class Rows(torchdata.datapipes.iter.IterDataPipe[int]):": "class Rows(datapipes.iter.IterDataPipe[int]):",
        },
        "[0, 1, 2] ['a', 'b']\n",
    ),
    OldProgram(
        "classes by name, in configs and strings",
        {
            "main.py": """\
import importlib
import json
import tomllib
from pathlib import Path

import yaml

DEFAULT = {"_target_": 'torchdata.datapipes.iter.Batcher'}
HELP = "Use torchdata.datapipes.iter.Mapper or another one."


def made(target, *args):
    module, _, name = target.rpartition(".")
    return getattr(importlib.import_module(module), name)(*args)


config = yaml.safe_load(Path("stages.yaml").read_text())
limit = tomllib.loads(Path("limit.toml").read_text())["limit"]
names = json.loads(Path("names.json").read_text())
dp = made(config["source"]["_target_"], config["source"]["iterable"])
for stage in config["stages"]:
    dp = made(stage, dp)
dp = made(limit["class"], dp, limit["n"])
print(list(made(DEFAULT["_target_"], dp, 2)), [name.rpartition(".")[2] for name in names])
""",
            "stages.yaml": """\
# torchdata.datapipes.iter.IterableWrapper reads a list
source:
    _target_:   torch.utils.data.datapipes.iter.IterableWrapper   # torchdata.datapipes.iter.X
    iterable: [5, 6, 7]
stages: ["torchdata.datapipes.iter.Enumerator", torchdata.datapipes.iter.ShardingFilter]
about: torchdata.datapipes.iter.Mapper is not used; don't ask
requirements:
  - torchdata
""",
            "limit.toml": '[limit]\nclass = "torchdata.datapipes.iter.Header"  # "torchdata.datapipes.iter.Y"\nn = 2\n',
            "names.json": '{"torchdata.dataloader2.DataLoader2":1,\t"a": "torchdata.datapipes.iter.Mapper, twice"}',
        },
        {
            "DEFAULT = {\"_target_\": 'torchdata.datapipes.iter.Batcher'}": (
                "DEFAULT = {\"_target_\": 'datapipes.iter.Batcher'}"
            ),
            "_target_:   torch.utils.data.datapipes.iter.IterableWrapper   # torchdata.datapipes.iter.X": (
                "_target_:   datapipes.iter.IterableWrapper   # torchdata.datapipes.iter.X"
            ),
            'stages: ["torchdata.datapipes.iter.Enumerator", torchdata.datapipes.iter.ShardingFilter]': (
                'stages: ["datapipes.iter.Enumerator", datapipes.iter.ShardingFilter]'
            ),
            'class = "torchdata.datapipes.iter.Header"  # "torchdata.datapipes.iter.Y"': (
                'class = "datapipes.iter.Header"  # "torchdata.datapipes.iter.Y"'
            ),
            '{"torchdata.dataloader2.DataLoader2":1,\t"a": "torchdata.datapipes.iter.Mapper, twice"}': (
                '{"loader2.DataLoader2":1,\t"a": "torchdata.datapipes.iter.Mapper, twice"}'
            ),
        },
        "[[(0, 5), (1, 6)]] ['DataLoader2', 'a']\n",
        {"main.py:9": "its new name is datapipes.iter.Mapper"},
    ),
    OldProgram(
        "PopTorch's loader",
        {
            "main.py": """\
import poptorch
import torch
from poptorch import DataLoaderMode as Mode
from poptorch.optim import SGD
from torch.utils.data import TensorDataset

options = poptorch.Options().deviceIterations(2)
rows = TensorDataset(torch.arange(8))
loader = poptorch.DataLoader(options, rows, batch_size=2, mode=Mode.Sync)
print([x.tolist() for x, in loader], poptorch.optim.SGD is SGD, poptorch.enums.OutputMode.All.name)
""",
        },
        {
            "import poptorch": "import reading_services.ipu as poptorch",
            "from poptorch import DataLoaderMode as Mode": "from reading_services.ipu import DataLoaderMode as Mode",
            "from poptorch.optim import SGD": "from reading_services.ipu.optim import SGD",
        },
        "[[0, 1, 2, 3], [4, 5, 6, 7]] True All\n",
    ),
    OldProgram(
        "instances of popdist",
        {
            "main.py": """\
import popdist
import popdist.poptorch
import poptorch

if popdist.isPopdistEnvSet():
    options = popdist.poptorch.Options()
else:
    options = poptorch.Options()
print(popdist.getNumInstances(), issubclass(popdist.poptorch.Options, poptorch.Options), options.replication_factor)
""",
        },
        {
            "import popdist": "import reading_services.ipu.popdist as popdist",
            "import popdist.poptorch": "import reading_services.ipu.popdist.poptorch",
            "import poptorch": "import reading_services.ipu as poptorch",
        },
        "1 True 1\n",
    ),
    OldProgram(
        "long names of classes, from the files they are in",
        {
            "main.py": """\
from torch.utils.data.datapipes.iter.callable import MapperIterDataPipe
from torch.utils.data.datapipes.iter.sharding import SHARDING_PRIORITIES, ShardingFilterIterDataPipe
from torch.utils.data.datapipes.iter.utils import IterableWrapperIterDataPipe as Rows
from torchdata.datapipes.iter.transform.callable import FlattenIterDataPipe as Flatten
from torchdata.datapipes.iter.util.converter import IterToMapConverterMapDataPipe
import torchdata.datapipes.iter.util.header as header

dp = header.HeaderIterDataPipe(Flatten(MapperIterDataPipe(Rows([1, 2]), lambda x: (x, [x]))), limit=1)
table = IterToMapConverterMapDataPipe(ShardingFilterIterDataPipe(dp))
print(table[1], SHARDING_PRIORITIES.DEFAULT.name)
""",
        },
        {
            "from torch.utils.data.datapipes.iter.callable import MapperIterDataPipe": (
                "from datapipes.iter import Mapper as MapperIterDataPipe, IterableWrapper as Rows"
            ),
            "from torch.utils.data.datapipes.iter.sharding import SHARDING_PRIORITIES, ShardingFilterIterDataPipe\n"
            "from torch.utils.data.datapipes.iter.utils import IterableWrapperIterDataPipe as Rows": (
                "from datapipes.graph import SHARDING_PRIORITIES\n"
                "from datapipes.iter import ShardingFilter as ShardingFilterIterDataPipe"
            ),
            "from torchdata.datapipes.iter.transform.callable import FlattenIterDataPipe as Flatten": (
                "from datapipes.iter import Flattener as Flatten"
            ),
            "from torchdata.datapipes.iter.util.converter import IterToMapConverterMapDataPipe": (
                "from datapipes.map import IterToMapConverter as IterToMapConverterMapDataPipe"
            ),
            "import torchdata.datapipes.iter.util.header as header": "import datapipes.iter as header",
            "dp = header.HeaderIterDataPipe(Flatten(MapperIterDataPipe(Rows([1, 2]), lambda x: (x, [x]))), limit=1)": (
                "dp = header.Header(Flatten(MapperIterDataPipe(Rows([1, 2]), lambda x: (x, [x]))), limit=1)"
            ),
        },
        "1 DEFAULT\n",
    ),
    OldProgram(
        "a reading service that rewrites the graph",
        {
            "main.py": """\
from torchdata.dataloader2 import (
    DataLoader2,
    ReadingServiceInterface,
    SequentialReadingService,  # in their order
    # and no other
)
from torchdata.dataloader2.graph import find_dps, replace_dp, traverse_dps
from torchdata.dataloader2.utils import WorkerInfo
from torchdata.datapipes.iter import IterableWrapper, Mapper


class Negated(ReadingServiceInterface):
    def initialize(self, datapipe):
        graph = traverse_dps(datapipe)
        for dp in find_dps(graph, Mapper):
            graph = replace_dp(graph, dp, dp.map(lambda x: -x))
        return list(graph.values())[0][0]


rows = IterableWrapper(range(3)).map(abs).batch(3)
print(list(DataLoader2(rows, reading_service=SequentialReadingService(Negated()))), WorkerInfo(2, 1).worker_id)
""",
        },
        {
            "from torchdata.dataloader2 import (\n"
            "    DataLoader2,\n"
            "    ReadingServiceInterface,\n"
            "    SequentialReadingService,  # in their order\n"
            "    # and no other\n"
            ")": (
                "from loader2 import DataLoader2\n"
                "from reading_services import (\n"
                "    ReadingServiceInterface,\n"
                "    SequentialReadingService,  # in their order  # and no other\n"
                ")"
            ),
            "from torchdata.dataloader2.graph import find_dps, replace_dp, traverse_dps": (
                "from datapipes.graph import find_dps, replace_dp, traverse_dps"
            ),
            "from torchdata.dataloader2.utils import WorkerInfo": "from reading_services import WorkerInfo",
            "from torchdata.datapipes.iter import IterableWrapper, Mapper": (
                "from datapipes.iter import IterableWrapper, Mapper"
            ),
        },
        "[[0, -1, -2]] 1\n",
    ),
    OldProgram(
        "imports that may fail",
        {
            "main.py": """\
try:
    from torchdata.datapipes.iter import IterDataPipe
    import torchdata.datapipes as dp; HERE = True
except ImportError:
    IterDataPipe, dp, HERE = object, None, False
if HERE: import torchdata.dataloader2.random, math; SEED = torchdata.dataloader2.random.SeedGenerator(1)
print(IterDataPipe is dp.iter.IterDataPipe, SEED.generate_seed() > math.pi)
""",
        },
        {
            "from torchdata.datapipes.iter import IterDataPipe": "from datapipes.iter import IterDataPipe",
            "import torchdata.datapipes as dp; HERE = True": "import datapipes as dp; HERE = True",
            "if HERE: import torchdata.dataloader2.random, math; "
            "SEED = torchdata.dataloader2.random.SeedGenerator(1)": (
                "if HERE: import loader2.random, math; SEED = loader2.random.SeedGenerator(1)"
            ),
        },
        "True True\n",
    ),
    OldProgram(
        "variables called as our packages are",
        {
            "main.py": """\
import torch.utils.data.graph
from torchdata.datapipes.iter import Concater, IterableWrapper


def stages(datapipes):
    return [len(torch.utils.data.graph.traverse_dps(pipe)) for pipe in datapipes]


datapipes = [IterableWrapper("a"), IterableWrapper("b")]
print(stages(datapipes), list(Concater(*datapipes)), torch.tensor(1).item())
""",
        },
        {
            "import torch.utils.data.graph": "import datapipes.graph as datapipes_graph\nimport torch",
            "from torchdata.datapipes.iter import Concater, IterableWrapper": (
                "from datapipes.iter import Concater, IterableWrapper"
            ),
            "return [len(torch.utils.data.graph.traverse_dps(pipe)) for pipe in datapipes]": (
                "return [len(datapipes_graph.traverse_dps(pipe)) for pipe in datapipes]"
            ),
        },
        "[1, 1] ['a', 'b'] 1\n",
    ),
    OldProgram(
        "all names of a module",
        {
            "main.py": """\
from torchdata.datapipes.map import *
from torchdata.dataloader2.reading_service import *

print(list(Zipper(SequenceWrapper("ab"), SequenceWrapper("cd"))), InProcessReadingService.__name__)
""",
        },
        {
            "from torchdata.datapipes.map import *": "from datapipes.map import *",
            "from torchdata.dataloader2.reading_service import *": "from reading_services import *",
        },
        "[('a', 'c'), ('b', 'd')] InProcessReadingService\n",
        {"main.py:1": "a star import of datapipes.map", "main.py:2": "a star import of reading_services"},
    ),
    OldProgram(
        "what a person decides",
        {
            "main.py": """\
import torch
from torch.utils.data import get_worker_info
from torchdata.datapipes.iter import CSVDictParser, IterDataPipe, IterableWrapper
from torchdata.dataloader2 import DataLoader2, PrototypeMultiProcessingReadingService


class Mine(IterDataPipe):
    n, i = 1, 0

    def __iter__(self):
        assert get_worker_info() is None
        yield from range(self.i, 4, self.n)

    def is_shardable(self):
        return True

    def apply_sharding(self, num_of_instances, instance_id):
        self.n, self.i = num_of_instances, instance_id


def later(state, dl):
    dl._restore_checkpoint_beginning_of_epoch()
    print(dl.datapipe._number_of_samples_yielded)
    from torchdata.datapipes.iter.util.cacheholder import _hash_check
    import torchdata.dataloader2.communication
    return DataLoader2.from_state(state, None), torch.utils.data.DFIterDataPipe


rows = CSVDictParser(IterableWrapper([("a", ["x", "1"])]))
kept = IterableWrapper([("a", ["x,y", "1"])]).parse_csv_as_dict(ragged="keep")
dl = DataLoader2.from_state(DataLoader2(Mine()).state_dict(), datapipe=Mine())
print(list(dl), list(rows), list(kept), PrototypeMultiProcessingReadingService.__name__)
""",
        },
        {
            "from torchdata.datapipes.iter import CSVDictParser, IterDataPipe, IterableWrapper": (
                "from datapipes.iter import CSVDictParser, IterDataPipe, IterableWrapper"
            ),
            "from torchdata.dataloader2 import DataLoader2, PrototypeMultiProcessingReadingService": (
                "from loader2 import DataLoader2\nfrom reading_services import MultiProcessingReadingService"
            ),
            "print(list(dl), list(rows), list(kept), PrototypeMultiProcessingReadingService.__name__)": (
                "print(list(dl), list(rows), list(kept), MultiProcessingReadingService.__name__)"
            ),
        },
        "[0, 1, 2, 3] [{'x': '1'}] [{'x': '1', 'y': None}] MultiProcessingReadingService\n",
        {
            "main.py:4": "PrototypeMultiProcessingReadingService is MultiProcessingReadingService",
            "main.py:11": "Mine calls get_worker_info() itself",
            "main.py:14": "Mine.is_shardable is never called",
            "main.py:17": "Mine.apply_sharding has no sharding_group",
            "main.py:22": "a state resumes in mid-epoch",
            "main.py:23": "use state_dict() of the loader",
            "main.py:24": "write .check_hash({path: hash})",
            "main.py:25": "write a ReadingServiceInterface",
            "main.py:26": "DataLoader2.from_state(state, reading_service, datapipe=graph)",
            "main.py:29": 'pass ragged="keep"',
        },
    ),
]
