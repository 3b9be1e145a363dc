"""``python -m loader2 migrate`` changes lines of code in notebooks, and no other byte of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loader2.porting.migrating import migration, notebooks

FORMS: list[dict[str, Any]] = [
    {"indent": 1},
    {"indent": 1, "ensure_ascii": False},
    {"indent": "\t", "sort_keys": True},
    {"separators": (",", ":")},
    {},
]
MAGICS = ["%matplotlib inline\n", "!pip install torchdata \\\n", "   --quiet\n", "files = !ls\n", "dp?\n"]


def code(*lines: str) -> dict[str, Any]:
    outputs = [{"output_type": "stream", "text": ["import poptorch\n", "import torchdata.datapipes\n"]}]
    return {"cell_type": "code", "metadata": {"a": "import poptorch"}, "outputs": outputs, "source": list(lines)}


def text(*lines: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": list(lines)}


def book(*cells: dict[str, Any], language: str = "python") -> dict[str, Any]:
    return {"cells": list(cells), "metadata": {"language_info": {"name": language}}, "nbformat": 4}


@pytest.mark.parametrize("form", FORMS)
def test_cells_are_one_program_and_all_else_stays(form: dict[str, Any]) -> None:
    def written(importing: list[str], graph: str, poptorch: str) -> bytes:
        cells = [
            text("import poptorch\n", "`torchdata.datapipes.iter`"),
            code(*MAGICS, *importing, "if True:\n", "    !ls\n", "# é"),
            code("%%bash\n", "python -c 'import torchdata.datapipes'"),
            code("%%time\n", f"graph = {graph}.traverse_dps(dp)  # é"),
            code(),
            {**code(), "source": f"import {poptorch}\nx = 1"},
        ]
        return json.dumps(book(*cells), **form).encode()

    before = written(["import torch\n"], "torch.utils.data.graph", "poptorch")
    after = written(
        ["import torch\n", "import datapipes.graph\n"], "datapipes.graph", "reading_services.ipu as poptorch"
    )
    assert migration.migrated(".ipynb", before) == (after, [])
    assert migration.migrated(".ipynb", after) == (after, [])


def test_a_cell_of_one_line_that_becomes_several() -> None:
    before = json.dumps(book(code("from torchdata.dataloader2 import DataLoader2, graph")), indent=1)
    after, _ = notebooks.migrated(before.encode())
    lines = ["from loader2 import DataLoader2\n", "from datapipes import graph"]
    assert after.decode() == json.dumps(book(code(*lines)), indent=1)


def test_notes_have_the_cell_and_the_line_of_the_file() -> None:
    cells = code("x = 1\n", "import torchdata"), code("no python"), code("dp.fork(1)")
    before = json.dumps(book(*cells), indent=1)
    after, notes = notebooks.migrated(before.encode())
    assert after.decode() == before
    lines = [line.strip(' ",') for line in before.splitlines()]
    assert {lines[note.line - 1]: note.text.partition(": ")[0] for note in notes} == {
        "import torchdata": "cell 0",
        "no python": "cell 1 cannot be read as Python and is left",
        "dp.fork(1)": "cell 2",
    }


def test_cells_of_other_languages_and_old_formats_are_left() -> None:
    for before in (book(code("import poptorch"), language="julia"), {"worksheets": [{"cells": []}], "a": "poptorch"}):
        source = json.dumps(before).encode()
        after, notes = notebooks.migrated(source)
        assert after == source
        assert [note.text for note in notes if "format before 4" not in note.text] == []
    with pytest.raises(ValueError, match="Expecting"):
        notebooks.migrated(b"{poptorch")


LINES = st.sampled_from(
    [
        *("import poptorch\n", "import torch\n", "%time x\n", "!ls \\\n", "x = torch.utils.data.graph\n", "if x:\n"),
        *("    y\n", "'''\n", '"\\u00e9", [{}]: ,\n', "%%html\n", "    !ls\n", "\n", "é = '''a\u2028'''", "x"),
    ]
)


@given(st.lists(st.lists(LINES, max_size=5), max_size=4), st.sampled_from(FORMS))
@settings(max_examples=200, deadline=None)
def test_names_in_code_alone_change(cells: list[list[str]], form: dict[str, Any]) -> None:
    before = json.dumps(book(text("import poptorch"), *(code(*lines) for lines in cells)), **form).encode()
    after, _ = notebooks.migrated(before)
    new = json.loads(after)
    for cell, lines in zip(new["cells"][1:], cells, strict=True):
        left = "".join(cell["source"]).replace("reading_services.ipu as ", "").replace("import datapipes.graph\n", "")
        assert left.replace("datapipes.graph", "torch.utils.data.graph") == "".join(lines)
        if "".join(cell["source"]) == "".join(lines):
            assert cell["source"] == lines
    assert json.dumps(new, **form).encode() == after, "its layout is what it was"
    assert notebooks.migrated(after)[0] == after
