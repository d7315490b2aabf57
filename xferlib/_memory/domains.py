"""Objects that the backends of one pinned domain share, as they share the memory: a pool, a ring, registrations."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from xferlib._runtime.fork import reset_in_child

if TYPE_CHECKING:
    from xferlib._core.backend import Backend

T = TypeVar("T")


class PerDomain(Generic[T]):
    """One object for each pinned domain, made at the first need; a forked child begins with none.

    Args:
        make: Makes the object of a backend's domain.

    Attributes:
        made: The objects by domain.
    """

    def __init__(self, make: Callable[[Backend], T]) -> None:
        self._make = make
        self._reset()
        reset_in_child(self._reset)

    def _reset(self) -> None:
        self.made: dict[str, T] = {}
        self._lock = threading.RLock()  # reentrant: a finalizer may run inside

    def of(self, backend: Backend) -> T:
        """Return the object of a backend's domain."""
        domain = backend.pinned_domain
        found = self.made.get(domain)
        if found is None:
            with self._lock:
                found = self.made.get(domain)  # another thread may have made it meanwhile
                if found is None:
                    found = self.made[domain] = self._make(backend)
        return found

    def all(self) -> tuple[T, ...]:
        """Return those that exist; other threads may make more meanwhile."""
        return tuple(self.made.values())
