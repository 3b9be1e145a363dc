"""``python -m reading_services.ipu.poprun`` is the command ``poprun``."""

import sys

from reading_services.ipu.poprun.launcher import main

sys.exit(main())
