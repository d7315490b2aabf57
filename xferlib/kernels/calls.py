"""From the arguments of a kernel call to its run: checked once, prepared, remembered."""

from __future__ import annotations

import contextlib
import functools
import operator
import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextvars import Context
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from xferlib._core import blocks, observe, registry, streams
from xferlib._core.arrays import ArrayInfo, bounds, check_number, share_bytes
from xferlib._core.dtypes import DTYPES, float_limits
from xferlib._core.observe import Kind
from xferlib._native import GivenOutputs, bind_front
from xferlib._runtime import process
from xferlib._runtime.checks import whole
from xferlib.errors import (
    KernelShapeError,
    KernelTypeError,
    LayoutError,
    UnsupportedArrayError,
    quote,
)
from xferlib.kernels import autograd
from xferlib.kernels.arguments import (
    SCALARS,
    check_writable,
    common_device,
    convert_scalar,
    is_array,
    is_scalar,
    needs_gradient,
    requires_gradient,
    unwrap_transforms,
)
from xferlib.kernels.definitions import ArgumentKind, Definition, SnippetDefinition, Specialization, TracedDefinition
from xferlib.kernels.guards import MOST_VARIANTS, Captured, GuardFailedError, OtherValuesError, Variants
from xferlib.kernels.ir import DType, Program, broadcast_shape, is_float, order_of_result
from xferlib.kernels.native_engine import HostPlan, bind_direct
from xferlib.kernels.numpy_engine import SMALL, BlockFunction, quiet_context
from xferlib.kernels.plans import Plans
from xferlib.kernels.small_floats import BitsPlan, has_small_floats, storage, store_bits, view_bits

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device, RawStream
    from xferlib.kernels.cuda_engine import CudaPlan


# Checks the arguments of a kernel call: arrays and their device, scalars and their conversion.


class Reader(NamedTuple):
    """Reads the arguments of one type at each call, by `Backend.signature`, `operands` and `matcher`.

    Where ``operands`` is None, the call takes the argument itself; a scalar has no ``matcher``.
    """

    signature: Callable[[Any], Hashable]
    operands: Callable[[Sequence[Any]], list[Any]] | None = None
    matcher: Callable[[Sequence[Any]], Callable[..., bool]] | None = None


_READERS: dict[type, Reader] = {
    **dict.fromkeys(SCALARS, Reader(type)),
    **dict.fromkeys((np.dtype(name).type for name in DTYPES), Reader(attrgetter("dtype"))),
}


def reader(value: Any) -> Reader:
    """The reader for arguments of the type of ``value``.

    Raises:
        KernelTypeError: It is neither an array nor a scalar.
    """
    kind = type(value)
    found = _READERS.get(kind)
    if found is None:
        backend = registry.owner_of(value)
        if backend is None:
            raise KernelTypeError(f"{kind.__name__} is neither an array nor a number")
        is_itself = kind is np.ndarray or backend.engine() is not None
        operands = None if is_itself else backend.operands
        found = _READERS[kind] = Reader(backend.signature, operands, backend.matcher)
    return found


def resolve(owner: Backend, given: list[Any], infos: dict[int, ArrayInfo]) -> list[int]:
    """Put arrays with their elements in memory in the positions of lazy ones, and return these positions.

    A conjugated tensor of torch is one: a flag on the tensor, of which its memory knows nothing.
    """
    lazy = [number for number in infos if owner.is_lazy(given[number])]
    for number in lazy:
        given[number] = owner.resolved(given[number])
        # What a kernel wrote to the copy would be lost.
        infos[number] = owner.view(given[number])._replace(is_writable=False)
    return lazy


def refuse_freed(call: str, infos: Iterable[ArrayInfo], pointers: Sequence[int]) -> None:
    """Refuse arrays without memory that are not empty.

    Raises:
        UnsupportedArrayError: torch frees the memory of a tensor that it will fill again, such as a sharded parameter.
    """
    if any(not pointer and info.size for info, pointer in zip(infos, pointers, strict=True)):
        raise UnsupportedArrayError(
            f"{call}(): an argument's memory was freed, as that of sharded parameters is outside of their layer; "
            "gather it first"
        )


def scalar_converter(kernel: str, kind: type, dtype: DType, name: str) -> Callable[[Any], np.ndarray[Any, Any]]:
    """Make a function that converts scalars of one type to zero-dimensional arrays of ``dtype``, with all checks.

    Args:
        kernel: Its name, for messages.
        kind: The type of the scalars.
        dtype: The dtype of the result.
        name: The parameter's.
    """

    def checked(value: Any) -> np.ndarray[Any, Any]:
        return np.array(convert_scalar(kernel, value, dtype, name))

    if issubclass(kind, np.generic):
        return np.array if np.dtype(kind) == dtype else checked
    bounds = _plain_bounds(kind, dtype)
    if bounds is None:
        return checked
    low, high = bounds
    return lambda value: np.array(value, dtype) if low <= value <= high else checked(value)


def _plain_bounds(kind: type, dtype: DType) -> tuple[float, float] | None:
    """The range in which NumPy converts without an error, a warning or double rounding; None if there is none."""
    if kind is int and dtype.kind in "iu":
        info = np.iinfo(dtype)
        return int(info.min), int(info.max)
    if not is_float(dtype) or kind not in (int, float):
        return None
    most = float_limits(dtype).max
    return (-most, most) if kind is float else (-min(most, 2.0**53), min(most, 2.0**53))


def check_output(call: str, name: str, info: ArrayInfo, shape: tuple[int, ...], dtype: DType) -> None:
    """Refuse an output that cannot take the result.

    Raises:
        LayoutError: Shape, dtype or writability.
    """
    if info.shape != shape:
        raise LayoutError(
            f"{call}: output {name!r} has shape {info.shape}, and the result {shape}; give one of that shape"
        )
    if info.dtype != dtype:
        raise LayoutError(
            f"{call}: output {name!r} has dtype {info.dtype}, and the result {dtype}; give one of that dtype"
        )
    check_writable(call, name, info)


def is_same_memory(one: ArrayInfo, two: ArrayInfo) -> bool:
    return (
        one.pointer == two.pointer
        and one.shape == two.shape
        and one.strides == two.strides
        and one.dtype.itemsize == two.dtype.itemsize
    )


def check_aliasing(call: str, names: Sequence[str], infos: dict[int, ArrayInfo], writes: frozenset[int],
                  raw: frozenset[int]) -> bool:  # fmt: skip
    """Whether an output is exactly an input's memory, which is allowed.

    Raises:
        KernelTypeError: An output overlaps another array in part, or one that is indexed freely.
    """
    is_aliased = False
    for written in sorted(writes):
        one = infos[written]
        for number, two in infos.items():
            if number == written or (number in writes and number < written):
                continue
            if not share_bytes(_memory(one), _memory(two)):
                continue
            if number in writes or written in raw or number in raw or not is_same_memory(one, two):
                raise KernelTypeError(
                    f"{call}: output {names[written]!r} overlaps argument {names[number]!r} "
                    f"{'in part' if not is_same_memory(one, two) else 'entirely'}, so that the result would depend on "
                    "the order of the elements; pass a copy"
                )
            is_aliased = True
    return is_aliased


def _memory(info: ArrayInfo) -> tuple[int, tuple[int, ...], tuple[int, ...], int]:
    return info.pointer, info.shape, info.strides, info.dtype.itemsize


def native_dtype(kernel: str, dtype: DType, name: str) -> DType:
    """The dtype in native byte order; an error for one that no device holds."""
    return check_number(dtype, what=f"{kernel}(): argument {name!r}")


# The options of one call of a C snippet, as CuPy and PyCUDA have them: ``block_size=``, ``range=`` and ``slice=``.

NAMES = frozenset({"block_size", "range", "slice"})
_MOST_THREADS = 1024


class CallOptions(NamedTuple):
    """The threads of a block, and the numbers of the elements to compute; None: all, as usual."""

    threads: int | None
    elements: range | None


def read_options(call: str, keywords: dict[str, Any], args: Sequence[Any]) -> CallOptions:
    """Take the options out of a call's keywords.

    Raises:
        KernelTypeError: One is of another type, or both ``range=`` and ``slice=`` are given.
        KernelShapeError: The elements are not all in the first array, or a block has no such size.
    """
    threads = _threads(call, keywords.pop("block_size", None))
    by_range, by_slice = keywords.pop("range", None), keywords.pop("slice", None)
    if by_range is None and by_slice is None:
        return CallOptions(threads, None)
    if by_range is not None and by_slice is not None:
        raise KernelTypeError(f"{call}(): range= and slice= say the same; give one of them")
    name, given = ("range", by_range) if by_slice is None else ("slice", by_slice)
    first = next((each for each in args if registry.owner_of(each) is not None), None)
    if first is None:
        raise KernelTypeError(f"{call}(): {name}= counts the elements of the first array, and there is none; pass one")
    backend = registry.owner_of(first)
    assert backend is not None
    size = backend.view(first).size
    if isinstance(given, range) and name == "range":
        elements = given
    elif not isinstance(given, slice):
        raise KernelTypeError(f"{call}(): {name}={quote(given)} is not a slice; give slice(start, stop, step)")
    else:
        parts = (given.start, given.stop, given.step)
        start, stop, step = ints = [None if each is None else whole(each, least=-(1 << 62)) for each in parts]
        if step == 0 or any(one is None and each is not None for one, each in zip(ints, parts, strict=True)):
            raise KernelTypeError(f"{call}(): {name}={quote(given)} must have ints, and a step other than 0")
        if name == "slice":
            elements = range(*slice(start, stop, step).indices(size))
        else:  # nothing is counted from the end
            elements = range(start or 0, size if stop is None else stop, 1 if step is None else step)
    if elements and not (min(elements[0], elements[-1]) >= 0 and max(elements[0], elements[-1]) < size):
        raise KernelShapeError(
            f"{call}(): range={quote(given)} leaves the {size} element(s) of the first array; give one within, or "
            "slice=, which counts from the end"
        )
    return CallOptions(threads, elements)


def _threads(call: str, given: Any) -> int | None:
    if given is None:
        return None
    threads = whole(given, least=-(1 << 62))
    if threads is None:
        raise KernelTypeError(f"{call}(): block_size={quote(given)} must be an int, from 1 to {_MOST_THREADS}")
    if not 1 <= threads <= _MOST_THREADS:
        raise KernelShapeError(f"{call}(): block_size={threads} must be from 1 to {_MOST_THREADS} threads")
    return threads


# Checked calls that can be repeated: on host memory, and on CUDA devices.
#
# Checking the arguments of a call in Python takes longer than a kernel on a small array. So a call is checked once for
# each combination of dtypes, shapes and strides, and a `Prepared` repeats it. A repeated call must still check all that
# those do not tell: pointers (aliasing, alignment), writability, and the values of scalars.
#
# Aliasing is the expensive one. Two arrays of known layouts can only share memory if the distance of their addresses
# lies in a known interval, so most calls need one comparison for each pair; the exact test runs for the others.
#
# The block of arguments belongs to the plan. The driver reads it during the launch, so a lock is held from writing the
# arguments until the launch returns; a second thread would otherwise launch with the first one's pointers.

A = np.ndarray[Any, Any]
Converter = Callable[[Any], A]
Direct = Callable[[tuple[Any, ...], Any], Any]
"""``(arguments, out)``, to the result, or `NotImplemented` with nothing done."""
_OF_SHAPES = frozenset({"index", "size", "length", "fact", "gather", "update", "loop", "pick"})
"""The operations whose values depend on more than the operands at their own position, or that take long to prepare."""


class Prepared:
    """The checks that happen once, and the conversion of scalars, for both kinds of call.

    Args:
        name: The kernel's, for messages.
        backend: The part of a backend that owns the arrays.
        device: Where they are.
        special: The program, and which of its parameters are outputs.
        shape: The common shape of the element-wise operands.
        scalars: The parameters given as numbers.
        infos: The arrays given, by parameter.
    """

    def __init__(
        self,
        name: str,
        backend: Backend,
        device: Device,
        special: Specialization,
        shape: tuple[int, ...],
        scalars: frozenset[int],
        infos: dict[int, ArrayInfo],
    ) -> None:
        self.name = name
        self.backend = backend
        self.device = device
        self.shape = shape
        self.program = special.program
        self._outputs = special.outputs
        self._scalars = sorted(scalars)
        self._names = [param.name for param in self.program.params]
        self._raw = frozenset(self.program.raw)
        self._omitted = [number for number in special.outputs if number not in infos]
        self._check(infos)
        self._arrays = sorted(infos)
        self._written = sorted(self.program.writes & infos.keys())
        self.written = [(number, f"{name}(): output {self._names[number]!r}") for number in self._written]
        """The given arrays that are written, with their names for messages."""
        self._pairs = [
            (written, other)
            for written in self._written
            for other in self._arrays
            if other != written and not (other in self.program.writes and other < written)
        ]
        self._is_in_place = self.program.is_in_place
        self._only = self._outputs[0] if len(self._outputs) == 1 else None
        read = [infos[number] for number in self.program.elements if number in infos]
        self._order = order_of_result(shape, read) if self._omitted else None
        self.direct: Direct | None = None
        """Runs plain calls of the same dtypes and any shape, once it is there."""
        self.numbers: frozenset[int] = frozenset()
        """The scalars that are computed from Python numbers, which C takes as these."""

    def run_again(self, given: Sequence[Any], values: list[Any]) -> Any:
        """Run for arrays of the same dtypes, shapes and strides as before."""
        raise NotImplementedError

    def run_noted(self, given: Sequence[Any], values: list[Any]) -> Any:
        """As `run_again`, after telling the library which arrays are written."""
        for number, label in self.written:
            self.backend.note_write(given[number], label)
        return self.run_again(given, values)

    def _check(self, infos: dict[int, ArrayInfo]) -> None:
        given = [number for number in self._outputs if number in infos]
        if given and self._omitted:
            raise KernelTypeError(
                f"{self.name}(): {len(given)} of {len(self._outputs)} outputs are given; give all or none"
            )
        for number in self._omitted:
            label = f"{self.name}(): output {self._names[number]!r}"
            if number in self._raw and not infos.keys() <= self._raw:  # with size=, it has that
                raise KernelShapeError(f"{label} is raw and has no shape; pass an array")
            if number in self.program.reads:
                raise KernelTypeError(
                    f"{label} is read before it is written, or left as it is for some elements (an if without else); "
                    "pass an array with its content"
                )
        for number in self.program.writes & infos.keys():
            self._check_written(number, infos[number])

    def _check_written(self, number: int, info: ArrayInfo) -> None:
        info = info._replace(dtype=native_dtype(self.name, info.dtype, self._names[number]))
        if number in self._raw:
            check_writable(self.name, self._names[number], info)
        else:
            dtype = self.program.params[number].dtype
            check_output(self.name, self._names[number], info, self.shape, dtype)

    def _scalar(self, number: int, value: Any) -> np.generic:
        """The argument of scalar parameter ``number``, converted and in range."""
        name = self._names[number]
        return convert_scalar(self.name, value, self.program.params[number].dtype, name)

    def _new(self, stream: RawStream) -> list[Any]:
        """New arrays for the omitted outputs, which lie as the inputs do."""
        dtypes = [self.program.params[number].dtype for number in self._omitted]
        if self._order is None:
            return [self.backend.empty(self.shape, each, device=self.device, stream=stream) for each in dtypes]
        make = functools.partial(self.backend.empty_permuted, self.shape, self._order)
        return [make(each, device=self.device, stream=stream) for each in dtypes]

    def _pick_result(self, results: Sequence[Any]) -> Any:
        outputs = self._outputs
        if len(outputs) == 1:
            return results[outputs[0]]
        return tuple(results[number] for number in outputs) if outputs else None

    def _check_aliasing(self, infos: dict[int, ArrayInfo]) -> bool:
        return check_aliasing(self.name, self._names, infos, self.program.writes & infos.keys(), self._raw)


def find_distances(infos: dict[int, ArrayInfo], pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int, int, int]]:
    """For each pair of arrays, an interval: they are apart unless the distance of their addresses lies within it."""
    spans = {number: bounds(0, info.shape, info.strides, info.dtype.itemsize) for number, info in infos.items()}
    return [
        (written, other, spans[written][0] - spans[other][1], spans[written][1] - spans[other][0])
        for written, other in pairs
    ]


class HostCall(Prepared):
    """A call on host memory."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        infos: dict[int, ArrayInfo] = args[-1]
        special: Specialization = args[3]
        self._in_c = special.in_c
        self._is_numpy = self.backend.name == "numpy"
        self._plans: dict[bool, HostPlan] = {}
        self._swapped = [number for number, info in infos.items() if not info.dtype.isnative]
        self._wants_direct = not self._swapped
        self._converters: list[tuple[int, Converter]] = []  # made at the first call; later scalars have the same types
        self._is_plain = not (self._scalars or self._omitted or self._swapped)
        self._apart = [
            (number, [(two, self._may_be_one(infos, number, two)) for one, two in self._pairs if one == number])
            for number in self._written
        ]

    def _may_be_one(self, infos: dict[int, ArrayInfo], written: int, other: int) -> bool:
        """Whether these arrays are the same memory if they start at one address."""
        is_free = not self._raw & {written, other} and other not in self.program.writes
        return is_free and is_same_memory(infos[written], infos[other]._replace(pointer=infos[written].pointer))

    def run_again(self, given: Sequence[Any], values: list[Any]) -> Any:
        """Run for arrays of the same dtypes, shapes and strides as before."""
        if not self._is_numpy:
            values = [self.backend.host_view(each) if n in self._arrays else each for n, each in enumerate(given)]
        is_aliased = self._is_aliased(values) or self._is_in_place
        if not self._is_plain:
            return self._run_converted(given, values, is_aliased=is_aliased)
        if observe.active is None and (plan := self._plans.get(is_aliased)) is not None:
            plan.run(values)
        else:
            self._compute(is_aliased, values)
        self._bind_direct(self._plans[is_aliased], given)
        return self._pick_result(given) if self._only is None else given[self._only]

    def _is_aliased(self, values: Sequence[A]) -> bool:
        """Whether an output is an input; refuses one that overlaps an input in part, or is read-only."""
        is_aliased = False
        for number, others in self._apart:
            one = values[number]
            flags = one.flags
            if not flags.writeable:
                self._check_written(number, _info(one, self.device))
            owns = flags.owndata
            for other, may_be_one in others:
                two = values[other]
                if one is two and may_be_one:
                    is_aliased = True
                    continue
                if owns and two.base is None and one is not two:
                    continue
                if np.may_share_memory(one, two):
                    if may_be_one and _pointer(one) == _pointer(two):
                        is_aliased = True
                        continue
                    is_aliased |= self._check_aliasing({n: _info(values[n], self.device) for n in self._arrays})
                    break
        return is_aliased

    def _run_converted(self, given: Sequence[Any], values: list[Any], *, is_aliased: bool) -> Any:
        missing = [None] * (len(self._names) - len(given))
        operands, results = [*values, *missing], [*given, *missing]
        if len(self._converters) < len(self._scalars):
            self._converters = [(number, self._converter(number, type(given[number]))) for number in self._scalars]
        for number, converter in self._converters:
            operands[number] = converter(given[number])
        if self._omitted:
            for number, made in zip(self._omitted, self._new_outputs(), strict=True):
                results[number] = made
                operands[number] = made if self._is_numpy else self.backend.host_view(made)
        if self._swapped:
            streams.refuse_current(f"{self.name}(): an array in another byte order", self.backend, self.device)
        for number in self._swapped:
            operands[number] = operands[number].astype(operands[number].dtype.newbyteorder("="))
        self._compute(is_aliased, operands)
        for number in self._swapped:
            if number in self.program.writes:
                values[number][...] = operands[number]
        self._bind_direct(self._plans[is_aliased], given)
        return self._pick_result(results)

    def _bind_direct(self, plan: HostPlan, given: Sequence[Any]) -> None:
        """Have C run calls like this one, once the program is compiled."""
        if self._wants_direct and plan.native is not None:
            self._wants_direct = False
            plain = {number: given[number] for number in self._scalars}
            kinds = {n: type(each.item() if n in self.numbers else each) for n, each in plain.items()}
            key = self.backend.name, *kinds.values()
            if key not in self._in_c:
                dtypes = [each.dtype for each in self.program.params]
                library = None if self._is_numpy else self.backend
                self._in_c[key] = bind_direct(plan.native.kernel, dtypes, self._outputs, kinds, library)
            self.direct = self._in_c[key]

    def _converter(self, number: int, kind: type) -> Converter:
        return scalar_converter(self.name, kind, self.program.params[number].dtype, self._names[number])

    def _compute(self, is_aliased: bool, operands: list[Any]) -> None:
        plan = self._plans.get(is_aliased) or self._plan(is_aliased, operands)
        if (recorder := observe.active) is None:
            plan.run(operands)
        else:
            nbytes = sum(each.nbytes for each in operands)
            run = lambda: plan.run(operands)
            recorder.on_host(Kind.KERNEL, self.name, nbytes, self.backend, self.device, run)

    def _plan(self, is_aliased: bool, operands: list[Any]) -> HostPlan:
        plan = self._plans.get(is_aliased)
        if plan is None:
            plan = make_host_plan(self.program, self.shape, operands, is_aliased=is_aliased)
            self._plans[is_aliased] = plan
        return plan

    def _new_outputs(self) -> list[Any]:
        if self._is_numpy and self._order is None:
            with contextlib.suppress(MemoryError):  # the backend, which is slower, has the words for it
                return [np.empty(self.shape, self.program.params[number].dtype) for number in self._omitted]
        return self._new(self.backend.stream_current(self.device))


def make_host_plan(program: Program, shape: tuple[int, ...], operands: list[A], *, is_aliased: bool) -> HostPlan:
    """The plan for arrays of these layouts, whose small floats the engines see as integers."""
    lowered = store_bits(program)
    if lowered is program:
        return HostPlan(program, shape, operands, is_aliased=is_aliased)
    found: Any = BitsPlan(HostPlan(lowered, shape, [*map(view_bits, operands)], is_aliased=is_aliased))
    return found  # type: ignore[no-any-return]


class SmallCall:
    """Calls on small NumPy arrays of one shape each, in C order and apart: any shape, by one recipe.

    It takes about twice as long as a repeated `HostCall`, and a twentieth of making one.
    """

    def __init__(self, name: str, special: Specialization, given: Sequence[Any]) -> None:
        program = special.program
        self._arrays = [n for n, each in enumerate(given) if isinstance(each, np.ndarray)]
        self._converters = [
            (n, scalar_converter(name, type(each), program.params[n].dtype, program.params[n].name))
            for n, each in enumerate(given)
            if n not in self._arrays
        ]
        self._new = [program.params[n].dtype for n in special.outputs if n >= len(given)]
        self._outputs = special.outputs
        self._written = sorted(program.writes & set(self._arrays))
        self._function = BlockFunction(program, SMALL)
        self._quiet: list[Context] = []

    @staticmethod
    def takes(program: Program) -> bool:
        """Whether the program computes each element from those at its own position alone."""
        if program.raw or not program.writes or program.is_in_place or has_small_floats(program):
            return False
        return not any(node.op in _OF_SHAPES for node in program.nodes)

    def run(self, given: Sequence[Any]) -> Any:
        """Compute; `NotImplemented` for arrays that need the checks of a prepared call."""
        first = given[self._arrays[0]]
        shape = first.shape
        for number in self._arrays:
            each = given[number]
            if each.shape != shape or not each.flags.c_contiguous or not 0 < each.size <= SMALL:
                return NotImplemented
        for number in self._written:
            flags = given[number].flags
            if not (flags.owndata and flags.writeable) or any(
                given[other] is given[number] or given[other].base is not None
                for other in self._arrays
                if other != number
            ):
                return NotImplemented
        operands = list(given)
        for number, convert in self._converters:
            operands[number] = convert(operands[number])
        operands += [np.empty(shape, dtype) for dtype in self._new]
        try:
            quiet = self._quiet.pop()
        except IndexError:
            quiet = quiet_context()
        quiet.run(self._function, operands)
        self._quiet.append(quiet)
        results = [operands[number] if number >= len(given) else given[number] for number in self._outputs]
        return results[0] if len(results) == 1 else tuple(results) if results else None


class CudaCall(Prepared):
    """A call on a CUDA device, launched on the current stream of the arrays' library.

    ``threads``: of a block; the engine's own choice if omitted.
    """

    def __init__(self, *args: Any, threads: int | None = None) -> None:
        super().__init__(*args)
        self._threads = threads
        self._infos: dict[int, ArrayInfo] = args[-1]
        self._plans: dict[tuple[Any, ...], CudaPlan] = {}
        self._distances = find_distances(self._infos, self._pairs)
        self._everything = sorted((*self._arrays, *self._omitted))
        lock = threading.Lock()
        self._acquire, self._release = lock.acquire, lock.release  # half of what ``with`` costs
        self._bound: list[Any] | None = None
        self._repeats = False
        """Whether it is known if C can do a whole call."""
        self._bound_plan: CudaPlan | None = None
        self._last_plan: CudaPlan | None = None
        self._numbers: list[Any] = []
        self._launch: Callable[[int], None]
        self._set_numbers: Callable[[Sequence[np.generic]], None]

    def run_again(self, given: Sequence[Any], pointers: list[Any]) -> Any:
        """Launch for arrays of the same dtypes, shapes, strides and device as before."""
        backend = self.backend
        stream = backend.stream_current(self.device) if self._omitted or backend.has_made_streams else None
        handle = stream.handle if stream is not None else backend.stream_handle(self.device)
        numbers = [given[number] for number in self._scalars]
        results = given
        if self._omitted:  # new outputs follow the given arguments
            assert stream is not None
            new = self._new(stream)
            results = [*given, *new]
            pointers = [*pointers, *backend.operands(new)]
        self._acquire()  # the driver copies the arguments during the launch
        try:
            # The very objects, as constants of a program are: equal numbers may differ, as 0.0 and -0.0 do.
            if pointers != self._bound or not self._repeats:  # an output may lie where the one before has died
                self._bind(pointers, numbers, results)
            elif any(map(operator.is_not, numbers, self._numbers)):
                self._bind_numbers(numbers)
            if not self._repeats:
                self._find_direct(results, pointers)
            if (recorder := observe.active) is None:
                self._launch(handle)
            else:
                self._launch_for(recorder, backend.stream_current(self.device))
        finally:
            self._release()
        if handle or backend.has_made_streams:
            self._keep_alive(given, stream or backend.stream_current(self.device))
        return self._pick_result(results) if self._only is None else results[self._only]

    def _launch_for(self, recorder: observe.Recorder, stream: RawStream) -> None:
        nbytes = sum(info.nbytes for info in self._infos.values())
        run = lambda: self._launch(stream.handle)
        recorder.enqueue(Kind.KERNEL, self.name, nbytes, self.backend, stream, run)

    def _bind(self, pointers: list[Any], numbers: list[Any], results: Sequence[Any]) -> None:
        """Check these addresses and numbers, and make `_launch` use them."""
        scalars = [self._scalar(number, value) for number, value in zip(self._scalars, numbers, strict=True)]
        self._bound = None  # an error from here on leaves the block of arguments half written
        for number in self._omitted:
            if number not in self._infos:
                self._infos[number] = self.backend.view(results[number])
        plan = self._plan({number: pointers[number] for number in self._everything})
        plan.bind([pointers[number] for number in plan.array_order], scalars)
        self._bound_plan = plan
        self._launch, self._set_numbers, self._numbers, self._bound = plan.launch, plan.set_scalars, numbers, pointers

    def _find_direct(self, results: Sequence[Any], pointers: Sequence[Any]) -> None:
        """Let C take whole calls from the second one by the same plan on, so that the first one does not wait for it.

        Not where addresses are bound: new outputs often lie where those before were, and nothing is bound again.
        """
        plan = self._bound_plan
        if plan is not None and plan is self._last_plan:
            self._repeats = True
            self.direct = self._make_direct(plan, results, pointers)
        self._last_plan = plan

    def _make_direct(self, plan: CudaPlan, results: Sequence[Any], pointers: Sequence[Any]) -> Direct | None:
        arrays, params = frozenset(self._arrays), self.program.params
        count = len(results) - len(self._omitted)
        given = [
            (results[number], self._infos[number].dtype, pointers[number])
            if number in arrays
            else (results[number], params[number].dtype, None)
            for number in range(count)
        ]
        if not all(address for number, (_, _, address) in enumerate(given) if number in arrays):
            return None  # an empty array, which a raw one may be
        new = {n: (self.shape, params[n].dtype, self._order) for n in self._omitted}
        if not self._written:
            return plan.repeat(given, new)
        pairs = []
        for written, other, low, high in self._distances:
            distance = pointers[other] - pointers[written]
            pairs.append((written, other, low, high, distance if low < distance < high else None))
        outputs = GivenOutputs(tuple(pairs), None if self._omitted else tuple(self._outputs))
        return plan.repeat(given, new, written=outputs, labels=dict(self.written))

    def _bind_numbers(self, numbers: list[Any]) -> None:
        """Make `_launch` use these numbers, with the addresses that it has."""
        scalars = [self._scalar(number, value) for number, value in zip(self._scalars, numbers, strict=True)]
        bound, self._bound = self._bound, None  # Ctrl-C from here on leaves the block of arguments half written
        self._set_numbers(scalars)
        self._numbers, self._bound = numbers, bound

    def _keep_alive(self, given: Sequence[Any], stream: RawStream) -> None:
        """Tell the backend of the use: another stream's pool must not recycle the arrays before this one is done."""
        for number in self._arrays:
            self.backend.note_use(given[number], stream)

    def _plan(self, addresses: dict[int, int]) -> CudaPlan:
        """The plan for the alignment of these addresses, and for whether outputs are inputs."""
        is_aliased = self._is_in_place
        if 0 in addresses.values():
            refuse_freed(self.name, [self._infos[number] for number in addresses], [*addresses.values()])
        if any(low < addresses[other] - addresses[written] < high for written, other, low, high in self._distances):
            infos = {number: self._infos[number]._replace(pointer=pointer) for number, pointer in addresses.items()}
            is_aliased |= self._check_aliasing(infos)
        key = (is_aliased, *(pointer % 16 for pointer in addresses.values()))
        plan = self._plans.get(key)
        if plan is None:
            from xferlib.kernels.cuda_engine import CudaPlan

            infos = {number: self._infos[number]._replace(pointer=pointer) for number, pointer in addresses.items()}
            kind = {} if self._threads is None else {"threads": self._threads}
            infos = {number: info._replace(dtype=storage(info.dtype)) for number, info in infos.items()}
            program = store_bits(self.program)
            plan = CudaPlan(self.backend, self.device, program, self.shape, infos, is_aliased=is_aliased, **kind)
            self._plans[key] = plan
        return plan


def _info(array: A, device: Device) -> ArrayInfo:
    return ArrayInfo(_pointer(array), array.shape, array.strides, array.dtype, device, array.flags.writeable)


def _pointer(array: A) -> int:
    pointer: int = array.__array_interface__["data"][0]
    return pointer


# Calls of a kernel that computes nothing.


class IdleCall(Prepared):
    """A call without a computation: its arguments are checked, and new outputs are as `empty` makes them."""

    def _check(self, infos: dict[int, ArrayInfo]) -> None:
        super()._check(infos)
        for number in self._outputs:
            if number in infos:
                self._check_written(number, infos[number])

    def run_again(self, given: Sequence[Any], values: list[Any]) -> Any:
        """Allocate the omitted outputs."""
        new = self._new(self.backend.stream_current(self.device))
        return self._pick_result([*given, *new])


# From the arguments of a call to a prepared call on an engine: check once, remember, run.

V = TypeVar("V")


class Caller:
    """Checks the calls of one kernel and prepares them."""

    def __init__(
        self, definition: Definition, threads: int | None = None, recorded: Callable[[], None] | None = None
    ) -> None:
        self.definition = definition
        self._recorded = recorded
        self._threads = threads
        self.name = definition.name
        self._specialized: dict[tuple[Any, ...], list[Specialization]] = {}
        self._defaults: dict[str, Any] = getattr(definition, "defaults", {})
        self._positional: list[str] = getattr(definition, "positional", list(definition.names))
        self._keywords: list[str] = getattr(definition, "keywords", [])
        self._is_snippet = not hasattr(definition, "positional")

    # --- arguments
    @property
    def needs_arranging(self) -> bool:
        """Whether a call may have more than positional arguments and outputs."""
        return bool(self._keywords or self._defaults)

    def arrange(self, args: tuple[Any, ...], out: Any, keywords: dict[str, Any]) -> list[Any]:
        """The arguments in the order of the program's parameters, None for omitted outputs."""
        if self._is_snippet:
            return self._arrange_snippet(args, out, keywords)
        count = len(self._positional)
        if out is None and len(args) > count and all(map(is_array, args[count:])):
            args, out = args[:count], args[count:]
        arranged = list(args)
        is_whole = len(args) == len(self._positional) and not any(each is None for each in args)
        if not is_whole or keywords or self._keywords:
            arranged = self._arrange_keywords(args, keywords)
        if out is not None:
            arranged += out if type(out) is tuple else (out,)
            self._check_outputs(arranged, len(self.definition.names))
        return arranged

    def _check_outputs(self, arranged: Sequence[Any], first: int) -> None:
        """Refuse numbers in the place of outputs."""
        for number, value in enumerate(arranged[first:], first):
            if is_scalar(value):
                raise KernelTypeError(
                    f"{self.name}(): output {self._name(number)!r} is {type(value).__name__}, not an array to write "
                    "to; give an array, or leave it out for a new one"
                )

    def _arrange_keywords(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> list[Any]:
        names = self.definition.names
        if len(args) > len(self._positional):
            raise KernelTypeError(
                f"{self.name}() takes {len(self._positional)} argument(s), {len(args)} were given; outputs are arrays "
                "behind them, or out="
            )
        values = {**self._defaults, **dict(zip(self._positional, args, strict=False))}
        for name, value in keywords.items():
            if name not in names or name in self._positional[: len(args)]:
                problem = "has no parameter" if name not in names else "was given twice the parameter"
                raise KernelTypeError(f"{self.name}() {problem} {name!r}; its parameters are {', '.join(names)}")
            values[name] = value
        for name in names:
            if name not in values or values[name] is None:
                raise KernelTypeError(f"{self.name}() lacks argument {name!r}; give all of {', '.join(names)}")
            if name in self._keywords and not is_scalar(values[name]):
                raise KernelTypeError(
                    f"{self.name}(): keyword {name!r} is {type(values[name]).__name__}, not a number; "
                    "arrays are positional"
                )
        return [values[name] for name in names]

    def _arrange_snippet(self, args: tuple[Any, ...], out: Any, keywords: dict[str, Any]) -> list[Any]:
        names, first = self.definition.names, self.definition.first_output
        if keywords:
            remedy = "inputs go by position, outputs behind them or to out="
            if "stream" in keywords:
                remedy = "it runs on the current stream: with stream: kernel(x)"
            raise KernelTypeError(f"{self.name}() takes no keyword {next(iter(keywords))!r}; {remedy}")
        if out is not None:
            args = self._with_outputs(args, out)
        if len(args) != len(names) and len(args) != first:
            expected = str(len(names)) if first is None else f"{first} or, with the outputs, {len(names)}"
            raise KernelTypeError(
                f"{self.name}({', '.join(names)}) takes {expected} argument(s), {len(args)} were given"
            )
        for name, value in zip(names, args, strict=False):
            if value is None:
                raise KernelTypeError(f"{self.name}(): argument {name!r} is None; pass an array or a number")
        if first is not None:
            self._check_outputs(args, first)
        return [*args, *[None] * (len(names) - len(args))]

    def _with_outputs(self, args: tuple[Any, ...], out: Any) -> tuple[Any, ...]:
        """The arguments of a snippet with those of ``out=`` behind them."""
        names, first = self.definition.names, self.definition.first_output
        if first is None:
            raise KernelTypeError(f"{self.name}() writes to its arguments, and has no output for out=; leave it out")
        given, count = out if type(out) is tuple else (out,), len(names) - first
        if len(args) > first:
            raise KernelTypeError(f"{self.name}(): outputs are given twice, by position and as out=; leave out one")
        if len(given) != count:
            wanted = names[first] if count == 1 else f"a tuple of {count}, ({', '.join(names[first:])})"
            raise KernelTypeError(f"{self.name}(): out= has {len(given)} output(s); give {wanted}")
        return (*args, *given)

    # --- preparation
    def prepare(
        self, arguments: Sequence[Any], size: int | None
    ) -> tuple[Callable[[Sequence[Any], list[Any]], Any], list[Any], list[Any]]:
        """Check all that shapes and dtypes decide, and choose the engine.

        Returns:
            The checked call's `Prepared.run_again`, and its two arguments.
        """
        given = [each for each in arguments if each is not None]
        backend, device, infos = common_device(self.name, self._names(len(given)), given)
        if backend is None or device is None:
            if size is None:
                raise KernelTypeError(f"{self.name}(): no argument is an array, so that no backend is chosen; pass one")
            backend = registry.default_backend()
            device = backend.device_current()
        kinds = tuple(self._kind(number, each, infos) for number, each in enumerate(arguments))
        special = self._specialize(kinds, _scalars(given, infos), arguments)
        owner = backend.at(device)
        lazy = resolve(owner, given, infos)
        values = [infos[n].pointer if n in infos else each for n, each in enumerate(given)]
        values = values if device.kind == "cuda" else given
        numbers = special.numbers
        if numbers is None:
            call = self._make_call(special, backend, device, given, infos, size)
            return _resolve_first(_note_first(call), owner, lazy), given, values
        expanded = numbers.insert(given, numbers.compute(given))
        call = self._make_call(
            special, backend, device, expanded, {numbers.parameter_of(n): infos[n] for n in infos}, size
        )
        call.numbers = numbers.parameters
        run = _resolve_first(_note_first(call), owner, [*map(numbers.parameter_of, lazy)])
        return numbers.wrap(run, given), given, values

    def prepare_for_any_shape(self, arguments: Sequence[Any]) -> SmallCall | None:
        """The call for NumPy arrays of these dtypes and any one shape; None for a program that shapes change."""
        numbers = {n for n, each in enumerate(arguments) if isinstance(each, np.ndarray)}
        kinds: list[ArgumentKind] = [
            each.dtype if n in numbers or isinstance(each, np.generic) else type(each)
            for n, each in enumerate(arguments)
        ]
        kinds += [None] * (len(self.definition.names) - len(kinds))
        scalars = frozenset(range(len(arguments))) - numbers
        special = self._specialize(tuple(kinds), scalars, arguments)
        is_able = special.numbers is None and SmallCall.takes(special.program)
        return SmallCall(self.name, special, arguments) if is_able else None

    def prepare_specialized(self, special: Specialization, given: Sequence[Any]) -> Callable[[], Any]:
        """Prepare a call with the parameters of a specialization, whose numbers are computed already."""
        names = [param.name for param in special.program.params]
        backend, device, infos = common_device(self.name, names, given)
        assert backend is not None
        assert device is not None
        arguments = [*given]
        resolve(backend.at(device), arguments, infos)
        call = self._make_call(special, backend, device, arguments, infos, None)
        values = [infos[n].pointer if n in infos else each for n, each in enumerate(arguments)]
        return lambda: call.run_again(arguments, values if device.kind == "cuda" else arguments)

    def _make_call(
        self,
        special: Specialization,
        backend: Backend,
        device: Device,
        given: Sequence[Any],
        infos: dict[int, ArrayInfo],
        size: int | None,
    ) -> Any:
        """The engine's call for these parameters."""
        shape = self._shape(special, infos, size)
        checked = (self.name, backend.at(device), device, special, shape, _scalars(given, infos), infos)
        if not special.program.writes:
            return IdleCall(*checked)
        if device.kind == "cuda":
            return CudaCall(*checked, threads=self._threads)
        engine = checked[1].engine()
        return HostCall(*checked) if engine is None else engine.call(*checked)

    def specialize_for(
        self, arguments: Sequence[Any], plain: Sequence[Any]
    ) -> tuple[Specialization, frozenset[int], Any, Sequence[Any]]:
        """The specialization for these arguments, its scalar parameters, a key for it, and its parameters' values.

        Args:
            arguments: Tensors that torch tracks, and numbers.
            plain: The same, with tensors that have memory.
        """
        _, _, infos = common_device(self.name, self._names(len(plain)), plain)
        kinds = tuple(self._kind(number, each, infos) for number, each in enumerate(arguments))
        kinds += (None,) * (len(self.definition.names) - len(kinds))
        special = self._specialize(kinds, _scalars(arguments, infos), arguments)
        if (numbers := special.numbers) is not None:
            arguments = numbers.insert(arguments, numbers.compute(arguments))
            infos = {numbers.parameter_of(number): info for number, info in infos.items()}
        return special, _scalars(arguments, infos), id(special), arguments

    def _kind(self, number: int, value: Any, infos: dict[int, ArrayInfo]) -> ArgumentKind:
        if value is None:
            return None
        if number in infos:
            return native_dtype(self.name, infos[number].dtype, self._name(number))
        return value.dtype if isinstance(value, np.generic) else type(value)

    def _names(self, count: int) -> list[str]:
        return [*map(self._name, range(count))]

    def _name(self, number: int) -> str:
        names = self.definition.names
        return names[number] if number < len(names) else f"out{number - len(names)}"

    def _specialize(
        self, kinds: tuple[ArgumentKind, ...], scalars: frozenset[int], arguments: Sequence[Any]
    ) -> Specialization:
        if not self._is_snippet:
            kinds = kinds[: len(self.definition.names)]
        known = self._specialized.setdefault((kinds, scalars), [])
        for special in known:
            if special.numbers is None:
                return special
            with contextlib.suppress(GuardFailedError):
                special.numbers.compute(arguments)
                return special
        special = self.definition.specialize(kinds, scalars, arguments)
        if self._recorded is not None:
            self._recorded()
        known.insert(0, special)
        del known[MOST_VARIANTS:]
        return special

    def programs(self) -> list[tuple[str, Program]]:
        """The programs of the calls so far, each with the types of its arguments in words."""
        return [
            (", ".join(each.__name__ if isinstance(each, type) else str(each) for each in kinds if each is not None),
             special.program)
            for (kinds, _), known in [*self._specialized.items()] for special in known
        ]  # fmt: skip

    def _shape(self, special: Specialization, infos: dict[int, ArrayInfo], size: int | None) -> tuple[int, ...]:
        params = special.program.params
        if max(infos, default=0) >= len(params):
            raise KernelTypeError(f"{self.name}() has {len(special.outputs)} output(s); out= has more than that")
        named = [(params[number].name, info.shape) for number, info in infos.items() if not params[number].is_raw]
        if size is not None:
            if named:
                raise KernelShapeError(f"{self.name}(): size= is only for calls whose arrays are all raw; leave it out")
            count = whole(size, least=0)
            if count is None:
                raise KernelShapeError(f"{self.name}(): size={quote(size)} must be an int, 0 or more")
            return (count,)
        if not named:
            raise KernelShapeError(f"{self.name}(): no argument has a shape to loop over; pass size=")
        outputs = {params[number].name for number in special.outputs}
        inputs = [(name, shape) for name, shape in named if name not in outputs]
        return broadcast_shape(self.name, inputs or named)


def _scalars(given: Sequence[Any], infos: dict[int, ArrayInfo]) -> frozenset[int]:
    """The parameters given as numbers."""
    return frozenset(number for number in range(len(given)) if number not in infos)


def _resolve_first(
    run: Callable[[Sequence[Any], list[Any]], Any], owner: Backend, lazy: Sequence[int]
) -> Callable[[Sequence[Any], list[Any]], Any]:
    """``run`` for calls whose arguments at these positions are lazy, as `resolve` found them."""
    if not lazy:
        return run

    def run_resolved(given: Sequence[Any], values: list[Any]) -> Any:
        given, values = [*given], [*values]
        for number in lazy:
            given[number] = owner.resolved(given[number])
            (values[number],) = owner.operands((given[number],))
        return run(given, values)

    return run_resolved


def _note_first(call: Prepared) -> Callable[[Sequence[Any], list[Any]], Any]:
    """`Prepared.run_again`; for a library that counts writes, preceded by telling it which arrays are written."""
    return call.run_noted if call.written and call.backend.follows_writes else call.run_again


# The call of an element-wise kernel: finds the prepared run for its arguments with as little Python as possible.

Run = Callable[[Any, list[Any]], Any]
_DISPATCH_TURNS = 32
"""Calls of new shapes that are not prepared, where enough shapes are, for each that is."""


_MOST_DIRECT = 4
"""Combinations of dtypes that C recognises by itself; one that is not meant costs 0.1 us."""


class _Last(NamedTuple):
    """The last call, kept where its arrays had one type: comparing with it is faster than a look-up."""

    positional: int
    matches: Callable[..., bool]
    operands: Callable[[Sequence[Any]], list[Any]] | None
    run: Run


class Dispatch:
    """Runs the calls of one kernel: each kind of call is checked and prepared once.

    Args:
        definition: What the kernel computes.
        make: Makes the kernels of its derivatives.
        threads: Of a block on a GPU; the engine's own choice if omitted.
        recorded: Called after each recording of a traced function, for one set of values that it captures.
    """

    def __init__(
        self,
        definition: Definition,
        make: autograd.Make,
        threads: int | None = None,
        recorded: Callable[[], None] | None = None,
    ) -> None:
        self.name = definition.name
        self._definition = definition
        self._make = make
        self._names = definition.names
        self._caller = Caller(definition, threads, recorded)
        self._needs_arranging = self._caller.needs_arranging
        self._differentiables: dict[Any, autograd.Differentiable] = {}
        self._runs: Plans[Run] = Plans()
        self._small: dict[tuple[Any, ...], SmallCall | None] = {}
        """Where more shapes come than `_runs` holds: the calls that take any shape, by the kinds of the arguments."""
        self._last: _Last | None = None
        self._known: list[Any] = [[], None]
        """For C, which looks at them first: functions that run plain calls, each of its own dtypes, the last ones
        first; and, of a kernel that captures values, a function that tells whether these still hold."""
        self._variants: Plans[Callable[..., Any]] = Plans()
        """For calls with options, by the threads of a block and the step between elements."""
        self._turns = 0
        self._captured: Captured | None = None
        if isinstance(definition, TracedDefinition) and recorded is None:
            again = functools.partial(TracedDefinition, definition.function, name=definition.name, math=definition.math)
            self._captured = Captured(definition.function, lambda recorded: Dispatch(again(), make, threads, recorded))

    def front(self) -> Callable[..., Any]:
        """Make `call` by way of C, for others to hold: the collector does not see a cycle that C closes."""
        return bind_front(self.call, self._known, process.scopes, vars(observe), "active", "out")

    def call(self, *args: Any, out: Any = None, size: int | None = None, **keywords: Any) -> Any:
        """The call of an `ElementwiseKernel`."""
        if process.scopes:
            blocks.follow()
        if self._captured is not None:
            return self._call_with_captures(self._captured, args, out, size, keywords)
        if keywords and isinstance(self._definition, SnippetDefinition) and not NAMES.isdisjoint(keywords):
            return self._call_with_options(args, out, size, keywords)
        if keywords or self._needs_arranging:
            given: Any = self._caller.arrange(args, out, keywords)
            if size is None and observe.active is None:
                for direct in self._known[0]:  # of whose calls C has seen positional arguments alone
                    if (found := direct(tuple(given), None)) is not NotImplemented:
                        return found
        else:
            given = args if out is None else (*args, *out) if type(out) is tuple else (*args, out)
        last = self._last
        if last is not None and last[0] == len(args) and size is None:
            _, matches, operands, run = last
            try:
                is_like = matches(*given)
            except Exception:  # an argument of another type: the look-up finds out which
                is_like = False
            if is_like:
                try:
                    found = run(given, given if operands is None else operands(given))
                except GuardFailedError:  # its numbers are of another kind
                    pass
                else:
                    self._keep_direct(run)
                    return found
        return self._look_up(args, out, size, keywords, given)

    def _call_with_captures(
        self, captured: Captured, args: tuple[Any, ...], out: Any, size: int | None, keywords: dict[str, Any]
    ) -> Any:
        """Run a call of a traced function by what was prepared for the values that it captures, as they are now."""
        while True:
            environment = captured.prepare()
            if environment is None:
                self._captured = None
                return self.call(*args, out=out, size=size, **keywords)
            prepared: Dispatch = environment.prepared
            try:
                found = prepared.call(*args, out=out, size=size, **keywords)
            except OtherValuesError:
                continue
            self._known[:] = [prepared._known[0], environment.holds]
            return found

    def _call_with_options(self, args: tuple[Any, ...], out: Any, size: int | None, keywords: dict[str, Any]) -> Any:
        threads, elements = read_options(self.name, keywords, args)
        step = None
        if elements is not None:
            if size is not None:
                raise KernelTypeError(f"{self.name}(): a part of the elements has its own size; leave size= out")
            args, size, step = (*args, elements.start), len(elements), elements.step
        variant = self._variants.get((threads, step))
        if variant is None:
            definition = self._definition
            if step is not None and isinstance(definition, SnippetDefinition):
                definition = definition.of_part(step)
            variant = Dispatch(definition, self._make, threads).front()
            self._variants.keep((threads, step), variant)
        if size is None and not keywords:
            return variant(*args, out=out)
        return variant(*args, out=out, size=size, **keywords)

    def _look_up(
        self, args: tuple[Any, ...], out: Any, size: int | None, keywords: dict[str, Any], given: Sequence[Any]
    ) -> Any:
        """Run a call unlike the last one."""
        try:
            readers = [*map(reader, given)]
            signatures = [each.signature(value) for each, value in zip(readers, given, strict=True)]
        except Exception:  # no array, or one that cannot be used: the checks of a first call say why
            return self._first_call(args, out, size, keywords, None)
        key = (len(args), size, *signatures)
        try:
            run = self._runs.get(key)
        except Exception:  # a size that is not a number
            return self._first_call(args, out, size, keywords, None)
        if run is None:
            if self._runs.is_full and size is None and observe.active is None:
                found = self._run_small(given)
                if found is not NotImplemented:
                    return found
            return self._first_call(args, out, size, keywords, key)
        if size is None:
            self._remember(len(args), readers, given, run)
        pairs = zip(readers, given, strict=True)
        values = [value if each.operands is None else each.operands((value,))[0] for each, value in pairs]
        try:
            found = run(given, values)
        except GuardFailedError:
            return self._first_call(args, out, size, keywords, key)
        self._keep_direct(run)
        return found

    def _keep_direct(self, run: Run) -> None:
        """Let C take calls of these dtypes from now on, if it can."""
        direct = getattr(getattr(run, "__self__", None), "direct", None)
        known = self._known[0]
        if direct is not None and direct not in known:
            known[:] = [direct, *known[: _MOST_DIRECT - 1]]

    def _run_small(self, given: Sequence[Any]) -> Any:
        """Run a call on NumPy arrays without preparing it for their shape; `NotImplemented` where it must be."""
        self._turns = (self._turns + 1) % _DISPATCH_TURNS
        if self._turns == 0:  # now and then one is prepared, so that a shape that comes often gets its own
            return NotImplemented
        kinds = tuple([each.dtype if type(each) is np.ndarray else type(each) for each in given])
        if kinds not in self._small:
            arrays = [each for each in given if type(each) is np.ndarray]
            is_plain = arrays and all(each.dtype.isnative for each in arrays)
            is_plain = is_plain and all(type(each) is np.ndarray or is_scalar(each) for each in given)
            self._small[kinds] = self._caller.prepare_for_any_shape(given) if is_plain else None
        call = self._small[kinds]
        return NotImplemented if call is None else call.run(given)

    def _remember(self, positional: int, readers: Sequence[Reader], given: Sequence[Any], run: Run) -> None:
        """Recognise calls like this one by comparison from now on, if its arrays have one type."""
        arrays = [number for number, each in enumerate(readers) if each.matcher is not None]
        if len({type(given[number]) for number in arrays}) != 1:
            return
        matcher, operands = readers[arrays[0]].matcher, readers[arrays[0]].operands
        assert matcher is not None
        matches = matcher([given[number] for number in arrays])
        if len(arrays) < len(given):
            matches = _with_scalars(matches, arrays, given)
            operands = None if operands is None else _beside_scalars(operands, arrays)
        self._last = _Last(positional, matches, operands, run)

    def _first_call(
        self, args: tuple[Any, ...], out: Any, size: int | None, keywords: dict[str, Any], key: tuple[Any, ...] | None
    ) -> Any:
        """Check a call of a new kind, remember it under ``key`` and run it."""
        arguments = self._caller.arrange(args, out, keywords)
        if needs_gradient(arguments):
            return self._with_gradient(arguments, out, size)
        run, values_given, values = self._caller.prepare(arguments, size)
        if key is None or requires_gradient(arguments):  # else no_grad() would hide a gradient later
            return run(values_given, values)
        known = self._runs.get(key)
        is_another = isinstance(run, Variants) and isinstance(known, Variants)
        self._runs.keep(key, Variants.join(run, known) if is_another else run)
        found = run(values_given, values)
        self._keep_direct(run)  # even where no shape comes twice
        return found

    def _with_gradient(self, arguments: list[Any], out: Any, size: int | None) -> Any:
        """Run a call on torch tensors that require gradients."""
        given = [each for each in arguments if each is not None]
        special, scalars, key, values = self._caller.specialize_for(given, unwrap_transforms(given))
        if out is not None or size is not None or len(values) > len(special.program.params) - len(special.outputs):
            raise KernelTypeError(
                f"{self.name}(): out= and size= cannot be used on tensors that torch follows for a derivative; "
                "leave them out, call under torch.no_grad(), or on x.detach()"
            )
        found = self._differentiables.get(key)
        if found is None:
            run = functools.partial(self._run_specialized, special)
            found = autograd.Differentiable(self.name, special, scalars, run, self._make)
            self._differentiables[key] = found
        return autograd.apply(found, values)

    def _run_specialized(self, special: Specialization, *values: Any) -> Any:
        """Run on the values of a specialization's parameters, outside torch's graph."""
        return self._caller.prepare_specialized(special, values)()


def _with_scalars(matches: Callable[..., bool], arrays: Sequence[int], given: Sequence[Any]) -> Callable[..., bool]:
    """Make a function that tells whether other arguments match: the arrays, and the types of the scalars."""
    count = len(given)
    kinds = [(number, type(each)) for number, each in enumerate(given) if number not in arrays]

    def matches_all(*others: Any) -> bool:
        if len(others) != count:
            return False
        for number, kind in kinds:
            if type(others[number]) is not kind:
                return False
        return matches(*[others[number] for number in arrays])

    return matches_all


def _beside_scalars(operands: Callable[[Sequence[Any]], list[Any]], arrays: Sequence[int]) -> Callable[..., list[Any]]:
    """Make a function that gives the operands of a call: those of its arrays, and its scalars unchanged."""

    def all_operands(given: Sequence[Any]) -> list[Any]:
        result = list(given)
        for number, each in zip(arrays, operands([given[number] for number in arrays]), strict=True):
            result[number] = each
        return result

    return all_operands
