"""poprun: instances started, their environment, their output and their ends."""

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from reading_services.ipu.poprun.arguments import LaunchPlan, parse
from reading_services.ipu.poprun.launcher import main, topology

Run = Callable[..., tuple[int, list[str], list[str]]]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Run the command; its status and the lines of both of its outputs."""

    def run(*words: str, grace: float = 30) -> tuple[int, list[str], list[str]]:
        status = main(words, grace)
        said = capfd.readouterr()
        return status, said.out.splitlines(), said.err.splitlines()

    return run


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "program.py"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_any_program_is_run_and_its_lines_get_a_prefix(run: Run) -> None:
    assert run("echo", "Hello World") == (0, ["[1,0]<stdout>:Hello World"], [])


def test_what_follows_the_program_is_the_programs(run: Run) -> None:
    status, out, err = run("--num-instances=1", "--num-replicas", "2", "echo", "--num-instances", "4", "-v", "--help")
    assert (status, out, err) == (0, ["[1,0]<stdout>:--num-instances 4 -v --help"], [])


def test_streams_are_kept_apart_and_last_lines_are_ended(run: Run) -> None:
    status, out, err = run("--num-instances", "2", "--num-replicas", "2", "printf", r"a\n\nb")
    assert sorted(out) == sorted(f"[1,{i}]<stdout>:{line}" for i in range(2) for line in ("a", "", "b"))
    status, out, err = run("sh", "-c", "printf unended >&2; echo out")
    assert (status, out, err) == (0, ["[1,0]<stdout>:out"], ["[1,0]<stderr>:unended"])


LINES = """
import os, sys
me = os.environ["POPDIST_LOCAL_INSTANCE_INDEX"]
text = "".join(f"{me} {number} {'x' * (number % 97)}\\n" for number in range(20_000)).encode()
for start in range(0, len(text), 4093):  # pieces that end anywhere
    os.write(1, text[start : start + 4093])
"""


def test_lines_stay_whole_and_in_order(run: Run, tmp_path: Path) -> None:
    program = script(tmp_path, LINES)
    status, out, _ = run("--num-instances", "3", "--num-replicas", "3", sys.executable, "-S", program)
    assert status == 0
    for me in range(3):
        mine = [line for line in out if line.startswith(f"[1,{me}]<stdout>:")]
        assert mine == [f"[1,{me}]<stdout>:{me} {number} {'x' * (number % 97)}" for number in range(20_000)]
    assert len(out) == 60_000


TOLD = """
import json, os
told = ("POPDIST", "POPTORCH", "OMPI", "PYTHONUNBUFFERED")
print(json.dumps({k: v for k, v in os.environ.items() if k.startswith(told) or k in ("A", "B")}))
"""


def test_variables(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "99")
    monkeypatch.setenv("B", "kept")
    words = ["--num-replicas", "8", "--num-instances", "4", "--ipus-per-replica", "2", "--executable-cache-path", "c"]
    words += ["--mpi-local-args", "-x A=b -x B --tag", "--mpi-global-args=--mca x y", "--offline-mode", "yes"]
    status, out, err = run(*words, sys.executable, "-S", script(tmp_path, TOLD))
    assert (status, err) == (0, [])
    for index, line in enumerate(sorted(out)):
        told = json.loads(line.removeprefix(f"[1,{index}]<stdout>:"))
        assert re.fullmatch(r"file:///proc/\d+/fd/\d+", told.pop("POPDIST_RENDEZVOUS"))
        assert told == {
            "A": "b",
            "B": "kept",
            "POPDIST_NUM_TOTAL_REPLICAS": "8",
            "POPDIST_NUM_LOCAL_REPLICAS": "2",
            "POPDIST_NUM_IPUS_PER_REPLICA": "2",
            "POPDIST_REPLICA_INDEX_OFFSET": str(2 * index),
            "POPDIST_UNIFORM_REPLICAS_PER_INSTANCE": "1",
            "POPDIST_LOCAL_INSTANCE_INDEX": str(index),
            "OMPI_COMM_WORLD_SIZE": "4",
            "OMPI_COMM_WORLD_RANK": str(index),
            "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
            "OMPI_COMM_WORLD_LOCAL_RANK": str(index),
            "PYTHONUNBUFFERED": "1",
            "POPTORCH_CACHE_DIR": "c",
        }
    assert len(out) == 4


def test_the_output_of_one_instance_only(run: Run) -> None:
    words = ("--num-instances", "3", "--num-replicas", "3", "--only-output-from-instance", "1")
    status, out, err = run(*words, "sh", "-c", "echo out; echo err >&2")
    assert (status, out, err) == (0, ["[1,1]<stdout>:out"], ["[1,1]<stderr>:err"])


@pytest.mark.parametrize(
    ("program", "status", "said"),
    [
        (["true"], 0, None),
        (["sh", "-c", "exit 3"], 3, r"Error: instance 0 \(process \d+\) ended with status 3"),
        (["sh", "-c", "kill -KILL $$"], 137, r"Error: instance 0 \(process \d+\) was killed by SIGKILL \(signal 9\)"),
        (["sh", "-c", "kill -SEGV $$"], 139, r"Error: instance 0 \(process \d+\) was killed by SIGSEGV \(signal 11\)"),
        (["./there-is-no-such-program"], 127, r"Error: \./there-is-no-such-program cannot be started: No such file .*"),
        (["/"], 126, r"Error: / cannot be started: Permission denied"),
    ],
)
def test_the_status_is_the_instances(run: Run, program: list[str], status: int, said: str | None) -> None:
    ended, out, err = run(*program)
    assert (ended, out) == (status, [])
    assert (said is None and err == []) or (said is not None and re.fullmatch(said, "\n".join(err)))


def test_the_first_that_fails_ends_the_others(run: Run) -> None:
    program = "if [ $OMPI_COMM_WORLD_RANK = 1 ]; then exit 5; fi; sleep 300"
    status, _, err = run("--num-instances", "3", "--num-replicas", "3", "sh", "-c", program)
    assert status == 5
    assert re.fullmatch(
        r"Error: instance 1 \(process \d+\) ended with status 5; the remaining ones are terminated", err[0]
    )


STUBBORN = """
import os, signal, sys
if os.environ["OMPI_COMM_WORLD_RANK"] == "0":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    open(sys.argv[1], "w").close()
    signal.pause()
open(sys.argv[1]).close()  # as soon as the other one is deaf
os.abort()
"""


def test_who_does_not_leave_is_killed(run: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "deaf")
    program = (sys.executable, "-S", script(tmp_path, STUBBORN), str(tmp_path / "deaf"))
    status, _, err = run("-v", "--num-instances", "2", "--num-replicas", "2", *program, grace=0.2)
    assert status == 134
    assert any(line.endswith("instances 0 did not exit and are killed") for line in err)


def test_what_an_instance_leaves_behind_ends_with_it(run: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "held")
    reader = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    try:
        status, out, _ = run("sh", "-c", f"sleep 300 > {tmp_path}/held & echo done")
        assert (status, out) == (0, ["[1,0]<stdout>:done"])
        os.set_blocking(reader, True)
        assert os.read(reader, 1) == b""  # no process has it open any more
    finally:
        os.close(reader)


def test_only_the_first_instance_reads_what_the_launcher_is_given(run: Run, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("given\n", encoding="utf-8")
    kept = os.dup(0)
    with (tmp_path / "text").open("rb") as text:
        os.dup2(text.fileno(), 0)
    try:
        status, out, _ = run("--num-instances", "2", "--num-replicas", "2", "cat")
    finally:
        os.dup2(kept, 0)
        os.close(kept)
    assert (status, out) == (0, ["[1,0]<stdout>:given"])


def test_the_launchers_log(run: Run) -> None:
    for flags, levels in (
        ([], set()),
        (["-v"], {"I"}),
        (["--verbose"], {"I"}),
        (["--vv"], {"I", "D"}),
        (["-vv"], {"I", "D"}),
    ):
        status, out, err = run(*flags, "echo")
        assert (status, out) == (0, ["[1,0]<stdout>:"])
        found = [re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3} (\d+) POPRUN \[([ID])\] \S.*", line) for line in err]
        assert {line and line[2] for line in found} == levels
        assert all(line and line[1] == str(os.getpid()) for line in found)


def test_the_topology_comes_first(run: Run) -> None:
    words = ("--num-replicas", "4", "--num-instances", "2", "--ipus-per-replica", "2", "--print-topology", "yes")
    status, out, _ = run(*words, "echo")
    assert status == 0
    assert "\n".join(out[:3]) + "\n" == topology(parse([*words, "echo"]))
    assert [line.split()[1:] for line in out[:3]] == [
        ["ILD", "instance", "replicas", "IPUs"],
        ["0", "0", "0-1", "0-3"],
        ["0", "1", "2-3", "4-7"],
    ]


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ("", 2, "the program is missing"),
        ("--num-replicas 2", 2, "the program is missing"),
        ("--nope echo", 2, "--nope"),
        ("--num-instances 0 echo", 2, "'0' is not a number from 1 on"),
        ("--num-replicas -1 echo", 2, "'-1'"),
        ("--num-replicas two echo", 2, "'two'"),
        ("--ipus-per-replica 1.5 echo", 2, "'1.5'"),
        ("--num-replicas", 2, "--num-replicas"),
        ("--only-output-from-instance 1 echo", 2, "no instance 1"),
        ("--print-topology perhaps echo", 2, "perhaps"),
        ("--host elsewhere,localhost echo", 2, "not on elsewhere"),
        ("-H host[0-2,4] echo", 2, "this host only"),
        (
            "--num-replicas 8 --num-instances 3 echo",
            1,
            r"^Error: the number of replicas \(8\) must be divisible by the number of instances \(3\)\n$",
        ),
    ],
)
def test_a_wrong_command_line_starts_nothing(
    words: str, status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(words.split())
    assert ended.value.code == status
    assert re.search(said, capsys.readouterr().err)


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_help_and_version(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse([word])
    assert ended.value.code == 0
    assert "poprun" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        "--numa-aware 1",
        "--offline-mode=1",
        "-H localhost",
        "--host 127.0.0.1:2",
        "--allow-run-as-root 1",
        "--num-ilds 2 --vipu-server-host h --vipu-server-port 1 --vipu-server-timeout 2 --vipu-partition p",
        "--update-partition 1 --reset-partition 1 --remove-partition 0 --vipu-cluster c --vipu-allocation a",
        "--",
    ],
)
def test_options_for_hardware_are_accepted(words: str) -> None:
    assert parse([*words.split(), "echo", "a"]) == LaunchPlan(["echo", "a"])
