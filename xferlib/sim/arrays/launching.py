"""Enqueues operations on arrays, with the stream and the bytes that they read and write."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xferlib._core import array as _array
from xferlib._core import mixing, registry
from xferlib._core.array import ArrayInfo, c_strides
from xferlib._core.device import Device
from xferlib.errors import LayoutError, MixedBackendsError, UnsupportedArrayError
from xferlib.sim.arrays.array import HostArray, SimArray
from xferlib.sim.machine import current
from xferlib.sim.model.blocks import Span, Spans
from xferlib.sim.model.streams import SimStream

_SCALARS = (bool, int, float, complex)


def new(shape: tuple[int, ...], dtype: np.dtype[Any], device: Device, stream: SimStream | None = None) -> SimArray:
    """An uninitialised C-contiguous array, allocated in the order of a stream; the current one if omitted."""
    order = stream if stream is not None else current.stream(device)
    nbytes = math.prod(shape) * dtype.itemsize
    allocation = current.machine().allocate(nbytes, order)
    block = allocation.block
    info = ArrayInfo(block.pointer, shape, c_strides(shape, dtype.itemsize), dtype, device, True)
    return SimArray(allocation, info, (Span(block, 0, nbytes),) if nbytes else ())


def check_writable(name: str, array: SimArray) -> None:
    """Refuse to write to an array whose elements share memory.

    Raises:
        LayoutError: Several elements of ``array`` share their memory, as after ``broadcast_to``.
    """
    if not array.info.is_writable:
        raise LayoutError(f"{name}: elements of the array share their memory (broadcast_to); write into a copy of it")


def common_device(name: str, operands: Sequence[Any]) -> Device:
    """The one device of all arrays among ``operands``; Python and NumPy scalars mix.

    Raises:
        MixedDevicesError: Arrays of two devices.
        MixedBackendsError: An array of another backend.
        UnsupportedArrayError: Something that is neither array nor scalar.
    """
    first: SimArray | None = None
    for each in operands:
        if isinstance(each, SimArray):
            if first is None:
                first = each
            elif each.info.device is not first.info.device:
                raise mixing.mixed_devices(name, ("one argument", first.device), ("another", each.device))
        elif type(each) not in _SCALARS and not is_scalar(each):
            _refuse(name, each, next((a for a in operands if isinstance(a, SimArray)), None))
    if first is None:
        raise UnsupportedArrayError(f"{name}: no argument is an array; make one with xferlib.to_device(x)")
    return first.info.device


def is_scalar(value: Any) -> bool:
    """Whether a value is a NumPy scalar of a dtype that devices have: a number, not a host array (NEP 50)."""
    return isinstance(value, np.generic) and value.dtype.name in _array.DTYPES


def _refuse(name: str, operand: Any, beside: SimArray | None) -> None:
    place = f", device={str(beside.info.device)!r}" if beside is not None else ""
    if registry.backend_of(operand) is not None and not isinstance(operand, np.generic):
        raise MixedBackendsError(
            f"{name}: a {type(operand).__module__}.{type(operand).__name__} meets an array of a simulated device; move "
            f"it there first: xferlib.to_device(x{place})"
        )
    if isinstance(operand, np.generic):
        raise UnsupportedArrayError(
            f"{name}: devices have no dtype {operand.dtype}; convert the number first, as with numpy.float64(x)"
        )
    raise UnsupportedArrayError(
        f"{name}: {type(operand).__name__} is neither an array nor a number; xferlib.to_device(x{place}) makes "
        "an array of it"
    )


def memories(operands: Sequence[Any]) -> list[Any]:
    """The operands as an operation computes with them when it is carried out: memory for arrays."""
    return [each.memory() if isinstance(each, SimArray) else each for each in operands]


def launch(
    name: str,
    run: Callable[[], object],
    reads: Sequence[SimArray],
    writes: Sequence[SimArray],
    on: SimStream | None = None,
    *,
    uses_values: bool = True,
) -> None:
    """Enqueue an operation, on the current stream of its arrays' device if ``on`` is None.

    ``uses_values``: whether reading memory without a value is a fault; False if it may not use all it reads.
    """
    simulator = current.simulator()
    stream = on if on is not None else simulator.current((writes or reads)[0].info.device)
    read, written = spans_of(reads), spans_of(writes)
    nbytes = 0
    for array in (*reads, *writes):
        nbytes += array.memory().nbytes
    simulator.machine.enqueue(stream, name, run, reads=read, writes=written, nbytes=nbytes, uses_values=uses_values)


def spans_of(arrays: Sequence[SimArray]) -> Spans:
    """The spans of several arrays."""
    if len(arrays) == 1:
        return arrays[0].spans()
    found: Spans = ()
    for each in arrays:
        found += each.spans()
    return found


def deferred(
    name: str, function: Callable[..., Any], operands: Sequence[Any], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> SimArray:
    """Enqueue ``function(*operands)`` as one operation, whose result has that shape and dtype."""
    device = common_device(name, operands)
    out = new(shape, dtype, device)
    inputs, into = memories(operands), out.memory()

    def run() -> None:
        into[...] = function(*inputs)

    launch(name, run, [each for each in operands if isinstance(each, SimArray)], [out])
    return out


def immediate(
    name: str, function: Callable[..., Any], operands: Sequence[Any], *, waits: bool = False
) -> SimArray | tuple[SimArray, ...]:
    """Carry out ``function(*operands)`` at once, because its result's shape is known only then.

    A fast device is as legal as a slow one, and the detector sees the same accesses.

    Args:
        name, function, operands: As for `deferred`.
        waits: Whether the shape depends on the values, so that the host has to wait for them, as on a GPU.
    """
    device = common_device(name, operands)
    arrays = [each for each in operands if isinstance(each, SimArray)]
    inputs = memories(operands)
    results: list[Any] = []

    def run() -> None:
        found = function(*inputs)
        results.extend(np.array(each) for each in (found if isinstance(found, tuple) else (found,)))

    stream = current.stream(device)
    now(name, stream, run, spans_of(arrays), nbytes=sum(each.info.nbytes for each in arrays))
    if waits:
        current.machine().waits.synchronize_stream(stream)
    outputs = tuple([stored(name, result, device) for result in results])
    return outputs if len(outputs) > 1 else outputs[0]


def now(name: str, stream: SimStream, run: Callable[[], object], reads: Spans, *, nbytes: int = 0) -> None:
    """Enqueue an operation that reads, and carry it out."""
    simulated = current.machine()
    with simulated.lock:
        simulated.engine.force(simulated.enqueue(stream, name, run, reads=reads, nbytes=nbytes))


def stored(name: str, result: HostArray, device: Device) -> SimArray:
    """A new array with the values that an operation has computed."""
    out = new(result.shape, result.dtype, device)
    into = out.memory()

    def run() -> None:
        into[...] = result

    launch(name, run, [], [out])
    return out


def viewed(array: SimArray, view: HostArray) -> SimArray:
    """The array of a view that NumPy made of ``array.memory()``."""
    block = array.allocation.block
    pointer = block.pointer + view.ctypes.data - block.data.ctypes.data if view.size else array.info.pointer
    is_writable = array.info.is_writable and view.flags.writeable
    info = ArrayInfo(pointer, view.shape, view.strides, view.dtype, array.info.device, is_writable)
    return SimArray(array.allocation, info)


def contiguous(array: SimArray) -> SimArray:
    """The array in C order: itself, or a copy."""
    if array.info.is_c_contiguous:
        return array
    return deferred("copy", lambda a: a, [array], array.shape, array.dtype)
