"""Staging in C: the functions of the folder `staging`, where they have been compiled.

Threads that stage in Python hand the GIL to one another at each piece, and to the user's own threads; this part needs
it only to begin and to end, and its own helper threads never need it. Without it everything works,
more slowly: see `why_absent`.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
import sys
import threading
import zlib
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from xferlib._runtime import process

_Kind = TypeVar("_Kind", bound=type)
_FOLDER = __file__.rpartition(os.sep)[0]  # importing pathlib would take a fifth of what importing xferlib does
SOURCE = f"{_FOLDER}{os.sep}staging{os.sep}staging.c"
LIBRARY = f"{_FOLDER}{os.sep}{'staging.dll' if sys.platform == 'win32' else 'staging.so'}"


class Mark(ctypes.Structure):
    """A recording's note of one piece: nanoseconds of `time.perf_counter`, bytes, and the thread.

    The thread is the negative number of a helper, or else what `threading.get_ident` returns in it.
    """

    _fields_ = (
        ("begun_ns", ctypes.c_int64), ("ended_ns", ctypes.c_int64), ("nbytes", ctypes.c_int64),
        ("thread", ctypes.c_int64),
    )  # fmt: skip


MOST_AXES = 32
"""Of a `StridedLayout`."""
CACHE_LINE = 64
"""Bytes at whose multiples pieces of plain bytes begin, if the array does."""


class StridedLayout(ctypes.Structure):
    """The form of a host array; the dtypes on both sides are numbers, their places in `xferlib._core.dtypes`."""

    _fields_ = (
        ("axes", ctypes.c_int64),
        ("extents", ctypes.c_int64 * MOST_AXES), ("strides", ctypes.c_int64 * MOST_AXES),
        ("host_size", ctypes.c_int64), ("device_size", ctypes.c_int64),
        ("host_type", ctypes.c_int64), ("device_type", ctypes.c_int64), ("is_swapped", ctypes.c_int64),
    )  # fmt: skip


class Part(ctypes.Structure):
    """Host memory of one array, and its offset and size in a region, in bytes on the device."""

    _fields_ = (
        ("host", ctypes.c_void_p), ("place", ctypes.c_int64), ("nbytes", ctypes.c_int64),
        ("layout", ctypes.POINTER(StridedLayout)),
    )  # fmt: skip


class ArrayRegion(ctypes.Structure):
    """Contiguous bytes on the device, and what they are copied from or to on the host: one array, or many parts."""

    _fields_ = (
        ("host", ctypes.c_void_p), ("device", ctypes.c_uint64), ("nbytes", ctypes.c_int64), ("unit", ctypes.c_int64),
        ("layout", ctypes.POINTER(StridedLayout)), ("part", ctypes.POINTER(Part)), ("parts", ctypes.c_int64),
        ("is_fresh", ctypes.c_int64),
    )  # fmt: skip


# Field by field as the struct of the same name in C: the fingerprint tells that both come from one state of the source,
# not that they agree. Add, move or widen a field on both sides.
class Setup(ctypes.Structure):
    """The common part of transfers of one direction on one stream: see `staging.c`."""

    _fields_ = (
        ("ring", ctypes.c_void_p), ("stream", ctypes.c_void_p), ("copy", ctypes.c_void_p), ("record", ctypes.c_void_p),
        ("wait", ctypes.c_void_p), ("order", ctypes.c_void_p), ("enter", ctypes.c_void_p), ("context", ctypes.c_void_p),
        ("is_upward", ctypes.c_int64), ("most_chunks", ctypes.c_int64), ("shared_chunks", ctypes.c_int64),
        ("way_chunks", ctypes.c_int64), ("first_block", ctypes.c_int64), ("largest_block", ctypes.c_int64),
        ("block_parts", ctypes.c_int64), ("least_piece", ctypes.c_int64), ("most_piece", ctypes.c_int64),
        ("helper_nbytes", ctypes.c_int64), ("streamed_from", ctypes.c_int64), ("cached_from", ctypes.c_int64),
        ("shared_cached_from", ctypes.c_int64), ("patient_from", ctypes.c_int64), ("spin_ns", ctypes.c_int64),
        ("each_way", ctypes.c_int64), ("clearing", ctypes.c_int64), ("both_ways", ctypes.c_int64),
        ("is_marked", ctypes.c_int64), ("before_first", ctypes.c_void_p), ("after_last", ctypes.c_void_p),
    )  # fmt: skip


NO_MEMORY = -1
"""The result of ``xf_copy`` where the host has no memory for the transfer's state; nothing has been done."""
STARVED = -2
"""The same where the transfer has waited long for a chunk; the caller goes on with ``xf_run``."""


@functools.cache
def checksum() -> int:
    """The checksum of the C files in the folders here, which the libraries compiled from them carry too."""
    found = 0
    for folder in ("calls", "compute", "emulator", "replay", "staging"):
        for name in sorted(os.listdir(f"{_FOLDER}{os.sep}{folder}")):  # noqa: PTH208 - as above
            if name.endswith((".c", ".h")):
                with open(f"{_FOLDER}{os.sep}{folder}{os.sep}{name}", "rb") as file:
                    found = zlib.crc32(file.read(), found)
    return found


def load(path: str | os.PathLike[str]) -> Any:
    """The functions of a compiled library.

    Raises:
        OSError: It cannot be loaded, or was made from another source.
    """
    library = ctypes.CDLL(os.fspath(path))
    name = os.fspath(path).rpartition(os.sep)[2]
    try:
        made_from = ctypes.c_uint32.in_dll(library, "xf_fingerprint").value
    except ValueError as error:
        raise OSError(f"{name} is not what staging.c compiles to: {error}") from None
    # Before any call: an old library would read the structures above by offsets that are no longer theirs.
    if made_from != checksum():
        raise OSError(f"{name} was compiled from other C files; run python -m xferlib._native.build")
    pointer, number, size = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
    layout = ctypes.POINTER(StridedLayout)
    filling = (pointer, pointer, *[number] * 5)
    functions: tuple[tuple[Any, ...], ...] = (
        ("xf_ring_new", pointer),
        ("xf_ring_close", None, pointer),
        ("xf_ring_add", number, pointer, pointer, pointer),
        ("xf_ring_remove", number, pointer),
        ("xf_ring_lent", number, pointer, number),
        ("xf_ring_free", number, pointer),
        ("xf_ring_usable", number, pointer),
        ("xf_open", pointer, pointer),
        ("xf_add", size, pointer, pointer, number, size, number),
        ("xf_run", size, pointer, number),
        ("xf_end", number, pointer),
        ("xf_marks", number, pointer, ctypes.POINTER(ctypes.POINTER(Mark))),
        ("xf_close", None, pointer, size),
        ("xf_copy", number, pointer, pointer, number, ctypes.POINTER(pointer)),
        ("xf_cut", None, pointer, number, number, ctypes.POINTER(number)),
        ("xf_is_crowded", size),
        ("xf_rouse", None, number, number),
        ("xf_collect", None, pointer, number, number, pointer),
        ("xf_host_copy", None, layout, pointer, pointer, number, size, *[number] * 4),
        ("xf_fill", None, *filling),
        ("xf_fill_begin", pointer, *filling),
        ("xf_fill_end", None, pointer),
        ("xf_fill_parts", None, pointer, pointer, *[number] * 8),
        ("xf_unit", number, layout),
        ("xf_spread", None, layout, pointer, number, number, pointer, size, size),
    )
    # Without these ctypes passes a Python integer as a C int and cuts addresses to 32 bits.
    for name, result, *arguments in functions:
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, result
    return library


@functools.cache
def _load_library() -> tuple[Any, str]:
    try:
        return load(LIBRARY), ""
    except OSError as error:
        return None, str(error) if os.access(LIBRARY, os.F_OK) else "not compiled; run python -m xferlib._native.build"


def is_wanted() -> bool:
    """Whether compiled parts are used where they exist."""
    return process.get().native != "off"


def is_wanted_at_import() -> bool:
    """`is_wanted`, for what is chosen while xferlib is imported, which must not settle the configuration yet."""
    return os.environ.get("XFERLIB_NATIVE", "").strip() != "off"


def is_on() -> bool:
    """Whether staging in C is compiled and wanted."""
    return process.get().native != "off" and _load_library()[0] is not None


def load_library() -> Any:
    """The compiled functions; None if they are not compiled."""
    return _load_library()[0]


@functools.cache
def addresses_of(*names: str) -> tuple[int, ...]:
    """The addresses of compiled functions, for C of another library to call."""
    library = load_library()
    return tuple(ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in names)


def why_absent() -> str:
    """Why `load_library` gives None; empty where it is not."""
    return _load_library()[1]


def tell_if_absent() -> None:
    """Warn, at the user's line, where nothing is compiled that could be; called once, before the first transfer."""
    if os.access(LIBRARY, os.F_OK) or sys.platform == "win32" or not is_wanted_at_import():
        return
    from xferlib._runtime import checks

    checks.warn(
        "xferlib's parts in C are not compiled: large transfers take longer, and hold the GIL meanwhile. Install a C "
        "compiler (gcc or clang) and run `python -m xferlib._native.build`, or set XFERLIB_NATIVE=off to go without"
    )


# The functions of the folders `calls` and `replay`; where they are not compiled, ctypes calls C functions by address.
#
# A call with three integers takes 0.1 us, and 0.8 through ctypes. Binding gives a function of C, one through ctypes, or
# None where the caller then does the same in Python: the setting ``native`` and the compiler's absence are looked at
# when a function is bound, never when it is called. Functions that are bound while xferlib is imported look at the
# variable alone, since the configuration may still be changed.
#
# Every call of the driver releases the GIL, but for those that cannot block (``keeps_lock``): `calls.c` says why.

CALLS_SOURCE = f"{_FOLDER}{os.sep}calls{os.sep}calls.c"
CALLS_LIBRARY = f"{_FOLDER}{os.sep}{'_calls.pyd' if sys.platform == 'win32' else '_calls.abi3.so'}"
MODULE = f"{__package__}._calls"


def load_calls(name: str) -> Any:
    """The compiled module of that name.

    Raises:
        ImportError: It cannot be loaded, or was made from another source.
    """
    module = importlib.import_module(name)
    if module.fingerprint != checksum():
        raise ImportError(f"{name} was compiled from other C files; run python -m xferlib._native.build")
    return module


@functools.cache
def _load_calls() -> tuple[Any, str]:
    if not os.access(CALLS_LIBRARY, os.F_OK):
        return None, "not compiled; run python -m xferlib._native.build where Python's headers are installed"
    try:
        return load_calls(MODULE), ""
    except ImportError as error:
        return None, str(error)


def why_calls_absent() -> str:
    """Why calls go through ctypes; empty where they do not."""
    return _load_calls()[1]


def find_calls() -> Any:
    """The compiled functions for trees, addresses and leases; None where the caller does the same in Python.

    - ``is_distinct(list)``: whether no object is in it twice.
    - ``flatten(tree, arrays, others)``: the leaves of a tree of nothing but dicts, lists and tuples; None where there
      is any other object than those whose types are a dict's keys, with values that are not None, or in a set.
    - ``rebuild(tree, leaves)``: new containers with as many other leaves.
    - ``copy_small(list, most)``: a list with copies of its NumPy arrays of up to ``most`` bytes, and how many others it
      has.
    - ``locate(arrays, offsets, address)``: how many of them are not plain bytes in C order; the `Part` at the address
      of each of the others is written.
    - ``address(array)``: where it lies; 0 if not in C order.
    - ``call_between(before, function, after)``: the function's result; ``after`` is called whatever fails, Ctrl-C too.
    - ``lend(type, free, dead)``: a lease, of a subclass of `lease_type`, of the last of the free blocks, or None. It is
      a buffer over the block's memory. Its death puts the block into the list, or into the queue of dead ones if the
      block's ``events`` are not empty. A block has ``pointer``, ``nbytes``, ``events`` and ``user``, which becomes a
      weak reference to the lease, and None where it goes back to the list.
    """
    return _load_calls()[0] if is_wanted() else None


def replay() -> Any:
    """The functions of `replay.c`; None where it is not compiled, or not wanted while xferlib is imported."""
    return _load_calls()[0] if is_wanted_at_import() else None


def bind_namespaces(
    by_type: dict[type, Any],
    namespaces: dict[type, ModuleType],
    look_up: Callable[..., ModuleType],
    *,
    in_python: Callable[..., ModuleType],
) -> Callable[..., ModuleType]:
    """``in_python``, which finds the namespace of arrays by two tables, compiled; itself where that is not possible.

    Args:
        by_type: The backend of each type, None for what is no array. Types whose arrays may be mixed have the same one.
        namespaces: The namespace of types that are in the other table too.
        look_up: Called for arguments of which the tables do not tell.
        in_python: The compiled function has its module and docstring.
    """
    if not is_wanted_at_import() or (module := _load_calls()[0]) is None:
        return in_python
    doc = f"{in_python.__name__}(*arrays)\n--\n\n{in_python.__doc__}"
    made: Callable[..., ModuleType] = module.bind_namespaces(by_type, namespaces, look_up, in_python.__module__, doc)
    return made


def bind_scan(operation: str, dtype: Any) -> Callable[..., bool] | None:
    """A function that computes the running results of a row; None where there is none.

    It takes the row, the row of the results, and the length of each segment, or flags where one begins. The arrays are
    of one axis, of the dtype; the results may be the row itself, else are apart from it. It returns False, a no-op,
    where they are not in C order. With None, for one segment, it takes any objects, and returns False where they are
    not such arrays.

    Args:
        operation: Its name, as in `scan.c`.
        dtype: NumPy's, in native byte order.
    """
    if (module := find_calls()) is None:
        return None
    import numpy as np  # here: what needs no arrays imports this package, too

    made: Callable[..., bool] | None = module.bind_scan(operation, dtype.str[1:], np.ndarray, dtype)
    return made


def bind_fold(*facts: Any) -> Callable[[tuple[Any, ...]], Any] | None:
    """A function that calls a compiled reduction on NumPy arrays of one layout; None where it is not compiled.

    It gives ``NotImplemented`` for another call; `fold.c` has the arguments here.
    """
    return _bind_for_numpy("bind_fold", *facts)


def bind_front(call: Callable[..., Any], *facts: Any) -> Callable[..., Any]:
    """The first look at a kernel's call, as `front.c` has it; ``call`` itself where it is not compiled."""
    module = find_calls()
    found: Callable[..., Any] = call if module is None else module.bind_front(call, *facts)
    return found


def inherit_vectorcall(kind: _Kind) -> _Kind:
    """Let objects of a class be called as fast as its base's; again after the class has got another ``__call__``."""
    if (module := find_calls()) is not None:
        module.inherit_vectorcall(kind)
    return kind


def bind_host_call(*facts: Any) -> Callable[[tuple[Any, ...], Any], Any] | None:
    """Make a function that calls a compiled kernel, ``(arguments, out)``; None where C does not do that.

    It gives ``NotImplemented`` for a call that Python has to check; `host.c` has the arguments here.
    """
    return _bind_for_numpy("bind_host", *facts)


def _bind_for_numpy(name: str, *facts: Any) -> Callable[..., Any] | None:
    """Call a function that takes NumPy's C API; None where it is not compiled, or where NumPy has another ABI."""
    if (module := find_calls()) is None:
        return None
    try:
        found: Callable[..., Any] | None = getattr(module, name)(*facts)
    except RuntimeError:
        return None
    return found


# Kernels on simulated arrays, as `simulator.c` enqueues them.


def set_simulator(machine: Any, local: Any, *facts: Any) -> Callable[[list[Any], dict[Any, None], Any], int] | None:
    """Let the functions of `simulator.c` work on a machine of the simulator; returns what carries out operations.

    `simulator.c` has the other arguments here.
    """
    if (module := find_calls()) is None:
        return None
    import numpy as np

    try:
        module.set_simulator(machine, local, np.ndarray, np._core.multiarray._ARRAY_API, *facts)  # type: ignore[attr-defined]
    except RuntimeError:  # a NumPy of another ABI
        return None
    found: Callable[[list[Any], dict[Any, None], Any], int] = module.carry_out
    return found


def bind_simulated(name: str, *facts: Any) -> Callable[..., Any] | None:
    """Make a function of `simulator.c`, which has the arguments here; None where it is not compiled.

    ``launch``: `PreparedLaunch.enqueue` of arguments, what computes, and the place of the call. ``call``: a call that
    comes to one launch. ``steps``: `KnownSteps.repeat`. ``operation``: repeats known calls of another function, of
    arguments, options, and the frame of the caller.
    """
    module = find_calls()
    return None if module is None else getattr(module, f"bind_simulated_{name}")(*facts)


class NoLease:
    """In place of the compiled base of leases, where it is absent."""

    __slots__ = ()


def lease_type() -> type:
    """The base of compiled leases of the pinned pool; `NoLease` where it is not compiled."""
    module = _load_calls()[0]
    found: type = NoLease if module is None else module.Lease
    return found


class NoReader:
    """In place of the compiled base of iterators over batches, where it is absent: no batch is handed out by C."""

    __slots__ = ("_reader",)

    def __next__(self) -> Any:
        return self._take()  # type: ignore[attr-defined]


def batches_type() -> type:
    """The base of iterators over batches: ``_reader`` hands out those that it can, the method ``_take`` the others."""
    module = _load_calls()[0]
    found: type = NoReader if module is None else module.Batches
    return found


def guard_thread() -> None:
    """Let the calling thread stop where the interpreter's end would end it, without destroying what it owns.

    A library may abort the process when it destroys what belongs to a thread. A no-op where it is not compiled.
    """
    if (module := _load_calls()[0]) is not None:
        module.guard_thread()


def end_threads() -> None:
    """The calling thread ends the interpreter: from now guarded threads stop, and those that would abort the process.

    A thread aborts it if the interpreter ends that thread within C++ code that must not be left so.
    """
    if (module := _load_calls()[0]) is not None:
        module.end_threads()


_CALL, _QUESTION, _COPY_BEHIND, _COPY_EACH = range(4)
"""The kinds of functions that call others by their addresses, as in `calls.c`."""


def bind(address: int, count: int, *, keeps_lock: bool) -> Callable[..., int]:
    """The C function at an address.

    Args:
        address: Of ``int function(...)``.
        count: How many arguments it has, at most four: 64-bit integers and pointers, or smaller unsigned integers,
            which travel in the same registers.
        keeps_lock: Keep the GIL meanwhile: only for functions that can never block, not even on another thread's lock.
    """
    if (module := find_calls()) is not None:
        made: Callable[..., int] = module.bind(_CALL, count, keeps_lock, address)
        return made
    prototype = ctypes.PYFUNCTYPE if keeps_lock else ctypes.CFUNCTYPE
    return prototype(ctypes.c_int, *[ctypes.c_uint64] * count)(address)


def bind_question(address: int) -> Callable[[], int]:
    """The C function ``int function(void **answer)`` at an address, without arguments: the answer, 0 where it fails."""
    if (module := find_calls()) is not None:
        made: Callable[[], int] = module.bind(_QUESTION, 0, True, address)
        return made
    function = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(address)
    # One for each thread: a call of the driver releases no GIL here, but two threads may still take turns between the
    # call and the look at its answer.
    answers = _Answers()

    def ask() -> int:
        return 0 if function(answers.reference) else answers.pointer.value or 0

    return ask


class _Answers(threading.local):
    """Memory in which a C function writes a pointer for the calling thread."""

    def __init__(self) -> None:
        self.pointer = ctypes.c_void_p()
        self.reference = ctypes.byref(self.pointer)


def bind_copy_behind(record: int, wait: int, copy: int, current: int, enter: int) -> Callable[..., int] | None:
    """A function that orders a copy behind another stream's work, in one step; None where that is not compiled.

    It takes destination, source and bytes, the stream that is followed and an event to follow it by, the stream of the
    copy and an event for the end of it, the contexts of both streams, or 0 where no other can be current, and whether
    the first stream then waits for the copy. It returns the driver's first result that is not 0. The GIL is released
    meanwhile.

    Args:
        record: The address of ``int record(void *event, void *stream)``.
        wait: Of ``int wait(void *stream, void *event, unsigned flags)``.
        copy: Of ``int copy(uint64_t destination, uint64_t source, size_t nbytes, void *stream)``.
        current: Of ``int current(void **context)``: the thread's.
        enter: Of ``int enter(void *context)``: make it the thread's.
    """
    if (module := find_calls()) is None:
        return None
    made: Callable[..., int] = module.bind(_COPY_BEHIND, 10, False, record, wait, copy, current, enter)
    return made


def bind_copy_each(copy: int) -> Callable[[list[int], list[int], list[int], int], int] | None:
    """A function that enqueues many copies on one stream, in one call; None where that is not compiled.

    It takes lists of destinations, sources and sizes in bytes, and the stream, and returns the driver's first result
    that is not 0. The GIL is released meanwhile.

    Args:
        copy: The address of ``int copy(uint64_t destination, uint64_t source, size_t nbytes, void *stream)``.
    """
    if (module := find_calls()) is None:
        return None
    made: Callable[[list[int], list[int], list[int], int], int] = module.bind(_COPY_EACH, 4, False, copy)
    return made


def bind_alike(names: tuple[str, ...], arrays: Sequence[Any]) -> Callable[..., bool] | None:
    """A function that compares as many arrays with these, by their types and attributes; None where not compiled."""
    if (module := find_calls()) is None:
        return None
    values = tuple(tuple(getattr(each, name) for name in names) for each in arrays)
    made: Callable[..., bool] = module.bind_alike(tuple(map(type, arrays)), names, values)
    return made


def bind_plain(
    check: Callable[..., bool], flag: str, table: dict[str, Any], key: str, state: Callable[[], Any]
) -> Callable[..., bool] | None:
    """A function that asks ``check`` of arrays; None where that is not compiled.

    It says False, and asks nothing, where the attribute ``flag`` of an array is true, ``table[key]`` is not negative,
    or ``state()`` is not None.
    """
    if (module := find_calls()) is None:
        return None
    made: Callable[..., bool] = module.bind_plain(check, flag, table, key, state)
    return made


def bind_launch(
    launch: int,
    kernel: int,
    config: bytes,
    stream_at: int,
    matches: Callable[..., bool],
    address: ArrayAddress,
    note: Callable[[Any, str], None] | None,
    fields: tuple[LaunchField, ...],
) -> Callable[[Any, int], int] | None:
    """A function that repeats a checked launch; None where that is not compiled, or the arguments are too many.

    It takes the arguments, a tuple or a list, and the handle of a stream, and returns the driver's result. It returns
    `NOT_FIT`, with nothing done, where the arguments must be checked anew: a type is another, ``matches`` says so, an
    address is not aligned, or a number is out of range. Threads may call it at the same time; the GIL is released while
    the driver launches.

    Args:
        launch: The address of ``int launch(const void *config, void *kernel, void **arguments, void **more)``.
        kernel: Its second argument.
        config: What its first one points to.
        stream_at: Where in ``config`` the stream is written, in bytes.
        matches: Called with the arrays.
        address: How an array tells its address.
        note: Called with each array that is written and its label, before the launch.
        fields: The parameters.
    """
    if (module := find_calls()) is None:
        return None
    if len(fields) > _MOST_PARAMETERS or any(field.offset > _MOST_OFFSET for field in fields):
        return None
    made: Callable[[Any, int], int] = module.bind_launch(
        launch, kernel, config, stream_at, matches, address.names, address.is_method, note, fields
    )
    return made


def bind_new_launch(
    launch: int,
    steps: tuple[tuple[int, bytes, tuple[int, ...]], ...],
    stream_at: int,
    matches: Callable[..., bool],
    address: ArrayAddress,
    note: Callable[[Any, str], None] | None,
    fields: tuple[LaunchField, ...],
    block: bytes,
    makers: tuple[tuple[Calls, Calls | None, int, int], ...],
    spare: int,
    given: GivenOutputs | None,
    only: int | None,
    others: Callable[..., Any] | None,
    owner: Any,
    streams: LaunchStreams,
    device: Any,
    is_current: Callable[[Any], bool] | None,
) -> Callable[[tuple[Any, ...], Any], Any] | None:
    """A function that launches a checked call, and makes its outputs unless it is given them.

    It takes the arguments, and None or the last output, and returns the outputs, a tuple if there are several. It
    returns `NotImplemented`, with no output written, where `bind_launch` returns `NOT_FIT`; where the driver refuses a
    launch, or an output cannot be made; on a stream that is another one than ``only`` or CUDA's of the handles 1 and 2;
    and while any stream is captured, but on the default one. None as for `bind_launch`.

    Args:
        launch, matches, address, note: As of `bind_launch`.
        steps: One or two launches in order: of each the kernel, what its configuration is, and where its arguments are
            in ``block``, in bytes.
        stream_at: Where in a configuration the stream is written, in bytes.
        fields: The arguments of the call.
        block: The arguments of the kernels, of which those of the call and the outputs are replaced.
        makers: The calls that make each output on the default stream, and those that do on another one, of which the
            first has that before its arguments; None: the same on any. Two places for its address in ``block``, which
            may be the same.
        spare: Of the outputs the last ones, which are memory for the launches and are not returned.
        given: What is known of outputs among the arguments; None: all are new.
        only: The handle of the one stream that the arguments are for; None: any.
        others: Takes the calls on other streams.
        owner: The backend: while it ``has_made_streams``, uses on the default stream are noted as well.
        streams: The library's streams.
        device: Where to launch.
        is_current: Called with ``device``; None where there is one alone.
    """
    most = max(len(fields), *(len(offsets) for _, _, offsets in steps))
    if (module := find_calls()) is None or most > _MOST_PARAMETERS:
        return None
    pairs, returned = ((), None) if given is None else given
    if len(block) > _MOST_OFFSET or len(pairs) > _MOST_PAIRS:
        return None
    made: Callable[[tuple[Any, ...], Any], Any] = module.bind_new_launch(
        launch, steps, stream_at, matches, address.names, address.is_method, note, fields, block, makers, spare,
        pairs, returned, only, others, owner, "has_made_streams", streams, device, is_current
    )  # fmt: skip
    return made


def bind_owner(
    record: int,
    wait: int,
    idle: list[int],
    captures: list[Any],
    make_guard: Callable[[Any], Any],
    stream_handle: Callable[[Any], int],
    device: Any,
    is_inside: Callable[[Any], bool] | None,
) -> tuple[Callable[[Any, Any], Any], Callable[[Any], bool]] | None:
    """Two functions for memory that streams share; None where that is not compiled.

    The first takes an allocation and the stream that it belongs to, and returns its owner: an object with ``handle``,
    that of the stream, and ``used_on(stream)``. The owner gives the allocation to a guard when the memory is used on
    another stream, or when it dies and more is to be waited for than the device's current stream.

    The second takes a stream, lets it wait for the work enqueued so far on the default stream, and returns True, if it
    or the default stream is the current one. It returns False where Python has to look: another stream is current, no
    event is idle, the driver refuses, or a stream is captured.

    Args:
        record: The address of ``int record(uint64_t event, uint64_t stream)``; 0: Python orders all streams.
        wait: The address of ``int wait(uint64_t stream, uint64_t event, unsigned flags)``.
        idle: The handles of events of the device which may be recorded anew.
        captures: Empty while no stream is captured.
        make_guard: Called with a stream: a guard without memory, whose attribute ``allocation`` is then set.
        stream_handle: Called with ``device``: the handle of the current stream.
        device: That of the memory.
        is_inside: Called with ``device``: whether its context is current; None where there is one device.
    """
    if (module := find_calls()) is None:
        return None
    made: tuple[Callable[[Any, Any], Any], Callable[[Any], bool]] = module.bind_owner(
        record, wait, idle, captures, make_guard, stream_handle, device, is_inside, sys.is_finalizing
    )
    return made


Calls = tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...]
"""Functions and their arguments, which make an array one after the other: each but the first has the array before its
arguments, and returns the one that takes its place, or None."""


class CurrentStream(NamedTuple):
    """How a library tells its current stream: by a call, and by attributes of what that returns."""

    function: Callable[[Any], Any]
    argument: Any
    names: tuple[str, ...] = ()
    """The attributes that lead to its handle; none where the function returns it."""


class GivenOutputs(NamedTuple):
    """Outputs among the arguments of a call."""

    pairs: tuple[tuple[int, int, int, int, int | None], ...]
    """The numbers of an array that is written and of another one; the two ends of the distances of their addresses,
    from the first to the second, between which they share memory; and the distance in the checked call if they did."""
    returned: tuple[int, ...] | None
    """The numbers of the outputs; None: those are new arrays."""


class MemoryPath(NamedTuple):
    """How an array tells to which stream its memory belongs, whose own uses are not noted."""

    names: tuple[str, ...]
    """The attributes that lead from an array to its memory."""
    kind: type | None
    """The type of memory whose uses are noted, exactly; None: of any."""
    owner: tuple[str, ...]
    """The attributes that lead from the memory to the handle of its stream."""


class LaunchStreams(NamedTuple):
    """The current stream of a library, and the streams that its arrays' memory belongs to."""

    memory: MemoryPath | None
    """Where arrays tell whose their memory is; None: the use of any array on a stream is noted."""
    note: Callable[[Any, Any], None]
    """Notes the use of an array on a stream."""
    current: CurrentStream
    """How the library tells its current stream on the device."""
    find: Callable[[Any], Any]
    """Called with the device: the object for that which `note` and the makers take."""
    captures: list[Any]
    """Empty while no stream is captured."""
    is_captured: int = 0
    """The address of a function like CUDA's ``cuStreamIsCapturing``, for calls of one stream: any library may record
    it, and what it records may run on another one. 0: none does."""


class ArrayAddress(NamedTuple):
    """The attributes that lead from an array to the address of its memory, or to an object that `int` makes one of."""

    names: tuple[str, ...]
    is_method: bool = False
    """The last attribute is called."""


class LaunchField(NamedTuple):
    """A parameter of a launch that is repeated."""

    type: type
    """Of the argument, exactly."""
    code: str
    """``A`` for an array, ``N`` for one that has elements; else that of `struct`: one of ``?bhiqBHIQfd``."""
    offset: int
    """In the block of arguments, in bytes."""
    mask: int = 0
    """The bits of an array's address that are compared."""
    label: str | None = None
    """The name of an array that is written, for the library's books."""
    rest: int = 0
    """The value of those bits."""


NOT_FIT = -1
"""The result of a repeated launch whose arguments must be checked anew."""
_MOST_PARAMETERS, _MOST_OFFSET, _MOST_PAIRS = 64, 1016, 32
