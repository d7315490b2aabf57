"""`raw_module` and its kernels: CUDA source, compiled for a device or a CPU, and launches of it.

A launch is checked once, and then repeated with other addresses and numbers.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import os
import struct
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, overload

import numpy as np

from xferlib._core import blocks, observe, registry, streams
from xferlib._core.arrays import c_strides, check_dtype, is_c_contiguous
from xferlib._core.dtypes import SUPPORTED
from xferlib._core.observe import Kind
from xferlib._core.streams import Stream
from xferlib._native import LaunchField
from xferlib._runtime import checks, process
from xferlib._runtime.checks import NoPublicConstructor, has, refuse_keyword, refuse_no_flag
from xferlib._runtime.torch_compile import hide_from_tracer
from xferlib.errors import (
    ArgumentError,
    KernelCompileError,
    KernelError,
    KernelSyntaxError,
    KernelTypeError,
    LayoutError,
    UnsupportedError,
    XferError,
    did_you_mean,
    quote,
)
from xferlib.kernels import arguments, code_cache, cuda_launch, cuda_signature
from xferlib.kernels.arguments import find_code, is_scalar
from xferlib.kernels.cuda_launch import MOST_SHARED_NBYTES, MOST_THREADS, ParameterBlock
from xferlib.kernels.cuda_signature import (
    CudaSource,
    Piece,
    check_types,
    compact,
    parse_signature,
)
from xferlib.kernels.plans import Plans

if TYPE_CHECKING:
    from xferlib._core.arrays import Array, ArrayInfo
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device, DeviceSpec, RawStream
    from xferlib.kernels.cuda_cpu.code import CpuCode
    from xferlib.kernels.cuda_cpu.module import CpuModule, EmulatedKernel
    from xferlib.kernels.cuda_signature import RawParameter
    from xferlib.kernels.ir import DType


# Arrays of libraries that are no backend, as arguments of a raw kernel: by CUDA's array interface, or DLPack.


class _Interface:
    """The checked description of an array by CUDA's array interface."""

    __slots__ = ("dtype", "pointer", "shape", "stream")

    def __init__(self, kernel: str, parameter: RawParameter, value: Any) -> None:
        interface = value.__cuda_array_interface__
        self.shape = tuple(interface["shape"])
        self.dtype = check_dtype(np.dtype(interface["typestr"]), what=parameter.name)
        strides = interface.get("strides")
        pointer, is_read_only = interface["data"]
        if strides is not None and not is_c_contiguous(self.shape, tuple(strides), self.dtype.itemsize):
            raise LayoutError(
                f"{kernel}(): argument {parameter.name!r} has byte strides {tuple(strides)}, and a pointer knows no "
                "strides; pass a copy in C order"
            )
        if is_read_only and not parameter.is_const:
            raise LayoutError(f"{kernel}(): argument {parameter.name!r} is read-only; pass a writable array")
        self.pointer = int(pointer)
        stream = interface.get("stream")
        self.stream = None if stream is None else int(stream)


class Adopted:
    """The arguments of a launch, foreign arrays as arrays of one backend.

    Args:
        kernel: Its name, for messages.
        parameters: Its parameters.
        args: As given.
        backend: The part of the backend that launches, where no argument decides it.
        device: Where it launches, likewise. Memory that CUDA's array interface describes is where the driver says.
    """

    def __init__(
        self, kernel: str, parameters: Sequence[RawParameter], args: Sequence[Any], backend: Backend, device: Device
    ) -> None:
        self.args = list(args)
        self._streams: list[int] = []
        without_memory: list[tuple[int, Any]] = []
        for number, (parameter, value) in enumerate(zip(parameters, args, strict=True)):
            if not (parameter.is_pointer and is_foreign(value)):
                continue
            if device.kind == "cuda" and hasattr(value, "__cuda_array_interface__"):
                found = _Interface(kernel, parameter, value)
                if found.stream is not None:
                    self._streams.append(found.stream)
                if 0 in found.shape:
                    without_memory.append((number, found))
                    continue
                device = backend.device_at(found.pointer)
                backend.attach(device)
                self.args[number] = backend.over(found.pointer, found.shape, found.dtype, device=device, owner=value)
            elif hasattr(value, "__dlpack__"):
                namespace: Any = backend.namespace()
                try:
                    self.args[number] = namespace.from_dlpack(value)
                except (XferError, BufferError, MemoryError):
                    raise
                except Exception as error:  # a stranger's object may raise anything
                    raise KernelTypeError(
                        f"{kernel}(): argument {parameter.name!r} is {type(value).__name__}, whose DLPack gives no "
                        f"array ({type(error).__name__}: {error}); pass an array of a backend"
                    ) from error
            else:
                raise KernelTypeError(
                    f"{kernel}(): argument {parameter.name!r} is memory of a GPU, and the kernel runs on {device}; "
                    "choose a backend with CUDA: xferlib.use_backend(...)"
                )
        for number, found in without_memory:  # which fit any device: that of the others
            stream = backend.stream_current(device)
            self.args[number] = backend.empty(found.shape, found.dtype, device=device, stream=stream)

    def order(self, backend: Backend, target: RawStream) -> None:
        """Make ``target`` wait for the streams on which the foreign arrays are written."""
        for handle in self._streams:
            if handle != target.handle:
                streams.refuse("an array of another library as an argument", target)
                other = backend.stream_wrap(handle, target.device)
                backend.event_wait(target, backend.event_record(other, timing=False))


def is_foreign(value: Any) -> bool:
    """Whether a value is an array of a library that is no backend."""
    if value is None or is_scalar(value) or registry.owner_of(value) is not None:
        return False
    return has(value, "__cuda_array_interface__") or has(value, "__dlpack__")


Repeated = Callable[[Sequence[Any], "RawStream | None"], bool]

_POINTER = "Q"


def _code(parameter: RawParameter, value: Any) -> str | None:
    """The `struct` code that writes such an argument with NumPy's bits; None if there is none."""
    if parameter.is_pointer:
        is_address = isinstance(value, (int, np.integer))
        return _POINTER if is_address or registry.owner_of(value) is not None else None
    dtype = parameter.dtype
    assert dtype is not None
    if parameter.is_struct:
        return None
    return find_code(dtype, value)


def find_codes(parameters: Sequence[RawParameter], args: Sequence[Any]) -> list[str] | None:
    """The `struct` codes for checked arguments like these; None where each call must convert them."""
    codes = [_code(parameter, value) for parameter, value in zip(parameters, args, strict=True)]
    known = [code for code in codes if code is not None]
    return known if len(known) == len(codes) else None


def make_repeat(
    name: str,
    owner: Any,
    device: Device,
    kernel: Any,
    extents: tuple[tuple[int, int, int], tuple[int, int, int]],
    parameters: Sequence[RawParameter],
    args: Sequence[Any],
    arrays: Sequence[int],
    **options: Any,
) -> Repeated | None:
    """A function that repeats a checked launch; None where each call must be checked.

    It takes the arguments and the stream, None for the current one. It returns False, with nothing done, where they
    must be checked anew.

    Args:
        name: The kernel's, for messages.
        owner: The CUDA backend of the arrays.
        device: Where they are.
        kernel, extents: The loaded kernel, its grid and block.
        parameters: The kernel's parameters.
        args: The arguments that were checked against them.
        arrays: The numbers of those that are arrays; at least one.
        **options: ``shared_nbytes`` and ``cooperative``.
    """
    codes = find_codes(parameters, args)
    if codes is None:
        return None
    labels = _labels(name, owner, parameters, arrays)
    halves = {number: type(args[number]) for number, code in enumerate(codes) if code == "e"}
    offsets = ParameterBlock(0, [each.nbytes for each in parameters]).offsets
    fields = []
    for number, offset in enumerate(offsets):
        kind, code = type(args[number]), codes[number]
        if number in arrays:
            fields.append(LaunchField(kind, "A", offset, _mask(parameters[number]), labels.get(number)))
        else:
            fields.append(LaunchField(int, "H", offset) if number in halves else LaunchField(kind, code, offset))
    given = [args[number] for number in arrays]
    launches = owner.repeat_launch(kernel, *extents, given, tuple(fields), device=device, **options)
    if launches is None:
        return None
    launch, otherwise = launches
    stream_handle, numbers = owner.stream_handle, tuple(arrays)

    def run(args: Sequence[Any], stream: RawStream | None) -> bool:
        made_streams = owner.has_made_streams
        if stream is None and made_streams:  # which asks the library once, and not again below
            stream = owner.stream_current(device)
        if stream is None:
            handle = stream_handle(device)
        elif stream.device is device:
            handle = stream.handle
        else:
            return False
        if halves:
            if not isinstance(args, (tuple, list)) or len(args) != len(codes):
                return False
            args = [*args]
            for number, kind in halves.items():
                bits = _half_bits(args[number]) if type(args[number]) is kind else None
                if bits is None:
                    return False
                args[number] = bits
        if (result := launch(args, handle)) and not otherwise(result, args, handle):
            return False
        if handle or made_streams:
            _keep_alive(owner, stream or owner.stream_current(device), [args[number] for number in numbers])
        return True

    return run


def _half_bits(value: Any) -> int | None:
    """The bits of a number as float16, which C does not convert; None where it is out of range."""
    try:
        return int.from_bytes(struct.pack("<e", value), "little")
    except (struct.error, OverflowError):
        return None


def _labels(name: str, owner: Any, parameters: Sequence[RawParameter], arrays: Sequence[int]) -> dict[int, str]:
    """The names of the arrays whose writes their library wants to know."""
    if not owner.follows_writes:
        return {}
    written = [number for number in arrays if not parameters[number].is_const]
    return {number: f"{name}(): argument {parameters[number].name!r}" for number in written}


def _mask(parameter: RawParameter) -> int:
    """The bits of an address that are 0 where elements are aligned."""
    return 0 if parameter.dtype is None else parameter.dtype.itemsize - 1


def _keep_alive(owner: Any, stream: RawStream, arrays: Sequence[Any]) -> None:
    """Arrays allocated on another stream must outlast the work on this one."""
    for array in arrays:
        owner.note_use(array, stream)


# Checks the arguments of a raw kernel's launch: extents, shared memory, and the value of each parameter.

_MOST_THREADS_Z = 64
_MOST_STRUCT_NBYTES = 32764
"""All parameters of a kernel, on any GPU."""


def convert_argument(kernel: str, parameter: RawParameter, value: Any, info: ArrayInfo | None) -> np.generic:
    """The value passed to the kernel: an address of 64 bits, or a number of the declared type.

    Raises:
        KernelTypeError: It is of another type than the parameter.
        LayoutError: An array that is not in C order, not aligned to its elements, or written and read-only.
    """
    if parameter.is_struct:
        return _struct(kernel, parameter, value)
    if not parameter.is_pointer:
        if arguments.is_array(value):
            raise KernelTypeError(
                f"{kernel}(): argument {parameter.name!r} is an array, and the parameter a number; "
                "pass xferlib.to_host(x).item() or declare a pointer"
            )
        assert parameter.dtype is not None
        try:
            return arguments.convert_scalar(kernel, value, parameter.dtype, parameter.name)
        except KernelTypeError:
            raise
        except TypeError:  # what NumPy makes no number of
            raise KernelTypeError(
                f"{kernel}(): argument {parameter.name!r} is {type(value).__name__}, and the parameter a number; "
                "pass one"
            ) from None
    if info is None:
        return _address(kernel, parameter, value)
    if parameter.dtype is not None and info.dtype != parameter.dtype:
        raise KernelTypeError(
            f"{kernel}(): argument {parameter.name!r} has dtype {info.dtype}, and the parameter points to "
            f"{parameter.dtype}; convert it first"
        )
    if not info.is_c_contiguous and info.size:
        raise LayoutError(
            f"{kernel}(): argument {parameter.name!r} has shape {info.shape} and byte strides {info.strides}, and a "
            "pointer knows no strides; pass a copy in C order, or x.T where that is one, or the whole array and where "
            "to begin"
        )
    if info.pointer % info.dtype.itemsize:
        raise LayoutError(
            f"{kernel}(): argument {parameter.name!r} begins at address {info.pointer:#x}, which is not a multiple of "
            f"the {info.dtype.itemsize} bytes of {info.dtype}, so that a GPU cannot read it as one; pass a copy"
        )
    if not parameter.is_const:
        arguments.check_writable(kernel, parameter.name, info)
    return np.uint64(info.pointer)


def _address(kernel: str, parameter: RawParameter, value: Any) -> np.generic:
    """A pointer given as such: an int, None for a null pointer, or an allocation of a library, which ``int`` takes."""
    is_number = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    is_handle = not arguments.is_scalar(value) and not isinstance(value, (np.generic, type)) and has(value, "__int__")
    if value is None:
        return np.uint64(0)
    try:
        address = int(value) if is_number or is_handle else -1
    except Exception:  # a stranger's object may raise anything
        address = -1
    if not 0 <= address < 1 << 64:
        what = quote(value) if is_number else type(value).__name__
        remedy = registry.find_array_remedy(value, "pass an array, or an address as an int")
        raise KernelTypeError(
            f"{kernel}(): argument {parameter.name!r} is {what}, and the parameter a pointer; {remedy}"
        )
    return np.uint64(address)


def _struct(kernel: str, parameter: RawParameter, value: Any) -> np.generic:
    """A struct from a NumPy record (or an array of one), a dict by its members, or as many values as it has members."""
    dtype = parameter.dtype
    assert dtype is not None
    names = dtype.names or ()
    given = value.dtype if has(value, "dtype") else None
    record = np.zeros((), dtype)
    if isinstance(value, (np.ndarray, np.void)) and value.size == 1 and _has_layout(value.dtype, dtype):
        nbytes = min(value.dtype.itemsize, dtype.itemsize)  # one of them may have more bytes behind its members
        record.reshape(1).view(np.uint8)[:nbytes] = np.frombuffer(value.tobytes(), np.uint8, nbytes)
        return _scalar(record)
    if isinstance(value, dict):
        fits = value.keys() == set(names)
        members = tuple(value[name] for name in names) if fits else ()
    elif isinstance(given, np.dtype) and given.names is not None:
        fits = given.names == names and getattr(value, "size", 1) == 1
        members = tuple(value[name].reshape(given[name].shape) for name in names) if fits else ()
    elif isinstance(value, (tuple, list)) or (isinstance(value, np.ndarray) and value.ndim == 1):
        members = tuple(value)
        fits = len(members) == len(names)
    else:
        fits, members = False, ()
    try:
        if fits:
            record[()] = _convert_members(kernel, members, dtype, parameter.name)
    except KernelError:
        raise
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        what = f"a dict of {', '.join(map(str, value)) or 'nothing'}" if isinstance(value, dict) else quote(value)
        raise KernelTypeError(
            f"{kernel}(): argument {parameter.name!r} is {what}, and the parameter a struct of "
            f"{', '.join(names) or dtype}; pass a NumPy record, a dict, or a tuple in that order"
        )
    return _scalar(record)


def _convert_members(kernel: str, values: Sequence[Any], dtype: DType, label: str) -> tuple[Any, ...]:
    """The members of a struct; NumPy would drop fractions and the bits that an integer has no room for."""
    names = dtype.names or ()
    return tuple(
        _convert_member(kernel, value, dtype[name], f"{label}.{name}")
        for value, name in zip(values, names, strict=True)
    )


def _convert_member(kernel: str, value: Any, dtype: DType, label: str) -> Any:
    if dtype.names:
        is_plain = isinstance(value, (tuple, list)) and len(value) == len(dtype.names)
        return _convert_members(kernel, value, dtype, label) if is_plain else value
    if dtype.subdtype is None:
        scalar = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
        return arguments.convert_scalar(kernel, scalar, dtype, label) if is_scalar(scalar) else value
    element, _ = dtype.subdtype
    array = np.asarray(value)
    if element.names or array.dtype not in SUPPORTED:
        return value
    numbers = [arguments.convert_scalar(kernel, each, element, label) for each in array.ravel().tolist()]
    return np.array(numbers, element).reshape(array.shape)


def _scalar(record: Any) -> np.generic:
    found: np.generic = record[()]
    return found


def _has_layout(given: Any, wanted: Any) -> bool:
    """Whether two dtypes have the same numbers at the same bytes, and no name of the one is elsewhere in the other."""
    if given == wanted:
        return True
    if not given.names or not wanted.names or max(given.itemsize, wanted.itemsize) > _MOST_STRUCT_NBYTES:
        return False
    if any(a != b and (a in wanted.names or b in given.names) for a, b in zip(given.names, wanted.names, strict=False)):
        return False
    return _numbers_of(given) == _numbers_of(wanted)


def _numbers_of(dtype: Any, at: int = 0) -> list[tuple[int, Any]]:
    """The offset and dtype of each number within a dtype."""
    if dtype.names:
        return [found for name in dtype.names for found in _numbers_of(dtype[name], at + dtype.fields[name][1])]
    if dtype.subdtype is None:
        return [(at, dtype)]
    each, shape = dtype.subdtype
    return [found for number in range(math.prod(shape)) for found in _numbers_of(each, at + number * each.itemsize)]


def extents_of(kernel: str, what: str, given: Any) -> tuple[int, int, int]:
    """A grid's or a block's extents along x, y and z."""
    extents = given if isinstance(given, tuple) else (given,)
    least = 0 if what == "grid" else 1
    are_numbers = all((type(each) is int or isinstance(each, np.integer)) and each >= least for each in extents)
    if not 1 <= len(extents) <= 3 or not are_numbers:
        raise KernelTypeError(
            f"{kernel}(): {what}={quote(given)} must be one to three positive ints; give an int, or a tuple of them"
        )
    x, y, z = (*map(int, extents), 1, 1)[:3]
    if x >= 2**31 or max(y, z) > 65535:
        raise KernelTypeError(f"{kernel}(): {what}={quote(given)} is beyond 2**31-1 along x or 65535 along y and z")
    return x, y, z


def check_block(kernel: str, block: tuple[int, int, int]) -> None:
    if math.prod(block) > MOST_THREADS:
        raise KernelTypeError(f"{kernel}(): block {block} has more than {MOST_THREADS} threads; make it smaller")
    if block[2] > _MOST_THREADS_Z:
        raise KernelTypeError(
            f"{kernel}(): block {block} has more than {_MOST_THREADS_Z} threads along z; move them to x or y"
        )


def check_shared(kernel: str, nbytes: Any, device: Device) -> None:
    if type(nbytes) is not int or nbytes < 0:
        raise KernelTypeError(f"{kernel}(): shared_nbytes={quote(nbytes)} must be an int, 0 or more")
    if nbytes > MOST_SHARED_NBYTES and device.kind != "cuda":
        raise KernelTypeError(
            f"{kernel}(): shared_nbytes={nbytes} is beyond the {MOST_SHARED_NBYTES} bytes that a block can have on "
            "any GPU; use less"
        )


# Raw CUDA kernels: the user's own source, launched with checked arguments on arrays of any CUDA backend.

Extents = int | tuple[int, ...]

_MOST_CALLS = 16

_OMITTED: Final[Any] = object()
"""In place of an argument that was not given, where None may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelAttributes:
    """The resources of a compiled kernel on a device, as CUDA's driver tells them."""

    registers: int
    """Of a thread; 0 on a CPU, where it is unknown."""
    max_threads: int
    """The most threads of a block that can be launched."""
    shared_nbytes: int
    """Static shared memory of a block."""
    constant_nbytes: int
    local_nbytes: int
    """Local memory of a thread, where registers are spilled."""
    max_dynamic_shared_nbytes: int
    """The most dynamic shared memory that launches have been allowed so far."""
    ptx_version: int
    binary_version: int


class RawKernel(metaclass=NoPublicConstructor, by="raw_module(source).get_function(name)"):
    """A kernel of a `RawModule`, with its parameters."""

    if not TYPE_CHECKING:

        def __getitem__(self, launch: Any) -> NoReturn:
            raise KernelTypeError(
                f"{self.name}[grid, block](...) is another library's way; write {self.name}(grid, block, arguments), "
                f"or {self.name}(x, n, grid=grid, block=block)"
            )

    def __init__(
        self,
        module: RawModule,
        name: str,
        signature: str,
        parameters: list[RawParameter],
        cpu: Callable[..., Any] | None,
    ) -> None:
        self.name = name
        self.parameters = parameters
        self._signature = signature
        self._names = [each.name for each in parameters]
        self._module = module
        self._cpu = cpu
        self._sizes = [each.nbytes for each in parameters]
        self._lock = threading.Lock()
        self._block: ParameterBlock | None = None
        self._calls: Plans[Repeated] = Plans(_MOST_CALLS)
        """Checked launches, by extents, shared memory and whether they are cooperative."""

    def __reduce__(self) -> tuple[Any, ...]:
        if self._cpu is not None:
            from xferlib.kernels.elementwise import check_function

            check_function(self._cpu, f"kernel {self.name!r}: the function cpu=")
        return _kernel_of, (self._module, self.name, self._signature, self._cpu)

    def __deepcopy__(self, memo: dict[int, Any]) -> RawKernel:
        return self

    def __copy__(self) -> RawKernel:
        return self

    def __repr__(self) -> str:
        return f"<RawKernel {self.name}({', '.join(each.name for each in self.parameters)})>"

    def attributes(self, *, backend: str | None = None, device: DeviceSpec = None) -> KernelAttributes:
        """Registers, shared and local memory, and the most threads of a block; the kernel is compiled for it.

        Args:
            backend, device: Where; the current device if omitted.

        Raises:
            UnsupportedError: The device runs no CUDA source.
        """
        place = registry.resolve(device, backend=None if backend is None else registry.get(backend))
        if place.kind != "cuda":
            module, _, name = self._module.load_on_cpu(registry.part_of(place), place, self.name)
            return KernelAttributes(**module.get_attributes(name))
        owner, place, kernel = self._load(backend, device)
        return KernelAttributes(**owner.kernel_attributes(kernel, place))

    def occupancy(
        self, block: Extents, *, shared_nbytes: int = 0, backend: str | None = None, device: DeviceSpec = None
    ) -> int:
        """Blocks of such a size that run at a time on one multiprocessor.

        Args:
            block, shared_nbytes: As for a launch.
            backend, device: Where; the current device if omitted.

        Raises:
            KernelTypeError: No launch can have such a block.
            UnsupportedError: The device runs no CUDA source.
        """
        extents = extents_of(self.name, "block", block)
        check_block(self.name, extents)
        owner, place, kernel = self._load(backend, device)
        check_shared(self.name, shared_nbytes, place)
        found: int = owner.occupancy(kernel, math.prod(extents), shared_nbytes, place)
        return found

    def _load(self, backend: str | None, device: DeviceSpec) -> tuple[Any, Device, Any]:
        place = registry.resolve(device, backend=None if backend is None else registry.get(backend))
        if place.kind != "cuda":
            raise UnsupportedError(
                f"kernel {self.name!r} is CUDA source, and uses no resources of {place}; name a CUDA device: "
                "device='cuda:0'"
            )
        owner = _attach(place)
        return owner, place, self._module.load(owner, place, self.name)

    @overload
    def __call__(
        self, grid: Extents, block: Extents, args: Sequence[Any], *, stream: Any = None, shared_nbytes: int = 0,
        cooperative: bool = False,
    ) -> None: ...  # fmt: skip

    @overload
    def __call__(
        self, *args: Any, block: Extents, grid: Extents = ..., stream: Any = None, shared: int = 0,
        cooperative: bool = False,
    ) -> None: ...  # fmt: skip

    def __call__(  # type: ignore[misc]  # whose names stand in **named, as PyCUDA's kernels take arguments before them
        self,
        grid: Any = _OMITTED,
        block: Any = _OMITTED,
        args: Any = _OMITTED,
        /,
        *others: Any,
        stream: Any = None,
        shared_nbytes: int = 0,
        cooperative: bool = False,
        **named: Any,
    ) -> None:
        """Launch the kernel: ``kernel(grid, block, (x, n))``, or as in PyCUDA ``kernel(x, n, block=block, grid=grid)``.

        Args:
            grid: Blocks along x, y and z; one block if omitted in PyCUDA's way of calling.
            block: Threads of a block along x, y and z; at most 1024 in all.
            args: In the order of the signature. For pointers: arrays in C order without gaps, of a backend or with
                ``__cuda_array_interface__`` or DLPack; addresses as ints; None. For structs and vectors such as
                ``float3``: NumPy records, dicts or tuples. Numbers for the rest.
            stream: Where to launch; the current stream of the arrays' library if omitted.
            shared_nbytes: Dynamic shared memory of a block, in bytes; beyond 48 KiB where the device has it. PyCUDA's
                word ``shared`` is taken too.
            cooperative: All blocks run at a time, so that the kernel may synchronise the grid.

        Raises:
            KernelTypeError: Argument count or type; extents that no launch can have; a tensor that torch follows.
            LayoutError: An array that is not in C order, not aligned to its elements, or written and read-only.
            UnsupportedError: The arrays are on a CPU, and there is neither ``cpu=`` nor NVRTC; or the kernel has an
                instruction that no CPU runs.
            KernelCompileError: NVRTC refused the source, or there is no C compiler to run it on a CPU.
            KernelFaultError: The kernel ran on a CPU and made a mistake.
        """
        blocks.follow()
        if named or others or args is _OMITTED:
            given = [each for each in (grid, block, args, *others) if each is not _OMITTED]
            grid, block, args, shared_nbytes = self._arrange(given, shared_nbytes, named)
        form = (grid, block, shared_nbytes, cooperative)
        if observe.active is None and (stream is None or type(stream) is Stream):
            try:
                call = self._calls.get(form)
            except Exception:  # extents that no launch can have: a stranger's object, asked for its hash
                call = None
            if call is not None and call(args, None if stream is None else stream._raw):
                return
        try:
            count = len(args)
            if isinstance(args, (str, bytes, Mapping, AbstractSet)):  # of characters, of keys, or without an order
                raise TypeError
        except TypeError:
            what = quote(args)
            raise KernelTypeError(
                f"{self.name}(): args={what} is not a tuple of arguments; give one: (x, n), or name block= and grid="
            ) from None
        if count != len(self.parameters):
            if arguments.is_array(args):
                raise KernelTypeError(
                    f"{self.name}(): args is an array, and each of its elements would be an argument; give a tuple of "
                    "the arguments: (x,) for one"
                )
            raise KernelTypeError(
                f"{self.name}() takes {len(self.parameters)} argument(s) "
                f"({', '.join(each.name for each in self.parameters)}), {count} were given"
            )
        refuse_no_flag(cooperative, f"{self.name}(): cooperative")
        arguments.refuse_followed(self.name, args, self._names)
        backend, device, infos = self._arrays_of(args)
        if backend is None or device is None:
            backend = registry.default_backend()
            device = backend.device_current()
        adopted = None
        if any(each.is_pointer and is_foreign(value) for each, value in zip(self.parameters, args, strict=True)):
            backend.at(device).attach(device)
            adopted = Adopted(self.name, self.parameters, args, backend.at(device), device)
            args = adopted.args
            _, device, infos = self._arrays_of(args)
            assert device is not None
        owner: Any = backend.at(device)
        for number in infos:
            if owner.is_lazy(args[number]):
                raise LayoutError(
                    f"{self._label(number)} is conjugated, negated or zero by a flag on the tensor, and the source "
                    "would see its memory without; pass a copy: x.resolve_conj().resolve_neg()"
                )
        values = [
            convert_argument(self.name, self.parameters[number], args[number], infos.get(number))
            for number in range(len(args))
        ]
        extents = (extents_of(self.name, "grid", grid), extents_of(self.name, "block", block))
        check_block(self.name, extents[1])
        check_shared(self.name, shared_nbytes, device)
        target = self._stream(owner, device, stream)
        if adopted is not None:
            adopted.order(owner, target)
        if device.kind != "cuda":
            for number, parameter in enumerate(self.parameters):
                if self._cpu is not None and parameter.is_pointer and number not in infos:
                    values[number] = args[number]  # the function gets such a pointer as it was given
            launch = (*extents, shared_nbytes, cooperative)
            self._run_on_cpu(owner, device, args, values, infos, target, launch)
            return
        for number in infos:
            if not self.parameters[number].is_const:
                owner.note_write(args[number], self._label(number))
        kernel = self._launch(owner, device, extents, values, target, shared_nbytes, is_cooperative=cooperative)
        if kernel is not None and infos and adopted is None and not arguments.requires_gradient(args):
            options = {"shared_nbytes": shared_nbytes, "cooperative": cooperative}
            call = make_repeat(self.name, owner, device, kernel, extents, self.parameters, args, [*infos], **options)
            if call is not None:
                self._calls.keep(form, call)
        for number in infos:  # arrays allocated on another stream must outlast the work on this one
            owner.note_use(args[number], target)

    def _arrange(
        self, given: list[Any], shared_nbytes: int, named: dict[str, Any]
    ) -> tuple[Extents, Extents, Sequence[Any], int]:
        """Grid, block, arguments and shared memory of a call by names, ours or PyCUDA's.

        Raises:
            KernelTypeError: One is missing, or given twice.
            TypeError: A keyword that there is not.
        """
        if unknown := named.keys() - {"grid", "block", "args", "shared"}:
            refuse_keyword(
                "RawKernel", {name: named[name] for name in named if name in unknown},
                ("grid", "block", "args", "stream", "shared_nbytes", "cooperative"),
            )  # fmt: skip
        if "shared" in named:
            if shared_nbytes:
                raise KernelTypeError(f"{self.name}(): shared= and shared_nbytes= say the same; give one of them")
            shared_nbytes = named.pop("shared")
        if "block" in named and "args" not in named:  # PyCUDA's way: what has no name is the kernel's
            return named.get("grid", 1), named["block"], given, shared_nbytes
        names = [name for name in ("grid", "block", "args") if name not in named]
        if len(given) != len(names):
            raise KernelTypeError(
                f"{self.name}(): {len(given)} argument(s) were given by position, and {', '.join(names) or 'nothing'} "
                f"needed; write {self.name}(grid, block, (x, n)), or {self.name}(x, n, block=block, grid=grid)"
            )
        named.update(zip(names, given, strict=True))
        return named["grid"], named["block"], named["args"], shared_nbytes

    def _arrays_of(self, args: Sequence[Any]) -> tuple[Any, Device | None, dict[int, ArrayInfo]]:
        """The backend, the device and the arrays among arguments; structs, pointers and foreign arrays are none.

        Nor is an array in place of a number: that is refused later, and not for being elsewhere.
        """
        given = [
            None if parameter.is_struct or parameter.is_pointer is not arguments.is_array(value) else value
            for parameter, value in zip(self.parameters, args, strict=True)
        ]
        return arguments.common_device(self.name, self._names, given)

    def _label(self, number: int) -> str:
        return f"{self.name}(): argument {self._names[number]!r}"

    def _stream(self, owner: Any, device: Device, stream: Any) -> RawStream:
        if stream is None:
            current: RawStream = owner.stream_current(device)
            return current
        given = Stream.from_any(stream, device)
        if given.device is not device:
            raise KernelTypeError(
                f"{self.name}(): the stream is of {given.device}, and the arrays on {device}; use one of that device"
            )
        return given._raw

    def _run_on_cpu(
        self,
        owner: Any,
        device: Device,
        args: Sequence[Any],
        values: list[np.generic],
        infos: dict[int, ArrayInfo],
        stream: RawStream,
        launch: tuple[tuple[int, int, int], tuple[int, int, int], int, bool],
    ) -> None:
        function = self._cpu
        emulated = None if function is not None else self._emulate(owner, device, values, infos, launch)
        written = [number for number in infos if not self.parameters[number].is_const]
        if device.kind != "cpu" and (engine := owner.engine()) is not None:
            outputs = [args[number] for number in written]
            if emulated is not None:
                engine.emulate(self.name, emulated, args, outputs, stream)
            else:
                assert function is not None
                engine.stand_in(self.name, function, args, values, outputs, stream)
            return
        for each in written:
            owner.note_write(args[each], self._label(each))
        operands = [owner.host_view(args[n]) if n in infos else value for n, value in enumerate(values)]
        for number in infos.keys() - set(written):
            operands[number] = operands[number].view()
            operands[number].flags.writeable = False  # as the compiler would say
        function = hide_from_tracer(emulated.run if emulated is not None else function)  # type: ignore[arg-type]
        if (recorder := observe.active) is None:
            function(*operands)
        else:
            recorder.on_host(Kind.KERNEL, self.name, 0, owner, device, lambda: function(*operands))

    def _emulate(
        self,
        owner: Any,
        device: Device,
        values: Sequence[np.generic],
        infos: Mapping[int, ArrayInfo],
        launch: tuple[tuple[int, int, int], tuple[int, int, int], int, bool],
    ) -> EmulatedKernel:
        """The source as it runs on the CPU with these arguments."""
        from xferlib.kernels.cuda_cpu import module as cuda_cpu

        module, memory, name = self._module.load_on_cpu(owner, device, self.name)
        grid, block, shared_nbytes, is_cooperative = launch
        module.check_launch(
            name, self._sizes, grid, block, shared_nbytes=shared_nbytes, is_cooperative=is_cooperative, label=self.name
        )
        arrays = {number: (self.parameters[number], info.pointer) for number, info in infos.items()}
        return cuda_cpu.EmulatedKernel(
            module, name, grid, block, [value.tobytes() for value in values], arrays, label=self.name,
            memory=memory if module.has_variables else None, shared_nbytes=shared_nbytes,
            is_cooperative=is_cooperative, follows_sim=device.kind != "cpu",
            is_checked=_is_checked(process.get().kernel_check, device),
        )  # fmt: skip

    def _launch(
        self,
        owner: Any,
        device: Device,
        extents: tuple[tuple[int, int, int], tuple[int, int, int]],
        values: list[np.generic],
        stream: RawStream,
        shared_nbytes: int,
        *,
        is_cooperative: bool,
    ) -> Any:
        """Load and enqueue the kernel, and return it; None where the grid has no blocks."""
        grid, block = extents
        kernel = self._module.load(owner, device, self.name)
        if shared_nbytes > cuda_launch.USUAL_SHARED_NBYTES:
            owner.allow_shared(kernel, shared_nbytes, device)
        if 0 in grid:
            return None
        with self._lock:
            if self._block is None:
                self._block = ParameterBlock(0, self._sizes)
            for number, value in enumerate(values):
                self._block.patch_scalar(number, value.tobytes())
            params = self._block.address
            run = functools.partial(
                owner.launch, kernel, grid, block, params, stream=stream, shared_nbytes=shared_nbytes,
                cooperative=is_cooperative,
            )  # fmt: skip
            if (recorder := observe.active) is None:
                run()
            else:
                recorder.enqueue(Kind.KERNEL, self.name, 0, owner, stream, run)
        return kernel


def _is_checked(check: str, device: Device) -> bool:
    return check == "1" or (check == "auto" and device.kind != "cpu")


def _kernel_of(module: RawModule, name: str, signature: str, cpu: Callable[..., Any] | None) -> RawKernel:
    """Restore a pickled kernel."""
    return module.get_function(name, signature, cpu=cpu)


# Raw CUDA modules: source or machine code, its kernels and its variables.


def _attach(place: Device) -> Any:
    """The part of a CUDA backend that serves a device, whose context is current afterwards."""
    owner = registry.part_of(place)
    owner.attach(place)
    return owner


_modules: weakref.WeakSet[RawModule] = weakref.WeakSet()


def _renew_locks() -> None:
    for each in _modules:
        each._lock = threading.Lock()  # another thread may have held it at the fork, through a compilation


process.reset_in_child(_renew_locks)


class RawModule(metaclass=NoPublicConstructor, by="raw_module"):
    """CUDA source or machine code made by `raw_module`, loaded on a device at the first launch there."""

    def __init__(
        self,
        source: str,
        *,
        options: tuple[str, ...],
        names: tuple[str, ...],
        types: Mapping[str, DType] | None = None,
        binary: bytes = b"",
        pieces: tuple[Piece, ...] = (),
    ) -> None:
        self.source = source
        self._options = options
        self._names = names
        self._declared = dict(types or {})
        self._binary = binary
        self._pieces = pieces
        self._loaded: dict[tuple[str, str], dict[str, Any]] = {}
        self._ptx: tuple[list[str], dict[str, str]] | None = None
        """The texts that CPUs run, and the mangled names; chosen once, so that all modes have the same variables."""
        self._variables: dict[str, Any] = {}
        """Their memory by CPU or simulated device."""
        self._lock = threading.Lock()
        _modules.add(self)
        self._declarations: CudaSource | None = None

    if not TYPE_CHECKING:  # or every name would be an attribute for a type checker

        def __getattr__(self, name: str) -> NoReturn:
            checks.refuse(self, name, {} if name[0] == "_" else {name: f"module.get_function({name!r})"})

    def __reduce__(self) -> tuple[Any, ...]:
        return _module_of, (self.source, self._options, self._names, self._declared, self._binary, self._pieces)

    def __deepcopy__(self, memo: dict[int, Any]) -> RawModule:
        return self  # only its caches change

    def __copy__(self) -> RawModule:
        return self

    def __repr__(self) -> str:
        lines = self.source.count("\n") + 1
        text = "1 line" if lines == 1 else f"{lines} lines"
        code = f"{len(self._binary)} bytes of machine code" if self._binary else f"{text} of CUDA source"
        loaded = sorted({arch for (arch, _), found in tuple(self._loaded.items()) if found})
        return f"<RawModule of {code}, {'loaded for ' + ', '.join(loaded) if loaded else 'not loaded'}>"

    def get_function(
        self, name: str, signature: str | None = None, *, cpu: Callable[..., Any] | None = None
    ) -> RawKernel:
        """A kernel of the module.

        Args:
            name: An ``extern "C"`` function, or one of the ``names`` of the module.
            signature: Its parameters in C; read from the source if omitted, those of a template instance too, or from
                the name itself, if that is mangled (``_Z5scaleIfEvPT_f``, as machine code has it).
            cpu: The function to run on a CPU instead: called with the arguments, arrays as NumPy arrays.

        Raises:
            KernelSyntaxError: The signature cannot be read, or is not plain enough to be found.
        """
        if not isinstance(name, str) or not isinstance(signature, (str, type(None))):
            wrong = name if not isinstance(name, str) else signature
            raise KernelSyntaxError(
                f"get_function: {quote(wrong)} is not a string; give the kernel's name, and C for its parameters"
            )
        name = next((each for each in self._names if compact(each) == compact(name)), name)
        source = self._read()
        found = signature if signature is not None else source.find_signature(name)
        found = cuda_signature.signature_of(name) if found is None else found
        if cpu is not None and not callable(cpu):
            raise ArgumentError(f"get_function: cpu={quote(cpu)} is not a function; give one of the kernel's arguments")
        others = source.kernel_names(without=name) if found is None else []
        if others:
            near = did_you_mean(name, others)
            raise KernelSyntaxError(f"the source has no kernel {name!r}{near}; its kernels are {', '.join(others)}")
        if found is None:
            raise KernelSyntaxError(
                f"the source shows no parameters of kernel {name!r}, whose definition begins with __global__ (unless "
                "it is machine code, a macro, or behind an #if that only the compiler can decide); give "
                "signature='const float *x, int n'"
            )
        if "<" in name and name not in self._names:
            raise KernelSyntaxError(f"template instance {name!r} must be named: raw_module(source, names=({name!r},))")
        return RawKernel(self, name, found, parse_signature(found, name, source), cpu)

    def get_global(
        self, name: str, dtype: Any = None, *, backend: str | None = None, device: DeviceSpec = None
    ) -> Array:
        """A ``__device__`` or ``__constant__`` variable as an array over its memory.

            xl.to_device(table, out=module.get_global("table"))    # before a launch on the same stream

        Args:
            name: Its name; in a namespace ``"space::name"``, where the module's ``names`` have ``"&space::name"``.
            dtype: Its elements, as one axis; type and shape of the source's declaration if omitted, or uint8 where that
                is a struct, or not plain.
            backend, device: Where: each device has its own variable. The current device if omitted.

        Raises:
            ArgumentError: The module has no such variable.
            LayoutError: Its size is no multiple of ``dtype``.
            UnsupportedError: The device runs no CUDA source.
        """
        kind = None if dtype is None else check_dtype(dtype, what="dtype")
        if not isinstance(name, str):
            raise ArgumentError(f"get_global: {quote(name)} is not a name; give that of a variable of the source")
        place = registry.resolve(device, backend=None if backend is None else registry.get(backend))
        if place.kind != "cuda":
            return self._find_on_cpu(name, kind, place)
        owner = _attach(place)
        library, lowered = self._library(owner, place)
        known = next((lowered[each] for each in (name, f"&{name}") if each in lowered), name)
        pointer, nbytes = owner.global_of(library, known, place)
        shape, kind = self._extents(name, nbytes, kind)
        array: Array = owner.over(pointer, shape, kind, device=place, owner=library)
        return array

    def _find_on_cpu(self, name: str, kind: DType | None, place: Device) -> Array:
        """A variable of the module on a CPU or a simulated device."""
        owner = registry.part_of(place)
        module, memory, lowered = self._load_on_cpu(owner, place)
        known = next((lowered[each] for each in (name, f"&{name}") if each in lowered), name)
        found = module.find_variable(known)
        if found is None:
            raise ArgumentError(
                f"the module has no variable {name!r}; declare it __device__ or __constant__ and use it"
            )
        offset, nbytes = found
        shape, kind = self._extents(name, nbytes, kind)
        if place.kind != "cpu":
            viewed: Array = owner.strided_view(memory, offset, shape, c_strides(shape, kind.itemsize), kind)
            return viewed
        view = owner.host_view(memory)[offset : offset + nbytes].view(kind).reshape(shape)
        array: Array = owner.namespace().from_dlpack(view)
        return array

    def compile(self, *, backend: str | None = None, device: DeviceSpec = None, log_stream: Any = None) -> None:
        """Compile and load the module now, which the first launch would do.

        Args:
            backend, device: Where; the current device if omitted.
            log_stream: A text file: the compiler's messages are written there, warnings too.

        Raises:
            KernelCompileError: NVRTC refused the source.
            UnsupportedError: The device runs no CUDA source.
        """
        place = registry.resolve(device, backend=None if backend is None else registry.get(backend))
        if place.kind != "cuda":
            if log_stream is not None:
                self._write_ptx(process.get().kernel_arch, log_stream)
            self._load_on_cpu(registry.part_of(place), place)
            return
        owner = _attach(place)
        self._library(owner, place, log_stream)

    def load(self, backend: Any, device: Device, name: str) -> Any:
        """The loaded kernel on ``device``; one compilation serves all kernels of the module."""
        library, lowered = self._library(backend, device)
        kernels = self._loaded[self._key(backend, device)]
        with self._lock:
            if name not in kernels:
                kernels[name] = backend.kernel_of(library, lowered.get(name, name))
            return kernels[name]

    def load_on_cpu(self, owner: Any, device: Device, name: str) -> tuple[CpuModule, Any, str]:
        """The module translated for a CPU, the memory of its variables, and the mangled name of one of its kernels."""
        module, memory, lowered = self._load_on_cpu(owner, device)
        return module, memory, lowered.get(name, name)

    # --- reading the source

    def _read(self) -> CudaSource:
        """The declarations of the source and those that it is linked with; read once."""
        if self._declarations is None:
            linked = [str(each.content) for each in self._pieces if each.kind == cuda_signature.SOURCE]
            self._declarations = CudaSource("\n".join([self.source, *linked]), self._options, self._declared)
        return self._declarations

    def _extents(self, name: str, nbytes: int, kind: DType | None) -> tuple[tuple[int, ...], DType]:
        """Shape and dtype of a variable."""
        if kind is None:
            found, extents = self._read().variable(name) or (None, ())
            if found is not None and found.dtype in SUPPORTED:
                count, rest = divmod(nbytes, found.dtype.itemsize)
                shape = None if rest else cuda_signature.whole_shape(extents, count)
                if shape is not None:
                    return shape, found.dtype
            return (nbytes,), np.dtype("uint8")
        if nbytes % kind.itemsize:
            raise LayoutError(f"variable {name!r} has {nbytes} bytes, no multiple of {kind}; give another dtype")
        return (nbytes // kind.itemsize,), kind

    # --- loading

    def _load_on_cpu(self, owner: Any, device: Device) -> tuple[CpuModule, Any, dict[str, str]]:
        """The module, the memory of its variables as an array of the device, and the mangled names."""
        from xferlib.kernels.cuda_cpu import module as cuda_cpu

        # The simulator wants to know every access, and has addresses of its own.
        config = process.get()
        is_checked = device.kind != "cpu" or _is_checked(config.kernel_check, device)
        finds_overflow = is_checked and config.kernel_overflow == "1"
        key = (str(device), f"checked {finds_overflow}" if is_checked else "unchecked")
        with self._lock:
            loaded = self._loaded.setdefault(key, {})
            if not loaded:
                code, lowered = self._translate(is_checked=is_checked, finds_overflow=finds_overflow)
                memory = self._variables.get(str(device))
                if memory is None:
                    memory = self._variables[str(device)] = self._make_variables(owner, device, code)
                module = cuda_cpu.CpuModule(code, owner.host_view(memory), memory)
                loaded["<library>"] = module, memory, lowered
            found: tuple[CpuModule, Any, dict[str, str]] = loaded["<library>"]
            return found

    @staticmethod
    def _make_variables(owner: Any, device: Device, code: CpuCode) -> Any:
        """The memory of the module's variables with their initial values, as an array of the device."""
        from xferlib.kernels.cuda_cpu import module as cuda_cpu

        stream = owner.stream_current(device)
        if device.kind != "cpu" and owner.stream_is_recorded(stream):
            raise UnsupportedError(
                "a module cannot be loaded while its stream is captured; call module.compile() before"
            )
        memory = owner.empty((code.variables_nbytes,), np.dtype("uint8"), device=device, stream=stream)
        module = cuda_cpu.CpuModule(code, owner.host_view(memory), memory)
        if device.kind == "cpu":  # at once: a capture would do it again at each launch
            module.initialise()
        else:
            owner.compute_on_host("load module", lambda _: module.initialise(), (), (memory,))
        owner.stream_synchronize(stream)  # a launch may be on any stream
        return memory

    def _translate(self, *, is_checked: bool, finds_overflow: bool) -> tuple[CpuCode, dict[str, str]]:
        """The translated module, and the mangled names.

        CUDA's headers have asynchronous copies and barriers in shared memory as single instructions from compute
        capability 8.0 on, which no CPU runs, and write them out for 7.5.
        """
        from xferlib.kernels.cuda_cpu import runtime
        from xferlib.kernels.cuda_cpu.code import compile_ptx

        runtime.load()  # where it cannot be used, nothing else helps
        debug_text = self._write_debug_ptx() if is_checked else ""
        compiled = functools.partial(
            compile_ptx, is_checked=is_checked, finds_overflow=finds_overflow, debug_text=debug_text
        )
        if self._ptx is not None:
            return compiled(*self._ptx[0]), self._ptx[1]
        self._ptx = texts, lowered = self._write_ptx(process.get().kernel_arch)
        code = compiled(*texts)
        for arch in () if self._binary else _OLDER_ARCHS:
            if code.translation.uncovered:
                with contextlib.suppress(KernelCompileError):
                    older = texts, other_names = self._write_ptx(arch)
                    other = compiled(*texts)
                    if len(other.translation.uncovered) < len(code.translation.uncovered):
                        self._ptx, code, lowered = older, other, other_names
        return code, lowered

    def _list_options(self) -> tuple[str, ...]:
        """The compiler's options: what is linked must be relocatable."""
        is_given = any(map(cuda_signature.is_relocatable, self._options))
        return self._options if is_given or not self._pieces else (*self._options, "--relocatable-device-code=true")

    def _write_ptx(self, arch: str, log_stream: Any = None) -> tuple[list[str], dict[str, str]]:
        """PTX of the module and of what it is linked with, by NVRTC, which needs no GPU; and the mangled names."""
        from xferlib.kernels.cuda_cpu import code

        if self._binary:
            return [_decode_ptx(self._binary, "machine code")], {}
        options = self._list_options()
        compile_to_ptx = functools.partial(code.compile_to_ptx, arch=arch, options=options, log_stream=log_stream)
        text, lowered = compile_to_ptx(self.source, names=self._names)
        texts = [text]
        for each in self._pieces:
            if each.kind == cuda_signature.SOURCE:
                texts.append(compile_to_ptx(str(each.content), names=())[0])
            else:
                texts.append(_decode_ptx(each.bytes(), f"{each.name}, which is linked,"))
        return texts, lowered

    def _write_debug_ptx(self) -> str:
        """PTX of a debug build of the source; empty where there is none."""
        if self._binary:
            return ""
        from xferlib.kernels.cuda_cpu import code

        try:  # NVRTC refuses some instructions in it
            options = (*self._list_options(), code.DEBUG)
            arch = process.get().kernel_arch
            return code.compile_to_ptx(self.source, arch=arch, options=options, names=self._names)[0]
        except KernelCompileError:
            return ""

    def _key(self, backend: Any, device: Device) -> tuple[str, str]:
        major, minor = backend.compute_capability(device)
        return f"sm_{major}{minor}", device.backend

    def _library(self, backend: Any, device: Device, log_stream: Any = None) -> tuple[Any, dict[str, str]]:
        """The loaded code, and the mangled names."""
        key = self._key(backend, device)
        with self._lock:
            loaded = self._loaded.setdefault(key, {})
            if "<library>" not in loaded or log_stream is not None:
                cubin, lowered = self._compile(backend, device, key[0], log_stream)
                loaded.setdefault("<library>", (backend.load_library(cubin, device=device), lowered))
            found: tuple[Any, dict[str, str]] = loaded["<library>"]
            return found

    def _compile(self, backend: Any, device: Device, arch: str, log_stream: Any) -> tuple[bytes, dict[str, str]]:
        if self._binary:
            return self._binary, {}
        sources = [str(each.content) for each in self._pieces if each.kind == cuda_signature.SOURCE]
        folders = code_cache.find_header_folders("\n".join([self.source, *sources]))
        options = (*self._list_options(), *code_cache.list_header_options(folders))
        is_linked = any(map(cuda_signature.is_relocatable, options))
        parts = [f"{each.kind} {hashlib.sha256(each.bytes()).hexdigest()}" for each in self._pieces]
        name = code_cache.key(
            "raw", self.source, arch, "\0".join((*options, *self._names, *parts)),
            f"{backend.compiler_version()} {code_cache.identify_headers(folders)}",
        )  # fmt: skip
        is_kept = all(
            code_cache.has_only_cuda_headers(each, self._options, folders) for each in (self.source, *sources)
        )
        cached = code_cache.read(name) if is_kept and log_stream is None else None
        if cached is not None:
            return code_cache.unpack_names(cached, self._names)
        compiled = backend.compile(self.source, device=device, options=options, names=self._names)
        if is_linked:
            given = [("the source", "CUBIN", compiled.cubin)]
            logs = [compiled.log]
            for each in self._pieces:
                if each.kind == cuda_signature.SOURCE:
                    other = backend.compile(str(each.content), device=device, options=options)
                    given.append((each.name, "CUBIN", other.cubin))
                    logs.append(other.log)
                else:
                    given.append((each.name, each.kind, each.bytes()))
            cubin = backend.link(given, device=device)
            compiled = compiled._replace(cubin=cubin, log="\n".join(filter(None, logs)))
        if log_stream is not None:
            log_stream.write(compiled.log)
        if is_kept:
            code_cache.write(name, code_cache.pack_names(compiled.cubin, compiled.names, self._names))
        return compiled.cubin, compiled.names


_OLDER_ARCHS = ("compute_80", "compute_75")
"""Targets of the compiler for a CPU where it makes instructions of the usual one that do not run there."""


def _decode_ptx(content: bytes, what: str) -> str:
    """PTX as text; machine code is refused."""
    text = content.rstrip(b"\0").decode(errors="replace")
    if ".version" not in text or "\0" in text:
        raise UnsupportedError(f"{what} does not run on a CPU: it is not PTX; give its source or PTX")
    return text


_FILES = (".cu", ".cubin", ".fatbin", ".ptx")


def _module_of(
    source: str,
    options: tuple[str, ...],
    names: tuple[str, ...],
    types: Mapping[str, DType],
    binary: bytes,
    pieces: tuple[Piece, ...] = (),
) -> RawModule:
    """Restore a pickled module."""
    return RawModule(source, options=options, names=names, types=types, binary=binary, pieces=pieces)


def raw_module(
    source: str | None = None,
    *,
    path: str | os.PathLike[str] | None = None,
    options: Sequence[str] = (),
    names: Sequence[str] = (),
    types: Mapping[str, Any] | None = None,
    link: Sequence[str | os.PathLike[str]] = (),
) -> RawModule:
    """Make a module of CUDA C++ source or machine code, whose kernels the program launches with explicit extents.

    Args:
        source: The source; it may include CUDA's own headers where they are installed.
        path: In place of ``source``: a file of source (``.cu``), or of a cubin, a fat binary or PTX. It is read now.
        options: For NVRTC, such as ``"--std=c++17"``; without the architecture. They are NVRTC's defaults,
            which contract ``a*b+c`` (``--fmad=false`` forbids it).
        names: Template instances to compile, such as ``"scale<float>"``.
        types: NumPy dtypes of structs that kernels take by value, by their names in C, where the source does not show
            them plainly: ``{"Params": numpy.dtype([("x", "f4"), ("n", "i4")], align=True)}``.
        link: Device code whose functions and variables the source uses, and declares ``extern``: further sources as
            strings, and files as `pathlib.Path`, of source, cubin, PTX, fat binary, object, library or LTO-IR, compiled
            with ``-rdc=true``. nvJitLink links them. ``options`` are for all sources.

    Raises:
        KernelTypeError: Neither or both of ``source`` and ``path``.
        KernelSyntaxError: A type that is no dtype.
        ArgumentError: ``options`` or ``names`` for machine code, which is not compiled.
        OSError: The file cannot be read.
    """
    if (source is None) is (path is None):
        raise KernelTypeError("raw_module takes CUDA source or path=, one of the two")
    compiler_options, instances = _texts(options, "options"), _texts(names, "names")
    binary = b""
    if path is not None:
        if not isinstance(path, (str, os.PathLike)) or checks.path(path) is None:
            raise ArgumentError(
                f"raw_module: path={quote(path)} is not a path; give that of a .cu, .cubin or .ptx file"
            )
        file = Path(path)
        content = file.read_bytes()
        if file.suffix.lower() in cuda_signature.SOURCES:
            source = cuda_signature.decode(content, str(file))
        else:
            source, binary = "", content + b"\0"  # PTX is text, which the driver reads up to a NUL
    if not isinstance(source, str) or not cuda_signature.is_text(source):
        raise KernelSyntaxError("raw_module takes CUDA source as a string without NUL characters or half surrogates")
    source = source.removeprefix("\ufeff")  # as editors put it in front
    if not binary and Path(source.strip()).suffix.lower() in _FILES and len(source.split()) == 1:
        raise KernelSyntaxError(f"raw_module: {quote(source)} is the name of a file; write raw_module(path={source!r})")
    if binary and (compiler_options or instances):
        raise ArgumentError(f"raw_module: {quote(str(path))} is not compiled; leave options= and names= out")
    if binary and link:
        raise ArgumentError(f"raw_module: {quote(str(path))} is whole; give it in link=, beside the source")
    declared, parts = check_types(types), cuda_signature.read_pieces(link)
    return RawModule(source, options=compiler_options, names=instances, types=declared, binary=binary, pieces=parts)


def _texts(given: Any, what: str) -> tuple[str, ...]:
    """A list of strings."""
    if not isinstance(given, (list, tuple)) or not all(map(cuda_signature.is_text, given)):
        raise ArgumentError(f"raw_module: {what}={quote(given)} is not a list of strings; give {what}=('...',)")
    return tuple(given)
