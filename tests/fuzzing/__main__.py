"""The table of damaged files: ``python -m tests.fuzzing [FORMAT ...]``."""

import sys

from tests.fuzzing.kit import main

sys.exit(main(sys.argv[1:]))
