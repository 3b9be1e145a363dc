"""Options from files, from JSON and from the environment."""

from pathlib import Path

import pytest

import reading_services.ipu as poptorch
from reading_services.ipu import ConfigFileError, Options, OutputMode

GOOD = """
# a comment
deviceIterations(4)
   replicationFactor(2)  # blanks around, and a comment behind

Training.gradientAccumulation(3)
outputMode(poptorch.OutputMode.EveryN, output_return_period=2)
setExecutionStrategy(poptorch.ShardedExecution(poptorch.Stage("B1").ipu(1)))
_Popart.set("defaultPrefetchBufferingDepth", 3)
setAvailableMemoryProportion({"IPU0": 0.5})
TensorLocations.setWeightLocation(poptorch.TensorLocationSettings().useOnChipStorage(True))
logDir("a#b").modelName('m')
anchorTensor("short", "long")
updatableNamedBuffers(["a", "b"])
"""


def file(tmp_path: Path, text: str, name: str = "options.cfg") -> str:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_file_of_calls(tmp_path: Path) -> None:
    options = Options()
    assert options.loadFromFile(file(tmp_path, GOOD)) is options
    expected = Options().deviceIterations(4).replicationFactor(2).outputMode(OutputMode.EveryN, 2)
    expected.Training.gradientAccumulation(3)
    expected.setExecutionStrategy(poptorch.ShardedExecution(poptorch.Stage("B1").ipu(1)))
    expected._Popart.set("defaultPrefetchBufferingDepth", 3)
    expected.setAvailableMemoryProportion({"IPU0": 0.5})
    expected.TensorLocations.setWeightLocation(poptorch.TensorLocationSettings().useOnChipStorage(True))
    expected.logDir("a#b").modelName("m").updatableNamedBuffers(["a", "b"]).anchorTensor("short", "long")
    assert repr(options) == repr(expected)


def test_a_file_for_options_of_a_class_of_ones_own(tmp_path: Path) -> None:
    class Mine(Options):
        def both(self, number: int) -> "Mine":
            return self.deviceIterations(number).replicationFactor(number)

    options = Mine().loadFromFile(file(tmp_path, "both(3)\noutputMode(poptorch.enums.OutputMode.All)"))
    assert (options.device_iterations, options.replication_factor, options.output_mode) == (3, 3, 2)


def test_a_later_file_changes_what_it_names(tmp_path: Path) -> None:
    options = Options().loadFromFile(file(tmp_path, "deviceIterations(4)\nlogDir('x')", "first"))
    options.loadFromFile(file(tmp_path, "deviceIterations(5)", "second"))
    assert (options.device_iterations, options.log_dir) == (5, "x")


@pytest.mark.parametrize(
    ("text", "number", "line"),
    [
        ("deviceIterations(", 1, "deviceIterations("),
        ("# skipped\n\ndeviceIterations(2)\n\n  deviceIterations 3  ", 2, "deviceIterations 3"),
        ("deviceIterations(2))", 1, "deviceIterations(2))"),
    ],
)
def test_a_line_that_cannot_be_read(tmp_path: Path, text: str, number: int, line: str) -> None:
    options = Options()
    with pytest.raises(ConfigFileError) as raised:
        options.loadFromFile(file(tmp_path, text))
    first, second = str(raised.value).split("\n")
    assert first.startswith(f"SyntaxError at line {number} of options.cfg: ")
    assert second == f"> options.{line}"
    assert options.device_iterations == 1  # nothing is applied


@pytest.mark.parametrize(
    ("line", "kind", "said"),
    [
        ("nope(1)", AttributeError, r"Invalid attribute nope\."),
        ("Training.nope(1)", AttributeError, r"Invalid attribute nope\."),
        ("deviceIterations('3')", AssertionError, "Unexpected type"),
        ("deviceIterations()", TypeError, "device_iterations"),
        ("deviceIterations(n)", NameError, "'n' is not defined"),
        ("outputMode(poptorch.OutputMode.Nope)", AttributeError, "Nope"),
        ("outputMode(torch.OutputMode.All)", NameError, "torch"),
    ],
)
def test_other_errors_are_those_of_the_call(tmp_path: Path, line: str, kind: type[Exception], said: str) -> None:
    options = Options()
    with pytest.raises(kind, match=said) as raised:
        options.loadFromFile(file(tmp_path, f"deviceIterations(2)\n{line}"))
    assert raised.value.__notes__ == [f"(in options.cfg: options.{line})"]
    assert options.device_iterations == 2  # the lines before were called


@pytest.mark.parametrize(
    "line",
    [
        "deviceIterations([open('told', 'w') for _ in (1,)])",
        "deviceIterations((lambda: open('told', 'w'))())",
        "deviceIterations(2 if open('told', 'w') else 3)",
        "logDir(f'{open}')",
        "deviceIterations(2); open('told', 'w')",
        "deviceIterations(open('told', 'w'))",
        "__class__.__init__.__globals__['os'].system('touch told')",
        "logDir(poptorch.options.execution.os.system('touch told'))",
        "logDir(poptorch.__builtins__)",
        "logDir('{0.__class__}'.format(options))",
        "_values.update()",
        "set(**{'device_iterations': 2})",
        "setAvailableMemoryProportion({**{}})",
        "logDir(poptorch.trainingModel)",
        "log_dir.format(1)",
        "loadFromFile.__func__.__globals__.clear()",
    ],
)
def test_a_file_reaches_nothing_but_options(tmp_path: Path, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = Options()
    with pytest.raises((ConfigFileError, AttributeError, NameError)):
        options.loadFromFile(file(tmp_path, line))
    assert not Path("told").exists()
    assert repr(options) == repr(Options())


def test_options_from_json() -> None:
    options = Options()
    text = """{"deviceIterations": 4, "Training.gradientAccumulation": 3, "_Popart.set": ["depth", 2],
        "outputMode": ["OutputMode.EveryN", 2], "logDir": "OutputModes.All",
        "setAvailableMemoryProportion": {"IPU1": 1}}
    """
    assert options.from_json(text) is options
    expected = Options().deviceIterations(4).outputMode(OutputMode.EveryN, 2).logDir("OutputModes.All")
    expected.setAvailableMemoryProportion({"IPU1": 1})
    expected.Training.gradientAccumulation(3)
    expected._Popart.set("depth", 2)
    assert repr(options) == repr(expected)
    for wrong in ('{"nope": 1}', '{"Training.nope": 1}', '{"clone.__func__.__globals__.clear": []}'):
        with pytest.raises(AttributeError, match="Invalid attribute"):
            options.from_json(wrong)


def test_options_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POPTORCH_DEFAULT_OPTIONS", '{"deviceIterations": 4, "logDir": "x"}')
    monkeypatch.setenv("POPTORCH_CACHE_DIR", "cache")
    options = Options()
    assert (options.device_iterations, options.log_dir) == (4, "x")
    assert options._Popart.options["cachePath"] == "cache"
    assert options._Popart.options["enableEngineCaching"] is True
    monkeypatch.setenv("POPTORCH_CACHE_DIR", "")
    assert "cachePath" not in Options()._Popart.options
    monkeypatch.setenv("POPTORCH_DEFAULT_OPTIONS", "{'deviceIterations': 4}")
    with pytest.raises(ValueError, match="property name") as raised:
        Options()
    assert raised.value.__notes__ == ["(from the environment variable POPTORCH_DEFAULT_OPTIONS)"]


def test_the_process_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "3")
    distributed = Options().Distributed
    assert (distributed.numProcesses, distributed.processId) == (4, 3)
    monkeypatch.setenv("MINE", "7")
    distributed.setEnvVarNames("MINE", "NOT_SET")
    assert (distributed.numProcesses, distributed.processId) == (7, 0)
    assert Options().Distributed.disable().numProcesses == 1
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "four")
    with pytest.raises(ValueError, match="'four'") as raised:
        Options()
    assert raised.value.__notes__ == ["(from the environment variable OMPI_COMM_WORLD_SIZE)"]
