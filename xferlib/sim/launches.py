"""Kernels on simulated arrays: a call that comes again is enqueued by what it does anew each time, and nothing else.

What a kernel is, which arrays it reads, writes and makes, and what it costs on the virtual clock follows from the
layouts of its arguments. A `PreparedLaunch` knows that. What is left is to order the operation, to check its accesses,
and to remember them; where an array is used as a whole and by one stream alone, as most are, the last two take a
comparison and an assignment for each array. That is compiled (`simulator.c`). All else, and all of it where nothing is
compiled, goes the way of every operation, `Machine.allocate` and `Machine.enqueue`.

A function of the namespace comes to such a call by way of many checks, which only the layouts decide. So it remembers
the launch that it came to, by the layouts, and does the same again (`operation`).
"""

from __future__ import annotations

import functools
import math
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib import _native
from xferlib._core import arrays as core
from xferlib._core.arrays import c_strides
from xferlib._runtime import checks
from xferlib._runtime.checks import CodeLocation, call_from, user_call
from xferlib.kernels.plans import Plans
from xferlib.sim import detector, machine, memory, model, schedules, timing
from xferlib.sim.arrays import ArrayKind, SimArray, find_kind, kind_of, spans_of
from xferlib.sim.machine import KERNELS, Allocation, Lifetimes, Machine
from xferlib.sim.model import HostThread, LastOwner, Operation, SimStream

if TYPE_CHECKING:
    from xferlib._core.device import Device
    from xferlib.sim.memory import Block, Spans

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
        machine.machine().check(operation, stream, reads, self.list_written(given, made))

    def list_written(self, given: Sequence[Any], made: Sequence[SimArray]) -> Spans:
        return spans_of([*[given[number] for number in self.writes], *made])

    def note(self, array: SimArray, operation: Operation, is_write: bool) -> None:
        """Remember an access that comes after all others."""
        block = array.allocation.block
        block.note(array.spans()[0], operation, is_write=is_write)
        block.prune(machine.machine().is_known)


class PreparedLaunch:
    """A kernel on arrays of the same layouts, to be enqueued again and again.

    Args:
        name, device: Of the operation.
        infos: The layouts of the arguments that are arrays, by position.
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
            self.in_c = _native.bind_simulated_launch(
                simulator.machine, accesses, name, device, (device.index, KERNELS),
                simulator.machine.streams[device].legacy, accesses.reads, accesses.used, self._nbytes, *facts,
            )  # fmt: skip

    def enqueue(
        self, given: Sequence[Any], run: Callable[[tuple[Any, ...]], object], *, is_library: bool | None = None,
        called_at: tuple[CodeLocation, str] | None = None,
    ) -> list[SimArray]:  # fmt: skip
        """Enqueue ``run`` on the memory of the arrays and on the numbers given; returns the new arrays.

        Args:
            given: The arguments.
            run: Computes.
            is_library: Whether it stands for an operation of an array library; None: the thread knows.
            called_at: The program's line and the function that it called, if they are known.
        """
        called_at = called_at if called_at is not None else user_call(2)
        found = NotImplemented if self.in_c is None else self.in_c(given, run, called_at)
        if found is not NotImplemented:
            made = [] if found is None else [found]
        else:
            made = self._enqueue_any(given, run, called_at)
        if not is_library:
            self._declare(given, is_library=is_library)
        return made

    def _declare(self, given: Sequence[Any], *, is_library: bool | None) -> None:
        stream = self._simulator.current(self._device)
        for number in self._accesses.used:
            allocation = given[number].allocation
            if allocation.block.stream is not stream and (is_library is False or not is_inside()):
                allocation.users[stream.key] = stream

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
        found = _native.bind_simulated_call(self.in_c, *runs, python, tuple(apart), tuple(numbers), result)
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
    found = _native.bind_simulated_steps(tuple((repeat, tuple(sources)) for repeat, sources in steps), result)
    return found if found is not None else KnownSteps(steps, result).repeat


def _take(source: Source, args: Sequence[Any], made: Sequence[Any]) -> Any:
    if type(source) is KnownView:
        return source.over(args[source.place] if source.place >= 0 else made[~source.place])
    if type(source) is ConvertedNumber:
        return core.number(args[source.place], source.dtype)
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
    in_c = _native.bind_simulated_operation(repeats._known, name, _KEYS.index(repeats.make_key))

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
