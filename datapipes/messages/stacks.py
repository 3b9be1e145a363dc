"""The stack of a thread as text."""

from __future__ import annotations

import sys
import threading
import traceback
from itertools import dropwhile


def stack_of(thread: threading.Thread) -> str:
    """Return the stack of a thread, the newest call last, without the calls of ``threading`` that started it."""
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is None:
        return "(it has ended)"
    calls = dropwhile(lambda call: call.filename == threading.__file__, traceback.extract_stack(frame))
    return "".join(traceback.format_list(list(calls)))
