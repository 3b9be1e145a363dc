"""The plugin for pytest: one test for each law, and no import in a run without laws."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from loader2.testing import LAWS, PLACED

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[3]


def test_a_test_runs_once_for_each_law(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from datapipes.iter import IterableWrapper, IterDataPipe
        from reading_services import InProcessReadingService


        class Late(IterDataPipe):
            def __init__(self, source_datapipe):
                self.source_datapipe, self.total = source_datapipe, 0

            def __iter__(self):
                for number in self.source_datapipe:
                    yield self.total + number
                    self.total += number

            def state_dict(self):
                return {"total": self.total}

            def load_state_dict(self, state):
                self.total = state["total"]


        def test_pipe(pipe_law):
            pipe_law(lambda: Late(IterableWrapper(range(9))))


        def test_service(service_law):
            service_law(InProcessReadingService)
        """
    )
    result = pytester.runpytest_inprocess("-p", "loader2_pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-rA")
    result.assert_outcomes(passed=len(LAWS) - 1 + len(PLACED), failed=1)
    result.stdout.fnmatch_lines(
        [
            "*Late(*) breaks the law 'resume'*",
            "*graph: Late(IterableWrapper(range(0, 3))) (the shortest that shows it)",
            "*where: epoch 0, after 2 elements: *",
            "*expected: [[]3[]]",
            "*came: [[]2[]]",
            "*what to do: *",
            "PASSED *::test_pipe[[]same seed[]]",
            "PASSED *::test_service[[]errors[]]",
        ],
    )
    assert "_tried" not in str(result.stdout), "the kit's own lines are in the traceback"


def test_it_is_registered_and_imports_nothing_that_takes_time() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"loader2_pytest": "loader2_pytest"}
    program = "import sys, loader2_pytest; print({'torch', 'loader2'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"
