"""``python -m loader2 migrate``: old programs become ours, and nothing else in them changes."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loader2.__main__ import main as command
from loader2.porting.migrating import configs, migration, names, programs
from loader2.porting.old_modules import TABLES
from tests.loader2.porting.migrating.old_programs import PROGRAMS, OldProgram
from tests.preloaded import Preloaded

EACH = pytest.mark.parametrize("old", PROGRAMS, ids=lambda old: old.name)


@pytest.fixture
def migrate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run the command; its exit code and what it says."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["loader2", "migrate", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            command()
        said = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, said.out, said.err

    return run


def written(folder: Path, files: dict[str, str]) -> dict[str, bytes]:
    for name, text in files.items():
        (folder / name).write_bytes(text.encode())
    return contents(folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@EACH
def test_a_program_is_migrated_and_runs(old: OldProgram, tmp_path: Path, preloaded: Preloaded, migrate: Any) -> None:
    before = written(tmp_path, old.files)
    code, shown, _ = migrate(tmp_path)
    assert (code, contents(tmp_path)) == (0, before), "without --write nothing is written"
    assert all(f"--- {tmp_path / name}" in shown for name in old.files)

    code, shown, _ = migrate(tmp_path, "--write")
    assert code == 0
    after = contents(tmp_path)
    assert {name: text.decode() for name, text in after.items()} == {name: old.migrated(name) for name in old.files}
    assert all(any(change in text for text in old.files.values()) for change in old.changes)
    noted = [line for line in shown.splitlines() if not line.startswith("written: ")]
    for place, text in old.notes.items():
        assert any(line.startswith(f"{tmp_path / place}: ") and text in line for line in noted), (place, text)
    assert {line.split(": ")[0] for line in noted} == {str(tmp_path / place) for place in old.notes}

    assert migrate(tmp_path, "--write")[0] == 0
    assert contents(tmp_path) == after, "migrating again changes nothing"

    ended = preloaded.ran(tmp_path / "main.py", cwd=tmp_path, seconds=500)
    assert (ended.code, ended.out) == (0, old.prints), ended.err


@EACH
def test_a_program_runs_as_it_is_under_the_old_names(old: OldProgram, tmp_path: Path, preloaded: Preloaded) -> None:
    written(tmp_path, old.files)
    program = tmp_path / "as_it_is.py"
    arguments = ["loader2", "with-old-names", "--poptorch", str(tmp_path / "main.py")]
    program.write_text(
        "import runpy, sys\n"
        "if __name__ == '__main__':\n"
        f"    sys.argv[:] = {arguments!r}\n"
        "    runpy.run_module('loader2', run_name='__main__', alter_sys=True)\n"
    )
    ended = preloaded.ran(program, cwd=tmp_path, seconds=500)
    assert (ended.code, ended.out) == (0, old.prints), ended.err


def test_every_counterpart_is_there() -> None:
    known = {f"{module}.{name}" for table in TABLES.values() for module in table for name in names.names_of(module)}
    for old in {*known, *(module for table in TABLES.values() for module in table)}:
        here = names.new(old)
        if isinstance(here, names.Module):
            assert import_module(here.module).__name__ == here.module, old
        elif isinstance(here, names.KnownName):
            assert hasattr(import_module(here.module), here.name), old
    assert names.new("torchdata.datapipes.iter.util") == names.Module("datapipes.iter"), "it is empty"
    assert isinstance(names.new("torchdata.dataloader2.error.PauseIteration"), names.Missing), (
        "it is in no module of ours"
    )


@pytest.mark.parametrize("kind", ["iter", "map"])
def test_every_pipe_has_its_name(kind: str) -> None:
    ours = import_module(f"datapipes.{kind}").__all__
    assert all(
        names.new(f"torchdata.datapipes.{kind}.{name}") == names.KnownName(f"datapipes.{kind}", name) for name in ours
    )
    torchs = import_module(f"torch.utils.data.datapipes.{kind}").__all__
    assert all(isinstance(names.new(f"torch.utils.data.datapipes.{kind}.{name}"), names.KnownName) for name in torchs)
    assert names.new("torch.utils.data.Sampler") is None, "it is torch's, and not the pipe of that name"


PROTOTYPE = b"PrototypeMultiProcessingReadingService"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"import os,re # both\nimport poptorch", b"import os,re # both\nimport reading_services.ipu as poptorch"),
        (b"import os,poptorch  ,  re", b"import os,reading_services.ipu as poptorch  ,  re"),
        (b"import os,torchdata\ntorchdata.datapipes", b"import os\nimport datapipes\ndatapipes"),
        (
            b"from torch.utils.data import DataLoader, IterDataPipe\nfrom torchdata.datapipes.iter import Mapper\n",
            b"from torch.utils.data import DataLoader\nfrom datapipes.iter import Mapper, IterDataPipe\n",
        ),
        (
            (b"from torchdata.datapipes.iter import (\n    Mapper,\n    Batcher\n)\n"
            b"import os\nfrom torch.utils.data import IterDataPipe\nfrom torchdata.datapipes.iter import Mapper\n"),
            b"from datapipes.iter import (\n    Mapper,\n    Batcher,\n    IterDataPipe\n)\nimport os\n",
        ),
        (
            (b"from torchdata.datapipes.iter import Mapper\nfrom torch.utils.data import IterDataPipe  # base\nx = 1\n"
            b"from torch.utils.data import MapDataPipe\nfrom torchdata.datapipes.map import Mapper as M\nM = 1\n"
            b"from torchdata.datapipes.iter import Header as M\nfrom torchdata.datapipes.iter import Cycler as M\n"),
            (b"from datapipes.iter import Mapper\nfrom datapipes.iter import IterDataPipe  # base\nx = 1\n"
            b"from datapipes.map import MapDataPipe, Mapper as M\nM = 1\n"
            b"from datapipes.iter import Header as M\nfrom datapipes.iter import Cycler as M\n"),
        ),
        (b"import poptorch\r\nx = 1\t\r\n", b"import reading_services.ipu as poptorch\r\nx = 1\t\r\n"),
        (b"\xef\xbb\xbfimport poptorch", b"\xef\xbb\xbfimport reading_services.ipu as poptorch"),
        (
            "# coding: latin-1\nimport poptorch  # é\n".encode("latin-1"),
            "# coding: latin-1\nimport reading_services.ipu as poptorch  # é\n".encode("latin-1"),
        ),
        (b"import torchdata\ntorchdata.datapipes\n", b"import datapipes\ndatapipes\n"),
        (
            b"import torchdata, os\ntorchdata.datapipes, torchdata.__version__\n",
            b"import torchdata, os\nimport datapipes\ndatapipes, torchdata.__version__\n",
        ),
        (b"import torchdata.datapipes\nf(torchdata)\n", b"import datapipes\nimport torchdata\nf(torchdata)\n"),
        (b"from torchdata.datapipes.iter import Mapper as Mapper", b"from datapipes.iter import Mapper as Mapper"),
        (b"from torchdata.datapipes.utils.janitor import janitor", b"from datapipes import janitor"),
        (b"from torchdata.datapipes.iter.util import cycler as c", b"from datapipes import iter as c"),
        (
            b"class A:\n\timport torch\n\tx = torch.utils.data.IterDataPipe\n",
            b"class A:\n\timport torch\n\timport datapipes.iter\n\tx = datapipes.iter.IterDataPipe\n",
        ),
        (
            b"import torch\ndef f(torch):\n    torch.utils.data.graph.traverse_dps()\n",
            b"import torch\ndef f(torch):\n    torch.utils.data.graph.traverse_dps()\n",
        ),
        (
            b"from torch.utils import data\n(data.IterDataPipe)\n",
            b"from torch.utils import data\nimport datapipes.iter\n(datapipes.iter.IterDataPipe)\n",
        ),
        (b"x = 'poptorch', b'poptorch.Options'", b"x = 'poptorch', b'poptorch.Options'"),
        (b"x = r'popdist.init'", b"x = r'reading_services.ipu.popdist.init'"),
        (b"from .torchdata.datapipes import iter", b"from .torchdata.datapipes import iter"),
        (b"import torchdata.stateful_dataloader as s", b"import torchdata.stateful_dataloader as s"),
        (
            b"import popdist.poptorch\nimport popdist.poptorch as p\nif x:\n    import popdist.poptorch\n",
            (b"import reading_services.ipu.popdist.poptorch\nimport reading_services.ipu.popdist as popdist\n"
            b"import reading_services.ipu.popdist.poptorch as p\n"
            b"if x:\n    import reading_services.ipu.popdist.poptorch\n"
            b"    import reading_services.ipu.popdist as popdist\n"),
        ),
        (
            b"from torchdata.dataloader2 import MultiProcessingReadingService, " + PROTOTYPE + b"\n" + PROTOTYPE,
            b"from reading_services import MultiProcessingReadingService\nMultiProcessingReadingService",
        ),
        (
            b"from torchdata.dataloader2 import " + PROTOTYPE + b"\n__all__ = ['" + PROTOTYPE + b"']",
            b"from reading_services import MultiProcessingReadingService as " + PROTOTYPE + b"\n"
            b"__all__ = ['" + PROTOTYPE + b"']",
        ),
        (
            b"from torchdata.dataloader2 import " + PROTOTYPE + b"\nMultiProcessingReadingService = " + PROTOTYPE,
            b"from reading_services import MultiProcessingReadingService as " + PROTOTYPE + b"\n"
            b"MultiProcessingReadingService = " + PROTOTYPE,
        ),
    ],
)  # fmt: skip
def test_a_piece_is_migrated(before: bytes, after: bytes) -> None:
    assert programs.migrated(before)[0] == after
    assert programs.migrated(after)[0] == after


OF_PIPES = "from torch.utils.data import IterDataPipe, functional_datapipe\n"
RANKED = "class A(IterDataPipe):\n    def __iter__(self): yield get_worker_info()\n"
LOADER = "from torch.utils.data import DataLoader\n"
OF_MAPS = "from torchdata.datapipes.iter import Mapper\n"
NOTED = [
    ("import torchdata", "torchdata is still imported"),
    ("import torchdata\nprint(torchdata.nodes, torchdata)", "torchdata is still imported"),
    ("import torchdata as t\nt.__version__", "torchdata.__version__ is that of torchdata"),
    ("import poptorch\nassert poptorch.__version__ > '3'", "poptorch.__version__ is that of poptorch"),
    ("import poptorch as p\nassert p.ipuHardwareIsAvailable(2)", "ipuHardwareIsAvailable() finds no IPU here"),
    ("from torchdata import __version__", "torchdata.__version__ is that of torchdata"),
    ("from importlib.util import find_spec\nfind_spec('torchdata')", "find_spec('torchdata') asks for torchdata"),
    ("pytest.importorskip(modname='poptorch')", "importorskip('poptorch') asks for poptorch"),
    ("'torchdata' in sys.modules", "'torchdata' asks for torchdata"),
    (LOADER + "import torchdata.datapipes.iter as i\nDataLoader(i.Mapper(x, y), shuffle=True)", "DataLoader(shuffle=)"),
    (OF_PIPES + "@functional_datapipe('take')\nclass A(IterDataPipe): pass", "take is a method of this library's"),
    (OF_PIPES + "class A(IterDataPipe): pass\n@functional_datapipe('cycle')\nclass B(A): pass", "which B replaces"),
    (OF_PIPES + "@functional_datapipe('state_dict')\nclass A(IterDataPipe): pass", "which loaders call"),
    (
        OF_MAPS + "class A(Mapper):\n    def f(self): self._there = self._gone",
        "self._gone is not defined: if it was private to Mapper",
    ),
    (
        "from torchdata.datapipes.iter import Forker\nForker(dp, num_instances=1)",
        "Forker returns a list even for one pipe",
    ),
    ("import torchdata.datapipes\ndp.fork(1)", "fork returns a list even for one pipe"),
    ("import torchdata.datapipes\ndp.unzip(sequence_length=1)", "unzip returns a list even for one pipe"),
    ("import torchdata.datapipes\ntype(x).__name__ == 'MapperIterDataPipe'", "its name is Mapper"),
    ("import torchdata.datapipes\ntype(x).__name__ in ('A', 'BatcherMapDataPipe')", "its name is Batcher"),
    (OF_PIPES + RANKED, "A calls get_worker_info() itself"),
    ("from mine import OurDataPipe\n" + OF_PIPES + RANKED.replace("Iter", "Our"), "A calls get_worker_info() itself"),
    (
        f"{OF_PIPES}{LOADER}from torchdata.dataloader2 import DataLoader2\n{RANKED}DataLoader(A()), DataLoader2(A())\n",
        "A calls get_worker_info() itself",
    ),
]
QUIET = [
    "import torchdata.nodes\nimport torchdata\ntorchdata.nodes.Loader, torchdata.stateful_dataloader",
    "import torchdata\ntorchdata.datapipes.iter.Mapper",
    "import torch, poptorch\nclass A(torch.utils.data.IterableDataset):\n    def f(self): return get_worker_info()",
    f"{LOADER}{OF_PIPES}{RANKED}DataLoader(A())",
    f"import poptorch\n{OF_PIPES}{RANKED}poptorch.DataLoader(options, A())",
    f"{LOADER}import poptorch\nDataLoader(rows, shuffle=True)",
    f"{OF_MAPS}class A(Mapper):\n    _b = 1\n    def _f(self): self._b, self._f, self._apply_fn, self.__class__",
    f"from mine import Base\n{OF_MAPS}class A(Mapper, Base):\n    def f(self): self._b",
    f"{OF_PIPES}@functional_datapipe('mine')\nclass A(IterDataPipe): pass",
    f"{OF_PIPES}@functional_datapipe('batch')\nclass A(IterDataPipe): pass",
    "import torchdata.datapipes\ndp.fork(2), dp.unzip(n), x == 'MineIterDataPipe', f('torch')",
]


@pytest.mark.parametrize(("source", "text"), NOTED)
def test_what_means_something_else_here_is_noted(source: str, text: str) -> None:
    _, notes = programs.migrated(source.encode())
    assert [note for note in notes if text in note.text], notes


@pytest.mark.parametrize("source", QUIET)
def test_what_means_the_same_is_not_noted(source: str) -> None:
    assert programs.migrated(source.encode())[1] == []


def test_names_of_which_there_are_two() -> None:
    source = b"""
try:
    import torchdata.datapipes as x
except ImportError:
    import torchdata.dataloader2 as x
x.DataLoader2, x.iter.Mapper
"""
    text, notes = programs.migrated(source)
    assert text.count(b"    import loader2\n") == text.count(b"    import datapipes.iter\n") == 2, "whichever fails"
    assert text.splitlines()[-1] == b"loader2.DataLoader2, datapipes.iter.Mapper"
    assert not notes

    of_maps = source.replace(b"dataloader2", b"datapipes.map").replace(b"datapipes as", b"datapipes.iter as")
    text, notes = programs.migrated(of_maps.replace(b"x.DataLoader2, x.iter", b"x"))
    assert (text.splitlines()[-1], notes) == (b"x.Mapper", [])

    text, notes = programs.migrated(
        b"if y: import torch as x\nelse: import torchdata as x\nx.utils.data.IterDataPipe\n"
    )
    assert text.splitlines()[-1] == b"datapipes.iter.IterDataPipe"

    text, notes = programs.migrated(
        b"if y: import torchdata.datapipes as x\nelse: import torchdata.dataloader2 as x\nx.utils\n"
    )
    assert text.splitlines()[-1] == b"x.utils"
    (note,) = notes
    assert (note.line, "datapipes or reading_services, depending on the import" in note.text) == (3, True)


def test_files_that_cannot_be_read_are_told_and_passed_over(tmp_path: Path, migrate: Any) -> None:
    written(tmp_path, {"broken.py": "import poptorch\nprint 'old'\n", "fine.py": "import poptorch\n"})
    (tmp_path / "torchdata.yaml").write_bytes(b"torchdata \xff")
    code, shown, told = migrate(tmp_path, "--write")
    assert code == 1
    assert shown == f"written: {tmp_path / 'fine.py'}\n"
    assert f"{tmp_path / 'broken.py'}: skipped" in told
    assert f"{tmp_path / 'torchdata.yaml'}: skipped" in told
    assert "3 files read, 1 written, 0 notes, 2 skipped" in told
    assert (tmp_path / "broken.py").read_text() == "import poptorch\nprint 'old'\n"


def test_what_is_not_the_projects_is_not_looked_at(tmp_path: Path) -> None:
    for folder in (".git", "venv", "src", "build", "src/__pycache__"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.py").touch()
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    (tmp_path / "src" / "linked.py").symlink_to(tmp_path / "build" / "a.py")
    (tmp_path / "src" / "notes.txt").touch()
    assert list(migration.files(tmp_path)) == [tmp_path / "src" / "a.py"]


def test_paths_that_are_not_there_and_packages_that_are_not_installed(
    tmp_path: Path, migrate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, told = migrate(tmp_path / "nowhere")
    assert (code, "nowhere does not exist" in told) == (2, True)
    (tmp_path / "a.txt").touch()
    code, _, told = migrate(tmp_path / "a.txt")
    assert (code, "a.txt cannot be migrated: its suffix must be one of .json," in told) == (2, True)
    monkeypatch.setitem(__import__("sys").modules, "libcst", None)
    code, _, told = migrate(tmp_path)
    assert (code, "pip install 'loader2[migrate]'" in told) == (2, True)


def test_modules_that_hide_ours_are_noted(tmp_path: Path, migrate: Any) -> None:
    written(tmp_path, {"a.py": "import poptorch", "datapipes.py": ""})
    _, shown, _ = migrate(tmp_path, "--write")
    assert f"{tmp_path / 'a.py'}:1: datapipes beside this file hides" in shown


def test_a_diff_of_a_file_without_an_end_can_be_applied(tmp_path: Path) -> None:
    lines = list(
        migration.difference(tmp_path / "a.py", b"import poptorch", b"import reading_services.ipu as poptorch")
    )
    assert lines[-1].endswith("poptorch\n\\ No newline at end of file\n")


WORDS = st.sampled_from(
    ("torch", "torch.utils.data", "torchdata", "torchdata.nodes", "x", "poptorch_", "IterDataPipe.x", "my.poptorch.x")
)
IMPORTS = st.one_of(
    st.builds("import {} as {}".format, WORDS, st.sampled_from(["a", "dp", "data"])),
    st.builds("from {} import Dataset, DataLoader as d".format, st.sampled_from(["torch.utils.data", "x", ".y"])),
    st.sampled_from(
        ["import os,typing", "import  os , re as r", "from torch.utils.data import (Dataset,\n DataLoader)"]
    ),
    st.builds("{}({!r},  # {}\n  )".format, WORDS, st.text("ab.\"'\\é ", max_size=9), WORDS),
    st.builds("if {}: {}; {} ;".format, WORDS, WORDS, WORDS),
)


@given(st.lists(IMPORTS, max_size=8), st.sampled_from(["\n", "\r\n", "\n\n\n", "\n# é\t\n"]), st.booleans())
@settings(max_examples=200, deadline=None)
def test_programs_without_old_names_come_back(statements: list[str], between: str, end: bool) -> None:
    source = (between.join(statements) + between * end).encode()
    assert programs.migrated(source)[0] == source


@given(st.text("torchdata.ip: -#'\"[]{},\n\r\té=" + "ab", max_size=60))
@settings(max_examples=200, deadline=None)
def test_configs_without_old_names_come_back(text: str) -> None:
    assert configs.migrated(text)[0] == text


@given(
    st.lists(st.sampled_from(["torchdata.datapipes.iter.Mapper", "see", '"', "'", ":", "#", " ", "\n", ",", "[", "-"]))
)
@settings(max_examples=300, deadline=None)
def test_configs_change_in_names_alone(pieces: list[str]) -> None:
    text = "".join(pieces)
    after, _ = configs.migrated(text)
    assert after.replace("torchdata.datapipes.iter.Mapper", "datapipes.iter.Mapper") == text.replace(
        "torchdata.datapipes.iter.Mapper", "datapipes.iter.Mapper"
    )
    assert configs.migrated(after)[0] == after
