"""PyCUDA's array with NumPy's operators: what xferlib makes where PyCUDA's arrays are asked for.

PyCUDA's own operators neither broadcast nor promote, take two C- and F-ordered arrays in the order of their memory,
divide integers to integers, and run on the default stream. Every function of PyCUDA takes this array, which is a
``GPUArray``; its operators and methods are functions of xferlib's namespace, and run on the current stream.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from pycuda.gpuarray import GPUArray

from xferlib._core import registry
from xferlib._core.array import BINARY_OPERATORS, COMPARISONS, UNARY_OPERATORS

_REDUCTIONS = ("all", "any", "argmax", "argmin", "max", "mean", "min", "prod", "std", "sum", "var")


def _namespace() -> ModuleType:
    return registry.own_namespace("pycuda")


class PycudaArray(GPUArray):  # type: ignore[misc]
    """A ``GPUArray`` with the Array API's attributes and operators; indexing gives views, as in NumPy."""

    __array_ufunc__ = None  # the operators of NumPy's scalars leave the work to these
    __hash__ = GPUArray.__hash__

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        return _namespace()

    @property
    def device(self) -> Any:
        """The device, as xferlib names it."""
        return registry.get("pycuda").device_of(self)

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        """The array on a device: itself, or a copy."""
        return _namespace().asarray(self, device=device)

    @property
    def T(self) -> PycudaArray:  # noqa: N802 - the Array API's name
        """A view with the axes in reverse order."""
        return self.transpose()

    @property
    def mT(self) -> PycudaArray:  # noqa: N802 - the Array API's name
        """A view with the last two axes exchanged."""
        found: PycudaArray = _namespace().matrix_transpose(self)
        return found

    def transpose(self, *axes: Any) -> PycudaArray:
        """A view with the axes in that order; reversed if none is given."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        found: PycudaArray = _namespace().permute_dims(self, order or tuple(reversed(range(self.ndim))))
        return found

    def reshape(self, *shape: Any, order: str = "C") -> PycudaArray:
        """The elements in another shape, given as one tuple or as numbers: a view where strides allow."""
        wanted = shape[0] if len(shape) == 1 else shape
        if order == "F":  # the C order of the transposed array
            extents = (wanted,) if isinstance(wanted, int) else tuple(wanted)
            return self.T.reshape(extents[::-1]).T
        found: PycudaArray = _namespace().reshape(self, wanted)
        return found

    def ravel(self, order: str = "C") -> PycudaArray:
        """The elements along one axis: a view where strides allow."""
        return self.reshape(-1, order=order)

    def astype(self, dtype: Any, stream: Any = None, *, copy: bool = True) -> PycudaArray:
        """The elements as another dtype."""
        found: PycudaArray = _namespace().astype(self, dtype, copy=copy)
        return found

    def get(
        self, ary: Any = None, pagelocked: bool = False, async_: bool = False, stream: Any = None, **options: Any
    ) -> Any:
        """The array on the host, as PyCUDA's own arrays give it; behind the work of xferlib's current stream."""
        source = self if self.flags.forc else self.copy()
        if stream is None:
            backend = registry.get("pycuda")
            backend.stream_synchronize(backend.stream_current(backend.device_of(self)))
        return GPUArray.get(source, ary, pagelocked, async_, stream, **options)

    def copy(self) -> PycudaArray:
        """A copy in C order."""
        return self.astype(self.dtype)

    def dot(self, other: Any) -> PycudaArray:
        """The product with another array, as of ``numpy.dot``."""
        axes = ((-1,), (max(-2, -other.ndim),))
        found: PycudaArray = _namespace().tensordot(self, other, axes=axes)
        return found

    def item(self) -> Any:
        """The only element, as a Python number; waits for it."""
        if self.size != 1:
            raise ValueError(f"item: an array of {self.size} elements is no number; index one of them")
        return _namespace().reshape(self, (1,)).get()[0].item()

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        if self.dtype.kind not in "iu" or self.shape:
            raise TypeError("only an integer array without axes is an index")
        return int(self.item())

    def __getitem__(self, key: Any) -> PycudaArray:
        found: PycudaArray = _namespace().get_item(self, key)
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        _namespace().set_item(self, key, value)

    def __imatmul__(self, other: Any) -> PycudaArray:
        self[...] = self @ other
        return self


def _function(name: str) -> Callable[..., Any]:
    def operate(self: Any, *other: Any) -> Any:
        return getattr(_namespace(), name)(self, *other)

    return operate


def _swapped(name: str) -> Callable[..., Any]:
    return lambda self, other: getattr(_namespace(), name)(other, self)


def _in_place(name: str) -> Callable[..., Any]:
    def operate(self: Any, other: Any) -> Any:
        return _namespace().in_place(name)(self, other)

    return operate


def _reduction(name: str) -> Callable[..., Any]:
    def reduce(self: Any, axis: Any = None, **options: Any) -> Any:
        return getattr(_namespace(), name)(self, axis=axis, **options)

    return reduce


def _install() -> None:
    for operator, name in {**UNARY_OPERATORS, **BINARY_OPERATORS, **COMPARISONS, "matmul": "matmul"}.items():
        setattr(PycudaArray, f"__{operator}__", _function(name))
        if operator not in UNARY_OPERATORS and operator not in COMPARISONS:
            setattr(PycudaArray, f"__r{operator}__", _swapped(name))
    for operator, name in BINARY_OPERATORS.items():
        setattr(PycudaArray, f"__i{operator}__", _in_place(name))
    for name in _REDUCTIONS:
        method = _reduction(name)
        method.__name__ = method.__qualname__ = name
        method.__doc__ = f"``{name}`` of the namespace, over ``axis``; options as there."
        setattr(PycudaArray, name, method)


_install()
