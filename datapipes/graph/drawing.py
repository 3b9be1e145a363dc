"""Drawings of a graph: as text, as SVG, as Mermaid for web pages, or with the graphviz package.

Each stage is drawn once, regardless of the number of paths to it. A stage that is read twice has a number for
references. So has a stage that is nested too deep: the length of the text stays proportional to the size of the graph.
"""

from __future__ import annotations

from collections import Counter, deque
from html import escape
from typing import Any

from datapipes.description import structure
from datapipes.description.printing import as_written, stage
from datapipes.description.structure import Pipe

_DEEPEST = 20  # branches within branches that are drawn at their place


def to_text(datapipe: Pipe) -> str:
    """Return a graph as a list, the last stage first. A stage with several inputs has a branch for each of them.

    >>> from datapipes.iter import IterableWrapper
    >>> print(to_text(IterableWrapper([1]).zip(IterableWrapper("ab").map(str.upper)).batch(2)))
    .batch(2)
    .zip(...)
    ├── IterableWrapper([1])
    └── .map(str.upper)
        IterableWrapper('ab')
    """
    datapipe = structure.rewrite(datapipe, as_written)
    readers = Counter(id(source) for pipe in structure.walk(datapipe) for source in structure.occurrences(pipe))
    lines: list[str] = []
    numbers: dict[int, int] = {}
    drawn: set[int] = set()
    trees = deque([datapipe])  # the graph, and then the branches that were nested too deep
    while trees:
        root = trees.popleft()
        stack = [] if id(root) in drawn else [(root, "", "", 0)]
        while stack:
            pipe, first, following, depth = stack.pop()
            if readers[id(pipe)] > 1 or depth > _DEEPEST:
                numbers.setdefault(id(pipe), len(numbers) + 1)
            number = f"#{numbers[id(pipe)]} " if id(pipe) in numbers else ""
            if id(pipe) in drawn:
                lines.append(f"{first}{number}(see above)")
                continue
            if depth > _DEEPEST:
                lines.append(f"{first}{number}(see below)")
                trees.append(pipe)
                continue
            drawn.add(id(pipe))
            lines.append(first + number + stage(pipe))
            inputs = list(structure.occurrences(pipe))
            if len(inputs) == 1:
                stack.append((inputs[0], following, following, depth))
                continue
            for i, parent in reversed(list(enumerate(inputs))):
                branch, beside = ("└── ", "    ") if i == len(inputs) - 1 else ("├── ", "│   ")
                stack.append((parent, following + branch, following + beside, depth + 1))
    return "\n".join(lines)


def to_mermaid(datapipe: Pipe) -> str:
    """Return a graph as a Mermaid flowchart, sources first.

    >>> from datapipes.iter import IterableWrapper
    >>> print(to_mermaid(IterableWrapper([1]).batch(2)))
    flowchart TD
        s0["IterableWrapper([1])"]
        s1[".batch(2)"]
        s0 --> s1
    """
    datapipe = structure.rewrite(datapipe, as_written)
    lines = ["flowchart TD"]
    numbers: dict[int, int] = {}
    for i, pipe in enumerate(structure.walk(datapipe)):
        numbers[id(pipe)] = i
        label = stage(pipe)
        for character, code in _MERMAID_CODES.items():
            label = label.replace(character, code)
        lines.append(f'    s{i}["{label}"]')
        lines += [f"    s{numbers[id(parent)]} --> s{i}" for parent in structure.parents(pipe)]
    return "\n".join(lines)


# The codes contain a # themselves, so the order matters.
_MERMAID_CODES = {"#": "#35;", "&": "#amp;", '"': "#quot;", "<": "#lt;", ">": "#gt;"}


def to_svg(datapipe: Pipe) -> str:
    """Return a graph as an SVG picture, sources at the top. A stage is below all its inputs.

    >>> from datapipes.iter import IterableWrapper
    >>> picture = to_svg(IterableWrapper([1]).batch(2))
    >>> picture[:4], picture.count("<rect"), picture.count("<path"), ".batch(2)</text>" in picture
    ('<svg', 2, 1, True)
    """
    datapipe = structure.rewrite(datapipe, as_written)
    stages = structure.walk(datapipe)
    rows: list[list[Pipe]] = []
    row_of: dict[int, int] = {}
    for pipe in stages:
        row = row_of[id(pipe)] = 1 + max((row_of[id(parent)] for parent in structure.parents(pipe)), default=-1)
        rows.extend([] for _ in range(row + 1 - len(rows)))
        rows[row].append(pipe)
    labels = {id(pipe): _shortened(stage(pipe)) for pipe in stages}
    widths = {place: _CHARACTER * len(label) + 2 * _MARGIN for place, label in labels.items()}
    wide = max(sum(widths[id(pipe)] + _GAP for pipe in row) for row in rows)
    middle: dict[int, float] = {}
    boxes: list[str] = []
    lines: list[str] = []
    for row, pipes in enumerate(rows):
        left = (wide - sum(widths[id(pipe)] + _GAP for pipe in pipes)) / 2 + _GAP / 2
        top = row * _ROW + _MARGIN
        for pipe in pipes:
            width, x = widths[id(pipe)], left + widths[id(pipe)] / 2
            fill = "#cfe4f7" if not structure.parents(pipe) else "#d5ecc8" if pipe is datapipe else "#f4f4f4"
            boxes += [
                f"<g><title>{escape(stage(pipe))}</title>",
                f'<rect x="{left:g}" y="{top}" width="{width:g}" height="{_BOX}" rx="5" fill="{fill}" stroke="#888"/>',
                f'<text x="{x:g}" y="{top + 19}" fill="#222" text-anchor="middle">',
                f"{escape(labels[id(pipe)])}</text></g>",
            ]
            for parent in structure.parents(pipe):
                above, start = middle[id(parent)], row_of[id(parent)] * _ROW + _MARGIN + _BOX
                bend = (start + top) / 2
                lines.append(f'<path d="M{above:g} {start}C{above:g} {bend:g} {x:g} {bend:g} {x:g} {top}"/>')
            middle[id(pipe)] = x
            left += width + _GAP
    high = len(rows) * _ROW - (_ROW - _BOX) + 2 * _MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:g} {high}" width="{wide:g}" height="{high}" '
        f'font-family="monospace" font-size="13"><g fill="none" stroke="#888" stroke-width="1.5">{"".join(lines)}</g>'
        f"{''.join(boxes)}</svg>"
    )


_CHARACTER, _LONGEST = 7.9, 64  # the width of a letter, and the most letters of a label
_MARGIN, _GAP, _BOX, _ROW = 10, 16, 28, 52


def _shortened(label: str) -> str:
    return label if len(label) <= _LONGEST else f"{label[: _LONGEST - 4]} ..."


def to_graph(dp: Pipe, *, debug: bool = False) -> Any:
    """Return a graph as a ``graphviz.Digraph``, with sources in blue and the last stage in green.

    ``debug`` shows the children of ``fork`` as well.
    """
    try:
        import graphviz
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "to_graph() needs the package graphviz: pip install 'loader2[graph]'; "
            "to_text() and to_mermaid() need no package"
        ) from None
    drawn = graphviz.Digraph(node_attr={"shape": "box"})
    dp = structure.rewrite(dp, as_written)
    stages = structure.walk(dp)

    def shown(pipe: Pipe) -> Pipe:
        hub = None if debug else structure.hub_of(pipe)
        return pipe if hub is None else hub

    for pipe in stages:
        if shown(pipe) is pipe:
            inputs = structure.parents(pipe)
            colour = "lightblue" if not inputs else "darkolivegreen1" if pipe is shown(dp) else "white"
            drawn.node(str(id(pipe)), _name(pipe), style="filled", fillcolor=colour)
            for producer in dict.fromkeys(id(shown(parent)) for parent in inputs):
                drawn.edge(str(producer), str(id(pipe)))
    return drawn


def _name(pipe: Pipe) -> str:
    return structure.class_name(pipe).lstrip("_").replace("IterDataPipe", "").replace("MapDataPipe", "")
