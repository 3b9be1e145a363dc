"""Running hash of data: computed piece by piece, and compared with the expected one in constant time."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any

from datapipes.errors import HashMismatch
from datapipes.messages.short import shortened

HASH_TYPES = ("sha256", "md5")


class Hashed:
    """Running hash of named data, and the expected one."""

    def __init__(self, name: str, hash_dict: Mapping[str, str], hash_type: str) -> None:
        if name not in hash_dict:
            raise HashMismatch(f"Unspecified hash for file {shortened(name)}: hash_dict has no entry for it")
        self._name = name
        self._expected = hash_dict[name]
        self._hash = hashlib.new(hash_type, usedforsecurity=False)  # files are told apart, nobody is authenticated

    def update(self, piece: Any) -> None:
        """Take in some more."""
        self._hash.update(piece.encode() if isinstance(piece, str) else piece)

    def must_match(self) -> None:
        """Raise unless all that was seen has the expected hash."""
        found = self._hash.hexdigest()
        if not hmac.compare_digest(found.encode(), self._expected.lower().encode()):
            raise HashMismatch(
                f"The computed hash {found} of {shortened(self._name)} does not match the expected one, "
                f"{self._expected}: the data is damaged or was replaced"
            )
