"""The namespace of a library: the functions of this package, bound to its arrays."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._api.arrays import (
    creation,
    cumulative,
    elementwise,
    inspection,
    joining,
    manipulation,
    methods,
    operators,
    reductions,
    selecting,
    sets,
    shaping,
    sorting,
)
from xferlib._api.arrays.extensions import fft, linalg
from xferlib._api.arrays.primitives import Primitives
from xferlib._core import namespaces, promotion
from xferlib._core.array import DTYPES

if TYPE_CHECKING:
    from xferlib._core.backend import Backend

Function = Callable[..., Any]

_FUNCTIONS: tuple[Function, ...] = (
    creation.arange, creation.asarray, creation.empty, creation.empty_like, creation.eye, creation.from_dlpack,
    creation.full, creation.full_like, creation.linspace, creation.ones, creation.ones_like, creation.zeros,
    creation.zeros_like,
    cumulative.cumulative_prod, cumulative.cumulative_sum,
    elementwise.clip,
    joining.concat, joining.meshgrid, joining.stack,
    linalg.matmul, linalg.outer, linalg.tensordot, linalg.vecdot,
    manipulation.diff, manipulation.repeat, manipulation.roll, manipulation.tile, manipulation.tril, manipulation.triu,
    selecting.nonzero, selecting.where,
    sets.isin, sets.unique_all, sets.unique_counts, sets.unique_inverse, sets.unique_values,
    shaping.astype, shaping.broadcast_arrays, shaping.broadcast_to, shaping.expand_dims, shaping.flip,
    shaping.imag, shaping.matrix_transpose, shaping.moveaxis, shaping.permute_dims,
    shaping.real, shaping.reshape, shaping.squeeze, shaping.unstack,
    sorting.argsort, sorting.searchsorted, sorting.sort,
    manipulation.take, manipulation.take_along_axis,
)  # fmt: skip
_INSPECTION = (inspection.can_cast, inspection.finfo, inspection.iinfo, inspection.result_type)
_CONSTANTS: dict[str, Any] = {
    "pi": np.pi, "e": np.e, "inf": np.inf, "nan": np.nan, "newaxis": None, "isdtype": np.isdtype,
    "broadcast_shapes": shaping.broadcast_shapes,
}  # fmt: skip


def names() -> frozenset[str]:
    """The names of functions that every namespace has."""
    tables = (promotion.OF_ONE, promotion.OF_TWO, operators.REDUCTIONS, operators.ACCUMULATIONS, operators.DEVIATIONS)
    return frozenset(itertools.chain((each.__name__ for each in _FUNCTIONS), *tables))


def make(
    backend: Backend, array_type: type, refusal: type[Exception], around: Callable[[Function], Function] | None
) -> ModuleType:
    """Make the namespace of a backend, and give its arrays their operators and methods; see `make_namespace`."""
    lib = Primitives(backend, array_type)
    namespace = ModuleType(
        f"xferlib.{backend.name}", f"The Array-API namespace of {backend.name} arrays, computed by xferlib's kernels."
    )
    found: dict[str, Any] = {name: np.dtype(name) for name in DTYPES} | _CONSTANTS
    found |= {each.__name__: each for each in _INSPECTION}
    found |= {name: elementwise.unary(lib, name) for name in promotion.OF_ONE}
    found |= {name: elementwise.binary(lib, name) for name in promotion.OF_TWO}
    found |= {name: reductions.reduction(lib, name) for name in operators.REDUCTIONS}
    found |= {name: reductions.accumulation(lib, name) for name in operators.ACCUMULATIONS}
    found |= {name: reductions.deviation(lib, name) for name in operators.DEVIATIONS}
    found |= {each.__name__: _bound(lib, each) for each in _FUNCTIONS}
    around = around if around is not None else _unchanged
    found = {
        name: around(namespaces.guarded(each, name)) if inspect.isfunction(each) else each
        for name, each in found.items()
    }
    vars(namespace).update(
        found,
        __all__=sorted(found),
        __array_api_version__="2025.12",
        __array_namespace_info__=lambda: inspection.NamespaceInfo(backend.name),
    )
    for extension in (linalg, fft):
        name = extension.__name__.rpartition(".")[2]
        made = ModuleType(f"{namespace.__name__}.{name}", extension.__doc__)
        bound = {each.__name__: namespaces.guarded(_bound(lib, each), each.__name__) for each in extension.FUNCTIONS}
        functions = {each: around(function) for each, function in bound.items()}
        vars(made).update(functions, __all__=sorted(functions))
        setattr(namespace, name, made)
    for part in (namespace, namespace.linalg, namespace.fft):
        namespaces.explain_missing(namespace, part)
    methods.install(lib, namespace, refusal, around)
    return namespace


def _unchanged(function: Function) -> Function:
    return function


def _bound(lib: Primitives, function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` without its first parameter, the library."""

    @functools.wraps(function)
    def bound(*args: Any, **options: Any) -> Any:
        return function(lib, *args, **options)

    parameters = [*inspect.signature(function).parameters.values()][1:]
    vars(bound)["__signature__"] = inspect.Signature(parameters)
    del bound.__wrapped__
    return bound
