"""The call of an element-wise kernel: finds the prepared run for its arguments with as little Python as possible."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xferlib._core import observe
from xferlib.errors import KernelTypeError
from xferlib.kernels import autograd
from xferlib.kernels.calls import arguments as checks
from xferlib.kernels.calls import options
from xferlib.kernels.calls.caller import Caller, Plans
from xferlib.kernels.calls.captured import Captured, OtherValuesError
from xferlib.kernels.calls.prepared import SmallCall
from xferlib.kernels.frontends.definitions import Definition, SnippetDefinition, Specialization, TracedDefinition
from xferlib.kernels.frontends.host_numbers import OtherNumbersError, Variants

Run = Callable[[Any, list[Any]], Any]
_TURNS = 32
"""Calls of new shapes that are not prepared, where enough shapes are, for each that is."""


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
        self._variants: Plans[Dispatch] = Plans()
        """For calls with options, by the threads of a block and the step between elements."""
        self._turns = 0
        self._captured: Captured | None = None
        if isinstance(definition, TracedDefinition) and recorded is None:
            again = functools.partial(TracedDefinition, definition.function, name=definition.name, math=definition.math)
            self._captured = Captured(definition.function, lambda recorded: Dispatch(again(), make, threads, recorded))

    def call(self, *args: Any, out: Any = None, size: int | None = None, **keywords: Any) -> Any:
        """The call of an `ElementwiseKernel`."""
        if self._captured is not None:
            return self._call_for_captured(self._captured, args, out, size, keywords)
        if keywords and isinstance(self._definition, SnippetDefinition) and not options.NAMES.isdisjoint(keywords):
            return self._call_with_options(args, out, size, keywords)
        if keywords or self._needs_arranging:
            given: Any = self._caller.arrange(args, out, keywords)
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
                    return run(given, given if operands is None else operands(given))
                except OtherNumbersError:  # its numbers are of another kind
                    pass
        return self._look_up(args, out, size, keywords, given)

    def _call_for_captured(
        self, captured: Captured, args: tuple[Any, ...], out: Any, size: int | None, keywords: dict[str, Any]
    ) -> Any:
        """Run a call of a traced function by what was prepared for the values that it captures, as they are now."""
        while True:
            prepared: Dispatch | None = captured.prepared()
            if prepared is None:
                self._captured = None
                return self.call(*args, out=out, size=size, **keywords)
            try:
                return prepared.call(*args, out=out, size=size, **keywords)
            except OtherValuesError:
                continue

    def _call_with_options(self, args: tuple[Any, ...], out: Any, size: int | None, keywords: dict[str, Any]) -> Any:
        threads, elements = options.taken(self.name, keywords, args)
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
            variant = Dispatch(definition, self._make, threads)
            self._variants.keep((threads, step), variant)
        return variant.call(*args, out=out, size=size, **keywords)

    def _look_up(
        self, args: tuple[Any, ...], out: Any, size: int | None, keywords: dict[str, Any], given: Sequence[Any]
    ) -> Any:
        """Run a call unlike the last one."""
        try:
            readers = [*map(checks.reader, given)]
            signatures = [each.signature(value) for each, value in zip(readers, given, strict=True)]
        except Exception:  # no array, or one that cannot be used: the checks of a first call say why
            return self._first_call(args, out, size, keywords, None)
        key = (len(args), size, *signatures)
        try:
            run = self._runs.get(key)
        except TypeError:  # a size that is no number
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
            return run(given, values)
        except OtherNumbersError:
            return self._first_call(args, out, size, keywords, key)

    def _run_small(self, given: Sequence[Any]) -> Any:
        """Run a call on NumPy arrays without preparing it for their shape; `NotImplemented` where it must be."""
        self._turns = (self._turns + 1) % _TURNS
        if self._turns == 0:  # now and then one is prepared, so that a shape that comes often gets its own
            return NotImplemented
        kinds = tuple([each.dtype if type(each) is np.ndarray else type(each) for each in given])
        if kinds not in self._small:
            arrays = [each for each in given if type(each) is np.ndarray]
            is_plain = arrays and all(each.dtype.isnative for each in arrays)
            is_plain = is_plain and all(type(each) is np.ndarray or checks.is_scalar(each) for each in given)
            self._small[kinds] = self._caller.prepare_for_any_shape(given) if is_plain else None
        call = self._small[kinds]
        return NotImplemented if call is None else call.run(given)

    def _remember(self, positional: int, readers: Sequence[checks.Reader], given: Sequence[Any], run: Run) -> None:
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
        if autograd.needs_gradient(arguments):
            return self._with_gradient(arguments, out, size)
        _, run, values = self._caller.prepare(arguments, size)
        if key is not None and not autograd.requires_gradient(arguments):  # else no_grad() would hide a gradient later
            known = self._runs.get(key)
            is_another = isinstance(run, Variants) and isinstance(known, Variants)
            self._runs.keep(key, Variants.joined(run, known) if is_another else run)
        return run([each for each in arguments if each is not None], values)

    def _with_gradient(self, arguments: list[Any], out: Any, size: int | None) -> Any:
        """Run a call on torch tensors that require gradients."""
        given = [each for each in arguments if each is not None]
        special, scalars, key, values = self._caller.specialize_for(given, autograd.unwrapped(given))
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
