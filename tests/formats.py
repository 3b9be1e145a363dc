"""All formats that the fuzzing kit tries: a room adds the list of its own."""

from __future__ import annotations

from tests.formats_of_archives import ARCHIVES
from tests.formats_of_records import RECORD_FORMATS
from tests.fuzz_format import Format

FORMATS: list[Format] = [*ARCHIVES, *RECORD_FORMATS]
