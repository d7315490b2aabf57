"""Elements at computed positions: operations that read and write just these, so that the detector knows them.

The bytes to access depend on the indices, so these are read at once: a fast device is as legal as a slow one. How many
elements a mask selects is known to the host behind that, which waits for it as with a GPU.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core.arrays import c_strides
from xferlib._core.device import make_capture_error
from xferlib.kernels.plans import Plans
from xferlib.sim import launches, machine, model
from xferlib.sim.arrays import SimArray, kind_of, memories_of, new, spans_of
from xferlib.sim.launches import NewArray, PreparedLaunch

if TYPE_CHECKING:
    from xferlib._core.arrays import HostArray
    from xferlib._runtime.checks import CodeLocation
    from xferlib.sim.memory import Spans
    from xferlib.sim.model import SimStream

    CalledAt = tuple[CodeLocation, str]

Indices = tuple["HostArray", ...]


def gather(x: SimArray, indices: Sequence[SimArray], out: SimArray) -> None:
    """Enqueue ``out[...] = x[indices]``."""
    stream = machine.stream(x.device)
    found = _read(indices, stream)
    _check(found, x.shape)
    if out.size:
        _enqueue_gather(x, found, out, stream)
        _note_gather(x, indices, out)


def select(x: SimArray, mask: SimArray) -> SimArray:
    """Enqueue ``x[mask]``, a new array; waits for the values of the mask, of one axis at least."""
    stream = machine.stream(x.device)
    found = _read((mask,), stream)
    _wait(stream)
    out = new((int(np.count_nonzero(found[0])), *x.shape[mask.ndim :]), x.dtype, x.device)
    if out.size:
        _enqueue_gather(x, found, out, stream)
    _note_select(x, mask, out)
    return out


def scatter(x: SimArray, indices: Sequence[SimArray], value: Any) -> None:
    """Enqueue ``x[indices] = value``, of an array or a number; a mask may stand for the indices."""
    stream = machine.stream(x.device)
    found = _read(indices, stream)
    (source,) = memories_of((value,))
    _check(found, x.shape)
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


def _read(indices: Sequence[SimArray], stream: SimStream) -> Indices:
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


def _wait(stream: SimStream) -> None:
    """Let the host wait for the number of elements, as it does for a copy."""
    simulated = machine.machine()
    simulated.implicit.wait(np.dtype(np.int64).itemsize)
    simulated.waits.synchronize_stream(stream)


def _check(indices: Indices, shape: tuple[int, ...]) -> None:
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


class _Repeated:
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
        _check(found, shape)
        return launch.enqueue((_restrict(given[0], found), found), _run_gather, is_library=True, called_at=called_at)[0]

    launches.note(_Repeated(x, indices, use), (x, *indices), out)


def _note_select(x: SimArray, mask: SimArray, out: SimArray) -> None:
    """Note ``x[mask]``."""
    rest = out.shape[1:]
    by_count: Plans[PreparedLaunch] = Plans(64)
    """By the number of elements that the mask selects."""

    def use(given: Sequence[Any], found: Indices, called_at: CalledAt) -> SimArray:
        x = given[0]
        _wait(machine.stream(x.device))
        count = int(np.count_nonzero(found[0]))
        if not count or 0 in rest:
            return new((count, *rest), x.dtype, x.device)
        launch = by_count.get(count)
        if launch is None:
            launch = _prepare_gather(x, (count, *rest))
            by_count.keep(count, launch)
        return launch.enqueue((_restrict(x, found), found), _run_gather, is_library=True, called_at=called_at)[0]

    launches.note(_Repeated(x, (mask,), use, operations=2 if out.size else 1), (x, mask), out)


def _note_scatter(x: SimArray, indices: Sequence[SimArray], value: Any) -> None:
    """Note ``x[indices] = value``."""
    reads, shape = (2,) if isinstance(value, SimArray) else (), x.shape
    launch = PreparedLaunch("assignment", x.device, {0: x.nbytes, 2: 0}, reads=reads, writes=(0,), makes=())

    def use(given: Sequence[Any], found: Indices, called_at: CalledAt) -> None:
        _check(found, shape)
        operands = _restrict(given[0], found), found, given[-1]
        launch.enqueue(operands, _run_scatter, is_library=True, called_at=called_at)

    launches.note(_Repeated(x, indices, use), (x, *indices, value), None)
