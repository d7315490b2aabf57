"""Runs programs on a CPU by compiled C: chooses the engine, compiles in the background, and calls.

A compiler takes from a tenth of a second to several, so no call waits for it: the first calls run on the NumPy engine,
and a call after the compiler's end finds the function. The bits are the same before and after. A program that is called
once is never compiled.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import struct
import threading
import weakref
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib import _native
from xferlib._core.dtypes import DTYPES, SMALL_FLOATS, dlpack_type, name_of
from xferlib._runtime import checks, process, threads
from xferlib.errors import KernelCompileError, KernelError, XferError
from xferlib.kernels import host_compiler, native_source
from xferlib.kernels.ir import LEAVES, Node, Program, facts, layout_of_call
from xferlib.kernels.native_source import HEAD, STORED_BLOCK, FailureSite, NativeSource
from xferlib.kernels.numpy_engine import (
    NumpyPlan,
    make_index_error,
    make_stored_error,
    make_turns_error,
)

if TYPE_CHECKING:
    from xferlib._core.backend import Backend

A = np.ndarray[Any, Any]
_numpy: Any = np  # whose parts have no types

# --- compiled functions, one for each program of the process

_MOST_KERNELS = 4096
_MOST_WAITING = 64
_EXIT_TURNS = 100
"""Tenths of a second that the exit waits for the compiler's thread."""
_MOST_FAILURES = 3
"""Failures one after the other that are no longer taken for the texts'."""
COMPACT_OPTIONS = (*(each for each in native_source.OPTIONS if each != "-funroll-loops"), "-fweb", "-frename-registers")
"""The compiler's for texts of many loops: to unroll them all takes as long as everything else."""
_MOST_LINES = 512
"""Of a function that a compiler is told to make as fast as it can."""
CALLS_BEFORE = 2
"""The call of a program at which it is handed to the compiler."""


class NativeKernel:
    """The compiled function of a program, or how far it is.

    ``why_not`` says why there will be none, empty while there may be. ``others`` are programs in the same function.
    """

    def __init__(self, program: Program, *others: Program) -> None:
        self.program = program
        self._programs = (program, *others)
        self.why_not = next(filter(None, map(native_source.why_not, self._programs)), "")
        self.function: int | None = None
        """Its address, once it is there."""
        self.source: NativeSource
        self._calls = 0
        self._is_asked = False
        self._lock = threading.Lock()
        _made.add(self)

    def count(self) -> None:
        """Note a call on the NumPy engine; one of them hands the program to the compiler."""
        self._calls += 1
        if self._calls >= CALLS_BEFORE and not self._is_asked and not self.why_not:
            self._is_asked = _compiler.submit(self)

    def is_ready(self) -> bool:
        """Whether to run it at this call; a call on the NumPy engine is counted."""
        mode = process.get().cpu
        if mode == "numpy" or self.why_not:
            _compiler.tell_of_fault()
            return False
        if self.function is None and mode == "native":
            self.compile()
        if self.function is None:
            self.count()
        return self.function is not None

    def reset(self) -> None:
        """Ask again: the thread that was asked is gone."""
        self._is_asked = False
        self._lock = threading.Lock()

    @functools.cached_property
    def runner(self) -> _Runner:
        """Runs the function, once it is there."""
        return _Runner(self)

    def compile(self) -> None:
        """Compile, or load from the cache, unless that is done.

        Raises:
            KernelCompileError: There is no compiler, or it fails.
        """
        with self._lock:
            if self.function is not None or self.why_not:
                return
            compiler = host_compiler.find_compiler()
            if compiler is None or compiler.is_tcc:
                raise KernelCompileError(
                    "XFERLIB_CPU=native needs a C compiler that optimises, and there is no cc, gcc or clang; install "
                    "one, or pip install ziglang, or unset it"
                )
            target = host_compiler.find_target(compiler)
            if any(map(native_source.needs_fma, self._programs)) and not target.has_fma:
                self.why_not = "this processor has no fused multiply-add"
                return
            self.function = self._build(target)

    def _build(self, target: host_compiler.Target) -> int | None:
        """Compile and load; the address of the function."""
        self.source = native_source.native_source(self.program)
        self.form = (ctypes.c_longlong * len(self.source.form))(*self.source.form)
        self.driver = _load_driver(target)
        library = host_compiler.load_c(self.source.text, flags=_options_for(self.source), target=target)
        return ctypes.cast(getattr(library, native_source.ENTRY), ctypes.c_void_p).value


def _options_for(source: native_source.NativeSource) -> tuple[str, ...]:
    """The compiler's options for a program.

    What it does for speed takes it the square of a function's length: minutes for a loop of fifty turns that is written
    out, each of them within the conditions of all before.
    """
    is_long = source.text.partition(native_source.ENTRY)[2].count("\n") > _MOST_LINES
    return tuple("-O1" if is_long and each == "-O3" else each for each in native_source.OPTIONS)


@functools.cache
def _load_driver(target: host_compiler.Target) -> Any:
    """The function that calls those of programs; one for all of them, which look at the settings from now on."""
    _follow_settings()
    text = native_source.section("prelude") + native_source.section("driver")
    function = getattr(host_compiler.load_c(text, flags=COMPACT_OPTIONS, target=target), native_source.DRIVER_ENTRY)
    pointer, number = ctypes.c_void_p, ctypes.c_longlong
    function.restype = ctypes.c_int
    function.argtypes = (pointer, pointer, pointer, pointer, number, number, pointer, pointer)
    return function


_settings = (ctypes.c_longlong * 3)(1, 0, 0)
"""Whether compiled functions are wanted, the most turns of a loop, and of threads, 0 for all cores: C reads them."""


def _follow_settings() -> None:
    config = process.get()
    _settings[:] = [config.cpu != "numpy", config.loop_turns, config.threads or 0]


process.watchers["loop_turns"] = process.watchers["threads"] = _follow_settings

_made: weakref.WeakSet[NativeKernel] = weakref.WeakSet()
"""All of this process: those of reductions and scans too."""
_kernels: dict[str, NativeKernel] = {}


def kernel_of(program: Program) -> NativeKernel:
    """The one kernel of all programs that compute the same."""
    found = _kernels.get(program.text)
    if found is None:
        while len(_kernels) >= _MOST_KERNELS:
            with contextlib.suppress(RuntimeError, StopIteration):  # another thread's turn
                _kernels.pop(next(iter(_kernels)), None)
        found = _kernels.setdefault(program.text, NativeKernel(program))
    return found


class _BackgroundCompiler:
    """A thread that compiles one program after the other, started at the first need."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._is_closed = False
        self._has_worked = False
        self._failures = 0
        """Programs that were refused one after the other."""
        self.problem = ""
        """Why the compiler failed, the first time it did; nothing is handed to it afterwards."""
        self._is_told = False
        self._fault = ""
        """The first error of xferlib's own, until a call has told of it."""
        self._has_fault = False

    def submit(self, kernel: NativeKernel) -> bool:
        """Hand a program to the thread; False where too many wait, or none is compiled."""
        if self.problem:
            self._tell()
        if self._is_closed or self.problem or self._queue.qsize() >= _MOST_WAITING or not _has_optimiser():
            return False
        with self._lock:
            if self._thread is None:
                self._thread = threads.OwnThread(self._work, "xferlib-compile")
                self._thread.start()
        self._queue.put(functools.partial(self._compile, kernel))
        return True

    def _work(self) -> None:
        while (task := self._queue.get()) is not None:
            task()

    def _compile(self, kernel: NativeKernel) -> None:
        if self._is_closed or self.problem:
            return
        try:
            kernel.compile()
            self._has_worked, self._failures = True, 0
        except (XferError, OSError, MemoryError) as error:  # the NumPy engine goes on
            self._failures += 1
            if self._has_worked and self._failures < _MOST_FAILURES:  # the compiler is sound, and this text is not
                kernel.why_not = str(error)
            elif not self._is_closed:
                self.problem = str(error)
        except Exception as error:  # neither the text nor the compiler: its writer
            kernel.why_not = f"a fault of xferlib's ({type(error).__name__}: {error})"
            if not (self._has_fault or self._is_closed):
                self._fault, self._has_fault = kernel.why_not, True

    def wait(self) -> None:
        """Wait until all that was handed over is done."""
        if self._thread is not None:
            done = threading.Event()
            self._queue.put(done.set)
            done.wait()

    def _tell(self) -> None:
        if not self._is_told:
            self._is_told = True
            checks.warn(
                f"kernels stay on the NumPy engine, for they cannot be compiled: {self.problem}; mend the compiler, or "
                "set XFERLIB_CPU=numpy"
            )

    def tell_of_fault(self) -> None:
        """Warn of the first error that was xferlib's own, once."""
        if self._fault:
            fault, self._fault = self._fault, ""
            checks.warn(
                f"a kernel stays on the NumPy engine, whose results are the same, by {fault}; report it with the "
                "kernel and what it raises with XFERLIB_CPU=native, or set XFERLIB_CPU=numpy"
            )

    def close(self) -> None:
        self._is_closed = True
        self._queue.put(None)
        for _ in range(_EXIT_TURNS):  # the thread may start a compiler after one has been ended
            if self._thread is None or not self._thread.is_alive():
                break
            host_compiler.stop()
            self._thread.join(timeout=0.1)


_compiler = _BackgroundCompiler()
process.register(_compiler.close)


def _reset_in_child() -> None:
    _compiler.reset()
    for kernel in list(_made):
        kernel.reset()


process.reset_in_child(_reset_in_child)


def _has_optimiser() -> bool:
    """Whether a compiler is there whose code is faster than NumPy's."""
    try:
        compiler = host_compiler.find_compiler()
    except KernelCompileError:
        return False
    return compiler is not None and not compiler.is_tcc


def wait_until_idle() -> None:
    """Wait until the background compiler has done what it was given: for tests and measurements."""
    _compiler.wait()


# --- plans

_PER_BYTE_NS = 0.03
_PER_NODE_NS, _PER_BITS_NS = 0.1, 0.01
"""Of an operation, and of one on conditions and integers of up to 32 bits: a rounding to a float8 has 20 of these."""
_SLOW_NS = {"gather": 0.5, "update": 2.0, "loop": 100.0, "fmod": 5.0, "div": 0.5, "sqrt": 0.5, "call": 3.0}
_CHUNK, _CHUNK_NS = 1 << 20, 2e7
"""The most elements, and time, of one call of C, so that Ctrl-C is heard in between."""
_LOOP_CHUNK = 4096
"""Likewise, of programs whose elements may take long."""


def ns_per_element(program: Program) -> float:
    """The time of an element by one thread, as guessed: it decides how many threads a call is worth."""
    nodes = [node for node in program.nodes if node.op not in LEAVES]
    moved = sum(param.dtype.itemsize for param in program.params if not param.is_scalar)
    return _PER_BYTE_NS * moved + sum(map(_ns_of_node, nodes))


def _ns_of_node(node: Node) -> float:
    slow = _SLOW_NS.get(node.op, 2.0 if node.op in native_source.DIVISIONS else 0.0)
    is_of_bits = not slow and all(each.dtype.kind in "bu" and each.dtype.itemsize <= 4 for each in node.args)
    return slow + (_PER_BITS_NS if is_of_bits or node.op == "bitcast" else _PER_NODE_NS)


class _Scratch(threading.local):
    memory: A = np.empty(0, np.uint8)


_kept = _Scratch()


def _scratch(nbytes: int) -> int:
    """The address of memory of this thread's: new memory would be cleared for every call."""
    if _kept.memory.size < nbytes:
        _kept.memory = np.empty(nbytes, np.uint8)
    address: int = _kept.memory.__array_interface__["data"][0]
    return address


class _Runner:
    """Runs a compiled program in chunks, in threads where they pay."""

    def __init__(self, kernel: NativeKernel) -> None:
        self._program = program = kernel.program
        self._source, self._function, self._form, self._driver = (
            kernel.source, kernel.function, kernel.form, kernel.driver,
        )  # fmt: skip
        self._reports = ctypes.c_longlong * (3 * max(1, len(kernel.source.sites)))
        self._scratch_nbytes = kernel.source.scratch_nbytes * STORED_BLOCK
        self.ns = ns_per_element(program)
        has_loop = any(node.op == "loop" for node in program.nodes)
        self.most = _LOOP_CHUNK if has_loop else max(_LOOP_CHUNK, min(_CHUNK, int(_CHUNK_NS / self.ns)))
        """Elements of one call of C."""

    def run(self, pointers: Any, geometry: Any) -> None:
        """Compute all elements of arrays at these addresses."""
        size = geometry[1]
        chunk, helpers = self._divide(size) if size > _LOOP_CHUNK else (size, 0)
        starts = range(0, size, chunk)

        def work(take: Callable[[], int]) -> None:
            while (number := take()) >= 0:
                begin = starts[number]
                self._compute(pointers, geometry, begin, min(size, begin + chunk))

        if helpers:
            threads.workers.run(threads.Computation(len(starts), work, helpers=helpers))
        else:
            for begin in starts:
                self._compute(pointers, geometry, begin, min(size, begin + chunk))

    def run_bytes(self, addresses: tuple[int, ...], geometry: bytes) -> None:
        """As `run`, for C."""
        numbers = len(geometry) // 8
        self.run(
            (ctypes.c_void_p * len(addresses))(*addresses), (ctypes.c_longlong * numbers).from_buffer_copy(geometry)
        )

    def _compute(self, pointers: Any, geometry: Any, begin: int, end: int) -> None:
        report = self._reports()
        scratch = _scratch(self._scratch_nbytes) if self._scratch_nbytes else None
        if self._driver(self._function, self._form, pointers, geometry, begin, end, report, scratch):
            self.fail(tuple(report), bytes(geometry))

    def _divide(self, size: int) -> tuple[int, int]:
        """Elements of a chunk, and how many threads to wake."""
        most = 1 if self._source.is_ordered else threads.most_threads()
        helpers = threads.helper_count(size * self.ns, -(-size // STORED_BLOCK), most)
        chunk = min(self.most, max(STORED_BLOCK, size // (4 * (helpers + 1)))) if helpers else self.most
        return (STORED_BLOCK if self._scratch_nbytes else chunk), helpers  # which no number of threads changes

    def fail(self, report: tuple[int, ...], geometry: bytes) -> None:
        """Raise the error that the NumPy engine would find first."""
        numbers = struct.unpack(f"{len(geometry) // 8}q", geometry)
        for number, site in enumerate(self._source.sites):
            count, least, most = report[3 * number : 3 * number + 3]
            if count:
                raise self._error(site, count, least, most, numbers)

    def _error(self, site: FailureSite, count: int, least: int, most: int, geometry: Sequence[int]) -> KernelError:
        if site.kind == "loop":
            return make_turns_error(geometry[2], count)
        name = self._program.params[site.param].name
        if site.kind == "stored":
            return make_stored_error(name, least)
        size = geometry[HEAD + self._program.raw.index(site.param)]
        return make_index_error(name, size, least if least < 0 else most)


class NativePlan:
    """A compiled program prepared for operands of one shape each; see `NumpyPlan`."""

    def __init__(self, kernel: NativeKernel, shape: tuple[int, ...], operands: Sequence[A], numpy: NumpyMaker) -> None:
        self.kernel = kernel
        self._program = program = kernel.program
        self._source = kernel.source
        self._run = kernel.runner.run
        self._numpy = numpy
        self._size = math.prod(shape)
        self._raw = program.raw
        self._written_raw = [number for number in program.raw if number in program.writes]
        layout = layout_of_call(program, shape, operands).with_axes()
        lengths = [operands[number].size for number in program.raw]
        known = [each.value(shape, operands) for each in facts(kernel.program)]
        strides = [stride for own in layout.strides for stride in own]
        head = [len(layout.shape), self._size, 0, int(program.keeps_order)]
        numbers = [*head, *lengths, *known, *layout.shape, *strides]
        self._geometry = (ctypes.c_longlong * len(numbers))(*numbers)
        self._pointers = ctypes.c_void_p * len(program.params)
        self._is_able = self._can_run(layout.shape, layout.strides, operands)

    def _can_run(self, shape: tuple[int, ...], strides: Any, operands: Sequence[A]) -> bool:
        """Whether C does these layouts: what is stored in blocks is contiguous, and so are raw arrays it writes."""
        if any(not operands[number].flags.c_contiguous for number in self._written_raw):
            return False
        if not self._source.scratch_nbytes:
            return True
        sizes = [self._program.params[number].dtype.itemsize for number in self._program.elements]
        return len(shape) == 1 and all(own == (size,) for own, size in zip(strides, sizes, strict=True))

    def run(self, operands: Sequence[A]) -> None:
        """Execute for arrays of the planned shapes, strides and dtypes."""
        if self._size == 0:
            return
        if not self._is_able or any(not operands[number].flags.aligned for number in self._written_raw):
            self._numpy(operands).run(operands)
            return
        if self._raw:
            operands = [*operands]
            for number in self._raw:
                each = operands[number]
                if not (each.flags.c_contiguous and each.flags.aligned):
                    operands[number] = np.require(each, requirements=("C", "A"))
        self._geometry[2] = _settings[1]
        self._run(self._pointers(*[each.__array_interface__["data"][0] for each in operands]), self._geometry)


# Calls in C alone: see `_native/calls/host.c`.

_CODES = {
    "bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B", "uint16": "H", "uint32": "I",
    "uint64": "Q", "float32": "f", "float64": "d",
}  # fmt: skip
_WITH_LOCK_NS = 5_000.0
"""The longest work during which other threads wait."""


def bind_direct(
    kernel: NativeKernel,
    dtypes: Sequence[np.dtype[Any]],
    outputs: Sequence[int],
    scalars: dict[int, type],
    backend: Backend | None = None,
) -> Callable[[tuple[Any, ...], Any], Any] | None:
    """Make a function that runs a kernel on arrays of a library; None where Python has to prepare each call.

    Args:
        kernel: Whose function is there.
        dtypes: Of the arrays: small floats, of which the kernel sees the bits.
        outputs: The parameters that are returned.
        scalars: The parameters given as numbers, and their types.
        backend: The library's, on the CPU; NumPy if omitted.
    """
    program, source, runner = kernel.program, kernel.source, kernel.runner
    params, first = program.params, len(program.params) - len(outputs)
    has_facts = any(node.op == "fact" for node in program.nodes)
    if has_facts or source.scratch_nbytes or list(outputs) != list(range(first, len(params))):
        return None
    library = None if backend is None else _find_library(backend)
    if library is None and backend is not None:
        return None
    plain = None if backend is None else backend.plain_arrays
    made = {} if plain is None or library is None else dict(zip((*DTYPES, *SMALL_FLOATS), plain.dtypes, strict=True))
    fields: list[tuple[Any, ...]] = []
    for number, (param, dtype) in enumerate(zip(params, dtypes, strict=True)):
        uses = int(number in program.writes), int(number in program.elements), dtype.itemsize
        rest = (*uses, *dlpack_type(dtype)[:2], made.get(name_of(dtype)))
        if number not in scalars:
            fields.append((dtype, "R" if param.is_raw else "A", *rest))
            continue
        kind, code = scalars[number], _CODES.get(name_of(dtype))
        if kind is dtype.type:
            fields.append((kind, "N", *rest))
            continue
        is_known = (kind is float and code in ("f", "d")) or (kind is bool and code == "?")
        if code is None or not (is_known or (kind is int and code != "?")):
            return None
        fields.append((kind, code, *rest))
    needs_outputs = any(params[number].is_raw or number in program.reads for number in outputs)
    most_alone = 1 << 62 if source.is_ordered else int(2 * threads.THREAD_NS / runner.ns)
    return _native.bind_host_call(
        ctypes.cast(kernel.driver, ctypes.c_void_p).value, kernel.function, ctypes.addressof(kernel.form),
        ctypes.addressof(_settings), runner.fail, runner.run_bytes, runner.most, int(_WITH_LOCK_NS / runner.ns),
        most_alone, len(outputs), len(source.sites), int(program.keeps_order), int(needs_outputs), tuple(fields),
        np.ndarray, _numpy._core.multiarray._ARRAY_API, library, kernel,
    )  # fmt: skip


def _find_library(backend: Backend) -> tuple[Any, ...] | None:
    """The fields with which C reads the arrays of another library than NumPy; None where Python reads them."""
    plain = backend.plain_arrays
    if plain is None or plain.levels is None or None in (plain.exchange, plain.maker):
        return None
    return (
        plain.array_type, plain.exchange, plain.is_negated, plain.is_conjugate, plain.recording, *plain.levels,
        plain.maker, plain.is_frozen, plain.count_writes, plain.make_check,
    )  # fmt: skip


NumpyMaker = Callable[[Sequence[A]], NumpyPlan]


class HostPlan:
    """A program prepared for operands of one shape each, on the engine that is chosen and there.

    Args:
        program: What to run.
        shape: The common shape of its element-wise operands.
        operands: One array per parameter, for shapes and strides; scalars are zero-dimensional.
        is_aliased: Whether an output shares memory with an input.
    """

    def __init__(self, program: Program, shape: tuple[int, ...], operands: Sequence[A], *, is_aliased: bool) -> None:
        self._program = program
        self._shape = shape
        self._is_aliased = is_aliased
        self._numpy: NumpyPlan | None = None
        self.native: NativePlan | None = None
        """The plan of the compiled program, where that runs."""
        self.run: Callable[[Sequence[A]], None] = self._choose
        """Execute for arrays of the planned shapes, strides and dtypes."""
        self._kernel: NativeKernel | None = None
        _plans.add(self)

    def reset(self) -> None:
        """Choose again at the next call."""
        self.native = self._kernel = None
        self.run = self._choose

    def _make_numpy(self, operands: Sequence[A]) -> NumpyPlan:
        if self._numpy is None:
            self._numpy = NumpyPlan(self._program, self._shape, operands, is_aliased=self._is_aliased)
        return self._numpy

    def _choose(self, operands: Sequence[A]) -> None:
        kernel = self._kernel = self._kernel or kernel_of(self._program)
        if kernel.is_ready():
            self.native = NativePlan(kernel, self._shape, operands, self._make_numpy)
            self.run = self.native.run
            self.run(operands)
            return
        plan = self._make_numpy(operands)
        if kernel.why_not or process.get().cpu == "numpy":
            self.run = plan.run
        plan.run(operands)


_plans: weakref.WeakSet[HostPlan] = weakref.WeakSet()


def _choose_again() -> None:
    _follow_settings()
    for plan in list(_plans):
        plan.reset()


process.watchers["cpu"] = _choose_again


def engine_of(program: Program) -> str:
    """The engine that the next call of a program takes on a CPU: ``native`` or ``numpy``."""
    kernel = _kernels.get(program.text)
    is_there = kernel is not None and kernel.function is not None
    return "native" if is_there and process.get().cpu != "numpy" else "numpy"


def explain_engine(program: Program) -> str:
    """Say in a line which engine the next call of a program takes on a CPU, and why not the native one."""
    machine = describe_engine()
    if not machine.startswith(_IN_C):
        return machine
    kernel = _kernels.get(program.text)
    why_not = native_source.why_not(program) if kernel is None else kernel.why_not
    if why_not or (kernel is None or kernel.function is None):
        return f"by NumPy: {why_not or _compiler.problem or 'it is not compiled yet'}"
    return machine.partition(";")[0]


_IN_C = "in C, by "


def describe_engine() -> str:
    """Say in a line how kernels run on a CPU of this machine."""
    mode = process.get().cpu
    if mode == "numpy":
        return "by NumPy (XFERLIB_CPU=numpy)"
    try:
        compiler = host_compiler.find_compiler()
    except KernelCompileError as error:
        return f"by NumPy: {error}"
    if compiler is None:
        return "by NumPy: no C compiler (cc, gcc, clang, or pip install ziglang)"
    if compiler.is_tcc:
        return f"by NumPy: {compiler.command[0]} does not optimise"
    try:
        is_broken = not host_compiler.find_target(compiler).macros
    except KernelCompileError:
        is_broken = True
    if is_broken:
        return f"by NumPy: {compiler.command[0]} does not run"
    return f"{_IN_C}{compiler.command[0]}" + ("; by NumPy until that is compiled" if mode == "auto" else "")
