"""The child's side: runs a named case when asked, one line of JSON in and one out, until its input ends.

    python -m benchmarks.peers.serve benchmarks.peers.old_torchdata

Says hello with the versions it runs on. A request is `{"do": "seconds" | "check" | "what_came", "case": ...,
"arguments": [...], "in_order": ...}`; an answer is `{"value": ...}` or `{"error": ...}`. Nothing but answers reaches
the parent: what libraries print goes to the error stream.
"""

import json
import os
import platform
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.metadata import version
from typing import Any

from benchmarks.stopwatch import exhaust, seconds_of, span_of
from benchmarks.workers import what_came
from benchmarks.workload import fingerprint


def main() -> None:
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def answer(message: dict[str, Any]) -> None:
        print(json.dumps(message), file=answers, flush=True)

    try:
        cases: dict[str, Callable[..., Iterable[object]]] = import_module(sys.argv[1]).CASES
    except ImportError as error:
        answer({"error": f"its environment is not complete: {error}"})
        return
    answer({"value": f"Python {platform.python_version()}, torch {version('torch')}, torchdata {version('torchdata')}"})
    for line in sys.stdin:
        try:
            answer({"value": answered(json.loads(line), cases)})
        except Exception as error:  # the parent decides what a failing case means
            answer({"error": f"{type(error).__name__}: {error}"})


def answered(
    request: dict[str, Any], cases: dict[str, Callable[..., Iterable[object]]]
) -> float | str | tuple[float, float]:
    def build() -> Iterable[object]:
        return cases[request["case"]](*request["arguments"])

    if request["do"] == "what_came":
        return what_came(build())
    if request["do"] == "check":
        return fingerprint(build(), request["in_order"])
    if request["do"] == "span":
        return span_of(build, exhaust)
    return seconds_of(build, exhaust)


if __name__ == "__main__":
    main()
