"""The verbs: check the arguments, choose the backend, delegate."""

from __future__ import annotations

import ctypes
import functools
import mmap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib import _native
from xferlib._core import blocks, registry
from xferlib._core.arrays import DTYPES, Array, Between, address, c_strides, dense_order, is_c_contiguous
from xferlib._core.device import Device, DeviceSpec
from xferlib._core.streams import Stream
from xferlib._core.thresholds import (
    CAST_TO_HALF_FROM,
    CAST_TO_QUARTER_FROM,
    DRIVER_MOST_DOWN,
    DRIVER_MOST_UP,
    GATHERED_MOST,
    HOST_ONE_CALL_MOST,
    LOOPED_FROM,
    LOOPED_GATHERED_FROM,
    LOOPED_SCATTERED_FROM,
    REORDERED_ELEMENTS_FROM,
    REORDERED_FROM,
    REORDERED_NARROWED_FROM,
    SCRATCH_NBYTES,
    THROUGH_FROM,
    THROUGH_MOST,
)
from xferlib._memory import buffers, lifetimes, pinned
from xferlib._runtime import process, torch_compile
from xferlib._runtime.checks import refuse_keyword, refuse_no_copy, refuse_no_flag, refuse_positional
from xferlib._runtime.threads import is_followed
from xferlib._transfer import copies, describe, on_device, plan, staging
from xferlib._transfer.describe import source_of
from xferlib._transfer.handle import Transfer
from xferlib._transfer.plan import Conversion, TransferPath
from xferlib.errors import ArgumentError, LayoutError, shown

if TYPE_CHECKING:
    from typing import Never

    from xferlib._core.arrays import HostArray
    from xferlib._core.backend import Backend
    from xferlib._core.device import RawStream


# The kernel that `front.c` launches behind an upload, or before a download, of an array that crosses as it lies.
#
# An array that is dense but not in C order, as a transposed one, crosses the link in the order of the host's memory,
# and one that the device converts in the host's dtype. The rest of such a call is one kernel, which depends on the form
# of the array alone. So it is described once, and C launches it from then on: in Python the second step takes 100 us
# after a pause, as long as 3 MiB take to cross.

_MOST_ARGS = 60
"""As in `step.h`."""


def described(
    backend: Backend, device: Device, is_upward: int, is_pinned: int, shape: tuple[int, ...], strides: tuple[int, ...],
    host: np.dtype[Any], there: np.dtype[Any],
) -> tuple[int, tuple[int, int, int], tuple[int, ...]] | None:  # fmt: skip
    """The launch that moves an array between its order in the host's memory and C order, both on the device.

    Args:
        backend, device: The kernel's.
        is_upward: 1: to the device, where it writes C order; 0: to the host.
        is_pinned: 1: the device reads or fills the host's memory by itself.
        shape: The array's.
        strides, host: Of its end on the host, whose dtype crosses the link.
        there: Its dtype on the device.

    Returns:
        The handle of the kernel, which `relayout` keeps loaded, the blocks and the two sides of each, and the arguments
        after the addresses of what is written and read. None where the plan is another one, or one kernel cannot do it.
    """
    means = plan.known.get(device) or plan.means_of(backend, device)
    memory: plan.Memory = "pooled" if is_pinned else "pageable"
    found = plan.compiled(shape, strides, host, there, means, bool(is_upward), True, True, True, memory, None)
    is_step = found.path is TransferPath.PERMUTED or found.conversion is Conversion.ON_DEVICE
    if not is_step or dense_order(shape, strides, host.itemsize) is None:
        return None
    in_order = c_strides(shape, there.itemsize)
    ends = (in_order, strides, host, there) if is_upward else (strides, in_order, there, host)
    launch = on_device.converting(shape, *ends)
    if launch is None or len(launch.args) > _MOST_ARGS:
        return None
    code: Any = on_device.kernel(launch.name, launch.source, launch.key, backend, device)
    return code.handle, (min(launch.blocks, on_device.MOST_BLOCKS), *launch.block[:2]), launch.args


# The public `to_device` and `to_host` in C, and what `front.c` asks of the rest: circumstances, libraries and devices.
#
# The C does the usual call of a small array by itself; each other one goes to the function in Python of the same name.
# It keeps what it is told here, in tables and for each thread, until `xferlib._runtime.process` has another number.

_numpy: Any = np  # whose parts have no types
_ON_CPU, _ON_DEVICE = 1, 2
_LEFT_TO_PYTHON = 0
_KINDS = {"b": 6, "i": 0, "u": 1, "f": 2, "c": 5}
"""DLPack's codes of dtypes, by NumPy's kinds."""
_OF_DRIVER = (
    "send", "fetch", "enqueue", "fetch_later", "current", "query", "attribute", "launch", "wait", "is_captured"
)  # fmt: skip
"""The functions of `DirectCopies` that C calls by their addresses."""

_front: Any = None
_known_of = -1
"""The look-up of types that the tables in C are of: `registry.forgotten`."""
_libraries: dict[type, int] = {}
_ends: dict[Device, int] = {}


def bind(to_device: Callable[..., Any], to_host: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Functions in C that do the usual calls of these two, and leave the others to them; themselves without the C."""
    global _front
    _front = _native.front()
    if _front is None:
        return to_device, to_host
    elements = [(dtype, _KINDS[dtype.kind], 8 * dtype.itemsize, dtype.itemsize) for dtype in map(np.dtype, DTYPES)]
    limits = {
        "most_up": DRIVER_MOST_UP, "most_down": DRIVER_MOST_DOWN, "most_copied": HOST_ONE_CALL_MOST,
        "least_through": THROUGH_FROM, "most_through": THROUGH_MOST, "most_spread": GATHERED_MOST,
        "scratch": SCRATCH_NBYTES, "least_looped": LOOPED_FROM, "least_looped_up": LOOPED_GATHERED_FROM,
        "least_looped_down": LOOPED_SCATTERED_FROM, "most_ordered": REORDERED_FROM,
        "least_reordered": REORDERED_ELEMENTS_FROM, "least_narrowed": REORDERED_NARROWED_FROM,
        "least_halved": CAST_TO_HALF_FROM, "least_quartered": CAST_TO_QUARTER_FROM,
    }  # fmt: skip
    numbers: dict[Any, int] = {}
    for number, (dtype, *_) in enumerate(elements):
        names = dtype.name, dtype.char, dtype.str, dtype.str[1:]
        numbers |= dict.fromkeys((dtype, dtype.type, *names), number)
    swapped = {dtype.newbyteorder(): number for number, (dtype, *_) in enumerate(elements) if dtype.itemsize > 1}
    objects = {
        "number": process.number, "scopes": process.scopes, "scope": blocks.here,
        "moves": blocks.moves, "follow": blocks.follow, "may_skip": _may_skip,
        "settle": _settle, "introduce": _introduce, "resolve": _resolve,
        "to_device": to_device, "to_host": to_host,
        "ndarray": np.ndarray, "device": Device, "stream": Stream,
        "dtype": np.dtype, "dtypes": numbers, "swapped": swapped, "memmap": np.memmap, "mmap": mmap.mmap,
        "between": Between,
    }  # fmt: skip
    try:
        found: tuple[Callable[..., Any], Callable[..., Any]] = _front.bind_front(
            objects, limits, elements, _numpy._core.multiarray._ARRAY_API, to_device.__module__,
            tuple(map(_documentation, (to_device, to_host))),
        )  # fmt: skip
    except RuntimeError:  # a NumPy of another ABI
        return to_device, to_host
    return found


def fetched_pinned(arrays: list[Array]) -> list[HostArray] | None:
    """Copy arrays in C order of one device to pinned memory, waiting once; None, a no-op, where C does not do it."""
    found: list[HostArray] | None = _front.fetch_pinned(arrays) if _front is not None else None
    return found


def _documentation(function: Any) -> str:
    """A docstring from which `inspect.signature` reads the arguments of a function that is compiled from C."""
    code, defaults_ = function.__code__, function.__kwdefaults__ or {}
    count, by_name = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames
    has_star, has_stars = bool(code.co_flags & 4), bool(code.co_flags & 8)  # `inspect`, which loads slowly, names them
    star = f"*{names[by_name]}" if has_star else "*"
    options = [f"{name}={defaults_[name]!r}" for name in names[count:by_name]]
    if has_stars:
        options.append(f"**{names[by_name + has_star]}")
    return f"{function.__name__}({', '.join([*names[:count], star, *options])})\n--\n\n{function.__doc__}"


def _may_skip() -> tuple[int, ...] | None:
    """The address of ``xf_host_copy`` and its last arguments, if the C may do a call by itself, until the circumstances
    change."""
    global _known_of
    if _known_of != registry.forgotten:
        _front.forget_ends()
        _libraries.clear()
        _ends.clear()
        _known_of = registry.forgotten
    if not plan.may_skip() or not _native.is_on() or process.has_begun():
        return None
    return _addresses()[2], *plan.host_crew(plan.helpers())


@functools.cache
def _addresses() -> tuple[int, int, int]:
    """The addresses of ``xf_gather``, ``xf_scatter`` and ``xf_host_copy``."""
    library = _native.load_library()
    functions = library.xf_gather, library.xf_scatter, library.xf_host_copy
    gather, scatter, copy = (ctypes.cast(each, ctypes.c_void_p).value or 0 for each in functions)
    return gather, scatter, copy


def _settle() -> int:
    """The number of the end that a call of this thread means which names no device."""
    owner = registry.default_backend()
    device = registry.current_device(owner)
    owner.at(device).attach(device)
    return _end(device)


def _resolve(device: str | int | None, backend: str | None) -> Device:
    """The device that a call names, or the current one of the backend that it names."""
    return registry.resolve(device, backend=registry.get(backend) if backend is not None else None)


def _introduce(thing: Any, index: int) -> None:
    """Tell the C of a device, or of a type of arrays, that it has met.

    Args:
        thing: The device; or the type.
        index: Of the device, not the CPU, that has been met with an array of the type; -1: of the type alone.
    """
    if isinstance(thing, Device):
        _end(thing)
    elif registry.is_array_type(thing) and (owner := registry.by_type[thing]) is not None:
        _library(thing, owner)
        for device in owner.devices() if index >= 0 else ():  # of the others a context would be made
            if device.kind != "cpu" and device.index == index:
                _end(device)


def _library(cls: type, owner: Backend) -> int:
    """The number of a type of arrays."""
    found = _libraries.get(cls)
    if found is None:
        plain, fast = owner.plain_arrays, owner.fast
        is_known = plain is not None and plain.array_type is cls
        exchange = plain.exchange if plain is not None and is_known else None
        is_alone = sum(device.kind != "cpu" for device in owner.devices()) == 1
        whole = fast.whole if fast is not None and exchange is None and is_alone else None
        functions = {"whole": whole, "note_write": owner.note_write if owner.follows_writes else None}
        for name in ("is_negated", "is_conjugate", "recording", "maker") if plain is not None else ():
            functions[name] = getattr(plain, name)
        dtypes = plain.dtypes if plain is not None else ()
        found = _libraries[cls] = _front.add_library(cls, is_known, exchange, functions, dtypes)
    return found


def _end(device: Device) -> int:
    """The number of a device; of one that Python serves alone, too."""
    found = _ends.get(device)
    if found is None:
        found = _ends[device] = _added(device)
    return found


def _added(device: Device) -> int:
    part = registry.backend_of(device)
    plain = part.plain_arrays if part is not None else None
    if part is None or plain is None:
        return _add(device, -1, 0, _LEFT_TO_PYTHON)
    library = _library(plain.array_type, registry.get(device.backend))
    if device.kind == "cpu":
        new = functools.partial(part.empty, device=device, stream=part.stream_current(device))
        return _add(device, library, 0, _ON_CPU, {"empty": new})
    part.attach(device)
    direct = part.fast.direct(device) if part.fast is not None else None
    if direct is None:
        return _add(device, library, device.index, _LEFT_TO_PYTHON)

    pool = pinned.pools.of(part)
    functions = {
        "empty": direct.empty, "pointer": direct.pointer, "stream": direct.stream, "is_current": direct.is_current,
        "empty_on": functools.partial(_empty_on, part, device), "hold": functools.partial(_hold, part, device),
        "empty_between": functools.partial(_empty_between, part, device, direct.empty_between),
        "pinned": pool._lend, "result": _new_result, "scratch": functools.partial(buffers.scratch_of, part),
        "prepare": functools.partial(staging.prepared, part, device),
        "finish": functools.partial(staging.gone_on, part, device),
        "describe": functools.partial(described, part, device) if direct.launch else None,
        "pool": pool, **pool.lending(), "is_followed": is_followed,
    }  # fmt: skip
    addresses = {name: getattr(direct, name) for name in _OF_DRIVER} | staging.addresses()
    addresses["gather"], addresses["scatter"], _ = _addresses()
    return _add(device, library, device.index, _ON_DEVICE, functions, addresses, direct.context)


def _empty_on(
    backend: Backend, device: Device, shape: tuple[int, ...], dtype: np.dtype[Any], stream: RawStream | None
) -> Array:
    """A new array of a stream; None is the current one."""
    return backend.empty(shape, dtype, device=device, stream=stream or backend.stream_current(device))


def _empty_between(
    backend: Backend,
    device: Device,
    make: Callable[[tuple[int, ...], np.dtype[Any], RawStream], Array] | None,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    stream: RawStream | None,
) -> Array:
    """The same, for work on the stream alone."""
    if make is None:
        return _empty_on(backend, device, shape, dtype, stream)
    return make(shape, dtype, stream or backend.stream_current(device))


def _hold(backend: Backend, device: Device, array: Array, stream: RawStream | None, source: HostArray | None) -> None:
    """Keep an array, and a pinned source, until a stream, None is the current one, has done its work so far."""
    event = lifetimes.record(backend, stream or backend.stream_current(device))
    lifetimes.in_flight.hold(backend, event, array)
    if source is not None:
        ranges = pinned.find(address(source), source.nbytes, backend)
        lifetimes.hold_pinned(source, ranges.lease if ranges is not None else None, backend, event)


def _new_result(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[HostArray, bool]:
    """A new array on the host, and whether its pages were never touched."""
    made = buffers.host_cache.empty(shape, dtype)
    return made, buffers.is_fresh(made)


def _add(
    device: Device,
    library: int,
    index: int,
    kind: int,
    functions: dict[str, Any] | None = None,
    addresses: dict[str, int] | None = None,
    context: int = 0,
) -> int:
    found: int = _front.add_end(device, library, index, kind, functions or {}, addresses or {}, context)
    return found


# The order in which elements lie: arrays in Fortran order are those in C order with their axes reversed.

IN_C = "C"
"""The default, told from any other object by its identity."""


def is_fortran(order: Any, call: str) -> bool:
    """Whether ``order`` is ``"F"``.

    Raises:
        ArgumentError: It is neither that nor ``"C"``.
    """
    if not isinstance(order, str) or order not in ("C", "F"):
        raise ArgumentError(f"{call}: order={shown(order)} is neither 'C' nor 'F'; give one of them")
    return order == "F"


def reversed_axes(array: Array) -> Array:
    """A view of an array with its axes reversed."""
    backend = registry.owner_of(array)
    assert backend is not None
    return backend.at(backend.device_of(array)).reversed_axes(array)


def send(x: Any, dtype: Any, send_in_c_order: Callable[..., Array], *, copy: bool | None) -> Array:
    """Send an array so that it arrives in Fortran order.

    Args:
        x, dtype: As for `xferlib.to_device`.
        send_in_c_order: Sends an array, with ``copy=``.
        copy: As for `xferlib.to_device`.

    Raises:
        LayoutError: ``copy=False`` and ``x`` is in another order.
    """
    backend = registry.owner_of(x)
    given: Array = x if backend is not None else source_of(x, dtype=dtype).host
    info = registry.get("numpy").view(given) if backend is None else backend.view(given)
    is_fit = is_c_contiguous(info.shape[::-1], info.strides[::-1], info.dtype.itemsize)
    if copy is False and not is_fit:
        raise LayoutError("copy=False, but the array is not in Fortran order; pass copy=None or copy=True")
    turned = given.T if backend is None else reversed_axes(given)
    sent = send_in_c_order(turned, copy=copy if is_fit else True)
    return x if sent is turned else reversed_axes(sent)


_native.tell_if_absent()


def to_device(
    x: Any,
    *misplaced: Never,
    backend: str | None = None,
    device: DeviceSpec = None,
    dtype: Any = None,
    stream: Any = None,
    out: Array | None = None,
    copy: bool | None = True,
    order: str = IN_C,
    **unknown: Never,
) -> Array:
    """Copy an array to a device; the result never aliases ``x`` unless ``copy`` allows it.

    Any strides, order, alignment and byte order are taken; the result is contiguous. Without
    ``stream`` the source may be changed when the call returns (one on a device: on its current stream),
    and the result is ordered on the current stream. With ``stream`` a source that is pinned or on a
    device must stay unchanged until the copy is complete on the stream; any other has been read on return.

    Args:
        x: A host array (NumPy, torch on the CPU, a sequence, a scalar) or a device array; shape S.
        backend: Registry name of the target; the default backend if omitted.
        device: Target device; the backend's current one if omitted.
        dtype: Converted to while staging; floats saturate to integers. The dtype of ``x`` if omitted.
        stream: The stream that carries the copy; the current one if omitted.
        out: Device array of shape S to fill, of any strides.
        copy: True: always copy. None: return ``x`` itself where it already fits. False: only that.
        order: Of a new array: ``"C"``, or ``"F"``, whose first index changes fastest.

    Returns:
        ``out``, or a new array of shape S on the device.

    Raises:
        UnsupportedArrayError, UnsupportedDTypeError: ``x`` cannot be held by a device.
        OverflowError: A Python integer in ``x`` does not fit into ``dtype``.
        LayoutError: ``out`` differs in shape or dtype or is read-only; or ``copy=False`` cannot be met; or ``x`` or
            ``out`` is a memory map of a file that has been truncated.
        BackendNotFoundError, BackendUnavailableError, DeviceNotFoundError: The requested backend or device does
            not exist or is unavailable.
        MixedBackendsError, MixedDevicesError: ``out`` and ``device`` or ``backend`` disagree.
        StreamError: ``stream`` is of another device.
        ArgumentError: ``order`` is neither, or ``"F"`` beside ``out``, whose order stands.
        DeviceMemoryError, PinnedMemoryError: Nothing has been copied.
    """
    blocks.follow()
    if misplaced:
        refuse_positional("to_device", misplaced)
    if unknown:
        refuse_keyword("to_device", unknown)
    if copy is not True:
        refuse_no_copy(copy, "to_device")
    if order is not IN_C and is_fortran(order, "to_device"):
        if out is not None:
            raise ArgumentError("to_device: order='F' asks for a new array, but out is given; leave one of them out")
        sent = functools.partial(to_device, backend=backend, device=device, dtype=dtype, stream=stream)
        return send(x, dtype, sent, copy=copy)
    if stream is None and copy is True:  # as most calls are
        done = copies.to_device(x, backend, device, out, dtype)
        if done is not None:
            return done
    return copies.copy(
        describe.source_of(x, dtype=dtype), describe.target_of(backend, device, stream, out), dtype, copy=copy
    )


def copy_to(
    x: Any, device: Any, *, dtype: Any = None, stream: Any = None, copy: bool | None = True, **unknown: Never
) -> Array:
    """Copy an array to another device, of its own backend or of another one.

    The bytes go straight from device to device where the hardware lets one reach the other, else through pinned
    memory, one piece on either link at once. No thread waits for the copy: the target's stream waits for the work
    enqueued so far on the current stream of the source's device, and, without ``stream``, that stream for the copy,
    so that the source may be changed there. The result is contiguous, and ordered on the target's stream.

    Args:
        x: An array of any backend, shape S, of any strides; one on the host as well.
        device: A specification, or an array whose device is meant. It is of the backend of ``x`` where it names
            none: ``1`` and ``"cuda:1"`` of a tensor are ``"torch:cuda:1"``. None: that backend's current device.
        dtype: Converted to on the source's device; floats saturate to integers. The dtype of ``x`` if omitted.
        stream: A stream of the target that carries the copy, instead of the current one; ``x`` must then stay
            unchanged until the copy is complete there.
        copy: True: always copy. None: return ``x`` itself where it is on the device. False: only that.

    Returns:
        A new array of shape S on the device. ``to_device(x, out=y)`` fills one that exists.

    Raises:
        As `to_device`.
    """
    if unknown:
        refuse_keyword("copy_to", unknown)
    if copy is not True:
        refuse_no_copy(copy, "copy_to")
    elif dtype is stream is None and (done := on_device.copy_to(x, device)) is not None:
        return done
    target = describe.target_of(None, registry.for_array(device, x), stream, None)
    return copies.copy(describe.source_of(x, dtype=dtype), target, dtype, copy=copy)


def to_device_async(
    x: Any,
    *misplaced: Never,
    backend: str | None = None,
    device: DeviceSpec = None,
    dtype: Any = None,
    stream: Any = None,
    out: Array | None = None,
    **unknown: Never,
) -> Transfer:
    """Start copying an array to a device and return at once, whatever memory it lies in.

    The source must stay unchanged until `Transfer.source_released`. The destination is ordered
    after ``Transfer.wait(stream)`` or ``Transfer.result()``, not before.

    Args:
        x, backend, device, dtype, out: As for `to_device`.
        stream: The stream that carries the copy; a stream of xferlib's own if omitted, so that the
            copy runs beside the current stream's work.

    Returns:
        A `Transfer` whose result is the device array.

    Raises:
        As `to_device`, before anything is copied; later failures come from ``Transfer.result()``.
    """
    blocks.follow()
    if misplaced:
        refuse_positional("to_device_async", misplaced)
    if unknown:
        refuse_keyword("to_device_async", unknown)
    return copies.begin(describe.source_of(x, dtype=dtype), describe.target_of(backend, device, stream, out), dtype)


def to_host(
    d: Any, *, dtype: Any = None, stream: Any = None, out: HostArray | None = None, pinned: bool = False,
    copy: bool | None = True, **unknown: Never,
) -> HostArray:  # fmt: skip
    """Copy an array to host memory; complete on return, and an alias of ``d`` only where ``copy`` allows it.

    Args:
        d: An array of any backend, shape S. Host arrays are copied too.
        dtype: Converted to on the way; floats saturate to integers. The dtype of ``d`` if omitted.
        stream: The stream after whose pending work the copy runs; the current one if omitted.
        out: Host array of shape S to fill, of any strides; a new one if omitted.
        pinned: Return the new array in page-locked memory of the pool, which the device fills by itself: for a
            result that is sent back, or kept for a while and its memory used again.
        copy: True: always copy. None: return ``d`` itself where it is a NumPy array of the dtype. False: only that.

    Returns:
        ``out``, or a new array of shape S in C order, or ``d``.

    Raises:
        UnsupportedArrayError: ``d`` is no array.
        LayoutError: ``out`` differs in shape or dtype, or is read-only; or ``pinned`` is given with it; or
            ``copy=False`` cannot be met.
        PinnedMemoryError: The pool has no room, or the system refuses more page-locked memory.
        StreamError: ``stream`` is of another device.
    """
    blocks.follow()
    if unknown:
        refuse_keyword("to_host", unknown)
    if copy is not True:
        refuse_no_copy(copy, "to_host")
        refuse_no_flag(pinned, "to_host: pinned")
        if out is None and not pinned and copies.is_host_array(d, dtype):
            kept: HostArray = d
            return kept
        if copy is False:
            raise copies.to_host_needs_a_copy(d, dtype, out, pinned=pinned)
    if pinned is not False:
        refuse_no_flag(pinned, "to_host: pinned")
        if stream is out is None and (done := copies.fetch_in_one_step(d, None, dtype, is_pinned=True)) is not None:
            return done
        return copies.to_pinned(d, dtype, stream, out)
    if stream is None and (done := copies.fetch_in_one_step(d, out, dtype)) is not None:
        return done
    return copies.to_host(d, dtype, stream, out)


_to_device, _to_host = to_device, to_host
if not TYPE_CHECKING:  # those in C have no annotations
    to_device, to_host = bind(to_device, to_host)
    if to_device is not _to_device:
        torch_compile.show_python(to_device, _to_device)
        torch_compile.show_python(to_host, _to_host)


def to_host_async(
    d: Any, *, dtype: Any = None, stream: Any = None, out: HostArray | None = None, **unknown: Never
) -> Transfer[HostArray]:
    """Start copying an array to host memory and return at once.

    The data is handed out by ``Transfer.result()`` only, when it is complete. Until then ``d`` must
    not be written, nor ``out`` read.

    Args:
        d, dtype, out: As for `to_host`.
        stream: The stream that carries the copy; a stream of xferlib's own, behind the current
            stream's pending work, if omitted.

    Returns:
        A `Transfer` whose result is the host array.
    """
    blocks.follow()
    if unknown:
        refuse_keyword("to_host_async", unknown)
    return copies.begin_to_host(d, dtype=dtype, stream=stream, out=out)
