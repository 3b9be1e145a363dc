"""The log's levels, and the form of its lines; errors and enums that PopTorch's users know."""

import logging
import os
import pickle
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path

import pytest

import reading_services.ipu as poptorch
from reading_services.ipu.names.messages import logger, setLogLevel
from tests.preloaded import Preloaded


@pytest.fixture(autouse=True)
def level() -> Iterator[None]:
    before = logger.level
    yield
    logger.setLevel(before)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        *[("TRACE", "trace debug info warning error"), (0, "trace debug info warning error")],
        *[("TRACE_ALL", "trace debug info warning error"), ("DEBUG", "debug info warning error")],
        *[(1, "debug info warning error"), ("DEBUG_IR", "debug info warning error")],
        *[("INFO", "info warning error"), (2, "info warning error"), ("WARN", "warning error"), (3, "warning error")],
        *[("ERR", "error"), (4, "error"), ("OFF", ""), (6, "")],
    ],
)
def test_levels(given: str | int, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    setLogLevel(given)
    for number in (5, logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        logger.log(number, "text")
    levels = [line.split("] [")[2].partition("]")[0] for line in capsys.readouterr().err.splitlines()]
    assert levels == shown.split()


def test_a_record_without_standard_error_is_dropped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr", None)
    logger.warning("text")
    assert capsys.readouterr() == ("", "")


def test_levels_that_are_none() -> None:
    with pytest.raises(ValueError, match="Invalid log level integer"):
        setLogLevel(5)
    with pytest.raises(
        ValueError, match=r"^Unknown log level: LOUD\. Valid values are DEBUG, ERR, INFO, OFF, TRACE and WARN$"
    ):
        setLogLevel("LOUD")


def test_the_form_of_a_line(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    logger.warning("%d rows", 3)
    (line,) = capsys.readouterr().err.splitlines()
    time, _, rest = line.partition("] ")
    assert rest == "[poptorch::python] [warning] 3 rows"
    hours, minutes, seconds = time.removeprefix("[").split(":")
    assert (len(hours), len(minutes), len(seconds)) == (2, 2, 6)
    assert caplog.record_tuples == [("poptorch::python", logging.WARNING, "3 rows")]


@pytest.mark.parametrize(("value", "said"), [(None, ["warning"]), ("INFO", ["info", "warning"])])
def test_the_level_of_the_environment(value: str | None, said: list[str], tmp_path: Path, preloaded: Preloaded) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from reading_services.ipu.names.messages import logger; logger.info('one'); logger.warning('two')"
    )
    env = {name: text for name, text in os.environ.items() if name != "POPTORCH_LOG_LEVEL"}
    if value is not None:
        env["POPTORCH_LOG_LEVEL"] = value
    ended = preloaded.ran(program, cwd=tmp_path, seconds=500, env=env)
    assert [line.split("] [")[2].partition("]")[0] for line in ended.err.splitlines()] == said


def test_errors() -> None:
    error = poptorch.Error("no")
    assert (error.type, error.message, error.location, str(error)) == (
        "poptorch_py_error",
        "no",
        "",
        "'poptorch_py_error': no",
    )
    recoverable = pickle.loads(pickle.dumps(poptorch.RecoverableError("no", "restart")))
    assert (str(recoverable), recoverable.recovery_action) == ("'poptorch_py_error': no", "restart")
    assert isinstance(recoverable, poptorch.Error)
    assert issubclass(poptorch.UnrecoverableError, poptorch.Error)
    assert poptorch.options.ConfigFileError is poptorch.ConfigFileError


@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("DataLoaderMode", {"Sync": 0, "Async": 1, "AsyncRebatched": 2}),
        ("SharingStrategy", {"SharedMemory": 0, "FileSystem": 1, "Fork": 2, "ForkServer": 3}),
        ("OutputMode", {"Final": 0, "EveryN": 1, "All": 2, "Sum": 3, "Default": 4}),
        ("ConnectionType", {"Always": 0, "OnDemand": 1, "Never": 2}),
        ("ReductionType", {"Sum": 0, "Mean": 1, "NoReduction": 2}),
        ("MeanReductionStrategy", {"Running": 0, "Post": 1, "PostAndLoss": 2}),
        ("CommGroupType", {"All": 0, "Consecutive": 1, "Orthogonal": 2, "NoGrouping": 3}),
        ("SyncPattern", {"Full": 0, "SinglePipeline": 1, "ReplicaAndLadder": 2}),
        ("VariableRetrievalMode", {"OnePerGroup": 0, "AllReplicas": 2}),
    ],
)
def test_enums(name: str, members: dict[str, int]) -> None:
    enum = getattr(poptorch, name)
    assert enum is getattr(poptorch.enums, name)
    assert issubclass(enum, IntEnum)
    assert {member.name: member.value for member in enum} == members


def test_there_is_no_hardware() -> None:
    assert (poptorch.ipuHardwareIsAvailable(), poptorch.ipuHardwareVersion()) == (False, 0)


def test_the_ipu_side_is_imported_when_it_is_asked_for(tmp_path: Path, preloaded: Preloaded) -> None:
    program = tmp_path / "program.py"
    program.write_text("import sys, reading_services, loader2; sys.exit('reading_services.ipu' in sys.modules)")
    assert preloaded.ran(program, cwd=tmp_path, seconds=500).code == 0
