"""Arrays of the simulated devices and their Array-API namespace."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

import numpy as np

from xferlib._core.arrays import ArrayInfo, c_strides, check_dtype, view_as_dtype
from xferlib._core.device import Device
from xferlib.errors import quote
from xferlib.kernels.plans import Plans
from xferlib.sim import machine, model
from xferlib.sim.memory import Span, Spans, find_extent
from xferlib.sim.model import SimStream

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from xferlib.sim.machine import Allocation, LentAllocation


# The operators and methods of simulated arrays for type checkers; the maker of the namespace sets the real ones.

if TYPE_CHECKING:

    class Declared:  # noqa: PLW1641 - SimArray, which inherits this, has no hash
        """The members that are set when the backend is loaded."""

        def _binary(self, other: Any, /) -> Self: ...
        def _unary(self) -> Self: ...
        def _reduction(self, axis: Any = None, **options: Any) -> Self: ...

        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _binary
        __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __matmul__ = __rmatmul__ = _binary
        __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = dot = _binary
        __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __lt__ = __le__ = __gt__ = __ge__ = _binary
        __neg__ = __pos__ = __abs__ = __invert__ = copy = conj = conjugate = _unary
        all = any = argmax = argmin = max = mean = min = prod = std = sum = var = _reduction

        def __eq__(self, other: object, /) -> Any: ...
        def __ne__(self, other: object, /) -> Any: ...
        def astype(self, dtype: Any, *, copy: bool = True) -> Self: ...
        def reshape(self, *shape: Any, order: str = "C") -> Self: ...
        def ravel(self, order: str = "C") -> Self: ...
        def squeeze(self, axis: Any = None) -> Self: ...

        @property
        def real(self) -> Self: ...

        @property
        def imag(self) -> Self: ...
else:
    Declared = object


# Arrays of the simulated devices: every access to their values is an operation or an error.

HostArray = np.ndarray[Any, Any]

_INTERNAL = frozenset({"allocation", "info", "kind", "memory", "spans"})
"""Attributes for the simulator's own files, which completion leaves out."""


# All of an array that the preparation of a call depends on, as one object: comparing tuples takes ten times as long.


class ArrayKind:
    """The shape, strides, dtype, device and writability of arrays: the same object for the same ones."""

    __slots__ = ("dtype", "facts", "form", "shape", "start", "stop", "strides")

    def __init__(self, facts: tuple[Any, ...]) -> None:
        self.facts = facts
        """Those of `ArrayInfo` behind the pointer."""
        self.shape: tuple[int, ...] = facts[0]
        self.strides: tuple[int, ...] = facts[1]
        self.dtype: np.dtype[Any] = facts[2]
        nothing: tuple[int, int, model.Form] = (0, 0, None)
        extent = nothing if 0 in self.shape else find_extent(self.shape, self.strides, self.dtype.itemsize)
        self.start, self.stop, self.form = extent
        """The bytes that an array at address 0 would occupy, as of a span."""

    def with_form(self, form: model.Form) -> ArrayKind:
        """One of its own that occupies other bytes between the same ends."""
        made = object.__new__(ArrayKind)
        made.facts, made.shape, made.strides, made.dtype = self.facts, self.shape, self.strides, self.dtype
        made.start, made.stop, made.form = self.start, self.stop, form
        return made


_kinds: Plans[ArrayKind] = Plans(4096)
"""By the facts, and NumPy's letter for the dtype, which tells long from long long: they are equal.

An array keeps its own: where it is dropped here it is not found again, and no other is taken for it.
"""


def find_kind(facts: tuple[Any, ...]) -> ArrayKind:
    """The object for the facts of an `ArrayInfo` behind its pointer."""
    key = (*facts, facts[2].char)
    found = _kinds.get(key)
    if found is None:
        found = ArrayKind(facts)
        _kinds.keep(key, found)
    return found


def kind_of(array: SimArray) -> ArrayKind:
    """The object that stands for all of an array but its address."""
    found = array.kind
    if found is None:
        found = array.kind = find_kind(array.info[1:])
    return found


class SimArray(Declared):
    """An array on a simulated device, with the Array API's attributes and operators.

    Made by `xferlib.to_device`, `xferlib.empty` and the functions of its namespace.
    """

    __module__ = "xferlib.sim"  # the name that a program can use

    __slots__ = ("__weakref__", "_info", "_memory", "_offset", "_spans", "_uses_whole", "allocation", "kind")

    _namespace: ClassVar[ModuleType]
    """The functions on arrays, which `xferlib.sim.backend` sets when it is loaded."""

    def __init__(
        self, allocation: Allocation | LentAllocation, info: ArrayInfo | None, kind: ArrayKind | None = None,
        memory: HostArray | None = None, offset: int | None = None,
    ) -> None:  # fmt: skip
        self.allocation = allocation
        self._info = info
        self.kind = kind
        """Stands for all but the address, as `kind_of` gives it; without ``info`` and ``offset`` of the whole block."""
        self._memory = memory
        self._offset = offset
        self._spans: Spans | None = None
        self._uses_whole = True if info is None and offset is None else None

    # --- what it is

    @property
    def info(self) -> ArrayInfo:
        found = self._info
        if found is None:
            assert self.kind is not None
            found = self._info = ArrayInfo(self.allocation.block.pointer + self.offset, *self.kind.facts)
        return found

    @property
    def offset(self) -> int:
        """Where its first element lies in its block."""
        found = self._offset
        if found is None:
            info = self._info
            found = self._offset = 0 if info is None else info.pointer - self.allocation.block.pointer
        return found

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.kind or kind_of(self)).shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return (self.kind or kind_of(self)).dtype

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
        shape, strides = view_as_dtype(self.info, kind)
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
            kind, block = self.kind or kind_of(self), self.allocation.block
            found = np.ndarray(kind.shape, kind.dtype, block.data, self.offset, kind.strides)
            self._memory = found
        return found

    def spans(self) -> Spans:
        """The spans that the array occupies."""
        found = self._spans
        if found is None:
            kind, offset = self.kind or kind_of(self), self.offset
            start, stop = offset + kind.start, offset + kind.stop
            found = self._spans = (Span(self.allocation.block, start, stop, kind.form),) if start < stop else ()
        return found

    def is_whole(self) -> bool:
        """Whether it occupies all bytes of its block."""
        found = self._uses_whole
        if found is None:
            kind = self.kind or kind_of(self)
            nbytes = kind.stop - kind.start
            found = self._uses_whole = nbytes > 0 and kind.form is None and nbytes >= self.allocation.block.nbytes
        return found

    # --- interfaces

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        return self._namespace

    def to_device(self, device: Any, /, *, stream: Any = None) -> SimArray:
        """Return the array on a device: itself where it lies there."""
        from xferlib._api import transfers

        moved: SimArray = transfers.to_device(self, device=device, stream=stream, copy=None)
        return moved

    def __dlpack_device__(self) -> tuple[int, int]:
        return (12, self.device.index)  # kDLExtDev: a type that no other library uses

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        if dl_device is not None:
            from xferlib._arrays import dlpack

            return dlpack.host_capsule(self, stream, max_version, dl_device, copy)
        raise BufferError(f"memory of {self.device} cannot be shared with another library; move it: xferlib.to_host(x)")

    # --- implicit copies to the host

    def _convert(self, what: str, instead: str) -> HostArray:
        """The values, for a use of the array that does not say that it copies them."""
        from xferlib._api import transfers

        machine.machine().implicit.convert(what, instead, self.nbytes, self.device)
        values: HostArray = transfers.to_host(self)
        return values

    def __array__(self, dtype: Any = None, copy: Any = None) -> HostArray:
        found = self._convert("converting to a NumPy array", "xferlib.to_host(x)")
        return found if dtype is None else found.astype(dtype, copy=False)

    def item(self, *index: Any) -> Any:
        """One element as a Python number: an implicit copy."""
        return self._convert("x.item()", f"xferlib.to_host(x).item({', '.join(map(quote, index))})").item(*index)

    def tolist(self) -> Any:
        """The elements as nested lists: an implicit copy."""
        return self._convert("x.tolist()", "xferlib.to_host(x).tolist()").tolist()

    def __float__(self) -> float:
        return float(self._convert("float(x)", "float(xferlib.to_host(x))").item())

    def __int__(self) -> int:
        return int(self._convert("int(x)", "int(xferlib.to_host(x))").item())

    def __complex__(self) -> complex:
        return complex(self._convert("complex(x)", "complex(xferlib.to_host(x))").item())

    def __bool__(self) -> bool:
        return bool(self._convert("bool(x), as in `if x:`", "bool(xferlib.to_host(x))").item())

    def __index__(self) -> int:
        return operator.index(self._convert("using x as an index", "int(xferlib.to_host(x))").item())

    def __iter__(self) -> Iterator[SimArray]:
        """The parts along the first axis, each a view on the device, as in CuPy and torch."""
        return map(self.__getitem__, range(len(self)))

    def __contains__(self, value: object) -> bool:
        return value in self._convert("`value in x`", "value in xferlib.to_host(x)")

    def __format__(self, form: str) -> str:
        if not form:
            return str(self)
        what, instead = f"writing x in the form {form!r}", f"format(xferlib.to_host(x), {form!r})"
        return format(self._convert(what, instead), form)

    def __copy__(self) -> SimArray:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> SimArray:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._convert("pickling x", "pickle xferlib.to_host(x)"), str(self.device))

    # --- operators and methods, which the maker of the namespace sets

    if TYPE_CHECKING:
        T: SimArray
        mT: SimArray  # noqa: N815 - the Array API's name
        itemsize: int

        def __getitem__(self, key: Any) -> SimArray: ...

        def __setitem__(self, key: Any, value: Any) -> None: ...

        def transpose(self, *axes: Any) -> SimArray: ...

        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> SimArray: ...

        def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> NoReturn: ...

    __hash__ = None  # type: ignore[assignment]  # == compares element by element


def _restore(values: HostArray, device: str) -> SimArray:
    """The array on a device that a pickled one was."""
    from xferlib._api import transfers

    made: SimArray = transfers.to_device(values, device=device)
    return made


# Enqueues operations on arrays, with the stream and the bytes that they read and write.


def new(shape: tuple[int, ...], dtype: np.dtype[Any], device: Device, stream: SimStream | None = None) -> SimArray:
    """An uninitialised C-contiguous array, allocated in the order of a stream; the current one if omitted."""
    order = stream if stream is not None else machine.stream(device)
    allocation = machine.machine().allocate(math.prod(shape) * dtype.itemsize, order)
    info = ArrayInfo(allocation.block.pointer, shape, c_strides(shape, dtype.itemsize), dtype, device, True)
    return SimArray(allocation, info)


def memories_of(operands: Sequence[Any]) -> list[Any]:
    """The operands as an operation computes with them when it is carried out: memory for arrays."""
    return [each.memory() if isinstance(each, SimArray) else each for each in operands]


def launch(
    name: str,
    run: Callable[[], object],
    reads: Sequence[SimArray],
    writes: Sequence[SimArray],
    on: SimStream | None = None,
    *,
    uses_values: bool = True,
    explore: Callable[[], machine.Explored] | None = None,
) -> None:
    """Enqueue an operation, on the current stream of its arrays' device if ``on`` is None.

    ``uses_values``: whether reading memory without a value is a fault; False if it may not use all it reads.
    ``explore``: as of `Machine.enqueue`.
    """
    simulator = machine.simulator()
    stream = on if on is not None else simulator.current((writes or reads)[0].info.device)
    if stream.recorded is not None:
        stream.recorded.kept += (*reads, *writes)
    read, written = spans_of(reads), spans_of(writes)
    nbytes = 0
    for array in (*reads, *writes):
        nbytes += array.memory().nbytes
    simulator.machine.enqueue(
        stream, name, run, reads=read, writes=written, nbytes=nbytes, uses_values=uses_values, explore=explore
    )


def spans_of(arrays: Sequence[SimArray]) -> Spans:
    """The spans of several arrays."""
    if len(arrays) == 1:
        return arrays[0].spans()
    found: Spans = ()
    for each in arrays:
        found += each.spans()
    return found
