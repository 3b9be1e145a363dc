"""The caches of these tests are in memory: each of their many files is forced to the disk, which takes a disk long."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.specimens.specimen import in_memory


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="caches-", dir=in_memory()) as folder:
        yield Path(folder)
