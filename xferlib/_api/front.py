"""The public `to_device` and `to_host` in C, and what `front.c` asks of the rest: circumstances, libraries and devices.

The C does the usual call of a small array by itself; each other one goes to the function in Python of the same name. It
keeps what it is told here, in tables and for each thread, until `xferlib._runtime.circumstances` has another number.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib import _native
from xferlib._core import blocks, defaults, devices, registry
from xferlib._core.array import DTYPES
from xferlib._core.device import Device
from xferlib._core.layout import Between, address
from xferlib._core.stream import Stream
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
from xferlib._memory import host, in_flight, pinned, pinned_ranges, slab
from xferlib._native import driver_calls
from xferlib._runtime import circumstances, shutdown
from xferlib._runtime.handoff import is_followed
from xferlib._transfer import compiled_copies, compiled_staging, plan

if TYPE_CHECKING:
    from xferlib._core.array import Array
    from xferlib._core.backend import Backend
    from xferlib._core.layout import HostArray
    from xferlib._core.raw import RawStream

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
    _front = driver_calls.front()
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
        "number": circumstances.number, "scopes": circumstances.scopes, "scope": blocks.here,
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
    if not plan.may_skip() or not _native.is_on() or shutdown.has_begun():
        return None
    return _addresses()[2], *compiled_copies.host_crew(plan.helpers())


@functools.cache
def _addresses() -> tuple[int, int, int]:
    """The addresses of ``xf_gather``, ``xf_scatter`` and ``xf_host_copy``."""
    library = _native.library()
    functions = library.xf_gather, library.xf_scatter, library.xf_host_copy
    gather, scatter, copy = (ctypes.cast(each, ctypes.c_void_p).value or 0 for each in functions)
    return gather, scatter, copy


def _settle() -> int:
    """The number of the end that a call of this thread means which names no device."""
    owner = defaults.default_backend()
    device = devices.current_device(owner)
    owner.at(device).attach(device)
    return _end(device)


def _resolve(device: str | int | None, backend: str | None) -> Device:
    """The device that a call names, or the current one of the backend that it names."""
    return devices.resolve(device, backend=registry.get(backend) if backend is not None else None)


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
    part = devices.backend_of(device)
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

    from xferlib._api import device_step  # which a program on a CPU does not need

    pool = pinned.pools.of(part)
    functions = {
        "empty": direct.empty, "pointer": direct.pointer, "stream": direct.stream, "is_current": direct.is_current,
        "empty_on": functools.partial(_empty_on, part, device), "hold": functools.partial(_hold, part, device),
        "empty_between": functools.partial(_empty_between, part, device, direct.empty_between),
        "pinned": pool._lend, "result": _new_result, "scratch": functools.partial(slab.scratch_of, part),
        "prepare": functools.partial(compiled_staging.prepared, part, device),
        "finish": functools.partial(compiled_staging.gone_on, part, device),
        "describe": functools.partial(device_step.described, part, device) if direct.launch else None,
        "pool": pool, **pool.lending(), "is_followed": is_followed,
    }  # fmt: skip
    addresses = {name: getattr(direct, name) for name in _OF_DRIVER} | compiled_staging.addresses()
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
    event = in_flight.record(backend, stream or backend.stream_current(device))
    in_flight.in_flight.hold(backend, event, array)
    if source is not None:
        ranges = pinned_ranges.find(address(source), source.nbytes, backend)
        in_flight.hold_pinned(source, ranges.lease if ranges is not None else None, backend, event)


def _new_result(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[HostArray, bool]:
    """A new array on the host, and whether its pages were never touched."""
    made = host.host_cache.empty(shape, dtype)
    return made, host.is_fresh(made)


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
