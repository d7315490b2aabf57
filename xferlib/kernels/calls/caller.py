"""From the arguments of a call to a prepared call on an engine: check once, remember, run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from xferlib._core import defaults
from xferlib._core.array import ArrayInfo
from xferlib._runtime.checks import whole
from xferlib.errors import KernelShapeError, KernelTypeError, shown
from xferlib.kernels.calls import arguments as checks
from xferlib.kernels.calls.backend_engine import engine_of
from xferlib.kernels.calls.idle import IdleCall
from xferlib.kernels.calls.prepared import CudaCall, HostCall, Prepared, SmallCall
from xferlib.kernels.frontends.definitions import ArgumentKind, Definition, Specialization
from xferlib.kernels.frontends.host_numbers import MOST_VARIANTS, OtherNumbersError
from xferlib.kernels.ir.layout import broadcast_shape

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device

V = TypeVar("V")
MOST_PLANS = 512
_TURNS = 8
"""Calls that are not kept where the table is full, for each that takes another one's place."""


class Plans(dict[Any, V]):
    """What was prepared for the calls of one kernel, by what they depend on; a full table drops one entry at a time.

    Where more kinds of calls than it holds come in turn, dropping the oldest, or all, would drop each just before it is
    wanted again. So most new ones are not kept then, and a part of the old ones stays.
    """

    def __init__(self, most: int = MOST_PLANS) -> None:
        super().__init__()
        self._most = most
        self._waiting = 0

    @property
    def is_full(self) -> bool:
        return len(self) >= self._most

    def keep(self, key: Hashable, value: V) -> None:
        """Remember a prepared call, perhaps in the place of the oldest one."""
        if self.is_full and key not in self:
            self._waiting = (self._waiting + 1) % _TURNS
            if self._waiting:
                return
            with contextlib.suppress(RuntimeError, StopIteration):  # another thread keeps one, too
                self.pop(next(iter(self)), None)
        self[key] = value


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
        if out is None and len(args) > count and all(map(checks.is_array, args[count:])):
            args, out = args[:count], args[count:]
        arranged = list(args)
        is_whole = len(args) == len(self._positional) and not any(each is None for each in args)
        if not is_whole or keywords or self._keywords:
            arranged = self._arrange_named(args, keywords)
        if out is not None:
            arranged += out if type(out) is tuple else (out,)
            self._check_outputs(arranged, len(self.definition.names))
        return arranged

    def _check_outputs(self, arranged: Sequence[Any], first: int) -> None:
        """Refuse numbers in the place of outputs."""
        for number, value in enumerate(arranged[first:], first):
            if checks.is_scalar(value):
                raise KernelTypeError(
                    f"{self.name}(): output {self._name(number)!r} is {type(value).__name__}, and no array to write "
                    "to; give an array, or leave it out for a new one"
                )

    def _arrange_named(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> list[Any]:
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
                raise KernelTypeError(f"{self.name}() lacks argument {name!r}; its parameters are {', '.join(names)}")
            if name in self._keywords and not checks.is_scalar(values[name]):
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
    ) -> tuple[Prepared, Callable[[Sequence[Any], list[Any]], Any], list[Any]]:
        """Check all that shapes and dtypes decide, and choose the engine.

        Returns:
            The checked call, and what `Prepared.run_again` takes besides the arguments.
        """
        given = [each for each in arguments if each is not None]
        backend, device, infos = checks.common_device(self.name, self._names(len(given)), given)
        if backend is None or device is None:
            if size is None:
                raise KernelTypeError(f"{self.name}(): no argument is an array, so that no backend is chosen; pass one")
            backend = defaults.default_backend()
            device = backend.device_current()
        kinds = tuple(self._kind(number, each, infos) for number, each in enumerate(arguments))
        special = self._specialize(kinds, _scalars(given, infos), arguments)
        values = [infos[n].pointer if n in infos else each for n, each in enumerate(given)]
        values = values if device.kind == "cuda" else given
        numbers = special.numbers
        if numbers is None:
            call = self._checked(special, backend, device, given, infos, size)
            return call, _noted(call), values
        given = numbers.expanded(given, numbers.computed(given))
        call = self._checked(special, backend, device, given, {numbers.moved(n): infos[n] for n in infos}, size)
        return call, numbers.running(_noted(call)), values

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
        backend, device, infos = checks.common_device(self.name, names, given)
        assert backend is not None
        assert device is not None
        call = self._checked(special, backend, device, given, infos, None)
        values = [infos[n].pointer if n in infos else each for n, each in enumerate(given)]
        return lambda: call.run_again(given, values if device.kind == "cuda" else list(given))

    def _checked(
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
        engine = engine_of(checked[1])
        return HostCall(*checked) if engine is None else engine.call(*checked)

    def specialize_for(
        self, arguments: Sequence[Any], plain: Sequence[Any]
    ) -> tuple[Specialization, frozenset[int], Any, Sequence[Any]]:
        """The specialization for these arguments, its scalar parameters, a key for it, and its parameters' values.

        Args:
            arguments: Tensors that torch tracks, and numbers.
            plain: The same, with tensors that have memory.
        """
        _, _, infos = checks.common_device(self.name, self._names(len(plain)), plain)
        kinds = tuple(self._kind(number, each, infos) for number, each in enumerate(arguments))
        kinds += (None,) * (len(self.definition.names) - len(kinds))
        special = self._specialize(kinds, _scalars(arguments, infos), arguments)
        if (numbers := special.numbers) is not None:
            arguments = numbers.expanded(arguments, numbers.computed(arguments))
            infos = {numbers.moved(number): info for number, info in infos.items()}
        return special, _scalars(arguments, infos), id(special), arguments

    def _kind(self, number: int, value: Any, infos: dict[int, ArrayInfo]) -> ArgumentKind:
        if value is None:
            return None
        if number in infos:
            return checks.native_dtype(infos[number].dtype, self._name(number))
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
            with contextlib.suppress(OtherNumbersError):
                special.numbers.computed(arguments)
                return special
        special = self.definition.specialize(kinds, scalars, arguments)
        if self._recorded is not None:
            self._recorded()
        known.insert(0, special)
        del known[MOST_VARIANTS:]
        return special

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
                raise KernelShapeError(f"{self.name}(): size={shown(size)} must be an int, 0 or more")
            return (count,)
        if not named:
            raise KernelShapeError(f"{self.name}(): no argument has a shape to loop over; pass size=")
        outputs = {params[number].name for number in special.outputs}
        inputs = [(name, shape) for name, shape in named if name not in outputs]
        return broadcast_shape(inputs or named)


def _scalars(given: Sequence[Any], infos: dict[int, ArrayInfo]) -> frozenset[int]:
    """The parameters given as numbers."""
    return frozenset(number for number in range(len(given)) if number not in infos)


def _noted(call: Prepared) -> Callable[[Sequence[Any], list[Any]], Any]:
    """`Prepared.run_again`; for a library that counts writes, preceded by telling it which arrays are written."""
    run, labels = call.run_again, call.written
    if not (labels and call.backend.follows_writes):
        return run
    note = call.backend.note_write

    def run_noted(given: Sequence[Any], values: list[Any]) -> Any:
        for number, label in labels:
            note(given[number], label)
        return run(given, values)

    return run_noted
