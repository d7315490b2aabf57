"""The calls of an element-wise kernel: from the arguments to a prepared run, as fast as Python can."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xferlib.errors import KernelTypeError
from xferlib.kernels import arguments as checks
from xferlib.kernels import autograd, calls
from xferlib.kernels.definitions import Definition
from xferlib.kernels.prepared import Prepared

Run = Callable[[Any, list[Any]], Any]


class _Last(NamedTuple):
    """The last call, if its arguments were arrays of one type: to compare is faster than to look up."""

    positional: int
    matches: Callable[..., bool]
    operands: Callable[[Sequence[Any]], list[Any]] | None
    run: Run


class Dispatch:
    """Runs the calls of one kernel: each kind is checked and prepared once, the last kind is found at once."""

    def __init__(self, definition: Definition) -> None:
        self.name = definition.name
        self._names = definition.names
        self._caller = calls.Caller(definition)
        self._needs_arranging = self._caller.needs_arranging
        self._differentiables: dict[Any, autograd.Differentiable] = {}
        self._runs: dict[tuple[Any, ...], Run] = {}
        self._last: _Last | None = None

    def call(self, *args: Any, out: Any = None, size: int | None = None, **keywords: Any) -> Any:
        """The call of an `ElementwiseKernel`."""
        if keywords or self._needs_arranging:
            given: Any = self._caller.arrange(args, out, keywords)
        else:
            given = args if out is None else (*args, *out) if type(out) is tuple else (*args, out)
        last = self._last
        if last is not None and last[0] == len(args) and size is None:
            _, matches, operands, run = last
            try:
                is_like = matches(*given)
            except Exception:  # an argument of another type; what it is comes out below
                is_like = False
            if is_like:
                return run(given, given if operands is None else operands(given))
        return self._look_up(args, out, size, keywords, given)

    def _look_up(
        self, args: tuple[Any, ...], out: Any, size: int | None, keywords: dict[str, Any], given: Sequence[Any]
    ) -> Any:
        """A call unlike the last one."""
        try:
            readers = [*map(checks.reader, given)]
            signatures = [each.signature(value) for each, value in zip(readers, given, strict=True)]
        except Exception:  # no array, or one that cannot be used: the checks of a first call say why
            return self._first_call(args, out, size, keywords, None)
        key = (len(args), size, *signatures)
        run = self._runs.get(key)
        if run is None:
            return self._first_call(args, out, size, keywords, key)
        pairs = zip(readers, given, strict=True)
        if size is None and len({*map(type, given)}) == 1 and (matcher := readers[0].matcher) is not None:
            self._last = _Last(len(args), matcher(given), readers[0].operands, run)
        return run(given, [value if each.operands is None else each.operands((value,))[0] for each, value in pairs])

    def _first_call(
        self, args: tuple[Any, ...], out: Any, size: int | None, keywords: dict[str, Any], key: tuple[Any, ...] | None
    ) -> Any:
        """A call of a kind not seen before: check it, remember it under ``key``, run it."""
        arguments = self._caller.arrange(args, out, keywords)
        if autograd.needs_gradient(arguments):
            return self._with_gradient(arguments, out, size)
        prepared, run, values = self._caller.prepare(arguments, size)
        if prepared.backend.follows_writes and prepared.written:
            run = _noting(prepared)
        if key is not None and not autograd.requires_gradient(arguments):  # else no_grad() would hide a gradient later
            if len(self._runs) >= calls.MOST_PLANS:
                self._runs.clear()
            self._runs[key] = run
        return run([each for each in arguments if each is not None], values)

    def _with_gradient(self, arguments: list[Any], out: Any, size: int | None) -> Any:
        """A call on torch tensors that require gradients."""
        given = [each for each in arguments if each is not None]
        special, scalars, key = self._caller.settle(autograd.unwrapped(given))
        if out is not None or size is not None or len(given) > len(special.program.params) - len(special.outputs):
            raise KernelTypeError(
                f"{self.name}(): out= and size= cannot be used on tensors that torch follows for a derivative; "
                "leave them out, call under torch.no_grad(), or on x.detach()"
            )
        found = self._differentiables.get(key)
        if found is None:
            found = autograd.Differentiable(self.name, special, scalars, self._run_arranged)
            self._differentiables[key] = found
        return autograd.apply(found, given)

    def _run_arranged(self, *arguments: Any) -> Any:
        """Run on arguments in the order of the program, without recording."""
        missing = [None] * (len(self._names) - len(arguments))
        _, run, values = self._caller.prepare([*arguments, *missing], None)
        return run(arguments, values)


def _noting(prepared: Prepared) -> Run:
    """`Prepared.run_again`, having told the library which arrays it writes."""
    run, note, labels = prepared.run_again, prepared.backend.note_write, prepared.written

    def run_noted(given: Any, values: list[Any]) -> Any:
        for number, label in labels:
            note(given[number], label)
        return run(given, values)

    return run_noted
