"""SeedGenerator: seeds that all ranks and workers share, and seeds of their own.

Services and ``worker_reset_fn`` get a generator. The library itself draws nothing from one, because its seeds are
hashes (``datapipes.position.seeds``). A ``SeedGenerator`` has two streams that start from one seed. A generator spawned
for a worker copies the *shared* stream, so all workers draw the same shared seeds. Its *worker* stream depends on the
worker's number and the generator's seed, but not on how many seeds were drawn before.

The streams are Philox4x32 with 10 rounds, a keyed mixing of a counter. A stream is its seed (the key) and the number of
values drawn. The n-th value is a pure function of both. Counter 0 is never drawn from. The first half of its block is
the *spawn key*, under which the seeds of spawned streams are mixed. They depend on the stream's seed alone.
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
        """Start again with the low 64 bits of ``seed``. Return this engine.

        >>> PhiloxEngine().seed(-1).generate() == PhiloxEngine(2**64 - 1).generate()
        True
        """
        self._key = operator.index(seed) & UINT64
        self._drawn = 0
        return self

    def generate(self) -> int:
        """Return the next uint64."""
        # A block has two values, and block 0 belongs to the spawn key.
        block, half = divmod(self._drawn, 2)
        value = philox_block(self._seeded("generate()"), block + 1)[half]
        self._drawn += 1
        return value

    def clone(self) -> PhiloxEngine:
        """Return an independent stream at the same position.

        >>> engine = PhiloxEngine(5)
        >>> engine.clone().generate() == engine.generate()
        True
        """
        twin = PhiloxEngine()
        twin._key, twin._drawn = self._key, self._drawn
        return twin

    def spawn(self, index: int) -> PhiloxEngine:
        """Return the ``index``-th stream below this one. It does not depend on the number of values drawn.

        >>> parent = PhiloxEngine(123)
        >>> parent.spawn(0).generate() == parent.spawn(1).generate()
        False
        """
        index = operator.index(index)
        key = self._seeded(f"spawn({index})")
        if index < 0:
            raise BadArgument(f"spawn({index}): Expected a non-negative index. Number the spawned streams from 0.")
        spawn_key, _ = philox_block(key, 0)
        # Two neighbours share a block, whose counter is the even index.
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
    """A generator of uint64 seeds, with a shared stream and a worker's own stream.

    Args:
        seed: The seed of both streams, from 0 to ``2**64 - 1``. ``None``: torch's default generator draws one.
        _rngs: The shared and the worker stream, for ``spawn``. It excludes ``seed``.

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
                f"SeedGenerator(seed={seed}, _rngs=...): the streams in `_rngs` are seeded already. Pass one of both."
            )

    def seed(self, seed: int | None = None) -> None:
        """Start both streams again from ``seed``, or from a draw of torch's default generator.

        >>> generator = SeedGenerator(7)
        >>> first = generator.generate_seed()
        >>> generator.seed(7)
        >>> generator.generate_seed() == first
        True
        """
        seed = draw_default_seed() if seed is None else checked_seed(seed)
        self._shared_rng, self._worker_rng = PhiloxEngine(seed), PhiloxEngine(seed)

    def generate_shared_seed(self) -> int:
        """Return the next uint64 of the stream that all spawned generators share."""
        return self._shared_rng.generate()

    def generate_seed(self) -> int:
        """Return the next uint64 of this generator's own stream."""
        return self._worker_rng.generate()

    def spawn(self, worker_id: int, inplace: bool = False) -> SeedGenerator:
        """Return a generator for one worker. Its shared stream continues at the position of this one's.

        Args:
            worker_id: The worker's number, from 0 on.
            inplace: Whether this generator becomes the worker's and is returned. ``False``: a new one is returned.

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
    """Return a seed as a plain int. Raise BadArgument or BadArgumentType if it is no uint64.

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
    """Return the seed of the group's rank 0. All its ranks have to call this. Without a group, return ``seed``.

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
    """Return a device that the group can send from: the CPU, unless its backend knows only accelerators (NCCL)."""
    # The configuration has the form "cpu:gloo,cuda:nccl".
    devices = [entry.partition(":")[0] for entry in dist.get_backend_config(process_group).split(",")]
    return "cpu" if "cpu" in devices else devices[0]
