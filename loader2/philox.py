"""One stream of 64-bit numbers that can be split: Philox4x32 with 10 rounds.

Philox is a keyed mixing of a counter, so a stream is two numbers: its seed (the key) and how many values have been
drawn from it. The n-th value is a pure function of both; nothing else is kept, copied or pickled.

Counter 0 is never drawn from. The first half of its block is the *spawn key*, a second key under which the seeds of
spawned streams are mixed; so the streams that a stream spawns depend on its seed alone, not on what was drawn.
"""

from __future__ import annotations

import operator

from datapipes.errors import BadArgument

UINT64 = 0xFFFF_FFFF_FFFF_FFFF
_UINT32 = 0xFFFF_FFFF
_ROUNDS = 10
_MULTIPLIERS = 0xD251_1F53, 0xCD9E_8D57
_KEY_STEPS = 0x9E37_79B9, 0xBB67_AE85


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
