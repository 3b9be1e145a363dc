"""The law of interruptions: Ctrl-C costs no element, and none comes twice.

A function of the specimen, or its source, is made to raise a KeyboardInterrupt once, as a signal does that comes while
it runs. What came before and what comes after are the whole, in the same iterator and after a resume.

``interrupt_at_moments`` does the same in the library's own code, at some of the moments at which Python looks for
signals: where a function begins or goes on, where a call has returned, where a loop goes back.
"""

from __future__ import annotations

import dis
import gc
import pickle
import signal
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import islice
from operator import itemgetter
from pathlib import Path
from random import Random
from types import CodeType, FrameType
from typing import Any

from datapipes.errors import StateError, UnsavableElement
from datapipes.graph import Pipe
from datapipes.messages.interrupts import CtrlCWaits
from loader2.testing.comparing import SEED, drawn, must, must_equal, taken
from loader2.testing.specimen import Build, Function, Specimen, Tap, shown

_HOWS = ("the same iterator", "resumed")
_ROOT = Path(__file__).parents[2]
_OURS = ("<loop of ", *(f"{_ROOT / name}/" for name in ("datapipes", "reading_services", "loader2")))
_NOT_THESE = f"{_ROOT / 'loader2' / 'testing'}/"


class Interrupting(Tap):
    """A function raises a KeyboardInterrupt when it is called with one element for the first time."""

    def __init__(self, where: str, number: int) -> None:
        super().__init__()
        self.where, self.number = where, number
        self.came: list[int] = []

    def __call__(self, source: Pipe) -> Pipe:
        if self.where == "source":
            return source.enumerate().map(_Once(self, itemgetter(1), itemgetter(0)))
        return source.enumerate().map(itemgetter(1))

    def partner(self, source: Pipe) -> Pipe:
        return source.enumerate().map(itemgetter(1))

    def function(self, fn: Function) -> Function:
        return _Once(self, fn) if self.where == "function" else fn

    def generator(self, fn: Function) -> Function:
        return _OnceWithin(self, fn) if self.where == "generator" else fn


class _Once:
    """A function that is interrupted once."""

    def __init__(self, tap: Interrupting, fn: Function, number: Function | None = None) -> None:
        self.tap, self.fn, self.number = tap, fn, number

    def __call__(self, element: Any) -> Any:
        number = element if self.number is None else self.number(element)
        if number == self.tap.number and not _came.get(id(self.tap)):
            _came[id(self.tap)] = True
            raise KeyboardInterrupt
        return self.fn(element)

    def __reduce__(self) -> Any:
        return _again, (id(self),)

    def __deepcopy__(self, memo: object) -> _Once:
        return self


class _OnceWithin(_Once):
    """A function that makes generators, one of which is interrupted once, after its first element."""

    def __call__(self, element: Any) -> Iterator[Any]:
        made = iter(self.fn(element))
        yield from islice(made, 1)
        if element == self.tap.number and not _came.get(id(self.tap)):
            _came[id(self.tap)] = True
            raise KeyboardInterrupt
        yield from made


_came: dict[int, bool] = {}


def _again(number: int) -> Any:
    raise TypeError("a function that interrupts is not pickled")


def interrupted(specimen: Specimen) -> None:
    """Ctrl-C in a function, or in the source, costs no element: what came before and what comes after are the whole."""
    if specimen.service is not None or specimen.raises:
        return
    plain = Tap()
    specimen.build(plain)
    length = min(plain.lengths, default=0)
    kinds = ["source"] + ["function"] * bool(plain.functions) + ["generator"] * bool(plain.generators)
    numbers = sorted({0, length // 2, length - 1}) if length else []
    for where in kinds:
        expected = taken(iter(specimen.loader(specimen.build(_Uninterrupted(where)), SEED)))
        for number in numbers if specimen.thorough else drawn(specimen, numbers):
            tap = Interrupting(where, number)
            for how in _HOWS:
                _came.pop(id(tap), None)
                what = f"Ctrl-C in the {where} at element {number}, {how}"
                _check(specimen, partial(_with, specimen, tap), expected, what, how, _plainly)


def interrupt_at_moments(specimen: Specimen, most: int, within: str = "") -> None:
    """Ctrl-C at some moments of the library's own code costs nothing either. ``within``: in these functions only."""
    whole = taken(iter(specimen.loader(seed=SEED)))
    moments = _count(specimen, within)
    assert moments, f"{specimen} calls no {within}"
    gc.disable()  # Python 3.11 crashes if a trace raises in what the cyclic collector calls
    try:
        for moment in sorted(Random(str(specimen)).sample(range(moments), min(most, moments))):
            for how in _HOWS:
                what = f"Ctrl-C at moment {moment} of {moments}, {how}"
                _check(
                    specimen, lambda _: specimen.pipe(), whole, what, how, partial(_at_moment, _Tracer(moment, within))
                )
    finally:
        gc.enable()


class _Uninterrupted(Interrupting):
    def __init__(self, where: str) -> None:
        super().__init__(where, -1)


def _with(specimen: Specimen, tap: Tap, _: Tap) -> Pipe:
    return specimen.build(tap)


def _check(specimen: Specimen, build: Build, whole: list[str], what: str, how: str, drain: Any) -> None:
    loader = specimen.loader(build(Tap()), SEED)
    iterator = iter(loader)
    before: list[str] = []
    where = drain(iterator, before)
    if where is None:  # or it came where Python cannot raise it, as in a finalizer
        must_equal(before, whole, f"{what}, which no test met")
        loader.shutdown()
        return
    if how == "resumed":
        try:
            state = pickle.dumps(loader.state_dict())
        except (UnsavableElement, StateError):  # of what is open
            loader.shutdown()
            return
        loader.shutdown()
        loader = specimen.loader(build(Tap()))
        loader.load_state_dict(pickle.loads(state))
        iterator = iter(loader)
    after: list[str] = []
    try:
        while _plainly(iterator, after) is not None:  # children of a fork in two threads may both be interrupted
            must(len(after) <= len(whole), f"{what}: more elements than there are")
    except StateError as error:
        must("cannot be read again from its start" in str(error), f"{what}: {error}")
        return
    finally:
        loader.shutdown()
    if how != "resumed" or len(before) < len(whole):  # behind the end, another epoch may begin
        must_equal([*before, "|", *after], [*whole[: len(before)], "|", *whole[len(before) :]], f"{what} {where}")


def _plainly(iterator: Iterator[Any], before: list[str]) -> str | None:
    try:
        before.extend(map(shown, iterator))
    except KeyboardInterrupt:
        return ""
    return None


def _at_moment(tracer: _Tracer, iterator: Iterator[Any], before: list[str]) -> str | None:
    try:
        sys.settrace(tracer.begin)
        for element in iterator:
            sys.settrace(None)  # a stream in it is read here, and not by the iteration
            before.append(shown(element))
            sys.settrace(tracer.begin)
    except KeyboardInterrupt:
        return f"({tracer.where})"
    finally:
        sys.settrace(None)
    return None


def _count(specimen: Specimen, within: str) -> int:
    tracer, loader = _Tracer(-1, within), specimen.loader(seed=SEED)
    _at_moment(tracer, iter(loader), [])
    loader.shutdown()
    return tracer.seen


class _Tracer:
    """Counts the moments at which Python looks for signals in the library's own code, and interrupts at one."""

    def __init__(self, moment: int, within: str = "") -> None:
        self.moment, self.within, self.seen, self.where = moment, within, 0, ""

    def begin(self, frame: FrameType, event: str, arg: object) -> Callable[..., Any] | None:
        file, name = frame.f_code.co_filename, frame.f_code.co_qualname
        if not file.startswith(_OURS) or file.startswith(_NOT_THESE) or name.endswith("__del__"):
            return None
        if not name.startswith(self.within):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if _looks_on_entry(frame):
            self._meet(frame)
        return self._inside

    def _inside(self, frame: FrameType, event: str, arg: object) -> Callable[..., Any]:
        if event == "opcode" and frame.f_lasti in _moments(frame.f_code):
            self._meet(frame)
        return self._inside

    def _meet(self, frame: FrameType) -> None:
        self.seen += 1
        if self.seen == self.moment + 1:
            self.where = f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno} {frame.f_code.co_qualname}"
            handler = getattr(signal.getsignal(signal.SIGINT), "__self__", None)
            if not isinstance(handler, CtrlCWaits):
                raise KeyboardInterrupt
            handler._note()


def _looks_on_entry(frame: FrameType) -> bool:
    """Return whether Python looks for signals where a frame begins or goes on: not behind ``yield from`` or ``await``.

    A frame that goes on with an exception is no such moment, which Python 3.11 alone tells.
    """
    operation, argument = frame.f_code.co_code[frame.f_lasti : frame.f_lasti + 2]
    return operation == dis.opmap["RESUME"] and argument & 3 < 2


@cache
def _moments(code: CodeType) -> frozenset[int]:
    """The offsets of the instructions before which Python looks for signals, but for where functions begin."""
    bytecode = dis.Bytecode(code)
    entries = bytecode.exception_entries  # type: ignore[attr-defined]  # missing in the stubs

    def handler(offset: int) -> int | None:
        """Return the offset of the code that handles an exception raised by an instruction."""
        return next((x.target for x in entries if x.start <= offset < x.end), None)

    found, call = set(), None
    for instruction in bytecode:
        name, at = instruction.opname, instruction.offset
        if name == "CACHE":
            continue
        # Python raises the interruption in the call, and a trace raises it in the next instruction. Moments are left
        # out where that makes a difference: before a `yield`, and where a `with` or `try` ends behind the call.
        is_behind_call = call is not None and name != "YIELD_VALUE" and handler(call) == handler(at)
        if is_behind_call or ("JUMP_BACKWARD" in name and "NO_INTERRUPT" not in name):
            found.add(at)
        call = at if name.startswith("CALL") and "INTRINSIC" not in name else None
    return frozenset(found)
