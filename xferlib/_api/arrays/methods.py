"""The operators and methods of arrays; most call the function of the Array API that they correspond to."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isfunction
from types import ModuleType
from typing import Any, NoReturn

from xferlib._api import transfers
from xferlib._api.arrays import dlpack, elementwise, indexing, numpy_functions, operators, shaping
from xferlib._api.arrays.extensions import products
from xferlib._api.arrays.primitives import Primitives
from xferlib._core import namespaces
from xferlib._core.array import Array
from xferlib.errors import ArgumentError, LayoutError, LayoutTypeError, UnsupportedArrayError, shown

Method = Callable[..., Any]

_MADE = "_methods_of_namespace"
"""The attribute of a class that names what it was given: another backend's namespace replaces these."""


def install(
    lib: Primitives, namespace: ModuleType, refusal: type[Exception], around: Callable[[Method], Method]
) -> None:
    """Give the array type of a library its operators and methods, but for those that its class defines itself.

    Args:
        lib: The library.
        namespace: The functions that operators call.
        refusal, around: See `make_namespace`.
    """
    cls = lib.array_type
    found = {
        **operators.operators(namespace, lambda name: elementwise.in_place(lib, name)),
        **operators.reductions(namespace),
        **_shaping(lib, namespace),
        **_interfaces(lib, namespace),
        **_conversions(),
        **numpy_functions.interfaces(namespace, refusal),
    }
    inherited = {name for base in cls.__mro__[1:] for name in vars(base)}
    found |= {name: method for name, method in _others(lib, namespace).items() if name not in inherited}
    kept = vars(cls).keys() - vars(cls).get(_MADE, ())
    setattr(cls, _MADE, found.keys() - kept)
    for name, method in found.items():
        if name not in kept:
            is_own = isfunction(method) and not hasattr(method, "__wrapped__")  # and no function of the namespace
            made = namespaces.guarded(method, name) if is_own and not name.startswith("__") else method
            setattr(cls, name, around(made) if is_own else made)


def _shaping(lib: Primitives, namespace: Any) -> dict[str, Any]:
    """Views and copies, as methods and properties."""

    def astype(self: Array, dtype: Any, *, copy: bool = True) -> Array:
        """The elements as another dtype."""
        return shaping.astype(lib, self, dtype, copy=copy)

    def reshape(self: Array, *shape: Any, order: str = "C") -> Array:
        """The elements in another shape, given as one tuple or as numbers: a view where strides allow.

        ``order="F"``: the elements are taken, and placed, with the first axis running fastest.
        """
        if not shape:
            raise LayoutTypeError("reshape: there is no shape; give one, such as x.reshape(-1) for one axis")
        wanted = shape[0] if len(shape) == 1 else shape
        if order == "C":
            return shaping.reshape(lib, self, wanted)
        if order != "F":
            raise ArgumentError(f"reshape: order={shown(order)} is neither 'C' nor 'F'")
        backwards = wanted[::-1] if isinstance(wanted, (tuple, list)) else wanted
        found = shaping.reshape(lib, _transposed(lib, self), backwards)
        return _transposed(lib, found)

    def ravel(self: Array, order: str = "C") -> Array:
        """The elements along one axis, in C or Fortran order: a view where strides allow."""
        return reshape(self, -1, order=order)

    def copy(self: Array) -> Array:
        """A copy of the elements, in C order."""
        return lib.copy(self)

    def transpose(self: Array, *axes: Any) -> Array:
        """A view with the axes in that order, given as one tuple or as numbers; reversed if none is given."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return shaping.permute_dims(lib, self, tuple(order)) if order else _transposed(lib, self)

    def squeeze(self: Array, axis: Any = None) -> Array:
        """A view without axes of one element: those given, or all."""
        shape = lib.info(self).shape
        return shaping.squeeze(
            lib, self, tuple(n for n in range(len(shape)) if shape[n] == 1) if axis is None else axis
        )

    def conj(self: Array) -> Array:
        """The complex conjugates."""
        return namespace.conj(self)

    def dot(self: Array, other: Array) -> Array:
        """The dot product over the last axis of this array and the last but one, or the only one, of the other."""
        return products.dot(lib, self, other)

    properties = {
        "T": property(lambda self: _transposed(lib, self), doc="A view with the axes reversed."),
        "mT": property(
            lambda self: shaping.matrix_transpose(lib, self), doc="A view with the last two axes exchanged."
        ),
        "real": property(lambda self: shaping.real(lib, self), doc="A view of the real parts."),
        "imag": property(lambda self: shaping.imag(lib, self), doc="The imaginary parts."),
    }
    methods = (astype, reshape, ravel, copy, transpose, squeeze, conj, dot)
    return {each.__name__: each for each in methods} | {"conjugate": conj} | properties


def _others(lib: Primitives, namespace: Any) -> dict[str, Any]:
    """NumPy's methods and properties that are functions of the namespace; a library's own by these names stay."""

    def argsort(self: Array, axis: int = -1) -> Array:
        """The indices that sort the elements along an axis."""
        return namespace.argsort(self, axis=axis)

    def clip(self: Array, min: Any = None, max: Any = None) -> Array:  # noqa: A002 - NumPy's names
        """The elements limited to ``min .. max``; None: no limit."""
        return namespace.clip(self, min, max)

    def cumprod(self: Array, axis: int | None = None, dtype: Any = None) -> Array:
        """The products so far along an axis; None: of all elements in C order."""
        flat, along = _along(lib, self, axis)
        return namespace.cumulative_prod(flat, axis=along, dtype=dtype)

    def cumsum(self: Array, axis: int | None = None, dtype: Any = None) -> Array:
        """The sums so far along an axis; None: of all elements in C order."""
        flat, along = _along(lib, self, axis)
        return namespace.cumulative_sum(flat, axis=along, dtype=dtype)

    def fill(self: Array, value: Any) -> None:
        """Set every element."""
        indexing.put(lib, self, ..., value)

    def flatten(self: Array) -> Array:
        """A copy of the elements along one axis, in C order."""
        return shaping.reshape(lib, lib.copy(self), -1)

    def nonzero(self: Array) -> tuple[Array, ...]:
        """The indices of the elements that are not 0, one array for each axis."""
        found: tuple[Array, ...] = namespace.nonzero(self)
        return found

    def repeat(self: Array, repeats: Any, axis: int | None = None) -> Array:
        """Each element several times, along an axis; None: of all elements in C order."""
        return namespace.repeat(self, repeats, axis=axis)

    def round(self: Array, decimals: int = 0) -> Array:  # noqa: A001 - NumPy's name
        """The nearest integers, ties to even, in the same dtype."""
        if decimals != 0:
            raise ArgumentError(f"round: decimals={shown(decimals)}; only 0 is known: scale x before and after it")
        return namespace.round(self)

    def swapaxes(self: Array, axis1: int, axis2: int) -> Array:
        """A view with two axes exchanged."""
        return lib.viewed(self, lib.shadow(self).swapaxes(axis1, axis2))

    def take(self: Array, indices: Any, axis: int | None = None) -> Array:
        """Parts along an axis, by their indices; None: of all elements in C order."""
        flat, along = _along(lib, self, axis)
        return namespace.take(flat, indices, axis=along)

    properties = {
        "itemsize": property(lambda self: lib.info(self).dtype.itemsize, doc="The bytes of one element."),
        "nbytes": property(lambda self: lib.info(self).nbytes, doc="The bytes of all elements."),
    }
    methods = (argsort, clip, cumprod, cumsum, fill, flatten, nonzero, repeat, round, swapaxes, take)
    return {each.__name__: each for each in methods} | properties


def _along(lib: Primitives, x: Array, axis: int | None) -> tuple[Array, int]:
    """An array and an axis of it: of the elements in C order if ``axis`` is None."""
    return (shaping.reshape(lib, x, -1), 0) if axis is None else (x, axis)


def _transposed(lib: Primitives, x: Array) -> Array:
    return shaping.permute_dims(lib, x, (*reversed(range(len(lib.info(x).shape))),))


def _interfaces(lib: Primitives, namespace: ModuleType) -> dict[str, Any]:
    """Indexing, and what the Array API asks of an array."""

    def getitem(self: Array, key: Any, /) -> Array:
        return indexing.get(lib, self, key)

    def setitem(self: Array, key: Any, value: Any, /) -> None:
        indexing.put(lib, self, key, value)

    def imatmul(self: Array, other: Any, /) -> Array:
        found = products.matmul(lib, self, other)
        elementwise.check_holds("matmul", lib.info(found).dtype, lib.info(self).dtype)
        indexing.put(lib, self, ..., found)
        return self

    def array_namespace(_: Array, *, api_version: str | None = None) -> ModuleType:  # noqa: ARG001 - there is one
        return namespace

    def to_device(self: Array, device: Any, /, *, stream: Any = None) -> Array:
        """The array on another device; itself where it is there."""
        return transfers.to_device(self, device=device, stream=stream, copy=None)

    def to_dlpack(
        self: Array, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        return dlpack.capsule(lib, self, stream, max_version, dl_device, copy)

    def length(self: Array) -> int:
        shape = lib.info(self).shape
        if not shape:
            raise TypeError("an array without axes has no length")
        return shape[0]

    return {
        "__getitem__": getitem, "__setitem__": setitem, "__imatmul__": imatmul, "__len__": length,
        "__array_namespace__": array_namespace, "to_device": to_device,
        "__dlpack__": to_dlpack, "__dlpack_device__": lambda self: dlpack.device(lib, self),
        "device": property(lambda self: lib.info(self).device, doc="The device that holds the array."),
        "ndim": property(lambda self: len(lib.info(self).shape), doc="The number of axes."),
        "size": property(lambda self: lib.info(self).size, doc="The number of elements."),
    }  # fmt: skip


def _conversions() -> dict[str, Method]:
    """Python numbers from an array of one element: each waits for the work on the current stream."""

    def item(self: Array) -> Any:
        """The one element as a Python number."""
        return _element(self, "x.item()").item()

    def tolist(self: Array) -> Any:
        """The elements as nested lists of Python numbers."""
        return transfers.to_host(self).tolist()

    def index(self: Array) -> int:
        return _element(self, "using x as an index")[()].__index__()  # type: ignore[no-any-return]

    def array(*_: Any, **__: Any) -> NoReturn:
        raise UnsupportedArrayError(
            "converting an array of a device to a NumPy array would copy it to the host; say so: xferlib.to_host(x)"
        )

    return {
        "item": item, "tolist": tolist, "__index__": index, "__array__": array,
        "__bool__": lambda self: bool(_element(self, "bool(x), as in `if x:`")),
        "__float__": lambda self: float(_element(self, "float(x)")[()]),
        "__int__": lambda self: int(_element(self, "int(x)")[()]),
        "__complex__": lambda self: complex(_element(self, "complex(x)")[()]),
    }  # fmt: skip


def _element(x: Array, what: str) -> Any:
    """The one element of an array, as a NumPy array without axes."""
    host = transfers.to_host(x)
    if host.size != 1:
        raise LayoutError(f"{what} needs one element, and the shape is {host.shape}; index it, or use xp.all or xp.any")
    return host.reshape(())
