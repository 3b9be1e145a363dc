"""A verdict: slow and quick loaders are told apart, the right stage is named, and the arithmetic is shown."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from datapipes.errors import BadArgument, BadArgumentType, GraphError
from datapipes.iter import IterableWrapper
from datapipes.map import SequenceWrapper
from loader2 import DataLoader2
from reading_services import InProcessReadingService, MultiProcessingReadingService
from reading_services.ipu import Options
from reading_services.ipu.__main__ import main
from reading_services.ipu.simulator.cost import CostModel, Mode, Work
from reading_services.ipu.simulator.verdict.bottleneck import FREE, Rate, Verdict
from reading_services.ipu.simulator.verdict.judging import counted, measured, runs_ahead, verdict, workers_of
from reading_services.stage_times import stage_times

ROOT = Path(__file__).resolve().parents[5]
QUICK_DEVICE, SLOW_DEVICE = CostModel(seconds_per_item=1e-9, call=0.0), CostModel(seconds_per_item=0.1)


def judged(load: float, longest: float, work: Work, mode: Mode, model: CostModel, workers: int = 0) -> Verdict:
    rate = Rate(steps=10, items=10 * work.items, seconds=10 * load, longest=longest)
    synthetic = model.step(replace(work, synthetic=True))
    return Verdict(rate, workers, mode, work, model.step(work, load, mode), synthetic)


MODEL = CostModel(seconds_per_item=0.001, host_bandwidth=1e9)
WORKS = st.builds(Work, micro_batch=st.integers(1, 100), replicas=st.integers(1, 4), bytes_in=st.integers(0, 10**9))


@given(st.floats(1e-6, 10), WORKS, st.sampled_from(["async", "sync"]), st.integers(0, 64))
@settings(deadline=None)
def test_exactly_one_is_to_blame(load: float, work: Work, mode: Mode, workers: int) -> None:
    found = judged(load, load, work, mode, MODEL, workers)
    step, wait = found.real.step, found.real.wait
    assert found.waits == (wait > FREE * (step + wait))
    assert found.slow == (found.bottleneck == "loader") == (load - step > FREE * load)
    assert found.slow <= found.waits
    if mode == "async":
        assert found.slow == found.waits, "a stage that runs ahead delays others only if it is slow"
    assert found.synthetic_rate >= found.device_rate * (1 - 1e-9)
    assert found.advice
    text = str(found)
    assert ("The loader is the bottleneck" in text) == found.slow
    assert ("The loader is not the bottleneck" in text) == (not found.slow)
    assert ("does not run ahead" in text) == (found.waits and not found.slow)
    assert text.index("Measured on this computer") < text.index("Modelled, not measured")
    plain = found.as_dict()
    assert json.loads(json.dumps(plain)) == plain


def test_figures_are_shown_with_how_they_came_about() -> None:
    found = judged(0.2, 0.25, Work(micro_batch=100, bytes_in=50_000_000), "async", MODEL)
    lines = [line.strip() for line in str(found).splitlines()]
    assert lines[0] == "The loader is the bottleneck: the device waits for it 25% of the time."
    assert "synthetic   100 items / 100.00 ms of compute = 1,000 items/s" in lines
    assert "real        100 items / (100.00 ms compute + 50.00 ms transfer + 0.05 ms sync) = 666 items/s" in lines
    assert any(line.startswith("host wait   max(0, 200.00 ms - 150.05 ms) = 49.95 ms, 25% of a step") for line in lines)
    assert "loader / device on synthetic data: 0.50" in lines


@pytest.mark.parametrize(
    ("found", "bottleneck", "advised"),
    [
        (judged(0.01, 0.01, Work(micro_batch=100), "async", MODEL), "compute", "more replicas"),
        (judged(0.01, 0.01, Work(micro_batch=9, bytes_in=10**8, replicas=2), "async", MODEL), "transfer", "instances"),
        (judged(0.01, 0.01, Work(micro_batch=9, bytes_in=10**8), "async", MODEL), "transfer", "send less"),
        (judged(0.09, 0.09, Work(micro_batch=100), "sync", MODEL), "compute", "that hides 90.00 of the 90.00 ms"),
        (judged(0.2, 0.2, Work(micro_batch=100), "sync", MODEL), "loader", "that hides 100.05 of the 200.00 ms"),
        (judged(0.2, 0.2, Work(micro_batch=100), "async", MODEL), "loader", "num_workers=|more workers than"),
        (judged(9.0, 9.0, Work(micro_batch=100), "async", MODEL, workers=999), "loader", "more workers than CPUs"),
        (judged(0.05, 0.35, Work(micro_batch=100), "async", MODEL), "compute", "buffer_size=5"),
        (judged(1e-5, 1e-5, Work(micro_batch=1), "async", replace(MODEL, call=1e-3)), "compute", "device iterations"),
    ],
)
def test_what_to_change_fits_the_bottleneck(found: Verdict, bottleneck: str, advised: str) -> None:
    assert found.bottleneck == bottleneck
    assert any(word in " ".join(found.advice) for word in advised.split("|"))


def test_a_quick_loader_and_a_slow_one() -> None:
    steps = [torch.zeros(50, 10), torch.zeros(50, 10)]
    assert verdict(steps, cost=SLOW_DEVICE, seconds=0.05).bottleneck == "compute"
    assert verdict(steps, cost=QUICK_DEVICE, seconds=0.05).bottleneck == "loader"


def busy(number: int) -> torch.Tensor:
    Event().wait(0.005)  # so long that the others are quick beside it, however busy the processors are
    return torch.tensor([float(number)])


def test_the_slowest_stage_of_a_graph_is_named() -> None:
    graph = IterableWrapper(range(20)).shuffle().map(busy).batch(10).collate()
    found = verdict(DataLoader2(graph), cost=QUICK_DEVICE, seconds=0.1, stages=True)
    assert found.bottleneck == "loader"
    assert found.slowest is not None
    assert found.slowest.stage.startswith(".map(<busy")
    assert found.advice[0].startswith("make .map(<busy")
    assert "<- the slowest" in next(line for line in str(found).splitlines() if ".map(<busy" in line)
    assert verdict(DataLoader2(graph), cost=QUICK_DEVICE, seconds=0.1, stages=False).slowest is None


def test_stages_are_left_out_where_it_would_take_too_long_or_is_not_a_chain() -> None:
    numbers = IterableWrapper(range(20)).map(busy)
    with pytest.raises(BadArgument, match=r"budget=0\.01\): an epoch did not end in that time.*\.header\(n\)"):
        stage_times(numbers, budget=0.01)
    for branched in (numbers.zip(numbers), numbers.fork(2)[0]):
        with pytest.raises(GraphError, match="this graph branches"):
            stage_times(branched, budget=10)
    steps = numbers.zip(numbers).batch(10).collate()
    assert verdict(DataLoader2(steps), cost=QUICK_DEVICE, seconds=0.05).slowest is None


def test_stages_of_a_collection_count_for_who_reads_it() -> None:
    found = stage_times(SequenceWrapper(range(20)).map(busy).to_iter_datapipe().batch(2), budget=30)
    assert len(found) == 2
    assert found[0].seconds >= 20 * 0.004, "the map is in front of the first stage that can be iterated"
    assert all(each.seconds >= 0 for each in found)


def test_options_of_the_loader_decide_the_shape_of_a_step() -> None:
    options = Options().deviceIterations(5).replicationFactor(2)
    options.Training.gradientAccumulation(3)
    steps = [(torch.zeros(60, 4), torch.zeros(60, dtype=torch.int64))] * 2
    work = verdict(steps, options=options, seconds=0.02).work
    assert (work.device_iterations, work.gradient_accumulation, work.replicas, work.micro_batch) == (5, 3, 2, 2)
    assert (work.items, work.bytes_in) == (60, 60 * 4 * 4 + 60 * 4)


def test_whether_a_loader_runs_ahead() -> None:
    graph, data = IterableWrapper(range(4)), TensorDataset(torch.zeros(4))
    assert not runs_ahead(DataLoader2(graph))
    assert not runs_ahead(DataLoader(data))
    assert not runs_ahead([1])
    assert runs_ahead(DataLoader2(graph.prefetch(2)))
    assert runs_ahead(DataLoader2(graph, reading_service=InProcessReadingService(prefetch_cnt=2)))
    assert runs_ahead(DataLoader(data, num_workers=2))
    in_workers = DataLoader2(graph.sharding_filter(), reading_service=MultiProcessingReadingService(2))
    assert (runs_ahead(in_workers), workers_of(in_workers)) == (True, 2)
    in_workers.shutdown()


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(10, 4)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out = self.layer(x)
        return out, nn.functional.cross_entropy(out, y)


def test_a_model_is_counted_and_left_alone() -> None:
    model = Classifier()
    step = (torch.randn(40, 10), torch.zeros(40, dtype=torch.int64))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    work = counted(model, step, Work(micro_batch=8, device_iterations=5, replicas=2))
    assert work.flops == 2 * (2 * 8 * 10 * 4), "forward, and the gradient of the weights"
    assert work.bytes_out == 2 * (8 * 4 * 4 + 4)
    model.eval()
    work = counted(model, step, Work(micro_batch=8, device_iterations=5, replicas=2))
    assert (work.flops, work.training, work.bytes_out) == (2 * 8 * 10 * 4, False, 10 * (8 * 4 * 4 + 4))
    assert all(value.equal(before[name]) for name, value in model.state_dict().items())
    assert all(each.grad is None for each in model.parameters())


def test_a_rate_leaves_out_what_was_ready_and_the_start() -> None:
    given: list[float] = []

    def steps() -> Iterator[torch.Tensor]:
        for _ in range(200):
            busy(0)
            given.append(0)
            yield torch.zeros(3)

    rate = measured(steps(), 0.1)
    assert 0 < rate.steps < len(given) < 200
    assert rate.items == 3 * rate.steps
    assert rate.load >= 0.004
    assert rate.longest >= rate.load


@pytest.mark.parametrize(
    ("loader", "error", "said"),
    [([], BadArgument, "gives no step"), (3, BadArgumentType, "3 is not a loader"), (iter([1]), BadArgument, "again")],
)
def test_what_cannot_be_measured_is_said(loader: object, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        verdict(loader, seconds=0.01)  # type: ignore[arg-type]  # that is what is tested


SCRIPT = """
import torch
from torch import nn

loader = [torch.zeros(80, 10)] * 3

def slow():
    def steps():
        while True:
            yield torch.stack([torch.zeros(10) for _ in range(80)])
    return steps()

class Model(nn.Module):
    def forward(self, x):
        return x @ torch.zeros(10, 3)

if __name__ == "__main__":
    raise SystemExit("a program, not to be run")
"""


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "script_of_mine.py").write_text(SCRIPT)
    line = [sys.executable, "-W", "error", "-m", "reading_services.ipu", *arguments]
    env = {"PYTHONPATH": str(ROOT), "PATH": ""}
    return subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True, timeout=500)


def test_the_command_answers(tmp_path: Path) -> None:
    quick = command(
        tmp_path, "verdict", "script_of_mine.py:loader", "--seconds-per-item=0.1", "--seconds=0.05", "--check"
    )
    assert (quick.returncode, quick.stderr) == (0, "")
    assert quick.stdout.startswith("The loader is not the bottleneck")
    asked = [
        "verdict",
        "script_of_mine:slow",
        "--seconds-per-item=1e-9",
        "--seconds=0.05",
        "--check",
        "--picture=a.svg",
    ]
    slow = command(tmp_path, *asked)
    assert (slow.returncode, slow.stderr) == (1, "")
    assert slow.stdout.startswith("The loader is the bottleneck")
    assert slow.stdout.endswith("A picture of some steps: a.svg\n")
    assert (tmp_path / "a.svg").read_text().startswith("<svg")


def test_the_command_counts_a_model_and_gives_plain_data(tmp_path: Path) -> None:
    found = command(tmp_path, "verdict", "script_of_mine.py:loader", "--model=Model", "--seconds=0.05", "--json")
    assert found.stderr == ""
    assert json.loads(found.stdout)["modelled"]["step"]["compute"] == pytest.approx(1e-6), "the least"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["verdict", "script_of_mine.py"], "it is SCRIPT:loader"),
        (["verdict", "script_of_mine.py:nothing"], "has no 'nothing'; it has loader, slow, Model"),
        (["verdict", "another.py:loader"], "there is no file another.py"),
        (["verdict", "another:loader"], "No module named 'another'"),
        (["verdict", "script_of_mine.py:loader", "--seconds=0.05", "--picture=a.gif"], "with .svg"),
    ],
)
def test_the_command_says_what_it_cannot_do(
    tmp_path: Path,
    arguments: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "script_of_mine.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert said in capsys.readouterr().err
