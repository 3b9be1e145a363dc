"""The table of all faults: ``python -m tests.faults [CASE or METHOD ...]``."""

import sys

from tests.faults.table import main

sys.exit(main(sys.argv[1:]))
