"""All formats that the fuzzing kit tries: a room adds the list of its own."""

from __future__ import annotations

from tests.fuzzing.archives import ARCHIVES
from tests.fuzzing.format import Format
from tests.fuzzing.records import RECORD_FORMATS

FORMATS: list[Format] = [*ARCHIVES, *RECORD_FORMATS]
