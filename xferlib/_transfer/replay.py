"""The usual calls of `to_device` and `to_host`, prepared for C to replay.

The first call of a form is planned here (`prepare`), and C runs what that gives for each further one: see
`_native/replay/replay.c`. `plan.py` has the policy; here stands what C has to know of libraries, devices and streams.
"""

from __future__ import annotations

import functools
import math
import mmap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib import _native
from xferlib._core import blocks, dtypes, registry
from xferlib._core.arrays import Array, Between, address, c_strides, dense_order
from xferlib._core.backend import Backend
from xferlib._core.device import Device
from xferlib._core.dtypes import DTYPES
from xferlib._core.streams import Stream
from xferlib._core.thresholds import LARGE_NBYTES
from xferlib._memory import buffers, lifetimes, pinned
from xferlib._runtime import process
from xferlib._runtime.threads import is_followed
from xferlib._transfer import on_device, plan, staging
from xferlib._transfer.plan import Conversion, TransferPath

if TYPE_CHECKING:
    from xferlib._core.arrays import HostArray
    from xferlib._core.device import RawStream


# How arrays of one form travel, decided once.
#
# An array that is dense but not in C order, as a transposed one, crosses the link in the order of the host's memory,
# and one that the device converts in the host's dtype. The rest of such a call is one kernel, which depends on the form
# of the array alone: in Python the second step takes 100 us after a pause, as long as 3 MiB take to cross.

_MOST_ARGS = 60
"""As in `replay.h`."""
_LEFT = plan.Replay.LEFT, 0, 0, None

PreparedWay = tuple[int, int, int, tuple[int, tuple[int, int, int], tuple[int, ...]] | None]


def prepare(
    backend: Backend, device: Device, is_upload: int, is_pooled: int, shape: tuple[int, ...], strides: tuple[int, ...],
    host: np.dtype[Any], there: np.dtype[Any], is_swapped: int,
) -> PreparedWay:  # fmt: skip
    """The way of a blocking copy between the host and C order on a device.

    Args:
        backend, device: The kernel's.
        is_upload: 1: to the device; 0: to the host.
        is_pooled: 1: the host's memory is of the pinned pool, so that the device reads or fills it by itself.
        shape: The array's.
        strides, host, is_swapped: Of its end on the host: the dtype in native byte order, and whether it has the other.
        there: Its dtype on the device.

    Returns:
        Flags (`plan.Replay`); of plain bytes the sizes that they hold for, more than the first and up to the second;
        and a kernel: its handle, the blocks and the two sides of each, and the arguments after the addresses of what is
        written and read.
    """
    memory: plan.Memory = "pooled" if is_pooled else "pageable"
    given = host.newbyteorder() if is_swapped else host
    means = plan.means_of(backend, device)
    found = plan.compile_plan(shape, strides, given, there, means, bool(is_upload), True, True, True, memory, None)
    if found.path is not TransferPath.PERMUTED and found.conversion is not Conversion.ON_DEVICE:
        flags = plan.replay_flags(found, math.prod(shape) * host.itemsize, memory, is_upload=bool(is_upload))
        return flags, *(plan.same_way(found.nbytes) if found.is_plain else (0, 0)), None
    if is_swapped:
        return _LEFT
    is_dense = dense_order(shape, strides, host.itemsize) is not None
    crosses = strides if is_dense else c_strides(shape, host.itemsize)
    in_order = c_strides(shape, there.itemsize)
    ends = (in_order, crosses, host, there) if is_upload else (crosses, in_order, there, host)
    launch = on_device.plan_conversion(shape, *ends)
    if launch is None or len(launch.args) > _MOST_ARGS:
        return _LEFT
    code: Any = on_device.kernel(launch.name, launch.source, launch.key, backend, device)
    kernel = code.handle, (min(launch.blocks, on_device.MOST_BLOCKS), *launch.block[:2]), launch.args
    return plan.Replay.AS_IT_LIES if is_dense else plan.Replay(0), 0, 0, kernel


# The public `to_device` and `to_host` in C, and what `replay.c` asks of the rest: the epoch, libraries and devices.
#
# The C does the usual call of a small array by itself; each other one goes to the function in Python of the same name.
# It keeps what it is told here, in tables and for each thread, for one epoch of the fast path.

_numpy: Any = np  # whose parts have no types
_ON_CPU, _ON_DEVICE = 1, 2
_LEFT_TO_PYTHON = 0
_OF_DRIVER = (
    "send", "fetch", "enqueue", "fetch_later", "current", "query", "attribute", "launch", "wait", "is_captured",
    "batch", "beside",
)  # fmt: skip
"""The functions of `DirectCopies` that C calls by their addresses."""

_replay: Any = None
_is_bound = False
"""The C has NumPy's functions, and those of this module."""
_known_of = -1
"""The look-up of types that the tables in C are of: `registry.forgotten`."""
_libraries: dict[type, int] = {}
_devices: dict[Device, int] = {}


def bind(to_device: Callable[..., Any], to_host: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Functions in C that do the usual calls of these two, and leave the others to them; themselves without the C."""
    global _replay, _is_bound
    _replay = _native.replay()
    if _replay is None:
        return to_device, to_host
    elements = [*map(_element, map(np.dtype, DTYPES))]
    numbers: dict[Any, int] = {}
    for number, (dtype, *_) in enumerate(elements):
        names = dtype.name, dtype.char, dtype.str, dtype.str[1:]
        numbers |= dict.fromkeys((dtype, dtype.type, *names), number)
    swapped = {dtype.newbyteorder(): number for number, (dtype, *_) in enumerate(elements) if dtype.itemsize > 1}
    objects = {
        "epoch": process.fast_path_epoch, "scopes": process.scopes, "scope": blocks.here,
        "moves": blocks.moves, "follow": blocks.follow, "may_replay": _may_replay,
        "settle": _settle, "register": _register, "resolve": _resolve,
        "to_device": to_device, "to_host": to_host,
        "ndarray": np.ndarray, "device": Device, "stream": Stream,
        "dtype": np.dtype, "dtypes": numbers, "swapped": swapped, "memmap": np.memmap, "mmap": mmap.mmap,
        "between": Between, "result": _new_result,
        "bool_": np.dtype("bool"), "int64": np.dtype("int64"), "float64": np.dtype("float64"), "one": 1,
    }  # fmt: skip
    try:
        found: tuple[Callable[..., Any], Callable[..., Any]] = _replay.bind_replay(
            objects, elements, _numpy._core.multiarray._ARRAY_API, to_device.__module__,
            tuple(map(_documentation, (to_device, to_host))),
        )  # fmt: skip
    except RuntimeError:  # a NumPy of another ABI
        return to_device, to_host
    _is_bound = True
    dtypes.call_at_first(functools.partial(_add_elements, numbers))
    return found


def _element(dtype: np.dtype[Any]) -> tuple[np.dtype[Any], int, int, int]:
    """A dtype as the C has it: with DLPack's kind, its bits and its bytes."""
    kind, bits, _ = dtypes.dlpack_type(dtype)
    return dtype, kind, bits, dtype.itemsize


def _add_elements(numbers: dict[Any, int], met: dict[str, np.dtype[Any]]) -> None:
    """Tell the C of small floats; ``numbers`` is its table of elements by dtypes, types and names."""
    small = [met[name] for name in dtypes.SMALL_FLOATS]
    for name, dtype in zip(dtypes.SMALL_FLOATS, small, strict=True):
        numbers |= dict.fromkeys((dtype, dtype.type, name), dtypes.number_of(dtype))
    _replay.add_elements([*map(_element, small)])


def bind_creation(*functions: Callable[..., Any]) -> tuple[Callable[..., Any], ...]:
    """`empty`, `zeros`, `ones`, `full`, `asarray` and `arange` in C, which leave to these what is not usual.

    They themselves without the C.
    """
    if _replay is None:
        return functions
    found: tuple[Callable[..., Any], ...] = _replay.bind_creation(
        functions, functions[0].__module__, tuple(map(_documentation, functions))
    )
    return found


def calls_in_c() -> Any:
    """Functions in C for trees of one form, and for the batches of a loop; None without the C.

    - ``keep_form(leaves, numbers, places)``: what is kept of arrays that travel together, by their numbers among the
      leaves, and of the others, which are no arrays; None where one is not plain bytes in C order.
    - ``send_tree``, ``fetch_tree``, ``send_pinned``: see `many.py`, whose tables they read.
    - ``match_form(kept, leaves, address)``: whether leaves have that form; the `Part` of each array at the address then
      says where it lies.
    - ``cut_form(kept, leaves, memory)``: the leaves, with views of an array of bytes in the places of those arrays.
    - ``new_reader(items, run, next, source, device, acquire, release, pinned, most, waited_most, followed,
      hidden_ns, provide, provide_beside)``: hands out the batches, see `reader.c`.
    """
    return _replay if _is_bound else None


def _documentation(function: Any) -> str:
    """A docstring from which `inspect.signature` reads the arguments of a function that is compiled from C."""
    code, defaults_ = function.__code__, function.__kwdefaults__ or {}
    count, by_name = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames
    has_star, has_stars = bool(code.co_flags & 4), bool(code.co_flags & 8)  # `inspect`, which loads slowly, names them
    shown = [name for name in names if function.__annotations__.get(name) != "Never"]  # others are there to be refused
    star = f"*{names[by_name]}" if has_star and names[by_name] in shown else "*"
    options = [f"{name}={defaults_[name]!r}" for name in names[count:by_name]]
    if has_stars and names[by_name + has_star] in shown:
        options.append(f"**{names[by_name + has_star]}")
    positional = [*names[:count]]
    for place, default in enumerate(function.__defaults__ or (), count - len(function.__defaults__ or ())):
        positional[place] += f"={default!r}"
    return f"{function.__name__}({', '.join([*positional, star, *options])})\n--\n\n{function.__doc__}"


def _may_replay() -> tuple[tuple[int, ...], int, int, int, int, int, int] | None:
    """How C copies between host arrays, if it may do a call by itself in this epoch.

    Returns:
        The addresses of ``xf_host_copy`` and ``xf_fill_parts``; the last arguments of the first, the helpers of the
        other, and the most bytes of a result in ordinary memory.
    """
    global _known_of
    if _known_of != registry.forgotten:
        _replay.forget_devices()
        _libraries.clear()
        _devices.clear()
        _known_of = registry.forgotten
    if not plan.may_skip() or not _native.is_on() or process.is_exiting():
        return None
    copies = _native.addresses_of("xf_host_copy", "xf_fill_parts")
    return copies, *staging.host_crew(plan.helpers()), staging.fill_crew()[0], LARGE_NBYTES


def _settle() -> int:
    """The number of the end that a call of this thread means which names no device."""
    owner = registry.default_backend()
    device = registry.current_device(owner)
    owner.at(device).attach(device)
    return _device_number(device)


def _resolve(device: str | int | None, backend: str | None) -> Device:
    """The device that a call names, or the current one of the backend that it names."""
    return registry.resolve(device, backend=registry.get(backend) if backend is not None else None)


def _register(thing: Any, index: int) -> None:
    """Tell the C of a device, or of a type of arrays, that it has met.

    Args:
        thing: The device; or the type.
        index: Of the device, not the CPU, that has been met with an array of the type; -1: of the type alone.
    """
    if isinstance(thing, Device):
        _device_number(thing)
    elif registry.is_array_type(thing) and (owner := registry.by_type[thing]) is not None:
        _library_number(thing, owner)
        for device in owner.devices() if index >= 0 else ():  # of the others a context would be made
            if device.kind != "cpu" and device.index == index:
                _device_number(device)
                if owner.plain_arrays is not None and thing in owner.plain_arrays.other_types:
                    _add_device(device, _libraries[thing])


def _library_number(cls: type, owner: Backend) -> int:
    """The number of a type of arrays."""
    found = _libraries.get(cls)
    if found is None:
        plain, fast = owner.plain_arrays, owner.fast
        is_known = plain is not None and (plain.array_type is cls or cls in plain.other_types)
        exchange = plain.exchange if plain is not None and is_known else None
        is_alone = sum(device.kind != "cpu" for device in owner.devices()) == 1
        whole = fast.whole if fast is not None and exchange is None and is_alone else None
        functions = {"whole": whole, "note_write": owner.note_write if owner.follows_writes else None}
        for name in ("is_negated", "is_conjugate", "recording", "maker") if plain is not None else ():
            functions[name] = getattr(plain, name)
        dtypes = plain.dtypes if plain is not None else ()
        found = _libraries[cls] = _replay.add_library(cls, is_known, exchange, functions, dtypes)
    return found


def _device_number(device: Device) -> int:
    """The number of a device; of one that Python serves alone, too."""
    found = _devices.get(device)
    if found is None:
        found = _devices[device] = _add_device(device)
    return found


def _add_device(device: Device, library: int | None = None) -> int:
    """Add a device, for the arrays that its backend makes, or for those of another library's number."""
    part = registry.backend_of(device)
    plain = part.plain_arrays if part is not None else None
    if part is None or plain is None:
        return _add(device, -1, 0, _LEFT_TO_PYTHON)
    if library is None:
        library = _library_number(plain.array_type, registry.get(device.backend))
    if device.kind == "cpu":
        new = functools.partial(staging.new, part, device)
        tells = type(part).hand_out is not Backend.hand_out
        return _add(device, library, 0, _ON_CPU, {"empty": new, "hand_out": part.hand_out if tells else None})
    part.attach(device)
    direct = part.fast.direct(device) if part.fast is not None else None
    if direct is None:
        return _add(device, library, device.index, _LEFT_TO_PYTHON)

    pool = pinned.pools.of(part)
    functions = {
        "empty": direct.empty, "maker": direct.maker, "maker_on": direct.maker_on, "pointer": direct.pointer,
        "stream": direct.stream, "is_current": direct.is_current,
        "empty_on": direct.empty_on or functools.partial(_empty_on, part, device, None),
        "hold": functools.partial(_hold, part, device), "memory": direct.memory,
        "empty_between": functools.partial(_empty_on, part, device, direct.empty_between),
        "pinned": pool._lend, "scratch": functools.partial(buffers.scratch_of, part),
        "stage_setup": functools.partial(staging.prepare_stream, part, device),
        "stage_finish": functools.partial(staging.continue_transfer, part, device),
        "prepare": functools.partial(prepare, part, device),
        "pool": pool, **pool.describe_for_native(), "is_followed": is_followed,
    }  # fmt: skip
    addresses = {name: getattr(direct, name) for name in _OF_DRIVER} | staging.addresses()
    (addresses["spread"],) = _native.addresses_of("xf_spread")
    return _add(device, library, device.index, _ON_DEVICE, functions, addresses, direct.context)


def _empty_on(
    backend: Backend,
    device: Device,
    make: Callable[[tuple[int, ...], np.dtype[Any], RawStream], Array] | None,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    stream: RawStream | None,
) -> Array:
    """A new array of a stream, None is the current one, by the function or, without one, by the backend's `empty`."""
    order = stream or backend.stream_current(device)
    return make(shape, dtype, order) if make is not None else backend.empty(shape, dtype, device=device, stream=order)


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
    found: int = _replay.add_device(device, library, index, kind, functions or {}, addresses or {}, context)
    return found
