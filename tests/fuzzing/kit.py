"""The fuzzing kit: damaged files of every format, and what comes of them. ``python -m tests.fuzzing`` prints a table.

A sound file is cut short, some of its bits are flipped, or pieces of it are moved about. What must come of reading it
is the right elements or an error that the format declares. It must not be wrong or missing elements, another exception,
a wait without end, an unexpected file, or a lot of memory. The damage follows from a seed, the format and a
number, so that each case can be had again: ``python -m tests.fuzzing plain.tar --only flip/4711``.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import signal
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import FrameType

from tests.fuzzing.format import Format
from tests.fuzzing.formats import FORMATS
from tests.specimens.specimen import in_memory, shown

PATIENCE = 120.0  # seconds for one case
MEMORY = 256 * 2**20  # bytes that one format's cases may add to the most that the process ever held
MOST_ELEMENTS = 10_000  # of one damaged file; its sound twin has a few
BLOCK = 512  # bytes of a block of a tar archive
MOST_SHOWN = 5  # bugs of one format that are printed


class Hang(BaseException):
    """A case that took longer than it may; no stage takes it for an error of its input."""


@dataclass(frozen=True)
class Verdict:
    """Outcome of one case: ``right``, ``declared``, or the sentence that says what is wrong."""

    outcome: str
    error: str = ""

    @property
    def is_bug(self) -> bool:
        return self.outcome not in ("right", "declared")


def flipped(data: bytes, chance: random.Random) -> bytes:
    """One to three bits, or bytes, changed."""
    damaged = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        at = chance.randrange(len(damaged))
        damaged[at] ^= 1 << chance.randrange(8) if chance.random() < 0.7 else chance.randrange(1, 256)
    return bytes(damaged)


def spliced(data: bytes, chance: random.Random) -> bytes:
    """A piece taken out, doubled, moved, blanked, or replaced by noise."""
    start, end = sorted((chance.randrange(len(data)), chance.randrange(len(data) + 1)))
    if chance.random() < 0.7:
        end = min(end, start + chance.randrange(1, 16))
    piece, to = data[start:end], chance.randrange(len(data) + 1)
    match chance.randrange(5):
        case 0:
            return data[:start] + data[end:]
        case 1:
            return data[:to] + piece + data[to:]
        case 2:
            rest = data[:start] + data[end:]
            return rest[:to] + piece + rest[to:]
        case 3:
            return data[:start] + bytes([chance.choice((0, 0xFF, 0x20))]) * len(piece) + data[end:]
    return data[:start] + chance.randbytes(len(piece)) + data[end:]


DAMAGES: dict[str, Callable[[bytes, random.Random], bytes]] = {"flip": flipped, "splice": spliced}


class Bench:
    """A folder with one file in it, of one format, and what a sound file gives."""

    def __init__(self, form: Format, folder: Path) -> None:
        self.form = form
        self.data = form.make()
        self.inner = folder / "inner"
        self.inner.mkdir()
        self.folder = folder
        self.path = self.inner / form.name
        self.path.write_bytes(self.data)
        with warnings.catch_warnings(action="ignore"):
            self.expected = self._elements()
        self.files = self._files()
        self.held = _most_held()

    def _elements(self) -> list[str]:
        return [shown(element) for element in islice(self.form.read(str(self.path)), MOST_ELEMENTS)]

    def _files(self) -> list[str]:
        return sorted(os.listdir(self.folder)) + sorted(os.listdir(self.inner))

    def tried(self, data: bytes, cut: bool = False) -> Verdict:
        """Outcome of a file with these bytes."""
        self.path.write_bytes(data)
        same = self.form.same_after_cut if cut else self.form.same
        try:
            with warnings.catch_warnings(action="ignore"), hang_is_an_error(PATIENCE):
                found = self._elements()
        except Hang as hang:
            return Verdict(f"it hangs: {hang}")
        except self.form.errors as error:
            verdict = Verdict("declared", f"{type(error).__name__}: {error}")
            if self.form.name not in str(error):
                verdict = Verdict(f"the error does not name the file: {type(error).__name__}: {error}")
        except Exception as error:
            verdict = Verdict(f"undeclared {type(error).__name__}: {error}", repr(error))
        else:
            right = found == self.expected or same(self.expected, found) or self.form.says_otherwise(data)
            verdict = Verdict("right" if right else f"wrong elements: {found!s:.300} instead of {self.expected!s:.300}")
        if self._files() != self.files:
            return Verdict(f"unexpected files: {sorted(set(self._files()) ^ set(self.files))}")
        if (grown := _most_held() - self.held) > MEMORY:
            self.held += grown
            return Verdict(f"it took {grown >> 20} MiB of memory")
        return verdict

    def damaged(self, damage: str, number: int, seed: int) -> bytes:
        """The bytes of one case."""
        chance = random.Random(f"{seed}/{self.form.name}/{damage}/{number}")
        return DAMAGES[damage](self.data, chance)

    def cut(self, every: int = 1) -> Iterator[tuple[int, Verdict]]:
        """The file cut short at every byte; or at some, and about each border of blocks."""
        for length in range(len(self.data)):
            if length % every == 0 or (length + 1) % BLOCK < 3:
                yield length, self.tried(self.data[:length], cut=True)


@contextmanager
def hang_is_an_error(seconds: float) -> Iterator[None]:
    """Raise ``Hang`` in the main thread after some seconds."""

    def ring(signum: int, frame: FrameType | None) -> None:
        raise Hang(f"no end after {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    ticking = signal.setitimer(signal.ITIMER_REAL, seconds)  # that of the test that this runs in
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *ticking)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def bench(form: Format) -> Iterator[Bench]:
    """A bench in a folder of its own, which is the working folder meanwhile: a relative path leads nowhere else."""
    with tempfile.TemporaryDirectory(prefix="fuzzing-", dir=in_memory()) as folder:
        before = Path.cwd()
        made = Bench(form, Path(folder))
        os.chdir(made.inner)
        try:
            yield made
        finally:
            os.chdir(before)


def _most_held() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def fuzzed(form: Format, cases: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Cut, flip and splice; how many cases had which outcome, and the bugs."""
    counts: Counter[str] = Counter()
    bugs: list[str] = []
    with bench(form) as tries:

        def note(case: str, verdict: Verdict) -> None:
            counts["bug" if verdict.is_bug else verdict.outcome] += 1
            if verdict.is_bug:
                bugs.append(f"{form} {case}: {verdict.outcome}")

        for length, verdict in tries.cut():
            note(f"cut/{length}", verdict)
        for damage in DAMAGES:
            for number in range(cases):
                note(f"{damage}/{number}", tries.tried(tries.damaged(damage, number, seed)))
    return counts, bugs


def main(arguments: list[str]) -> int:
    """Print the table and the bugs; 1 if there are any."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing", description=__doc__)
    parser.add_argument("formats", nargs="*", help="names of formats; all, if none is named")
    parser.add_argument("--cases", type=int, default=10_000, help="flips, and as many splices, for each format")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="one case again, as flip/17, with its traceback")
    asked = parser.parse_args(arguments)
    rows = [form for form in FORMATS if not asked.formats or form.name in asked.formats]
    if asked.only:
        return again(rows[0], asked.only, asked.seed)
    print(f"{'format':24}{'cases':>8}{'right':>8}{'declared':>10}{'bugs':>6}")
    found = 0
    for form in rows:
        counts, bugs = fuzzed(form, asked.cases, asked.seed)
        cells = f"{counts.total():8}{counts['right']:8}{counts['declared']:10}{counts['bug']:6}"
        print(f"{form.name:24}{cells}", flush=True)
        for bug in bugs[:MOST_SHOWN]:
            print(f"    {bug:.700}", flush=True)
        found += len(bugs)
    return 1 if found or not rows else 0


def again(form: Format, case: str, seed: int) -> int:
    """One case once more; an exception shows its traceback."""
    damage, _, number = case.partition("/")
    with bench(form) as tries:
        data = tries.data[: int(number)] if damage == "cut" else tries.damaged(damage, int(number), seed)
        tries.path.write_bytes(data)
        print(f"expected {tries.expected}\nfound    {tries._elements()}")
    return 0
