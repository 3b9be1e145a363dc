"""SeedGenerator: seeds that all ranks and workers have in common, and seeds that each has for itself.

Services and ``worker_reset_fn`` are given a generator; the library itself draws nothing from one, its seeds are hashes
(``datapipes.position.seeds``).

A ``SeedGenerator`` holds two streams that start from one seed. The *shared* stream goes along unchanged when a
generator is spawned for a worker, so every worker draws the same shared seeds. The *worker* stream is replaced by one
that depends on the worker's number and on the generator's own seed, never on how many seeds were drawn before.

The streams are Philox4x32 with 10 rounds, a keyed mixing of a counter, so a stream is two numbers: its seed (the key)
and how many values have been drawn from it. The n-th value is a pure function of both; nothing else is kept, copied or
pickled. Counter 0 is never drawn from. The first half of its block is the *spawn key*, a second key under which the
seeds of spawned streams are mixed; so the streams that a stream spawns depend on its seed alone, not on what was drawn.

Two defects of torchdata 0.9 end here. A seed taken from torch's default generator *advances* that generator: otherwise
all unseeded epochs would repeat one order. And negative seeds are refused like those above 64 bits, where they used to
be folded silently into another seed.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from datapipes.errors import BadArgument, BadArgumentType
from datapipes.position.seeds import draw_default_seed

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


UINT64 = 0xFFFF_FFFF_FFFF_FFFF
_UINT32 = 0xFFFF_FFFF
__all__ = ["PhiloxEngine", "SeedGenerator", "checked_seed", "dist_share_seed", "philox_block"]

_ROUNDS = 10
_MULTIPLIERS = 0xD251_1F53, 0xCD9E_8D57
_KEY_STEPS = 0x9E37_79B9, 0xBB67_AE85

_INT64_SIGN = 1 << 63


def philox_block(key: int, counter: int) -> tuple[int, int]:
    """Mix a 128-bit counter under a 64-bit key into two uint64, low words first.

    >>> [hex(half) for half in philox_block(key=0, counter=0)]
    ['0xe169c58d6627e8d5', '0x9b00dbd8bc57ac4c']
    """
    first, second, third, fourth = (counter >> shift & _UINT32 for shift in (0, 32, 64, 96))
    low_key, high_key = key & _UINT32, key >> 32 & _UINT32
    for _ in range(_ROUNDS):
        left, right = first * _MULTIPLIERS[0], third * _MULTIPLIERS[1]
        first, second = right >> 32 ^ second ^ low_key, right & _UINT32
        third, fourth = left >> 32 ^ fourth ^ high_key, left & _UINT32
        low_key, high_key = (low_key + _KEY_STEPS[0]) & _UINT32, (high_key + _KEY_STEPS[1]) & _UINT32
    return first | second << 32, third | fourth << 32


class PhiloxEngine:
    """A splittable stream of uint64.

    >>> engine = PhiloxEngine(123)
    >>> engine.generate(), engine.generate()
    (9025247384375923790, 16000952678483384606)
    >>> engine
    PhiloxEngine(seed=123, drawn=2)
    """

    def __init__(self, seed: int | None = None) -> None:
        self._key: int | None = None
        self._drawn = 0
        if seed is not None:
            self.seed(seed)

    def seed(self, seed: int) -> PhiloxEngine:
        """Start over with the low 64 bits of ``seed``; returns itself.

        >>> PhiloxEngine().seed(-1).generate() == PhiloxEngine(2**64 - 1).generate()
        True
        """
        self._key = operator.index(seed) & UINT64
        self._drawn = 0
        return self

    def generate(self) -> int:
        """The next uint64."""
        # Two values a block, and the spawn key has block 0 for itself.
        block, half = divmod(self._drawn, 2)
        value = philox_block(self._seeded("generate()"), block + 1)[half]
        self._drawn += 1
        return value

    def clone(self) -> PhiloxEngine:
        """An independent stream that stands at the same position.

        >>> engine = PhiloxEngine(5)
        >>> engine.clone().generate() == engine.generate()
        True
        """
        twin = PhiloxEngine()
        twin._key, twin._drawn = self._key, self._drawn
        return twin

    def spawn(self, index: int) -> PhiloxEngine:
        """The ``index``-th stream below this one, the same however many values were drawn.

        >>> parent = PhiloxEngine(123)
        >>> parent.spawn(0).generate() == parent.spawn(1).generate()
        False
        """
        index = operator.index(index)
        key = self._seeded(f"spawn({index})")
        if index < 0:
            raise BadArgument(f"spawn({index}): Expected a non-negative index. Number the spawned streams from 0.")
        spawn_key, _ = philox_block(key, 0)
        # Neighbours share a block, which stands at the even index of the pair.
        odd = index % 2
        return PhiloxEngine(philox_block(spawn_key, index - odd)[odd])

    def _seeded(self, call: str) -> int:
        if self._key is None:
            raise BadArgument(
                f"PhiloxEngine.{call}: Please provide seed. Pass one to the constructor or to seed() first."
            )
        return self._key

    def __repr__(self) -> str:
        return f"PhiloxEngine(seed={self._key}, drawn={self._drawn})"


class SeedGenerator:
    """Draws uint64 seeds from a shared and a worker stream.

    Args:
        seed: Where both streams start from: a number from 0 to ``2**64 - 1``. ``None``: one that torch's default
            generator draws.
        _rngs: The shared and the worker stream, for ``spawn``; not beside a seed.

    >>> generator = SeedGenerator(123)
    >>> generator.generate_seed() == generator.generate_shared_seed()
    True
    >>> ours, theirs = generator.spawn(0), generator.spawn(1)
    >>> ours.generate_shared_seed() == theirs.generate_shared_seed()
    True
    >>> ours.generate_seed() == theirs.generate_seed()
    False
    """

    _shared_rng: PhiloxEngine
    _worker_rng: PhiloxEngine

    def __init__(self, seed: int | None = None, _rngs: tuple[PhiloxEngine, PhiloxEngine] | None = None) -> None:
        if _rngs is None:
            self.seed(seed)
        elif seed is None:
            self._shared_rng, self._worker_rng = _rngs
        else:
            raise BadArgument(
                f"SeedGenerator(seed={seed}, _rngs=...): the streams in `_rngs` are seeded already. Give one of both."
            )

    def seed(self, seed: int | None = None) -> None:
        """Start both streams over from ``seed``, or from a draw of torch's default generator.

        >>> generator = SeedGenerator(7)
        >>> first = generator.generate_seed()
        >>> generator.seed(7)
        >>> generator.generate_seed() == first
        True
        """
        seed = draw_default_seed() if seed is None else checked_seed(seed)
        self._shared_rng, self._worker_rng = PhiloxEngine(seed), PhiloxEngine(seed)

    def generate_shared_seed(self) -> int:
        """The next uint64 of the stream that all spawned generators have in common."""
        return self._shared_rng.generate()

    def generate_seed(self) -> int:
        """The next uint64 of the stream that belongs to this generator alone."""
        return self._worker_rng.generate()

    def spawn(self, worker_id: int, inplace: bool = False) -> SeedGenerator:
        """A generator for one worker.

        Args:
            worker_id: The worker's number, from 0.
            inplace: Whether this generator becomes the worker's, and is returned; otherwise that is a new one. The
                shared stream goes on from where it stands in either.

        >>> SeedGenerator(123).spawn(1).generate_seed()
        13444131963280986346
        """
        worker_id = operator.index(worker_id)
        if worker_id < 0:
            raise BadArgument(f"SeedGenerator.spawn({worker_id}): Expected a non-negative worker_id. Count from 0.")
        worker_rng = self._worker_rng.spawn(worker_id)
        if inplace:
            self._worker_rng = worker_rng
            return self
        return SeedGenerator(_rngs=(self._shared_rng.clone(), worker_rng))

    def __repr__(self) -> str:
        return f"SeedGenerator(_rngs=({self._shared_rng}, {self._worker_rng}))"


def checked_seed(seed: int) -> int:
    """The seed as a plain int, if it is a uint64.

    >>> checked_seed(2**64 - 1)
    18446744073709551615
    """
    try:
        seed = operator.index(seed)
    except TypeError:
        raise BadArgumentType(
            f"Expected an uint64 seed, but got {type(seed).__name__}: {seed!r}. Pass an int."
        ) from None
    if not 0 <= seed <= UINT64:
        raise BadArgument(
            f"Expected an uint64 seed, 0 <= seed < 2**64, but got {seed}. "
            "Choose one from that range, or take the low 64 bits with `seed % 2**64`."
        )
    return seed


def dist_share_seed(seed: int, process_group: ProcessGroup | None = None) -> int:
    """The seed of the group's rank 0, on all its ranks; every rank has to call. Alone, it is the rank's own seed.

    >>> dist_share_seed(2**64 - 1)
    18446744073709551615
    """
    seed = checked_seed(seed)
    if not (dist.is_available() and dist.is_initialized()):
        return seed
    if dist.get_rank(process_group) < 0:
        raise RuntimeError(
            f"dist_share_seed: rank {dist.get_rank()} is not in the process group, so no seed would arrive. "
            "Call it on the group's own ranks only."
        )
    if dist.get_world_size(process_group) == 1:
        return seed
    # Not every backend moves uint64: send the same 64 bits as int64.
    signed = seed - (1 << 64) if seed & _INT64_SIGN else seed
    message = torch.tensor(signed, dtype=torch.int64, device=_device_of(process_group))
    dist.broadcast(message, group=process_group, group_src=0)
    return int(message.item()) & UINT64


def _device_of(process_group: ProcessGroup | None) -> str:
    """A kind of device that the group can send from: the CPU, unless its backend only knows accelerators (NCCL)."""
    # The configuration reads like "cpu:gloo,cuda:nccl".
    devices = [entry.partition(":")[0] for entry in dist.get_backend_config(process_group).split(",")]
    return "cpu" if "cpu" in devices else devices[0]
