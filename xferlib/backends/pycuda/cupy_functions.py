"""``linalg`` and ``fft`` of PyCUDA's arrays: CuPy's, over the same memory and on the same stream."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xferlib._core.array import ArrayInfo
    from xferlib._core.raw import RawStream


class CupyFunctions:
    """See `FunctionLibrary`.

    CuPy allocates results and temporaries from its own pool, which gives free memory to later work of the same stream
    only. Shared code copies the results to arrays of PyCUDA's backend, so that none of CuPy's memory outlives a call.

    Raises:
        ImportError: CuPy, or array-api-compat, is not installed.
    """

    def __init__(self) -> None:
        import cupy
        import cupyx

        from xferlib.backends.cupy import namespace

        self.namespace: Any = namespace
        self._cupy: Any = cupy
        self._errors: Any = cupyx.errstate

    @contextlib.contextmanager
    def inside(self, stream: RawStream) -> Iterator[None]:
        cuda = self._cupy.cuda
        with (
            cuda.Device(stream.device.index),
            cuda.Stream.from_external(stream.core) if stream.handle else cuda.Stream.null,
            self._errors(linalg="raise"),
        ):
            yield

    def view(self, info: ArrayInfo) -> Any:
        described = {
            "data": (info.pointer, False), "shape": info.shape, "strides": None, "typestr": info.dtype.str, "version": 3
        }  # fmt: skip
        return self._cupy.asarray(SimpleNamespace(__cuda_array_interface__=described))
