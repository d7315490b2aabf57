"""The front end for Python functions: run the function once on traced values, which record the program.

Python's control flow cannot be recorded, so asking a traced value for its truth is an error that shows the user's
line.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from xferlib.errors import KernelError, KernelRangeError, KernelSyntaxError, KernelTypeError
from xferlib.kernels import formulas, functions
from xferlib.kernels.functions import Function
from xferlib.kernels.ir import (
    BOOL,
    FLOAT16,
    FLOAT32,
    INT64,
    MOST_STEPS,
    UINT8,
    UINT64,
    Builder,
    DType,
    Node,
    Param,
    is_complex,
    is_integer,
)
from xferlib.kernels.source_lines import at_user_line, user_call

# The Python numbers of a traced kernel: Python computes with them at each call and passes the results as parameters.
#
# An expression of Python numbers alone follows Python's rules: ``2**n`` is an int or, for a negative ``n``, a float.
# So each call computes it on the host, and a number that meets an array becomes a parameter of the kernel, of the
# dtype that the array gives it (NEP 50). A recording assumes the types that these values have; a call with other
# types is recorded anew.

MOST_VARIANTS = 8
"""Recordings that are kept for one combination of argument types."""

Run = Callable[[Any, list[Any]], Any]


class OtherNumbersError(Exception):
    """The numbers of a call break an assumption of the recording."""


class Step(NamedTuple):
    """A number computed from others: a function of the numbers at the positions ``operands``."""

    function: Callable[..., Any]
    operands: tuple[int, ...]


class Use(NamedTuple):
    """A parameter of the kernel: the number at ``position``, converted to ``dtype``."""

    position: int
    dtype: DType
    text: str


class Assumption(NamedTuple):
    """An assumption of the recording: ``question``, asked of the number at ``position``, gives ``answer``."""

    position: int
    question: Callable[[Any], Any]
    answer: Any


class Recording:
    """The numbers of one recording: first those given, in the order of the parameters, then those computed.

    Args:
        builder: The builder of the program, whose parameters are its inputs so far.
        given: The value of each input that is a Python number.
    """

    def __init__(self, builder: Builder, given: dict[int, Any]) -> None:
        self.sources = list(given)
        self.values: list[Any] = list(given.values())
        self._builder = builder
        self._first = len(builder.params)
        self._uses: dict[tuple[int, DType], Use] = {}
        self._steps: list[Step] = []
        self._guards: dict[tuple[int, Any], Assumption] = {}

    def compute(self, function: Callable[..., Any], *operands: int) -> int:
        """Apply ``function`` to the numbers at these positions; returns the position of the result."""
        self.values.append(function(*(self.values[each] for each in operands)))
        self._steps.append(Step(function, operands))
        return len(self.values) - 1

    def ask(self, position: int, question: Callable[[Any], Any]) -> Any:
        """The answer of ``question`` for the number at ``position``; every call must give the same one."""
        answer = question(self.values[position])
        if question is not type or position >= len(self.sources):  # an argument's type chooses the recording already
            self._guards[position, question] = Assumption(position, question, answer)
        return answer

    def parameter(self, position: int, dtype: DType, text: str) -> Node:
        """The number at ``position`` as a scalar parameter of ``dtype``; ``text`` is its expression, for messages."""
        if (position, dtype) not in self._uses:
            converted(self.values[position], dtype, text)  # an error belongs to the line that is being recorded
            self._uses[position, dtype] = Use(position, dtype, text)
            self._builder.params.append(Param(name=text, dtype=dtype, is_scalar=True))
        return self._builder.load(self._first + list(self._uses).index((position, dtype)))

    def finished(self) -> HostNumbers | None:
        """The work of each call; None for a kernel without numbers."""
        if not self.sources:
            return None
        uses, guards = tuple(self._uses.values()), tuple(self._guards.values())
        return HostNumbers(self._first, tuple(self.sources), tuple(self._steps), uses, guards)


class HostNumbers:
    """Computes the numbers of a call, which follow its inputs as parameters of the kernel."""

    def __init__(
        self,
        first: int,
        sources: tuple[int, ...],
        steps: tuple[Step, ...],
        uses: tuple[Use, ...],
        guards: tuple[Assumption, ...],
    ) -> None:
        self.first = first
        self.count = len(uses)
        self._sources = sources
        self._steps = steps
        self._uses = uses
        self.guards = guards

    def computed(self, arguments: Sequence[Any]) -> list[np.generic]:
        """The values of the parameters for the arguments of a call.

        Raises:
            OtherNumbersError: They break an assumption of the recording.
            KernelRangeError: One is out of range for the dtype of the array that it meets.
        """
        numbers = [arguments[each] for each in self._sources]
        for function, operands in self._steps:
            numbers.append(function(*[numbers[each] for each in operands]))
        for position, question, answer in self.guards:
            if question(numbers[position]) != answer:
                raise OtherNumbersError
        return [converted(numbers[position], dtype, text) for position, dtype, text in self._uses]

    def expanded(self, arguments: Sequence[Any], computed: list[np.generic]) -> list[Any]:
        """The arguments of the kernel: those given, the computed numbers inserted; the kernel reads no given number."""
        result = list(arguments)
        for each in self._sources:
            result[each] = _NOTHING[type(arguments[each])]
        result[self.first : self.first] = computed
        return result

    def moved(self, number: int) -> int:
        """The parameter for argument ``number``."""
        return number if number < self.first else number + self.count

    def running(self, run: Run) -> Run:
        """Wrap ``run``, which takes the kernel's parameters, into a function of a call's arguments."""
        sources = self._sources

        last: tuple[list[Any], list[np.generic]] = ([], [])

        def call(given: Any, values: list[Any]) -> Any:
            nonlocal last
            numbers = [given[each] for each in sources]
            known, computed = last
            # The very objects, as constants of a program are: numbers that are equal may differ, as 0.0 and -0.0 do.
            if not known or any(map(operator.is_not, numbers, known)):
                computed = self.computed(given)
                last = numbers, computed
            return run(self.expanded(given, computed), self.expanded(values, computed))

        return Variants([call]) if self.guards else call


class Variants:
    """The runs of one kernel for arguments of one kind, one for each set of assumptions about their numbers."""

    def __init__(self, runs: list[Run]) -> None:
        self.runs = runs

    @staticmethod
    def joined(first: Any, others: Any) -> Variants:
        return Variants([*first.runs, *others.runs][:MOST_VARIANTS])

    def __call__(self, given: Any, values: list[Any]) -> Any:
        for run in self.runs:
            try:
                return run(given, values)
            except OtherNumbersError:
                continue
        raise OtherNumbersError


_NOTHING: dict[type, np.generic] = {kind: dtype.type(0) for kind, dtype in functions.PYTHON_TYPES.items()}


def converted(value: Any, dtype: DType, text: str) -> np.generic:
    """A Python number converted to ``dtype`` as NumPy does beside an array; ``text`` names it in messages.

    Raises:
        KernelRangeError: It is out of range; NumPy would refuse it, too.
    """
    if dtype == BOOL:
        return np.bool_(bool(value))
    if is_integer(dtype):
        if not functions.fits(value, dtype):
            raise KernelRangeError(
                f"{text} is {shown(value)}, out of range for {dtype}, the dtype of what it meets; convert that first, "
                "with astype(...)"
            )
    elif type(value) is int and not is_complex(dtype):
        try:
            value = float(value)
        except OverflowError:
            raise KernelRangeError(
                f"{text} is {shown(value)}, beyond every float; pass a smaller number, or a float"
            ) from None
    with np.errstate(all="ignore"):
        result: np.generic = dtype.type(value)
    return result


def shown(value: Any) -> str:
    """A number for a message; a long one is described by its size."""
    if type(value) is int and value.bit_length() > 128:
        return f"an int of {value.bit_length()} bits"
    return repr(value)


# Promotion in traced kernels, as in NumPy (NEP 50): a Python scalar takes the dtype of the array beside it.

_CALL = 10
"""The work of a function of traced values, beside the nodes that it makes."""
COMPARISONS = {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
}  # fmt: skip


class Value:
    """A value inside a traced kernel, with the dtype that promotion reads."""

    __slots__ = ("builder", "node")

    def __init__(self, builder: Builder, node: Node) -> None:
        self.builder = builder
        self.node = node

    @property
    def dtype(self) -> DType:
        return self.node.dtype

    @property
    def kind(self) -> DType | type:
        """The dtype, or the type of a Python number."""
        return self.dtype

    def as_dtype(self, dtype: DType) -> Node:
        """The value converted."""
        return self.builder.cast(self.node, dtype)


def operand_kind(value: Any, name: str) -> DType | type:
    """The kind of an operand of function ``name`` in promotion: a dtype, or the type of a Python number."""
    if isinstance(value, Value):
        kind = value.kind
        return BOOL if kind is bool else kind
    if type(value) is bool or isinstance(value, np.bool_):
        return BOOL
    if type(value) in functions.PYTHON_TYPES:
        return type(value)
    if isinstance(value, np.generic):
        return value.dtype
    raise at_user_line(
        KernelTypeError(
            f"{name} got {type(value).__name__}; inside a kernel only its parameters, Python numbers and NumPy scalars "
            "take part: pass arrays as arguments"
        )
    )


def builder_of(args: tuple[Any, ...], name: str) -> Builder:
    """The builder of the traced values among the operands of function ``name``."""
    for each in args:
        if isinstance(each, Value):
            if each.builder.work > MOST_STEPS:
                raise at_user_line(
                    KernelSyntaxError(
                        f"{name}: the function has recorded more than {MOST_STEPS} steps; take fewer turns and calls, "
                        "or write the loop in C, where it is run"
                    )
                )
            each.builder.work += _CALL
            return each.builder
    raise at_user_line(
        KernelTypeError(f"{name} was called without a traced value; use the function of math or numpy on constants")
    )


def node_of(b: Builder, value: Any, dtype: DType) -> Node:
    """``value`` as a node of ``dtype``; a Python scalar must be in its range."""
    if isinstance(value, Value):
        return value.as_dtype(dtype)
    if isinstance(value, np.generic):
        return b.cast(b.const(value, value.dtype), dtype)
    try:
        return b.const(converted(value, dtype, "the Python number"), dtype)
    except KernelTypeError as error:
        raise at_user_line(error) from None


def node_of_call(b: Builder, name: str, args: tuple[Any, ...]) -> Node:
    """Function ``name`` of traced values and scalars, promoted as NumPy does."""
    function = functions.find(name)
    if function is None:
        raise at_user_line(
            KernelTypeError(f"no kernel function {name!r}; known are {', '.join(sorted(functions.TABLE))}")
        )
    if len(args) != function.arity:
        raise at_user_line(
            KernelTypeError(f"{name}() takes {function.arity} operand(s), {len(args)} were given; see the reference")
        )
    operands = tuple(operand_kind(each, name) for each in args)
    try:
        if not any(isinstance(each, np.dtype) for each in operands):  # NumPy's function makes arrays of Python numbers
            operands = tuple(each if isinstance(each, np.dtype) else functions.PYTHON_TYPES[each] for each in operands)
        special = _promote_special(b, function, args, operands)
        if special is not None:
            return special
        loop = functions.numpy_loop(function, operands)
        nodes = [node_of(b, each, dtype) for each, dtype in zip(args, loop, strict=True)]
    except KernelError as error:
        raise at_user_line(error) from None
    return function.lowering(b, *nodes)


def _promote_special(b: Builder, function: Function, args: tuple[Any, ...], operands: tuple[Any, ...]) -> Node | None:
    """Handle the cases that promotion alone does not decide: integer powers, comparisons across integer ranges."""
    if function.name == "power":
        return _constant_power(b, args, operands)
    if function.name not in COMPARISONS.values():
        return None
    for position in (0, 1):
        value, other = args[position], operands[1 - position]
        if operands[position] is int and isinstance(other, np.dtype) and other.kind in "biu":
            side = asked(value, _side_of(INT64 if other == BOOL else other))
            if side:
                return _compare_out_of_range(b, function, side, position)
    kinds = [each.kind for each in operands if isinstance(each, np.dtype)]
    if UINT64 in operands and "i" in kinds:
        return _compare_signs(b, function, args, kinds.index("i"))
    return None


def asked(value: Any, question: Callable[[Any], Any]) -> Any:
    """The answer of ``question`` for a Python number, a literal or an argument; a recording assumes it."""
    if not isinstance(value, Value):
        return question(value)
    number: Any = value
    return number.asked(question)


@functools.cache
def _side_of(dtype: DType) -> Callable[[int], int]:
    """Make a function that tells where an int lies: -1 below the range of ``dtype``, 0 in it, 1 above."""
    info = np.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    return lambda value: (value > high) - (value < low)


def _is_negative(value: int) -> bool:
    return value < 0


def _constant_power(b: Builder, args: tuple[Any, ...], operands: tuple[Any, ...]) -> Node | None:
    """A power with a constant exponent that is one correctly rounded operation; None for any other.

    A negative exponent of an integer is an error.
    """
    base, exponent = args
    dtype = operands[0]
    is_number = not isinstance(exponent, Value) or isinstance(exponent.kind, type)
    if operands[1] not in (int, INT64) or not is_number or isinstance(exponent, np.generic):
        return None
    if (isinstance(dtype, np.dtype) and dtype.kind in "biu") or dtype is int:
        if asked(exponent, _is_negative):
            raise KernelTypeError(f"{dtype} to a negative power is no integer; convert the base with astype first")
    if isinstance(exponent, Value) or not isinstance(base, Value) or isinstance(base.kind, type) or dtype == BOOL:
        return None
    if is_integer(dtype):
        converted(exponent, dtype, "the exponent")
        return _integer_power(b, base, exponent)
    shortcuts = {2: "square", -1: "reciprocal", 1: "positive"}
    if dtype.kind in "fc" and exponent in shortcuts:
        return node_of_call(b, shortcuts[exponent], (base,))
    return None


def _integer_power(b: Builder, base: Value, exponent: int) -> Node:
    result, square = b.const(1, base.dtype), base.node
    while exponent:
        if exponent & 1:
            result = b.op("mul", result, square)
        exponent >>= 1
        if exponent:
            square = b.op("mul", square, square)
    return result


def _compare_signs(b: Builder, function: Function, args: tuple[Any, ...], signed: int) -> Node:
    """Compare a signed integer with a uint64 by value: a negative number is below every unsigned one."""
    node = node_of(b, args[signed], INT64)
    is_negative = b.op("lt", node, b.const(0, INT64))
    sides = [b.cast(node, UINT64)] * 2
    sides[1 - signed] = node_of(b, args[1 - signed], UINT64)
    if function.name in ("equal", "not_equal"):
        when_negative = function.name == "not_equal"
    else:
        when_negative = function.name.startswith("less") == (signed == 0)
    return b.select(is_negative, b.const(when_negative, BOOL), function.lowering(b, *sides))


def _compare_out_of_range(b: Builder, function: Function, side: int, position: int) -> Node:
    """Compare with a Python integer outside the dtype's range: every element gives the same answer."""
    name = next(key for key, full in COMPARISONS.items() if full == function.name)
    sides = (side, 0) if position == 0 else (0, side)
    return b.const(getattr(operator, name)(*sides), BOOL)


OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "left_shift", "rshift": "right_shift",
}  # fmt: skip

_ARRAY_NAMES = {"fabs": "abs", "pow": "power"}
_FLOAT_FUNCTIONS = frozenset(name for name in dir(math) if hasattr(np, name)) | _ARRAY_NAMES.keys()
"""Functions of Python's ``math`` that NumPy has for arrays, by the name in ``math``."""

_namespace: ModuleType


def use_namespace(module: ModuleType) -> None:
    """Set the namespace of traced values. That module makes such values, so this one cannot import it."""
    global _namespace
    _namespace = module


class Traced(Value):
    """A value inside a traced kernel."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 1000.0

    def __repr__(self) -> str:
        return f"<a {self.dtype} in a kernel>"

    if not TYPE_CHECKING:  # or every name would be an attribute for a type checker

        def __getattr__(self, name: str) -> NoReturn:
            remedy = ""
            if not name.startswith("_") and hasattr(np.ndarray, name):
                remedy = ": it is one element, seen by itself; call that on the array, or see xferlib.reduction"
            raise AttributeError(f"a value in a kernel has no {name!r}{remedy}", name=name, obj=self)

    @property
    def real(self) -> Traced:
        return apply("real", (self,))

    @property
    def imag(self) -> Traced:
        return apply("imag", (self,))

    def conj(self) -> Traced:
        return apply("conj", (self,))

    def astype(self, dtype: Any) -> Traced:
        return astype(self, dtype)

    def clip(self, min: Any = None, max: Any = None) -> Traced:  # noqa: A002 - the Array API's names
        return clip(self, min, max)

    def __neg__(self) -> Traced:
        return apply("negative", (self,))

    def __pos__(self) -> Traced:
        return apply("positive", (self,))

    def __abs__(self) -> Traced:
        return apply("absolute", (self,))

    def __divmod__(self, other: Any) -> tuple[Traced, Traced]:
        return _namespace.UFUNCS["divmod"](self, other)  # type: ignore[no-any-return]

    def __rdivmod__(self, other: Any) -> tuple[Traced, Traced]:
        return _namespace.UFUNCS["divmod"](other, self)  # type: ignore[no-any-return]

    def __invert__(self) -> Traced:
        return apply("invert", (self,))

    def __round__(self, digits: int | None = None) -> Traced:
        if digits:
            _refuse(self, f"round(x, {digits})", "scale, round and scale back")
        return rounded(self)

    def __bool__(self) -> NoReturn:  # noqa: PLE0304 - raises
        _refuse(self, "a test of an element (if, while, and, or, not)", "use where(condition, a, b), & , | and ~")

    def __float__(self) -> NoReturn:
        function = user_call(_FLOAT_FUNCTIONS)
        if function is None:
            _refuse(
                self, "float(), or a function of Python's math", "use astype('float64'), or NumPy's function: np.sin(x)"
            )
        name = _ARRAY_NAMES.get(function, function)
        _refuse(self, f"{function}() of Python's math", f"use np.{name}(x) instead of math.{function}(x)")

    def __int__(self) -> NoReturn:
        _refuse(self, "int()", "use astype('int64')")

    def __complex__(self) -> NoReturn:
        _refuse(self, "complex()", "use astype('complex128')")

    def __index__(self) -> NoReturn:  # noqa: PLE0305 - raises
        _refuse(self, "range() or an index", "use arithmetic on the values")

    def __iter__(self) -> NoReturn:
        _refuse(self, "iteration or unpacking", "a kernel sees one element at a time")

    def __len__(self) -> NoReturn:  # noqa: PLE0303 - raises
        _refuse(self, "len()", "a kernel sees one element at a time")

    def __getitem__(self, key: object) -> NoReturn:
        _refuse(self, "indexing", "a kernel sees one element at a time; a C snippet has raw parameters")

    def __matmul__(self, other: object) -> NoReturn:
        _refuse(self, "x @ y", "a kernel sees one element at a time; multiply arrays with xp.matmul")

    __rmatmul__ = __matmul__

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        _refuse(self, "conversion to an array", "call only element-wise functions")

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return _namespace

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Traced:
        if method != "__call__" or options:
            _refuse(self, f"numpy.{ufunc.__name__}.{method} with {sorted(options)}", "call the plain ufunc")
        # A NumPy scalar on the left of a comparison comes as an array without dimensions.
        plain = (each[()] if isinstance(each, np.ndarray) and each.ndim == 0 else each for each in inputs)
        if (composite := _namespace.UFUNCS.get(ufunc.__name__)) is not None:
            return composite(*plain, ufunc=ufunc)  # type: ignore[no-any-return]
        return apply(ufunc.__name__, tuple(plain))

    def __array_function__(self, function: Callable[..., Any], kinds: Any, args: Any, options: Any) -> Traced:
        supported: list[tuple[Any, Callable[..., Traced]]] = [
            (np.where, where), (np.clip, _numpys_clip), (np.real, _real), (np.imag, _imag), (np.round, rounded),
            (np.around, rounded),
        ]  # fmt: skip
        found = next((ours for theirs, ours in supported if theirs is function), _namespace.FUNCTIONS.get(function))
        if found is None:
            _refuse(self, f"numpy.{function.__name__}", "call only element-wise functions")
        return found(*args, **options)

    @classmethod
    def __torch_function__(cls, function: Any, kinds: Any, args: Any = (), options: Any = None) -> NoReturn:
        value = next(each for each in args if isinstance(each, cls))
        _refuse(value, f"torch's {function.__name__}", "call NumPy's function: the kernel runs on tensors too")


def _real(x: Traced) -> Traced:
    return apply("real", (x,))


def _imag(x: Traced) -> Traced:
    return apply("imag", (x,))


def rounded(x: Traced, decimals: int = 0) -> Traced:
    """The nearest integer, in the dtype of ``x``."""
    if decimals:
        _refuse(x, f"round(x, {decimals})", "scale, round and scale back")
    return apply("positive" if is_integer(x.dtype) else "rint", (x,))


def _install_operators() -> None:
    def binary(name: str) -> Callable[[Traced, Any], Traced]:
        return lambda self, other: apply(name, (self, other))

    def reflected(name: str) -> Callable[[Traced, Any], Traced]:
        return lambda self, other: apply(name, (other, self))

    for operation, name in OPERATORS.items():
        setattr(Traced, f"__{operation}__", binary(name))
        setattr(Traced, f"__r{operation}__", reflected(name))
    for operation, name in COMPARISONS.items():
        setattr(Traced, f"__{operation}__", binary(name))


_install_operators()


def _refuse(value: Traced, what: str, remedy: str) -> NoReturn:
    raise at_user_line(
        KernelSyntaxError(
            f"{what}: a kernel is recorded once, without data, and so a {value.dtype} has no value yet; {remedy}"
        )
    )


def apply(name: str, args: tuple[Any, ...]) -> Traced:
    """Function ``name`` of traced values and scalars, promoted as NumPy does."""
    b = builder_of(args, name)
    return Traced(b, node_of_call(b, name, args))


def where(condition: Any, yes: Any, no: Any) -> Traced:
    """``yes`` where ``condition`` is true, else ``no``; the common dtype of the two."""
    args = (condition, yes, no)
    b = builder_of(args, "where")
    try:
        dtype = functions.numpy_common((operand_kind(yes, "where"), operand_kind(no, "where")))
        kind = operand_kind(condition, "where")
    except TypeError as error:
        raise at_user_line(KernelTypeError(f"where: {error}")) from None
    test = node_of(b, condition, BOOL) if isinstance(kind, type) else b.truth(node_of(b, condition, kind))
    return Traced(b, b.select(test, node_of(b, yes, dtype), node_of(b, no, dtype)))


def clip(x: Any, min: Any = None, max: Any = None) -> Traced:  # noqa: A002 - the Array API's names
    """``x`` from ``min`` to ``max``, in the dtype of NumPy's ufunc of all three.

    A bound of None does nothing, nor does a Python int at or beyond that end of the integer dtype of ``x``.
    """
    if not isinstance(x, Value):
        x = np.asarray(x)[()]  # in NumPy a number that is clipped has a dtype of its own; a bound has none
    dtype = x.dtype
    if is_integer(dtype):
        least, most = (int(each) for each in (np.iinfo(dtype).min, np.iinfo(dtype).max))
        min = None if _is_int(min) and asked(min, functools.partial(operator.ge, least)) else min  # noqa: A001
        max = None if _is_int(max) and asked(max, functools.partial(operator.le, most)) else max  # noqa: A001
    bounds = [each for each in (min, max) if each is not None]
    b = builder_of((x, *bounds), "clip")
    try:
        common = functions.numpy_common((dtype, *(operand_kind(each, "clip") for each in bounds)))
        if bounds and is_complex(common):
            raise KernelTypeError(f"clip of {common} is not defined: complex numbers have no order; clip real and imag")
        node, *limits = (node_of(b, each, common) for each in (x, *bounds))
    except KernelError as error:
        raise at_user_line(error) from None
    for name, limit in zip(
        [name for name, each in (("max", min), ("min", max)) if each is not None], limits, strict=True
    ):
        node = b.op({"max": "or", "min": "and"}[name] if common == BOOL else name, node, limit)
    return Traced(b, node)


def _is_int(value: Any) -> bool:
    return (value.kind if isinstance(value, Value) else type(value)) is int


def _numpys_clip(
    a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None, **options: Any  # noqa: A002
) -> Traced:  # fmt: skip
    """`numpy.clip`: the bounds have two names each."""
    if out is not None or options:
        raise at_user_line(
            KernelTypeError(
                "clip of an element takes no out= and no options of a ufunc; leave them out: the result is new"
            )
        )
    if (a_min is not None and min is not None) or (a_max is not None and max is not None):
        raise at_user_line(KernelTypeError("clip got a bound twice, as a_min and min or a_max and max; leave out one"))
    return clip(a, min if a_min is None else a_min, max if a_max is None else a_max)


def astype(x: Any, dtype: Any) -> Traced:
    """``x`` converted: floats to integers saturate, NaN gives 0."""
    from xferlib._core.arrays import check_dtype

    b = builder_of((x,), "astype")
    return Traced(b, b.cast(x.node, check_dtype(dtype, what="astype")))


# Functions of traced values that are made of others: NumPy's with two results, and those of `scipy.special`.
#
# The dtypes are those of NumPy's or SciPy's function, which the caller gives; without one, as for NumPy's ``sqrt``.

Pair = tuple[Traced, Traced]
_value: Any = Traced  # whose operators are made at run time
_apply: Any = apply
_where: Any = where


def _dtypes(name: str, ufunc: np.ufunc, args: tuple[Any, ...]) -> tuple[DType, ...]:
    """The dtypes that ``ufunc`` converts its operands to."""
    kinds = [operand_kind(each, name) for each in args]
    if not any(isinstance(each, np.dtype) for each in kinds):
        kinds = [each if isinstance(each, np.dtype) else functions.PYTHON_TYPES[each] for each in kinds]
    try:
        given: Any = (*kinds, *[None] * ufunc.nout)
        found = ufunc.resolve_dtypes(given)[: len(args)]
    except TypeError:
        found = ()
    if not found or found[0].kind == "c":
        names = ", ".join(each.__name__ if isinstance(each, type) else str(each) for each in kinds)
        raise at_user_line(KernelTypeError(f"{name}({names}) is not defined; convert with astype(...)"))
    return tuple(map(np.dtype, found))


def _nodes(name: str, args: tuple[Any, ...], ufunc: np.ufunc) -> list[Node]:
    if len(args) != ufunc.nin:
        raise at_user_line(
            KernelTypeError(f"{name}() takes {ufunc.nin} operand(s), {len(args)} were given; see the reference")
        )
    b = builder_of(args, name)
    return [node_of(b, each, dtype) for each, dtype in zip(args, _dtypes(name, ufunc, args), strict=True)]


# --- two results


def frexp(x: Any, /, *, ufunc: np.ufunc = np.frexp) -> Pair:
    """The fraction from 0.5 up to 1, and the exponent as an int32."""
    b = builder_of((x,), "frexp")
    fraction, exponent = formulas.frexp(b, *_nodes("frexp", (x,), ufunc))
    return _value(b, fraction), _value(b, exponent)


def modf(x: Any, /, *, ufunc: np.ufunc = np.modf) -> Pair:
    """The fraction and the whole part."""
    b = builder_of((x,), "modf")
    rest, whole = formulas.modf(b, *_nodes("modf", (x,), ufunc))
    return _value(b, rest), _value(b, whole)


def divmod_(x: Any, y: Any, /, *, ufunc: np.ufunc | None = None) -> Pair:  # noqa: ARG001 - as of all ufuncs
    """``x // y`` and ``x % y``."""
    return _apply("floor_divide", (x, y)), _apply("remainder", (x, y))


# --- one result


def ldexp(x: Any, exponent: Any, /, *, ufunc: np.ufunc = np.ldexp) -> Any:
    """``x * 2 ** exponent``, rounded once."""
    b = builder_of((x, exponent), "ldexp")
    return _value(b, formulas.ldexp(b, *_nodes("ldexp", (x, exponent), ufunc)))


def heaviside(x: Any, middle: Any, /, *, ufunc: np.ufunc = np.heaviside) -> Any:
    """0 below 0, 1 above it, and ``middle`` at 0; NaN of NaN."""
    b = builder_of((x, middle), "heaviside")
    number, half = _nodes("heaviside", (x, middle), ufunc)
    zero, one = b.const(0, number.dtype), b.const(1, number.dtype)
    found = b.select(b.op("eq", number, zero), half, b.select(b.op("lt", number, zero), zero, one))
    return _value(b, b.select(b.op("eq", number, number), found, b.const(np.nan, number.dtype)))


def float_power(x: Any, y: Any, /, *, ufunc: np.ufunc = np.float_power) -> Any:
    """``x ** y`` in float64."""
    b = builder_of((x, y), "float_power")
    base, exponent = _nodes("float_power", (x, y), ufunc)
    return _apply("power", (_value(b, base), _value(b, exponent)))


def logaddexp2(x: Any, y: Any, /, *, ufunc: np.ufunc = np.logaddexp2) -> Any:
    """``log2(2 ** x + 2 ** y)``."""
    b = builder_of((x, y), "logaddexp2")
    left, right = (_value(b, each) for each in _nodes("logaddexp2", (x, y), ufunc))
    decay = _apply("exp2", (-abs(left - right),))
    found = _apply("maximum", (left, right)) + _apply("log1p", (decay,)) * float(1 / np.log(2.0))
    return _where(_apply("equal", (left, right)), left + 1, found)


def _scaled(name: str, numerator: float, denominator: float) -> Callable[..., Traced]:
    numpys: np.ufunc = getattr(np, name)

    def scaled(x: Any, /, *, ufunc: np.ufunc = numpys) -> Any:
        b = builder_of((x,), name)
        (node,) = _nodes(name, (x,), ufunc)
        wide = node if node.dtype != FLOAT16 else b.cast(node, FLOAT32)
        factor = wide.dtype.type(numerator) / wide.dtype.type(denominator)  # as C divides the constants
        return _value(b, b.cast(b.op("mul", wide, b.const(factor, wide.dtype)), node.dtype))

    return scaled


def spacing(x: Any, /, *, ufunc: np.ufunc = np.spacing) -> Any:
    """The distance to the next number away from 0."""
    b = builder_of((x,), "spacing")
    (node,) = _nodes("spacing", (x,), ufunc)
    number = _value(b, node)
    limit = _where(_apply("less", (number, 0)), -np.inf, np.inf).astype(node.dtype)
    return _apply("nextafter", (number, limit)) - number


def bitwise_count(x: Any, /, *, ufunc: np.ufunc | None = None) -> Any:
    """The ones among the bits of ``abs(x)``, as uint8."""
    b = builder_of((x,), "bitwise_count")
    (node,) = _nodes("bitwise_count", (x,), ufunc or np.bitwise_count)
    if node.dtype == BOOL:
        return _value(b, b.cast(node, UINT8))
    size = node if node.dtype.kind == "u" else b.op("abs", node)  # the least int keeps its one bit
    unsigned = b.cast(size, np.dtype(f"u{node.dtype.itemsize}"))
    long = formulas.FUNCTIONS["__popcll"](b, unsigned)
    return _value(b, b.cast(long, UINT8))


def _special(name: str, formula: str) -> Callable[..., Traced]:
    def special(x: Any, /, *, ufunc: np.ufunc = np.sqrt) -> Any:
        b = builder_of((x,), name)
        return _value(b, formulas.lowered(b, formula, *_nodes(name, (x,), ufunc)))

    return special


def expit(x: Any, /, *, ufunc: np.ufunc = np.sqrt) -> Any:
    """``1 / (1 + exp(-x))``."""
    b = builder_of((x,), "expit")
    number = _value(b, *_nodes("expit", (x,), ufunc))
    return 1 / (_apply("exp", (-number,)) + 1)


def logit(x: Any, /, *, ufunc: np.ufunc = np.sqrt) -> Any:
    """``log(x / (1 - x))``."""
    b = builder_of((x,), "logit")
    number = _value(b, *_nodes("logit", (x,), ufunc))
    return _apply("log", (number / (1 - number),))


def xlogy(x: Any, y: Any, /, *, ufunc: np.ufunc = np.arctan2) -> Any:
    """``x * log(y)``, and 0 where ``x`` is 0 and ``y`` no NaN."""
    b = builder_of((x, y), "xlogy")
    left, right = (_value(b, each) for each in _nodes("xlogy", (x, y), ufunc))
    is_none = _apply("equal", (left, 0)) & ~_apply("isnan", (right,))
    return _where(is_none, 0, left * _apply("log", (right,)))


_SPECIAL = {
    "erf": "erf", "erfc": "erfc", "erfcx": "erfcx", "erfinv": "erfinv", "erfcinv": "erfcinv", "ndtr": "normcdf",
    "ndtri": "normcdfinv", "gamma": "tgamma", "gammaln": "lgamma", "i0": "cyl_bessel_i0", "exp10": "exp10",
}  # fmt: skip
"""SciPy's names, and CUDA's for the formula."""

UFUNCS: dict[str, Callable[..., Any]] = {
    "frexp": frexp, "modf": modf, "divmod": divmod_, "ldexp": ldexp, "heaviside": heaviside,
    "float_power": float_power, "logaddexp2": logaddexp2, "spacing": spacing, "bitwise_count": bitwise_count,
    "expit": expit, "logit": logit, "xlogy": xlogy,
    **{name: _scaled(name, np.pi, 180) for name in ("deg2rad", "radians")},
    **{name: _scaled(name, 180, np.pi) for name in ("rad2deg", "degrees")},
    **{name: _special(name, formula) for name, formula in _SPECIAL.items()},
}  # fmt: skip
"""By the name of the ufunc; each takes the operands, and the ufunc as ``ufunc=``."""


# --- functions of NumPy that are no ufuncs


def _isposinf(x: Any) -> Any:
    return _apply("isinf", (x,)) & _apply("greater", (x, 0))


def _isneginf(x: Any) -> Any:
    return _apply("isinf", (x,)) & _apply("less", (x, 0))


def _is_real(x: Any) -> Any:
    return _apply("equal", (_apply("imag", (x,)), 0))


def _is_complex(x: Any) -> Any:
    return _apply("not_equal", (_apply("imag", (x,)), 0))


def _angle(z: Any, deg: bool = False) -> Any:
    parts = (_apply("imag", (z,)), _apply("real", (z,))) if z.dtype.kind == "c" else (0, z)
    found = _apply("arctan2", parts)
    return found * (180 / np.pi) if deg else found


def _fix(x: Any) -> Any:
    return _apply("trunc", (x,))


def _sinc(x: Any) -> Any:
    angle = x * np.pi
    is_zero = _apply("equal", (angle, 0))
    divisor = _where(is_zero, 1, angle)
    return _where(is_zero, 1, _apply("sin", (divisor,)) / divisor)


def _nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    if x.dtype.kind not in "fc":
        return _value(x.builder, x.as_dtype(x.dtype))
    if x.dtype.kind == "c":
        parts = [_nan_to_num(_apply(each, (x,)), copy, nan, posinf, neginf) for each in ("real", "imag")]
        return _value(x.builder, x.builder.complex(*(each.node for each in parts)))
    limits = np.finfo(x.dtype)
    found = _where(_apply("isnan", (x,)), nan, x)
    found = _where(_isposinf(x), limits.max if posinf is None else posinf, found)
    found = _where(_isneginf(x), limits.min if neginf is None else neginf, found)
    if found.dtype.kind == "c":
        raise at_user_line(KernelTypeError(f"nan_to_num({x.dtype}) takes real numbers, and a complex one is given"))
    return found.astype(x.dtype)


def _i0(x: Any) -> Any:
    return UFUNCS["i0"](x if x.dtype.kind in "fc" else x.astype(np.float64))


FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    np.isposinf: _isposinf, np.isneginf: _isneginf, np.isreal: _is_real, np.iscomplex: _is_complex, np.angle: _angle,
    np.fix: _fix, np.sinc: _sinc, np.nan_to_num: _nan_to_num, np.i0: _i0,
}  # fmt: skip
"""By NumPy's function."""


# A Python number inside a traced kernel: an argument, or a number that Python computes from arguments.

_MOST_TEXT = 60
_SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "and": "&",
    "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==",
    "ne": "!=",
}  # fmt: skip


class Number(Traced):
    """A number without a dtype: Python computes with it, and beside an array it takes the array's dtype."""

    __slots__ = ("_position", "_recording", "_text")

    def __init__(self, builder: Builder, recording: Recording, position: int, text: str) -> None:
        self.builder = builder
        self._recording = recording
        self._position = position
        self._text = text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}..."

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The number as an array of it would be: int64, float64, complex128 or bool."""
        return self.as_dtype(self.dtype)

    @property
    def dtype(self) -> DType:
        return functions.PYTHON_TYPES[self.kind]

    @property
    def kind(self) -> type:
        """Its Python type, which the recording assumes from now on."""
        kind: type = self._recording.ask(self._position, type)
        return kind

    def asked(self, question: Callable[[Any], Any]) -> Any:
        """The answer of ``question`` for the number, which the recording assumes from now on."""
        return self._recording.ask(self._position, question)

    def as_dtype(self, dtype: DType) -> Node:
        """The number as a parameter of the kernel."""
        return self._recording.parameter(self._position, dtype, self._text)

    def computed(self, function: Callable[..., Any], text: str, *others: Number) -> Number:
        """``function`` of this number and others, computed by Python at each call."""
        position = self._recording.compute(function, self._position, *(each._position for each in others))
        return Number(self.builder, self._recording, position, text)

    def _binary(self, function: Callable[[Any, Any], Any], symbol: str, other: Any) -> Number:
        if isinstance(other, Number):
            return self.computed(function, f"({self._text} {symbol} {other._text})", other)
        return self.computed(lambda value: function(value, other), f"({self._text} {symbol} {other!r})")

    def _reflected(self, function: Callable[[Any, Any], Any], symbol: str, other: Any) -> Number:
        return self.computed(lambda value: function(other, value), f"({other!r} {symbol} {self._text})")

    @property
    def real(self) -> Traced:
        return self.computed(operator.attrgetter("real"), f"{self._text}.real")

    @property
    def imag(self) -> Traced:
        return self.computed(operator.attrgetter("imag"), f"{self._text}.imag")

    def conjugate(self) -> Traced:
        return self.computed(lambda value: value.conjugate(), f"{self._text}.conjugate()")

    def conj(self) -> Traced:
        return self.conjugate()

    def __neg__(self) -> Traced:
        return self.computed(operator.neg, f"-{self._text}")

    def __pos__(self) -> Traced:
        return self.computed(operator.pos, f"+{self._text}")

    def __abs__(self) -> Traced:
        return self.computed(abs, f"abs({self._text})")

    def __invert__(self) -> Traced:
        return self.computed(operator.invert, f"~{self._text}")

    def __round__(self, digits: int | None = None) -> Traced:
        return self.computed(lambda value: round(value, digits), f"round({self._text}, {digits})")


def _install_number_operators() -> None:
    def binary(function: Callable[[Any, Any], Any], name: str, symbol: str) -> Callable[[Number, Any], Traced]:
        def method(self: Number, other: Any) -> Traced:
            if isinstance(other, Number) or type(other) in functions.PYTHON_TYPES:
                return self._binary(function, symbol, other)
            return apply(name, (self, other))

        return method

    def reflected(function: Callable[[Any, Any], Any], name: str, symbol: str) -> Callable[[Number, Any], Traced]:
        def method(self: Number, other: Any) -> Traced:
            if type(other) in functions.PYTHON_TYPES:
                return self._reflected(function, symbol, other)
            return apply(name, (other, self))

        return method

    for short, name in {**OPERATORS, **COMPARISONS}.items():
        function = getattr(operator, f"__{short}__")
        setattr(Number, f"__{short}__", binary(function, name, _SYMBOLS[short]))
        if short in OPERATORS:
            setattr(Number, f"__r{short}__", reflected(function, name, _SYMBOLS[short]))


_install_number_operators()
