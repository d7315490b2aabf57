"""Arrays of the simulated devices: every access to their values is an operation or an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from xferlib._core.array import ArrayInfo, check_dtype, viewed
from xferlib.errors import shown
from xferlib.sim.arrays.declared import Declared
from xferlib.sim.detect.reports import SimError
from xferlib.sim.model import blocks
from xferlib.sim.model.blocks import Spans

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from xferlib._core.device import Device
    from xferlib.sim.machine.lifetimes import Allocation, LentAllocation

HostArray = np.ndarray[Any, Any]

_INTERNAL = frozenset({"allocation", "info", "memory", "spans"})
"""Attributes for the simulator's own files, which completion leaves out."""


class ImplicitCopyError(SimError, TypeError):
    """A call would have copied device data to the host implicitly."""

    __module__ = "xferlib.sim"  # tracebacks show the name that a program can use


class SimArray(Declared):
    """An array on a simulated device, with the Array API's attributes and operators.

    Made by `xferlib.to_device`, `xferlib.empty` and the functions of its namespace.
    """

    __module__ = "xferlib.sim"  # the name that a program can use

    __slots__ = ("__weakref__", "_memory", "_spans", "allocation", "info")

    _namespace: ClassVar[ModuleType]
    """The functions on arrays, set by `xferlib.sim.arrays.operators` when the backend is loaded."""

    def __init__(self, allocation: Allocation | LentAllocation, info: ArrayInfo, spans: Spans | None = None) -> None:
        self.allocation = allocation
        self.info = info
        self._memory: HostArray | None = None
        self._spans = spans

    # --- what it is

    @property
    def shape(self) -> tuple[int, ...]:
        return self.info.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.info.dtype

    @property
    def device(self) -> Device:
        return self.info.device

    @property
    def strides(self) -> tuple[int, ...]:
        return self.info.strides

    @property
    def ndim(self) -> int:
        return len(self.info.shape)

    @property
    def size(self) -> int:
        return self.info.size

    @property
    def nbytes(self) -> int:
        return self.info.nbytes

    def view(self, dtype: Any = None) -> SimArray:
        """The same memory as another dtype; the last axis grows or shrinks where the sizes differ.

        Raises:
            LayoutError: The last axis has gaps, or its bytes are no multiple of the new size.
        """
        kind = self.dtype if dtype is None else check_dtype(dtype, what="view")
        shape, strides = viewed(self.info, kind)
        return SimArray(self.allocation, self.info._replace(shape=shape, strides=strides, dtype=kind))

    def __len__(self) -> int:
        if not self.info.shape:
            raise TypeError("an array without axes has no length")
        return self.info.shape[0]

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in _INTERNAL]

    def __repr__(self) -> str:
        return f"<SimArray {self.shape} {self.dtype} on {self.device}; xferlib.to_host(x) shows its values>"

    def memory(self) -> HostArray:
        """The simulated device's memory, for operations to run on; the program must not read it."""
        found = self._memory
        if found is None:
            info, block = self.info, self.allocation.block
            found = np.ndarray(info.shape, info.dtype, block.data, info.pointer - block.pointer, info.strides)
            self._memory = found
        return found

    def spans(self) -> Spans:
        """The spans that the array occupies."""
        found = self._spans
        if found is None:
            found = self._spans = blocks.spans(self.info, self.allocation.block)
        return found

    # --- interfaces

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        return self._namespace

    def to_device(self, device: Any, /, *, stream: Any = None) -> SimArray:
        from xferlib._api import transfers

        moved: SimArray = transfers.to_device(self, device=device, stream=stream, copy=None)
        return moved

    def __dlpack_device__(self) -> tuple[int, int]:
        return (12, self.device.index)  # kDLExtDev: a type that no other library uses

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        if dl_device is not None:
            from xferlib._api.arrays import dlpack

            return dlpack.host_capsule(self, stream, max_version, dl_device, copy)
        raise BufferError(f"memory of {self.device} cannot be shared with another library; move it: xferlib.to_host(x)")

    # --- implicit copies to the host, refused

    def _refuse(self, what: str, instead: str) -> NoReturn:
        raise ImplicitCopyError(
            f"{what} would copy {self.nbytes} bytes from {self.device} to the host, and wait for them; "
            f"say so: {instead}"
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        self._refuse("converting to a NumPy array", "xferlib.to_host(x)")

    def item(self, *index: Any) -> NoReturn:
        """Refused: it would copy to the host."""
        self._refuse("x.item()", f"xferlib.to_host(x).item({', '.join(map(shown, index))})")

    def tolist(self) -> NoReturn:
        """Refused: it would copy to the host."""
        self._refuse("x.tolist()", "xferlib.to_host(x).tolist()")

    def __float__(self) -> float:
        self._refuse("float(x)", "float(xferlib.to_host(x))")

    def __int__(self) -> int:
        self._refuse("int(x)", "int(xferlib.to_host(x))")

    def __complex__(self) -> complex:
        self._refuse("complex(x)", "complex(xferlib.to_host(x))")

    def __bool__(self) -> bool:  # noqa: PLE0304 - it raises
        self._refuse("bool(x), as in `if x:`", "bool(xferlib.to_host(x))")

    def __index__(self) -> int:  # noqa: PLE0305 - it raises
        self._refuse("using x as an index", "int(xferlib.to_host(x))")

    def __iter__(self) -> Iterator[SimArray]:
        """The parts along the first axis, each a view on the device, as in CuPy and torch."""
        return map(self.__getitem__, range(len(self)))

    def __contains__(self, value: object) -> bool:
        self._refuse("`value in x`", "value in xferlib.to_host(x)")

    def __format__(self, form: str) -> str:
        if form:
            self._refuse(f"writing x in the form {form!r}", f"format(xferlib.to_host(x), {form!r})")
        return str(self)

    def __copy__(self) -> SimArray:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> SimArray:
        return self.copy()

    def __reduce__(self) -> NoReturn:
        self._refuse("pickling x", "pickle xferlib.to_host(x)")

    # --- operators and methods, which the maker of the namespace sets

    if TYPE_CHECKING:
        T: SimArray
        mT: SimArray  # noqa: N815 - the Array API's name

        def __getitem__(self, key: Any) -> SimArray: ...

        def __setitem__(self, key: Any, value: Any) -> None: ...

        def transpose(self, *axes: Any) -> SimArray: ...

        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> SimArray: ...

        def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> NoReturn: ...

    __hash__ = None  # type: ignore[assignment]  # == compares element by element
