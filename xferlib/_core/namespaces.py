"""Array-API namespaces: those for libraries that have none, written above the backends, and the names that none has."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from xferlib.errors import (
    ArgumentError,
    LayoutIndexError,
    LayoutTypeError,
    OutOfMemoryError,
    UnsupportedArrayError,
    XferError,
)

if TYPE_CHECKING:
    from xferlib._core.backend import Arrays

Function = Callable[..., Any]

_MAKER = "xferlib._api.arrays.namespace"


class Namespace(ModuleType):
    """A module that pickles by its name."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return importlib.import_module, (self.__name__,)


def named(function: Any, name: str, module: str) -> Function:
    """Make a function one of a module's, so that it pickles by name."""
    function.__name__ = function.__qualname__ = name
    function.__module__ = module
    made: Function = function
    return made


def guarded(function: Function, name: str) -> Function:
    """``function``, whose failure by an argument that it cannot use is an error of ours, whatever raised it.

    A namespace takes some 200 functions' arguments, which NumPy, torch and strangers' objects look at on the way; so
    they are looked at where one has failed, and cost nothing where none has.
    """

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except Exception as error:
            if (refusal := refused(name, error, args, options)) is None:
                raise
            raise refusal from error

    return call


def refused(name: str, error: Exception, args: Sequence[Any], options: Mapping[str, Any]) -> XferError | None:
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


def having_too(module: str, *others: ModuleType) -> Callable[[str], Any]:
    """The ``__getattr__`` of a namespace that has the public names of other modules too; of the first that has one."""

    def module_getattr(name: str) -> Any:
        own = sys.modules[module]
        for other in others if not (name.startswith("__") and name.endswith("__")) else ():
            found = getattr(other, name, _NOTHING)
            if found is not _NOTHING:
                vars(own)[name] = found  # the next look-up is an ordinary one
                return found
        raise missing(own, own, name)

    return module_getattr


def make_namespace(
    backend: Arrays,
    array_type: type,
    *,
    refusal: type[Exception] = UnsupportedArrayError,
    around: Callable[[Function], Function] | None = None,
) -> ModuleType:
    """Make a namespace for a backend, and give its array type the operators and methods of the Array API.

    Args:
        backend: It must have `Arrays.strided_view`, and run kernels: on a CPU or on CUDA every backend does.
        array_type: The exact type of its arrays. What the class defines itself stays as it is.
        around: Wraps each function and method.
        refusal: The error that NumPy's functions raise when they are given such an array.
    """
    made: ModuleType = importlib.import_module(_MAKER).make(backend, array_type, refusal, around)
    return made


# --- NumPy's and torch's names that a namespace does not have

RENAMED = {
    "absolute": "abs", "amax": "max", "amin": "min", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin",
    "arcsinh": "asinh", "arctan": "atan", "arctan2": "atan2", "arctanh": "atanh", "around": "round",
    "array": "asarray", "as_tensor": "asarray", "bitwise_not": "bitwise_invert", "bool_": "bool", "cat": "concat",
    "clamp": "clip", "concatenate": "concat", "conjugate": "conj", "cumprod": "cumulative_prod",
    "cumsum": "cumulative_sum", "dot": "matmul", "fabs": "abs", "flatten": "reshape", "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift", "norm": "vector_norm", "power": "pow", "ravel": "reshape",
    "right_shift": "bitwise_right_shift", "rint": "round", "swapaxes": "moveaxis", "tensor": "asarray",
    "transpose": "permute_dims",
    "true_divide": "divide", "unique": "unique_values",
}  # fmt: skip
"""The names that differ. `fmod`, whose remainder has another sign, has no equal here, nor have partial functions."""

COMPOSED = {
    "allclose": "xp.all(xp.abs(x - y) <= tolerance)", "argwhere": "xp.stack(xp.nonzero(x), axis=1)",
    "array_equal": "xp.all(x == y)", "asnumpy": "xferlib.to_host(x)",
    "column_stack": "xp.stack(columns, axis=1)", "copy": "xp.asarray(x, copy=True)",
    "deg2rad": "x * (xp.pi / 180)", "dstack": "xp.stack(arrays, axis=2) of matrices",
    "flatnonzero": "xp.nonzero(xp.reshape(x, -1))[0]", "hstack": "xp.concat(arrays, axis=1) of matrices",
    "identity": "xp.eye(n)", "isclose": "xp.abs(x - y) <= tolerance", "load": "xferlib.load(path)",
    "nansum": "xp.sum(xp.where(xp.isnan(x), 0, x))", "ndim": "x.ndim", "pad": "y = xp.zeros(shape); y[2:-2] = x",
    "ptp": "xp.max(x) - xp.min(x)", "rad2deg": "x * (180 / xp.pi)", "random": "xferlib.random.default_rng(seed)",
    "save": "xferlib.save(path, x)", "savez": "xferlib.save(path, tree)", "shape": "x.shape", "size": "x.size",
    "split": "x[:n] and x[n:], or xp.unstack(x)", "vstack": "xp.concat(arrays, axis=0) of matrices",
}  # fmt: skip
"""The code that does the same as NumPy's other functions, with ``xp = get_array_module(x)``, on the device."""


def known_name(namespace: ModuleType, name: str) -> str | None:
    """The name in a namespace, or in an extension of it, of a function that NumPy has by that name."""
    name = RENAMED.get(name, name)
    for part, prefix in ((namespace, ""), *((vars(namespace).get(each), f"{each}.") for each in ("linalg", "fft"))):
        if part is not None and name in getattr(part, "__all__", ()):
            return prefix + name
    return None


def missing(namespace: ModuleType, part: ModuleType, name: str) -> AttributeError:
    """The error for a name that ``part``, a namespace or an extension, does not have: it says which one there is."""
    known, remedy = None if name.startswith("_") else known_name(namespace, name), ""
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
        raise missing(namespace, part, name)

    vars(part)["__getattr__"] = module_getattr
