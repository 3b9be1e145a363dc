"""mix, SampleMultiplexer: each element from an input drawn at random, by weights that may change by the step.

The random numbers are made in blocks. A block is a pure function of the stage's seed and the block's number, so the
position is the count of numbers and the remaining inputs; no generator state is saved. A number counts once its element
was taken: an input that raises is read again, and costs no other input its turn. Removing an ended input uses one more
number. So the number of elements given, on which weights may depend, follows from the count.

An input that repeats is read in a session for each lap, as ``cycle`` reads its source.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import accumulate
from math import inf
from typing import Any, ClassVar, Final, Literal, TypeAlias, TypeVar, get_args

from datapipes.description.pipe import IterDataPipe, operator
from datapipes.description.printing import stage
from datapipes.errors import BadArgument, BadArgumentType, StateError
from datapipes.iter.combining.inputs import lengths, needs_streams
from datapipes.operator_support.checks import needs, no_length
from datapipes.operator_support.random_order import Seeded, shares
from datapipes.position.cells import Cell, count, fields
from datapipes.position.laps import ALONE, LapCell
from datapipes.position.opening import Opening

_BLOCK = 4096
_END_OF_LAP: Final = object()

A = TypeVar("A")
B = TypeVar("B")
T_co = TypeVar("T_co", covariant=True)

Stop: TypeAlias = Literal["first", "all", "repeat"]
Weight: TypeAlias = float | Mapping[int, float] | Callable[[int], float]
"""A number; or numbers by the step from which they apply; or a function of the step."""
_Now: TypeAlias = float | Callable[[int], float]


class _WeightedInputs(Seeded, IterDataPipe[T_co]):
    """Base of stages that draw from their inputs by weight."""

    def _elements(
        self, sources: list[Iterator[Any]], weights: list[_Now], cell: _MixCell, seed: int, stop: Stop = "all"
    ) -> Iterator[T_co]:
        live, draws = cell.live, shares(seed, _BLOCK)
        changing = any(map(callable, weights))
        while len(live) > 1 or (live and stop == "repeat"):
            ends, last = self._ends(weights, cell), len(live) - 1
            draws.go_to(cell.drawn)
            for drawn in draws.following():
                if changing:
                    ends = self._ends(weights, cell)
                which = live[bisect_right(ends, drawn * ends[-1], 0, last)]
                for element in sources[which]:
                    if element is _END_OF_LAP:
                        if cell.has_ended(which):
                            return
                        continue
                    cell.drawn += 1
                    yield element
                    break
                else:
                    if stop == "first":
                        live.clear()
                        return
                    # Draw another number for the remaining inputs: this one is known to have hit the removed input.
                    cell.leave(which)
                    break
        if live:
            yield from sources[live[0]]
            live.clear()

    def _ends(self, weights: list[_Now], cell: _MixCell) -> list[float]:
        """Return the cumulative weights of the remaining inputs at this step."""
        chosen = [weights[i] for i in cell.live]
        step = cell.step
        now = [weight(step) if callable(weight) else weight for weight in chosen]
        if not all(0 <= weight < inf for weight in now) or (len(now) > 1 and not any(now)):
            raise BadArgument(
                f"weights are finite, none is below 0, and not all are 0: at step {step} they are {now!r:.200}, "
                f"in {stage(self)}"
            )
        return list(accumulate(now))


@operator
class Mixer(_WeightedInputs[T_co]):
    """Elements of this stream and others, each from a stream drawn at random in proportion to the weights.

    Weights may change by the step, the number of elements given before in this epoch. Below a ``sharding_filter`` each
    shard counts its own.

    Args:
        weights: The other streams, with their weights in any unit; this stream may be among them. A weight is a
            positive number; or a dict of numbers by the step from which they apply, beginning with 0; or a function of
            the step. Changing weights may be 0 for a time, but not all at once.
        weight: Weight of this stream, if it is not among them.
        stop: When the stage ends. ``"first"``: when a stream is drawn that has ended. ``"all"``: when all have ended;
            an ended one is drawn no more. ``"repeat"``: when all have ended; until then an ended one starts again.
        seed: Seed of the order, together with the epoch. ``None``: the loader's seed.

    >>> from datapipes.iter import IterableWrapper
    >>> a, b = IterableWrapper("aaaaaa"), IterableWrapper("bb")
    >>> "".join(a.mix({a: 2, b: {0: 0, 4: 1}}, seed=1))[:4]
    'aaaa'
    >>> repeated = list(a.mix({b: 2}, stop="repeat", seed=1))
    >>> repeated.count("a") >= 6, repeated.count("b") > 2
    (True, True)
    """

    _fluent: ClassVar[str | None] = "mix"

    source_datapipe: IterDataPipe[T_co]
    weights: Mapping[IterDataPipe[Any], Weight]
    weight: Weight = 1
    stop: Stop = "all"

    def __init__(
        self: Mixer[A | B],
        source_datapipe: IterDataPipe[A],
        weights: Mapping[IterDataPipe[B], Weight],
        *,
        weight: Weight = 1,
        stop: Stop = "all",
        seed: int | None = None,
    ) -> None:
        self.source_datapipe = source_datapipe
        self.weights = _mapping("mix()", weights)
        self.weight = self.weights.pop(source_datapipe, weight)
        self.stop = stop
        self._seed = seed
        needs_streams(self, self._inputs())
        needs(stop in get_args(Stop), self, f'stop must be "first", "all" or "repeat", got {stop!r:.60}')
        for weight in (self.weight, *self.weights.values()):
            steps = weight if isinstance(weight, Mapping) else {0: 1 if callable(weight) else weight}
            positive = all(0 <= number < inf for number in steps.values()) and any(steps.values())
            needs(positive, self, f"Expecting a positive and finite weight, got {weight!r:.60}")
            counts = all(type(step) is int and step >= 0 for step in steps)
            needs(counts and 0 in steps, self, f"Weights by the step must begin at step 0, got {weight!r:.60}")
        if stop == "repeat":
            self._exclusive_because = ALONE.format("mix()")

    def _reads(self) -> tuple[IterDataPipe[Any], ...]:
        return () if self.stop == "repeat" else self._inputs()

    def _inputs(self) -> tuple[IterDataPipe[Any], ...]:
        return self.source_datapipe, *self.weights

    def _open(self, at: Opening) -> Iterator[T_co]:
        inputs, weights = self._inputs(), list(map(_by_step, (self.weight, *self.weights.values())))
        if self.stop == "repeat":
            repeated = at.cell(lambda: _RepeatingMixCell(len(inputs)))
            repeated.end()  # an interruption may have come between the end of a lap and this
            for lap, pipe in zip(repeated.laps, inputs, strict=True):
                lap.begin(at, pipe)
            laps = [_laps(at, lap, pipe) for lap, pipe in zip(repeated.laps, inputs, strict=True)]
            return self._elements(laps, weights, repeated, at.seed(self._seed), self.stop)
        cell = at.cell(lambda: _MixCell(len(inputs)))
        return self._elements(list(map(at.source, inputs)), weights, cell, at.seed(self._seed), self.stop)

    def __len__(self) -> int:
        if self.stop != "all":
            raise no_length(self)
        return sum(lengths(self, self._inputs()))


@operator
class SampleMultiplexer(_WeightedInputs[Any]):
    """Elements of inputs drawn at random, in proportion to their weights; an ended input is drawn no more.

    Args:
        pipes_to_weights_dict: The inputs, with their weights: positive numbers in any unit.
        seed: Seed of the order, together with the epoch. ``None``: the loader's seed.

    >>> from datapipes.iter import IterableWrapper
    >>> dp = SampleMultiplexer({IterableWrapper("aaaa"): 3, IterableWrapper("bb"): 1}, seed=1)
    >>> sorted(dp), list(dp.set_seed(1)) == list(dp.set_seed(1))
    (['a', 'a', 'a', 'a', 'b', 'b'], True)
    """

    pipes_to_weights_dict: Mapping[IterDataPipe[Any], float]

    def __init__(self, pipes_to_weights_dict: Mapping[IterDataPipe[Any], float], seed: int | None = None) -> None:
        self.pipes_to_weights_dict = _mapping("SampleMultiplexer", pipes_to_weights_dict)
        self._seed = seed
        needs(len(self.pipes_to_weights_dict) > 0, self, "Empty dictionary passed: give at least one stream")
        needs_streams(self, tuple(self.pipes_to_weights_dict))
        for weight in self.pipes_to_weights_dict.values():
            needs(0 < weight < inf, self, f"Expecting a positive and finite weight, got {weight!r:.60}")

    def _open(self, at: Opening) -> Iterator[Any]:
        sources = [at.source(pipe) for pipe in self.pipes_to_weights_dict]
        weights = list(map(_by_step, self.pipes_to_weights_dict.values()))
        return self._elements(sources, weights, at.cell(lambda: _MixCell(len(sources))), at.seed(self._seed))

    def __len__(self) -> int:
        return sum(lengths(self, tuple(self.pipes_to_weights_dict)))


class _MixCell(Cell):
    """Number of random draws, and the remaining inputs."""

    def __init__(self, number_of_inputs: int) -> None:
        self._number = number_of_inputs
        self.drawn = 0
        self.live = list(range(number_of_inputs))

    @property
    def step(self) -> int:
        """Number of elements given."""
        return self.drawn - (self._number - len(self.live))

    def leave(self, which: int) -> None:
        """Remove an input that the last draw has hit from the draws."""
        index, drawn = self.live.index(which), self.drawn + 1
        del self.live[index]  # nothing is called in between
        self.drawn = drawn

    def has_ended(self, which: int) -> bool:
        """Note that an input starts again. Return whether the stage ends, because all inputs have ended once."""
        raise NotImplementedError

    def save(self) -> dict[str, Any]:
        return {"drawn": self.drawn, "live": list(self.live)}

    def load(self, saved: Any) -> None:
        drawn, live = fields(saved, "drawn", "live")
        if type(live) is not list:
            raise StateError(f"live: expected a list of inputs, found {type(live).__name__}")
        inputs = [count(i, "live", most=self._number - 1) for i in live]
        if inputs != sorted(set(inputs)):
            raise StateError(f"live: expected each input once, in their order, found {inputs}")
        self.drawn, self.live[:] = count(drawn, "drawn"), inputs


class _RepeatingMixCell(_MixCell):
    """Draws with the lap of each input, which tells whether it has ended once."""

    def __init__(self, number_of_inputs: int) -> None:
        super().__init__(number_of_inputs)
        self.laps = [LapCell() for _ in range(number_of_inputs)]

    def leave(self, which: int) -> None:
        super().leave(which)
        self.end()

    def has_ended(self, which: int) -> bool:
        return self.end()

    def end(self) -> bool:
        """Remove all inputs if each has ended once. Return whether there is none."""
        if all(self.laps[i].number for i in self.live):
            self.live.clear()
        return not self.live

    def save(self) -> dict[str, Any]:
        return {**super().save(), "laps": [lap.save() for lap in self.laps]}

    def load(self, saved: Any) -> None:
        drawn, live, laps = fields(saved, "drawn", "live", "laps")
        super().load({"drawn": drawn, "live": live})
        if type(laps) is not list or len(laps) != self._number:
            raise StateError(f"laps: expected one for each of {self._number} inputs, found {laps!r:.80}")
        for lap, each in zip(self.laps, laps, strict=True):
            lap.load(each)

    def close(self) -> None:
        with ExitStack() as closing:
            for lap in self.laps:
                closing.callback(lap.close)


def _laps(at: Opening, lap: LapCell, pipe: IterDataPipe[Any]) -> Iterator[Any]:
    """Yield the elements of an input that repeats, with a mark after each lap. End if a lap is empty."""
    while (yield from lap.elements(at, pipe)):
        yield _END_OF_LAP


def _mapping(what: str, weights: object) -> dict[Any, Any]:
    if not isinstance(weights, Mapping):
        raise BadArgumentType(
            f"{what} needs a dict of streams and their weights, got {type(weights).__name__}: {weights!r:.60}"
        )
    return dict(weights)


def _by_step(weight: Weight) -> _Now:
    if not isinstance(weight, Mapping):
        return weight
    steps = sorted(weight)
    return partial(_in_force, steps, [weight[step] for step in steps])


def _in_force(steps: list[int], numbers: list[float], step: int) -> float:
    return numbers[bisect_right(steps, step) - 1]
