"""Drawings show each stage once, in as much text as the graph has stages."""

from __future__ import annotations

import re
import sys
from typing import Any
from xml.etree import ElementTree

import pytest

from datapipes.graph import to_graph, to_mermaid, to_svg, to_text, traverse_dps
from datapipes.iter import IterableWrapper, IterDataPipe
from datapipes.map import SequenceWrapper
from tests.specimens.catalogue import SPECIMENS

SVG = "{http://www.w3.org/2000/svg}"


def numbers(length: int = 4) -> IterDataPipe[int]:
    return IterableWrapper(range(length))


def forked() -> IterDataPipe[Any]:
    left, right = numbers().shuffle().fork(2)
    return left.map(str).zip(right).batch(2)


# -- text --------------------------------------------------------------------------------------------------------------


def test_a_chain_is_a_list_with_the_end_first() -> None:
    assert to_text(numbers().map(str).batch(2)) == ".batch(2)\n.map(str)\nIterableWrapper(range(0, 4))"


def test_several_inputs_are_branches() -> None:
    pipe = numbers(1).concat(numbers(2).map(abs).batch(2), numbers(3).zip(numbers(4)).header()).map(str)
    assert to_text(pipe).splitlines() == [
        ".map(str)",
        ".concat(..., ...)",
        "├── IterableWrapper(range(0, 1))",
        "├── .batch(2)",
        "│   .map(abs)",
        "│   IterableWrapper(range(0, 2))",
        "└── .header()",
        "    .zip(...)",
        "    ├── IterableWrapper(range(0, 3))",
        "    └── IterableWrapper(range(0, 4))",
    ]


def test_what_is_read_twice_is_drawn_once_and_numbered() -> None:
    assert to_text(forked()).splitlines() == [
        ".batch(2)",
        ".zip(...)",
        "├── .map(str)",
        "│   [0]",
        "│   #1 .fork(2)",
        "│   .shuffle()",
        "│   IterableWrapper(range(0, 4))",
        "└── [1]",
        "    #1 (see above)",
    ]
    source = numbers()
    assert to_text(source.zip(source)).splitlines() == [
        ".zip(...)",
        "├── #1 IterableWrapper(range(0, 4))",
        "└── #1 (see above)",
    ]


def test_map_style_pipes_are_drawn_alike() -> None:
    assert to_text(SequenceWrapper("ab").map(str.upper).shuffle()).splitlines() == [
        ".shuffle(indices=range(0, 2))",
        ".map(fn=str.upper)",
        "SequenceWrapper('ab')",
    ]


def test_branches_that_stand_too_deep_are_drawn_below() -> None:
    pipe: IterDataPipe[Any] = numbers(1)
    for i in range(50):
        pipe = IterableWrapper([i]).zip(pipe)
    lines = to_text(pipe).splitlines()
    below = [re.sub(r"[^#]*(#\d+) \(see below\)", r"\1", line) for line in lines if line.endswith("(see below)")]
    assert len(below) == 4  # two of every twenty-first level: the branch, and the source beside it
    for number in below:
        assert sum(line.startswith(f"{number} ") for line in lines) == 1
    assert len([line for line in lines if "IterableWrapper" in line]) == 51
    assert len([line for line in lines if ".zip(" in line]) == 50


def test_the_length_of_a_text_grows_with_the_number_of_stages() -> None:
    def nested(depth: int) -> int:
        pipe: IterDataPipe[Any] = numbers(1)
        for _ in range(depth):
            pipe = pipe.zip(numbers(1))
        return len(to_text(pipe))

    assert nested(2000) < 2.5 * nested(1000)


def test_every_stage_is_drawn() -> None:
    pipes = {str(specimen): specimen.pipe() for specimen in SPECIMENS}
    drawn = {
        name: (
            sum("(see above)" not in line for line in to_text(pipe).splitlines()),
            len(re.findall(r"^    s\d+\[", to_mermaid(pipe), flags=re.MULTILINE)),
            len(list(ElementTree.fromstring(to_svg(pipe)).iter(f"{SVG}rect"))),
        )
        for name, pipe in pipes.items()
    }
    assert drawn == {name: (count_of(pipe),) * 3 for name, pipe in pipes.items()}


def count_of(pipe: Any) -> int:
    seen: set[int] = set()
    todo = [traverse_dps(pipe)]
    while todo:
        for key, (_, inputs) in todo.pop().items():
            if key not in seen:
                seen.add(key)
                todo.append(inputs)
    return len(seen)


# -- Mermaid -----------------------------------------------------------------------------------------------------------


def test_a_flowchart_goes_from_the_sources_to_the_end() -> None:
    assert to_mermaid(forked()).splitlines() == [
        "flowchart TD",
        '    s0["IterableWrapper(range(0, 4))"]',
        '    s1[".shuffle()"]',
        "    s0 --> s1",
        '    s2[".fork(2)"]',
        "    s1 --> s2",
        '    s3["[0]"]',
        "    s2 --> s3",
        '    s4[".map(str)"]',
        "    s3 --> s4",
        '    s5["[1]"]',
        "    s2 --> s5",
        '    s6[".zip(...)"]',
        "    s4 --> s6",
        "    s5 --> s6",
        '    s7[".batch(2)"]',
        "    s6 --> s7",
    ]


def test_labels_are_escaped() -> None:
    label = to_mermaid(IterableWrapper(['"#1" <b> & co']).map(lambda x: x)).splitlines()
    assert label[1] == "    s0[\"IterableWrapper(['#quot;#35;1#quot; #lt;b#gt; #amp; co'])\"]"
    assert label[2].startswith('    s1[".map(#lt;lambda at test_drawing.py:')


# -- SVG ---------------------------------------------------------------------------------------------------------------


def test_a_picture_has_a_box_below_all_that_it_reads_and_a_line_to_each() -> None:
    picture = ElementTree.fromstring(forked().draw())
    titles = [title.text for title in picture.iter(f"{SVG}title")]
    tops = [float(box.attrib["y"]) for box in picture.iter(f"{SVG}rect")]
    assert len({*zip(titles, tops, strict=True)}) == len(titles) == 8
    rows = [{title for title, top in zip(titles, tops, strict=True) if top == row} for row in sorted({*tops})]
    assert rows[:4] == [{"IterableWrapper(range(0, 4))"}, {".shuffle()"}, {".fork(2)"}, {"[0]", "[1]"}]
    assert rows[4:] == [{".map(str)"}, {".zip(...)"}, {".batch(2)"}]
    assert len(list(picture.iter(f"{SVG}path"))) == 8


def test_a_picture_tells_a_long_stage_in_short_and_whole_where_one_points() -> None:
    long = IterableWrapper(["<&>" * 100])
    picture = ElementTree.fromstring(long.draw())
    (title,), (text,) = picture.iter(f"{SVG}title"), picture.iter(f"{SVG}text")
    assert title.text is not None
    assert text.text is not None
    assert text.text.endswith(" ...")
    assert len(text.text) == 64
    assert title.text.startswith(text.text[:-4])


def test_a_notebook_shows_the_picture() -> None:
    pipe: Any = numbers().batch(2)
    assert pipe._repr_svg_() == pipe.draw() == to_svg(pipe)


# -- graphviz ----------------------------------------------------------------------------------------------------------


def drawn(pipe: Any, debug: bool = False) -> tuple[dict[str, str], set[tuple[str, str]]]:
    """The nodes of a drawing with their colours, and its edges, by the nodes' labels."""
    body: list[str] = to_graph(pipe, debug=debug).body
    nodes = {}
    colours = {}
    for line in body:
        if found := re.match(r'\s*"?(\d+)"? \[label="?(\w+)"?.*fillcolor="?(\w+)"?', line):
            nodes[found[1]] = found[2]
            colours[found[2]] = found[3]
    edges = [re.match(r'\s*"?(\d+)"? -> "?(\d+)"?', line) for line in body]
    return colours, {(nodes[edge[1]], nodes[edge[2]]) for edge in edges if edge}


def test_a_drawing_has_a_node_for_each_stage_and_an_edge_for_each_input() -> None:
    pipe = numbers().shuffle().map(str)
    assert drawn(pipe) == (
        {"IterableWrapper": "lightblue", "Shuffler": "white", "Mapper": "darkolivegreen1"},
        {("IterableWrapper", "Shuffler"), ("Shuffler", "Mapper")},
    )


def test_the_children_of_a_fork_are_part_of_it_unless_asked_for() -> None:
    edges = {("Mapper", "Zipper"), ("Zipper", "Batcher"), ("IterableWrapper", "Shuffler"), ("Shuffler", "Forker")}
    colours, found = drawn(forked())
    assert found == edges | {("Forker", "Mapper"), ("Forker", "Zipper")}
    assert "_" not in "".join(colours)
    colours, found = drawn(forked(), debug=True)
    assert found > edges
    assert len(colours) == 7
    assert drawn(forked().demux(2, bool)[0])[0]["Demultiplexer"] == "darkolivegreen1"


def test_a_single_stage_is_a_source() -> None:
    assert drawn(numbers()) == ({"IterableWrapper": "lightblue"}, set())


def test_without_graphviz_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "graphviz", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'loader2\[graph\]'.*to_text\(\)"):
        to_graph(numbers())


@pytest.mark.parametrize("draw", [to_text, to_mermaid, to_svg, to_graph])
def test_only_pipes_are_drawn(draw: Any) -> None:
    with pytest.raises(RuntimeError, match="Expected `IterDataPipe` or `MapDataPipe`, got list"):
        draw([numbers()])
