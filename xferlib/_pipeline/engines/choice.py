"""The kind of engine that an object is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xferlib._pipeline.engines import executor, ranks
from xferlib.errors import ArgumentError, shown

if TYPE_CHECKING:
    from xferlib._pipeline.engines.ranges import MapRequest


def runner_of(engine: Any) -> Callable[[MapRequest, Any], Any]:
    """The function that computes a call on an engine.

    Raises:
        ArgumentError: It is none.
    """
    if _has(engine, "rank", "size", "barrier"):
        return ranks.run
    if _has(engine, "submit") and not isinstance(engine, type):
        return executor.run
    raise ArgumentError(
        f"stream_map: engine={shown(engine)} is no engine; give a dask.distributed.Client, an executor of "
        "concurrent.futures, or a communicator with rank, size and barrier()"
    )


def _has(engine: Any, *names: str) -> bool:
    try:
        return all(hasattr(engine, name) for name in names)
    except Exception:  # a foreign object may raise anything
        return False
