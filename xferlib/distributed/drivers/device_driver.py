"""The seam to what carries device memory from GPU to GPU, without the host between.

Memory arrives as addresses, checked: contiguous and not empty. Operations are enqueued on a stream and return at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.raw import RawStream


class Order(NamedTuple):
    """Where an operation is enqueued."""

    device: Device
    stream: RawStream
    backend: Backend
    """Of the stream."""
    is_beside: bool = False
    """Whether it runs beside later work of the stream, until `Enqueued.wait`."""


class Enqueued(ABC):
    """An operation beside a stream's work."""

    @abstractmethod
    def is_done(self) -> bool: ...

    @abstractmethod
    def wait(self) -> None:
        """Order the stream's later work behind the operation."""


class DeviceDriver(ABC):
    """Carries device memory between the ranks of one group, each of which has a device of its own."""

    name: str

    @abstractmethod
    def reduces(self, dtype: np.dtype[Any], op: str) -> bool:
        """Whether `all_reduce` knows the dtype and the operation, ``mean`` among them."""

    def scatters(self, dtype: np.dtype[Any], op: str) -> bool:
        """Whether `reduce_scatter` knows them."""
        return self.reduces(dtype, op)

    @abstractmethod
    def all_reduce(
        self, out: int, x: int, count: int, dtype: np.dtype[Any], op: str, order: Order
    ) -> Enqueued | None: ...

    @abstractmethod
    def reduce_scatter(
        self, out: int, x: int, count: int, dtype: np.dtype[Any], op: str, order: Order
    ) -> Enqueued | None:
        """``count`` is of ``out``."""

    @abstractmethod
    def broadcast(self, x: int, nbytes: int, root: int, order: Order) -> Enqueued | None: ...

    @abstractmethod
    def all_gather(self, out: int, x: int, nbytes: int, order: Order) -> Enqueued | None:
        """``nbytes`` are of ``x``."""

    @abstractmethod
    def all_to_all(self, out: int, x: int, nbytes: int, order: Order) -> Enqueued | None:
        """``nbytes`` are of all parts together."""

    @abstractmethod
    def is_idle(self) -> bool:
        """Whether every operation is complete; asked by another thread."""

    def failure(self) -> str:
        """The failure that the library has found, such as a connection that was closed; empty for nothing."""
        return ""

    def abort(self) -> None:
        """Drop operations that cannot be completed; their results are undefined. Nothing is called afterwards."""

    def close(self) -> None:
        """Release what the library holds; every rank calls it."""
