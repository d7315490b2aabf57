"""Transfers as streams see them, those not enqueued yet by their stream; and their use as arrays, which is refused."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from xferlib._core import devices
from xferlib._core.array import BINARY_OPERATORS
from xferlib._core.ordering.bound import ProcessBound
from xferlib._runtime import peer_names
from xferlib.errors import UnsupportedArrayError

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.raw import RawStream


RESULT_REMEDY = "the array is what its result() gives: write transfer.result()"
_ORDERINGS = ("lt", "le", "gt", "ge")
_OTHERS = ("neg", "pos", "abs", "invert", "matmul", "rmatmul", "getitem", "setitem", "iter", "float", "int", "complex")


if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Result_co = TypeVar("Result_co", default=Any, covariant=True)
else:
    from typing import TypeVar

    Result_co = TypeVar("Result_co", covariant=True)  # typing has no defaults before Python 3.13


class ArrayUse(ProcessBound):
    """Refuses an array's operators, conversions and attributes; comparing with ``==`` stays by identity."""

    __slots__ = ()
    _elsewhere = "send the array that it gives"
    __array_priority__ = 1000.0
    _instead: ClassVar[tuple[str, str]] = ("a Transfer is a copy in progress", RESULT_REMEDY)
    """The sort of thing, and the way to its array."""
    _peers: ClassVar[Mapping[str, str]] = peer_names.TRANSFER_NAMES
    """Names of other libraries' handles, and ours."""

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise self._refusal("conversion to an array")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> NoReturn:
        raise self._refusal(f"numpy.{ufunc.__name__}")

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> NoReturn:
        raise self._refusal(f"numpy.{function.__name__}")

    def _refusal(self, what: str) -> UnsupportedArrayError:
        is_what, remedy = self._instead
        return UnsupportedArrayError(f"{what}: {is_what}, not an array; {remedy}")

    if not TYPE_CHECKING:  # or every name would be an attribute for a type checker

        def __getattr__(self, name: str) -> NoReturn:
            if not name.startswith("_") and hasattr(np.ndarray, name):
                what, remedy = self._instead[0].partition(" is ")[0], self._instead[1]
                raise AttributeError(f"{what} is no array and has no {name!r}; {remedy}.{name}", name=name, obj=self)
            peer_names.refuse(self, name, self._peers)


def _install_refusals() -> None:
    def refusing(name: str) -> Any:
        def method(self: ArrayUse, *_: Any) -> NoReturn:
            raise self._refusal(name)

        return method

    for name in (*BINARY_OPERATORS, *(f"r{each}" for each in BINARY_OPERATORS), *_ORDERINGS, *_OTHERS):
        setattr(ArrayUse, f"__{name}__", refusing(f"__{name}__"))


_install_refusals()


class PendingTransfer(ArrayUse, ABC):
    """A transfer, as streams see it."""

    __slots__ = ()

    @abstractmethod
    def settle(self, timeout_s: float | None = None) -> None:
        """Wait until every copy is enqueued, or the transfer has failed."""

    @abstractmethod
    def poll(self) -> None:
        """Begin the transfer if it was put off, and drive it if no thread does."""

    @abstractmethod
    def hold_back(self, stream: RawStream, backend: Backend) -> None:
        """Make later work on ``stream``, of ``backend``, wait for it."""


_pending: dict[tuple[Device, int], list[PendingTransfer]] = {}
_pending_lock = threading.RLock()  # reentrant: a finalizer may run inside


def pending_on(raw: RawStream) -> tuple[PendingTransfer, ...]:
    if not _pending:
        return ()
    with _pending_lock:
        return tuple(_pending.get((raw.device, raw.handle), ()))


def settle_all(device: Device | None = None) -> None:
    """Wait until every transfer begun so far is enqueued, or has failed; those on one device if it is given."""
    for (place, _), transfers in list(_pending.items()):
        if device is None or place == device:
            for transfer in list(transfers):
                transfer.settle()


devices.settle = settle_all


def add_pending(raw: RawStream, transfer: PendingTransfer) -> None:
    with _pending_lock:
        _pending.setdefault((raw.device, raw.handle), []).append(transfer)


def remove_pending(raw: RawStream, transfer: PendingTransfer) -> None:
    with _pending_lock:
        key = (raw.device, raw.handle)
        waiting = _pending.get(key)
        if waiting is not None and transfer in waiting:
            waiting.remove(transfer)
            if not waiting:
                del _pending[key]
