"""The namespace of a library: the functions of this package, bound to its arrays."""

from __future__ import annotations

import functools
import itertools
import operator
import sys
from collections.abc import Callable, Iterable
from inspect import isfunction
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from xferlib._api import transfers
from xferlib._arrays import dlpack, extensions, functions, indexing, numpys, primitives
from xferlib._arrays.primitives import Primitives
from xferlib._core import dtypes, namespaces, registry
from xferlib._core.arrays import Array
from xferlib._core.dtypes import BINARY_OPERATORS, COMPARISONS, DTYPES, UNARY_OPERATORS
from xferlib._core.namespaces import RENAMED, find_name
from xferlib._runtime.checks import ARRAY_NAMES
from xferlib.errors import ArgumentError, LayoutError, LayoutTypeError, UnsupportedArrayError, quote

if TYPE_CHECKING:
    from xferlib._api.array_module import ArrayModule
    from xferlib._core.backend import Backend


# NumPy's functions and names on arrays of a device and in their namespace: they raise, naming the function to use.
#
# NumPy's own functions of elements are computed on the device, as CuPy does.

_OTHERWISE = ("norm", "unique")
"""NumPy's functions that those of the namespace which stand for them do in part."""
_COMPARING = frozenset(COMPARISONS.values())


def interfaces(
    namespace: ModuleType, error: type[Exception], dispatches: Callable[[], bool]
) -> dict[str, Callable[..., Any]]:
    """``__array_ufunc__`` and ``__array_function__`` of an array type.

    Args:
        namespace: The functions that messages name.
        error: What is raised.
        dispatches: Whether NumPy's other functions are those of the namespace, as with CuPy's arrays.
    """

    def instead_of(function: Any) -> str:
        name, to_host = find_name(namespace, function.__name__), "xferlib.to_host(x) first"
        return f"use {to_host}" if name is None else f"use get_array_module(x).{name}, or {to_host}"

    def array_getattr(self: Array, name: str) -> NoReturn:
        known, remedy = None if name.startswith("_") else find_name(namespace, name), ""
        if known is not None:
            remedy = f"; use get_array_module(x).{known}"
        elif name in ARRAY_NAMES:
            remedy = f"; {ARRAY_NAMES[name]}"
        elif not name.startswith("_") and hasattr(np.ndarray, name):
            remedy = f"; use xferlib.to_host(x).{name}"
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{remedy}", name=name, obj=self)

    def array_ufunc(self: Array, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Array:
        name = RENAMED.get(ufunc.__name__, ufunc.__name__)
        if name in getattr(namespace, "__all__", ()) and method == "__call__" and not kwargs:
            # Also what `numpy.float64(2) + x` comes to: the operator of a NumPy scalar calls this method.
            operands = [each if type(each) is type(self) else _number_of(each, name) for each in inputs]
            if all(each is not None for each in operands):
                return getattr(namespace, name)(*operands)
        remedy = instead_of(ufunc)
        if any(isinstance(each, np.ndarray) for each in inputs):
            remedy = f"move the NumPy array there with xferlib.to_device(x, device={str(self.device)!r}), or {remedy}"
        raise error(f"numpy.{ufunc.__name__} was given an array of {self.device}; {remedy}")

    def array_function(self: Array, function: Any, _: Any, args: Any, options: Any) -> Any:
        name = f"{function.__module__}.{function.__name__}"
        found = find_name(namespace, function.__name__)
        if found is not None and function.__name__ not in _OTHERWISE and dispatches():
            return operator.attrgetter(found)(namespace)(*args, **options)
        raise error(f"{name} was given an array of {self.device}; {instead_of(function)}")

    return {"__array_ufunc__": array_ufunc, "__array_function__": array_function, "__getattr__": array_getattr}


def _number_of(operand: Any, name: str) -> Any:
    """An operand as a number; None if it is none. NumPy makes a scalar on the left of a comparison a 0-d array."""
    if name in _COMPARING and type(operand) is np.ndarray and operand.ndim == 0:
        return operand[()]
    return operand if isinstance(operand, (np.generic, int, float, complex)) else None


# The names of the reductions, and the operators and methods that stand for functions of a namespace.

REDUCTIONS = ("all", "any", "argmax", "argmin", "count_nonzero", "max", "mean", "min")
ACCUMULATIONS = ("prod", "sum")
DEVIATIONS = ("std", "var")

METHODS = ("all", "any", "argmax", "argmin", "max", "mean", "min", "prod", "std", "sum", "var")
"""The reductions that are methods too."""

Method = Callable[..., Any]


def operators(namespace: Any, in_place: Callable[[str], Method]) -> dict[str, Method]:
    """The operators of an array type, by their special names.

    Args:
        namespace: The functions that they call.
        in_place: Makes the function ``target = name(target, other)`` in place.
    """
    found: dict[str, Method] = {}
    for each, name in {**UNARY_OPERATORS, **BINARY_OPERATORS, **COMPARISONS, "matmul": "matmul"}.items():
        function = getattr(namespace, name)
        found[f"__{each}__"] = _equality(function) if each in ("eq", "ne") else function
        if each not in UNARY_OPERATORS and each not in COMPARISONS:
            found[f"__r{each}__"] = _swap_operands(function)
    floor_divide, remainder = namespace.floor_divide, namespace.remainder
    found["__divmod__"] = lambda self, other: (floor_divide(self, other), remainder(self, other))
    found["__rdivmod__"] = lambda self, other: (floor_divide(other, self), remainder(other, self))
    return found | {f"__i{each}__": in_place(name) for each, name in BINARY_OPERATORS.items()}


def _equality(function: Method) -> Method:
    """An operator that leaves what is not a number to Python, for which it is not equal."""

    def equal(self: Array, other: Any) -> Any:
        return NotImplemented if other is None or type(other) is str else function(self, other)

    return _mark_like(function, equal)


def reductions(namespace: Any) -> dict[str, Method]:
    """The methods that reduce an array, by name."""
    return {name: _reduction(name, getattr(namespace, name)) for name in METHODS}


def _swap_operands(function: Method) -> Method:
    return _mark_like(function, lambda self, other: function(other, self))


def _mark_like(function: Method, made: Method) -> Method:
    """``made``, which passes its operands on to a function, with that function's mark (`primitives`)."""
    if hasattr(function, "passes_operands"):
        made.passes_operands = function.passes_operands  # type: ignore[attr-defined]
    return made


def _reduction(name: str, function: Method) -> Method:
    def method(self: Array, axis: Any = None, **options: Any) -> Array:
        return function(self, axis=axis, **options)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"``{name}`` of the namespace, over ``axis``; options as there."
    return method


# The operators and methods of arrays; most call the function of the Array API that they correspond to.

_MADE = "_methods_of_namespace"
"""The attribute of a class that names what it was given: another backend's namespace replaces these."""


def install(
    lib: Primitives, namespace: ModuleType, refusal: type[Exception], around: Callable[[Method], Method],
    dispatches: Callable[[], bool],
) -> None:  # fmt: skip
    """Give the array type of a library its operators and methods, but for those that its class defines itself.

    Args:
        lib: The library.
        namespace: The functions that operators call.
        refusal, around, dispatches: See `make_namespace`.
    """
    cls = lib.array_type
    found = {
        **operators(namespace, lambda name: primitives.in_place(lib, name)),
        **reductions(namespace),
        **_make_shape_methods(lib, namespace, around),
        **_interfaces(lib, namespace),
        **_conversions(),
        **interfaces(namespace, refusal, dispatches),
    }
    inherited = {name for base in cls.__mro__[1:] for name in vars(base)}
    found |= {name: method for name, method in _others(lib, namespace).items() if name not in inherited}
    kept = vars(cls).keys() - vars(cls).get(_MADE, ())
    setattr(cls, _MADE, found.keys() - kept)
    for name, method in found.items():
        if name not in kept:
            is_own = isfunction(method) and not hasattr(method, "__wrapped__")  # and no function of the namespace
            made = namespaces.translate_errors(method, name) if is_own and not name.startswith("__") else method
            setattr(cls, name, around(made) if is_own else made)


def _make_shape_methods(lib: Primitives, namespace: Any, around: Callable[[Method], Method]) -> dict[str, Any]:
    """Views and copies, as methods and properties."""

    def astype(self: Array, dtype: Any, *, copy: bool = True) -> Array:
        """The elements as another dtype."""
        return primitives.astype(lib, self, dtype, copy=copy)

    def reshape(self: Array, *shape: Any, order: str = "C") -> Array:
        """The elements in another shape, given as one tuple or as numbers: a view where strides allow.

        ``order="F"``: the elements are taken, and placed, with the first axis running fastest.
        """
        if not shape:
            raise LayoutTypeError("reshape: there is no shape; give one, such as x.reshape(-1) for one axis")
        wanted = shape[0] if len(shape) == 1 else shape
        if order == "C":
            return primitives.reshape(lib, self, wanted)
        if order != "F":
            raise ArgumentError(f"reshape: order={quote(order)} is neither 'C' nor 'F'")
        backwards = wanted[::-1] if isinstance(wanted, (tuple, list)) else wanted
        found = primitives.reshape(lib, _transpose(lib, self), backwards)
        return _transpose(lib, found)

    def ravel(self: Array, order: str = "C") -> Array:
        """The elements along one axis, in C or Fortran order: a view where strides allow."""
        return reshape(self, -1, order=order)

    def copy(self: Array) -> Array:
        """A copy of the elements, in C order."""
        return lib.copy(self)

    def transpose(self: Array, *axes: Any) -> Array:
        """A view with the axes in that order, given as one tuple or as numbers; reversed if none is given."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return primitives.permute_dims(lib, self, tuple(order)) if order else _transpose(lib, self)

    def squeeze(self: Array, axis: Any = None) -> Array:
        """A view without axes of one element: those given, or all."""
        shape = lib.info(self).shape
        return primitives.squeeze(
            lib, self, tuple(n for n in range(len(shape)) if shape[n] == 1) if axis is None else axis
        )

    def transposed(self: Array) -> Array:
        """A view with the axes reversed."""
        return _transpose(lib, self)

    def matrix_transposed(self: Array) -> Array:
        """A view with the last two axes exchanged."""
        return primitives.matrix_transpose(lib, self)

    def real(self: Array) -> Array:
        """A view of the real parts."""
        return primitives.real(lib, self)

    def imag(self: Array) -> Array:
        """The imaginary parts."""
        return primitives.imag(lib, self)

    parts = {"T": transposed, "mT": matrix_transposed, "real": real, "imag": imag}
    properties = {name: property(around(function)) for name, function in parts.items()}
    methods = (astype, reshape, ravel, copy, transpose, squeeze)
    functions = {"conj": namespace.conj, "conjugate": namespace.conj, "dot": namespace.dot}
    return {each.__name__: each for each in methods} | functions | properties


def _others(lib: Primitives, namespace: Any) -> dict[str, Any]:
    """NumPy's methods and properties that are functions of the namespace; a library's own by these names stay."""

    def cumprod(self: Array, axis: int | None = None, dtype: Any = None) -> Array:
        """The products so far along an axis; None: of all elements in C order."""
        flat, along = _along(lib, self, axis)
        return namespace.cumulative_prod(flat, axis=along, dtype=dtype)

    def cumsum(self: Array, axis: int | None = None, dtype: Any = None) -> Array:
        """The sums so far along an axis; None: of all elements in C order."""
        flat, along = _along(lib, self, axis)
        return namespace.cumulative_sum(flat, axis=along, dtype=dtype)

    def fill(self: Array, value: Any) -> None:
        """Set every element."""
        indexing.set_items(lib, self, ..., value)

    def flatten(self: Array) -> Array:
        """A copy of the elements along one axis, in C order."""
        return primitives.reshape(lib, lib.copy(self), -1)

    def round(self: Array, decimals: int = 0) -> Array:  # noqa: A001 - NumPy's name
        """The nearest integers, ties to even, in the same dtype."""
        if decimals != 0:
            raise ArgumentError(f"round: decimals={quote(decimals)}; only 0 is known: scale x before and after it")
        return namespace.round(self)

    def take(self: Array, indices: Any, axis: int | None = None) -> Array:
        """Parts along an axis, by their indices; None: of all elements in C order."""
        flat, along = _along(lib, self, axis)
        return namespace.take(flat, indices, axis=along)

    properties = {
        "itemsize": property(lambda self: lib.info(self).dtype.itemsize, doc="The bytes of one element."),
        "nbytes": property(lambda self: lib.info(self).nbytes, doc="The bytes of all elements."),
    }
    methods = (cumprod, cumsum, fill, flatten, round, take)
    functions = {name: getattr(namespace, name) for name in ("argsort", "clip", "nonzero", "repeat", "swapaxes")}
    return {each.__name__: each for each in methods} | functions | properties


def _along(lib: Primitives, x: Array, axis: int | None) -> tuple[Array, int]:
    """An array and an axis of it: of the elements in C order if ``axis`` is None."""
    return (primitives.reshape(lib, x, -1), 0) if axis is None else (x, axis)


def _transpose(lib: Primitives, x: Array) -> Array:
    return primitives.permute_dims(lib, x, (*reversed(range(len(lib.info(x).shape))),))


def _interfaces(lib: Primitives, namespace: ModuleType) -> dict[str, Any]:
    """Indexing, and what the Array API asks of an array."""

    def getitem(self: Array, key: Any, /) -> Array:
        return indexing.get(lib, self, key)

    def setitem(self: Array, key: Any, value: Any, /) -> None:
        indexing.set_items(lib, self, key, value)

    def imatmul(self: Array, other: Any, /) -> Array:
        found = extensions.matmul(lib, self, other)
        primitives.check_holds("matmul", lib.info(found).dtype, lib.info(self).dtype)
        indexing.set_items(lib, self, ..., found)
        return self

    def array_namespace(_: Array, *, api_version: str | None = None) -> ModuleType:  # noqa: ARG001 - there is one
        return namespace

    def to_device(self: Array, device: Any, /, *, stream: Any = None) -> Array:
        """The array on another device; itself where it is there."""
        return transfers.to_device(self, device=device, stream=stream, copy=None)

    def to_dlpack(
        self: Array, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        return dlpack.capsule(lib, self, stream, max_version, dl_device, copy)

    def length(self: Array) -> int:
        shape = lib.info(self).shape
        if not shape:
            raise TypeError("an array without axes has no length")
        return shape[0]

    return {
        "__getitem__": getitem, "__setitem__": setitem, "__imatmul__": imatmul, "__len__": length,
        "__array_namespace__": array_namespace, "to_device": to_device,
        "__dlpack__": to_dlpack, "__dlpack_device__": lambda self: dlpack.device(lib, self),
        "device": property(lambda self: lib.info(self).device, doc="The device that holds the array."),
        "ndim": property(lambda self: len(lib.info(self).shape), doc="The number of axes."),
        "size": property(lambda self: lib.info(self).size, doc="The number of elements."),
    }  # fmt: skip


def _conversions() -> dict[str, Method]:
    """Python numbers from an array of one element: each waits for the work on the current stream."""

    def item(self: Array) -> Any:
        """The one element as a Python number."""
        return _element(self, "x.item()").item()

    def tolist(self: Array) -> Any:
        """The elements as nested lists of Python numbers."""
        return transfers.to_host(self).tolist()

    def index(self: Array) -> int:
        return _element(self, "using x as an index")[()].__index__()  # type: ignore[no-any-return]

    def array(*_: Any, **__: Any) -> NoReturn:
        raise UnsupportedArrayError(
            "converting an array of a device to a NumPy array would copy it to the host; say so: xferlib.to_host(x)"
        )

    return {
        "item": item, "tolist": tolist, "__index__": index, "__array__": array,
        "__bool__": lambda self: bool(_element(self, "bool(x), as in `if x:`")),
        "__float__": lambda self: float(_element(self, "float(x)")[()]),
        "__int__": lambda self: int(_element(self, "int(x)")[()]),
        "__complex__": lambda self: complex(_element(self, "complex(x)")[()]),
    }  # fmt: skip


def _element(x: Array, what: str) -> Any:
    """The one element of an array, as a NumPy array without axes."""
    host = transfers.to_host(x)
    if host.size != 1:
        raise LayoutError(f"{what} needs one element, and the shape is {host.shape}; index it, or use xp.all or xp.any")
    return host.reshape(())


Function = Callable[..., Any]

_FUNCTIONS: tuple[Function, ...] = (
    functions.arange, functions.asarray, functions.empty, functions.empty_like, functions.eye, functions.from_dlpack,
    functions.full, functions.full_like, functions.linspace, functions.ones, functions.ones_like, functions.zeros,
    functions.zeros_like,
    functions.cumulative_prod, functions.cumulative_sum,
    primitives.clip,
    functions.concat, functions.meshgrid, functions.stack,
    extensions.matmul, extensions.outer, extensions.tensordot, extensions.vecdot,
    functions.diff, functions.repeat, functions.roll, functions.tile, functions.tril, functions.triu,
    indexing.nonzero, indexing.where,
    functions.isin, functions.unique_all, functions.unique_counts, functions.unique_inverse, functions.unique_values,
    primitives.astype, primitives.broadcast_arrays, primitives.broadcast_to, primitives.expand_dims, primitives.flip,
    primitives.imag, primitives.matrix_transpose, primitives.moveaxis, primitives.permute_dims,
    primitives.real, primitives.reshape, primitives.squeeze, primitives.unstack,
    functions.argsort, functions.searchsorted, functions.sort,
    functions.take, functions.take_along_axis,
)  # fmt: skip
_INSPECTION = (functions.can_cast, functions.finfo, functions.iinfo, functions.isdtype, functions.result_type)
_CONSTANTS: dict[str, Any] = {
    "pi": np.pi, "e": np.e, "inf": np.inf, "nan": np.nan, "newaxis": None,
    "broadcast_shapes": primitives.broadcast_shapes,
}  # fmt: skip


def names() -> frozenset[str]:
    """The names of functions that every namespace has."""
    tables = (dtypes.OF_ONE, dtypes.OF_TWO, REDUCTIONS, ACCUMULATIONS, DEVIATIONS)
    return frozenset(itertools.chain((each.__name__ for each in (*_FUNCTIONS, *numpys.FUNCTIONS)), *tables))


class _ByBackend:
    """The namespace of each backend as an attribute, where pickle finds what `make` has made."""

    def __getattr__(self, name: str) -> ModuleType:
        if name.startswith("_"):
            raise AttributeError(name)
        return registry.get(name).namespace()

    def __reduce__(self) -> str:
        return "by_backend"


by_backend = _ByBackend()


class _Namespace(ModuleType):
    """A namespace, or a part of one, that pickles by the name of its backend."""

    @property
    def _path(self) -> str:
        return self.__name__.removeprefix("xferlib.")

    def __reduce__(self) -> tuple[Any, tuple[_ByBackend]]:
        return operator.attrgetter(self._path), (by_backend,)

    def publish(self, functions: Iterable[Function], around: Callable[[Function], Function]) -> dict[str, Function]:
        """The functions as this namespace shows them: named as its own, their failures errors of ours."""
        found = {each.__name__: around(namespaces.translate_errors(each, each.__name__)) for each in functions}
        within = f"by_backend.{self._path}"
        return {name: namespaces.set_name(each, name, __name__, within=within) for name, each in found.items()}


def make(
    backend: Backend, array_type: type, refusal: type[Exception], around: Callable[[Function], Function] | None,
    dispatches: Callable[[], bool],
) -> ModuleType:  # fmt: skip
    """Make the namespace of a backend, and give its arrays their operators and methods; see `make_namespace`."""
    lib = Primitives(backend, array_type)
    namespace = _Namespace(
        f"xferlib.{backend.name}", f"The Array-API namespace of {backend.name} arrays, computed by xferlib's kernels."
    )
    found: dict[str, Any] = {name: np.dtype(name) for name in DTYPES} | _CONSTANTS
    found |= {each.__name__: each for each in _INSPECTION}
    found |= _bind_computed(lib) | {each.__name__: numpys.bind_first(lib, each) for each in _FUNCTIONS}
    found |= numpys.bind(namespace)
    around = around if around is not None else lambda function: function
    found |= namespace.publish(filter(isfunction, list(found.values())), around)
    vars(namespace).update(
        found,
        __all__=sorted(found),
        __array_api_version__="2025.12",
        __array_namespace_info__=lambda: functions.NamespaceInfo(backend.name),
    )
    for name, members in (("linalg", extensions.LINALG), ("fft", extensions.FFT)):
        part = _Namespace(f"{namespace.__name__}.{name}", f"``xp.{name}`` of {backend.name} arrays.")
        public = part.publish([numpys.bind_first(lib, each) for each in members], around)
        vars(part).update(public, __all__=sorted(public))
        setattr(namespace, name, part)
    for part in (namespace, namespace.linalg, namespace.fft):
        namespaces.explain_missing(namespace, part)
    install(lib, namespace, refusal, around, dispatches)
    return namespace


def _bind_computed(lib: Primitives) -> dict[str, Any]:
    """The functions of elements, and those that reduce."""
    kinds: tuple[tuple[Callable[[Primitives, str], Function], Iterable[str]], ...] = (
        (primitives.unary, dtypes.OF_ONE), (primitives.binary, dtypes.OF_TWO), (functions.reduction, REDUCTIONS),
        (functions.accumulation, ACCUMULATIONS), (functions.deviation, DEVIATIONS),
    )  # fmt: skip
    return {name: make(lib, name) for make, names in kinds for name in names}


class _LibrarysArrays(Primitives):
    """Of a library that has a namespace of its own: all arrays that it takes are as good as its own."""

    def own(self, array: Array) -> Array:
        return array


_EXACT = (functions.cumulative_prod, functions.cumulative_sum)


def make_exact(backend: Backend, array_type: type, library: ModuleType) -> ModuleType:
    """The namespace of a library in which xferlib computes what libraries compute differently.

    Those are the functions of elements, reductions, cumulative sums and products, and ``linalg.vector_norm``; of NumPy
    and CuPy ``astype``, ``finfo`` and ``isdtype`` too, which know all dtypes here. All else is the library's own.
    """
    lib = _LibrarysArrays(backend, array_type)
    found = _bind_computed(lib) | {each.__name__: numpys.bind_first(lib, each) for each in _EXACT}
    if isinstance(library.float32, type):  # a library of NumPy's dtypes, whose functions refuse those of ml_dtypes
        found["astype"] = numpys.bind_first(lib, primitives.astype)
        found["finfo"] = functools.partial(namespaces.ask_finfo, otherwise=library.finfo)
        found["isdtype"] = functools.partial(dtypes.ask_isdtype, otherwise=library.isdtype)
    norm = {"vector_norm": numpys.bind_first(lib, extensions.vector_norm)}
    linalg = _over("xferlib.exact.linalg", norm, library.linalg)
    return _over("xferlib.exact", {**found, "linalg": linalg}, library)


def get_exact_module(*arrays: Any) -> ArrayModule:
    """Return a namespace as `get_array_module` does, whose functions give the same bits on every backend.

    Libraries differ in the last digits of ``exp`` or ``sum``. Here functions of elements, reductions, cumulative sums
    and products, and ``linalg.vector_norm`` are xferlib's kernels: the bits of `elementwise` and of
    `xferlib.kernels.reductions`, with NumPy's dtypes. ``astype``, ``finfo`` and ``isdtype`` know bfloat16 and float8,
    which those of NumPy refuse. All else, such as ``reshape`` or ``matmul``, is the library's
    own, and so are operators: on CUDA torch computes ``x / 255`` with the rounded reciprocal, ``xp.divide(x, 255)``
    divides.

    Args:
        *arrays: As of `get_array_module`.

    Raises:
        MixedBackendsError, UnsupportedArrayError, UnsupportedError: As `get_array_module`.
    """
    backend = registry.common_backend(arrays, call="get_exact_module") or registry.get("numpy")
    own = [type(each) for each in arrays if registry.owner_of(each) is backend and not isinstance(each, np.generic)]
    array_type: Any = own[0] if own else np.ndarray
    return _exact_module(backend, array_type)


@functools.cache
def _exact_module(backend: Backend, array_type: Any) -> ModuleType:
    library = backend.namespace()
    is_own = library.__name__ == f"xferlib.{backend.name}"  # made by xferlib, of the same functions
    return library if is_own else make_exact(backend, array_type, library)


def _over(name: str, found: dict[str, Any], library: ModuleType) -> ModuleType:
    """A module with the names ``found``, and with the library's for all others."""
    module = ModuleType(name, f"{library.__name__}, with functions that give the same bits on every backend.")
    public = {
        name: namespaces.translate_errors(each, name) if isfunction(each) else each for name, each in found.items()
    }
    vars(module).update(
        public,
        __getattr__=lambda missing: getattr(library, missing),
        __dir__=lambda: sorted({*dir(library), *public}),
    )
    return module


# Names that the package does not have: what the program probably wanted.

_ELSEWHERE = {
    "Array": "DeviceArray", "Buffer": "empty(shape, dtype)", "array": "to_device(x)", "as_tensor": "to_device(x)",
    "asnumpy": "to_host(x)", "backend": "get_backend()", "block_until_ready": "synchronize()",
    "copy": "copy_to(x, xferlib.device_of(x))", "cuda": "get_device('cuda:0')", "current_device": "get_device()",
    "device": "get_device(spec)", "device_count": "available_backends()", "device_synchronize": "synchronize()",
    "device_get": "to_host(x)", "device_put": "to_device(x)", "devices": "available_backends()",
    "from_numpy": "to_device(x)", "fuse": "elementwise(function)", "get_array": "to_host(x)",
    "gpuarray": "to_device(x)", "graph": "Stream().capture()", "is_available": "available_backends()",
    "jit": "elementwise(function)", "kernel": "elementwise(function)", "manual_seed": "random.default_rng(seed)",
    "mem_alloc": "empty(shape, dtype)", "mem_get_info": "get_device().free_memory",
    "list_devices": "available_backends()", "map": "stream_map(fn, source, chunk_rows=n)",
    "memcpy_dtoh": "to_host(d, out=h)", "memcpy_htod": "to_device(h, out=d)",
    "memory_info": "get_device().free_memory", "memory_allocated": "get_device().free_memory",
    "ndarray": "DeviceArray", "pagelocked_empty": "pinned_empty(shape, dtype)", "pin_memory": "pinned_array(x)",
    "profile": "trace()", "profiler": "trace()", "rand": "random.default_rng().random(shape)",
    "randn": "random.default_rng().standard_normal(shape)", "raw_kernel": "raw_module(source).get_function(name)",
    "reduce": "reduction('T x', 'T y', map_expr='x', reduce_expr='a + b')", "set_backend": "use_backend(name)",
    "set_device": "get_device(spec).use()", "seed": "random.default_rng(seed)", "stream": "Stream()",
    "use_device": "get_device(spec).use()", "vectorize": "elementwise(function)", "SourceModule": "raw_module(source)",
    "sync": "synchronize()", "tensor": "to_device(x)", "to_cpu": "to_host(x)", "to_gpu": "to_device(x)",
    "to_numpy": "to_host(x)",
}  # fmt: skip
"""Verbs of other libraries, and the call that does the same."""
_MODULES = ("backends", "distributed", "testing")


def explain_missing_name(name: str) -> AttributeError:
    """The error for a name that the module lacks; Python's traceback adds a name that is like it."""
    remedy = ""
    if name in _ELSEWHERE:
        remedy = f"; xferlib.{_ELSEWHERE[name]} does that"
    elif callable(getattr(np, name, None)) and (known := RENAMED.get(name, name)) in names():
        remedy = f"; functions of arrays are in the namespace of their library: xferlib.get_array_module(x).{known}"
    elif name in _MODULES:
        remedy = f"; it is a module of its own: import xferlib.{name}"
    elif isinstance(kind := getattr(np, name, None), type) and issubclass(kind, np.generic):
        remedy = f"; dtypes are NumPy's: numpy.{name}, or a text such as 'float32'"
    elif callable(getattr(np, name, None)):
        remedy = f"; use numpy.{name} with xferlib.to_host(x)"
    return AttributeError(f"module 'xferlib' has no attribute {name!r}{remedy}", name=name, obj=sys.modules["xferlib"])
