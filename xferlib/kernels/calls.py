"""From the arguments of a call to a prepared plan on an engine: check once, remember, run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib import _registry
from xferlib._array import ArrayInfo
from xferlib.errors import KernelTypeError
from xferlib.kernels import arguments as checks
from xferlib.kernels.definitions import Definition, Kind, Specialization
from xferlib.kernels.ir import Program
from xferlib.kernels.layout import broadcast_shape
from xferlib.kernels.numpy_engine import NumpyPlan
from xferlib.kernels.overlap import bounds

if TYPE_CHECKING:
    from xferlib._device import Device
    from xferlib.backends.base import Backend
    from xferlib.kernels.cuda_engine import CudaPlan

A = np.ndarray[Any, Any]
_MOST_PLANS = 512


class Caller:
    """Checks the calls of one kernel and prepares its plans."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.name = definition.name
        self._specialized: dict[tuple[Any, ...], Specialization] = {}
        self._defaults: dict[str, Any] = getattr(definition, "defaults", {})
        self._positional: list[str] = getattr(definition, "positional", list(definition.names))
        self._keywords: list[str] = getattr(definition, "keywords", [])
        self._is_snippet = not hasattr(definition, "positional")

    # --- arguments
    def arrange(self, args: tuple[Any, ...], out: Any, keywords: dict[str, Any]) -> list[Any]:
        """The arguments in the order of the program's parameters, None for omitted outputs."""
        if self._is_snippet:
            return self._arrange_snippet(args, out, keywords)
        arranged = list(args)
        if len(args) != len(self._positional) or keywords or self._keywords:
            arranged = self._arrange_named(args, keywords)
        if out is not None:
            arranged += out if type(out) is tuple else (out,)
        return arranged

    def _arrange_named(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> list[Any]:
        names = self.definition.names
        if len(args) > len(self._positional):
            raise KernelTypeError(
                f"{self.name}() takes {len(self._positional)} argument(s), {len(args)} were given; outputs go to out="
            )
        values = {**self._defaults, **dict(zip(self._positional, args, strict=False))}
        for name, value in keywords.items():
            if name not in names or name in self._positional[: len(args)]:
                problem = "has no parameter" if name not in names else "was given twice the parameter"
                raise KernelTypeError(f"{self.name}() {problem} {name!r}; its parameters are {', '.join(names)}")
            values[name] = value
        for name in names:
            if name not in values or values[name] is None:
                raise KernelTypeError(f"{self.name}() lacks argument {name!r}; its parameters are {', '.join(names)}")
            if name in self._keywords and not checks.is_scalar(values[name]):
                raise KernelTypeError(
                    f"{self.name}(): keyword {name!r} is {type(values[name]).__name__}, not a number; "
                    "arrays are positional"
                )
        return [values[name] for name in names]

    def _arrange_snippet(self, args: tuple[Any, ...], out: Any, keywords: dict[str, Any]) -> list[Any]:
        names, first = self.definition.names, self.definition.first_output
        if out is not None or keywords:
            what = "out" if out is not None else next(iter(keywords))
            raise KernelTypeError(f"{self.name}() takes no keyword {what!r}; outputs follow the inputs by position")
        if len(args) != len(names) and len(args) != first:
            expected = str(len(names)) if first is None else f"{first} or, with the outputs, {len(names)}"
            raise KernelTypeError(
                f"{self.name}({', '.join(names)}) takes {expected} argument(s), {len(args)} were given"
            )
        for name, value in zip(names, args, strict=False):
            if value is None:
                raise KernelTypeError(f"{self.name}(): argument {name!r} is None; pass an array or a number")
        return [*args, *[None] * (len(names) - len(args))]

    # --- preparation
    def call(self, arguments: list[Any], size: int | None, plans: dict[tuple[Any, ...], Prepared]) -> Any:
        """Run a call that no plan is known for, or whose arrays are not NumPy's."""
        names = [*self.definition.names, *(f"out{number}" for number in range(len(arguments)))]
        backend, device, infos = checks.common_device(self.name, names, arguments)
        if backend is None or device is None:
            if size is None:
                raise KernelTypeError(f"{self.name}(): no argument is an array, so that no backend is chosen; pass one")
            backend = _registry.default_backend()
            device = backend.device_current()
        if device.kind == "cuda":
            return self._call_cuda(backend, device, arguments, infos, size, plans)
        return self._call_host(backend, device, arguments, infos, size, plans)

    def _call_host(
        self,
        backend: Backend,
        device: Device,
        arguments: list[Any],
        infos: dict[int, ArrayInfo],
        size: int | None,
        plans: dict[tuple[Any, ...], Prepared],
    ) -> Any:
        owner = backend.at(device)
        hosts = [owner.host_view(each) if number in infos else each for number, each in enumerate(arguments)]
        key = (*map(_host_key, hosts), size) if backend.name == "numpy" else (*map(_host_key, hosts), size, device)
        prepared = plans.get(key)
        if prepared is None:
            prepared = self._remember(plans, key, self.prepare(backend, device, arguments, infos, size))
        return prepared.run_host(hosts, arguments)

    def _call_cuda(
        self,
        backend: Backend,
        device: Device,
        arguments: list[Any],
        infos: dict[int, ArrayInfo],
        size: int | None,
        plans: dict[tuple[Any, ...], Prepared],
    ) -> Any:
        key = tuple(
            (infos[number].dtype, infos[number].shape, infos[number].strides) if number in infos else _host_key(each)
            for number, each in enumerate(arguments)
        )
        key = (*key, size, device)
        prepared = plans.get(key)
        if prepared is None:
            prepared = self._remember(plans, key, self.prepare(backend, device, arguments, infos, size))
        return prepared.run_cuda(arguments, infos)

    def _remember(self, plans: dict[tuple[Any, ...], Prepared], key: tuple[Any, ...], prepared: Prepared) -> Prepared:
        if len(plans) >= _MOST_PLANS:
            plans.clear()
        plans[key] = prepared
        return prepared

    def prepare(
        self, backend: Backend, device: Device, arguments: Sequence[Any], infos: dict[int, ArrayInfo], size: int | None
    ) -> Prepared:
        """Check everything that shapes and dtypes decide, and plan the call."""
        kinds = tuple(self._kind(number, each, infos) for number, each in enumerate(arguments))
        scalars = frozenset(n for n, each in enumerate(arguments) if each is not None and n not in infos)
        special = self._specialize(kinds, scalars)
        shape = self._shape(special, infos, size)
        return Prepared(self, backend, device, special, shape, scalars, infos)

    def _kind(self, number: int, value: Any, infos: dict[int, ArrayInfo]) -> Kind:
        if value is None:
            return None
        if number in infos:
            return checks.native_dtype(infos[number].dtype, self._name(number))
        return value.dtype if isinstance(value, np.generic) else type(value)

    def _name(self, number: int) -> str:
        names = self.definition.names
        return names[number] if number < len(names) else f"out{number - len(names)}"

    def _specialize(self, kinds: tuple[Kind, ...], scalars: frozenset[int]) -> Specialization:
        if not self._is_snippet:
            kinds = kinds[: len(self.definition.names)]
        key = (kinds, scalars)
        special = self._specialized.get(key)
        if special is None:
            special = self._specialized[key] = self.definition.specialize(kinds, scalars)
        return special

    def _shape(self, special: Specialization, infos: dict[int, ArrayInfo], size: int | None) -> tuple[int, ...]:
        params = special.program.params
        if max(infos, default=0) >= len(params):
            raise KernelTypeError(
                f"{self.name}() has {len(special.outputs)} output(s); out= has more than that"
            )
        named = [
            (self._name(number), info.shape) for number, info in infos.items() if not params[number].is_raw
        ]
        if size is not None:
            if named:
                raise KernelTypeError(f"{self.name}(): size= is only for calls whose arrays are all raw; leave it out")
            if type(size) is not int or size < 0:
                raise KernelTypeError(f"{self.name}(): size={size!r} must be an int, 0 or more")
            return (size,)
        if not named:
            raise KernelTypeError(f"{self.name}(): no argument has a shape to loop over; pass size=")
        outputs = {self._name(number) for number in special.outputs}
        inputs = [(name, shape) for name, shape in named if name not in outputs]
        return broadcast_shape(inputs or named)


def _host_key(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return (value.dtype, value.shape, value.strides)
    return value.dtype if isinstance(value, np.generic) else type(value) if value is not None else None


class Prepared:
    """A checked call: dtypes, shape and layout are settled; what is left is pointers and scalar values."""

    def __init__(
        self,
        caller: Caller,
        backend: Backend,
        device: Device,
        special: Specialization,
        shape: tuple[int, ...],
        scalars: frozenset[int],
        infos: dict[int, ArrayInfo],
    ) -> None:
        self.backend = backend
        self.device = device
        self.shape = shape
        self._caller = caller
        self._program: Program = special.program
        self._special = special
        self._scalars = sorted(scalars)
        self._names = [param.name for param in special.program.params]
        self._raw = frozenset(number for number, param in enumerate(self._program.params) if param.is_raw)
        self._omitted = [number for number in special.outputs if number not in infos]
        self._check(infos)
        self._plans: dict[bool, NumpyPlan] = {}
        self._cuda_plans: dict[tuple[Any, ...], CudaPlan] = {}
        self._swapped = [number for number, info in infos.items() if not info.dtype.isnative]

    def _check(self, infos: dict[int, ArrayInfo]) -> None:
        given = [number for number in self._special.outputs if number in infos]
        name = self._caller.name
        if given and self._omitted:
            raise KernelTypeError(
                f"{name}(): {len(given)} of {len(self._special.outputs)} outputs are given; give all or none"
            )
        for number in self._omitted:
            if self._program.params[number].is_raw:
                raise KernelTypeError(
                    f"{name}(): output {self._names[number]!r} is raw and has no shape; pass an array"
                )
            if number in self._program.reads:
                raise KernelTypeError(
                    f"{name}(): output {self._names[number]!r} is read before it is written; "
                    "pass an array with its content"
                )
        for number in self._program.writes:
            if number in infos:
                info = infos[number]._replace(dtype=checks.native_dtype(infos[number].dtype, self._names[number]))
                if number in self._raw:
                    checks.check_writable(name, self._names[number], info)
                else:
                    checks.check_output(name, self._names[number], info, self.shape, self._program.params[number].dtype)

    def scalar(self, number: int, value: Any) -> np.generic:
        """The argument of scalar parameter ``number``, converted and in range."""
        name = self._names[number]
        if ranges := self._special.ranges.get(number):
            checks.check_range(value, ranges, name)
        return checks.convert_scalar(value, self._program.params[number].dtype, name)

    # --- on a CPU
    def run_host(self, hosts: list[Any], originals: list[Any] | None = None) -> Any:
        """Run on NumPy arrays; ``originals`` are the backend's own arrays over the same memory."""
        operands = list(hosts)
        operands += [None] * (len(self._names) - len(operands))
        results = list(originals or hosts)
        results += [None] * (len(self._names) - len(results))
        for number in self._scalars:
            operands[number] = np.array(self.scalar(number, hosts[number]))
        for number in self._omitted:
            operands[number], results[number] = self._new_output(number)
        swapped = self._swapped
        if swapped:
            for number in swapped:
                operands[number] = operands[number].astype(operands[number].dtype.newbyteorder("="))
        is_aliased = self._is_aliased(hosts)
        plan = self._plans.get(is_aliased)
        if plan is None:
            plan = NumpyPlan(self._program, self.shape, operands, is_aliased=is_aliased)
            self._plans[is_aliased] = plan
        plan.run(operands)
        for number in swapped:
            if number in self._program.writes:
                hosts[number][...] = operands[number]
        return self._returned(results)

    def _new_output(self, number: int) -> tuple[A, Any]:
        dtype = self._program.params[number].dtype
        if self.backend.name == "numpy":
            array: A = np.empty(self.shape, dtype)
            return array, array
        owner = self.backend.at(self.device)
        result = owner.empty(self.shape, dtype, device=self.device, stream=owner.stream_current(self.device))
        return owner.host_view(result), result

    def _returned(self, results: list[Any]) -> Any:
        outputs = self._special.outputs
        if not outputs:
            return None
        if len(outputs) == 1:
            return results[outputs[0]]
        return tuple(results[number] for number in outputs)

    def _is_aliased(self, hosts: list[Any]) -> bool:
        """Whether an output is an input's memory; an error where it is so in part. The bounds settle it as a rule."""
        aliased = False
        writes = self._program.writes
        for written in writes:
            if written in self._program.reads:
                aliased = True
            if written >= len(hosts) or hosts[written] is None:
                continue
            for number, other in enumerate(hosts):
                if number == written or not isinstance(other, np.ndarray):
                    continue
                if np.may_share_memory(hosts[written], other):
                    return self._check_overlap(hosts) or aliased
        return aliased

    def _check_overlap(self, hosts: list[Any]) -> bool:
        infos = {number: _info(each, self.device) for number, each in enumerate(hosts) if isinstance(each, np.ndarray)}
        present = frozenset(number for number in self._program.writes if number in infos)
        return checks.check_overlap(self._caller.name, self._names, infos, present, self._raw)

    # --- on a CUDA device
    def run_cuda(self, arguments: list[Any], infos: dict[int, ArrayInfo]) -> Any:
        """Launch on the current stream of the arrays' library."""
        owner = self.backend.at(self.device)
        stream = owner.stream_current(self.device)
        results = [*arguments, *[None] * (len(self._names) - len(arguments))]
        if self._omitted:
            infos = dict(infos)
            for number in self._omitted:
                dtype = self._program.params[number].dtype
                results[number] = owner.empty(self.shape, dtype, device=self.device, stream=stream)
                infos[number] = owner.view(results[number])
        is_aliased = self._overlaps(infos)
        key = (is_aliased, *[info.pointer % 16 for info in infos.values()])
        plan = self._cuda_plans.get(key)
        if plan is None:
            plan = self._plan_cuda(owner, infos, key, is_aliased=is_aliased)
        scalars = [self.scalar(number, arguments[number]) for number in self._scalars]
        plan.run([infos[number].pointer for number in plan.array_order], scalars, stream)
        return self._returned(results)

    def _plan_cuda(
        self, owner: Backend, infos: dict[int, ArrayInfo], key: tuple[Any, ...], *, is_aliased: bool
    ) -> CudaPlan:
        from xferlib.kernels.cuda_engine import CudaPlan

        plan = CudaPlan(owner, self.device, self._program, self.shape, infos, is_aliased=is_aliased)
        self._cuda_plans[key] = plan
        return plan

    def _overlaps(self, infos: dict[int, ArrayInfo]) -> bool:
        """Whether an output is an input's memory; a glance at the bounds settles it as a rule."""
        if self._program.writes & self._program.reads:
            return checks.check_overlap(self._caller.name, self._names, infos, self._program.writes, self._raw) or True
        spans = {
            number: bounds(info.pointer, info.shape, info.strides, info.dtype.itemsize)
            for number, info in infos.items()
        }
        for written in self._program.writes:
            low, high = spans[written]
            for number, (other_low, other_high) in spans.items():
                if number != written and low < other_high and other_low < high:
                    writes = self._program.writes
                    return checks.check_overlap(self._caller.name, self._names, infos, writes, self._raw)
        return False


def _info(array: A, device: Device) -> ArrayInfo:
    pointer = array.__array_interface__["data"][0]
    return ArrayInfo(pointer, array.shape, array.strides, array.dtype, device, array.flags.writeable)


