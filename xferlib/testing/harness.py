"""The base of every part of the conformance suite: the backend under test, and how to drive it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

import xferlib as xl
from xferlib._core import registry
from xferlib._core.backend import Backend
from xferlib.testing.tools import replaced

HostArray = np.ndarray[Any, Any]


def in_threads(work: Callable[[Any], object], given: Iterable[Any]) -> None:
    """Call ``work`` with each of ``given``, each in a thread of its own, all at once; raises the first error of one."""
    errors: list[BaseException] = []

    def run(each: Any) -> None:
        try:
            work(each)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(each,)) for each in given]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


class Harness:
    """The backend under test.

    Attributes:
        backend: Its registry name.
        device: A specification of the device, ``"torch:cpu"``; the backend's current one if None.
        max_examples: Layouts that Hypothesis draws for each property.
        negative_steps: Whether the library's own indexing takes negative steps.
        phases: Hypothesis's phases; without ``shrink`` a failure is reported sooner, with a larger example.
    """

    backend: str = "numpy"
    device: str | None = None
    max_examples: int = 60
    negative_steps: bool = False
    phases: tuple[Phase, ...] = tuple(Phase)

    @property
    def target_device(self) -> xl.Device:
        return xl.get_device(self.device if self.device is not None else self.backend)

    @property
    def raw(self) -> Backend:
        """The part of the backend that serves the device."""
        return registry.get(self.backend).at(self.target_device)

    @property
    def is_async(self) -> bool:
        return self.raw.capabilities.streams

    def need(self, ability: str) -> None:
        """Skip the test, with the backend's own reason, where the ability is missing."""
        if not getattr(self.raw.capabilities, ability):
            pytest.skip(f"{self.target_device}: {self.raw.capabilities.reason(ability)}")

    def forall(self, check: Callable[..., None], *drawn: SearchStrategy[Any], share: float = 1.0) -> None:
        """Run ``check`` on examples of the strategies; ``share`` of `max_examples` times, for slow checks."""
        relaxed = settings(
            max_examples=max(1, round(self.max_examples * share)),
            phases=self.phases,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        )
        relaxed(given(*drawn)(check))()

    # --- transfers to and from the device under test

    def up(self, x: Any, **options: Any) -> Any:
        return xl.to_device(x, device=None if "out" in options else self.target_device, **options)

    def up_async(self, x: Any, **options: Any) -> xl.Transfer:
        return xl.to_device_async(x, device=None if "out" in options else self.target_device, **options)

    def down(self, d: Any, **options: Any) -> HostArray:
        return xl.to_host(d, **options)

    def shape_of(self, d: Any) -> tuple[int, ...]:
        return self.raw.view(d).shape

    def stream(self) -> xl.Stream:
        return xl.Stream(self.target_device)

    def pinned(self, x: HostArray) -> HostArray:
        """A pinned copy of a host array."""
        return xl.pinned_array(x, backend=self.backend)

    def synchronize(self) -> None:
        """Wait for everything on the device."""
        self.target_device.synchronize()

    def patched(self, owner: Any, name: str, value: Any) -> AbstractContextManager[None]:
        """Replace an attribute for a block."""
        return replaced(owner, name, value)


PATHS: tuple[str | None, ...] = (None, "small", "staged", "permuted")
"""The paths that a test can force on a pageable array; ``"pinned"`` needs a pinned one."""
