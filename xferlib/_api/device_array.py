"""An array of some backend, as type checkers and editors see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np

from xferlib._core import registry


def is_array(x: Any) -> bool:
    """Whether ``x`` is an array of some backend: not a list, a number, one of NumPy's included, or a transfer.

    Example::

        def total(x):
            return xl.get_array_module(x).sum(x) if xl.is_array(x) else sum(x)
    """
    return _is_array_type(type(x))


def _is_array_type(cls: type) -> bool:
    return registry.is_array_type(cls) and not issubclass(cls, np.generic)


if TYPE_CHECKING:
    _Arrays = type
else:

    class _Arrays(type(Protocol)):
        """Asks the backends: a class belongs to one by its name, while members are shared by other classes as well."""

        def __instancecheck__(cls, x: Any) -> bool:
            return _is_array_type(type(x))

        def __subclasscheck__(cls, other: type) -> bool:
            return _is_array_type(other)


@runtime_checkable
class DeviceArray(Protocol, metaclass=_Arrays):  # noqa: PLW1641 - whether arrays have a hash depends on the library
    """The type of an array whose backend is chosen when the program runs: the members that all backends have.

    Name the backend, as in ``to_device(x, backend="torch")``, and type checkers know the library's own class instead.
    Everything beyond these members is in the namespace that `get_array_module` returns. `is_array` is what
    ``isinstance(x, xl.DeviceArray)`` answers.

        def scaled(x: xl.DeviceArray) -> xl.DeviceArray:
            return (x - 1) / 2

    NumPy, CuPy, PyTorch and simulated arrays have all of these members, and give the same; the arrays of other
    libraries' backends may lack some. What differs, and what portable mode refuses, is not here: of PyTorch's arrays
    ``max`` along an axis gives two, ``std`` divides by one less, ``sum`` of unsigned integers is int64, ``mean`` takes
    no integers, ``argmax`` no bool, ``view`` takes a shape, ``transpose`` two axes. The namespace's ``max``, ``std``,
    ``sum``, ``reshape`` and so on are the same for all.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""

    @property
    def dtype(self) -> Any:
        """The type of the elements, as the library has it."""

    @property
    def ndim(self) -> int:
        """The number of axes."""

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""

    @property
    def device(self) -> Any:
        """The device, as the library has it; `device_of` gives xferlib's."""

    @property
    def T(self) -> Self:  # noqa: N802 - the Array API's name
        """The transpose of a matrix."""

    @property
    def mT(self) -> Self:  # noqa: N802 - the Array API's name
        """The transpose of each matrix of a stack."""

    def __len__(self) -> int: ...
    def __getitem__(self, key: Any, /) -> DeviceArray: ...
    def __setitem__(self, key: Any, value: Any, /) -> None: ...
    def __neg__(self) -> DeviceArray: ...
    def __pos__(self) -> DeviceArray: ...
    def __abs__(self) -> DeviceArray: ...
    def __add__(self, other: Any, /) -> DeviceArray: ...
    def __sub__(self, other: Any, /) -> DeviceArray: ...
    def __mul__(self, other: Any, /) -> DeviceArray: ...
    def __truediv__(self, other: Any, /) -> DeviceArray: ...
    def __floordiv__(self, other: Any, /) -> DeviceArray: ...
    def __mod__(self, other: Any, /) -> DeviceArray: ...
    def __pow__(self, other: Any, /) -> DeviceArray: ...
    def __matmul__(self, other: Any, /) -> DeviceArray: ...
    def __and__(self, other: Any, /) -> Any: ...
    def __or__(self, other: Any, /) -> Any: ...
    def __xor__(self, other: Any, /) -> Any: ...
    def __lshift__(self, other: Any, /) -> Any: ...
    def __rshift__(self, other: Any, /) -> Any: ...
    def __radd__(self, other: Any, /) -> DeviceArray: ...
    def __rsub__(self, other: Any, /) -> DeviceArray: ...
    def __rmul__(self, other: Any, /) -> DeviceArray: ...
    def __rtruediv__(self, other: Any, /) -> DeviceArray: ...
    def __rfloordiv__(self, other: Any, /) -> DeviceArray: ...
    def __rmod__(self, other: Any, /) -> DeviceArray: ...
    def __rpow__(self, other: Any, /) -> DeviceArray: ...
    def __rmatmul__(self, other: Any, /) -> DeviceArray: ...
    def __rand__(self, other: Any, /) -> Any: ...
    def __ror__(self, other: Any, /) -> Any: ...
    def __rxor__(self, other: Any, /) -> Any: ...
    def __rlshift__(self, other: Any, /) -> Any: ...
    def __rrshift__(self, other: Any, /) -> Any: ...
    def __lt__(self, other: Any, /) -> Any: ...
    def __le__(self, other: Any, /) -> Any: ...
    def __gt__(self, other: Any, /) -> Any: ...
    def __ge__(self, other: Any, /) -> Any: ...
    def __eq__(self, other: object, /) -> Any: ...
    def __ne__(self, other: object, /) -> Any: ...
