"""The Array-API namespace of the simulated devices: every function is an operation on a stream."""

# ruff: noqa: F401 - what is imported here is what the namespace consists of

from __future__ import annotations

import numpy as np

from xferlib._api.arrays import inspection as _inspection
from xferlib._api.arrays import operators as _names
from xferlib._api.arrays.inspection import can_cast, finfo, iinfo, result_type
from xferlib._core import promotion as _promotion
from xferlib.sim.arrays import elementwise as _elementwise
from xferlib.sim.arrays.creation import (  # fmt: skip
    arange,
    asarray,
    empty,
    empty_like,
    eye,
    from_dlpack,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from xferlib.sim.arrays.elementwise import clip, where
from xferlib.sim.arrays.shaping import (  # fmt: skip
    astype,
    broadcast_arrays,
    broadcast_to,
    expand_dims,
    flip,
    matrix_transpose,
    moveaxis,
    permute_dims,
    reshape,
    squeeze,
    unstack,
)
from xferlib.sim.arrays.whole_array import (  # fmt: skip
    argsort,
    concat,
    cumulative_prod,
    cumulative_sum,
    diff,
    matmul,
    meshgrid,
    nonzero,
    repeat,
    roll,
    searchsorted,
    sort,
    stack,
    take,
    take_along_axis,
    tensordot,
    tile,
    tril,
    triu,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
    vecdot,
)

__array_api_version__ = "2024.12"

bool = np.dtype("bool")  # noqa: A001 - the Array API's name
int8, int16, int32, int64 = (np.dtype(f"int{bits}") for bits in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64))
float16, float32, float64 = (np.dtype(f"float{bits}") for bits in (16, 32, 64))
complex64, complex128 = np.dtype("complex64"), np.dtype("complex128")
pi, e, inf, nan, newaxis = np.pi, np.e, np.inf, np.nan, None
isdtype = np.isdtype

for _name in _promotion.OF_ONE:
    globals()[_name] = _elementwise.unary(_name)
for _name in _promotion.OF_TWO:
    globals()[_name] = _elementwise.binary(_name)
for _name in _names.REDUCTIONS:
    globals()[_name] = _elementwise.reduction(_name)
for _name in _names.ACCUMULATIONS:
    globals()[_name] = _elementwise.accumulation(_name)
for _name in _names.DEVIATIONS:
    globals()[_name] = _elementwise.deviation(_name)


def __array_namespace_info__() -> _inspection.NamespaceInfo:  # noqa: N807 - the Array API's name
    """The inspection functions of this namespace."""
    return _inspection.NamespaceInfo("sim")


__all__ = [name for name in sorted(globals()) if not name.startswith("_") and name not in ("annotations", "np")]
