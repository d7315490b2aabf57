"""The functions of a traced kernel: the module that ``x.__array_namespace__()`` gives for a traced value.

They are named as in the Array API and in NumPy. NumPy's own ufuncs, ``np.where`` and ``np.clip`` work on
traced values as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xferlib.kernels.functions import ALIASES, TABLE
from xferlib.kernels.python_frontend import FUNCTIONS, UFUNCS, Traced, apply, astype, clip, where

__all__ = ["FUNCTIONS", "UFUNCS", "astype", "clip", "where"]


def _function(name: str) -> Callable[..., Traced]:
    def call(*args: Any) -> Traced:
        return apply(name, args)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"``{name}`` of traced values and Python scalars, with NumPy's promotion."
    return call


for _name in (*TABLE, *ALIASES):
    globals()[_name] = _function(_name)
    __all__ += [_name]  # noqa: PLE0604 - the table is the list of names

for _name, _composite in UFUNCS.items():
    globals()[_name] = _composite
    __all__ += [_name]  # noqa: PLE0604 - the table is the list of names
