"""From the arguments of a call to a prepared plan on an engine: check once, remember, run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xferlib import _registry
from xferlib._array import ArrayInfo
from xferlib._counts import whole
from xferlib.errors import KernelTypeError, shown
from xferlib.kernels import arguments as checks
from xferlib.kernels.definitions import Definition, Kind, Specialization
from xferlib.kernels.layout import broadcast_shape
from xferlib.kernels.prepared import CudaCall, HostCall, Prepared

MOST_PLANS = 512


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
    @property
    def needs_arranging(self) -> bool:
        """Whether positional arguments and outputs alone are not all of a call."""
        return bool(self._keywords or self._defaults)

    def arrange(self, args: tuple[Any, ...], out: Any, keywords: dict[str, Any]) -> list[Any]:
        """The arguments in the order of the program's parameters, None for omitted outputs."""
        if self._is_snippet:
            return self._arrange_snippet(args, out, keywords)
        arranged = list(args)
        is_whole = len(args) == len(self._positional) and not any(each is None for each in args)
        if not is_whole or keywords or self._keywords:
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
    def prepare(
        self, arguments: Sequence[Any], size: int | None
    ) -> tuple[Prepared, Callable[[Sequence[Any], list[Any]], Any], list[Any]]:
        """Check everything that shapes and dtypes decide, and choose the engine.

        Returns:
            The checked call, and what `Prepared.run_again` takes besides the arguments.
        """
        given = [each for each in arguments if each is not None]
        names = [*self.definition.names, *(f"out{number}" for number in range(len(given)))]
        backend, device, infos = checks.common_device(self.name, names, given)
        if backend is None or device is None:
            if size is None:
                raise KernelTypeError(f"{self.name}(): no argument is an array, so that no backend is chosen; pass one")
            backend = _registry.default_backend()
            device = backend.device_current()
        kinds = tuple(self._kind(number, each, infos) for number, each in enumerate(arguments))
        scalars = frozenset(number for number in range(len(given)) if number not in infos)
        special = self._specialize(kinds, scalars)
        shape = self._shape(special, infos, size)
        settled = (self.name, backend.at(device), device, special, shape, scalars, infos)
        if device.kind == "cuda":
            cuda = CudaCall(*settled)
            return cuda, cuda.run_again, [infos[n].pointer if n in infos else each for n, each in enumerate(given)]
        if device.kind == "sim":
            from xferlib.sim.calls import SimCall

            simulated = SimCall(*settled)
            return simulated, simulated.run_again, given
        host = HostCall(*settled)
        return host, host.run_again, given

    def settle(self, arguments: Sequence[Any]) -> tuple[Specialization, frozenset[int], Any]:
        """The specialization for these arguments, which of them are scalars, and a key for it."""
        _, _, infos = checks.common_device(self.name, list(self.definition.names), arguments)
        kinds = tuple(self._kind(number, each, infos) for number, each in enumerate(arguments))
        kinds += (None,) * (len(self.definition.names) - len(kinds))
        scalars = frozenset(number for number in range(len(arguments)) if number not in infos)
        return self._specialize(kinds, scalars), scalars, (kinds, scalars)

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
            raise KernelTypeError(f"{self.name}() has {len(special.outputs)} output(s); out= has more than that")
        named = [(self._name(number), info.shape) for number, info in infos.items() if not params[number].is_raw]
        if size is not None:
            if named:
                raise KernelTypeError(f"{self.name}(): size= is only for calls whose arrays are all raw; leave it out")
            count = whole(size, least=0)
            if count is None:
                raise KernelTypeError(f"{self.name}(): size={shown(size)} must be an int, 0 or more")
            return (count,)
        if not named:
            raise KernelTypeError(f"{self.name}(): no argument has a shape to loop over; pass size=")
        outputs = {self._name(number) for number in special.outputs}
        inputs = [(name, shape) for name, shape in named if name not in outputs]
        return broadcast_shape(inputs or named)
