"""Random element-wise expressions, as each library writes them.

An expression is an input's name, a number, or a tuple of a function's name and its operands; the names are those that
NumPy, CuPy and PyTorch share. What would magnify rounding errors without limit is not drawn: a divisor and what is
under a root is at least 1, an exponent negative.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

import xferlib as xl
from xferlib._cli import bench
from xferlib._cli.bench import ArrayLibrary, HostArray, size_text
from xferlib._cli.sweep_trial import Cut, Peers, Shape, Trial, Ways, cut, drawn_operand, drawn_view, ordinary, scaled
from xferlib.kernels import reductions
from xferlib.kernels.functions import guarantee

Expression: TypeAlias = "str | float | tuple[Any, ...]"
NAMES = ("x", "y", "z")
_BINARY = {
    "f": ("add", "subtract", "multiply", "maximum", "minimum", "divide"),
    "i": ("add", "subtract", "multiply", "maximum", "minimum", "bitwise_and", "bitwise_xor"),
    "b": ("bitwise_and", "bitwise_or", "bitwise_xor"),
    "c": ("add", "subtract", "multiply"),
}
_UNARY = ("exp", "sqrt", "log1p", "tanh", "sin", "cos", "half", "more")
_INFIX = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "bitwise_and": "&", "bitwise_or": "|",
    "bitwise_xor": "^",
}  # fmt: skip
_EXTREMA = {"maximum": ">", "minimum": "<"}


def draw_expression(
    chance: np.random.Generator, names: tuple[str, ...], kind: str, narrow: tuple[str, ...]
) -> Expression:
    """An expression that uses every name.

    Args:
        chance: Draws it.
        names: Of the inputs.
        kind: The letter of the result's dtype: f, i, b or c.
        narrow: The inputs of a narrower dtype, which are added to the first one: alone they would overflow.
    """

    def leaf(name: str) -> Expression:
        return ("add", name, names[0]) if name in narrow else name

    parts = [leaf(name) for name in names]
    parts += [leaf(str(chance.choice(names))) for _ in range(int(chance.integers(0, 3)))]
    if kind == "b" or (kind == "c" and len(parts) == 1):
        parts.append(leaf(names[0]))
    if kind in "fi":
        parts = [_unary(chance, part, kind) if chance.random() < 0.4 else part for part in parts]
    while len(parts) > 1:
        one, two = (parts.pop(int(chance.integers(len(parts)))) for _ in range(2))
        function = str(chance.choice(_BINARY[kind]))
        parts.append((function, one, ("add", ("abs", two), 1) if function == "divide" else two))
    if isinstance(parts[0], str) or (kind in "fi" and chance.random() < 0.3):
        return _unary(chance, parts[0], kind)
    return parts[0]


def _unary(chance: np.random.Generator, operand: Expression, kind: str) -> Expression:
    if kind != "f":
        return (("multiply", operand, 3), ("add", operand, 7))[int(chance.integers(2))]
    function = str(chance.choice(_UNARY))
    forms: dict[str, Expression] = {
        "exp": ("exp", ("negative", ("abs", operand))),
        "sqrt": ("sqrt", ("add", ("abs", operand), 1)),
        "log1p": ("log1p", ("abs", operand)),
        "half": ("multiply", operand, 0.5),
        "more": ("add", operand, 0.25),
    }
    return forms.get(function, (function, operand))


def text(expression: Expression, out: str = "") -> str:
    """The expression in Python, with functions of a module ``m``; ``out`` names an array for the result."""
    if not isinstance(expression, tuple):
        return str(expression)
    function, *operands = expression
    given = [text(each) for each in operands] + ([f"out={out}"] if out else [])
    return f"m.{function}({', '.join(given)})"


def function(source: str, module: Any, names: tuple[str, ...]) -> Callable[..., Any]:
    """A Python function of these names that returns ``source``, whose ``m`` is the module."""
    made: Callable[..., Any] = eval(f"lambda {', '.join(names)}: {source}", {"m": module})  # noqa: S307 - drawn above
    made.__name__ = "sweep"
    return made


def c_text(expression: Expression, ctype: str) -> str:
    """The expression in CUDA C++, each step rounded to the type."""
    if not isinstance(expression, tuple):
        return f"(({ctype}){expression})"
    function, *operands = expression
    given = [c_text(each, ctype) for each in operands]
    if function in _INFIX:
        return f"(({ctype})({given[0]} {_INFIX[function]} {given[1]}))"
    if function in _EXTREMA:
        return f"({given[0]} {_EXTREMA[function]} {given[1]} ? {given[0]} : {given[1]})"
    if function == "negative":
        return f"(-{given[0]})"
    return f"{function}({given[0]})"


def numexpr_text(expression: Expression) -> str:
    """The expression for numexpr; numbers are called c3 and c0_5, for only arrays keep their dtype."""
    if isinstance(expression, str):
        return expression
    if not isinstance(expression, tuple):
        return number_name(expression)
    function, *operands = expression
    given = [numexpr_text(each) for each in operands]
    if function in _INFIX:
        return f"({given[0]} {_INFIX[function]} {given[1]})"
    if function in _EXTREMA:
        return f"where({given[0]} {_EXTREMA[function]} {given[1]}, {given[0]}, {given[1]})"
    return f"(-{given[0]})" if function == "negative" else f"{function}({given[0]})"


def number_name(number: float) -> str:
    """The name of a number for numexpr."""
    return "c" + str(number).replace(".", "_")


def numbers_of_expression(expression: Expression) -> set[float]:
    """The numbers in the expression."""
    if isinstance(expression, tuple):
        return {number for each in expression[1:] for number in numbers_of_expression(each)}
    return set() if isinstance(expression, str) else {expression}


def functions_of_expression(expression: Expression) -> set[str]:
    """The names of the functions in the expression."""
    if not isinstance(expression, tuple):
        return set()
    return {str(expression[0])}.union(*(functions_of_expression(each) for each in expression[1:]))


def evaluated(expression: Expression, inputs: dict[str, HostArray], largest: list[float]) -> Any:
    """The values by NumPy, step for step; ``largest[0]`` becomes the largest size of all steps, if it was smaller."""
    if isinstance(expression, str):
        return inputs[expression]
    if not isinstance(expression, tuple):
        return expression
    operands = [evaluated(each, inputs, largest) for each in expression[1:]]
    value = getattr(np, expression[0])(*operands)
    if value.dtype.kind in "fc" and value.size:
        largest[0] = max(largest[0], float(np.abs(value).max()))
    return value


# Random element-wise kernels: the expression, its inputs, and where the result goes.

DTYPES = (
    "float32", "float32", "float32", "float64", "float16", "int32", "int64", "uint8", "int16", "bool", "complex64",
)  # fmt: skip
NARROWER = {"float32": ("float16", "uint8", "int16"), "float64": ("float32", "int32"), "int32": ("uint8", "int16")}
"""Those that NumPy and PyTorch promote alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One array, which broadcasts to the shape of the result."""

    shape: Shape
    dtype: str
    layout: str
    variant: int
    """Chooses among the layouts of that name, and the data."""

    def cut(self) -> Cut:
        return cut(self.shape, self.layout, np.random.default_rng(self.variant))

    def memory(self) -> HostArray:
        """Flat memory of which the array is a cut; floats are from 0 to 2."""
        chance = np.random.default_rng(self.variant)
        return scaled(math.prod(self.cut().extents), np.dtype(self.dtype), chance)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCase:
    """An expression of one to three arrays."""

    name: str
    library: str
    """The backend of the arrays that xferlib takes."""
    expression: Expression
    inputs: tuple[Input, ...]
    is_new: bool
    """To a new array, rather than into one that is there."""
    out: Input
    """The result; new ones are contiguous."""

    @property
    def names(self) -> tuple[str, ...]:
        return NAMES[: len(self.inputs)]

    @property
    def nbytes(self) -> int:
        """Bytes read and written."""
        return sum(math.prod(each.shape) * np.dtype(each.dtype).itemsize for each in (*self.inputs, self.out))

    @property
    def group(self) -> str:
        return "new result" if self.is_new else "out="

    def __str__(self) -> str:
        inputs = "; ".join(
            f"{name} {each.dtype} {each.shape} {each.layout}"
            for name, each in zip(self.names, self.inputs, strict=True)
        )
        target = "a new array" if self.is_new else f"a {self.out.layout} array"
        formula = text(self.expression).replace("m.", "")
        return f"{formula}, {size_text(self.nbytes)}, {inputs}, into {target}, {self.library}"


def drawn(seed: int, number: int, libraries: tuple[str, ...], most: int | None = None) -> KernelCase:
    """Draw a kernel; sizes are log-uniform from 1 Ki elements to 64 Mi.

    Args:
        seed, number: Of the sweep, and of the case in it: the same case at each call.
        libraries: To choose from.
        most: Bytes of the largest array, if that is less.
    """
    chance = np.random.default_rng([seed, number, 2])
    library = libraries[number % len(libraries)]
    dtype = str(chance.choice(DTYPES))
    shape = drawn_operand(dtype, most, chance)
    inputs = [_input(chance, shape, dtype, library)]
    names, narrow = NAMES[: int(chance.integers(1, 4))], []
    for name in names[1:]:
        other = dtype
        if dtype in NARROWER and chance.random() < 0.2:
            other = str(chance.choice(NARROWER[dtype]))
            narrow.append(name)
        inputs.append(_input(chance, _broadcast(chance, shape) if chance.random() < 0.3 else shape, other, library))
    kind = np.dtype(dtype).kind.replace("u", "i")
    is_new = bool(chance.random() < 0.5)
    out = _input(chance, shape, dtype, library)
    if is_new:
        out = Input(shape=shape, dtype=dtype, layout="contiguous", variant=0)
    return KernelCase(
        name=f"kernel:{seed}:{number}", library=library, inputs=tuple(inputs), is_new=is_new, out=out,
        expression=draw_expression(chance, names, kind, tuple(narrow)),
    )  # fmt: skip


def _input(chance: np.random.Generator, shape: Shape, dtype: str, library: str) -> Input:
    layout = drawn_view(shape, library, chance)
    return Input(shape=shape, dtype=dtype, layout=layout, variant=int(chance.integers(1 << 31)))


def _broadcast(chance: np.random.Generator, shape: Shape) -> Shape:
    """A shape that broadcasts to it: without its first axes, or with extents of 1."""
    if len(shape) > 1 and chance.random() < 0.5:
        return shape[int(chance.integers(1, len(shape))) :]
    kept = chance.random(len(shape)) < 0.5
    kept[int(chance.integers(len(shape)))] = False
    return tuple(extent if keep else 1 for extent, keep in zip(shape, kept, strict=True))


# How each library evaluates an expression: every way that its users know. What a way compiles, it compiles first.

_C_TYPES = {
    "float32": "float", "float64": "double", "float16": "float", "int32": "int", "int64": "long long",
    "uint8": "unsigned char", "int16": "short", "bool": "bool", "complex64": "complex<float>",
}  # fmt: skip


def own(device: bench.XferlibDevice, kernel: xl.ElementwiseKernel, inputs: list[Any], out: Any) -> Ways:
    """The kernel, in its default mode."""
    if out is None:
        return ordinary({"elementwise": device.awaited(lambda: kernel(*inputs))})
    return ordinary({"elementwise(out=)": device.awaited(lambda: kernel(*inputs, out=out))})


def eager(library: bench.ArrayLibrary, case: KernelCase, inputs: list[Any], out: Any) -> Ways:
    """One call of the library for each step, the last one into ``out``."""
    if out is None:
        compute = function(text(case.expression), library.module, case.names)
        return ordinary({"eager": library.awaited(lambda: compute(*inputs))})
    source = text(case.expression, out="out")
    compute = function(source, library.module, (*case.names, "out"))
    return ordinary({"eager": library.awaited(lambda: compute(*inputs, out))})


def cupy(library: bench.CupyLibrary, case: KernelCase, inputs: list[Any], out: Any) -> Ways:
    """``ElementwiseKernel`` and ``cupy.fuse``."""
    parameters = ", ".join(f"{each.dtype} {name}" for name, each in zip(case.names, case.inputs, strict=True))
    operation = f"out = {c_text(case.expression, _C_TYPES[case.out.dtype])}"
    kernel = library.module.ElementwiseKernel(parameters, f"{case.out.dtype} out", operation, "sweep")
    fused = library.module.fuse()(function(text(case.expression), library.module, case.names))
    if out is None:
        runs = {
            "ElementwiseKernel": library.awaited(lambda: kernel(*inputs)),
            "fuse": library.awaited(lambda: fused(*inputs)),
        }
        return ordinary(runs)

    def assign() -> None:
        out[...] = fused(*inputs)

    runs = {"ElementwiseKernel": lambda: kernel(*inputs, out), "fuse, assigned": assign}
    return ordinary({name: library.awaited(run) for name, run in runs.items()})


def torch_compiled(library: bench.TorchLibrary, case: KernelCase, inputs: list[Any], out: Any) -> Ways:
    """``torch.compile``, compiled here for these shapes."""
    source, names, given = text(case.expression), case.names, inputs
    if out is not None:
        source, names, given = f"out.copy_({source})", (*case.names, "out"), [*inputs, out]
    compiled = library.module.compile(function(source, library.module, names), dynamic=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled(*given)
    return ordinary({"compile": library.awaited(lambda: compiled(*given))})


def numexpr(case: KernelCase, inputs: list[Any], out: Any) -> Ways:
    """``numexpr.evaluate``, for the dtypes that it has."""
    import numexpr

    if {each.dtype for each in case.inputs} - {"float32", "float64", "int32", "int64", "bool"}:
        raise TypeError("numexpr computes in float32, float64, int32, int64 and bool")
    dtype = np.dtype(case.out.dtype).type
    given: dict[str, Any] = dict(zip(case.names, inputs, strict=True))
    given |= {number_name(each): dtype(each) for each in numbers_of_expression(case.expression)}
    evaluate = functools.partial(numexpr.evaluate, numexpr_text(case.expression), given, out=out)
    return ordinary({"evaluate": evaluate})


# Kernels that are ready to be timed, and what is right.

_CHECKED = 1 << 18
_ROOM = 64


def of_kernel(case: KernelCase, peers: Peers) -> Trial:
    """A kernel on arrays that stay as they are: its time does not depend on them."""
    memory = [each.memory() for each in case.inputs]
    kernel = xl.elementwise(function(text(case.expression), np, case.names), name="sweep")
    device = bench.XferlibDevice(case.library)
    host = host_inputs(case, memory)
    trial = Trial(subject=device.name, problem=partial(_difference, case, kernel, host))
    for library in sorted(peers.libraries.values(), key=lambda each: each.name != case.library):
        trial.add(library.name, partial(_add, trial, case, peers, library, memory, kernel, device))
    return trial


def host_inputs(case: KernelCase, memory: list[HostArray]) -> list[HostArray]:
    """The inputs in host memory."""
    return [each.cut().of(one) for each, one in zip(case.inputs, memory, strict=True)]


def _add(
    trial: Trial, case: KernelCase, peers: Peers, library: ArrayLibrary, memory: list[HostArray],
    kernel: xl.ElementwiseKernel, device: bench.XferlibDevice,
) -> Ways:  # fmt: skip
    """Add xferlib's way if these are its arrays, and return the library's own."""
    cuts = [each.cut() for each in case.inputs]
    inputs = [each.on_device(library, one) for each, one in zip(cuts, memory, strict=True)]
    out = None if case.is_new else case.out.cut().on_device(library, np.zeros_like(case.out.memory()))
    if library.name == case.library:
        trial.add(device.name, partial(own, device, kernel, inputs, out))
    found = eager(library, case, inputs, out)
    if isinstance(library, bench.CupyLibrary):
        found |= cupy(library, case, inputs, out)
    elif isinstance(library, bench.TorchLibrary):
        if peers.compiles:
            trial.add("torch.compile", partial(torch_compiled, library, case, inputs, out))
    elif peers.has_numexpr:
        trial.add("numexpr", partial(numexpr, case, inputs, out))
    return found


def _difference(case: KernelCase, kernel: xl.ElementwiseKernel, host: list[HostArray], result: Any) -> str:
    """Compare with the CPU's bits where they are promised, and with NumPy's numbers."""
    arrived = xl.to_host(result)
    functions = functions_of_expression(case.expression)
    if all(guarantee(name, case.out.dtype).is_identical for name in functions) and arrived.shape == case.out.shape:
        given, found = _sampled(host, arrived)
        if found.tobytes() != np.asarray(kernel(*given)).tobytes():
            return "the bits differ from the CPU's"
    return number_difference(case, host, arrived)


def number_difference(case: KernelCase, host: list[HostArray], arrived: HostArray) -> str:
    """How a result differs from NumPy's by more than rounding; empty if it does not."""
    if arrived.shape != case.out.shape or arrived.dtype != case.out.dtype:
        return f"the result is {arrived.dtype} {arrived.shape}"
    given, found = _sampled(host, arrived)
    largest = [1.0]
    expected = evaluated(case.expression, dict(zip(case.names, given, strict=True)), largest)
    return "" if is_near(found, expected, largest[0]) else "the numbers differ from NumPy's"


def _sampled(host: list[HostArray], arrived: HostArray) -> tuple[list[HostArray], HostArray]:
    """Some elements of the inputs and of the result, the first and the last among them."""
    some = np.random.default_rng(0).integers(0, arrived.size, min(arrived.size, _CHECKED))
    some[:2] = 0, arrived.size - 1
    index = np.unravel_index(some, arrived.shape)
    return [np.broadcast_to(each, arrived.shape)[index] for each in host], arrived[index]


def is_near(found: HostArray, expected: HostArray, largest: float) -> bool:
    """Whether numbers are equal but for rounding: each step errs by some ulp, and hands on errors by its operands."""
    if expected.dtype.kind not in "fc":
        return np.array_equal(found, expected)
    room = _ROOM * float(np.finfo(expected.dtype).eps) * largest**2
    return bool((np.abs(found - expected) <= room).all())


# Random reductions: of an array of any layout, over all axes, one or two.

Axis = int | tuple[int, int] | None
FLOATS = ("float32", "float64", "float16")
REDUCED_DTYPES: dict[str, tuple[str, ...]] = {
    "sum": (*FLOATS, "int32", "int64", "uint8", "bool", "complex64"),
    "prod": ("float32", "float64", "int32"),
    "min": (*FLOATS, "int32", "int64", "uint8"),
    "max": (*FLOATS, "int32", "int64", "uint8"),
    "mean": FLOATS,
    "var": FLOATS,
    "argmax": (*FLOATS, "int32", "int64", "uint8"),
    "any": ("bool", "float32", "uint8"),
    "all": ("bool", "float32", "uint8"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionCase:
    """One reduction to a new array."""

    name: str
    library: str
    """The backend of the array that xferlib takes."""
    operation: str
    shape: Shape
    dtype: str
    layout: str
    axis: Axis
    variant: int
    """Chooses among the layouts of that name, and the data."""

    @property
    def nbytes(self) -> int:
        """Bytes read."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def group(self) -> str:
        if self.axis is None:
            return "over all axes"
        return "over one axis" if isinstance(self.axis, int) else "over two axes"

    def __str__(self) -> str:
        size = size_text(self.nbytes)
        return f"{self.operation} of {size} {self.dtype} {self.shape} {self.layout}, axis {self.axis}, {self.library}"

    def cut(self) -> Cut:
        return cut(self.shape, self.layout, np.random.default_rng(self.variant))

    def memory(self) -> HostArray:
        """Flat memory of which the array is a cut.

        Floats are from 0 to 2. Products are of ones and a few twos, so that they are finite; `any` and `all` find no
        element that would let them end early.
        """
        chance = np.random.default_rng(self.variant)
        dtype, count = np.dtype(self.dtype), math.prod(self.cut().extents)
        if self.operation in ("any", "all", "prod"):
            found = np.full(count, self.operation != "any", dtype)
            if self.operation == "prod":
                found[chance.integers(0, count, 20)] = 2
            return found
        return scaled(count, dtype, chance)


def draw_reduction(seed: int, number: int, libraries: tuple[str, ...], most: int | None = None) -> ReductionCase:
    """Draw a reduction; sizes are log-uniform from 1 Ki elements to 64 Mi.

    Args:
        seed, number: Of the sweep, and of the case in it: the same case at each call.
        libraries: To choose from.
        most: Bytes of the largest, if that is less.
    """
    chance = np.random.default_rng([seed, number, 3])
    library = libraries[number % len(libraries)]
    operation = str(chance.choice(list(REDUCED_DTYPES)))
    dtype = str(chance.choice(REDUCED_DTYPES[operation]))
    shape = drawn_operand(dtype, most, chance)
    layout = drawn_view(shape, library, chance)
    return ReductionCase(
        name=f"reduction:{seed}:{number}", library=library, operation=operation, shape=shape, dtype=dtype,
        layout=layout, axis=_axis(chance, len(shape), operation), variant=int(chance.integers(1 << 31)),
    )  # fmt: skip


def _axis(chance: np.random.Generator, axes: int, operation: str) -> Axis:
    count = int(chance.choice(3, p=(0.25, 0.5, 0.25)))
    if count == 0:
        return None
    chosen = sorted(int(axis) for axis in chance.permutation(axes)[:count])
    if len(chosen) == 1 or operation == "argmax":
        return chosen[0]
    return chosen[0], chosen[1]


# How each library reduces an array.


def own_reduction(device: bench.XferlibDevice, case: ReductionCase, array: Any) -> Ways:
    """The function of `xferlib.kernels.reductions`."""
    reduce, axis = getattr(reductions, case.operation), case.axis
    return ordinary({case.operation: device.awaited(lambda: reduce(array, axis=axis))})


def numpy_like(library: bench.ArrayLibrary, case: ReductionCase, array: Any) -> Ways:
    """The function of NumPy's name."""
    reduce, axis = getattr(library.module, case.operation), case.axis
    return ordinary({case.operation: library.awaited(lambda: reduce(array, axis=axis))})


def torch(library: bench.TorchLibrary, case: ReductionCase, tensor: Any) -> Ways:
    """PyTorch's function, or the two of them for a product over two axes."""
    name, reduce = _torch(library.module, case.operation, case.axis)
    return ordinary({name: library.awaited(lambda: reduce(tensor))})


def _torch(module: Any, operation: str, axis: Axis) -> tuple[str, Callable[[Any], Any]]:
    if operation in ("min", "max"):
        if axis is None:
            reduce = getattr(module, operation)
            return operation, reduce
        extremum = getattr(module, f"a{operation}")
        return f"a{operation}", lambda tensor: extremum(tensor, dim=axis)
    reduce = getattr(module, operation)
    if operation == "var":
        return "var(correction=0)", lambda tensor: reduce(tensor, dim=axis, correction=0)
    if axis is None:
        return operation, reduce
    if operation == "prod" and isinstance(axis, tuple):
        first, second = axis
        return "prod, twice", lambda tensor: reduce(reduce(tensor, dim=second), dim=first)
    return operation, lambda tensor: reduce(tensor, dim=axis)


# Reductions that are ready to be timed, and what is right.

_COMPARED = 1 << 22
"""Elements up to which the CPU reduces the array too."""
_FLOAT16_MOST = 60_000


def of_reduction(case: ReductionCase, peers: Peers) -> Trial:
    """A reduction of an array that stays as it is: its time does not depend on it."""
    memory = case.memory()
    device = bench.XferlibDevice(case.library)
    trial = Trial(subject=device.name, problem=partial(_reduction_difference, case, case.cut().of(memory)))
    for library in sorted(peers.libraries.values(), key=lambda each: each.name != case.library):
        trial.add(library.name, partial(_add_reduction, trial, case, library, memory, device))
    return trial


def _add_reduction(
    trial: Trial, case: ReductionCase, library: ArrayLibrary, memory: HostArray, device: bench.XferlibDevice
) -> Ways:
    """Add xferlib's way if this is its array, and return the library's own."""
    array = case.cut().on_device(library, memory)
    if library.name == case.library:
        trial.add(device.name, partial(own_reduction, device, case, array))
    if isinstance(library, bench.TorchLibrary):
        return torch(library, case, array)
    return numpy_like(library, case, array)


def _reduction_difference(case: ReductionCase, host: HostArray, result: Any) -> str:
    """Compare with the CPU's bits, if that is soon done, and with NumPy's numbers."""
    arrived = np.asarray(xl.to_host(result))
    if host.size <= _COMPARED:
        expected = np.asarray(getattr(reductions, case.operation)(host, axis=case.axis))
        if expected.dtype != arrived.dtype or expected.tobytes() != arrived.tobytes():
            return "the bits differ from the CPU's"
    return sum_difference(case, host, arrived)


def sum_difference(case: ReductionCase, host: HostArray, arrived: HostArray) -> str:
    """How a result differs from NumPy's by more than rounding; empty if it does not.

    All numbers are positive, so that a sum of n errs by some ulp where it is added in pairs.
    """
    wide = {"f": np.float64, "c": np.complex128}.get(host.dtype.kind)
    is_rounded = case.operation in ("sum", "prod", "mean", "var") and wide is not None
    options: dict[str, Any] = {"dtype": wide} if is_rounded else {}
    expected = np.asarray(getattr(np, case.operation)(host, axis=case.axis, **options))
    if arrived.shape != expected.shape:
        return f"the result is {arrived.dtype} {arrived.shape}"
    if not is_rounded:
        return "" if np.array_equal(arrived, expected) else "the results differ from NumPy's"
    found = arrived.astype(wide)
    if host.dtype == np.float16:  # a sum may be beyond the largest
        found, expected = np.minimum(found, _FLOAT16_MOST), np.minimum(expected, _FLOAT16_MOST)
    room = _ROOM * float(np.finfo(host.dtype).eps)
    return "" if np.allclose(found, expected, rtol=room, atol=room) else "the numbers differ from NumPy's"
