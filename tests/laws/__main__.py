"""The table of all laws: ``python -m tests.laws [OPERATOR ...]``."""

import sys

from tests.laws.table import main

sys.exit(main(sys.argv[1:]))
