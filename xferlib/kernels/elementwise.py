"""`elementwise`: one definition, called on the arrays of any backend."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, overload

import numpy as np

from xferlib.errors import KernelTypeError
from xferlib.kernels import autograd, calls, signature
from xferlib.kernels.arguments import READERS, SCALARS
from xferlib.kernels.definitions import Definition, SnippetDefinition, TracedDefinition

Run = Callable[[Any, list[Any]], Any]


class _Last(NamedTuple):
    """The last call, if its arguments were arrays of one type: to compare is faster than to look up.

    ``read`` is None for NumPy arrays, which are read in place.
    """

    positional: int
    kinds: list[type]
    read: Callable[[Any], tuple[Any, Hashable]] | None
    key: Any
    run: Run


class ElementwiseKernel:
    """A kernel made by `elementwise`. Calling it runs it on the arrays' backend and device, on its current stream."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.name = definition.name
        self.__doc__ = getattr(getattr(definition, "function", None), "__doc__", None)
        self._caller = calls.Caller(definition)
        self._needs_arranging = self._caller.needs_arranging
        self._differentiables: dict[Any, autograd.Differentiable] = {}
        self._runs: dict[tuple[Any, ...], Run] = {}
        self._last: _Last | None = None

    def __repr__(self) -> str:
        return f"<ElementwiseKernel {self.name}({', '.join(self.definition.names)})>"

    def __call__(self, *args: Any, out: Any = None, size: int | None = None, **keywords: Any) -> Any:
        """Run the kernel.

        Args:
            *args: Arrays of one backend and device, which broadcast; Python numbers mix. A snippet's
                outputs follow its inputs, all or none.
            out: The output of a traced kernel, or a tuple of them; new arrays if omitted.
            size: The number of elements, where no argument says so.
            **keywords: The keyword-only scalars of a traced kernel.

        Returns:
            The output or the tuple of outputs; None for a kernel that only writes to its arguments.

        Raises:
            KernelTypeError: Argument count, dtype, shape or overlap.
            LayoutError: An output of another shape or dtype, or read-only.
            MixedBackendsError, MixedDevicesError: Arrays of two backends or devices.
        """
        if keywords or self._needs_arranging:
            given: Any = self._caller.arrange(args, out, keywords)
        else:
            given = args if out is None else (*args, *out) if type(out) is tuple else (*args, out)
        last = self._last
        if last is not None and last.positional == len(args) and size is None and [*map(type, given)] == last.kinds:
            if last.read is None:
                values: Any = given
                key: Any = [(each.dtype, each.shape, each.strides) for each in given]
            else:
                values, key = zip(*map(last.read, given), strict=True)
            if key == last.key:
                return last.run(given, values)
        return self._look_up(args, out, size, keywords, given)

    def _look_up(
        self, args: tuple[Any, ...], out: Any, size: int | None, keywords: dict[str, Any], given: Sequence[Any]
    ) -> Any:
        """A call unlike the last one."""
        key: list[Any] = [len(args), size]
        values: list[Any] = []
        kinds = [*map(type, given)]
        for each, kind in zip(given, kinds, strict=True):
            if (read := READERS.get(kind)) is None:  # a type not met before, or no array at all
                return self._first_call(args, out, size, keywords, None)
            value, signature = read(each)
            key.append(signature)
            values.append(value)
        run = self._runs.get(tuple(key))
        if run is None:
            return self._first_call(args, out, size, keywords, tuple(key))
        if size is None and len(set(kinds)) == 1 and kinds[0] not in SCALARS:
            self._last = _Last(len(args), kinds, READERS[kinds[0]], tuple(key[2:]), run)
            if kinds[0] is np.ndarray:
                self._last = _Last(len(args), kinds, None, key[2:], run)
        return run(given, values)

    def _first_call(
        self, args: tuple[Any, ...], out: Any, size: int | None, keywords: dict[str, Any], key: tuple[Any, ...] | None
    ) -> Any:
        """A call of a kind not seen before: check it, remember it under ``key``, run it."""
        arguments = self._caller.arrange(args, out, keywords)
        if autograd.needs_gradient(arguments):
            return self._with_gradient(arguments, out, size)
        _, run, values = self._caller.prepare(arguments, size)
        if key is not None and not autograd.requires_gradient(arguments):  # else no_grad() would hide a gradient later
            if len(self._runs) >= calls.MOST_PLANS:
                self._runs.clear()
            self._runs[key] = run
        return run([each for each in arguments if each is not None], values)

    def _with_gradient(self, arguments: list[Any], out: Any, size: int | None) -> Any:
        """A call on torch tensors that require gradients."""
        given = [each for each in arguments if each is not None]
        special, scalars, key = self._caller.settle(given)
        if out is not None or size is not None or len(given) > len(special.program.params) - len(special.outputs):
            raise KernelTypeError(
                f"{self.name}(): out= and size= cannot be used on tensors that require gradients; "
                "leave them out, or call under torch.no_grad()"
            )
        found = self._differentiables.get(key)
        if found is None:
            found = autograd.Differentiable(self.name, special, scalars, self._run_arranged)
            self._differentiables[key] = found
        return autograd.apply(found, given)

    def _run_arranged(self, *arguments: Any) -> Any:
        """Run on arguments in the order of the program, without recording."""
        missing = [None] * (len(self.definition.names) - len(arguments))
        _, run, values = self._caller.prepare([*arguments, *missing], None)
        return run(arguments, values)

    def ir(self, *kinds: Any) -> str:
        """The program for these dtypes or Python types, as text: for reading and for tests."""
        resolved = tuple(each if isinstance(each, type) and each in SCALARS else np.dtype(each) for each in kinds)
        scalars = frozenset(number for number, each in enumerate(resolved) if isinstance(each, type))
        return self.definition.specialize(resolved, scalars).program.text


@overload
def elementwise(
    function: Callable[..., Any], /, *, name: str | None = None, math: str = "exact"
) -> ElementwiseKernel: ...
@overload
def elementwise(
    *, name: str | None = None, math: str = "exact"
) -> Callable[[Callable[..., Any]], ElementwiseKernel]: ...
@overload
def elementwise(
    in_params: str, out_params: str, operation: str, /, *, name: str = "kernel", math: str = "exact"
) -> ElementwiseKernel: ...
@overload
def elementwise(params: str, operation: str, /, *, name: str = "kernel", math: str = "exact") -> ElementwiseKernel: ...


def elementwise(*definition: Any, name: str | None = None, math: str = "exact") -> Any:
    """Make an element-wise kernel.

    Three notations:

    - ``@elementwise`` over a Python function of scalars, traced with NumPy's promotion;
    - ``elementwise("T x, T y", "T z", "z = x * y", name="product")``: a C snippet with CuPy's signature;
    - ``elementwise("int *x, int *y", "y[i] = x[i] + 1")``: a C snippet with PyCUDA's.

    Args:
        *definition: The function; or the parameter lists and the C statements.
        name: For messages and profilers; the function's own if omitted.
        math: ``"exact"``, the guarantees of the reference, or ``"fast"``: the native float32 functions of each engine.

    Raises:
        KernelSyntaxError: The signature or snippet cannot be read.
    """
    if math not in ("exact", "fast"):
        raise KernelTypeError(f"math={math!r} is neither 'exact' nor 'fast'")
    if not definition:
        return lambda function: elementwise(function, name=name, math=math)
    if len(definition) == 1 and callable(definition[0]):
        return ElementwiseKernel(TracedDefinition(definition[0], name=name, math=math))
    if len(definition) not in (2, 3) or not all(isinstance(each, str) for each in definition):
        raise KernelTypeError(
            "elementwise takes a function, (in_params, out_params, operation) or (params, operation) as strings; "
            f"given were {', '.join(type(each).__name__ for each in definition)}"
        )
    *lists, operation = definition
    if len(lists) == 2:
        inputs, outputs = signature.parse(lists[0], "in_params"), signature.parse(lists[1], "out_params")
    else:
        inputs, outputs = signature.parse(lists[0], "params"), []
    return ElementwiseKernel(SnippetDefinition(inputs, outputs, operation, name=name or "kernel", math=math))
