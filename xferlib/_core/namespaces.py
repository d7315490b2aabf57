"""Array-API namespaces for libraries that have none: written above the backends, and found here by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xferlib.errors import UnsupportedArrayError

if TYPE_CHECKING:
    from types import ModuleType

    from xferlib._core.backend import Arrays

Function = Callable[..., Any]

_MAKER = "xferlib._api.arrays.namespace"


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
