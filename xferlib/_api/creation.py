"""Creation of arrays, on devices and in pinned memory, and release of memory that is kept for reuse."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from xferlib import _native
from xferlib._api import transfers
from xferlib._api.transfers import is_fortran
from xferlib._core import arrays, registry
from xferlib._core.arrays import Array, as_host_array, c_strides, check_dtype, check_number, is_c_contiguous, shape_of
from xferlib._core.device import DeviceSpec
from xferlib._core.observe import Kind
from xferlib._memory import buffers, pinned
from xferlib._runtime import checks, torch_compile
from xferlib._runtime.checks import refuse_keyword
from xferlib._transfer import copies, describe, on_device, replay, staging
from xferlib._transfer.describe import CopySource, CopyTarget
from xferlib.errors import ArgumentError, LayoutError, OutOfMemoryError, UnsupportedArrayError, quote

if TYPE_CHECKING:
    from typing import Never

    from xferlib._api.array_module import ArrayModule
    from xferlib._core.arrays import HostArray
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device


Shape = int | Sequence[int]


def _reverse_axes(array: Array) -> Array:
    """A view of an array with its axes reversed."""
    backend = registry.owner_of(array)
    assert backend is not None
    return backend.at(backend.device_of(array)).reversed_axes(array)


def empty(
    shape: Shape, dtype: Any = "float64", *, backend: str | None = None, device: DeviceSpec = None, order: str = "C"
) -> Array:
    """An uninitialised contiguous array on a device, from the library's memory pool.

    Args:
        shape: An int or a sequence of ints.
        dtype: A supported dtype.
        backend: Registry name; the default backend if omitted.
        device: The device; the backend's current one if omitted.
        order: ``"C"``, or ``"F"`` for elements whose first index changes fastest, as in Fortran and in BLAS.

    Raises:
        ArgumentError: ``order`` is neither.
        LayoutTypeError: ``shape`` is not a shape.
        DeviceMemoryError: The device has too little memory.
    """
    if is_fortran(order, "empty"):
        return _reverse_axes(empty(shape_of(shape)[::-1], dtype, backend=backend, device=device))
    place = registry.resolve(device, backend=None if backend is None else registry.get(backend))
    owner = registry.part_of(place)
    owner.attach(place)
    made = check_dtype(dtype, what="dtype")
    owner.hand_out()
    return owner.empty(shape_of(shape), made, device=place, stream=owner.stream_current(place))


def full(
    shape: Shape, fill_value: complex, dtype: Any = None, *, backend: str | None = None, device: DeviceSpec = None,
    order: str = "C",
) -> Array:  # fmt: skip
    """An array filled with one value; its dtype is the value's, as NumPy has it, if omitted. Others as for `empty`.

    Raises:
        OverflowError: The value is a Python integer that ``dtype`` does not hold.
    """
    return _fill("full", shape, fill_value, dtype, backend, device, order)


def _fill(
    call: str, shape: Shape, fill_value: complex, dtype: Any, backend: str | None, device: DeviceSpec, order: str
) -> Array:
    """`full`, for a function that errors name."""
    if is_fortran(order, call):
        return _reverse_axes(_fill(call, shape_of(shape)[::-1], fill_value, dtype, backend, device, "C"))
    if fill_value is None or isinstance(fill_value, str):
        raise UnsupportedArrayError(f"full: fill_value={fill_value!r} is not a number; give one: full(shape, number)")
    value = as_host_array(fill_value, what="fill_value")
    wanted = describe.choose_dtype(dtype, value.dtype)
    arrays.check_conversion(value.dtype, wanted)
    value = arrays.exactly(fill_value, value, wanted)
    if value.ndim:
        raise LayoutError(f"fill_value has shape {value.shape}; give one number, or use to_device()")
    array = empty(shape, wanted, backend=backend, device=device)
    owner = registry.owner_of(array)
    assert owner is not None
    place = owner.view(array).device
    if place.kind == "cpu":
        arrays.copy_into(owner.host_view(array), np.broadcast_to(value, owner.host_view(array).shape))
    else:
        copies.fill(array, value, owner.at(place))
    return array


def zeros(
    shape: Shape, dtype: Any = "float64", *, backend: str | None = None, device: DeviceSpec = None, order: str = "C"
) -> Array:
    """An array of zeros. Arguments as for `empty`."""
    return _fill("zeros", shape, 0, "float64" if dtype is None else dtype, backend, device, order)


def ones(
    shape: Shape, dtype: Any = "float64", *, backend: str | None = None, device: DeviceSpec = None, order: str = "C"
) -> Array:
    """An array of ones. Arguments as for `empty`."""
    return _fill("ones", shape, 1, "float64" if dtype is None else dtype, backend, device, order)


def _like(x: Array, dtype: Any, device: DeviceSpec) -> tuple[tuple[int, ...], Any, Any, str]:
    """Shape, dtype, device and order of an array like another; the order is C unless that is in Fortran order alone."""
    backend = registry.owner_of(x)
    if backend is None:
        raise UnsupportedArrayError(f"{type(x).__name__} is not an array of any backend; pass an array")
    info = backend.view(x)
    lies_in_f = is_c_contiguous(info.shape[::-1], info.strides[::-1], info.dtype.itemsize)
    order = "F" if lies_in_f and not info.is_c_contiguous else "C"
    return info.shape, info.dtype if dtype is None else dtype, info.device if device is None else device, order


def empty_like(x: Array, dtype: Any = None, *, device: DeviceSpec = None) -> Array:
    """An uninitialised array with the shape, dtype and device of another, in Fortran order where that is."""
    shape, dtype, device, order = _like(x, dtype, device)
    return empty(shape, dtype, device=device, order=order)


def zeros_like(x: Array, dtype: Any = None, *, device: DeviceSpec = None) -> Array:
    """Zeros with the shape, dtype and device of another array, in Fortran order where that is."""
    shape, dtype, device, order = _like(x, dtype, device)
    return zeros(shape, dtype, device=device, order=order)


def ones_like(x: Array, dtype: Any = None, *, device: DeviceSpec = None) -> Array:
    """Ones with the shape, dtype and device of another array, in Fortran order where that is."""
    shape, dtype, device, order = _like(x, dtype, device)
    return ones(shape, dtype, device=device, order=order)


def full_like(x: Array, fill_value: complex, dtype: Any = None, *, device: DeviceSpec = None) -> Array:
    """One value with the shape, dtype and device of another array, in Fortran order where that is."""
    shape, dtype, device, order = _like(x, dtype, device)
    return full(shape, fill_value, dtype, device=device, order=order)


def array_over(
    pointer: int, shape: Shape, dtype: Any, *, owner: Any, backend: str | None = None, device: DeviceSpec = None
) -> Array:
    """An array over memory that another library allocated: nothing is copied, checked or freed.

    Args:
        pointer: The address of the first element, on the device.
        shape: An int or a sequence of ints; the elements lie in C order without gaps.
        dtype: A supported dtype.
        owner: Whatever keeps the memory allocated; it lives at least as long as the array and its views.
        backend: Registry name; the default backend if omitted.
        device: Where the memory is; the backend's current device if omitted.

    Raises:
        ArgumentError: ``pointer`` is not an address, or the simulator has no memory there.
        LayoutError: ``shape`` is not a shape, or ``pointer`` no multiple of the element's size.
        UnsupportedError: The backend cannot.
    """
    extents, kind = shape_of(shape), check_dtype(dtype, what="dtype")
    place = registry.resolve(device, backend=None if backend is None else registry.get(backend))
    nbytes = math.prod(extents) * kind.itemsize
    is_int = isinstance(pointer, (int, np.integer)) and not isinstance(pointer, bool)
    if not is_int or not 0 <= pointer <= (1 << 64) - nbytes or (nbytes and not pointer):
        raise ArgumentError(
            f"array_over: pointer={quote(pointer)} is not an address of {nbytes} bytes; give int(pointer)"
        )
    if pointer % kind.itemsize:
        raise LayoutError(
            f"array_over: address {int(pointer):#x} is not a multiple of the {kind.itemsize} bytes of {kind}; "
            "make an array of uint8"
        )
    part = registry.part_of(place)
    part.attach(place)
    if not nbytes:
        return part.empty(extents, kind, device=place, stream=part.stream_current(place))
    return part.over(int(pointer), extents, kind, device=place, owner=owner)


# --- pinned memory


def _choose_pinning_backend(backend: str | None) -> Backend:
    chosen = registry.get(backend) if backend is not None else registry.default_backend()
    place = registry.current_device(chosen)
    chosen = chosen.at(place)
    chosen.attach(place)
    return chosen


def pinned_empty(shape: Shape, dtype: Any = "float64", *, backend: str | None = None) -> HostArray:
    """An uninitialised NumPy array in page-locked memory, from a pool.

    Copies from and to it run at the speed of the link, and asynchronously. On a CPU backend it is
    ordinary memory.

    Args:
        shape: An int or a sequence of ints.
        dtype: A supported dtype.
        backend: The backend that will copy it; the default one if omitted.

    Raises:
        PinnedMemoryError: The system or ``XFERLIB_PINNED_LIMIT`` allows no more.
    """
    chosen = _choose_pinning_backend(backend)
    return pinned.pools.of(chosen)._lend(shape_of(shape), check_dtype(dtype, what="dtype"))


def pinned_zeros(shape: Shape, dtype: Any = "float64", *, backend: str | None = None) -> HostArray:
    """Zeros in page-locked memory. Arguments as for `pinned_empty`."""
    array = pinned_empty(shape, dtype, backend=backend)
    array.fill(0)
    return array


def pinned_empty_like(x: Any, dtype: Any = None, *, backend: str | None = None) -> HostArray:
    """An uninitialised pinned array with the shape and dtype of any array."""
    owner = registry.owner_of(x)
    like = owner.view(x) if owner is not None else as_host_array(x)
    return pinned_empty(like.shape, like.dtype if dtype is None else dtype, backend=backend)


def pinned_array(x: Any, dtype: Any = None, *, backend: str | None = None) -> HostArray:
    """A pinned copy of any array: same shape, dtype and contents, C-contiguous."""
    owner = registry.owner_of(x)
    source = x if owner is not None else describe.source_of(x, dtype=dtype).host
    out = pinned_empty_like(source, dtype, backend=backend)
    return transfers.to_host(source, dtype=out.dtype, out=out)


def pin(array: HostArray, *, backend: str | None = None) -> pinned.pin:
    """Page-lock an existing array in place, for the time of a block: ``with xl.pin(x): ...``.

    Worth it for memory that is sent many times: page-locking 1 GiB takes 24 ms where the pages are resident and about
    140 ms where they are not. One transfer alone is faster staged.

    Args:
        array: A C- or F-contiguous ``numpy.ndarray`` in ordinary memory. Not a file-backed map.
        backend: The backend that will copy it; the default one if omitted.

    Raises:
        LayoutError: The array has gaps, or is a file-backed map, or something else.
        PinnedMemoryError: The system refuses to lock the pages.
    """
    return pinned.pin(array, _choose_pinning_backend(backend))


def pinned_pool(backend: str | None = None) -> pinned.PinnedPool:
    """The pool of page-locked memory: ``stats()``, ``trim()``, ``max_bytes``, ``when_full``."""
    return pinned.pools.of(_choose_pinning_backend(backend))


def trim() -> int:
    """Give back all memory that xferlib keeps for speed: pinned blocks, staging chunks, recycled results.

    Returns:
        Bytes given back to the system.
    """
    pooled = sum(pool.trim() for pool in pinned.pools.all())
    return pooled + buffers.trim_rings() + buffers.trim() + buffers.host_cache.trim()


def synchronize(device: DeviceSpec = None) -> None:
    """Block until all work on a device is done; the current device if omitted."""
    registry.get_device(device).synchronize()


# From arrays to what serves them: their namespace, their backend, and one backend for all.


def get_array_module(*arrays: Any, **unknown: Never) -> ArrayModule:
    """Return the Array-API namespace of the arrays' backend; NumPy's for Python scalars alone, and for nothing.

    Args:
        *arrays: Arrays of one backend, on any of its devices. Python scalars and None decide nothing, and NumPy's
            scalars nothing beside an array.

    Raises:
        MixedBackendsError: Arrays of two backends; `common` moves them to one.
        UnsupportedArrayError: Something else, such as a list, or an array that no backend knows.
        UnsupportedError: The backend has no namespace; the message names what works.
    """
    decides = None
    for array in arrays:
        cls = type(array)
        if cls is decides or cls in registry.SCALARS:
            continue
        if decides is not None and registry.by_type.get(cls) is not registry.by_type.get(decides):
            break
        decides = cls
    else:
        if decides in registry.namespaces and not unknown:
            return cast("ArrayModule", registry.namespaces[decides])
    return cast("ArrayModule", _find_namespace(*arrays, **unknown))


def _find_namespace(*arrays: Any, **unknown: Never) -> ModuleType:
    """`get_array_module` of types that the tables do not have yet, which it adds, and its errors."""
    if unknown:
        refuse_keyword("get_array_module", unknown)
    backend = registry.common_backend(arrays, call="get_array_module")
    if backend is None:
        return np
    namespace = backend.namespace()
    backend.hand_out()
    for array in arrays if not backend.asks_each_thread else ():
        if registry.owner_of(array) is backend:
            registry.namespaces[type(array)] = namespace
    return namespace


def namespace() -> ArrayModule:
    """Return the Array-API namespace of the default backend, for a program that has no array yet.

    Example::

        xp = xl.namespace()
        x = xp.linspace(0, 1, 100)

    Raises:
        UnsupportedError: The backend has no namespace; the message names what works.
    """
    backend = registry.default_backend()
    found = backend.namespace()
    backend.hand_out()
    return cast("ArrayModule", found)


_get_array_module = get_array_module
if not TYPE_CHECKING:  # the compiled one has no annotations
    get_array_module = _native.bind_namespaces(
        registry.by_type, registry.namespaces, _find_namespace, in_python=_get_array_module
    )
    if get_array_module is not _get_array_module:
        torch_compile.show_python(get_array_module, _get_array_module)


def get_backend(*arrays: Any) -> Backend:
    """Return the backend of the arrays; without arrays the current default. Scalars as for `get_array_module`.

    Raises:
        MixedBackendsError: Arrays of two backends; `common` moves them to one.
        UnsupportedArrayError: Something else, such as a list, or an array that no backend knows.
        BackendUnavailableError: The default asked for by name cannot run here.
    """
    return registry.common_backend(arrays, call="get_backend") or registry.default_backend()


def common(*arrays: Any, follow: Array | None = None) -> tuple[Any, ...]:
    """Move arrays to one backend and device, where they can be computed with together.

    Nothing else in xferlib moves an array unasked: arrays of two backends or devices are an error. This is the way
    to ask. An array that is moved is copied as by `to_device`, and keeps its dtype:

        x, weights = xl.common(x, np.hanning(1024))      # both where x is, on its device

    Args:
        *arrays: Arrays of any backends. Python scalars and None are returned as they are.
        follow: The array to whose backend and device the others move. If omitted: the first array on an accelerator,
            so that nothing leaves one for the host; else the first array, NumPy's scalars last.

    Returns:
        As many objects in the same order. Those that need not move are the same objects, not copies.

    Raises:
        UnsupportedArrayError: Something is neither an array of a backend nor a scalar; nothing has been moved.
        UnsupportedDTypeError: The target does not hold a dtype.
        DeviceMemoryError: The target has too little memory.
    """
    if follow is not None and registry.owner_of(follow) is None:
        raise registry.make_unsupported_error("common", "follow", follow)
    backends = [registry.check_backend(each, index, call="common") for index, each in enumerate(arrays)]
    places = [None if owner is None else owner.device_of(each) for each, owner in zip(arrays, backends, strict=True)]
    target = registry.device_of(follow) if follow is not None else _find_common_device(arrays, places)
    return tuple(
        each if place is None or place is target else transfers.to_device(each, device=target)
        for each, place in zip(arrays, places, strict=True)
    )


def _find_common_device(arrays: tuple[Any, ...], places: list[Device | None]) -> Device | None:
    """The device of the array that the others follow: one on an accelerator if there is one, NumPy's scalars last."""
    ranked = [
        (place.kind != "cpu", not isinstance(array, np.generic), -index)
        for index, (array, place) in enumerate(zip(arrays, places, strict=True))
        if place is not None
    ]
    return places[-max(ranked)[2]] if ranked else None


# Arrays of one device, joined along an axis: each is copied into its own part of a new array.

ResultShape = tuple[int, ...]


class Plan(NamedTuple):
    """A new array in C order, and its parts: for each its offset, shape and strides, in bytes."""

    shape: ResultShape
    parts: list[tuple[int, ResultShape, ResultShape]]


def plan_concat(shapes: list[ResultShape], axis: int | None, dtype: np.dtype[Any]) -> Plan:
    """Lay out arrays of these shapes one behind the other along ``axis``; flattened, if that is None.

    Raises:
        ArgumentError: There is no such axis.
        LayoutError: The shapes differ in another axis.
    """
    if axis is None:
        starts = _starts([math.prod(shape) for shape in shapes])
        parts = [
            (start * dtype.itemsize, shape, c_strides(shape, dtype.itemsize))
            for start, shape in zip(starts, shapes, strict=False)
        ]
        return Plan((starts[-1],), parts)
    along = _axis(axis, len(shapes[0]))
    others = _without(shapes[0], along)
    for index, shape in enumerate(shapes):
        if len(shape) != len(shapes[0]) or _without(shape, along) != others:
            raise LayoutError(
                f"concat along axis {axis}: argument 0 has shape {shapes[0]} and argument {index} has shape {shape}; "
                "reshape or cut one of them, so that all other extents are equal"
            )
    starts = _starts([shape[along] for shape in shapes])
    whole = (*shapes[0][:along], starts[-1], *shapes[0][along + 1 :])
    strides = c_strides(whole, dtype.itemsize)
    return Plan(whole, [(start * strides[along], shape, strides) for start, shape in zip(starts, shapes, strict=False)])


def _axis(axis: Any, ndim: int) -> int:
    if not isinstance(axis, (int, np.integer)) or not -ndim <= axis < ndim:
        remedy = f"give one from {-ndim} to {ndim - 1}" if ndim else "arrays without axes are joined with axis=None"
        raise ArgumentError(f"concat: axis={quote(axis)}, but argument 0 has {ndim} axes; {remedy}")
    return int(axis) % ndim


def _without(shape: ResultShape, axis: int) -> ResultShape:
    return (*shape[:axis], *shape[axis + 1 :])


def _starts(extents: list[int]) -> list[int]:
    return [*itertools.accumulate(extents, initial=0)]


def join(sources: list[CopySource], plan: Plan, dtype: np.dtype[Any]) -> Array:
    """Copy the sources, all of one device, to the parts of a new array, converted to ``dtype``.

    Raises:
        UnsupportedDTypeError: ``dtype`` would drop a part of every value.
    """
    for source in sources:
        arrays.check_conversion(source.dtype, dtype)
    backend = sources[0].backend
    device = sources[0].device if sources[0].device is not None else backend.devices()[0]
    backend.attach(device)
    out = backend.empty(plan.shape, dtype, device=device, stream=backend.stream_current(device))
    memory = backend.host_view(out) if device.kind == "cpu" else None
    for source, (offset, shape, strides) in zip(sources, plan.parts, strict=True):
        if not math.prod(shape):
            continue
        if memory is not None:
            assert source.host is not None
            part = np.ndarray(shape, dtype, memory, offset, strides)
            staging.copy_on_cpu(Kind.D2D, part, source.host, backend, device)
        else:
            whole = backend.view(out)
            into = whole._replace(pointer=whole.pointer + offset, shape=shape, strides=strides)
            on_device.device_to_device(source, CopyTarget(backend, device, None, out, into), dtype)
    return out


# Arrays of the current backend from values: with NumPy's defaults, and NumPy's bits, on every backend.
#
# NumPy computes the values on the host, once, and they are uploaded. The libraries' own functions differ from NumPy's
# in their default dtypes, and in the last bits of steps that are not integers. Where values are whole numbers the bits
# would agree, but one way for all is shorter, and works where a library has no namespace. A program that makes large
# ranges often computes them on the device: with `xferlib.elementwise`, or with the namespace's own function.


def asarray(x: Any, dtype: Any = None, *, backend: str | None = None, device: DeviceSpec = None) -> Array:
    """Anything array-like as an array of the current backend; ``x`` itself where it is one already.

    An array on an accelerator stays there unless ``backend`` or ``device`` says otherwise. Everything else goes to the
    current device.

        xl.asarray([1, 2, 3])                  # int64, as NumPy has it, on every backend

    Args:
        x: An array of any backend, a sequence or a scalar; shape S. Or, on a CUDA device, an object with
            ``__cuda_array_interface__``, such as Numba's arrays.
        dtype: Converted to; floats saturate to integers. That of ``x``, or NumPy's for sequences, if omitted.
        backend: Registry name of the target; the default backend if omitted.
        device: Target device; the backend's current one if omitted.

    Returns:
        ``x`` itself where it is on the device with that dtype, or an array over the memory of another library's
        object; else a copy of shape S in C order.

    Raises:
        As `to_device`.
    """
    if registry.owner_of(x) is None and checks.has(x, "__cuda_array_interface__"):
        place = registry.resolve(device, backend=None if backend is None else registry.get(backend))
        if place.kind == "cuda":
            x = registry.get(place.backend).namespace().asarray(x)
    if backend is None and device is None and (owner := registry.owner_of(x)) is not None:
        place = owner.device_of(x)
        device = place if place.kind != "cpu" else None
    made = transfers.to_device(x, backend=backend, device=device, dtype=dtype, copy=None)
    if registry.owner_of(x) is None and (owner := registry.owner_of(made)) is not None:
        owner.hand_out()
    return made


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1,
    dtype: Any = None,
    *,
    backend: str | None = None,
    device: DeviceSpec = None,
) -> Array:
    """Numbers from ``start`` up to and without ``stop``; those up to ``start``, from 0, if there is no ``stop``.

        xl.arange(3)                           # int64 on every backend
        xl.arange(0, 1, 0.25, "float32")

    Args:
        start, stop, step: Numbers, as for `numpy.arange`.
        dtype: That of the numbers, as NumPy has it, if omitted.
        backend, device: As for `asarray`.

    Raises:
        ArgumentError: ``step`` is 0, or an argument is not a real number.
        Others: As for `to_device`.
    """
    first, last = (0, start) if stop is None else (start, stop)
    _check_numbers("arange", _REAL, start=first, stop=last, step=step)
    values = _compute_on_host("arange", np.arange, first, last, step, dtype=_check_dtype_argument(dtype))
    return _upload_values(values, backend, device)


_empty, _zeros, _ones, _full, _asarray, _arange = empty, zeros, ones, full, asarray, arange
if not TYPE_CHECKING:  # those in C have no annotations
    _in_python = (_empty, _zeros, _ones, _full, _asarray, _arange)
    empty, zeros, ones, full, asarray, arange = _compiled = replay.bind_creation(*_in_python)
    for _one, _other in zip(_compiled, _in_python, strict=True) if empty is not _empty else ():
        torch_compile.show_python(_one, _other)


def linspace(
    start: complex,
    stop: complex,
    num: int = 50,
    *,
    endpoint: bool = True,
    dtype: Any = None,
    backend: str | None = None,
    device: DeviceSpec = None,
) -> Array:
    """``num`` numbers at equal distances from ``start`` to ``stop``.

        xl.linspace(0, 1, 5)                   # float64 on every backend

    Args:
        start, stop: Numbers, real or complex.
        num: How many, 0 or more.
        endpoint: Whether ``stop`` is the last of them.
        dtype: float64, or complex128 for complex limits, if omitted.
        backend, device: As for `asarray`.

    Raises:
        ArgumentError: ``num`` is negative or no integer, or a limit is not a number.
        UnsupportedDTypeError: ``dtype`` would drop the imaginary part.
        Others: As for `to_device`.
    """
    _check_numbers("linspace", (*_REAL, complex, np.complexfloating), start=start, stop=stop)
    wanted = _check_dtype_argument(dtype)
    if wanted is not None:
        arrays.check_conversion(np.result_type(start, stop, 0.0), wanted)
    values = _compute_on_host("linspace", np.linspace, start, stop, num, endpoint=endpoint, dtype=wanted)
    return _upload_values(values, backend, device)


def eye(
    rows: int,
    columns: int | None = None,
    k: int = 0,
    dtype: Any = "float64",
    *,
    backend: str | None = None,
    device: DeviceSpec = None,
) -> Array:
    """A matrix with ones on one diagonal and zeros elsewhere.

    Args:
        rows, columns: The shape; square if ``columns`` is omitted.
        k: The diagonal: 0 the main one, above it if positive, below if negative.
        dtype: A supported dtype.
        backend, device: As for `asarray`.

    Raises:
        ArgumentError: An extent or ``k`` is not an integer, or an extent is negative.
        Others: As for `to_device`.
    """
    return _upload_values(
        _compute_on_host("eye", np.eye, rows, columns, k, dtype=_check_dtype_argument(dtype)), backend, device
    )


def concat(arrays: Sequence[Array], axis: int | None = 0, *, dtype: Any = None) -> Array:
    """Join arrays of one backend and device along an axis that they have.

        xl.concat([x, y[:10]])                 # of the dtype that NumPy promotes to, on every backend

    xferlib copies and converts each array into its part of the result, so that the bits are NumPy's everywhere. Where
    the library follows derivatives through one of them, as torch may, the library's own function joins them.

    Args:
        arrays: One or more arrays, of equal shapes but for ``axis``.
        axis: The axis; negative ones count from the last. None: each array is flattened first, in C order.
        dtype: That of the result; the one that NumPy promotes to if omitted.

    Returns:
        A new array in C order, on the arrays' device.

    Raises:
        MixedBackendsError, MixedDevicesError: Arrays of two backends or devices; `common` moves them to one.
        ArgumentError: No array, or no such axis.
        LayoutError: The shapes do not fit.
        UnsupportedArrayError, UnsupportedDTypeError: Something is not an array of any backend, or has a foreign dtype.
        DeviceMemoryError: The device has too little memory.
    """
    given = _check_arrays(arrays)
    backend = registry.common_backend(given, call="concat")
    if backend is None or any(registry.owner_of(each) is not backend for each in given):  # NumPy's scalars mix
        raise ArgumentError("concat takes one or more arrays, no scalars and no None; use xferlib.asarray(x)")
    registry.check_device(given, backend, call="concat")
    sources = [describe.source_of(each, what=f"arrays[{index}]") for index, each in enumerate(given)]
    wanted = describe.choose_dtype(dtype, np.result_type(*(each.dtype for each in sources)))
    plan = plan_concat([each.shape for each in sources], axis, wanted)
    if any(backend.detach(each) is not each for each in given):
        xp: Any = backend.namespace()
        return xp.concat([xp.astype(each, getattr(xp, wanted.name)) for each in given], axis=axis)
    return join(sources, plan, wanted)


def _check_arrays(arrays: Any) -> tuple[Any, ...]:
    if not isinstance(arrays, (list, tuple)):
        raise ArgumentError(f"concat takes a list of arrays, not {type(arrays).__name__}; write concat([x, y])")
    return tuple(arrays)


def _check_dtype_argument(dtype: Any) -> np.dtype[Any] | None:
    return None if dtype is None else check_number(dtype, what="dtype")


_REAL = (int, float, np.integer, np.floating)


def _check_numbers(call: str, kinds: tuple[type, ...], **numbers: Any) -> None:
    """Refuse what is not a number: an array, which may be on a device, among others."""
    for name, number in numbers.items():
        if not isinstance(number, kinds):
            real = "" if complex in kinds else "real "
            raise ArgumentError(
                f"{call}: {name}={quote(number)} is not a {real}number; give one, such as "
                "float(xferlib.to_host(x)) of an array"
            )


def _compute_on_host(call: str, function: Any, *args: Any, **options: Any) -> HostArray:
    try:
        values: HostArray = function(*args, **options)
    except MemoryError as error:
        raise OutOfMemoryError(
            f"{call}({', '.join(map(quote, args))}): the host has too little memory ({error}); make a shorter array"
        ) from error
    except Exception as error:  # NumPy asks strangers' objects for a number, which may raise anything
        raise ArgumentError(
            f"{call}({', '.join(map(quote, args))}) is not possible: {error}; change an argument"
        ) from error
    return values


def _upload_values(values: HostArray, backend: str | None, device: DeviceSpec) -> Array:
    made = transfers.to_device(values, backend=backend, device=device, copy=None)
    owner = registry.owner_of(made)
    assert owner is not None
    owner.hand_out()
    return made
