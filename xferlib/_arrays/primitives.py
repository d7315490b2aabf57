"""The primitives of the functions of a namespace: new arrays, views, and checks of arguments.

NumPy says what a view is: a *shadow* is a NumPy array of the same shape and strides at an address that nothing may
read. Slicing or transposing it gives the shape, strides and offset of the view, or NumPy's own error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from xferlib._api import transfers
from xferlib._core import arrays, observe, registry
from xferlib._core.arrays import Array, ArrayInfo, array_at, axes_of, axis_of, check_dtype, number
from xferlib._core.dtypes import is_stored, letter_of, promote
from xferlib._core.dtypes import result as find_result_dtype
from xferlib.errors import (
    ArgumentError,
    KernelRangeError,
    KernelTypeError,
    LayoutError,
    LayoutIndexError,
    LayoutTypeError,
    UnsupportedArrayError,
    UnsupportedDTypeError,
    UnsupportedError,
)
from xferlib.kernels import ElementwiseKernel, elementwise
from xferlib.kernels.arguments import is_scalar
from xferlib.kernels.elementwise import cast_into

if TYPE_CHECKING:
    from xferlib._core.backend import Backend, FunctionLibrary, MatrixProducts
    from xferlib._core.device import Device, RawStream
    from xferlib.kernels.cuda_arrays import ArrayKernel, RadixSort


Shadow = np.ndarray[Any, Any]
Shape = tuple[int, ...]

_BASE = 1 << 40
"""The address of shadows. A read of one would end the process, so a key must never select a single element."""
_MOST_SHADOWS = 1024
_MOST_PLANS = 512
P = TypeVar("P")
READ_ONLY = "elements of the array share their memory (broadcast_to), or it is read-only; copy it"


@functools.lru_cache(_MOST_SHADOWS)
def _shadow(shape: Shape, strides: Shape, letter: str | np.dtype[Any]) -> Shadow:
    """A shadow of a dtype, given as `letter_of` tells them apart."""
    dtype: np.dtype[Any] = np.dtype(letter)
    if 0 in shape:
        return np.empty(shape, dtype)
    return array_at(_BASE, shape, strides, dtype)


def _kind(number: Any) -> Any:
    """The dtype of one of NumPy's numbers, the type of Python's: promotion asks for it."""
    return number.dtype if isinstance(number, np.generic) else type(number)


def enqueue_work(
    owner: Backend,
    stream: RawStream,
    name: str,
    arrays: Sequence[Array],
    infos: Sequence[ArrayInfo] | None,
    work: Callable[..., None],
    *args: Any,
) -> None:
    """Let ``work(*args, stream=stream)`` enqueue an operation on arrays, for a recording too.

    Args:
        owner: The part of the backend that has the stream's device.
        stream: The stream.
        name: The operation's name.
        arrays: All that it reads and writes; their memory outlasts it.
        infos: Their descriptions, if they are known.
        work: The function.
        args: Its arguments.
    """
    if (recorder := observe.active) is None:
        work(*args, stream=stream)
    else:
        described = [owner.view(each) for each in arrays] if infos is None else infos
        nbytes = sum(info.nbytes for info in described)
        repeated = functools.partial(work, *args, stream=stream)
        recorder.enqueue(observe.Kind.KERNEL, name, nbytes, owner, stream, repeated)
    if stream.handle or owner.has_made_streams:
        for each in arrays:  # one that was allocated on another stream must outlast the work on this one
            owner.note_use(each, stream)


class Primitives:
    """A backend whose arrays a namespace computes with.

    Args:
        backend: The backend.
        array_type: The exact type of the arrays that it makes; it may take others.
    """

    def __init__(self, backend: Backend, array_type: type) -> None:
        self.backend = backend
        self.array_type = array_type
        self._plans: dict[Hashable, Any] = {}

    def find_plan(self, how: Hashable, arrays: Sequence[Any], make: Callable[..., P | None]) -> P | None:
        """Find the plan for a function of arrays of these layouts; None where calls are not prepared.

        Args:
            how: The function, and all that its result depends on besides the arrays.
            arrays: Its arguments.
            make: Prepares, of the arrays; None for calls that have to be refused, or that copy first.
        """
        own, signature = self.array_type, self.backend.signature
        if any(type(each) is not own for each in arrays):
            return None
        key = (how, *map(signature, arrays))
        plans = self._plans
        try:
            found: P | None = plans[key]
        except TypeError:  # an argument that is no key, and to be refused
            return None
        except KeyError:
            if len(plans) >= _MOST_PLANS:
                plans.clear()
            found = plans[key] = make(*arrays)
        return found

    # --- arguments

    def is_array(self, value: Any) -> bool:
        """Whether a value is an array of this backend."""
        return type(value) is self.array_type or registry.owner_of(value) is self.backend

    def refuse_arrays(self, name: str, **numbers: Any) -> None:
        """Refuse arguments of function ``name`` that the host computes with, and that are on a device.

        Raises:
            ArgumentError: One is an array of this backend.
        """
        for what, given in numbers.items():
            if self.is_array(given):
                raise ArgumentError(
                    f"{name}: {what} is an array of {self.info(given).device}, and the host needs the number; give "
                    f"{what}=float(xferlib.to_host(x)), or int(...) for an integer"
                )

    def array(self, name: str, value: Any) -> Array:
        """An argument of function ``name`` as an array; numbers become arrays on the current device.

        Raises:
            MixedBackendsError: It is an array of another backend.
            UnsupportedArrayError: It is neither an array nor a number.
        """
        if type(value) is self.array_type:
            return value
        if is_scalar(value):
            return self.upload(np.asarray(value))
        owner = registry.owner_of(value)
        if owner is self.backend:
            return self.own(value)
        if owner is not None:
            raise registry.make_mixed_backends_error(name, ("one operand", self.backend), ("another", owner))
        if isinstance(value, np.generic):
            raise UnsupportedArrayError(
                f"{name}: devices have no dtype {value.dtype}; convert the number first, as with numpy.float64(x)"
            )
        raise UnsupportedArrayError(
            f"{name}: {type(value).__name__} is neither an array nor a number; make an array of it: "
            f"xferlib.to_device(x, backend={self.backend.name!r})"
        )

    def own(self, array: Array) -> Array:
        """``array``, of any type that the backend takes, as one of the type that it makes."""
        if type(array) is self.array_type:
            return array
        info = self.backend.view(array)
        return self.backend.strided_view(array, 0, info.shape, info.strides, info.dtype)

    def infos(self, name: str, arrays: Sequence[Array]) -> list[ArrayInfo]:
        """The descriptions of several arrays, all of one device.

        Raises:
            MixedDevicesError: There are two.
        """
        found = [self.info(each) for each in arrays]
        for each in found[1:]:
            if each.device is not found[0].device:
                raise registry.make_mixed_devices_error(
                    name, ("an argument", found[0].device), ("another", each.device)
                )
        return found

    # --- arrays

    def info(self, array: Array) -> ArrayInfo:
        return self.backend.view(array)

    def device(self, given: Any) -> Device:
        """A ``device=`` argument; the current device if it is None."""
        return self.backend.device_current() if given is None else registry.resolve(given, backend=self.backend)

    def empty(self, shape: Shape, dtype: np.dtype[Any], device: Device) -> Array:
        """A new array in C order, uninitialised, in the order of the current stream."""
        owner = self.backend.at(device)
        owner.attach(device)
        return owner.empty(shape, dtype, device=device, stream=owner.stream_current(device))

    def on_host(
        self, name: str, function: Callable[..., None], reads: Sequence[Array], writes: Sequence[Array]
    ) -> bool:
        """Enqueue a function of NumPy arrays over ``reads`` and ``writes``; False where only a kernel computes."""
        owner = self.backend.at(self.backend.view(writes[0]).device)
        return owner.compute_on_host(name, function, reads, writes)

    def refuse_device(self, name: str, device: Device) -> NoReturn:
        """Refuse a function that neither the host nor a kernel computes.

        Raises:
            UnsupportedError: Always.
        """
        raise UnsupportedError(
            f"{name}: there is no kernel for {device}, whose memory the host does not compute with; take it there: "
            f"numpy.{name}(xferlib.to_host(x))"
        )

    def products(self, device: Device) -> MatrixProducts | None:
        """The library that multiplies matrices on a device; None where there is none."""
        found: MatrixProducts | None = self.backend.at(device).products
        return found

    def function_library(self, device: Device) -> FunctionLibrary | None:
        """The library that has ``linalg`` and ``fft`` for a device's memory; None where there is none."""
        found: FunctionLibrary | None = self.backend.at(device).function_library
        return found

    def enqueue(
        self, name: str, arrays: Sequence[Array], run: Callable[..., None], infos: Sequence[ArrayInfo] | None = None
    ) -> None:
        """Let ``run(*descriptions, stream=stream)`` enqueue work on arrays of one device, on its current stream."""
        if infos is None:
            infos = [self.backend.view(each) for each in arrays]
        device = infos[0].device
        owner = self.backend.at(device)
        owner.attach(device)
        stream = owner.stream_current(device)
        enqueue_work(owner, stream, name, arrays, infos, run, *infos)

    def upload(self, host: Any, device: Any = None, dtype: Any = None) -> Array:
        """A new array with the values of a NumPy array."""
        return transfers.to_device(host, backend=self.backend.name, device=self.device(device), dtype=dtype)

    def shadow(self, array: Array) -> Shadow:
        """A NumPy array of the layout of ``array``, whose elements must not be read."""
        info = self.backend.view(array)
        return _shadow(info.shape, info.strides, letter_of(info.dtype))

    def view_as_shadow(self, array: Array, shadow: Shadow) -> Array:
        """The view of ``array`` that NumPy has made of its shadow."""
        offset = shadow.__array_interface__["data"][0] - _BASE if shadow.size else 0
        return self.backend.strided_view(array, offset, shadow.shape, shadow.strides, shadow.dtype)

    def copy(self, array: Array, dtype: np.dtype[Any] | None = None) -> Array:
        """A copy in C order, converted to ``dtype``."""
        info = self.backend.view(array)
        out = self.empty(info.shape, dtype or info.dtype, info.device)
        self.fill(out, array)
        return out

    def fill(self, target: Array, source: Any) -> None:
        """``target[...] = source``, an array of its shape, converted, or a number of its dtype."""
        if not self.is_array(source):
            _fill()(self.movable(source), self.movable(target))
        elif target.dtype == source.dtype:
            cast_into(self.movable(target), self.movable(source))
        else:
            cast_into(target, source)

    def movable(self, value: Any) -> Any:
        """An array or a NumPy number as kernels take it that move elements: its bytes if it only moves, else itself."""
        if not is_stored(value.dtype):
            return value
        if not self.is_array(value):
            return np.asarray(value).view(np.uint8)[()]
        info = self.info(value)
        return self.backend.strided_view(value, 0, info.shape, info.strides, np.dtype(np.uint8))


@functools.cache
def _fill() -> ElementwiseKernel:
    return elementwise("T v", "T y", "y = v;", name="fill")


class KernelPlan:
    """Calls of a kernel over an array of known layout, to new arrays.

    Args:
        lib: The library.
        info: The array's description.
        name: For recordings.
        kernel: The kernel.
        new: The shape and the dtype of each result.
    """

    def __init__(
        self, lib: Primitives, info: ArrayInfo, name: str, kernel: ArrayKernel | RadixSort,
        new: Sequence[tuple[Shape, np.dtype[Any]]],
    ) -> None:  # fmt: skip
        self._lib, self._info, self._name, self._kernel, self._new = lib, info, name, kernel, new
        self._backend = lib.backend.at(info.device)
        self._direct: Callable[..., Any] | None = None
        self._is_first = True

    def run(self, x: Array) -> Any:
        """The result, or a tuple of results, enqueued on the current stream."""
        if self._direct is not None and observe.active is None:
            found = self._direct((x,))
            if found is not NotImplemented:
                return found
        backend, device = self._backend, self._info.device
        if backend.operands([x])[0] % self._info.dtype.itemsize:  # as a field of records may lie; a GPU refuses that
            return self.run(self._lib.copy(x))
        backend.attach(device)
        stream = backend.stream_current(device)
        results = [backend.empty(shape, dtype, device=device, stream=stream) for shape, dtype in self._new]
        pointers = backend.operands([x, *results])
        enqueue_work(backend, stream, self._name, [x, *results], None, self._kernel.run, pointers)
        if not self._is_first and self._direct is None:  # the second call: the first one should not wait for this
            self._direct = self._kernel.repeat([(x, self._info.dtype)], pointers, self._new, stream)
        self._is_first = False
        return results[0] if len(results) == 1 else tuple(results)


def check_dtype_argument(dtype: Any) -> np.dtype[Any] | None:
    """A ``dtype=`` argument.

    Raises:
        UnsupportedDTypeError: No device holds it.
    """
    return None if dtype is None else arrays.check_dtype(dtype, what="dtype")


# Element-wise functions: each is one kernel, traced from NumPy's function of that name, with NumPy's dtypes.

Function = Callable[..., Array]


def _trace(text: str) -> Callable[..., Any]:
    """A function of this text: one that took NumPy's function from a variable would be asked for that at each call."""
    made: Callable[..., Any] = eval(text, {"np": np})  # noqa: S307 - ours
    return made


@functools.cache
def unary_kernel(name: str) -> ElementwiseKernel:
    """The kernel of the function of that name, of one argument."""
    return elementwise(_trace(f"lambda x: np.{name}(x)"), name=name)


@functools.cache
def binary_kernel(name: str) -> ElementwiseKernel:
    """The kernel of the function of that name, of two arguments."""
    return elementwise(_trace(f"lambda x1, x2: np.{name}(x1, x2)"), name=name)


@functools.cache
def _cast_kernel(name: str, dtype: np.dtype[Any]) -> ElementwiseKernel:
    """A binary kernel whose result is converted."""
    return elementwise(_trace(f"lambda x1, x2: np.{name}(x1, x2).astype(np.{dtype.name})"), name=name)


def set_name(name: str, function: Function, doc: str = "``{}`` of the Array API, element by element.") -> Function:
    """``function`` with the name and the docstring of a public one."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc.format(name)
    return function


def _pass_operands(function: Function) -> Function:
    """``function``, marked as one that passes its arguments on to one kernel, which their dtypes decide."""
    function.passes_operands = True  # type: ignore[attr-defined]
    return function


def unary(lib: Primitives, name: str) -> Function:
    """The function of that name, of one array."""
    kernel, own = unary_kernel(name), lib.array_type

    def operate(x: Any, /) -> Array:
        try:
            return kernel(x if type(x) is own else lib.array(name, x))
        except KernelTypeError as error:
            raise _refusal(lib, name, error, x) from None

    return _pass_operands(set_name(name, operate))


def binary(lib: Primitives, name: str) -> Function:
    """The function of that name, of two arrays or an array and a number, of Python or of NumPy."""
    kernel, own, is_logical = binary_kernel(name), lib.array_type, name.startswith("logical_")

    def operate(x1: Any, x2: Any, /) -> Array:
        if is_logical and int in (type(x1), type(x2)):
            np.int64(x1 if type(x1) is int else x2)  # NumPy has no greater integers there, though only the truth counts
        try:
            if type(x1) is own or type(x2) is own:
                return kernel(x1, x2)
            return kernel(*with_array(lib, name, (x1, x2)))
        except KernelTypeError as error:
            raise _refusal(lib, name, error, x1, x2) from None

    made = set_name(name, operate)
    return made if is_logical else _pass_operands(made)


_ORDERING = ("less", "less_equal", "greater", "greater_equal", "maximum", "minimum", "clip")


def refuse_complex(lib: Primitives, name: str, *operands: Any) -> None:
    """Refuse complex operands of a function of the order of numbers.

    Raises:
        KernelTypeError: There is one.
    """
    for each in operands:
        dtype = lib.info(each).dtype if lib.is_array(each) else np.asarray(each).dtype
        if dtype.kind == "c":
            raise KernelTypeError(
                f"{name}: complex numbers have no order ({dtype}); give xp.real(x), xp.imag(x) or xp.abs(x)"
            ) from None


def _refusal(lib: Primitives, name: str, error: KernelTypeError, *operands: Any) -> KernelTypeError:
    """The error of a kernel without the line of this file that was traced, and with the namespace's name."""
    if any(each is None for each in operands):
        lib.array(name, None)  # a kernel takes it for an operand that is left out
    if name in _ORDERING:
        refuse_complex(lib, name, *operands)
    said = str(error).partition("\n")[0]
    own = getattr(np, name).__name__
    said = said.removeprefix(f"{name}: ")  # as NumPy calls power, too
    return type(error)(name + said.removeprefix(own) if said.startswith(own) else f"{name}: {said}")


def with_array(lib: Primitives, name: str, operands: tuple[Any, ...]) -> list[Any]:
    """Operands of a function, with one of them converted if they are all numbers; others are refused."""
    found = [each if is_scalar(each) else lib.array(name, each) for each in operands]
    if all(map(is_scalar, found)):
        first = next((place for place, each in enumerate(found) if isinstance(each, np.generic)), 0)
        found[first] = lib.array(name, found[first])
    return found


# --- in place


@functools.cache
def _dtype_in_place(name: str, target: np.dtype[Any], other: np.dtype[Any] | type) -> np.dtype[Any]:
    """The dtype of the result that a function writes to its first operand.

    Raises:
        UnsupportedDTypeError: There is no such result, or it does not fit into the target.
    """
    found = find_result_dtype(name, target, other)
    check_holds(name, found, target)
    return found


def check_holds(name: str, found: np.dtype[Any], target: np.dtype[Any]) -> None:
    """Refuse to write a result into a dtype of a lower kind.

    Raises:
        UnsupportedDTypeError: NumPy does not, either.
    """
    if not np.can_cast(found, target, "same_kind"):
        raise UnsupportedDTypeError(f"{name} in place: {found} does not fit into {target}; write x = {name}(x, y)")


def in_place(lib: Primitives, name: str) -> Function:
    """``target = name(target, other)`` in place."""
    kernel = binary_kernel(name)

    def operate(x: Any, other: Any, /) -> Array:
        info = lib.info(x)
        kind: Any = (
            lib.info(lib.array(name, other)).dtype if not is_scalar(other) else getattr(other, "dtype", type(other))
        )
        found = _dtype_in_place(name, info.dtype, kind)
        chosen = kernel if found == info.dtype else _cast_kernel(name, info.dtype)
        try:
            chosen(x, other, out=x)
        except (KernelTypeError, KernelRangeError, LayoutError):
            if type(other) is int:
                number(other, found)  # NumPy's error, of one that the dtype does not hold
            if not info.is_writable:
                raise LayoutError(f"{name} in place: {READ_ONLY}") from None
            if is_scalar(other):
                raise
            _check_fits(name, info.shape, lib.info(other).shape)
            chosen(x, lib.copy(other), out=x)  # it may overlap the target in part
        return x

    return _pass_operands(set_name(name, operate))


def _check_fits(name: str, target: Shape, other: Shape) -> None:
    try:
        shape = np.broadcast_shapes(target, other)
    except ValueError:
        return  # the kernel says so
    if shape != target:
        raise LayoutError(
            f"{name} in place: the result of shape {shape} does not fit into shape {target}; write x = {name}(x, y)"
        )


# --- choosing


@elementwise(name="where")
def where_kernel(condition: Any, x1: Any, x2: Any) -> Any:
    return np.where(condition, x1, x2)


@elementwise(name="clip")
def _clip(x: Any, low: Any, high: Any) -> Any:
    return np.clip(x, low, high)


def _clip_limits(dtype: np.dtype[Any], least: Any, most: Any) -> tuple[Any, Any]:
    """Limits for `clip`: None where a Python integer is at or beyond the end of an integer dtype."""
    if dtype.kind not in "iu":
        return least, most
    limits = np.iinfo(dtype)
    return (
        None if type(least) is int and least <= limits.min else least,
        None if type(most) is int and most >= limits.max else most,
    )


def clip(
    lib: Primitives, x: Array, /, min: Any = None, max: Any = None, *, a_min: Any = None, a_max: Any = None  # noqa: A002
) -> Array:  # fmt: skip
    """Values limited to ``min .. max``, which NumPy also calls ``a_min`` and ``a_max``; None: no limit.

    A Python integer beyond the dtype's own limit is none.
    """
    min, max = min if a_min is None else a_min, max if a_max is None else a_max  # noqa: A001 - the standard's names
    if type(min) is int or type(max) is int:
        x = lib.array("clip", x)
        min, max = _clip_limits(lib.info(x).dtype, min, max)  # noqa: A001 - as above
    limits = [each for each in (min, max) if each is not None]
    if not limits:
        return lib.copy(lib.array("clip", x))
    x, *limits = with_array(lib, "clip", (x, *limits))
    common = promote(*(_kind(each) if is_scalar(each) else lib.info(each).dtype for each in (x, *limits)))
    limits = [number(each, common) if is_scalar(each) else each for each in limits]
    try:
        if len(limits) == 2:
            return _clip(x, *limits)
        return binary_kernel("maximum" if max is None else "minimum")(x, *limits)
    except KernelTypeError as error:
        raise _refusal(lib, "clip", error, x, *limits) from None


# The same elements in another shape: views of the same memory where strides allow.

Axes = int | tuple[int, ...]


def _view(lib: Primitives, name: str, x: Any, change: Callable[[Shadow], Shadow]) -> Array:
    """The view of an argument that NumPy makes of its shadow."""
    x = lib.array(name, x)
    shadow = lib.shadow(x)
    try:
        return lib.view_as_shadow(x, change(shadow))
    except np.exceptions.AxisError as error:
        raise LayoutIndexError(f"{name} of {shadow.shape}: {error}; choose other axes") from None
    except TypeError as error:
        raise LayoutTypeError(f"{name} of {shadow.shape}: {error}; give integers") from None
    except ValueError as error:
        raise LayoutError(f"{name} of {shadow.shape}: {error}; reshape the array, or choose other axes") from None


def permute_dims(lib: Primitives, x: Array, /, axes: tuple[int, ...]) -> Array:
    """The axes in another order."""
    return _view(lib, "permute_dims", x, lambda shadow: np.permute_dims(shadow, axes))


def matrix_transpose(lib: Primitives, x: Array, /) -> Array:
    """The last two axes exchanged."""
    return _view(lib, "matrix_transpose", x, np.matrix_transpose)


def expand_dims(lib: Primitives, x: Array, /, axis: Axes = 0) -> Array:
    """Insert an axis of one element."""
    return _view(lib, "expand_dims", x, lambda shadow: np.expand_dims(shadow, axis))


def squeeze(lib: Primitives, x: Array, /, axis: Axes) -> Array:
    """Remove axes of one element."""
    return _view(lib, "squeeze", x, lambda shadow: np.squeeze(shadow, axis))


def flip(lib: Primitives, x: Array, /, axis: Axes | None = None) -> Array:
    """Reverse the elements along axes."""
    x = lib.array("flip", x)
    shadow = lib.shadow(x)
    axes_of("flip", axis, shadow.ndim)
    return lib.view_as_shadow(x, np.flip(shadow, axis) if shadow.ndim else shadow)


def moveaxis(lib: Primitives, x: Array, source: Axes, destination: Axes, /) -> Array:
    """Move axes to other positions."""
    return _view(lib, "moveaxis", x, lambda shadow: np.moveaxis(shadow, source, destination))


def broadcast_to(lib: Primitives, x: Array, /, shape: Shape) -> Array:
    """Repeat the elements without a copy; the result cannot be written to."""
    return _view(lib, "broadcast_to", x, lambda shadow: np.broadcast_to(shadow, shape))


def broadcast_arrays(lib: Primitives, *arrays: Array) -> tuple[Array, ...]:
    """Views of one common shape."""
    given = [lib.array("broadcast_arrays", each) for each in arrays]
    shape = common_shape("broadcast_arrays", *(lib.info(each).shape for each in given))
    return tuple(broadcast_to(lib, each, shape) for each in given)


def reshape(lib: Primitives, x: Array, /, shape: Any, *, copy: bool | None = None) -> Array:
    """The elements in another shape: a view where strides allow.

    Raises:
        LayoutError: The shape has another number of elements; or ``copy=False``, and there is no such view.
    """
    x = lib.array("reshape", x)
    try:
        found = lib.view_as_shadow(x, np.reshape(lib.shadow(x), shape, copy=False))
    except ValueError as error:
        if copy is False:
            raise LayoutError(f"reshape: {error}; leave copy=False out") from None
    else:
        return lib.copy(found) if copy else found
    flat = lib.copy(x)
    try:
        return lib.view_as_shadow(flat, np.reshape(lib.shadow(flat), shape, copy=False))
    except ValueError as error:
        raise LayoutError(f"reshape: {error}; give a shape of as many elements") from None


def real(lib: Primitives, x: Array, /) -> Array:
    """The real parts: a view."""
    x = lib.array("real", x)
    return lib.view_as_shadow(x, lib.shadow(x).real)


def imag(lib: Primitives, x: Array, /) -> Array:
    """The imaginary parts: a view of complex numbers, else zeros."""
    x = lib.array("imag", x)
    shadow = lib.shadow(x)
    return lib.view_as_shadow(x, shadow.imag) if shadow.dtype.kind == "c" else unary_kernel("imag")(x)


def unstack(lib: Primitives, x: Array, /, *, axis: int = 0) -> tuple[Array, ...]:
    """Views of the slices along an axis."""
    x = lib.array("unstack", x)
    shadow = np.moveaxis(lib.shadow(x), axis_of("unstack", axis, len(lib.info(x).shape)), 0)
    return tuple(lib.view_as_shadow(x, shadow[index, ...]) for index in range(shadow.shape[0]))


def astype(lib: Primitives, x: Array, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Array:
    """Convert the elements to another dtype."""
    x = lib.array("astype", x)
    wanted, info = check_dtype(dtype, what="dtype"), lib.info(x)
    arrays.check_conversion(info.dtype, wanted)
    if device is not None and lib.device(device) is not info.device:
        return lib.upload(x, device, wanted)
    return lib.own(x) if wanted == info.dtype and not copy else lib.copy(x, wanted)


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The shape to which arrays of these shapes broadcast."""
    return common_shape("broadcast_shapes", *shapes)


def common_shape(name: str, *shapes: Shape) -> Shape:
    """The shape to which arrays of these shapes broadcast."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = ", ".join(map(str, shapes))
        raise LayoutError(f"{name}: shapes {listed} do not broadcast; reshape one of them") from None
