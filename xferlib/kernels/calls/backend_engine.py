"""The engine of a backend whose arrays are neither on a CPU nor on a CUDA device.

Such a backend supplies it by `DeviceKernels.engine`, which is called when a kernel call is prepared: the backend need
not import the kernels before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.raw import RawStream
    from xferlib.kernels.calls.prepared import Prepared


class Reduce(Protocol):
    """Runs a reduction in its order on the device: ``run(args, results)`` computes it on host memory."""

    def __call__(
        self,
        name: str,
        run: Callable[[Sequence[Any], Sequence[Any]], None],
        args: Sequence[Any],
        results: Sequence[Any],
    ) -> None: ...


class StandIn(Protocol):
    """Runs the NumPy function of a raw kernel in its order on the device.

    ``values`` are the arguments as they are passed by value, ``written`` the arrays that are not ``const``.
    """

    def __call__(
        self,
        name: str,
        function: Callable[..., Any],
        args: Sequence[Any],
        values: Sequence[Any],
        written: Sequence[Any],
        stream: RawStream,
    ) -> None: ...


class BackendEngine(NamedTuple):
    """The functions with which a backend runs kernels itself."""

    call: type[Prepared]
    """The class of checked element-wise calls."""
    reduce: Reduce
    stand_in: StandIn


def engine_of(backend: Backend) -> BackendEngine | None:
    """The engine that a backend supplies; None for one that computes on host memory or on CUDA."""
    engine: BackendEngine | None = backend.kernels.engine() if backend.kernels is not None else None
    return engine
