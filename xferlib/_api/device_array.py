"""An array of some backend, as type checkers and editors see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, Self


class DeviceArray(Protocol):  # noqa: PLW1641 - whether arrays have a hash depends on the library
    """The type of an array whose backend is chosen when the program runs: the members that all backends have.

    Name the backend, as in ``to_device(x, backend="torch")``, and type checkers know the library's own class instead.
    Everything beyond these members is in the namespace that `get_array_module` returns.

        def scaled(x: xl.DeviceArray) -> xl.DeviceArray:
            return (x - 1) / 2

    Methods take what the library's own take. NumPy, CuPy, PyTorch and simulated arrays have all of these members;
    the arrays of other libraries' backends may lack some.
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
    def device(self) -> Any:
        """The device, as the library has it; `device_of` gives xferlib's."""

    @property
    def T(self) -> Self:  # noqa: N802 - the Array API's name
        """The transpose of a matrix."""

    @property
    def sum(self) -> Callable[..., Any]:
        """The sum, of all elements or along an axis."""

    @property
    def prod(self) -> Callable[..., Any]:
        """The product."""

    @property
    def mean(self) -> Callable[..., Any]:
        """The mean."""

    @property
    def std(self) -> Callable[..., Any]:
        """The standard deviation, with each library's own correction."""

    @property
    def var(self) -> Callable[..., Any]:
        """The variance, with each library's own correction."""

    @property
    def min(self) -> Callable[..., Any]:
        """The least element."""

    @property
    def max(self) -> Callable[..., Any]:
        """The greatest element."""

    @property
    def argmin(self) -> Callable[..., Any]:
        """The index of the least element."""

    @property
    def argmax(self) -> Callable[..., Any]:
        """The index of the greatest element."""

    @property
    def any(self) -> Callable[..., Any]:
        """Whether an element is true."""

    @property
    def all(self) -> Callable[..., Any]:
        """Whether all elements are true."""

    @property
    def reshape(self) -> Callable[..., Any]:
        """The same elements in another shape."""

    @property
    def ravel(self) -> Callable[..., Any]:
        """The same elements along one axis."""

    @property
    def transpose(self) -> Callable[..., Any]:
        """The same elements with their axes in another order."""

    @property
    def view(self) -> Callable[..., Any]:
        """The same memory as another dtype."""

    @property
    def item(self) -> Callable[..., Any]:
        """The one element as a Python number; on an accelerator a copy, which a simulated array refuses."""

    @property
    def squeeze(self) -> Callable[..., Any]:
        """The same elements without axes of extent 1."""

    @property
    def dot(self) -> Callable[..., Any]:
        """The product with another vector."""

    def __len__(self) -> int: ...
    def __getitem__(self, key: Any, /) -> Any: ...
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
