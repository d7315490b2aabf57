"""Kernels on simulated arrays: a call that comes again is enqueued by what it does anew each time, and nothing else.

What a kernel is, which arrays it reads, writes and makes, and what it costs on the virtual clock follows from the
layouts of its arguments. A `PreparedLaunch` knows that. What is left is to order the operation, to check its accesses,
and to remember them; where an array is used as a whole and by one stream alone, as most are, the last two take a
comparison and an assignment for each array. That is compiled (`simulator.c`). All else, and all of it where nothing is
compiled, goes the way of every operation, `Machine.allocate` and `Machine.enqueue`.

A function of the namespace comes to such a call by way of many checks, which only the layouts decide. So it remembers
the launch that it came to, by the layouts, and does the same again (`operation`).

Two kinds of kernels access what their data say: those that gather and scatter, and those of CUDA source (`emulate`).
"""

from __future__ import annotations

import functools
import math
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib import _native
from xferlib._core import arrays as core_arrays
from xferlib._core.arrays import c_strides
from xferlib._core.device import make_capture_error
from xferlib._runtime import checks
from xferlib._runtime.checks import CodeLocation, call_from, user_call
from xferlib.errors import KernelFaultError
from xferlib.kernels.plans import Plans
from xferlib.sim import arrays, detector, machine, memory, model, schedules, timing
from xferlib.sim.arrays import ArrayKind, SimArray, find_kind, kind_of, memories_of, new, spans_of
from xferlib.sim.detector import RaceError
from xferlib.sim.machine import KERNELS, Allocation, Explored, Lifetimes, Machine
from xferlib.sim.memory import Block, Freed, Span
from xferlib.sim.model import HostThread, LastOwner, NamedBytes, Operation, SimStream

if TYPE_CHECKING:
    from xferlib._core.arrays import HostArray
    from xferlib._core.device import Device, RawStream
    from xferlib.kernels.cuda_cpu.module import EmulatedKernel, KernelMemory, TouchedBytes
    from xferlib.sim.memory import Spans

    CalledAt = tuple[CodeLocation, str]
    Owned = tuple[Block, LastOwner]
    """New memory, and who had it before."""


# Launches.


def bind_simulator(simulated: Machine, local: Any) -> None:
    """Let the compiled calls work on a machine from now on; ``local`` has each thread's current streams."""
    carry_out = _native.set_simulator(
        simulated, local, (
            Machine, schedules.Faults, detector.Detector, model.Hosts, HostThread, Lifetimes, memory.AddressSpace,
            timing.Timeline, schedules.Engine, SimStream, model.StreamHandle, model.Pool, memory.Block, Allocation,
            SimArray, ArrayKind, Operation, model.History, model.Accesses,
        ), tuple.__new__, LastOwner, kind_of, checks._is_ours, threading.__file__, call_from, functools.partial, _take,
        KnownView, ConvertedNumber, np.dtype,
    )  # fmt: skip
    if carry_out is not None:
        simulated.engine.carry_out_next = carry_out


class NewArray:
    """An array that a kernel makes: uninitialised, with its axes in ``order`` in memory, the outermost first."""

    __slots__ = ("device", "dtype", "kind", "nbytes", "shape", "strides")

    def __init__(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device, order: tuple[int, ...] | None = None
    ) -> None:
        order = tuple(range(len(shape))) if order is None else order
        steps = dict(zip(order, c_strides(tuple(shape[axis] for axis in order), dtype.itemsize), strict=True))
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self.strides = tuple(steps[axis] for axis in range(len(shape)))
        self.nbytes = math.prod(shape) * dtype.itemsize
        self.kind = find_kind((shape, self.strides, dtype, device, True))

    def over(self, allocation: Allocation) -> SimArray:
        """The array in its memory."""
        return SimArray(allocation, None, self.kind)


class LaunchedAccesses:
    """The arrays that a launch reads and writes, by position, for the detector.

    Args:
        reads, writes: Those of the arguments; the arrays that it makes are written, too.
    """

    __slots__ = ("reads", "used", "writes")

    def __init__(self, reads: Sequence[int], writes: Sequence[int]) -> None:
        self.reads = tuple(reads)
        self.writes = tuple(writes)
        self.used = (*reads, *writes)

    def check(
        self, operation: Operation, stream: SimStream, given: Sequence[Any], made: Sequence[SimArray],
        owners: Sequence[Owned],
    ) -> None:  # fmt: skip
        """Check the accesses and remember them; ``owners`` had the memory of new arrays before."""
        for block, last_owner in owners:
            block.hand_over(last_owner)
        reads = spans_of([given[number] for number in self.reads])
        writes = spans_of([*[given[number] for number in self.writes], *made])
        machine.machine().check(operation, stream, reads, writes)

    def note(self, array: SimArray, operation: Operation, is_write: bool) -> None:
        """Remember an access that comes after all others."""
        block = array.allocation.block
        block.note(array.spans()[0], operation, is_write=is_write)
        block.prune(machine.machine().is_known)


class PreparedLaunch:
    """A kernel on arrays of the same layouts, to be enqueued again and again.

    Args:
        name, device: Of the operation.
        nbytes: The bytes of the arguments that are arrays, by position.
        reads, writes: Those that it reads, and those that it writes.
        makes: The arrays that it makes and writes.
    """

    __slots__ = (
        "_accesses", "_device", "_makes", "_name", "_nbytes", "_simulator", "in_c"
    )  # fmt: skip

    def __init__(
        self, name: str, device: Device, nbytes: dict[int, int], *, reads: Sequence[int], writes: Sequence[int],
        makes: Sequence[NewArray],
    ) -> None:  # fmt: skip
        self._name = name
        self._device = device
        self._accesses = accesses = LaunchedAccesses(reads, writes)
        self._makes = makes
        self._nbytes = sum(nbytes[each] for each in accesses.used) + sum(each.nbytes for each in makes)
        self._simulator = simulator = machine.simulator()
        self.in_c: Any = None
        """`enqueue` where it makes one array at most, compiled: of arguments, ``run`` and ``called_at``.

        It gives the new array, None where there is none, or ``NotImplemented`` with nothing done.
        """
        if len(makes) < 2:
            facts: Any = [(each.kind, each.dtype, each.shape, each.strides, each.nbytes) for each in makes] or [None]
            self.in_c = _native.bind_simulated(
                "launch", simulator.machine, accesses, name, device, (device.index, KERNELS),
                simulator.machine.streams[device].legacy, accesses.reads, accesses.used, self._nbytes, *facts,
            )  # fmt: skip

    def enqueue(
        self, given: Sequence[Any], run: Callable[[tuple[Any, ...]], object], *, is_library: bool = False,
        called_at: tuple[CodeLocation, str] | None = None,
    ) -> list[SimArray]:  # fmt: skip
        """Enqueue ``run`` on the memory of the arrays and on the numbers given; returns the new arrays.

        Args:
            given: The arguments.
            run: Computes.
            is_library: Whether it is known to stand for an operation of an array library; else the thread knows.
            called_at: The program's line and the function that it called, if they are known.
        """
        called_at = called_at if called_at is not None else user_call(2)
        found = NotImplemented if self.in_c is None else self.in_c(given, run, called_at)
        if found is not NotImplemented:
            made = [] if found is None else [found]
        else:
            made = self._enqueue_any(given, run, called_at)
        if not is_library:
            declare([given[number] for number in self._accesses.used], self._simulator.current(self._device))
        return made

    def _enqueue_any(
        self, given: Sequence[Any], run: Callable[[tuple[Any, ...]], object], called_at: tuple[CodeLocation, str]
    ) -> list[SimArray]:
        """`enqueue` as any operation is enqueued: what is not compiled, or what more than the detector looks at."""
        stream, simulated = self._simulator.current(self._device), self._simulator.machine
        made = [each.over(simulated.allocate(each.nbytes, stream, called_at[0])) for each in self._makes]
        reads = [given[number] for number in self._accesses.reads]
        writes = [*[given[number] for number in self._accesses.writes], *made]
        if stream.recorded is not None:
            stream.recorded.kept += (*reads, *writes)
        operands = tuple([each.memory() if type(each) is SimArray else each for each in (*given, *made)])
        simulated.enqueue(
            stream, self._name, functools.partial(run, operands), reads=spans_of(reads), writes=spans_of(writes),
            nbytes=self._nbytes, called_at=called_at,
        )  # fmt: skip
        return made

    def repeat_in_c(
        self, runs: tuple[Any, Any], python: Callable[..., Any], apart: Sequence[tuple[int, int, bool]] = (),
        numbers: Sequence[tuple[int, PlainNumbers]] = (), result: int = -1,
    ) -> Callable[..., Any]:  # fmt: skip
        """``python``, which repeats a call that comes to this launch, compiled; itself where that is not possible.

        Args:
            runs: Compute, where no output is an input and where one is.
            python: Takes the call where C does not.
            apart: Pairs of a written argument and another one, and whether they may be one array.
            numbers: The arguments that are numbers, and which C takes: others are converted.
            result: The argument that it returns; -1: the new array, or None.
        """
        if self.in_c is None:
            return python
        found = _native.bind_simulated("call", self.in_c, *runs, python, tuple(apart), tuple(numbers), result)
        return found if found is not None else python


def declare(arrays: Sequence[SimArray], stream: SimStream) -> None:
    """Declare the use of arrays on a stream, so that they outlast it, as xferlib does for its kernels on CUDA."""
    for array in arrays:
        if array.allocation.block.stream is not stream and not is_inside():
            array.allocation.users[stream.key] = stream


# Operations of an array library, in contrast to xferlib's own kernels.
#
# A library such as CuPy or torch does not know on which other streams its arrays are in use: what its operations read
# may be recycled while they still run. xferlib's kernels tell. The namespace of the simulated devices
# is made of these kernels, and stands for such a library: its calls are marked here, so that a program with a lifetime
# that is too short is found.


class _CallingThread(threading.local):
    is_inside = False
    """Whether the thread is in a call of the namespace."""
    notes: list[tuple[Any, Sequence[Any], Any]] | None = None
    """The calls that this one has come to so far, each with its arguments and its result."""


_thread = _CallingThread()


def is_inside() -> bool:
    """Whether the calling thread computes for the namespace."""
    return _thread.is_inside


THE_NUMBER = object()
"""In place of the one argument of a call that is a number."""


def note(call: Any, given: Sequence[Any], result: Any) -> None:
    """Note for a function of the namespace that this call, with these arguments, is what it came to.

    ``call.bind()`` gives a function of arguments of the same layouts and of the place of the call, which makes it for
    them, or returns `NotImplemented` with nothing done. It has enqueued ``call.operations``.
    """
    if (notes := _thread.notes) is not None:
        notes.append((call, given, result))


class RepeatedCall:
    """A call of one launch that makes one array.

    Args:
        launch: The launch.
        run: Computes, on memory.
    """

    __slots__ = ("_launch", "_run")
    operations = 1

    def __init__(self, launch: PreparedLaunch, run: Callable[[tuple[Any, ...]], object]) -> None:
        self._launch = launch
        self._run = run

    def bind(self) -> Callable[..., Any]:
        """`repeat`, compiled where that is possible."""
        return self._launch.repeat_in_c((self._run, self._run), self.repeat)

    def repeat(self, given: Sequence[Any], called_at: tuple[CodeLocation, str]) -> SimArray:
        return self._launch.enqueue(given, self._run, is_library=True, called_at=called_at)[0]


class NewMemory:
    """A new array, which a function of the namespace then writes: no operation."""

    __slots__ = ("_made",)
    operations = 0

    def __init__(self, made: SimArray) -> None:
        self._made = made.info

    def bind(self) -> Callable[..., Any]:
        return self.repeat

    def repeat(self, given: Sequence[Any], called_at: tuple[CodeLocation, str]) -> SimArray:
        info = self._made
        allocation = machine.machine().allocate(info.nbytes, machine.stream(info.device), called_at[0])
        return SimArray(allocation, None, find_kind(info[1:]))


def note_memory(made: SimArray) -> None:
    """`note` that an array is made, to be written by what comes."""
    if _thread.notes is not None:
        note(NewMemory(made), (), made)


def _drop_spare_memory(notes: list[tuple[Any, Sequence[Any], Any]], found: Any) -> list[tuple[Any, Sequence[Any], Any]]:
    """The notes without those of memory that a launch makes itself, or that nothing uses."""
    kept = []
    for number, one in enumerate(notes):
        if type(one[0]) is NewMemory:
            later = notes[number + 1 :]
            used = [each for _, given, _ in later for each in given] + [found]
            if any(result is one[2] and not any(each is result for each in given) for _, given, result in later):
                continue
            if not any(type(each) is SimArray and each.allocation is one[2].allocation for each in used):
                continue
        kept.append(one)
    return kept


def note_new(
    name: str, reads: Sequence[SimArray], writes: Sequence[SimArray], run: Callable[[tuple[Any, ...]], object]
) -> None:
    """`note` an operation that computes on all of its arrays, the written one behind the others, which it has made."""
    if _thread.notes is None or len(writes) != 1:
        return
    made = writes[0]
    nbytes = {number: each.nbytes for number, each in enumerate(reads)}
    new = NewArray(made.shape, made.dtype, made.device)
    if made.info[1:] == (new.shape, new.strides, new.dtype, new.device, True):
        launch = PreparedLaunch(name, made.device, nbytes, reads=range(len(reads)), writes=(), makes=[new])
        note(RepeatedCall(launch, run), reads, made)


# Calls of the namespace's functions that come again.

Key = tuple[Any, ...]
_SIMPLE = (bool, str, type(None), type(Ellipsis))
_BOUNDS = (int, type(None))
_NUMBERS = (float, int, complex, bool)

PlainNumbers = tuple[bool, float, float]
"""Python's floats, or else ints, between two of them."""


def find_plain(dtype: np.dtype[Any]) -> PlainNumbers | None:
    """The numbers that a dtype takes rounded once at most, without an error; None where C knows none.

    NaN is one of the floats. A float16 would be rounded by way of float32.
    """
    if dtype == np.float64:
        return True, -math.inf, math.inf
    if dtype == np.float32:
        return True, -float(np.finfo(dtype).max), float(np.finfo(dtype).max)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return False, int(info.min), min(int(info.max), int(np.iinfo(np.int64).max))
    return None


def _make_key(args: Sequence[Any], options: dict[str, Any]) -> Key | None:
    """The key of a call with arrays and simple options; None for one that is not repeated.

    Arrays of one allocation are told from others, since a function may treat them differently.
    """
    found: list[Any] = []
    arrays: list[SimArray] = []
    for each in (*args, *options.values()) if options else args:
        kind = type(each)
        if kind is SimArray:
            found.append(each.kind or kind_of(each))
            arrays.append(each)
        elif kind is int:
            found.append(each)
        elif kind in _SIMPLE or kind is type:
            found += (kind, each)  # True is no axis, but equal to 1
        elif isinstance(each, np.dtype):
            found += (np.dtype, each, each.char)  # long and long long are equal
        elif kind is slice:
            start, stop, step = each.start, each.stop, each.step
            if type(start) not in _BOUNDS or type(stop) not in _BOUNDS or type(step) not in _BOUNDS:
                return None
            found += (kind, start, stop, step)
        elif kind is tuple and SimArray not in map(type, each) and (inner := _make_key(each, {})) is not None:
            found.append(inner)
        else:
            return None
    if len(arrays) > 1:
        found += _find_shared(arrays)
    return (*found, *options) if options else tuple(found)


def _find_shared(arrays: Sequence[SimArray]) -> list[Any]:
    """The pairs of arrays of one allocation, each with their distance, behind a mark."""
    shared: list[Any] = [
        (one, two, arrays[two].offset - arrays[one].offset)
        for two in range(1, len(arrays))
        for one in range(two)
        if arrays[one].allocation is arrays[two].allocation
    ]
    return [SimArray, *shared] if shared else shared


def _make_key_by_types(args: Sequence[Any], options: dict[str, Any]) -> Key | None:
    """The key of a call that passes its arguments on to one kernel, which looks at numbers itself."""
    if options:
        return None
    found: list[Any] = [(each.kind or kind_of(each)) if type(each) is SimArray else type(each) for each in args]
    if len(args) > 1:
        found += _find_shared([each for each in args if type(each) is SimArray])
    return tuple(found)


def _make_key_of_assignment(args: Sequence[Any], options: dict[str, Any]) -> Key | None:
    """The key of ``x[key] = value``: a number is converted anew each time, by its type."""
    if options or type(args[-1]) not in _NUMBERS:
        return _make_key(args, options)
    found = _make_key(args[:-1], options)
    return None if found is None else (*found, type(args[-1]))


def _flatten(args: tuple[Any, ...]) -> tuple[tuple[Any, ...], Key]:
    """The arguments with the items of lists and tuples of arrays in their place, and where which of these were.

    Other arguments may be among a tuple's items, as in ``x[rows, 2]``.
    """
    nested = [n for n, each in enumerate(args) if type(each) in (list, tuple) and SimArray in map(type, each)]
    if not nested:
        return args, ()
    found: list[Any] = []
    for number, each in enumerate(args):
        found += each if number in nested else (each,)
    return tuple(found), tuple((number, type(args[number]), len(args[number])) for number in nested)


_KEYS = (_make_key, _make_key_by_types, _make_key_of_assignment)
"""In the order of their numbers in `simulator.c`."""


class KnownView(NamedTuple):
    """A part of the memory of an array that is given to a function, or that a step has made."""

    place: int
    """Of the array: among the arguments or, where it is ``~n``, what step ``n`` has made."""
    offset: int
    kind: ArrayKind

    def over(self, array: SimArray) -> SimArray:
        return SimArray(array.allocation, None, self.kind, None, array.offset + self.offset)


class ConvertedNumber(NamedTuple):
    """The number that a function is given, as one of a dtype."""

    place: int
    dtype: np.dtype[Any]
    plain: PlainNumbers | None
    """Those of which the launch makes the same, without a conversion here."""


class KnownNumber(NamedTuple):
    """A number that the key decides."""

    value: Any


Source = int | KnownView | ConvertedNumber | KnownNumber
"""Where a step takes an argument from, and a function its result; a number alone is a place, as in `KnownView`."""


class KnownSteps:
    """The launches that a call comes to, each with the sources of its arguments, and the source of the result."""

    __slots__ = ("_result", "_steps")

    def __init__(self, steps: list[tuple[Callable[..., Any], list[Source]]], result: Source | None) -> None:
        self._steps = steps
        self._result = result

    def repeat(self, args: Sequence[Any], called_at: tuple[CodeLocation, str]) -> Any:
        """Make them again; `NotImplemented` where the function itself has to be called."""
        made: list[Any] = []
        for repeat, sources in self._steps:
            try:
                given = [args[each] if type(each) is int and each >= 0 else _take(each, args, made) for each in sources]
            except Exception:  # of a conversion
                return NotImplemented
            found = repeat(given, called_at)
            if found is NotImplemented:
                return NotImplemented
            made.append(found)
        return None if self._result is None else _take(self._result, args, made)


def _bind_steps(steps: list[tuple[Callable[..., Any], list[Source]]], result: Source | None) -> Callable[..., Any]:
    """`KnownSteps.repeat`, compiled where that is possible."""
    found = _native.bind_simulated("steps", tuple((repeat, tuple(sources)) for repeat, sources in steps), result)
    return found if found is not None else KnownSteps(steps, result).repeat


def _take(source: Source, args: Sequence[Any], made: Sequence[Any]) -> Any:
    if type(source) is KnownView:
        return source.over(args[source.place] if source.place >= 0 else made[~source.place])
    if type(source) is ConvertedNumber:
        return core_arrays.number(args[source.place], source.dtype)
    if type(source) is KnownNumber:
        return source.value
    assert isinstance(source, int)
    return args[source] if source >= 0 else made[~source]


class KnownCalls:
    """The view, or the launches, that calls of one function of the namespace have come to, by their arguments.

    Values are no part of the key: a function that looks at them enqueues a copy,
    which is no launch that is noted, and such a call is not remembered.

    Args:
        function: The function.
    """

    __slots__ = ("_function", "_known", "get", "make_key")

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._known: Plans[Any] = Plans()
        """A `KnownView`, or a function that makes the launches again."""
        self.get = self._known.get
        self.make_key = _make_key
        if getattr(function, "passes_operands", False):
            self.make_key = _make_key_by_types
        elif function.__name__ == "setitem":
            self.make_key = _make_key_of_assignment

    def call(self, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Call the function, and remember what it comes to."""
        thread, engine = _thread, machine.machine().engine
        was_inside, outer = thread.is_inside, thread.notes
        try:  # Ctrl-C in front of it would leave the mark, and arrays would not outlast their use from then on
            notes: list[tuple[Any, Sequence[Any], Any]] = []
            thread.is_inside, thread.notes = True, notes
            before = engine.serial
            found = self._function(*args, **options)
            if engine.serial == before + sum([call.operations for call, _, _ in notes]):  # else it does more
                self._remember(args, options, found, notes)
            if outer is not None:
                outer += notes
            return found
        finally:
            thread.is_inside, thread.notes = was_inside, outer

    def find_key(self, args: tuple[Any, ...], options: dict[str, Any]) -> tuple[tuple[Any, ...], Key | None]:
        """The arguments as steps take them, and the key of the call; None for one that is not repeated."""
        flat, nested = _flatten(args)
        found = self.make_key(flat, options)
        return flat, (*found, nested) if nested and found is not None else found

    def _remember(
        self, args: tuple[Any, ...], options: dict[str, Any], found: Any, notes: list[tuple[Any, Sequence[Any], Any]]
    ) -> None:
        args, key = self.find_key(args, options)
        if key is None:
            return
        steps: list[tuple[Callable[..., Any], list[Source]]] = []
        made: list[Any] = []
        devices = {each.device for each in args if type(each) is SimArray}
        for call, given, result in _drop_spare_memory(notes, found):
            if type(call) is NewMemory and result.device not in devices:
                return  # on the current device, which is no part of the key
            sources = [self._find_source(args, made, each) for each in given]
            known = [each for each in sources if each is not None]
            if len(known) < len(sources):
                return
            steps.append((call.bind(), known))
            made.append(result)
        if any(each is one for each in made[:-1] for one in args):
            return  # a step that fails would leave the one before half done
        source = None if found is None else self._find_source(args, made, found)
        if source is None and found is not None:
            return
        if self.make_key is _make_key_by_types:
            used = {each for _, sources in steps for each in sources if isinstance(each, int)}
            if not used.issuperset(number for number, each in enumerate(args) if type(each) is not SimArray):
                return  # the kernel does not see all of them
        if self.make_key is _make_key_of_assignment and type(args[-1]) in _NUMBERS:
            if not any(type(each) is ConvertedNumber for _, sources in steps for each in sources):
                return  # to no element: the next number may be one that the dtype does not hold
        if not steps:
            if type(source) is KnownView:
                self._known.keep(key, source)
            elif found is None or source is not None:
                self._known.keep(key, _bind_steps([], source))
        elif len(steps) == 1 and steps[0][1] == [*range(len(args))] and source == -1:
            self._known.keep(key, steps[0][0])
        else:
            self._known.keep(key, _bind_steps(steps, source))

    def _find_source(self, args: Sequence[Any], made: Sequence[Any], value: Any) -> Source | None:
        """Where a call with such arguments finds the value; None if that cannot be told."""
        places = [*enumerate(args), *((~number, each) for number, each in enumerate(made))]
        if isinstance(value, SimArray):
            if (same := next((place for place, each in places if each is value), None)) is not None:
                return same
            for place, each in places:
                if type(each) is SimArray and each.allocation is value.allocation:
                    return KnownView(place, value.offset - each.offset, kind_of(value))
            return None
        numbers = [place for place, each in enumerate(args) if type(each) is not SimArray]
        if value is THE_NUMBER:
            return numbers[0] if len(numbers) == 1 else None
        if self.make_key is _make_key_by_types:
            same_numbers = [place for place in numbers if args[place] is value]
            return same_numbers[0] if len(same_numbers) == 1 else None
        if self.make_key is _make_key_of_assignment and type(args[-1]) in _NUMBERS:
            dtype = kind_of(args[0]).dtype
            return ConvertedNumber(len(args) - 1, dtype, find_plain(dtype))
        return KnownNumber(value) if isinstance(value, (int, float, complex, np.generic)) else None


def operation(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` as an operation of an array library."""
    repeats = KnownCalls(function)
    name = function.__name__
    get, find_key = repeats.get, repeats.find_key
    in_c = _native.bind_simulated("operation", repeats._known, name, _KEYS.index(repeats.make_key))

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if in_c is not None:
            found = in_c(args, options, sys._getframe(1))
            if found is not NotImplemented:
                return found
        else:
            flat, key = find_key(args, options)
            if key is not None and (known := get(key)) is not None:
                if type(known) is KnownView:
                    return known.over(flat[known.place])
                found = known(flat, call_from(sys._getframe(1), name))
                if found is not NotImplemented:
                    return found
        return repeats.call(args, options)

    made: Any = call  # reports name the function by its code, as the program called it
    made.__code__ = made.__code__.replace(co_name=name, co_qualname=name)
    return call


# Elements at computed positions: operations that read and write just these, so that the detector knows them.
#
# The bytes to access depend on the indices, so these are read at once: a fast device is as legal as a slow one. How
# many elements a mask selects is known to the host behind that, which waits for it as with a GPU.

Indices = tuple["HostArray", ...]


def gather(x: SimArray, indices: Sequence[SimArray], out: SimArray) -> None:
    """Enqueue ``out[...] = x[indices]``."""
    stream = machine.stream(x.device)
    found = _read_indices(indices, stream)
    _check_indices(found, x.shape)
    if out.size:
        _enqueue_gather(x, found, out, stream)
        _note_gather(x, indices, out)


def select(x: SimArray, mask: SimArray) -> SimArray:
    """Enqueue ``x[mask]``, a new array; waits for the values of the mask, of one axis at least."""
    stream = machine.stream(x.device)
    found = _read_indices((mask,), stream)
    _wait_for_count(stream)
    out = new((int(np.count_nonzero(found[0])), *x.shape[mask.ndim :]), x.dtype, x.device)
    if out.size:
        _enqueue_gather(x, found, out, stream)
    _note_select(x, mask, out)
    return out


def scatter(x: SimArray, indices: Sequence[SimArray], value: Any) -> None:
    """Enqueue ``x[indices] = value``, of an array or a number; a mask may stand for the indices."""
    stream = machine.stream(x.device)
    found = _read_indices(indices, stream)
    (source,) = memories_of((value,))
    _check_indices(found, x.shape)
    if not x.size or any(not each.size for each in found):
        return
    run = functools.partial(_run_scatter, (x.memory(), found, source))
    reads = value.spans() if isinstance(value, SimArray) else ()
    machine.machine().enqueue(stream, "assignment", run, reads=reads, writes=select_spans(x, found), nbytes=x.nbytes)
    _note_scatter(x, indices, value)


def _enqueue_gather(x: SimArray, found: Indices, out: SimArray, stream: SimStream) -> None:
    run = functools.partial(_run_gather, (x.memory(), found, out.memory()))
    reads = select_spans(x, found)
    machine.machine().enqueue(stream, "index", run, reads=reads, writes=out.spans(), nbytes=2 * out.nbytes)


def _read_indices(indices: Sequence[SimArray], stream: SimStream) -> Indices:
    """Copies of the indices, as they are in stream order."""
    if stream.recorded is not None:
        raise make_capture_error("an index that is an array", stream.device)
    memories = memories_of(indices)
    copies: list[HostArray] = []
    simulated, spans = machine.machine(), spans_of(indices)
    with simulated.lock:
        read = lambda: copies.extend(each.copy() for each in memories)
        operation = simulated.enqueue(stream, "index", read, reads=spans, nbytes=0)
        assert operation is not None
        simulated.engine.force(operation)
    return tuple(copies)


def _wait_for_count(stream: SimStream) -> None:
    """Let the host wait for the number of elements, as it does for a copy."""
    simulated = machine.machine()
    simulated.implicit.wait(np.dtype(np.int64).itemsize)
    simulated.waits.synchronize_stream(stream)


def _check_indices(indices: Indices, shape: tuple[int, ...]) -> None:
    """Refuse indices out of range.

    Raises:
        IndexError: One is.
    """
    selects_none = not all(each.size for each in indices)  # then NumPy looks at single numbers alone
    for axis, (each, extent) in enumerate(zip(indices, shape, strict=False)):
        if each.dtype == np.bool_ or (selects_none and each.ndim):
            continue
        if not -extent <= each.min() <= each.max() < extent:
            raise IndexError(f"an index is out of range for axis {axis} of {extent} elements; it must be below")


def select_spans(array: SimArray, keys: Indices) -> Spans:
    """The spans of the elements of ``array[keys]``."""
    (whole,) = array.spans() or (None,)
    return () if whole is None else (whole._replace(form=_select_cells(array, keys)),)


def _select_cells(array: SimArray, keys: Indices) -> model.Cells:
    """The bytes of the elements of ``array[keys]``."""
    shape, strides, axes = array.shape, array.strides, array.ndim
    rest = sum(each.ndim if each.dtype == np.bool_ else 1 for each in keys)
    if c_strides(shape[rest:], array.dtype.itemsize) == strides[rest:]:
        axes = rest  # the axes without a key are contiguous
    run = math.prod(shape[axes:]) * array.dtype.itemsize
    base = array.offset

    def find() -> model.Offsets:
        offsets: Any = base
        indices = [one for each in keys for one in (each.nonzero() if each.dtype == np.bool_ else (each,))]
        for index, extent, stride in zip(indices, shape, strides, strict=False):
            offsets = offsets + index.astype(np.int64, copy=False) % extent * stride
        for axis in range(rest, axes):
            offsets = np.add.outer(offsets, np.arange(shape[axis]) * strides[axis])
        return np.asarray(offsets, np.int64).reshape(-1)

    return model.Cells(run, find)


# Calls that come again.


def _restrict(x: SimArray, keys: Indices) -> SimArray:
    """The array, of which an operation uses the elements of ``x[keys]`` alone."""
    kind = kind_of(x).with_form(_select_cells(x, keys))
    return SimArray(x.allocation, None, kind, x.memory(), x.offset)


class RepeatedIndexing:
    """A call with indices of the same layouts: they are read anew, and ``use`` enqueues what they select.

    ``use`` gets the arguments, the values of the indices, and the place of the call.
    """

    def __init__(self, x: SimArray, indices: Sequence[SimArray], use: Callable[..., Any], operations: int = 2) -> None:
        self._simulator = machine.simulator()
        self._device = x.device
        self._count = len(indices)
        self._use = use
        self.operations = operations
        places = range(len(indices))
        self._reads = PreparedLaunch("index", x.device, dict.fromkeys(places, 0), reads=places, writes=(), makes=())

    def bind(self) -> Callable[..., Any]:
        """`repeat`, which asks Python for what the indices are."""
        return self.repeat

    def repeat(self, given: Sequence[Any], called_at: CalledAt) -> Any:
        stream = self._simulator.current(self._device)
        if stream.recorded is not None:
            return NotImplemented
        simulated, copies = self._simulator.machine, []
        with simulated.lock:
            read = lambda memories: copies.extend([each.copy() for each in memories])
            self._reads.enqueue(given[1 : 1 + self._count], read, is_library=True, called_at=called_at)
            assert stream.tail is not None
            simulated.engine.force(stream.tail)
        return self._use(given, tuple(copies), called_at)


def _run_gather(operands: tuple[Any, ...]) -> None:
    source, found, into = operands
    into[...] = source[found]


def _run_scatter(operands: tuple[Any, ...]) -> None:
    into, found, value = operands
    into[found] = value


def _prepare_gather(x: SimArray, shape: tuple[int, ...]) -> PreparedLaunch:
    made = NewArray(shape, x.dtype, x.device)
    return PreparedLaunch("index", x.device, {0: made.nbytes}, reads=(0,), writes=(), makes=(made,))


def _note_gather(x: SimArray, indices: Sequence[SimArray], out: SimArray) -> None:
    """Note ``x[indices]``."""
    launch, shape = _prepare_gather(x, out.shape), x.shape

    def use(given: Sequence[Any], found: Indices, called_at: CalledAt) -> SimArray:
        _check_indices(found, shape)
        return launch.enqueue((_restrict(given[0], found), found), _run_gather, is_library=True, called_at=called_at)[0]

    note(RepeatedIndexing(x, indices, use), (x, *indices), out)


def _note_select(x: SimArray, mask: SimArray, out: SimArray) -> None:
    """Note ``x[mask]``."""
    rest = out.shape[1:]
    by_count: Plans[PreparedLaunch] = Plans(64)
    """By the number of elements that the mask selects."""

    def use(given: Sequence[Any], found: Indices, called_at: CalledAt) -> SimArray:
        x = given[0]
        _wait_for_count(machine.stream(x.device))
        count = int(np.count_nonzero(found[0]))
        if not count or 0 in rest:
            return new((count, *rest), x.dtype, x.device)
        launch = by_count.get(count)
        if launch is None:
            launch = _prepare_gather(x, (count, *rest))
            by_count.keep(count, launch)
        return launch.enqueue((_restrict(x, found), found), _run_gather, is_library=True, called_at=called_at)[0]

    note(RepeatedIndexing(x, (mask,), use, operations=2 if out.size else 1), (x, mask), out)


def _note_scatter(x: SimArray, indices: Sequence[SimArray], value: Any) -> None:
    """Note ``x[indices] = value``."""
    reads, shape = (2,) if isinstance(value, SimArray) else (), x.shape
    launch = PreparedLaunch("assignment", x.device, {0: x.nbytes, 2: 0}, reads=reads, writes=(0,), makes=())

    def use(given: Sequence[Any], found: Indices, called_at: CalledAt) -> None:
        _check_indices(found, shape)
        operands = _restrict(given[0], found), found, given[-1]
        launch.enqueue(operands, _run_scatter, is_library=True, called_at=called_at)

    note(RepeatedIndexing(x, indices, use), (x, *indices, value), None)


# CUDA source: which bytes a launch touches is what its run has touched.
#
# What a kernel reads and writes depends on its numbers, its indices and the data, so nothing but a run can say. It is
# therefore computed when it is launched, behind all that CUDA's rules put before it, and the detector gets the bytes:
# those of its arguments, of the module's variables, and what pointers in structs and tables lead to. To wait for its
# turn would mean to check every later access again once the bytes are known, and to report a race at the line of a
# wait.
#
# A kernel has the addresses of the simulated devices, so that a pointer may lie in memory or in a struct, an index that
# leaves an array meets no other one, and a stale address is known.


def emulate(
    name: str, kernel: EmulatedKernel, args: Sequence[Any], written: Sequence[SimArray], stream: RawStream
) -> None:
    """Enqueue a raw kernel; ``written``: its arguments without ``const``, as which it counts without a detector."""
    on: SimStream = stream.stream  # type: ignore[attr-defined]  # a StreamHandle
    given = {number: args[number] for number in kernel}
    operands = {number: _memory_of(each, written) for number, each in given.items()}
    variables = () if kernel.memory is None else (kernel.memory,)
    launch = RawLaunch(name, kernel, given, operands, on)
    arrays.launch(
        name, launch.run, [*given.values(), *variables], [*written, *variables], on, uses_values=False,
        explore=launch.explore,
    )  # fmt: skip
    declare([*given.values(), *variables], on)


def _memory_of(array: SimArray, written: Sequence[SimArray]) -> np.ndarray[Any, Any]:
    memory = array.memory().view()
    memory.flags.writeable = array.info.is_writable or any(array is other for other in written)
    return memory


class RawLaunch:
    """One launch, perhaps repeated by a graph.

    It holds the blocks and not the arrays, which may die meanwhile.
    """

    def __init__(
        self,
        name: str,
        kernel: EmulatedKernel,
        given: dict[int, SimArray],
        operands: dict[int, np.ndarray[Any, Any]],
        stream: SimStream,
    ) -> None:
        self._name = name
        self._kernel = kernel
        self._blocks = {number: each.allocation.block for number, each in given.items()}
        self._offsets = {number: each.info.pointer - each.allocation.block.pointer for number, each in given.items()}
        self._operands = operands
        self._stream = stream
        self._simulated = machine.machine()

    def run(self) -> None:
        """Compute in its turn, where the detector is off."""
        touched: list[TouchedBytes] = []
        try:
            self._kernel.follow([*self._describe()], touched, self._find)
        finally:
            for each in touched:
                block, start = _find_place(each.operand)
                for span in _list_spans(block, start, each, each.written):
                    block.note_values(span)

    def explore(self) -> Explored:
        """Compute now."""
        touched: list[TouchedBytes] = []
        self._freed: Freed | None = None
        error: Exception | None = None
        try:
            self._kernel.follow([*self._describe()], touched, self._find)
        except KernelFaultError as fault:
            error = fault
            if self._freed is not None:
                error = self._report_freed(self._freed, fault)
        reads: dict[Span, None] = {}
        writes: dict[Span, None] = {}
        names = []
        for each in touched:
            operand = each.operand
            block, start = _find_place(operand)
            reads.update(dict.fromkeys(_list_spans(block, start, each, each.read)))
            writes.update(dict.fromkeys(_list_spans(block, start, each, each.written)))
            end, item = start + operand.memory.nbytes, max(operand.memory.itemsize, 1)
            name = operand.words if operand.kind else ""
            names.append(NamedBytes(block.data, start, end, name, item, tuple(each.lines)))
        return Explored(tuple(reads), tuple(writes), tuple(names), error)

    def _describe(self) -> list[KernelMemory]:
        found = []
        for number in self._kernel:
            block, memory = self._blocks[number], self._operands[number]
            start = self._offsets[number]
            values = block.pack_value_flags(start, start + memory.nbytes)
            found.append(self._kernel.describe(number, memory, block, values))
        return [*found, *self._list_pointed()]

    def _list_pointed(self) -> list[KernelMemory]:
        """The blocks of arguments into which a number or a struct points too: all of each may be used."""
        own = {block.pointer: block for block in self._blocks.values()}
        pointed: dict[int, KernelMemory] = {}
        for number, value in enumerate(self._kernel.values):
            if number in self._blocks:
                continue
            for (address,) in struct.iter_unpack("=Q", value[: len(value) // 8 * 8]):
                block = self._simulated.memory.find(address) if address else None
                if block is not None and block.pointer in own:
                    pointed[block.pointer] = _describe_block(block)
        return [*pointed.values()]

    def _find(self, address: int) -> KernelMemory | None:
        """The memory that a kernel reaches by a pointer which is no argument; beside an argument it has left that."""
        memory = self._simulated.memory
        block = memory.find(address)
        if block is None:
            self._freed = memory.find_freed(address)
            return None
        return None if any(block is each for each in self._blocks.values()) else _describe_block(block)

    def _report_freed(self, freed: Freed, fault: KernelFaultError) -> Exception:
        try:
            self._simulated.report_freed(freed, self._name, self._stream)
        except RaceError as error:
            error.__cause__ = fault
            return error
        return fault


def _describe_block(block: Block) -> KernelMemory:
    from xferlib.kernels.cuda_cpu.module import KernelMemory

    values = block.pack_value_flags(0, block.nbytes)
    return KernelMemory(block.where, block.data, address=block.pointer, kind="", values=values, owner=block)


def _find_place(operand: KernelMemory) -> tuple[Block, int]:
    """The block of an operand, and the offset there."""
    owner = operand.owner
    if isinstance(owner, Block):
        assert operand.address is not None
        return owner, operand.address - owner.pointer
    block: Block = owner.allocation.block  # of the variables of a module, whose addresses are the host's
    return block, operand.memory.ctypes.data - block.data.ctypes.data


def _list_spans(block: Block, start: int, touched: TouchedBytes, found: np.ndarray[Any, Any]) -> Iterator[Span]:
    """The bytes of a block that ``found`` holds, of an operand that begins at ``start``."""
    first, end = touched.find_extent(found)
    if first == end:
        return
    flags = touched.find_flags(found, first, end)
    if flags is None:
        yield Span(block, start + first, start + end)
    else:
        yield from (Span(*each) for each in model.regions_of(block, start + first, flags))
