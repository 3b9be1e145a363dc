"""Three graphs in process, against hand-written code and against the peers.

The price of a graph is what it costs over the best code that a programmer would write by hand for the same work; the
price of exact state is what `state_dict()` every 1,000 source elements costs over the same loop without it.
"""

from collections.abc import Iterator

from benchmarks import hand_written, ours
from benchmarks.harness import OURS, Claim, Contender, contender, contest
from benchmarks.peers import core_datapipes, nodes
from benchmarks.peers.child import FAMILY, OldTorchdata
from benchmarks.table import Table
from benchmarks.workload import BATCH_SIZE, BATCHED, ELEMENTS, MAPPED, SHUFFLED

HAND = "hand"
SAVING = "saving"
SAME_LOOP = "same loop"

TITLES = {
    SHUFFLED: "range -> shuffle -> sharding_filter -> map -> filter -> batch(8)",
    BATCHED: "range -> map -> filter -> batch(8)",
    MAPPED: "range -> 16 x map",
}
STYLES = {
    SHUFFLED: hand_written.SHUFFLED_STYLES,
    BATCHED: hand_written.BATCHED_STYLES,
    MAPPED: hand_written.MAPPED_STYLES,
}
TIMES_OF_PEER = {SHUFFLED: 25.0, BATCHED: 35.0, MAPPED: 45.0}

# The filter keeps every second element, so a batch of 8 is 16 source elements: 62 batches are 992 of them.
OUTPUTS_BETWEEN_STATES = {SHUFFLED: 62, BATCHED: 62, MAPPED: 1_000}
OUTPUTS = {SHUFFLED: ELEMENTS // 2 // BATCH_SIZE, BATCHED: ELEMENTS // 2 // BATCH_SIZE, MAPPED: ELEMENTS}


def tables(rounds: int) -> Iterator[Table]:
    with OldTorchdata() as old:
        for case, title in TITLES.items():
            in_order = case != SHUFFLED
            by_hand = [
                contender(f"by hand: {style}", HAND, build, in_order=in_order) for style, build in STYLES[case].items()
            ]
            contenders = [*_ours(case), *by_hand, *_installed_peers(case), old.contender(case, in_order=in_order)]
            yield contest(
                f"{title}, {ELEMENTS:,} ints",
                contenders,
                [
                    Claim(OURS, HAND, at_least=0.85),
                    Claim(SAVING, SAME_LOOP, at_least=0.95),
                    Claim(OURS, FAMILY, at_least=TIMES_OF_PEER[case]),
                ],
                elements=ELEMENTS,
                rounds=rounds,
                reference=by_hand[0],
                notes=[_about_saving(case), *old.notes],
            )


def _ours(case: str) -> Iterator[Contender]:
    build, in_order = ours.CASES[case], case != SHUFFLED
    every = OUTPUTS_BETWEEN_STATES[case]
    parts = OUTPUTS[case] // every
    yield contender("DataLoader2", OURS, build, in_order=in_order)
    yield contender(
        "DataLoader2, loop in parts", SAME_LOOP, build, ours.in_parts(every, parts, ours.go_on), in_order=in_order
    )
    yield contender(
        "DataLoader2, saving after each part", SAVING, build, ours.in_parts(every, parts, ours.save), in_order=in_order
    )


def _installed_peers(case: str) -> Iterator[Contender]:
    cases = {"torch.utils.data.datapipes": core_datapipes.CASES, "torchdata.nodes": nodes.CASES}
    for name, builds in cases.items():
        yield contender(name, name, builds[case], in_order=case != SHUFFLED)


def _about_saving(case: str) -> str:
    every = OUTPUTS_BETWEEN_STATES[case]
    if case == MAPPED:
        return f"a part is {every:,} elements; saving is `state_dict()`, called by the consumer's loop"
    return (
        f"a part is {every} batches, {every * BATCH_SIZE * 2} source elements as the filter keeps every second; "
        "saving is `state_dict()`, called by the consumer's loop"
    )
