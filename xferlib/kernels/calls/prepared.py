"""Checked calls that can be repeated: on host memory through the NumPy engine, and on CUDA devices.

Checking the arguments of a call in Python takes longer than a kernel on a small array. So a call is checked once for
each combination of dtypes, shapes and strides, and a `Prepared` repeats it. A repeated call must still check all that
those do not tell: pointers (aliasing, alignment), writability, and the values of scalars.

Aliasing is the expensive one. Two arrays of known layouts can only share memory if the distance of their addresses
lies in a known interval, so most calls need one comparison for each pair; the exact test runs for the others.

The block of arguments belongs to the plan. The driver reads it during the launch, so a lock is held from writing the
arguments until the launch returns; a second thread would otherwise launch with the first one's pointers.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core import observe
from xferlib._core.array import ArrayInfo
from xferlib._core.layout import bounds
from xferlib._core.observe import Kind
from xferlib._core.ordering import capture
from xferlib.errors import KernelShapeError, KernelTypeError
from xferlib.kernels.calls import arguments as checks
from xferlib.kernels.engines.numpy.block_function import BlockFunction
from xferlib.kernels.engines.numpy.engine import SMALL, NumpyPlan, quiet_context
from xferlib.kernels.frontends.definitions import Specialization
from xferlib.kernels.ir.nodes import Program

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.raw import RawStream
    from xferlib.kernels.engines.cuda.engine import CudaPlan

A = np.ndarray[Any, Any]
Converter = Callable[[Any], A]
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
        self._raw = frozenset(number for number, param in enumerate(self.program.params) if param.is_raw)
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
        self._is_in_place = bool(self.program.writes & self.program.reads)
        self._only = self._outputs[0] if len(self._outputs) == 1 else None

    def run_again(self, given: Sequence[Any], values: list[Any]) -> Any:
        """Run for arrays of the same dtypes, shapes and strides as before."""
        raise NotImplementedError

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
        info = info._replace(dtype=checks.native_dtype(info.dtype, self._names[number]))
        if number in self._raw:
            checks.check_writable(self.name, self._names[number], info)
        else:
            dtype = self.program.params[number].dtype
            checks.check_output(self.name, self._names[number], info, self.shape, dtype)

    def _scalar(self, number: int, value: Any) -> np.generic:
        """The argument of scalar parameter ``number``, converted and in range."""
        name = self._names[number]
        return checks.convert_scalar(value, self.program.params[number].dtype, name)

    def _returned(self, results: Sequence[Any]) -> Any:
        outputs = self._outputs
        if len(outputs) == 1:
            return results[outputs[0]]
        return tuple(results[number] for number in outputs) if outputs else None

    def _check_aliasing(self, infos: dict[int, ArrayInfo]) -> bool:
        return checks.check_aliasing(self.name, self._names, infos, self.program.writes & infos.keys(), self._raw)


class HostCall(Prepared):
    """A call on host memory."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        infos: dict[int, ArrayInfo] = args[-1]
        self._is_numpy = self.backend.name == "numpy"
        self._plans: dict[bool, NumpyPlan] = {}
        self._swapped = [number for number, info in infos.items() if not info.dtype.isnative]
        self._converters: list[tuple[int, Converter]] = []  # made at the first call; later scalars have the same types
        self._is_plain = not (self._scalars or self._omitted or self._swapped)
        self._apart = [
            (number, [(two, self._may_be_one(infos, number, two)) for one, two in self._pairs if one == number])
            for number in self._written
        ]

    def _may_be_one(self, infos: dict[int, ArrayInfo], written: int, other: int) -> bool:
        """Whether these arrays are the same memory if they start at one address."""
        is_free = not self._raw & {written, other} and other not in self.program.writes
        return is_free and checks.is_same_memory(infos[written], infos[other]._replace(pointer=infos[written].pointer))

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
        return self._returned(given) if self._only is None else given[self._only]

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
        for number in self._omitted:
            operands[number], results[number] = self._new_output(number)
        if self._swapped:
            capture.refuse_current(f"{self.name}(): an array in another byte order", self.backend, self.device)
        for number in self._swapped:
            operands[number] = operands[number].astype(operands[number].dtype.newbyteorder("="))
        self._compute(is_aliased, operands)
        for number in self._swapped:
            if number in self.program.writes:
                values[number][...] = operands[number]
        return self._returned(results)

    def _converter(self, number: int, kind: type) -> Converter:
        return checks.scalar_converter(kind, self.program.params[number].dtype, self._names[number])

    def _compute(self, is_aliased: bool, operands: list[Any]) -> None:
        plan = self._plans.get(is_aliased) or self._plan(is_aliased, operands)
        if (recorder := observe.active) is None:
            plan.run(operands)
        else:
            nbytes = sum(each.nbytes for each in operands)
            run = lambda: plan.run(operands)
            recorder.on_host(Kind.KERNEL, self.name, nbytes, self.backend, self.device, run)

    def _plan(self, is_aliased: bool, operands: list[Any]) -> NumpyPlan:
        plan = self._plans.get(is_aliased)
        if plan is None:
            plan = NumpyPlan(self.program, self.shape, operands, is_aliased=is_aliased)
            self._plans[is_aliased] = plan
        return plan

    def _new_output(self, number: int) -> tuple[A, Any]:
        dtype = self.program.params[number].dtype
        if self._is_numpy:
            array: A = np.empty(self.shape, dtype)
            return array, array
        stream = self.backend.stream_current(self.device)
        result = self.backend.empty(self.shape, dtype, device=self.device, stream=stream)
        return self.backend.host_view(result), result


class SmallCall:
    """Calls on small NumPy arrays of one shape each, in C order and apart: any shape, by one recipe.

    It takes about twice as long as a repeated `HostCall`, and a twentieth of making one.
    """

    def __init__(self, name: str, special: Specialization, given: Sequence[Any]) -> None:
        program = special.program
        self._arrays = [n for n, each in enumerate(given) if isinstance(each, np.ndarray)]
        self._converters = [
            (n, checks.scalar_converter(type(each), program.params[n].dtype, program.params[n].name))
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
        if any(param.is_raw for param in program.params) or not program.writes or program.writes & program.reads:
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
        spans = {
            number: bounds(0, info.shape, info.strides, info.dtype.itemsize) for number, info in self._infos.items()
        }
        self._distances = [  # two arrays are apart unless their distance lies between these
            (written, other, spans[written][0] - spans[other][1], spans[written][1] - spans[other][0])
            for written, other in self._pairs
        ]
        self._new = [self.program.params[number].dtype for number in self._omitted]
        self._everything = sorted((*self._arrays, *self._omitted))
        lock = threading.Lock()
        self._acquire, self._release = lock.acquire, lock.release  # half of what ``with`` costs
        self._bound: list[Any] | None = None
        self._numbers: list[Any] = []
        self._launch: Callable[[int], None]
        self._set_numbers: Callable[[Sequence[np.generic]], None]

    def run_again(self, given: Sequence[Any], pointers: list[Any]) -> Any:
        """Launch for arrays of the same dtypes, shapes, strides and device as before."""
        backend = self.backend
        stream = backend.stream_current(self.device) if self._new or backend.has_made_streams else None
        handle = stream.handle if stream is not None else backend.stream_handle(self.device)
        numbers = [given[number] for number in self._scalars]
        results = given
        if self._new:  # new outputs follow the given arguments
            assert stream is not None
            new = [backend.empty(self.shape, each, device=self.device, stream=stream) for each in self._new]
            results = [*given, *new]
            pointers = [*pointers, *backend.operands(new)]
        self._acquire()  # the driver copies the arguments during the launch
        try:
            # The very objects, as constants of a program are: equal numbers may differ, as 0.0 and -0.0 do.
            if pointers != self._bound:
                self._bind(pointers, numbers, results)
            elif any(map(operator.is_not, numbers, self._numbers)):
                self._bind_numbers(numbers)
            if (recorder := observe.active) is None:
                self._launch(handle)
            else:
                self._launch_for(recorder, backend.stream_current(self.device))
        finally:
            self._release()
        if handle or backend.has_made_streams:
            self._keep_alive(given, stream or backend.stream_current(self.device))
        return self._returned(results) if self._only is None else results[self._only]

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
        self._launch, self._set_numbers, self._numbers, self._bound = plan.launch, plan.set_scalars, numbers, pointers

    def _bind_numbers(self, numbers: list[Any]) -> None:
        """Make `_launch` use these numbers, with the addresses that it has."""
        scalars = [self._scalar(number, value) for number, value in zip(self._scalars, numbers, strict=True)]
        bound, self._bound = self._bound, None  # Ctrl-C from here on leaves the block of arguments half written
        self._set_numbers(scalars)
        self._numbers, self._bound = numbers, bound

    def _keep_alive(self, given: Sequence[Any], stream: RawStream) -> None:
        """Tell the backend of the use: another stream's pool must not recycle the arrays before this one is done."""
        for number in self._arrays:
            self.backend.consumed(given[number], stream)

    def _plan(self, addresses: dict[int, int]) -> CudaPlan:
        """The plan for the alignment of these addresses, and for whether outputs are inputs."""
        is_aliased = self._is_in_place
        if any(low < addresses[other] - addresses[written] < high for written, other, low, high in self._distances):
            infos = {number: self._infos[number]._replace(pointer=pointer) for number, pointer in addresses.items()}
            is_aliased |= self._check_aliasing(infos)
        key = (is_aliased, *(pointer % 16 for pointer in addresses.values()))
        plan = self._plans.get(key)
        if plan is None:
            from xferlib.kernels.engines.cuda.engine import CudaPlan

            infos = {number: self._infos[number]._replace(pointer=pointer) for number, pointer in addresses.items()}
            kind = {} if self._threads is None else {"threads": self._threads}
            plan = CudaPlan(self.backend, self.device, self.program, self.shape, infos, is_aliased=is_aliased, **kind)
            self._plans[key] = plan
        return plan


def _info(array: A, device: Device) -> ArrayInfo:
    return ArrayInfo(_pointer(array), array.shape, array.strides, array.dtype, device, array.flags.writeable)


def _pointer(array: A) -> int:
    pointer: int = array.__array_interface__["data"][0]
    return pointer
