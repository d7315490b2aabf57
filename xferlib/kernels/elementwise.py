"""`elementwise`, one definition for the arrays of any backend, how kernels are pickled, and `astype` as one of them."""

from __future__ import annotations

import functools
import pickle
import sys
from collections.abc import Callable, Sequence
from functools import cache, reduce
from typing import TYPE_CHECKING, Any, NoReturn, overload

import numpy as np

from xferlib._core.arrays import check_dtype, check_number
from xferlib._core.dtypes import name_of
from xferlib._native import inherit_vectorcall
from xferlib._runtime.checks import NoPublicConstructor
from xferlib.errors import KernelTypeError, quote
from xferlib.kernels import cuda_signature
from xferlib.kernels.arguments import SCALARS
from xferlib.kernels.calls import Dispatch
from xferlib.kernels.definitions import (
    Definition,
    SnippetDefinition,
    TracedDefinition,
    check_definition,
    check_texts,
    parse_parameters,
)
from xferlib.kernels.ir import Program
from xferlib.kernels.native_engine import explain_engine

# Pickling of kernels: as the arguments they were made from; a Python function is pickled by its name.

_BY_VALUE = frozenset({"cloudpickle", "dill"})


def find_by_name(module: Any, name: Any) -> Any:
    """The object of a name in a module, dotted for a class's attribute; None if there is none."""
    try:
        return reduce(getattr, str(name).split("."), sys.modules[module])
    except (AttributeError, KeyError):
        return None


def check_function(function: Callable[..., Any], what: str) -> None:
    """Refuse a function that pickle could not find again by its name.

    Where a library that pickles functions by value is loaded, nothing is refused: it may be the caller.

    Raises:
        pickle.PicklingError: It is a lambda, or defined in another function.
    """
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if (
        name is None or find_by_name(module, name) is function
    ):  # an object that says itself how it is pickled, or a function
        return
    if any(each.rpartition(".")[2] in _BY_VALUE for each in list(sys.modules)):
        return
    raise pickle.PicklingError(
        f"{what} {name} cannot be found by its name in module {module}, and so not be pickled; define it with def at "
        "the top of a module, or pickle with cloudpickle"
    )


class KernelClass(NoPublicConstructor):
    """The class of what is called as its base is, until it gets another ``__call__``, as by `unittest.mock`."""

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name == "__call__":
            inherit_vectorcall(self)


@inherit_vectorcall
class ElementwiseKernel(functools.partial[Any], metaclass=KernelClass, by="elementwise"):
    """A kernel made by `elementwise`; calling it runs it on the arrays' backend and device, on its current stream.

    Call it as ``kernel(*args, out=None, size=None, **keywords)``:

    Args:
        *args: Arrays of one backend and device, which broadcast; Python numbers mix. Outputs may follow the
            inputs, all or none.
        out: The output, or a tuple of them; new arrays if omitted. A kernel in PyCUDA's notation has none.
        size: The number of elements, where no argument says so.
        **keywords: The keyword-only scalars of a traced kernel. Of a C snippet: ``block_size``, the threads of a block
            on a GPU, which changes no result; and in PyCUDA's notation ``range`` or ``slice``, the numbers ``i`` of the
            elements to compute, of those of the first array.

    Returns:
        The output or the tuple of outputs; None for a kernel that only writes to its arguments.

    Raises:
        KernelTypeError: Argument count, dtype, shape or overlap.
        LayoutError: An output of another shape or dtype, or read-only.
        MixedBackendsError, MixedDevicesError: Arrays of two backends or devices.
    """

    # A partial is called without building a dict of the keywords, which costs an object with __call__ 0.15 us.

    definition: Definition
    name: str
    _dispatch: Dispatch

    if not TYPE_CHECKING:

        def __getitem__(self, launch: Any) -> NoReturn:
            raise KernelTypeError(
                f"{self.name}[...] would choose threads, which a kernel for each element does by itself; call it with "
                f"arrays: {self.name}(x)"
            )

    def __new__(cls, definition: Definition) -> ElementwiseKernel:
        dispatch = Dispatch(definition, cls)
        self = super().__new__(cls, dispatch.front())
        self._dispatch = dispatch
        self.definition = definition
        self.name = definition.name
        function = getattr(definition, "function", None)
        self.__doc__ = getattr(function, "__doc__", None)
        self.__module__ = getattr(function, "__module__", None) or cls.__module__
        return self

    def __reduce__(self) -> str | tuple[Any, ...]:
        function = getattr(self.definition, "function", None)
        if function is not None:
            name = getattr(function, "__qualname__", None)
            if find_by_name(self.__module__, name) is self:  # decorated: the name of the function is the kernel's
                return str(name)
            check_function(function, f"kernel {self.name}: the function")
        return ElementwiseKernel, (self.definition,)

    def __copy__(self) -> ElementwiseKernel:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ElementwiseKernel:
        return self  # only its caches change

    def __repr__(self) -> str:
        return f"<ElementwiseKernel {self.name}({', '.join(self.definition.names)})>"

    def ir(self, *kinds: Any) -> str:
        """The program for these dtypes or Python types, as text, for reading and for tests.

        Args:
            *kinds: One for each parameter, outputs of a C snippet included.

        Raises:
            KernelTypeError: More or fewer of them, or a kernel that is not defined for them.
            UnsupportedDTypeError: One is no dtype.
        """
        return self._program("ir", kinds).text

    def engine(self, *kinds: Any) -> str:
        """The engine of the next call on a CPU with these dtypes or Python types, and why it is not compiled C.

        Args, raises: As of `ir`.
        """
        return explain_engine(self._program("engine", kinds))

    def _engines(self) -> dict[str, str]:
        """The engines of the calls so far, by the types of their arguments: for `xferlib.explain`."""
        return {types: explain_engine(program) for types, program in self._dispatch._caller.programs()}

    def _program(self, method: str, kinds: Sequence[Any]) -> Program:
        names = self.definition.names
        optional = set(getattr(self.definition, "defaults", ()))
        needed = len([name for name in names if name not in optional])
        if not needed <= len(kinds) <= len(names):
            raise KernelTypeError(
                f"{self.name}.{method}(): {len(kinds)} dtype(s) were given for {', '.join(names)}; give one for each"
            )
        resolved = tuple(
            each if isinstance(each, type) and each in SCALARS else check_number(each, what="dtype") for each in kinds
        )
        scalars = frozenset(number for number, each in enumerate(resolved) if isinstance(each, type))
        return self.definition.specialize(resolved, scalars).program


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
    in_params: str,
    out_params: str,
    operation: str,
    /,
    *,
    name: str = "kernel",
    math: str = "exact",
    preamble: str = "",
    loop_prep: str = "",
    after_loop: str = "",
    options: Sequence[str] = (),
) -> ElementwiseKernel: ...
@overload
def elementwise(
    params: str,
    operation: str,
    /,
    *,
    name: str = "kernel",
    math: str = "exact",
    preamble: str = "",
    loop_prep: str = "",
    after_loop: str = "",
    options: Sequence[str] = (),
) -> ElementwiseKernel: ...


def elementwise(
    *definition: Any,
    name: str | None = None,
    math: str = "exact",
    preamble: str = "",
    loop_prep: str = "",
    after_loop: str = "",
    options: Sequence[str] = (),
) -> Any:
    """Make an element-wise kernel.

    Three notations:

    - ``@elementwise`` over a Python function of scalars, traced with NumPy's promotion;
    - ``elementwise("T x, T y", "T z", "z = x * y", name="product")``: a C snippet with CuPy's signature;
    - ``elementwise("int *x, int *y", "y[i] = x[i] + 1")``: a C snippet with PyCUDA's.

    Args:
        *definition: The function; or the parameter lists and the C statements.
        name: For messages and profilers; the function's own if omitted.
        math: ``"exact"``, the guarantees of the reference, or ``"fast"``: the native float32 functions of each engine.

        preamble: C functions that a snippet may call.
        loop_prep: C statements before the snippet: values that are the same for every element, which it may read.
        after_loop: C statements after the snippet, which know the variables of ``loop_prep`` and not the snippet's own.
        options: Of a CUDA compiler, for C snippets: ``-DNAME=VALUE`` replaces a word of the snippet, and
            ``--use_fast_math`` is ``math="fast"``; those that change no result are taken.

    Raises:
        KernelSyntaxError, KernelTypeError: The signature, snippet or preamble cannot be read, or uses what it does not
            declare. An error that depends on dtypes is raised by the call that has it.
    """
    check_texts("elementwise", math=math, **({} if name is None else {"name": name}))
    if math not in ("exact", "fast"):
        raise KernelTypeError(f"math={quote(math)} is neither 'exact' nor 'fast'")
    given = {"preamble": preamble, "loop_prep": loop_prep, "after_loop": after_loop, "options": options}
    if len(definition) < 2 and (what := next((each for each, value in given.items() if value), None)):
        raise KernelTypeError(f"{what}= is for C snippets; a Python kernel calls Python functions")
    if not definition:
        return lambda function: elementwise(function, name=name, math=math)
    if len(definition) == 1 and isinstance(definition[0], np.ufunc):
        name, operands = definition[0].__name__, ", ".join("xyz"[: definition[0].nin])
        raise KernelTypeError(
            f"elementwise: numpy.{name} has no parameters to read; write lambda {operands}: np.{name}({operands})"
        )
    if len(definition) == 1 and callable(definition[0]):
        return ElementwiseKernel(TracedDefinition(definition[0], name=name, math=math))
    if len(definition) not in (2, 3) or not all(isinstance(each, str) for each in definition):
        raise KernelTypeError(
            "elementwise takes a function, (in_params, out_params, operation) or (params, operation) as strings; "
            f"given were {', '.join(type(each).__name__ for each in definition)}; a name goes by keyword, name="
        )
    check_texts("elementwise", preamble=preamble, loop_prep=loop_prep, after_loop=after_loop)
    compiled = cuda_signature.read(options, math)
    *lists, operation = definition
    lists = list(map(compiled.apply, lists))
    if len(lists) == 2:
        inputs, outputs = parse_parameters(lists[0], "in_params"), parse_parameters(lists[1], "out_params")
    else:
        inputs, outputs = parse_parameters(lists[0], "params"), []
    found = SnippetDefinition(
        inputs,
        outputs,
        operation,
        name=name or "kernel",
        math=compiled.math,
        preamble=preamble,
        loop_prep=loop_prep,
        after_loop=after_loop,
        macros=compiled.macros,
    )
    check_definition(inputs, outputs, found.specialize, f"{loop_prep}{operation}{after_loop}", lambda: found.work)
    return ElementwiseKernel(found)


# Conversion of whole arrays on their device, as the table of guarantees defines it.


@cache
def conversion(name: str, *, saturate: bool) -> ElementwiseKernel:
    """The kernel that converts to a dtype; ``saturate`` as `Traced.astype` has it."""
    return elementwise(lambda x: x.astype(name, saturate=saturate), name="xferlib_cast")


@cache
def _conversion_to(dtype: Any) -> ElementwiseKernel:
    return conversion(name_of(check_dtype(dtype)), saturate=False)


def cast_into(dst: Any, src: Any) -> None:
    """``dst[...] = src``, converted to the dtype of ``dst``, on the current stream; equal shapes."""
    _conversion_to(dst.dtype)(src, out=dst)
