"""Objects that the backends of one pinned domain share, as they share the memory: a pool, registrations, rings."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from xferlib._runtime.fork import reset_in_child

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device

T = TypeVar("T")


class _Shared(Generic[T]):
    """Objects by key, each made at the first need; a forked child begins with none.

    Attributes:
        made: The objects by key.
    """

    def __init__(self) -> None:
        self._reset()
        reset_in_child(self._reset)

    def _reset(self) -> None:
        self.made: dict[Any, T] = {}
        self._lock = threading.RLock()  # reentrant: a finalizer may run inside

    def _make_once(self, key: Hashable, make: Callable[[], T]) -> T:
        with self._lock:
            found = self.made.get(key)  # another thread may have made it meanwhile
            if found is None:
                found = self.made[key] = make()
        return found

    def all(self) -> tuple[T, ...]:
        """Return those that exist; other threads may make more meanwhile."""
        return tuple(self.made.values())


class PerDomain(_Shared[T]):
    """One object for each pinned domain.

    Args:
        make: Makes the object of a backend's domain.
    """

    def __init__(self, make: Callable[[Backend], T]) -> None:
        super().__init__()
        self._make = make

    def of(self, backend: Backend) -> T:
        """Return the object of a backend's domain."""
        found = self.made.get(backend.pinned_domain)
        return found if found is not None else self._make_once(backend.pinned_domain, lambda: self._make(backend))


class PerDevice(_Shared[T]):
    """One object for each device, whichever backends use it.

    Args:
        make: Makes the object of a device; the backend is the first to use it.
    """

    def __init__(self, make: Callable[[Backend, Device], T]) -> None:
        super().__init__()
        self._make = make

    def of(self, backend: Backend, device: Device) -> T:
        """Return the object of a device of ``backend``."""
        key = (backend.pinned_domain, device.index)
        found = self.made.get(key)
        return found if found is not None else self._make_once(key, lambda: self._make(backend, device))
