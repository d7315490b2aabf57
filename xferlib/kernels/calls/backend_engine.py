"""The engine that a backend brings along: how kernels run on arrays that are neither on a CPU nor on a CUDA device.

CPUs and CUDA devices have the engines of this package. Any other backend supplies its own by `DeviceKernels.engine`,
which is called when a kernel call is prepared: the backend need not import the kernels before.
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
    """What a backend supplies to run kernels itself."""

    call: type[Prepared]
    """An element-wise call, checked and ready to be repeated."""
    reduce: Reduce
    stand_in: StandIn


def engine_of(backend: Backend) -> BackendEngine | None:
    """The engine that a backend supplies; None: it computes on host memory, or on CUDA."""
    engine: BackendEngine | None = backend.kernels.engine() if backend.kernels is not None else None
    return engine
