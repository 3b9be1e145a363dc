"""What has to hold on a cluster: ``python -m tests.reading_services.cluster [name ...]``, ``make cluster`` for all.

One cluster of two nodes and a head serves all cases but those that need one of their own. Each case is a function; its
name is printed with how long it took, and the error if it failed. The program ends with what is left of it: nothing.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from time import monotonic, perf_counter

from tests.reading_services.cluster import cases
from tests.reading_services.cluster.nodes import listening, members, nodes


def main(names: list[str]) -> int:
    """Run the named cases, or all."""
    chosen = {name: case for name, case in cases.ALL.items() if not names or name in names}
    if unknown := set(names) - set(chosen):
        raise SystemExit(f"no such case: {', '.join(sorted(unknown))}; there are {', '.join(cases.ALL)}")
    failed = []
    with nodes(2) as cluster:
        for name, case in chosen.items():
            started = perf_counter()
            try:
                case(cluster)
                until = monotonic() + 120
                while (left := members()) and monotonic() < until:
                    threading.Event().wait(0.05)  # processes of others, whose end tells this one nothing
                if left:
                    raise AssertionError(f"processes are left: {left}")
            except Exception as error:
                failed.append(name)
                traceback.print_exception(error, file=sys.stdout)
            print(f"{'FAILED' if name in failed else 'ok':<7}{name:<40}{perf_counter() - started:6.1f} s", flush=True)
    if ports := listening():
        failed.append("ports")
        print(f"FAILED ports that this process still listens at: {ports}")
    return bool(failed)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # Ray's threads have said what they had to say
