"""Cost of an element as the graph grows: from 1 to 64 stages, or from 10 to 1,000 children of a demux.

The cost of a stage must not grow with their number, and that of an element not with the number of children.

The cost of a stage is the time of a whole pass, divided by the elements and the stages. With few stages that is mostly
the consumer's loop, so growth is counted from 8. Bare nested `map`s of the same depth stand beside it, to tell what the
processor itself makes of a deeper chain.
"""

from collections.abc import Iterator

from benchmarks import ours
from benchmarks.harness import Contender, Standing, contender, race
from benchmarks.table import Row, Table
from benchmarks.workload import add_one

ELEMENTS = 50_000
STAGES = (1, 2, 4, 8, 16, 32, 64)
BASE = 8
MOST_GROWTH = 1.5
CHILDREN = (10, 100, 1000)
DEALT = 500_000
MOST_GROWTH_OF_CHILDREN = 2.0
"""Of which a part is that queues which are many are not in the processor's cache."""


def tables(rounds: int) -> Iterator[Table]:
    standings = race([_graph(stages) for stages in STAGES] + [_bare(stages) for stages in STAGES], rounds)
    graphs = dict(zip(STAGES, standings[: len(STAGES)], strict=True))
    bare = dict(zip(STAGES, standings[len(STAGES) :], strict=True))
    yield Table(
        f"range -> n x map, {ELEMENTS:,} ints: ns per element",
        ("stages", "DataLoader2", "per stage", "bare maps per stage"),
        [_row(stages, graphs, bare) for stages in STAGES],
        [f"required: a stage of {STAGES[-1]} costs at most {MOST_GROWTH} times a stage of {BASE}"],
    )

    dealt = race([_dealt(children) for children in CHILDREN], rounds)
    yield Table(
        f"range -> demux -> zip, {DEALT:,} ints: ns per element, opening included",
        ("children", "demux", "of that of the first"),
        [_row_of_children(children, each, dealt[0]) for children, each in zip(CHILDREN, dealt, strict=True)],
    )


def _dealt(children: int) -> Contender:
    def build() -> Iterator[object]:
        several = ours.dealt(children, DEALT)
        return iter(several[0].zip(*several[1:]))

    return contender(f"demux to {children}", "demux", build)


def _row_of_children(children: int, standing: Standing, first: Standing) -> Row:
    required = f"<= {MOST_GROWTH_OF_CHILDREN:g}" if standing is not first else ""
    if not (standing.measured and first.measured):
        return Row((str(children),), required, False, f"not measured: {standing.failure}")
    growth = standing.best / first.best
    cells = (str(children), f"{standing.best / DEALT * 1e9:,.1f}", f"{growth:.2f}")
    return Row(cells, required, growth <= MOST_GROWTH_OF_CHILDREN if required else None)


def _graph(stages: int) -> Contender:
    return contender(f"graph of {stages}", "graph", lambda: ours.mapped(stages, ELEMENTS))


def _bare(stages: int) -> Contender:
    def build() -> Iterator[int]:
        elements = iter(range(ELEMENTS))
        for _ in range(stages):
            elements = map(add_one, elements)
        return elements

    return contender(f"{stages} bare maps", "bare", build)


def _row(stages: int, graphs: dict[int, Standing], bare: dict[int, Standing]) -> Row:
    most = f"<= {MOST_GROWTH:g} x {BASE}'s" if stages == STAGES[-1] else ""
    if not graphs[stages].measured:
        failed = f"not measured: {graphs[stages].failure}"
        return Row((str(stages), "", "", f"{_cost(bare, stages):.1f}"), most, False if most else None, failed)
    cells = (
        str(stages),
        f"{_cost(graphs, stages) * stages:,.1f}",
        f"{_cost(graphs, stages):.1f}",
        f"{_cost(bare, stages):.1f}",
    )
    if not most:
        return Row(cells)
    linear = graphs[BASE].measured and _cost(graphs, stages) <= MOST_GROWTH * _cost(graphs, BASE)
    return Row(cells, most, linear)


def _cost(standings: dict[int, Standing], stages: int) -> float:
    """Nanoseconds per element and stage."""
    return standings[stages].best / ELEMENTS / stages * 1e9
