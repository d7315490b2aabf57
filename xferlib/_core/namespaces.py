"""Namespaces of the Array API: what all of them check and return, the names that they lack, and how one is made.

A library without a namespace gets one that is written above the backends, in `xferlib._arrays`; that of a library which
has its own takes from here what the others have.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from xferlib._core import dtypes
from xferlib._core.arrays import Array, axes_of, axis_of
from xferlib._core.dtypes import float_limits
from xferlib.errors import (
    ArgumentError,
    LayoutError,
    LayoutIndexError,
    LayoutTypeError,
    OutOfMemoryError,
    UnsupportedArrayError,
    XferError,
)

if TYPE_CHECKING:
    from xferlib._core.backend import Backend


def axis_to_join(name: str, shapes: Sequence[tuple[int, ...]], axis: Any) -> int:
    """The axis along which ``concat`` or ``stack`` joins arrays, counted from the first.

    Raises:
        LayoutError: The shapes differ, or there is no such axis.
    """
    is_new = name == "stack"
    along = axis_of(name, axis, len(shapes[0]) + is_new)
    if len({shape if is_new else (len(shape), *shape[:along], *shape[along + 1 :]) for shape in shapes}) > 1:
        listed = ", ".join([str(each) for each in shapes])
        if is_new:
            raise LayoutError(f"{name}: shapes {listed} differ; reshape one of them")
        raise LayoutError(f"{name}: shapes {listed} differ beside axis {axis}; reshape or cut one of the arrays")
    return along


def check_matrix(name: str, shape: tuple[int, ...]) -> None:
    """Refuse an array that is not a stack of matrices.

    Raises:
        LayoutError: It has fewer than two axes.
    """
    if len(shape) < 2:
        raise LayoutError(f"{name}: an array of shape {tuple(shape)} is not a matrix; reshape it to two axes or more")


def check_frequencies(name: str, n: Any) -> None:
    """Refuse frequencies of no elements.

    Raises:
        ArgumentError: ``n`` is less than 1.
    """
    if n < 1:
        raise ArgumentError(f"fft.{name}: n={n} is not a number of elements; give 1 or more")


def steps_to_shift(name: str, shape: tuple[int, ...], axes: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes of ``fftshift`` or ``ifftshift``, and the steps by which the elements move along each."""
    places = axes_of(f"fft.{name}", tuple(axes) if isinstance(axes, list) else axes, len(shape))
    return places, tuple([(shape[place] // 2) * (1 if name == "fftshift" else -1) for place in places])


def ask_finfo(of: Any, otherwise: Callable[[Any], Any]) -> Any:
    """The Array API's ``finfo`` of a small float, an array of one, or its name; of others by a library's function."""
    found = getattr(of, "dtype", of)
    if isinstance(found, str):
        found = dtypes.find(found)
    is_small = isinstance(found, np.dtype) and (dtypes.is_foreign(found) or not dtypes.is_numpys(found))
    return float_limits(found) if is_small else otherwise(of)


class UniqueAll(NamedTuple):
    """The result of ``unique_all``."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """The result of ``unique_counts``."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """The result of ``unique_inverse``."""

    values: Array
    inverse_indices: Array


# --- a namespace as a module

Function = Callable[..., Any]

_MAKER = "xferlib._arrays.namespace"
_NUMPYS = "xferlib._arrays.numpys"


class Namespace(ModuleType):
    """A module that pickles by its name."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return importlib.import_module, (self.__name__,)


def set_name(function: Any, name: str, module: str, *, within: str = "") -> Function:
    """Make a function one of a module's, or of something ``within`` it, so that it pickles by name."""
    function.__name__, function.__qualname__ = name, f"{within}.{name}" if within else name
    function.__module__ = module
    made: Function = function
    return made


def adopt(function: Any, name: str, module: str) -> Any:
    """The function of another library for a module: a copy where pickle would not find it by the name that it has.

    Those that array-api-compat makes for CuPy have the name of the one that they wrap. The functions of torch stay
    what they are, which its compiler knows.
    """
    if not inspect.isfunction(function) or not function.__module__.startswith("array_api_compat."):
        return function
    if getattr(sys.modules[function.__module__], function.__name__, None) is function:
        return function
    made = FunctionType(function.__code__, function.__globals__, name, function.__defaults__, function.__closure__)
    functools.update_wrapper(made, function)
    made.__kwdefaults__ = function.__kwdefaults__
    return set_name(made, name, module)


def translate_errors(function: Function, name: str) -> Function:
    """``function``, whose failure by an argument that it cannot use is an error of ours, whatever raised it.

    A namespace takes some 200 functions' arguments, which NumPy, torch and strangers' objects look at on the way; so
    they are looked at where one has failed, and cost nothing where none has.
    """

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except Exception as error:
            if (refusal := translate_error(name, error, args, options)) is None:
                raise
            raise refusal from error

    return call


def translate_error(name: str, error: Exception, args: Sequence[Any], options: Mapping[str, Any]) -> XferError | None:
    """The error of ours for one that an argument has caused; None where it says enough, or is no argument's fault."""
    trace = error.__traceback__
    if isinstance(error, TypeError) and trace is not None and trace.tb_next is None:
        return None  # the signature's
    if isinstance(error, (XferError, OverflowError, BufferError, Warning)):
        return None
    said = str(error).partition("\n")[0]
    if isinstance(error, RuntimeError) and not isinstance(error, RecursionError):
        if not said.startswith(_OF_ARGUMENTS):  # a device's, or torch's tracer's
            return None
    if isinstance(error, MemoryError) or "DefaultCPUAllocator" in said:
        return OutOfMemoryError(f"{name}: the host has too little memory ({error}); free arrays, or work on parts")
    kinds = [*(type(each).__name__ for each in args), *(f"{key}={type(options[key]).__name__}" for key in options)]
    kind: type[XferError] = ArgumentError
    for theirs, ours in _OURS.items():
        kind = ours if isinstance(error, theirs) else kind
    return kind(
        f"{name}({', '.join(kinds)}) cannot be computed: {type(error).__name__}: {said}; give arrays of the namespace, "
        "numbers, and what the signature names"
    )


_OURS: dict[type[Exception], type[XferError]] = {
    IndexError: LayoutIndexError, TypeError: LayoutTypeError, AttributeError: UnsupportedArrayError,
}  # fmt: skip
"""By what Python raises: where something is no array, it lacks an attribute."""
_OF_ARGUMENTS = (
    "Boolean value of Tensor", "value cannot be converted to type", "from_dlpack received an invalid capsule",
    "[enforce fail at alloc_cpu", "numel: integer multiplication overflow",
)  # fmt: skip
"""How torch's RuntimeErrors begin that are an argument's fault; others may be a device's."""
_NOTHING = object()


def make_fallback_getattr(module: str, *others: ModuleType) -> Callable[[str], Any]:
    """The ``__getattr__`` of a namespace that has the public names of other modules too; of the first that has one."""

    def module_getattr(name: str) -> Any:
        own = sys.modules[module]
        for other in others if not (name.startswith("__") and name.endswith("__")) else ():
            found = getattr(other, name, _NOTHING)
            if found is not _NOTHING:
                vars(own)[name] = found = adopt(found, name, module)  # the next look-up is an ordinary one
                return found
        raise make_missing_name_error(own, own, name)

    return module_getattr


def extension(
    module: str, name: str, doc: str, own: Mapping[str, Any], *others: ModuleType, listed: Iterable[str]
) -> Namespace:
    """A module within a namespace, such as ``linalg``, from which its functions can be pickled.

    Args:
        module, name: The names of the namespace and of this part of it.
        doc: What it has.
        own: Its functions.
        others: The modules whose other names it has too.
        listed: The public names besides those of ``own``.
    """
    made = Namespace(f"{module}.{name}", doc)
    sys.modules[made.__name__] = made
    for key, function in own.items():
        if inspect.isfunction(function) and function.__module__.startswith(__package__.partition(".")[0]):
            set_name(function, key, made.__name__)
    public = sorted({*own, *listed})
    vars(made).update(
        {key: adopt(function, key, made.__name__) for key, function in own.items()},
        __all__=public,
        __dir__=lambda: public,
        __getattr__=make_fallback_getattr(made.__name__, *others),
    )
    return made


def make_namespace(
    backend: Backend,
    array_type: type,
    *,
    refusal: type[Exception] = UnsupportedArrayError,
    around: Callable[[Function], Function] | None = None,
    dispatches: Callable[[], bool] = lambda: False,
) -> ModuleType:
    """Make a namespace for a backend, and give its array type the operators and methods of the Array API.

    Args:
        backend: It must have `Backend.strided_view`, and run kernels: on a CPU or on CUDA every backend does.
        array_type: The exact type of its arrays. What the class defines itself stays as it is.
        around: Wraps each function and method.
        refusal: The error that NumPy's functions raise when they are given such an array.
        dispatches: Whether they compute on the device instead, where the namespace has a function of the name.
    """
    made: ModuleType = importlib.import_module(_MAKER).make(backend, array_type, refusal, around, dispatches)
    return made


def bind_numpys(namespace: ModuleType) -> dict[str, Function]:
    """NumPy's functions that the standard does not have, for a namespace that has those of the standard."""
    made: dict[str, Function] = importlib.import_module(_NUMPYS).bind(namespace)
    return made


# --- NumPy's and torch's names that a namespace does not have

RENAMED = {
    "absolute": "abs", "amax": "max", "amin": "min", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin",
    "arcsinh": "asinh", "arctan": "atan", "arctan2": "atan2", "arctanh": "atanh", "around": "round",
    "array": "asarray", "as_tensor": "asarray", "bitwise_not": "bitwise_invert", "bool_": "bool", "cat": "concat",
    "clamp": "clip", "concatenate": "concat", "conjugate": "conj", "cumprod": "cumulative_prod",
    "cumsum": "cumulative_sum", "fabs": "abs", "flatten": "reshape", "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift", "norm": "vector_norm", "power": "pow",
    "right_shift": "bitwise_right_shift", "rint": "round", "tensor": "asarray",
    "true_divide": "divide", "unique": "unique_values",
}  # fmt: skip
"""The names that differ. `fmod`, whose remainder has another sign, has no equal here, nor have partial functions."""

COMPOSED = {
    "asnumpy": "xferlib.to_host(x)", "copy": "xp.asarray(x, copy=True)", "deg2rad": "x * (xp.pi / 180)",
    "identity": "xp.eye(n)", "load": "xferlib.load(path)", "ndim": "x.ndim", "rad2deg": "x * (180 / xp.pi)",
    "random": "xferlib.random.default_rng(seed)", "save": "xferlib.save(path, x)",
    "savez": "xferlib.save(path, tree)", "shape": "x.shape", "size": "x.size",
}  # fmt: skip
"""The code that does the same as NumPy's other functions, with ``xp = get_array_module(x)``, on the device."""


def find_name(namespace: ModuleType, name: str) -> str | None:
    """The name in a namespace, or in an extension of it, of a function that NumPy has by that name."""
    name = RENAMED.get(name, name)
    for part, prefix in ((namespace, ""), *((vars(namespace).get(each), f"{each}.") for each in ("linalg", "fft"))):
        if part is not None and name in getattr(part, "__all__", ()):
            return prefix + name
    return None


def make_missing_name_error(namespace: ModuleType, part: ModuleType, name: str) -> AttributeError:
    """The error for a name that ``part``, a namespace or an extension, does not have: it says which one there is."""
    known, remedy = None if name.startswith("_") else find_name(namespace, name), ""
    if known is not None:
        remedy = f"; use get_array_module(x).{known}"
    elif part is namespace and name in COMPOSED:
        remedy = f"; write {COMPOSED[name]}"
    elif inspect.isroutine(getattr(np, name, None)) or isinstance(getattr(np, name, None), np.ufunc):
        remedy = f"; use numpy.{name} with xferlib.to_host(x)"
    return AttributeError(f"module {part.__name__!r} has no attribute {name!r}{remedy}", name=name, obj=part)


def explain_missing(namespace: ModuleType, part: ModuleType) -> None:
    """Let ``part`` say which name it has instead of one of NumPy's."""

    def module_getattr(name: str) -> NoReturn:
        raise make_missing_name_error(namespace, part, name)

    vars(part)["__getattr__"] = module_getattr
