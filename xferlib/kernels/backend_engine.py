"""The engine of a backend whose arrays are neither on a CPU nor on a CUDA device.

Such a backend supplies it by `Backend.engine`, which is called when a kernel call is prepared: the backend need
not import the kernels before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import RawStream
    from xferlib.kernels.cuda_cpu.module import EmulatedKernel


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


class Emulate(Protocol):
    """Runs the source of a raw kernel in its order on the device; ``written`` as of `StandIn`."""

    def __call__(
        self, name: str, kernel: EmulatedKernel, args: Sequence[Any], written: Sequence[Any], stream: RawStream
    ) -> None: ...


class BackendEngine(NamedTuple):
    """The functions with which a backend runs kernels itself."""

    call: type[Any]
    """The class of checked element-wise calls."""
    reduce: Reduce
    stand_in: StandIn
    emulate: Emulate


def engine_of(backend: Backend) -> BackendEngine | None:
    """The engine that a backend supplies; None for one that computes on host memory or on CUDA."""
    engine: BackendEngine | None = backend.engine()
    return engine
