"""The backend ``sim``: the simulated machine behind the same seam as CuPy, torch and PyCUDA."""

from __future__ import annotations

import ctypes
import operator
import re
import sys
import threading
import weakref
from collections.abc import Callable, Hashable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib._core import observe
from xferlib._core.arrays import Array, ArrayInfo, c_strides, copy_into, overlaps_itself
from xferlib._core.backend import Backend, KernelEngine
from xferlib._core.device import (
    Capabilities,
    Device,
    DeviceIdentity,
    DeviceProperties,
    OperationListener,
    RawEvent,
    RawKernel,
    RawStream,
)
from xferlib._core.dtypes import is_numpys
from xferlib._core.namespaces import make_namespace
from xferlib._core.streams import make_unjoined_error
from xferlib._memory import buffers
from xferlib._runtime import happens_before, process
from xferlib._runtime.checks import CodeLocation, user_site
from xferlib.errors import ArgumentError, StreamError, UnsupportedError, quote
from xferlib.kernels.calls import HostCall
from xferlib.kernels.native_engine import bind_direct
from xferlib.sim import arrays as arrays_module
from xferlib.sim import launches, memory, portable
from xferlib.sim import machine as machine_module
from xferlib.sim.arrays import SimArray, kind_of
from xferlib.sim.detector import SimError
from xferlib.sim.implicit import ImplicitCopyError, Reaction, format_table
from xferlib.sim.machine import DEVICE_TO_HOST, HOST_TO_DEVICE, Machine
from xferlib.sim.memory import Span
from xferlib.sim.model import (
    LEGACY,
    LEGACY_ALIAS,
    PER_THREAD,
    CapturedWork,
    SimEvent,
    SimStream,
    StreamHandle,
    StreamKind,
)
from xferlib.sim.schedules import Point, Settings
from xferlib.sim.timing import Lane, seconds

if TYPE_CHECKING:
    from xferlib.kernels.guards import HostNumbers

# Copies: of bytes between any two memories, and of strided elements by the kernels of `xferlib._transfer.on_device`.


def copy(machine: Machine, dst: int, src: int, nbytes: int, stream: SimStream) -> None:
    """Enqueue a copy of bytes."""
    with machine.lock:
        into, source = (machine.span(each, nbytes, "copy", stream) for each in (dst, src))
        name, lane = _kind(into, source)
        if lane is Lane.D2H and launches.is_inside():
            machine.implicit.wait(nbytes)
        target, values = into.block.data[into.start : into.stop], source.block.data[source.start : source.stop]

        def run() -> None:
            target[:] = values

        moves = into.block.device is not None and source.block.device is not None
        void = source.block.void(source) if moves else None

        def take() -> Callable[[], object]:
            kept = values.copy()
            return lambda: np.copyto(target, kept)

        copied = machine.enqueue(
            stream, name, run, reads=(source,), writes=(into,), lane=lane, nbytes=nbytes, uses_values=not moves,
            take=take if into.block.device is None and source.block.device is not None else None,
        )  # fmt: skip
        if void is not None and copied is not None and machine.detector.is_on:  # quiet: a use of the copy is reported
            into.block.note_void(into, None if void.all() else void)


def _is_void(span: Span) -> bool:
    void = span.block.void(span)
    return void is not None and bool(void.all())


def _kind(into: Span, source: Span) -> tuple[str, Lane]:
    to, come = into.block.device, source.block.device
    if come is None:
        return (HOST_TO_DEVICE, Lane.H2D) if to is not None else ("copy host to host", Lane.D2H)
    if to is None:
        return DEVICE_TO_HOST, Lane.D2H
    return ("copy on the device", Lane.D2D) if to is come else (f"copy {come} to {to}", Lane.PEER)


# --- by kernels


class UncompiledSource(NamedTuple):
    """CUDA source in place of machine code: the simulator finds the kernel by its name."""

    cubin: bytes
    names: dict[str, str]


class CopyKernel(NamedTuple):
    """A kernel of `xferlib._transfer.on_device`."""

    name: str
    written: np.dtype[Any]
    read: np.dtype[Any]
    axes: int


_FIXED = {"copy_elements": 3, "copy_rows": 6, "copy_tiles": 9}
"""Arguments of each kernel before those of the axes outside."""
_WORDS = {
    "unsigned char": "u1", "unsigned short": "u2", "unsigned int": "u4", "unsigned long long": "u8",
    "signed char": "i1", "short": "i2", "int": "i4", "long long": "i8", "half16": "f2", "float": "f4", "double": "f8",
    "ulonglong2": "V16",
}  # fmt: skip
"""dtypes by C's names of them."""


def load(cubin: bytes, name: str) -> CopyKernel:
    """The kernel of that name.

    Raises:
        UnsupportedError: It is none that copies.
    """
    source = cubin.decode()
    header = re.search(rf"void {name}\(([^)]*)\)", source)
    words = re.search(r"\*\(([a-z0-9 ]+)\*\)\(dst.*\*\(const ([a-z0-9 ]+)\*\)\(src", source)
    if name not in _FIXED or header is None or words is None:
        raise UnsupportedError(
            f"kernel {name!r} is CUDA source, which the simulator cannot run; give the kernel a cpu= function"
        )
    written = "?" if " != 0; }" in source else _WORDS[words[1]]
    return CopyKernel(name, np.dtype(written), np.dtype(_WORDS[words[2]]), len(re.findall(r"i64 n\d", header[1])))


def launch(machine: Machine, kernel: CopyKernel, params: int, stream: SimStream) -> None:
    """Enqueue the copy that a kernel would make with the arguments at the address ``params``."""
    fixed = _FIXED[kernel.name]
    pointers = (ctypes.POINTER(ctypes.c_int64) * (fixed + 3 * kernel.axes)).from_address(params)
    dst, src, *numbers = (int(pointer[0]) for pointer in pointers)
    axes = [tuple(numbers[at : at + 3]) for at in range(fixed - 2, len(numbers), 3)]
    if kernel.name == "copy_tiles":
        _, rows, cols, row_dst, row_src, col_dst, col_src = numbers[:7]
        axes += [(rows, row_dst, row_src), (cols, col_dst, col_src)]
    elif kernel.name == "copy_rows":
        axes.append(tuple(numbers[1:4]))
    shape = tuple(axis[0] for axis in axes)
    ends = (dst, kernel.written, [axis[1] for axis in axes]), (src, kernel.read, [axis[2] for axis in axes])
    if any(number % dtype.itemsize for pointer, dtype, strides in ends for number in (pointer, *strides)):
        raise SimError(f"{kernel.name}: an access at {user_site()} is misaligned, at which a GPU fails: {numbers}")
    with machine.lock:
        (into, target), (source, values) = (
            _strided(machine, pointer, dtype, shape, tuple(strides), stream) for pointer, dtype, strides in ends
        )
        reads = memory.strided_spans(source.block, source.start, shape, values.strides, values.itemsize)
        writes = memory.strided_spans(into.block, into.start, shape, target.strides, target.itemsize)
        is_void = source.block.has_void and all(_is_void(span) for span in reads)
        copied = machine.enqueue(
            stream, "strided copy", lambda: _fill(target, values),
            reads=reads, writes=writes, nbytes=target.nbytes + values.nbytes, uses_values=not is_void,
        )  # fmt: skip
        if is_void and copied is not None and machine.detector.is_on:
            for span in writes:
                span.block.note_void(span)


def _strided(
    machine: Machine, pointer: int, dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...],
    stream: SimStream,
) -> tuple[Span, np.ndarray[Any, Any]]:  # fmt: skip
    span = machine.span(pointer, dtype.itemsize, "strided copy", stream)
    return span, np.ndarray(shape, dtype, span.block.data, span.start, strides)


def _fill(target: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> None:
    """``target[...] = values``, converted as kernels do: floats saturate to integers, and NaN becomes 0."""
    if values.dtype != target.dtype and not (is_numpys(values.dtype) and is_numpys(target.dtype)):
        copy_into(target, values)
        return
    if values.dtype.kind == "f" and target.dtype.kind in "iu":
        limits = np.iinfo(target.dtype)
        wide, beyond = values.astype(np.float64), 2.0 ** (limits.bits - (target.dtype.kind == "i"))
        is_large, is_small = wide >= beyond, wide < float(limits.min)
        values = np.where(np.isnan(wide) | is_large | is_small, 0, wide).astype(target.dtype)
        values[is_large], values[is_small] = limits.max, limits.min
    np.copyto(target, values, casting="unsafe")


def begin_capture(machine: Machine, stream: SimStream) -> None:
    """Note the work of a stream from now on, instead of enqueueing it."""
    machine.pass_point(Point.RECORD)
    stream.recorded = CapturedWork(stream)


def end_capture(machine: Machine, origin: SimStream) -> Callable[[RawStream], None] | None:
    """End a capture; returns what launches its work on a stream, None if there is none."""
    recorded = origin.recorded
    assert recorded is not None
    for each in (origin, *recorded.others):
        each.recorded = None
    if not recorded.is_joined:
        raise make_unjoined_error("Stream.capture")
    own = {each: machine.stream(each.device) for each in recorded.others}

    def launch(on: RawStream) -> None:
        with machine.lock:
            recorded.repeat({origin: _stream(on), **own})

    return None if recorded.is_empty else launch


class SimPinned:
    """Page-locked host memory of the simulated machine."""

    __slots__ = ("__weakref__", "_machine", "nbytes", "pointer")

    def __init__(self, machine: Machine, data: np.ndarray[Any, Any]) -> None:
        self._machine = machine
        self.pointer = data.ctypes.data  # before it is tracked, so that whatever strikes then, its end is told
        self.nbytes = data.nbytes
        machine.track_host(data)

    def __del__(self) -> None:
        try:
            self._machine.lifetimes.release_host(self.pointer)
        except Exception:  # the interpreter is shutting down
            return


_ATTRIBUTES = {
    "max_threads_per_block": 1024,
    "max_block_dim_x": 1024,
    "max_block_dim_y": 1024,
    "max_block_dim_z": 64,
    "max_grid_dim_x": 2**31 - 1,
    "max_grid_dim_y": 65535,
    "max_grid_dim_z": 65535,
    "max_shared_memory_per_block": 48 << 10,
    "max_shared_memory_per_block_optin": 227 << 10,
    "warp_size": 32,
    "multiprocessor_count": 1,
    "compute_capability_major": 9,
    "compute_capability_minor": 0,
    "unified_addressing": 1,
    "stream_priorities_supported": 1,
}
"""Of simulated devices: those of an accelerator of compute capability 9.0, with its limits."""


class _Thread(threading.local):
    """A thread's current device and streams."""

    def __init__(self) -> None:
        self.device: Device | None = None
        self.streams: dict[Device, StreamHandle] = {}


class SimBackend(Backend):
    """Simulated devices: separate memory, real streams, and a detector that watches."""

    name = "sim"
    array_types = ("xferlib.sim.SimArray",)
    pinned_domain = "sim"
    capabilities = Capabilities(
        streams=True, priorities=True, foreign_streams=True, native_current_stream=True, pinned_memory=True,
        peer_copy=True, kernels=True, namespace=True, strided=True, graphs=True, small_at_once=False,
        why={"small_at_once": "a simulated transfer of any size is in flight as long as the contract allows"},
    )  # fmt: skip

    def __init__(self) -> None:
        self.machine = Machine(Settings.from_configuration())
        process.register(self._show_implicit_copies)
        self._local = _Thread()
        self._handles: weakref.WeakValueDictionary[int, StreamHandle] = weakref.WeakValueDictionary()
        streams = self.machine.streams
        self._legacy = {device: StreamHandle(LEGACY, each.legacy, None) for device, each in streams.items()}
        machine_module.install(self)
        launches.bind_simulator(self.machine, self._local)
        is_strict = portable.is_on() or process.get().sim_strict == "1"
        portable.switch(False)  # the members that it would restore are those of a namespace before
        SimArray._namespace = make_namespace(
            self, SimArray, refusal=ImplicitCopyError, around=launches.operation,
            dispatches=lambda: self.machine.implicit.reaction is Reaction.ALLOW,
        )  # fmt: skip
        portable.switch(is_strict)

    def _show_implicit_copies(self) -> None:
        if found := self.machine.implicit.list():
            table = format_table(found)
            print(f"xferlib.sim: copies to the host that no call asks for\n{table}", file=sys.stderr)

    def _watch(self) -> None:
        """Follow the library's threads from the first stream or memory on: programs ask which backends exist, too."""
        happens_before.listener = observe.listener = self.machine.hosts

    # --- devices

    def namespace(self) -> ModuleType:
        return SimArray._namespace

    def devices(self) -> tuple[Device, ...]:
        return self.machine.devices

    def device_properties(self, device: Device) -> DeviceProperties:
        settings = self.machine.settings
        return DeviceProperties(
            name=f"simulated accelerator ({settings.profile.name})", total_nbytes=settings.memory_nbytes,
            compute_capability=(9, 0), multiprocessor_count=1,
        )  # fmt: skip

    def device_identity(self, device: Device) -> DeviceIdentity:
        return DeviceIdentity(uuid=f"SIM-{device.index:032x}", pci_bus_id=f"FFFF:{device.index:02X}:00.0")

    def device_memory(self, device: Device) -> tuple[int, int]:
        return self.machine.free_memory(device), self.machine.settings.memory_nbytes

    def device_attribute(self, device: Device, name: str) -> int:
        if name not in _ATTRIBUTES:
            raise ArgumentError(f"{device} has no attribute {quote(name)}; it has {', '.join(_ATTRIBUTES)}")
        return _ATTRIBUTES[name]

    def device_current(self) -> Device:
        device = self._local.device
        return device if device is not None else self.machine.devices[0]

    def device_use(self, device: Device) -> None:
        self._local.device = device

    def device_synchronize(self, device: Device) -> None:
        self.machine.waits.synchronize_device(device)

    # --- arrays

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], *, device: Device, stream: RawStream) -> SimArray:
        self._watch()
        made = arrays_module.new(shape, dtype, device, _stream(stream))
        launches.note_memory(made)
        return made

    def device_of(self, array: Array) -> Device:
        device: Device = array.info.device
        return device

    def view(self, array: Array) -> ArrayInfo:
        info: ArrayInfo = array.info
        return info

    def signature(self, array: Array) -> Hashable:
        return kind_of(array)

    def matcher(self, arrays: Sequence[Array]) -> Callable[..., bool]:
        kinds = [*map(kind_of, arrays)]
        if len(kinds) == 2:  # without a loop, in half the time
            first, second = kinds
            return lambda a, b: (a.kind or kind_of(a)) is first and (b.kind or kind_of(b)) is second

        def matches(*others: SimArray) -> bool:
            return all((each.kind or kind_of(each)) is kind for each, kind in zip(others, kinds, strict=True))

        return matches

    def host_view(self, array: Array) -> np.ndarray[Any, Any]:
        view: np.ndarray[Any, Any] = array if isinstance(array, np.ndarray) else array.memory()
        return view

    def compute_on_host(
        self, name: str, function: Callable[..., None], reads: Sequence[Array], writes: Sequence[Array]
    ) -> bool:
        operands = arrays_module.memories_of((*reads, *writes))
        arrays_module.launch(name, lambda: function(*operands), reads, writes)
        launches.note_new(name, reads, writes, lambda operands: function(*operands))
        return True

    def gather(self, x: SimArray, indices: Sequence[SimArray], out: SimArray) -> bool:
        launches.gather(x, indices, out)
        return True

    def scatter(self, x: SimArray, indices: Sequence[SimArray], value: Any) -> bool:
        launches.scatter(x, indices, value)
        return True

    def select(self, x: SimArray, mask: SimArray) -> SimArray:
        return launches.select(x, mask)

    def subarray(self, slab: Array, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> SimArray:
        info = ArrayInfo(
            slab.info.pointer + offset, shape, c_strides(shape, dtype.itemsize), dtype, slab.info.device, True
        )
        return SimArray(slab.allocation, info)

    def over(
        self, pointer: int, shape: tuple[int, ...], dtype: np.dtype[Any], *, device: Device, owner: Any
    ) -> SimArray:
        self._watch()
        info = ArrayInfo(pointer, shape, c_strides(shape, dtype.itemsize), dtype, device, True)
        return SimArray(self.machine.lend(pointer, info.nbytes, device, owner), info)

    def strided_view(
        self, array: Array, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]
    ) -> SimArray:
        is_writable = array.info.is_writable and not overlaps_itself(shape, strides, dtype.itemsize)
        info = ArrayInfo(array.info.pointer + offset, shape, strides, dtype, array.info.device, is_writable)
        return SimArray(array.allocation, info)

    def note_use(self, array: Array, stream: RawStream) -> None:
        array.allocation.users[_stream(stream).key] = _stream(stream)

    def select_retained(self, objects: tuple[Any, ...], event: Any) -> tuple[Any, ...]:
        # Holding an array would postpone its death to the next poll, and with it the report of a missing wait.
        held: list[Any] = []
        for each in objects:
            if isinstance(each, SimArray):
                each.allocation.outlast(event)
            else:
                held.extend(self.select_retained(each, event) if isinstance(each, tuple) else (each,))
        return tuple(held)

    # --- memory and copies

    def pinned_alloc(self, nbytes: int) -> SimPinned:
        self._watch()
        self.machine.pass_point(Point.PINNED)
        return SimPinned(self.machine, memory.pages(nbytes))

    def pinned_register(self, pointer: int, nbytes: int) -> None:
        self._watch()
        self.machine.pass_point(Point.PINNED)
        self.machine.track_host(buffers.bytes_over(pointer, nbytes, None))

    def pinned_unregister(self, pointer: int) -> None:
        self.machine.lifetimes.release_host(pointer)
        self.machine.raise_faults()

    def is_pinned(self, pointer: int) -> bool:
        with self.machine.lock:
            block = self.machine.memory.find(pointer)
            return block is not None and block.device is None

    def copy(self, dst: int, src: int, nbytes: int, *, stream: RawStream) -> None:
        copy(self.machine, dst, src, nbytes, _stream(stream))

    def reaches(self, device: Device, other: Device) -> bool:
        return self.machine.timeline.profile.peer > 0

    # --- streams

    def stream_create(self, device: Device, *, non_blocking: bool, priority: int) -> StreamHandle:
        self._watch()
        kind = StreamKind.NON_BLOCKING if non_blocking else StreamKind.BLOCKING
        stream = self.machine.stream(device, kind, priority)
        made = StreamHandle(stream.key, stream, self.machine.lifetimes.ended)
        self._handles[stream.key] = made
        return made

    def stream_wrap(self, handle: int, device: Device, *, native: Any = None) -> StreamHandle:
        if handle in (LEGACY, LEGACY_ALIAS):
            return self._legacy[device]
        if handle == PER_THREAD:
            return StreamHandle(PER_THREAD, self.machine.per_thread(device), None)
        made = self._handles.get(handle)
        if made is not None and made.device is device:
            return made
        raise StreamError(f"{handle:#x} is not a stream of {device}; make one with xferlib.Stream({str(device)!r})")

    def stream_current(self, device: Device) -> StreamHandle:
        stream = self._local.streams.get(device)
        return stream if stream is not None else self._legacy[device]

    def current(self, device: Device) -> SimStream:
        """The calling thread's current stream, as the machine has it."""
        handle = self._local.streams.get(device)
        return (handle if handle is not None else self._legacy[device]).stream

    def stream_use(self, stream: RawStream) -> None:
        assert isinstance(stream, StreamHandle)
        self._local.streams[stream.device] = stream

    def stream_synchronize(self, stream: RawStream) -> None:
        self.machine.waits.synchronize_stream(_stream(stream))

    def stream_done(self, stream: RawStream) -> bool:
        return self.machine.waits.is_stream_done(_stream(stream))

    def stream_options(self, stream: RawStream) -> tuple[int, bool]:
        made = _stream(stream)
        return made.priority, made.kind is StreamKind.NON_BLOCKING

    def capture_begin(self, stream: RawStream) -> None:
        begin_capture(self.machine, _stream(stream))

    def capture_end(self, stream: RawStream) -> Callable[[RawStream], None] | None:
        return end_capture(self.machine, _stream(stream))

    def stream_call(self, stream: RawStream, function: Callable[[], None]) -> None:
        self.machine.call(_stream(stream), function)

    # --- events

    def event_record(self, stream: RawStream, *, timing: bool, event: RawEvent | None = None) -> SimEvent:
        return self.machine.record(_stream(stream), timing=timing)

    def event_wait(self, stream: RawStream, event: Any) -> None:
        self.machine.wait(_stream(stream), event)

    def event_unrecorded(self, stream: RawStream) -> None:
        self.machine.wait_unrecorded(_stream(stream))

    def event_done(self, event: Any) -> bool:
        return self.machine.waits.is_done(event)

    def event_synchronize(self, event: Any) -> None:
        self.machine.waits.synchronize(event)

    def event_elapsed_ms(self, start: Any, end: Any) -> float:
        return float(end.time_ps - start.time_ps) * 1e-9

    # --- kernels

    def compile(self, source: str, *, names: tuple[str, ...] = (), **_: Any) -> UncompiledSource:
        return UncompiledSource(source.encode(), dict(zip(names, names, strict=True)))

    def load(self, cubin: bytes, *, name: str, device: Device) -> RawKernel:
        return load(cubin, name)

    def launch(self, kernel: Any, grid: Any, block: Any, params: int, *, stream: RawStream, **_: Any) -> None:
        launch(self.machine, kernel, params, _stream(stream))

    def engine(self) -> KernelEngine:
        return ENGINE

    # --- recording

    def report_to(self, listener: OperationListener | None) -> bool:
        self.machine.listener = listener
        return True

    def host_s(self) -> float:
        return seconds(self.machine.hosts.current().time_ps)


def _stream(stream: RawStream) -> SimStream:
    assert isinstance(stream, StreamHandle), "a stream of another backend"
    return stream.stream


# Kernels on simulated devices: the CPU computes them, as operations of a stream.


class SimCall(HostCall):
    """A call on a simulated device, checked when it is made and computed when the schedule chooses it."""

    operations = 1

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._numbers: HostNumbers | None = args[3].numbers
        self._computed: tuple[list[Any], list[Any]] = ([], [])
        """The numbers of the last call, and the parameters for them."""
        self._runs = self._run_apart, self._run_in_place
        self._native: Callable[[tuple[Any, ...], None], Any] | None = None
        infos: dict[int, ArrayInfo] = args[-1]
        self._launch = launches.PreparedLaunch(
            self.name, self.device, {number: info.nbytes for number, info in infos.items()},
            reads=sorted(self.program.reads & infos.keys()), writes=self._written,
            makes=[
                launches.NewArray(self.shape, self.program.params[n].dtype, self.device, self._order)
                for n in self._omitted
            ],
        )  # fmt: skip

    def run_again(self, given: Sequence[Any], values: list[Any]) -> Any:
        """Enqueue for arrays of the same dtypes, shapes and strides as before."""
        if self._scalars:
            given = self._unpack(given)
        run = self._runs[self._check_again(given)]
        result = self._pick(given, self._launch.enqueue(given, run))
        numbers = self._numbers
        if numbers is None:
            launches.note(self, given, result)
        elif len(numbers.sources) == 1:
            first, count = numbers.first, len(numbers.uses)
            passed = [*given[:first], *given[first + count :]]
            passed[numbers.sources[0]] = launches.THE_NUMBER
            launches.note(self, passed, result)
        return result

    def bind(self) -> Callable[..., Any]:
        """`repeat`, compiled where numbers are converted by nothing but C's own conversions."""
        params, only = self.program.params, self._only
        numbers = [(n, launches.find_plain(params[n].dtype)) for n in self._scalars]
        plain = [(n, found) for n, found in numbers if found is not None]
        if self._numbers is not None or only is None or not len(plain) == len(numbers) == len(self._converters):
            return self.repeat
        apart = [(one, two, may_be_one) for one, others in self._apart for two, may_be_one in others]
        runs = self._runs[self._is_in_place], self._run_in_place
        return self._launch.repeat_in_c(runs, self.repeat, apart, plain, -1 if self._omitted else only)

    def repeat(self, given: Sequence[Any], called_at: tuple[CodeLocation, str]) -> Any:
        """`run_again` for a function of the namespace; `NotImplemented` where it has to say what is wrong."""
        try:
            if (numbers := self._numbers) is not None:
                found = [given[each] for each in numbers.sources]
                known, computed = self._computed
                # The very objects: numbers that are equal may differ, as 0.0 and -0.0 do.
                if not known or any(map(operator.is_not, found, known)):
                    computed = numbers.compute(given)
                    self._computed = found, computed
                given = numbers.insert(given, computed)
            if self._scalars:
                given = self._unpack(given)
            is_aliased = self._check_again(given)
        except Exception:
            return NotImplemented
        made = self._launch.enqueue(given, self._runs[is_aliased], is_library=True, called_at=called_at)
        return made[0] if made and self._only is not None else self._pick(given, made)

    def _pick(self, given: Sequence[Any], made: list[SimArray]) -> Any:
        only = self._only
        if only is not None:
            return made[0] if made else given[only]
        return self._pick_result((*given, *made))

    def _unpack(self, given: Sequence[Any]) -> list[Any]:
        """The arguments with Python's numbers for NumPy's of the parameters' dtypes: compiled calls take those."""
        found = [*given]
        for number in self._scalars:
            if isinstance(each := found[number], np.generic) and each.dtype == self.program.params[number].dtype:
                found[number] = each.item()
        return found

    def _check_again(self, given: Sequence[Any]) -> bool:
        """Check what layouts do not tell; whether an output is an input."""
        if len(self._converters) < len(self._scalars):
            self._converters = [(number, self._converter(number, type(given[number]))) for number in self._scalars]
        for number, convert in self._converters:
            convert(given[number])
        is_aliased = self._is_in_place
        for written, others in self._apart:
            one = given[written]
            for other, may_be_one in others:
                two = given[other]
                if one is two and may_be_one:
                    is_aliased = True
                elif one.allocation.block is two.allocation.block and np.may_share_memory(one.memory(), two.memory()):
                    return self._check_aliasing({n: given[n].info for n in self._arrays}) or self._is_in_place
        return is_aliased

    def _run_apart(self, operands: tuple[Any, ...]) -> None:
        """Compute on memory and numbers, which have been checked; no output is an input."""
        if (native := self._native) is None or native(operands, None) is NotImplemented:
            self._run(operands, is_aliased=False)

    def _run_in_place(self, operands: tuple[Any, ...]) -> None:
        if (native := self._native) is None or native(operands, None) is NotImplemented:
            self._run(operands, is_aliased=True)

    def _run(self, operands: tuple[Any, ...], *, is_aliased: bool) -> None:
        converted = [*operands]
        for number, convert in self._converters:
            converted[number] = convert(operands[number])
        plan = self._plan(is_aliased, converted)
        plan.run(converted)
        if self._native is None and plan.native is not None and not self._swapped:
            kinds = {number: type(operands[number]) for number in self._scalars}
            dtypes = [each.dtype for each in self.program.params]
            self._native = bind_direct(plan.native.kernel, dtypes, self._outputs, kinds)


def reduce(
    name: str, run: Callable[[Sequence[Any], Sequence[Any]], None], args: Sequence[Any], results: Sequence[SimArray]
) -> None:
    """Enqueue a reduction; ``run`` computes it on the arrays' memory, for the arrays may die meanwhile."""
    sources, targets = arrays_module.memories_of(args), arrays_module.memories_of(results)
    reads = [each for each in args if isinstance(each, SimArray)]
    arrays_module.launch(name, lambda: run(sources, targets), reads, list(results))
    arrays = (*reads, *results)
    launches.declare(arrays, machine_module.stream(arrays[0].device))
    if len(reads) == len(args):
        launches.note_new(name, reads, results, lambda operands: run(operands[:-1], operands[-1:]))


def stand_in(
    name: str,
    function: Callable[..., Any],
    args: Sequence[Any],
    values: Sequence[Any],
    written: Sequence[SimArray],
    stream: Any,
) -> None:
    """Enqueue the NumPy function of a raw kernel; an array without ``const`` counts as read and written."""
    arrays = [each for each in args if isinstance(each, SimArray)]
    operands = [*values]
    for number, each in enumerate(args):
        if isinstance(each, SimArray):
            operands[number] = memory = each.memory().view()
            memory.flags.writeable = any(each is other for other in written)  # as the compiler would enforce
    arrays_module.launch(name, lambda: function(*operands), arrays, written, stream.stream, uses_values=False)
    launches.declare(arrays, stream.stream)


ENGINE = KernelEngine(SimCall, reduce, stand_in, launches.emulate)
"""The kernel engine of simulated devices."""
